//! OpenMetrics of a run: served over HTTP during the run, and exported afterwards. A strict parser reads both.

use crate::place::{Place, cells, number, whole};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

type Labels = BTreeMap<String, String>;

/// Samples of an exposition, by name.
struct Exposition {
    samples: Vec<(String, Labels, f64)>,
}

impl Exposition {
    /// Parses OpenMetrics text 1.0 strictly: each family in one piece, type, unit and help before its samples; the
    /// suffixes of its type; the unit as the end of its name; no sample twice; complete histograms; `# EOF` at the end.
    fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no EOF: {text}"));
        let mut families = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let (mut family, mut kind) = ("", "");
        let mut samples = Vec::new();
        for line in body.lines() {
            if let Some(words) = line.strip_prefix("# ") {
                let mut words = words.splitn(3, ' ');
                let [what, name, of] = [(); 3].map(|()| words.next().unwrap());
                match what {
                    "TYPE" => {
                        assert!(families.insert(name), "{name} is in two pieces");
                        assert!(["info", "counter", "gauge", "histogram"].contains(&of), "{line}");
                        assert!(!name.ends_with("_total") && !name.ends_with("_info"), "{line}");
                        (family, kind) = (name, of);
                    }
                    "UNIT" => {
                        assert!(name == family && name.ends_with(&format!("_{of}")), "{line}");
                    }
                    "HELP" => assert!(name == family && of.ends_with('.'), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
            let (labels, value) = rest.rsplit_once("} ").unwrap_or_else(|| panic!("{line}"));
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line}"));
            let suffixes: &[&str] = match kind {
                "info" => &["_info"],
                "counter" => &["_total"],
                "gauge" => &[""],
                _ => &["_bucket", "_count", "_sum"],
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(seen.insert((name, labels)), "twice: {line}");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            samples.push((name.to_owned(), labels_of(labels), value));
        }
        let exposition = Self { samples };
        exposition.check_histograms();
        exposition
    }

    /// Buckets rise to that of infinity, which is the count.
    fn check_histograms(&self) {
        let mut counts: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for (name, labels, value) in &self.samples {
            let Some(name) = name.strip_suffix("_bucket") else { continue };
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap();
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            counts.entry((name.to_owned(), labels)).or_default().push((bound, *value));
        }
        assert!(!counts.is_empty() || self.samples.is_empty() || self.of("operations").is_empty());
        for ((name, labels), buckets) in counts {
            for pair in buckets.windows(2) {
                assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{name} {labels:?}");
            }
            let (bound, all) = *buckets.last().unwrap();
            assert!(bound.is_infinite());
            let count =
                |s: &&(String, Labels, f64)| s.0 == format!("{name}_count") && s.1 == labels;
            assert_eq!(self.samples.iter().find(count).unwrap().2.to_bits(), all.to_bits());
        }
    }

    /// Samples of a counter.
    fn of(&self, counter: &str) -> Vec<(&Labels, f64)> {
        let name = format!("iodyno_run_{counter}_total");
        let own = self.samples.iter().filter(|(of, ..)| *of == name);
        own.map(|(_, labels, value)| (labels, *value)).collect()
    }

    /// The labels of the only sample of this name.
    fn only(&self, name: &str) -> (&Labels, f64) {
        let mut own = self.samples.iter().filter(|(of, ..)| of == name);
        let (_, labels, value) = own.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(own.next().is_none(), "several {name}");
        (labels, *value)
    }
}

fn labels_of(text: &str) -> Labels {
    let mut labels = Labels::new();
    let mut left = text;
    while !left.is_empty() {
        let (key, rest) = left.split_once("=\"").unwrap();
        let (value, rest) = rest.split_once('"').unwrap();
        // (No label here has characters to escape.)
        assert!(!value.contains('\\') && labels.insert(key.to_owned(), value.to_owned()).is_none());
        left = rest.strip_prefix(',').unwrap_or(rest);
        assert!(rest.is_empty() || !left.is_empty(), "{text}");
    }
    labels
}

fn get(address: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// While a run is measured its counts advance over HTTP, and its exported metrics are those of its document.
#[test]
fn metrics_during_a_run_and_afterwards() {
    let place = Place::new();
    let words = "run random-read --read 70% --on ram:16MiB --rate 2k/s --time 10m --ramp 0s --interval 100ms --metrics 127.0.0.1:0";
    let mut child =
        place.command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.by_ref().map(Result::unwrap).find_map(|line| {
        line.strip_prefix("metrics: http://").map(|at| at.trim_end_matches("/metrics").to_owned())
    });
    let address = line.unwrap();
    let drain = std::thread::spawn(move || said.for_each(drop));
    let mut running = crate::place::Running::of_child(child, words);

    let mut last = 0.0;
    let deadline = Instant::now() + Duration::from_secs(120);
    for _ in 0..3 {
        loop {
            let (head, body) = get(&address);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let media = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
            assert!(head.contains(media), "{head}");
            let exposition = Exposition::parse(&body);
            let reads =
                exposition.of("operations").into_iter().find(|s| s.0["operation"] == "read");
            let reads = reads.map_or(0.0, |(labels, value)| {
                assert_eq!(
                    (labels["cell"].as_str(), labels["target"].as_str()),
                    ("random-read", "ram:16MiB")
                );
                assert_eq!((labels["index"].as_str(), labels["run"].len()), ("0", 10));
                value
            });
            if reads > last {
                last = reads;
                break;
            }
            assert!(Instant::now() < deadline, "no count advances: {body}");
            assert!(running.is_running());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    running.signal(libc::SIGINT);
    running.finish().exits(130);
    drain.join().unwrap();

    let document = place.iodyno("show last --json").succeeds().json();
    let cell = &cells(&document)[0];
    let exported = place.iodyno("export last --format openmetrics");
    let exposition = Exposition::parse(&exported.succeeds().stdout);
    for kind in ["read", "write"] {
        for (counter, key) in [("operations", "ops"), ("bytes", "bytes")] {
            let all = exposition.of(counter);
            let (labels, value) = all.iter().find(|s| s.0["operation"] == kind).unwrap();
            assert_eq!(*value as u64, whole(&cell[kind][key]), "{kind} {counter}");
            assert_eq!(labels["run"], document["run"]["id"].as_str().unwrap());
        }
    }
    let (_, seconds) = exposition.only("iodyno_run_measured_seconds");
    assert!((seconds - number(&cell["seconds"])).abs() < 1e-6);
    let (labels, _) = exposition.only("iodyno_run_cell_info");
    assert!(labels["verdicts"].contains("INTERRUPTED"), "{labels:?}");
    assert_eq!((labels["time"].as_str(), labels["engine"].as_str()), ("real", "ram"));
    // Open loop has both latencies.
    for name in ["latency", "service_time"] {
        let name = format!("iodyno_run_{name}_seconds_count");
        assert!(exposition.samples.iter().any(|(of, ..)| *of == name), "{name}");
    }
}

/// With several targets, each has samples and the merged cell has none, so that sums are right.
#[test]
fn merged_cells_are_not_counted_twice() {
    let place = Place::new();
    place.iodyno("run random-read --on ram:1MiB --on null: --ops 100 --ramp 0s -q").succeeds();
    let exported = place.iodyno("export last --format openmetrics");
    let exposition = Exposition::parse(&exported.succeeds().stdout);
    let operations = exposition.of("operations");
    let targets: Vec<&str> = operations.iter().map(|s| s.0["target"].as_str()).collect();
    assert_eq!(targets, ["ram:1MiB", "null:"]);
    assert_eq!(operations.iter().map(|s| s.1 as u64).sum::<u64>(), 200);
}

/// Metrics have no TLS: other machines reach them only where that is insisted on.
#[test]
fn metrics_stay_on_this_machine_unless_insisted_on() {
    let place = Place::new();
    let run = "run random-read --on null: --ops 10 --ramp 0s -q";
    place
        .iodyno(&format!("{run} --metrics 0.0.0.0:0"))
        .fails(4, &["--metrics 0.0.0.0:0", "open to other machines", "add --insist-on-plain"]);
    place.iodyno(&format!("{run} --metrics 0.0.0.0:0 --insist-on-plain")).succeeds();
    place.iodyno(&format!("{run} --metrics 0")).succeeds();
    place.iodyno(&format!("{run} --metrics localhost:0")).succeeds();
    place.iodyno(&format!("{run} --metrics example")).exits(2).says(&["127.0.0.1:9469"]);
    // A port that is taken is reported before the run.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    place.iodyno(&format!("{run} --metrics {at}")).fails(4, &[&format!("--metrics {at}")]);
}
