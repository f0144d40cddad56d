//! Loads and inspects pages in a headless Chromium, over the DevTools protocol.
//!
//! The protocol's JSON goes through two pipes (`--remote-debugging-pipe`: file descriptors 3 and 4, messages end with
//! NUL), so that no port and no client library is needed. One browser serves all tests of a program, one [`Tab`] at a
//! time. It ends with the program, which removes its profile.
//!
//! Nothing here depends on the page's content. Another crate's tests may include this file by `#[path]`.

#![allow(dead_code, unreachable_pub, reason = "each program of tests uses a part")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout for an answer, after which the browser is considered dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Script that finds wrong labels of figures, as drawn by the browser: labels that leave their figure, cover another
/// label, or are cut.
const WRONG_LABELS: &str = r"(() => {
    const wrong = [];
    for (const svg of document.querySelectorAll('svg.chart')) {
        const frame = svg.getBoundingClientRect(), k = frame.width / svg.viewBox.baseVal.width;
        const name = svg.closest('figure')?.id ?? svg.id;
        const seen = [...svg.querySelectorAll('text')].filter((it) => it.getClientRects().length && it.textContent);
        const boxes = seen.map((text) => {
            // From the height of capitals to the depth of letters such as g, rather than the whole line.
            const b = text.getBBox(), m = text.getScreenCTM(), top = b.y + 0.15 * b.height;
            return [[b.x, top], [b.x + b.width, top], [b.x + b.width, b.y + b.height], [b.x, b.y + b.height]]
                .map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
        });
        const separates = (c, i, others) => {
            const side = [c[i + 1][0] - c[i][0], c[i + 1][1] - c[i][1]], length = Math.hypot(...side) || 1;
            const ends = (of) => of.map(([x, y]) => (x * side[0] + y * side[1]) / length);
            const [a, b] = [ends(c), ends(others)], slack = 0.6 * k;
            return Math.max(...a) <= Math.min(...b) + slack || Math.max(...b) <= Math.min(...a) + slack;
        };
        const meet = (a, b) => ![[a, b], [b, a]].some(([c, d]) => [0, 1].some((i) => separates(c, i, d)));
        boxes.forEach((box, i) => {
            const words = seen[i].textContent;
            const isOut = box.some(([x, y]) => x < frame.left - k || x > frame.right + k || y < frame.top - k || y > frame.bottom + k);
            if (isOut) wrong.push(`${name}: '${words}' leaves the figure`);
            if (seen[i].firstChild.textContent.endsWith('…')) wrong.push(`${name}: '${words}' is cut`);
            boxes.slice(i + 1).forEach((other, j) => {
                if (meet(box, other)) wrong.push(`${name}: '${words}' covers '${seen[i + 1 + j].textContent}'`);
            });
        });
    }
    return wrong;
})()";

static SHARED: Mutex<Option<Browser>> = Mutex::new(None);

#[derive(Debug)]
struct Browser {
    input: ChildStdin,
    incoming: Receiver<Value>,
    last_id: u64,
}

/// The browser's only tab; while it exists, other tests wait.
pub struct Tab {
    guard: MutexGuard<'static, Option<Browser>>,
    session: String,
    target: String,
    folder: PathBuf,
    events: Vec<Value>,
}

/// The protocol's name of a key.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A key with a name: `ArrowRight`, `Home`, `Tab`, `Escape`, `Enter`.
    Named(&'static str),
    /// A character.
    Char(char),
}

impl Browser {
    fn launch() -> Self {
        let name = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| {
                let quiet = Command::new(name)
                    .arg("--version")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status();
                quiet.is_ok_and(|status| status.success())
            })
            .expect("these tests need Chromium: apt-get install chromium");
        let profile = std::env::temp_dir().join(format!("iodyno-chromium-{}", std::process::id()));
        // The shell moves the pipes to the descriptors that Chromium reads, and cleans up behind it.
        let script =
            r#"profile=$1; shift; "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$profile""#;
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&profile)
            .arg(name)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            // Containers give shared memory of 64 MiB, on which large pages crash.
            .arg("--disable-dev-shm-usage")
            .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts Chromium");
        let (input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, incoming) = channel();
        std::thread::spawn(move || {
            let mut pending = Vec::new();
            let mut chunk = vec![0; 1 << 16];
            while let Ok(n @ 1..) = output.read(&mut chunk) {
                pending.extend_from_slice(&chunk[..n]);
                while let Some(end) = pending.iter().position(|&byte| byte == 0) {
                    let message: Vec<u8> = pending.drain(..=end).collect();
                    if let Ok(message) = serde_json::from_slice(&message[..end])
                        && sender.send(message).is_err()
                    {
                        break;
                    }
                }
            }
            let _ = child.wait();
        });
        Self { input, incoming, last_id: 0 }
    }

    /// Sends a command and waits for its answer; events that come before it are put into `events`.
    #[allow(clippy::needless_pass_by_value, reason = "written where it is called, by json!")]
    fn call(
        &mut self,
        session: &str,
        method: &str,
        params: Value,
        events: &mut Vec<Value>,
    ) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("Chromium reads its pipe");
        loop {
            let answer = self
                .incoming
                .recv_timeout(ANSWER_TIMEOUT)
                .unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.last_id {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            events.push(answer);
        }
    }
}

