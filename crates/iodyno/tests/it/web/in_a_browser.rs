//! The page in chromium: what a reader sees, in light and dark, wide and narrow, and by the keyboard.

use super::*;
use crate::browser::{Key, Tab};
use std::path::PathBuf;

const AXE: &str = include_str!("../../../../page/tests/vendor/axe-core-4.14.1/axe.min.js");
/// Runs of the large notebook.
const RUNS: usize = 10_000;
const NAMES: usize = 40;
const DEVICES: usize = 16;

/// Fills a notebook with many runs: copies of a few real ones with other names, devices, times and ends.
fn many(place: &Place) {
    let real = ["run random-read --on null:", "run four-corners --on model:exflash-400g"];
    for words in real {
        place.iodyno(&format!("{words} {SHORT} -q")).succeeds();
    }
    let mut db = rusqlite::Connection::open(place.notebook()).unwrap();
    let tx = db.transaction().unwrap();
    for at in 0..RUNS - real.len() {
        let of = if at % 4 == 0 { 2 } else { 1 };
        let id: String = (0..10)
            .rev()
            .map(|i| {
                let digits = b"0123456789abcdefghjkmnpqrstvwxyz";
                char::from(digits[((at * 7919 + 12345) >> (3 * i)) % 32])
            })
            .collect();
        let status = match at % 100 {
            7 => "interrupted",
            13 => "failed",
            _ => "finished",
        };
        let name = if at == 17 { HOSTILE.to_owned() } else { format!("nightly-{}", at % NAMES) };
        let started = format!(
            "2026-{:02}-{:02}T{:02}:{:02}:00.000Z",
            at / 800 % 12 + 1,
            at / 28 % 28 + 1,
            at % 24,
            at % 60
        );
        let made = tx.execute(
            "INSERT OR IGNORE INTO runs (id, name, status, reason, started, ended, seed, iodyno_version, command, machine, plan,
                 writer_boot, writer_namespace, writer_pid, writer_start_ticks)
             SELECT ?1, ?2, ?3, 'the device vanished', ?4, ?4, seed, iodyno_version, command, machine, plan,
                 writer_boot, writer_namespace, writer_pid, writer_start_ticks FROM runs WHERE number = ?5",
            rusqlite::params![id, name, status, started, of],
        ).unwrap();
        assert_eq!(made, 1, "{id}");
        let run = tx.last_insert_rowid();
        tx.execute(
            "INSERT INTO targets SELECT ?1, position, ?2, facts, health_before, health_after FROM targets WHERE run = ?3",
            rusqlite::params![run, format!("/dev/nvme{}n1", at % DEVICES), of],
        ).unwrap();
        tx.execute(
            "INSERT INTO cells (run, position, name, target, workload, engine, threads, depth, block_bytes, offered_iops,
                 finished, level, window_ns, interval_ns, intervals, ops, bytes, failed, cell, lateness)
             SELECT ?1, position, name, target, workload, engine, threads, depth, block_bytes, offered_iops,
                 finished, level, window_ns, interval_ns, intervals, ops * (1 + ?2), bytes, failed, cell, lateness
             FROM cells WHERE run = ?3",
            rusqlite::params![run, at as i64, of],
        ).unwrap();
    }
    tx.commit().unwrap();
}

/// Path at which a picture of a page is kept for people to look at.
fn picture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("web-pictures");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}.png"))
}

/// Asserts that a page is sound, in light and dark: no wider than the window, no request to other hosts, no message on
/// the console, accessible. (The test of reports has the rules.)
fn is_sound(tab: &mut Tab, server: &Server, name: &str) {
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")] {
        tab.size(width, 900);
        tab.media(scheme, "screen");
        tab.settle();
        tab.screenshot(&picture(&format!("{name}-{width}-{scheme}")), false);
        let wide = tab.number("document.documentElement.scrollWidth - innerWidth");
        assert!(wide <= 0.0, "{name} is {wide} px too wide at {width}");
        tab.eval(AXE);
        let found = tab.eval(
            "axe.run(document, { resultTypes: ['violations'] }).then((it) => it.violations.filter((v) => !document.querySelector('nav[aria-label=Sections]') || ['serious', 'critical'].includes(v.impact)).map((v) => v.id + ': ' + v.nodes.slice(0, 2).map((n) => n.html.slice(0, 200) + n.failureSummary).join(' ; ')))",
        );
        assert_eq!(found.as_array().map(Vec::len), Some(0), "{name} {width} {scheme}: {found:#}");
    }
    tab.size(1280, 900);
    tab.media("light", "screen");
    let own = format!("http://{}/", server.host);
    let requests = tab.requests();
    assert!(requests.iter().all(|it| it.starts_with(&own) || it == "data:,"), "{requests:?}");
    assert!(tab.complaints().is_empty(), "{name}: {:#?}", tab.complaints());
    assert_eq!(tab.dialogs(), 0, "{name}");
    assert!(tab.eval("window.__pwned === undefined").as_bool().unwrap(), "{name}");
}

