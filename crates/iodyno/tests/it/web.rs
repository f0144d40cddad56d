//! `web`: the page over the notebook, as a program sees it and, in `in_a_browser`, as a reader does.

mod in_a_browser;

use crate::place::{Place, Running, SHORT};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A name that is markup, a script and turned text.
const HOSTILE: &str =
    "<script>window.__pwned=1</script>\"'><img/src=x/onerror=alert(1)>\u{202e}evil";

/// A server of the page, ended when dropped.
struct Server {
    running: Running,
    /// `127.0.0.1:PORT`.
    host: String,
    /// Text after the printed address: empty, or `?token=…`.
    secret: String,
}

/// A response.
struct Answer {
    status: u16,
    /// Header fields, in lower case.
    head: String,
    body: String,
}

impl Server {
    fn start(place: &Place, flags: &str) -> Self {
        let listen = if flags.contains("--listen") { "" } else { "--listen 0" };
        let mut command = place.command(&format!("web {listen} {flags}"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("web: http://").unwrap_or_else(|| panic!("{line}"));
        let (host, secret) = address.split_once('/').unwrap();
        let (host, secret) = (host.replace("0.0.0.0", "127.0.0.1"), secret.to_owned());
        Self { running: Running::of_child(child, "web"), host, secret }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// Sends bytes, and reads the response.
    fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn get_with(&self, path: &str, fields: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.host))
    }

    fn get(&self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    fn post(&self, path: &str, fields: &str, body: &str) -> Answer {
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            self.host,
            body.len()
        ))
    }
}

/// Addresses on this server that a page links to or loads.
fn addresses(page: &str) -> BTreeSet<String> {
    let parts = ["href=\"/", "src=\"/", "action=\"/"].iter().flat_map(|of| page.split(of).skip(1));
    parts.map(|part| format!("/{}", part.split('"').next().unwrap())).collect()
}

/// Texts of the links that a page marks as the current one.
fn marked(page: &str) -> Vec<String> {
    let parts = page.split(" aria-current=\"page\">").skip(1);
    parts.map(|part| part.split('<').next().unwrap().to_owned()).collect()
}

