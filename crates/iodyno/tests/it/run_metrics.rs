//! Metrics of a run: served over HTTP during the run, and exported afterwards.

use crate::exposition::{Exposition, Labels, scraped};
use crate::place::{Place, cells, number, whole};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Labels and value of each sample of a counter of the run.
fn of<'a>(exposition: &'a Exposition, counter: &str) -> Vec<(&'a Labels, f64)> {
    let name = format!("iodyno_run_{counter}_total");
    exposition.named(&name).map(|sample| (&sample.labels, sample.value)).collect()
}

/// Value, start of the interval and Unix time of each exemplar of a histogram, s.
fn exemplars(exposition: &Exposition, name: &str) -> Vec<(f64, f64, Option<f64>)> {
    let name = format!("iodyno_run_{name}_seconds_bucket");
    let all = exposition.named(&name).filter_map(|sample| sample.exemplar.as_ref());
    all.map(|of| (of.value, of.labels["interval_start_seconds"].parse().unwrap(), of.unix_s))
        .collect()
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// During a run its counters advance over HTTP; the metrics exported afterwards equal its document.
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

    let began = unix_s() - 60.0;
    let mut last = 0.0;
    let deadline = Instant::now() + Duration::from_secs(120);
    for _ in 0..3 {
        loop {
            let exposition = scraped(&place, &address, true);
            let reads =
                of(&exposition, "operations").into_iter().find(|s| s.0["operation"] == "read");
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
                // The time of an exemplar is that of its interval's end.
                let all = exemplars(&exposition, "latency");
                let age =
                    |unix_s: Option<f64>| unix_s.is_some_and(|t| began <= t && t <= self::unix_s());
                assert!(!all.is_empty() && all.iter().all(|e| age(e.2)), "{all:?}");
                break;
            }
            assert!(Instant::now() < deadline, "no count advances");
            assert!(running.is_running());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // A client that does not name OpenMetrics gets the older format, with the same names.
    let older = scraped(&place, &address, false);
    let names = older.samples.iter().map(|sample| sample.name.as_str()).collect::<BTreeSet<_>>();
    for name in ["iodyno_run_info", "iodyno_run_bytes_total", "iodyno_run_latency_seconds_bucket"] {
        assert!(names.contains(name), "{names:?}");
    }
    running.signal(libc::SIGINT);
    running.finish().exits(130);
    drain.join().unwrap();

    let document = place.iodyno("show last --json").succeeds().json();
    let cell = &cells(&document)[0];
    let exported = place.iodyno("export last --format openmetrics");
    let exposition = Exposition::parse(&place, &exported.succeeds().stdout);
    for kind in ["read", "write"] {
        for (counter, key) in [("operations", "ops"), ("bytes", "bytes")] {
            let all = of(&exposition, counter);
            let (labels, value) = all.iter().find(|s| s.0["operation"] == kind).unwrap();
            assert_eq!(*value as u64, whole(&cell[kind][key]), "{kind} {counter}");
            assert_eq!(labels["run"], document["run"]["id"].as_str().unwrap());
        }
    }
    let seconds = exposition.only("iodyno_run_measured_seconds", &[]).value;
    assert!((seconds - number(&cell["seconds"])).abs() < 1e-6);
    let labels = &exposition.only("iodyno_run_cell_info", &[]).labels;
    assert!(labels["verdicts"].contains("INTERRUPTED"), "{labels:?}");
    assert_eq!((labels["time"].as_str(), labels["engine"].as_str()), ("real", "ram"));
    // Open loop has both latencies.
    for name in ["latency", "service_time"] {
        let name = format!("iodyno_run_{name}_seconds_count");
        assert!(exposition.named(&name).next().is_some(), "{name}");
    }
    // The slowest operation of the run is an exemplar.
    let all = exemplars(&exposition, "latency");
    let max_ns = ["read", "write"].map(|kind| whole(&cell[kind]["latency_ns"]["max"]));
    let slowest_s = all.iter().map(|of| of.0).fold(0.0, f64::max);
    assert_eq!((slowest_s * 1e9).round() as u64, max_ns[0].max(max_ns[1]));
    assert!(all.iter().all(|of| (0.0..seconds).contains(&of.1) && of.2.is_none()), "{all:?}");
    assert!(!exemplars(&exposition, "service_time").is_empty());
}

/// With several targets, each target has samples but the merged cell has none, so that sums are right.
#[test]
fn merged_cells_are_not_counted_twice() {
    let place = Place::new();
    place.iodyno("run random-read --on ram:1MiB --on null: --ops 100 --ramp 0s -q").succeeds();
    let exported = place.iodyno("export last --format openmetrics");
    let exposition = Exposition::parse(&place, &exported.succeeds().stdout);
    let operations = of(&exposition, "operations");
    let targets: Vec<&str> = operations.iter().map(|s| s.0["target"].as_str()).collect();
    assert_eq!(targets, ["ram:1MiB", "null:"]);
    assert_eq!(operations.iter().map(|s| s.1 as u64).sum::<u64>(), 200);
}

/// Metrics have no TLS, so other machines reach them only with --insist-on-plain.
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