fn rows(tab: &mut Tab) -> Vec<String> {
    let rows = tab
        .eval("[...document.querySelectorAll('table.runs tbody tr')].map((row) => row.innerText)");
    rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

fn write(tab: &mut Tab, text: &str) {
    text.chars().for_each(|c| tab.key(Key::Char(c)));
}

#[test]
#[ignore = "needs chromium"]
fn ten_thousand_runs_are_filtered_and_sorted_as_one_types() {
    let place = Place::new();
    many(&place);
    let server = Server::start(&place, "");
    let mut tab = Tab::new();
    for visit in ["first", "second"] {
        tab.visit(&server.url("/"));
        tab.wait_for("document.documentElement.dataset.ready !== undefined");
        tab.settle();
        let paint =
            tab.number("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        let loaded = tab.number("performance.getEntriesByName('ready')[0].startTime");
        let bytes =
            tab.number("performance.getEntries().reduce((n, it) => n + (it.transferSize ?? 0), 0)");
        println!(
            "{RUNS} runs, {visit} visit: first paint {paint:.0} ms, all runs there {loaded:.0} ms, {:.0} KB",
            bytes / 1000.0
        );
        assert!(bytes < 300_000.0, "{bytes} bytes");
    }
    assert_eq!(tab.text("document.querySelector('#count').textContent"), "10,000 runs");
    assert_eq!(rows(&mut tab).len(), 100);

    // Keys alone: the filter, a run, ticks, the comparison.
    tab.key(Key::Char('/'));
    write(&mut tab, "nvme3n1 nightly-1");
    let matching = (0..RUNS - 2)
        .filter(|at| at % DEVICES == 3 && format!("nightly-{}", at % NAMES).contains("nightly-1"));
    let count = format!("{} of 10,000 runs", matching.count());
    assert_eq!(tab.text("document.querySelector('#count').textContent"), count);
    let shown = rows(&mut tab);
    assert!(
        !shown.is_empty()
            && shown.iter().all(|row| row.contains("nvme3n1") && row.contains("nightly-1")),
        "{shown:?}"
    );
    assert_eq!(tab.text("location.search"), "?q=nvme3n1+nightly-1");
    tab.key(Key::Named("ArrowDown"));
    let first = tab.text("document.activeElement.closest('tr').querySelector('input').value");
    tab.key(Key::Char('x'));
    tab.key(Key::Named("ArrowDown"));
    tab.key(Key::Char('x'));
    let second = tab.text("document.activeElement.closest('tr').querySelector('input').value");
    assert!(first != second && !second.is_empty(), "{first} {second}");
    assert_eq!(
        tab.text("document.querySelector('#compare .ticked').textContent"),
        format!("{second} against {first}")
    );
    is_sound(&mut tab, &server, "runs-filtered");

    // Sorting, and the address that repeats it. Results are sorted by the first rate that they show, highest first.
    let at = tab.middle("th[data-sort=iops] button");
    tab.click(at, 1);
    let rates = tab.eval(
        "[...document.querySelectorAll('table.runs td.result')].map((cell) => {
             const [, number, scale] = cell.innerText.match(/([0-9.]+)\\s*([kMG]?)\\s*IOPS/) ?? [0, 0, ''];
             return number * { '': 1, k: 1e3, M: 1e6, G: 1e9 }[scale];
         })",
    );
    let rates: Vec<f64> = rates.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    assert!(rates[0] > 1000.0 && rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    for (head, key) in [("name", 3), ("targets", 4)] {
        let at = tab.middle(&format!("th[data-sort={head}] button"));
        tab.click(at, 1);
        let cells = tab.eval(&format!("[...document.querySelectorAll('table.runs tbody tr')].map((row) => row.cells[{key}].innerText)"));
        let cells: Vec<String> =
            cells.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect();
        let number = |text: &String| -> u32 {
            let digits = text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
            digits.unwrap().parse().unwrap()
        };
        assert!(
            cells.windows(2).all(|pair| number(&pair[0]) <= number(&pair[1])),
            "{head}: {cells:?}"
        );
    }
    let search = tab.text("location.search");
    assert!(search.contains("sort=targets"), "{search}");
    let before = rows(&mut tab);
    tab.visit(&server.url(&format!("/{search}")));
    tab.wait_for("document.documentElement.dataset.ready !== undefined");
    assert_eq!(rows(&mut tab), before);

    // A comparison has at most 12 runs: no more can be sent.
    for (ticks, is_disabled) in [(1, true), (2, false), (12, false), (13, true)] {
        tab.eval(&format!(
            "[...document.querySelectorAll('table.runs tbody input')].forEach((box, at) => {{ if (box.checked !== at < {ticks}) box.click(); }})"
        ));
        let disabled = "document.querySelector('#compare [type=submit]').disabled";
        assert_eq!(tab.eval(disabled), is_disabled, "{ticks}");
    }
    let says = tab.text("document.querySelector('#compare .ticked').textContent");
    assert_eq!(says, "13 runs are ticked: a comparison has at most 12.");
    tab.eval("document.querySelector('#compare .none').click()");

    // The end of a long list is reached by scrolling.
    tab.visit(&server.url("/?verdict=invalid"));
    tab.wait_for("document.documentElement.dataset.ready !== undefined");
    let all = (0..RUNS - 2).filter(|at| at % 100 == 13).count();
    for _ in 0..30 {
        tab.eval("scrollTo(0, document.documentElement.scrollHeight)");
        tab.settle();
    }
    assert_eq!(rows(&mut tab).len(), all);
    let mut times: Vec<f64> = Vec::new();
    for text in ["", "n", "ni", "nig", "nightly-3", "nvme7n1", "iops", "zzz", "2026-03", ""] {
        times.push(tab.number(&format!(
            "(() => {{ const start = performance.now(), field = document.querySelector('#filter'); field.value = '{text}';\
             document.querySelector('#level').value = ''; field.dispatchEvent(new Event('input'));\
             return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start), 0))); }})()"
        )));
    }
    times.sort_by(f64::total_cmp);
    println!(
        "filter of {RUNS} runs, with the frame: median {:.0} ms, slowest {:.0} ms",
        times[times.len() / 2],
        times.last().unwrap()
    );

    tab.visit(&server.url("/?q=script"));
    tab.wait_for("document.documentElement.dataset.ready !== undefined");
    assert_eq!(rows(&mut tab).len(), 1);
    is_sound(&mut tab, &server, "runs-hostile");
    tab.visit(&server.url("/"));
    tab.wait_for("document.documentElement.dataset.ready !== undefined");
    is_sound(&mut tab, &server, "runs");
    let pdf = tab.pdf();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10_000);
    // Without scripts the latest runs are there.
    tab.scripts(false);
    tab.visit(&server.url("/"));
    tab.scripts(true);
    assert_eq!(rows(&mut tab).len(), 100);
}