impl Tab {
    /// An empty tab of 1280 × 900 pixels.
    pub fn new() -> Self {
        let mut guard = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let browser = guard.get_or_insert_with(Browser::launch);
        let mut events = Vec::new();
        let target =
            browser.call("", "Target.createTarget", json!({ "url": "about:blank" }), &mut events);
        let target = target["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = browser.call("", "Target.attachToTarget", attach, &mut events);
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let folder =
            std::env::temp_dir().join(format!("iodyno-page-{}-{target}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut tab = Self { guard, session, target, folder, events: Vec::new() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab.size(1280, 900);
        tab
    }

    /// Sends a command of the protocol, and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let browser = self.guard.as_mut().expect("a tab has a browser");
        browser.call(&self.session, method, params, &mut self.events)
    }

    /// Sets the window's size, in CSS pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Writes `html` into a file, opens it by `file://` and waits until it is loaded. Events of the previous page are
    /// dropped.
    pub fn open(&mut self, html: &str) -> PathBuf {
        let path = self.folder.join("page.html");
        std::fs::write(&path, html).unwrap();
        self.visit(&format!("file://{}", path.display()));
        path
    }

    /// Opens an address and waits until its page is loaded. Events of the previous page are dropped.
    pub fn visit(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for_event("Page.loadEventFired");
    }

    /// Clicks the link that a selector finds, and waits until the linked page is loaded.
    pub fn follow(&mut self, selector: &str) {
        self.events.clear();
        self.eval(&format!("document.querySelector({selector:?}).click()"));
        self.wait_for_event("Page.loadEventFired");
    }

    fn wait_for_event(&mut self, method: &str) {
        while !self.events.iter().any(|event| event["method"] == method) {
            let browser = self.guard.as_mut().expect("a tab has a browser");
            let event = browser
                .incoming
                .recv_timeout(ANSWER_TIMEOUT)
                .unwrap_or_else(|_| panic!("no {method}"));
            self.events.push(event);
        }
    }

    /// The value of an expression; a promise is awaited. Panics with the exception that it throws.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}\n{:#}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// The value of an expression as text; empty if it is not text.
    pub fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// The value of an expression as a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("no number: {expression}"))
    }

    /// The value of an expression as a count.
    pub fn count(&mut self, expression: &str) -> u64 {
        self.eval(expression).as_u64().unwrap_or_else(|| panic!("no count: {expression}"))
    }

    /// Waits until an expression is truthy.
    pub fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        while !self.eval(&format!("Boolean({expression})")).as_bool().unwrap_or(false) {
            assert!(start.elapsed() < ANSWER_TIMEOUT, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Wrong labels of the page's figures: labels that are cut, leave their figure, or cover
    /// another one.
    pub fn wrong_labels(&mut self) -> Vec<String> {
        // Figures out of sight have no boxes.
        let shown = "<style>.figure { content-visibility: visible !important }</style>";
        self.eval(&format!("document.head.insertAdjacentHTML('beforeend', '{shown}')"));
        let found = self.eval(WRONG_LABELS);
        let found = found.as_array().expect("a list").iter();
        found.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    }

    /// Waits until two frames are drawn, so that requested animation frames have run.
    pub fn settle(&mut self) {
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))");
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), button: &str, clicks: u32) {
        let buttons = u32::from(button == "left");
        let params = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Moves the mouse pointer to a position in the window, in CSS pixels.
    pub fn point_at(&mut self, at: (f64, f64)) {
        self.mouse("mouseMoved", at, "none", 0);
        self.settle();
    }

    /// Presses at one point and releases at another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mouseMoved", from, "none", 0);
        self.mouse("mousePressed", from, "left", 1);
        for step in 1..=4 {
            let share = f64::from(step) / 4.0;
            let at = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            self.mouse("mouseMoved", at, "left", 0);
        }
        self.mouse("mouseReleased", to, "left", 1);
        self.settle();
    }