fn ids(place: &Place) -> Vec<String> {
    let list = place.iodyno("ls --json").succeeds().json();
    let runs = list["runs"].as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// Every link leads to a page; a run's page is its report, and a comparison is that of `report`.
#[test]
fn every_link_of_the_list_leads_to_a_page() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let empty = server.get("/");
    assert!(empty.status == 200 && empty.body.contains("There are no runs yet"), "{}", empty.body);
    // Runs appear in a server that runs already.
    for seed in 1..=2 {
        let words = format!("run random-read --on model:exflash-400g {SHORT} -q --seed {seed}");
        place.iodyno(&words).succeeds();
    }
    let grid = format!("run random-read --on model:exflash-400g --vary depth=1,4 -q {SHORT}");
    let mut command = place.command(&grid);
    command.args(["--name", HOSTILE]);
    Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish().succeeds();
    let ids = ids(&place);
    std::thread::sleep(std::time::Duration::from_millis(600));

    let list = server.get("/");
    let found = addresses(&list.body);
    for id in &ids {
        assert!(found.contains(&format!("/runs/{id}")), "{found:?}");
    }
    let mut pages: Vec<String> = found.into_iter().collect();
    pages.push(format!("/compare?runs={}", ids.join(",")));
    pages.push(format!("/compare?runs={}&runs={}", ids[0], ids[1]));
    pages.retain(|path| path != "/compare");
    for path in pages.clone() {
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains("content-security-policy: "), "{path}: {}", answer.head);
        pages.extend(addresses(&answer.body));
    }
    // A form for ticked runs, of which there are none.
    pages.retain(|path| path != "/compare");
    pages.sort();
    pages.dedup();
    assert!(pages.iter().filter(|path| path.ends_with("/run.json")).count() == 3, "{pages:?}");
    for path in &pages {
        assert_eq!(server.get(path).status, 200, "{path}");
    }

    let run = server.json(&format!("/runs/{}/run.json", ids[0]));
    assert_eq!(run, place.iodyno(&format!("show {} --json --series", ids[0])).succeeds().json());
    let saved = server.get(&format!("/runs/{}/report.html", ids[0]));
    assert!(saved.head.contains(&format!("attachment; filename=\"iodyno-{}.html\"", ids[0])));
    place.iodyno(&format!("report {} -o file.html", ids[0])).succeeds();
    assert_eq!(saved.body, std::fs::read_to_string(place.path("file.html")).unwrap());
    let history = server.get(&format!("/history/{}?metric=mean", ids[0])).body;
    assert!(history.contains("History of random-read") && history.contains("read.mean"));
    // So few runs have no level. The current metric is marked.
    assert!(history.contains("No level is drawn") && !history.contains("<li>left out"));
    assert!(history.contains("iodyno history "));
    assert_eq!(marked(&history), ["mean"]);
    assert_eq!(marked(&server.get(&format!("/history/{}?metric=p99.9", ids[0])).body), ["p99.9"]);
    for (path, name) in [
        ("/", "Runs"),
        ("/?verdict=running", "In progress"),
        ("/explain", "Explain"),
        ("/size", "Size"),
        ("/study", "Studies"),
    ] {
        assert_eq!(marked(&server.get(path).body), [name], "{path}");
    }
    let last = server.get("/runs/last");
    assert!(last.status == 303 && last.head.contains(&format!("location: /runs/{}", ids[2])));

    // Names stay text. The script's rows have the result of a method once it is known.
    for path in ["/".to_owned(), format!("/runs/{}", ids[2]), pages[0].clone()] {
        let page = server.get(&path).body;
        assert!(!page.contains("<script>window") && !page.contains("<img"), "{path}");
    }
    assert!(!server.get("/").body.contains('\u{202e}'), "turned text is not cleaned");
    let rows = loop {
        let list = server.json("/runs.json");
        if list["pending"] == 0 {
            break list["runs"].clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(rows[2][4].as_str().unwrap().starts_with("<script>window"), "{rows}");
    assert!(rows[2][6].as_str().unwrap().contains("lowest latency"), "{rows}");
    assert_eq!(rows.as_array().unwrap().len(), 3);
    // The result of a sweep is sorted by its highest rate, as shown.
    let sweep = server.json(&format!("/runs/{}/run.json", ids[2]));
    let cells = sweep["cells"].as_array().unwrap().iter();
    let most = cells.map(|cell| cell["read"]["iops"].as_f64().unwrap()).fold(0.0, f64::max);
    let (kind, rate) = (&rows[2][7][0], rows[2][7][1].as_f64().unwrap());
    assert!(*kind == 2 && (rate / most - 1.0).abs() < 0.01, "{rate} and {most}: {}", rows[2]);
}

#[test]
fn addresses_that_do_not_exist_say_so() {
    let place = Place::new();
    place.iodyno(&format!("run random-read --on null: {SHORT} -q")).succeeds();
    let server = Server::start(&place, "");
    for (path, status, says) in [
        ("/nowhere", 404, "no page at this address"),
        ("/runs/zzzzzzzzzz", 404, "zzzzzzzzzz"),
        ("/runs/..%2f..%2fetc", 404, "etc"),
        ("/runs/last~7", 404, "last~7"),
        ("/assets/../Cargo.toml", 404, "no page at this address"),
        ("/compare?runs=last", 400, "tick 2 to"),
        ("/compare?runs=last,zzzzzzzzzz", 404, "zzzzzzzzzz"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
        assert!(answer.head.contains("default-src 'none'"), "{path}: {}", answer.head);
    }
    std::fs::write(place.notebook(), "no notebook").unwrap();
    // The list is read at most twice a second.
    std::thread::sleep(std::time::Duration::from_millis(600));
    for path in ["/", "/runs/last"] {
        let answer = server.get(path);
        assert!(answer.status == 500 && answer.body.contains("not an SQLite file"), "{path}");
    }
    place.iodyno("web --listen 0").exits(5).says(&["not an SQLite file"]);
}

/// Only this machine's own pages may use the server.
#[test]
fn other_sites_and_hosts_are_refused() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let host = &server.host;
    for name in ["evil.example", "10.0.0.1:9470", "localhost.evil.example", ""] {
        let answer = server.send(&format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!(answer.status, 403, "{name}");
    }
    let port = host.rsplit(':').next().unwrap();
    for name in [format!("localhost:{port}"), format!("[::1]:{port}"), "127.0.0.1:22".to_owned()] {
        let answer = server.send(&format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!(answer.status, 200, "{name}");
        for rule in
            ["frame-ancestors 'none'", "nosniff", "referrer-policy: same-origin", "no-store"]
        {
            assert!(answer.head.contains(rule), "{rule}: {}", answer.head);
        }
    }
    assert_eq!(server.send("GET / HTTP/1.1\r\n\r\n").status, 403);
    assert_eq!(
        server.send(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: x\r\n\r\n")).status,
        400
    );
    // A link of another site opens a page, its images and frames do not.
    // A page at another port of this machine is another site, too.
    for (site, mode, kind, status) in [
        ("cross-site", "navigate", "document", 200),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "navigate", "document", 200),
        ("same-site", "no-cors", "image", 403),
        ("cross-site", "cors", "empty", 403),
        ("same-origin", "no-cors", "image", 200),
    ] {
        let fields = format!(
            "Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\nSec-Fetch-Dest: {kind}\r\n"
        );
        assert_eq!(server.get_with("/", &fields).status, status, "{site} {mode} {kind}");
        // What a link opens may fill in a form, but not make this machine simulate.
        let form = server.get_with("/explain?device=exflash-400g", &fields);
        let has_answer = form.body.contains("class=\"answer\"");
        assert_eq!(has_answer, site == "same-origin", "{site} {mode} {kind}");
    }
    let foreign = "Origin: http://evil.example\r\n";
    assert_eq!(server.get_with("/", foreign).status, 403, "an old browser tells the origin alone");
    assert_eq!(server.get_with("/", &format!("Origin: http://{host}\r\n")).status, 200);
    // Without permission nothing can be changed, from its own page or another.
    for origin in [
        format!("Origin: http://{host}\r\n"),
        "Origin: http://evil.example\r\n".to_owned(),
        String::new(),
    ] {
        assert_eq!(server.post("/runs/last/stop", &origin, "").status, 403, "{origin}");
    }
}

#[test]
fn a_token_is_required_beyond_this_machine() {
    let place = Place::new();
    place.iodyno("web --listen 0.0.0.0:0").fails(4, &["open to other machines", "--token"]);
    place.write("token", "short\n");
    place.iodyno("web --listen 0 --token-file token").exits(2).says(&["16 to 256 letters"]);
    let file = place.write("token", "correct-horse-battery\n");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for flags in ["--token", "--listen 0.0.0.0:0 --token", "--allow-run", "--token-file token"] {
        let server = Server::start(&place, flags);
        let token = if flags.ends_with("file token") {
            assert_eq!(server.secret, "", "a user's token is not printed");
            "correct-horse-battery"
        } else {
            server.secret.strip_prefix("?token=").unwrap()
        };
        assert!(token.len() >= 16, "{token}");
        for path in
            ["/", "/runs.json", "/runs/last", "/?token=", "/?token=wrong", "/assets/runs.js"]
        {
            let answer = server.get(path);
            assert_eq!(answer.status, 401, "{flags}: {path}");
            assert!(!answer.body.contains("notebook.sqlite"), "{path} tells of the notebook");
        }
        assert_eq!(server.get("/assets/web.css").status, 200, "the form for the token has a style");
        let kept = server.get(&format!("/compare?runs=a%2Cb&token={token}"));
        assert_eq!(kept.status, 303, "{}", kept.body);
        assert!(kept.head.contains("location: /compare?runs=a%2cb\r"), "{}", kept.head);
        assert!(kept.head.contains("httponly; samesite="), "{}", kept.head);
        let port = server.host.rsplit(':').next().unwrap();
        for fields in [
            format!("Cookie: other=1; iodyno-{port}={token}\r\n"),
            format!("Authorization: Bearer {token}\r\n"),
        ] {
            assert_eq!(server.get_with("/", &fields).status, 200, "{fields}");
        }
        for fields in [
            format!("Cookie: iodyno-{port}={token}x\r\n"),
            format!("Cookie: iodyno-{port}=\r\n"),
            format!("Cookie: iodyno-1={token}\r\n"),
            "Authorization: Bearer \r\n".to_owned(),
        ] {
            assert_eq!(server.get_with("/", &fields).status, 401, "{fields}");
        }
        // The token does not stand in for the page's own origin.
        let fields = format!("Authorization: Bearer {token}\r\nOrigin: http://evil.example\r\n");
        assert_eq!(server.post("/runs/last/stop", &fields, "").status, 403);
        // No other host is sent to.
        let away = server.get(&format!("//evil.example/?token={token}"));
        assert!(away.head.contains("location: /evil.example/"), "{}", away.head);
    }
}

#[test]
fn requests_have_limits() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let host = &server.host;
    let long = "x".repeat(20_000);
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: {host}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\nA: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\n{}\r\n", "A: b\r\n".repeat(70)), 400),
        (format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 20000\r\n\r\n{long}"), 413),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999999999999\r\n\r\n"
            ),
            400,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            411,
        ),
        (format!("DELETE / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 405),
        (format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400),
        ("\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), 400),
    ] {
        let answer = server.send(&request);
        assert_eq!(answer.status, status, "{:.80}: {}", request, answer.body);
    }
    let head = server.send(&format!("HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(head.status == 200 && head.body.is_empty());
    // Clients that send nothing keep no other from being served.
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(host).unwrap()).collect();
    assert_eq!(server.get("/").status, 200);
    drop(silent);
}

#[test]
fn a_signal_ends_it_and_a_taken_port_is_named() {
    let place = Place::new();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let server = Server::start(&place, "");
        let output = place.iodyno(&format!("web --listen {}", server.host));
        output.fails(4, &["another server uses it", "--listen 0"]);
        // A connection that is open does not delay it.
        let _open = TcpStream::connect(&server.host).unwrap();
        server.running.signal(signal);
        server.running.finish().succeeds();
    }
}

/// Only with permission, faults are injected and runs are stopped and renamed. The page says what happened.
#[test]
fn with_permission_it_stops_names_and_breaks() {
    let place = Place::new();
    let mut served =
        place.start("serve model:exflash-400g --nbd unix:n.sock --control unix:c.sock");
    served.wait_until("it listens", || place.iodyno("status --control c.sock").code == Some(0));
    let mut run = place.start("run random-read --on null: --time 100s -q");
    place.wait_for_cells(&mut run, 1);
    let id = ids(&place).pop().unwrap();

    let reader = Server::start(&place, "--control c.sock");
    let own = |server: &Server| format!("Origin: http://{}\r\n", server.host);
    for path in [
        "/served/0",
        &format!("/live/{id}/stop"),
        &format!("/live/{id}/name"),
        &format!("/runs/{id}/annotation"),
    ] {
        let answer = reader.post(path, &own(&reader), "fault=slow+x10&name=a&text=a");
        assert!(answer.status == 403 && answer.body.contains("--allow-run"), "{path}");
    }
    let page = reader.get("/served/0");
    assert!(page.status == 200 && !page.body.contains("data-fault"), "{}", page.body);
    assert!(!reader.get(&format!("/live/{id}")).body.contains("Stop this run"));
    assert_eq!(reader.get("/served/1").status, 404);

    let server = Server::start(&place, "--control unix:c.sock --allow-run");
    let token = server.secret.strip_prefix("?token=").unwrap();
    let fields = format!("Authorization: Bearer {token}\r\n{}", own(&server));
    let injected = server.post("/served/0", &fields, "fault=slow+x10");
    assert!(injected.status == 200 && injected.body.contains("in effect"), "{}", injected.body);
    let status = place.iodyno("status --control c.sock").succeeds().stdout.clone();
    assert!(status.contains("10 times") || status.contains("× 10"), "{status}");
    let wrong = server.post("/served/0", &fields, "fault=explode%0Astop");
    assert!(wrong.status == 409 && wrong.body.contains("there is no fault"), "{}", wrong.body);
    let data = server.get_with("/served/0/status.json", &fields).body;
    assert!(data.contains("exflash-400g"), "{data}");
    // Ending the server is not a fault.
    assert_eq!(server.post("/served/0", &fields, "fault=stop").status, 409);
    assert!(served.is_running());

    let name =
        |name: &str| server.post(&format!("/live/{id}/name"), &fields, &format!("name={name}"));
    assert_eq!(name("last").status, 400);
    assert_eq!(name("night%20shift").status, 303);
    let live = server.get_with(&format!("/live/{id}"), &fields);
    assert!(live.body.contains("night shift") && live.body.contains("Stop this run"));
    let form = format!("/runs/{id}/annotation");
    assert!(!reader.get(&form).body.contains("<form"), "it only shows");
    let annotated = server.post(&form, &fields, "text=slow+%3Cdevice%3E");
    assert_eq!(annotated.status, 303, "{}", annotated.body);
    let page = server.get_with(&form, &fields).body;
    assert!(page.contains("value=\"slow &#60;device&#62;\""), "{page}");
    assert_eq!(server.post(&form, &fields, "text=a%0Ab").status, 400);
    let stopped = server.post(&format!("/live/{id}/stop"), &fields, "");
    assert_eq!(stopped.status, 303, "{}", stopped.body);
    run.finish().exits(130);
    let again = server.post(&format!("/live/{id}/stop"), &fields, "");
    assert!(again.status == 409 && again.body.contains("has ended"), "{}", again.body);
    assert_eq!(server.get_with(&format!("/live/{id}"), &fields).status, 303);
    for selector in [&*id, &id[..8], "last"] {
        let path = format!("/live/{selector}/name");
        let late = server.post(&path, &fields, "name=day");
        let is_refused = late.body.contains("has ended");
        assert!(late.status == 409 && is_refused, "{selector}: {}", late.body);
    }
    let shown = place.iodyno(&format!("show {id} --json")).succeeds().json();
    assert_eq!(shown["run"]["name"], "night shift");
    assert_eq!(shown["run"]["status"], "interrupted");
    assert_eq!(shown["run"]["annotation"], "slow <device>");
    // The process of an ended run is not signalled again, and neither is another one.
    assert!(served.is_running());
    served.signal(libc::SIGTERM);
    served.finish().succeeds();
}

/// A form answers like the command, and accepts only names of the catalog and plain values.
#[test]
fn forms_answer_as_the_command_does() {
    let place = Place::new();
    let server = Server::start(&place, "");
    assert!(server.get("/size").body.contains("150k/s"));
    let page = server.get("/explain?device=exflash-400g&workload=oltp1&depth=4").body;
    let out = place.command("explain exflash-400g oltp1 --depth=4").env("COLUMNS", "108").output();
    let out = String::from_utf8(out.unwrap().stdout).unwrap();
    // The speed of the simulation differs.
    let lines = out.lines().filter(|line| !line.contains("simulated")).collect::<Vec<_>>();
    assert!(lines.len() > 15, "{out}");
    for line in lines {
        let line = line.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;");
        assert!(page.contains(&line), "{line}\n{page}");
    }
    assert!(page.contains("iodyno explain exflash-400g oltp1 --depth=4"), "{page}");
    for (path, says) in [
        ("/explain?device=/etc/passwd", "Device: choose one from the list"),
        ("/explain?device=--help", "Device: choose one from the list"),
        ("/explain?workload=oltp1", "Device is missing"),
        ("/explain?device=exflash-400g&workload=oltp1&depth=deep", "invalid value"),
        ("/size?workload=oltp1&rate=1k/s&p99=2ms&raid=7", "RAID level: choose one"),
        ("/size?workload=oltp1&rate=1k/s", "p99 at most is missing"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
    }
    let mut run = place.start("run random-read --on null: --time 100s -q");
    place.wait_for_cells(&mut run, 1);
    std::thread::sleep(std::time::Duration::from_millis(600));
    let answer = server.get("/explain?device=exflash-400g");
    assert!(answer.status == 400 && answer.body.contains("would disturb"), "{}", answer.body);
    run.signal(libc::SIGINT);
    run.finish().exits(130);
}

/// The intervals that the page's script adds up equal those of the run, whenever the script polls.
#[test]
fn a_study_is_simulated_and_shown() {
    let place = Place::new();
    let server = Server::start(&place, "");
    assert!(server.get("/study").body.contains("value=\"percona-exflash\""));
    // An address starts nothing, and neither does the form of another site.
    let own = format!("Origin: http://{}\r\n", server.host);
    let start = |body: &str| server.post("/study", &own, body);
    let figure = "study=percona-exflash&figure=sockets&full=";
    for path in ["/study?study=percona-exflash", "/study/percona-exflash?figure=sockets"] {
        let page = server.get(path);
        let is_form = page.body.contains("value=\"percona-exflash\" selected");
        assert!(page.status == 200 && is_form, "{path}: {}", page.body);
    }
    for foreign in ["Origin: http://evil.example\r\n", ""] {
        assert_eq!(server.post("/study", foreign, figure).status, 403);
    }
    assert_eq!(server.json("/study/progress.json"), serde_json::json!({}));
    let answer = start(figure);
    assert_eq!(answer.status, 303, "{}", answer.head);
    let page = answer.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let body = loop {
        let body = server.get(page).body;
        if !body.contains("Being simulated") {
            break body;
        }
        // Another one waits for its turn.
        let other = start("study=lenovo-exflash");
        let is_refused = other.status == 400 && other.body.contains("is being simulated");
        // Unless it has ended since.
        assert!(is_refused || server.get(page).body.contains("<svg"), "{}", other.body);
        assert!(Instant::now() < deadline, "{body}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(body.contains("threads on the socket of the modules") && body.contains("<svg"));
    assert_eq!(start("study=none").status, 404);
    assert_eq!(start("study=percona-exflash&figure=none").status, 303);
    for (path, status, why) in [
        ("/study/percona-exflash?figure=none", 400, "has no figure `none`"),
        ("/study/none", 404, "no study `none`"),
        ("/study/..%2Fx", 404, "no study"),
    ] {
        let mut answer = server.get(path);
        // Whether the figure exists is known once the study has been read.
        while answer.body.contains("Being simulated") {
            answer = server.get(path);
        }
        assert!(answer.status == status && answer.body.contains(why), "{path}: {}", answer.body);
    }
}

/// A simulation would disturb a run: none starts during a run, and one in progress ends when a run begins.
#[test]
fn a_study_makes_way_for_a_run() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let own = format!("Origin: http://{}\r\n", server.host);
    let start = || server.post("/study", &own, "study=lenovo-exflash&full=1");
    let page = "/study/lenovo-exflash?full=1";
    assert_eq!(start().status, 303);
    assert!(server.get(page).body.contains("Being simulated"));
    let mut run = place.start("run random-read --on null: --time 100s -q");
    place.wait_for_cells(&mut run, 1);
    let deadline = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        let answer = server.get(page);
        if !answer.body.contains("Being simulated") {
            break answer;
        }
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(answer.status == 400 && answer.body.contains("a run began"), "{}", answer.body);
    let again = start();
    assert!(again.status == 400 && again.body.contains("a run is in progress"), "{}", again.body);
    run.signal(libc::SIGINT);
    run.finish().exits(130);
}

#[test]
fn a_run_in_progress_is_shown_as_it_is_stored() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut run = place.start("run random-read --on null: --on ram:1MiB --time 6s --ramp 0s -q");
    place.wait_for_cells(&mut run, 2);
    let id = ids(&place).pop().unwrap();
    let (mut points, mut from, mut last) = (std::collections::BTreeMap::new(), 0, Value::Null);
    while run.is_running() {
        let data = server.json(&format!("/live/{id}/data.json?from={from}"));
        if data["status"] != "running" {
            break;
        }
        for point in data["points"].as_array().unwrap() {
            from = point[0].as_u64().unwrap() + 1;
            points.insert(from - 1, point[1].as_f64().unwrap());
        }
        last = data;
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    run.finish().succeeds();
    assert_eq!(last["kinds"], serde_json::json!(["read"]));
    assert_eq!(last["targets"].as_array().unwrap().len(), 2);
    let stored = place.iodyno(&format!("show {id} --json --series")).succeeds().json();
    let cells = stored["cells"].as_array().unwrap();
    let series = |cell: &Value| -> Vec<f64> {
        let intervals = cell["series"].as_array().unwrap().iter();
        intervals.map(|of| of["read"]["ops"].as_f64().unwrap_or(0.0)).collect()
    };
    let (null, ram) = (series(&cells[0]), series(&cells[1]));
    let interval_s = last["interval_s"].as_f64().unwrap();
    assert!(points.len() >= 20, "{points:?}");
    // The last ones may have grown after the last look.
    for (&index, &iops) in points.iter().take(points.len() - 4) {
        let sum = (null[index as usize] + ram[index as usize]) / interval_s;
        assert!((iops - sum).abs() <= 1.0, "interval {index}: {iops} and {sum}");
    }
}