#[test]
#[ignore = "needs chromium"]
fn runs_are_ticked_and_compared() {
    let place = Place::new();
    for (name, device) in
        [("before", "exflash-400g"), ("after", "ssd-sata3-mlc-200g"), ("third", "exflash-400g")]
    {
        let words =
            format!("run random-read --on model:{device} {SHORT} --repeat 3 -q --name {name}");
        place.iodyno(&words).succeeds();
    }
    let server = Server::start(&place, "");
    let mut tab = Tab::new();
    tab.visit(&server.url("/"));
    tab.wait_for("document.documentElement.dataset.ready !== undefined");
    let ids = ids(&place);
    for id in &ids[..2] {
        let at = tab.middle(&format!("input[value='{id}']"));
        tab.click(at, 1);
    }
    tab.follow("#compare [type=submit]");
    assert_eq!(tab.text("location.search"), format!("?runs={},{}", ids[0], ids[1]));
    tab.wait_for("document.querySelector('svg.chart')");
    let words = tab.text("document.body.innerText");
    assert!(words.contains("slower") || words.contains("worse"), "{words}");
    tab.visit(&server.url(&format!("/compare?runs={}", ids.join(","))));
    is_sound(&mut tab, &server, "compare");
    tab.visit(&server.url(&format!("/runs/{}", ids[0])));
    is_sound(&mut tab, &server, "run");
    tab.visit(&server.url("/explain?device=exflash-400g&workload=oltp1"));
    assert!(tab.text("document.querySelector('.answer').textContent").contains("flash dies"));
    is_sound(&mut tab, &server, "explain");
    tab.visit(&server.url("/size"));
    is_sound(&mut tab, &server, "size");
    tab.visit(&server.url("/study"));
    is_sound(&mut tab, &server, "studies");
    tab.visit(&server.url("/study/percona-exflash?figure=sockets"));
    tab.follow("form.fields [type=submit]");
    assert_eq!(tab.text("location.search"), "?figure=sockets");
    is_sound(&mut tab, &server, "study in progress");
    tab.wait_for("document.querySelector('svg.chart')");
    is_sound(&mut tab, &server, "study");
    tab.visit(&server.url("/nowhere"));
    assert_eq!(tab.text("document.querySelector('h1').textContent"), "Not found");
}

