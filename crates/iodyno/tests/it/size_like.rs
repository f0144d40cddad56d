//! `size --like`: demands of stored runs, and runs that no demand can represent. Also the commands that `size` prints,
//! which must run what was simulated.

use crate::place::{Place, cells, number, whole};
use std::fmt::Write as _;
use std::process::Command;

const SMALL: &str = "--adapter 57b4-gen3 --device ssd-gen3-emlc --raid 10 --quiet";
const PRICES: &str = include_str!("../../../../catalog/prices/cloud-2026-11.toml");
/// Continuation of a labelled text.
const HANGING: &str = "             ";

/// A demand has one workload with random arrivals: anything else is refused, with a remedy.
#[test]
fn runs_that_no_demand_represents_are_refused() {
    let place = Place::new();
    let mut trace = "iodyno trace 1\nt 0 x\n".to_owned();
    for i in 0..2000_u64 {
        let ns = i * 100_000 + i / 1000 * 2_000_000_000;
        writeln!(trace, "o {ns} 0 0 {i} r {} 4096 0", i * 7919 % 5000 * 4096).unwrap();
    }
    place.write("burst.trace", trace);
    place.iodyno("replay burst.trace --on model:nvme-tlc-3840g --name bursts -q").succeeds();
    let replayed = place.path("burst.trace");
    let remedy = format!("iodyno replay {} --on", replayed.display());
    let words = format!("size --like bursts {SMALL}");
    place.iodyno(&words).fails(2, &["replayed a trace", &remedy]);
    // A rate does not restore the trace's times.
    place.iodyno(&format!("{words} --rate 10k/s --p99 5ms")).fails(2, &["replayed a trace"]);

    let short = "--time 100ms --ramp 10ms --on model:nvme-tlc-3840g -q";
    place.iodyno(&format!("run oltp1 --with seq-write,depth=4 {short} --name both")).succeeds();
    place
        .iodyno(&format!("size --like both {SMALL}"))
        .fails(2, &["simultaneous workloads (", "oltp1", "seq-write", "--workload"]);
    place.iodyno("log bench --on model:nvme-tlc-3840g --time 100ms -q --name log").succeeds();
    place.iodyno(&format!("size --like log {SMALL}")).fails(2, &["message log", "--log-rate"]);
}

/// The demand of a run that missed its rate is the offered rate. The p99 of its growing queue is not a requirement.
#[test]
fn a_missed_rate_is_still_the_demand() {
    let place = Place::new();
    place
        .iodyno("run oltp1 --on model:ebs-gp3?size=200GiB --rate 10k/s --time 1s --name over -q")
        .succeeds();
    let words = format!("size --like over --capacity 100GB --json {SMALL}");
    place.iodyno(&words).fails(2, &["missed its rate (3.0", "/s of 10.0 k/s)", "set --p99"]);
    let output = place.iodyno(&format!("{words} --p99 5ms"));
    let demand = output.succeeds().says(&["the 10.0 k/s that the run offered"]).json();
    let demand = &demand["demand"];
    assert_eq!((number(&demand["rate_iops"]), whole(&demand["p99_ns"])), (10e3, 5_000_000));
}

/// The limit is the upper end of the interval of the run's p99, so equal runs lead to the same volume: the one that
/// they were measured on.
#[test]
fn the_volume_of_a_run_meets_the_demand_of_the_run() {
    let place = Place::new();
    place.write("prices.toml", PRICES);
    for seed in 1..=6 {
        let run = format!(
            "run oltp1 --on model:ebs-gp3?size=200GiB --rate 1500/s --time 5s --seed {seed} -q --json"
        );
        let run = place.iodyno(&run).succeeds().json();
        let size = "size --like last --cloud aws --prices prices.toml --capacity 200GiB --json -q";
        let output = place.iodyno(size);
        output.succeeds().says(&["upper end of the 95 % interval of the run's p99"]);
        let cloud = output.json()["cloud"].clone();
        let measured =
            ["read", "write"].map(|kind| number(&cells(&run)[0][kind]["latency_ns"]["p99"]));
        let limit = number(&cloud["demand"]["p99_ns"]);
        assert!(limit > measured[0].min(measured[1]), "{seed}: {measured:?}, {limit}");
        let best = &cloud["meets"][0];
        assert!(number(&best["price_a_month"]) < 20.0, "{seed}: {limit}: {best}");
    }
}

/// The command after a label of the output.
fn printed(output: &str, label: &str) -> String {
    let label = format!("  {label:<9}  ");
    let mut lines = output.lines().skip_while(|line| !line.starts_with(&label));
    let first = lines.next().unwrap_or_else(|| panic!("{label}: {output}"));
    let rest = lines.take_while(|line| line.starts_with(HANGING)).map(str::trim);
    std::iter::once(first[label.len()..].trim()).chain(rest).collect::<Vec<_>>().join(" ")
}

/// Runs a printed command in a shell.
fn carried_out(place: &Place, command: &str) -> String {
    let program = env!("CARGO_BIN_EXE_iodyno");
    let script = format!("iodyno() {{ '{program}' \"$@\"; }}; {command}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.work());
    let output = shell.env("IODYNO_NOTEBOOK", place.notebook()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file that has the name of a workload of the catalog, in a folder whose name the shell would split; and a message
/// log, which has no name.
#[test]
fn printed_commands_run_what_was_simulated() {
    let place = Place::new();
    place.write("prices.toml", PRICES);
    std::fs::create_dir(place.path("my files")).unwrap();
    let own = "my files/oltp1.toml";
    place.write(own, "schema = 1\nblock = \"16KiB\"\n[mix]\nread = 100\n");
    let size = |words: &str| {
        let mut command = place.command(words);
        let output = command.args(["--workload", own]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let devices = size(&format!("size --rate 5k/s --p99 5ms {SMALL}"));
    let cloud = "size --cloud aws --prices prices.toml --p99 20ms --capacity 500GiB -q";
    let volumes = size(&format!("{cloud} --rate 1k/s"));
    let explained = carried_out(&place, &printed(&devices, "look at"));
    assert!(explained.contains("16 KiB") && explained.contains("100 %"), "{explained}");
    for output in [&devices, &volumes] {
        carried_out(&place, &(printed(output, "run it") + " -q"));
        let run = place.iodyno("show last --json").succeeds().json();
        let cell = &cells(&run)[0];
        assert_eq!(cell["blocks"][0]["bytes"], 16_384, "{cell}");
        assert_eq!(cell["write"]["ops"], 0, "{cell}");
    }
    for (flags, share) in [("", 0.0), ("--read-share 80%", 0.8)] {
        let words = format!("{cloud} --log-rate 20k/s --chunk 128KiB {flags}");
        let output = place.iodyno(&words);
        carried_out(&place, &(printed(&output.succeeds().stdout, "run it") + " -q"));
        let run = place.iodyno("show last --json").succeeds().json();
        let cell = &cells(&run)[0];
        assert_eq!(cell["blocks"][0]["bytes"], 131_072, "{cell}");
        let reads = cell["read"]["iops"].as_f64().unwrap_or(0.0);
        let all = reads + number(&cell["write"]["iops"]);
        assert!((reads / all - share).abs() < 0.05, "{cell}");
        // 20 k messages of 1 KiB are 156.25 chunks.
        assert!((all * (1.0 - share) / 156.25 - 1.0).abs() < 0.2, "{all}: {cell}");
    }
}