    /// Clicks `times` times in a row at a position.
    pub fn click(&mut self, at: (f64, f64), times: u32) {
        for count in 1..=times {
            self.mouse("mousePressed", at, "left", count);
            self.mouse("mouseReleased", at, "left", count);
        }
        self.settle();
    }

    /// Touches with a finger and lifts it.
    pub fn tap(&mut self, (x, y): (f64, f64)) {
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true }));
        let finger = json!({ "type": "touchStart", "touchPoints": [{ "x": x, "y": y }] });
        self.call("Input.dispatchTouchEvent", finger);
        self.call("Input.dispatchTouchEvent", json!({ "type": "touchEnd", "touchPoints": [] }));
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": false }));
        self.settle();
    }

    /// The centre of the element that a selector finds, scrolled into view.
    pub fn middle(&mut self, selector: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{ const node = document.querySelector({selector:?}); node.scrollIntoView({{ block: 'center' }});\
             const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        self.eval(&script);
        // Elements near the window are initialised by the script, and may then be of another size.
        self.settle();
        let at = self.eval(&script);
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    }

    /// Presses and releases a key.
    pub fn key(&mut self, key: Key) {
        let mut params = match key {
            Key::Named(name) => json!({ "key": name, "code": name }),
            Key::Char(c) => json!({ "key": c.to_string(), "text": c.to_string() }),
        };
        if let Key::Named(name) = key {
            let code = match name {
                "Tab" => 9,
                "Enter" => 13,
                "Escape" => 27,
                "End" => 35,
                "Home" => 36,
                "ArrowLeft" => 37,
                "ArrowUp" => 38,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                _ => 0,
            };
            params["windowsVirtualKeyCode"] = code.into();
        }
        params["type"] = "keyDown".into();
        self.call("Input.dispatchKeyEvent", params.clone());
        params["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", params);
        self.settle();
    }

    /// Emulates the reader's preference (`dark`, `light`) and the medium (`screen`, `print`).
    pub fn media(&mut self, scheme: &str, medium: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": medium, "features": features }));
    }

    /// Lets scripts of pages run, or not, from the next page on.
    pub fn scripts(&mut self, are_run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !are_run }));
    }

    /// Cuts the network, or restores it.
    pub fn offline(&mut self, is_offline: bool) {
        let params = json!({ "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.call("Network.emulateNetworkConditions", params);
    }

    /// A picture of the window, or of the whole page, as PNG.
    pub fn screenshot(&mut self, path: &Path, is_whole: bool) {
        let params = json!({ "format": "png", "captureBeyondViewport": is_whole });
        let answer = self.call("Page.captureScreenshot", params);
        std::fs::write(path, decoded(answer["data"].as_str().unwrap())).unwrap();
    }

    /// The printed page, as PDF.
    pub fn pdf(&mut self) -> Vec<u8> {
        let answer = self.call(
            "Page.printToPDF",
            json!({ "preferCSSPageSize": true, "paperWidth": 8.27, "paperHeight": 11.69 }),
        );
        decoded(answer["data"].as_str().unwrap())
    }

    /// The addresses of all requests since the page was opened.
    pub fn requests(&self) -> Vec<String> {
        self.of("Network.requestWillBeSent")
            .map(|params| params["request"]["url"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The page's console messages: errors, warnings, violations of its policy.
    pub fn complaints(&self) -> Vec<String> {
        let thrown = self.of("Runtime.exceptionThrown").map(Value::to_string);
        let logged = self.of("Log.entryAdded").map(Value::to_string);
        let called = self
            .of("Runtime.consoleAPICalled")
            .filter(|params| params["type"] == "error" || params["type"] == "warning")
            .map(Value::to_string);
        thrown.chain(logged).chain(called).collect()
    }

    /// Dialogs (`alert`) that the page opened.
    pub fn dialogs(&self) -> usize {
        self.of("Page.javascriptDialogOpening").count()
    }

    fn of(&self, method: &'static str) -> impl Iterator<Item = &Value> {
        let mine = move |event: &&Value| {
            event["method"] == method && event["sessionId"] == self.session.as_str()
        };
        self.events.iter().filter(mine).map(|event| &event["params"])
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if let Some(browser) = self.guard.as_mut()
            && !std::thread::panicking()
        {
            browser.call(
                "",
                "Target.closeTarget",
                json!({ "targetId": self.target }),
                &mut Vec::new(),
            );
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Decodes base64, in which the protocol sends bytes.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