#[test]
#[ignore = "needs chromium"]
fn a_run_in_progress_moves_and_is_stopped() {
    let place = Place::new();
    let mut run = place.start("run oltp-67-33-4k --on ram:64MiB --time 100s --ramp 0s -q");
    place.wait_for_cells(&mut run, 1);
    let id = ids(&place).pop().unwrap();
    let server = Server::start(&place, "--allow-run");
    let mut tab = Tab::new();
    tab.visit(&server.url(&format!("/?verdict=running&{}", &server.secret[1..])));
    tab.wait_for("document.querySelector('td.level a')");
    assert_eq!(tab.text("location.search"), "?verdict=running", "the token is not in the address");
    tab.follow("td.level a");
    tab.wait_for("document.querySelectorAll('canvas').length === 3");
    let measured = "document.querySelector('#measured').textContent";
    let first = tab.text(measured);
    tab.wait_for(&format!("{measured} !== '{first}'"));
    // The pictures are drawn.
    for canvas in 0..3 {
        let painted = tab.number(&format!(
            "(() => {{ const it = document.querySelectorAll('canvas')[{canvas}], data = it.getContext('2d').getImageData(0, 0, it.width, it.height).data; return data.filter((v, i) => i % 4 === 3 && v > 0).length; }})()"
        ));
        assert!(painted > 500.0, "canvas {canvas}: {painted} pixels");
    }
    assert_eq!(tab.count("document.querySelectorAll('#totals tbody tr').length"), 2);
    is_sound(&mut tab, &server, "live");
    tab.follow("#change form[action$=stop] button");
    run.finish().exits(130);
    // The page that follows is live until the run has ended.
    tab.wait_for("location.pathname.startsWith('/runs/') || document.querySelector('#state')?.textContent.includes('interrupted')");
    tab.visit(&server.url(&format!("/live/{id}")));
    assert_eq!(tab.text("location.pathname"), format!("/runs/{id}"));
}

#[test]
#[ignore = "needs chromium"]
fn a_fault_is_injected_by_its_button() {
    let place = Place::new();
    let mut served =
        place.start("serve model:exflash-400g --nbd unix:n.sock --control unix:c.sock");
    served.wait_until("it listens", || place.iodyno("status --control c.sock").code == Some(0));
    let server = Server::start(&place, "--control c.sock --allow-run");
    let mut tab = Tab::new();
    tab.visit(&server.url(&format!("/served/0{}", server.secret)));
    tab.wait_for("document.querySelector('#status').textContent.includes('exflash-400g')");
    let at = tab.middle("[data-fault='slow x10']");
    tab.click(at, 1);
    assert_eq!(tab.text("document.activeElement.value"), "slow x10");
    tab.follow("#fault [type=submit]");
    let said = tab.text("document.querySelector('#said').innerText");
    assert!(said.contains("in effect") && said.contains("10 times"), "{said}");
    is_sound(&mut tab, &server, "served");
    // Rates and times are written as in reports: whole numbers keep their zeros.
    tab.eval(
        "(() => { let n = 0; window.own = fetch; performance.now = () => n * 1000; const kind = () => ({ kind: 'read', operations: 130 * n, bytes: 200e6 * n, p50_ns: 100000, p99_ns: 120e6, errors: 0 });\
         fetch = async () => { n += 1; return { json: async () => ({ volumes: [{ device: 'x', kinds: [kind(), { ...kind(), kind: 'write', operations: 2e5 * n, p50_ns: 1300, p99_ns: null }] }] }) }; }; })()",
    );
    let rows = "[...document.querySelectorAll('#volumes tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join('|')).join('\\n')";
    tab.wait_for(&format!(
        "{rows} === '0: x|read|130|200|100 µs|120 ms|0\\n0: x|write|200 k|200|1.30 µs|–|0'"
    ));
    tab.eval("fetch = window.own");
    served.signal(libc::SIGTERM);
    served.finish().succeeds();
    tab.wait_for("document.querySelector('#state').textContent.includes('check that a server')");
}
