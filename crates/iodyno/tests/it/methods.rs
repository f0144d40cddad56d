//! Methods from the command line: sweeps by flags, SNIA's tests on emulated and on real storage,
//! the deviations of a run that was shortened, and runs that are killed and resumed.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, RunOutput, Running, number, whole};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

const DEVICE: &str = "model:ssd-sata3-mlc-200g";

fn stage<'a>(document: &'a Value, name: &str) -> &'a Value {
    let stages = document["findings"]["subjects"][0]["stages"].as_array().unwrap();
    &stages.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("{name}"))["showed"]
}

#[test]
fn a_sweep_by_flags() {
    let place = Place::new();
    let words = format!(
        "run random-read --on {DEVICE} --vary depth=1,4,16,64 --vary block=4KiB,16KiB --time 50ms --json -q"
    );
    let output = place.iodyno(&words);
    let document = output.succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let table = &stage(&document, "sweep")["table"];
    assert_eq!(table["axes"], serde_json::json!(["depth", "block"]));
    assert_eq!(table["rows"].as_array().unwrap().len(), 8);
    let iops = |row: usize| number(&table["rows"][row]["iops"]);
    assert!(iops(4) > 2.0 * iops(0), "depth 16 is faster than depth 1: {table:#}");
    // Over one axis of load there is a best point; here the blocks differ too.
    assert!(stage(&document, "sweep")["load"].is_null());
    let words = format!(
        "run random-read --on {DEVICE} --vary depth=1,4,16,64 --time 50ms --ceiling p99=2ms"
    );
    let shown = place.iodyno(&words);
    let shown = &shown.succeeds().stdout;
    assert!(shown.contains("best point under p99"), "{shown}");
    let csv = place.iodyno("export last --format csv");
    assert_eq!(csv.succeeds().stdout.lines().count(), 1 + 4);
}

/// `--vary fsync`: each worker flushes after this many writes. Flushes are not counted as IOPS, and
/// have a percentile of their own.
#[test]
fn a_sweep_over_flushes() {
    let place = Place::new();
    let words = format!("run random-write --on {DEVICE} --depth 4 --vary fsync=0,1,8 --time 200ms");
    let output = place.iodyno(&format!("{words} --json -q"));
    let document = output.succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let table = &stage(&document, "sweep")["table"];
    assert_eq!(table["axes"], serde_json::json!(["fsync"]));
    for (row, every) in table["rows"].as_array().unwrap().iter().zip([0, 1, 8]) {
        assert_eq!(row["at"], serde_json::json!([every.to_string()]));
        let kinds = row["kinds"].as_array().unwrap();
        let of = |kind: &str| kinds.iter().find(|of| of["kind"] == kind);
        let write = of("write").unwrap();
        assert_eq!(row["iops"], write["iops"], "flushes are no IOPS");
        let flushes = of("flush").map_or(0, |of| whole(&of["ops"]));
        let expected = whole(&write["ops"]).checked_div(every).unwrap_or(0);
        // Operations in flight at either end of the window may be missing.
        assert!(flushes.abs_diff(expected) <= 4, "{flushes} flushes, every {every} of {write}");
    }
    // Every point of this one flushes, the best too.
    let shown = place.iodyno(&words.replace("fsync=0,1,8", "fsync=1,8"));
    let shown = &shown.succeeds().stdout;
    assert!(shown.contains("p99 of writes ") && shown.contains(", of flushes "), "{shown}");
    place.iodyno("run random-read --vary fsync=1,8").exits(2).says(&["has no writes"]);
    let both = place.iodyno("run random-write --fsync 1 --vary fsync=1,8");
    both.exits(2).says(&["--fsync has no effect with --vary"]);
    // A list and a comparison count them apart, too.
    for seed in [1, 2] {
        let words =
            format!("run random-write --on {DEVICE} --fsync 1 --time 100ms --seed {seed} -q");
        place.iodyno(&words).succeeds();
    }
    let listed = place.iodyno("ls");
    assert!(listed.succeeds().stdout.contains(" IOPS and "), "{}", listed.stdout);
    assert!(listed.stdout.contains(" flushes/s"), "{}", listed.stdout);
    let compared = place.iodyno("compare last~1 last");
    let text = &compared.stdout;
    for figure in [" IOPS ", " flush rate ", " write p99 ", " flush p99 "] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
}

/// With enough processors, cells of a round run in parallel: the figures, the intervals and their
/// order are those of one processor.
#[test]
fn parallel_cells_equal_sequential_ones() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"r\"\ndo = \"rounds\"\nread = [\"100%\", \"0%\"]\nblock = [\"8KiB\", \"4KiB\"]\ndepth = 8\ntime = \"20ms\"\nrounds = 6\ntrack = [{ read = \"0%\", block = \"4KiB\", measure = \"iops\" }]\n[[stages]]\nname = \"c\"\ndo = \"cells\"\ndepth = [1, 4, 16]\nblock = \"4KiB\"\ntime = \"20ms\"\norder = \"abba\"\nrepeats = 2\n";
    place.write("m.toml", file);
    let words = format!("run ./m.toml --on {DEVICE} --json --series -q");
    let cells = |output: RunOutput| {
        let mut cells = output.succeeds().json()["cells"].as_array().unwrap().clone();
        for cell in &mut cells {
            // The cost of simulating, and the command line.
            for key in ["cpu_seconds", "cpu_workers", "facts"] {
                cell.as_object_mut().unwrap().remove(key);
            }
        }
        cells
    };
    let at_once = cells(place.iodyno(&words));
    assert!(at_once.len() >= 4 * 5 + 2 * 3, "{}", at_once.len());
    let inner = place.command(&words);
    let mut one = std::process::Command::new("taskset");
    one.args(["-c", &first_cpu()]).arg(inner.get_program()).args(inner.get_args());
    one.current_dir(place.work()).env("IODYNO_NOTEBOOK", place.notebook());
    let one = one.stdout(Stdio::piped()).stderr(Stdio::piped());
    let alone = cells(Running::of(one).finish());
    assert_eq!(at_once, alone);
}

/// Number of a processor that this process may use. Not every container may use processor 0.
pub(crate) fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

/// A ceiling for a percentile without samples is neither met nor exceeded: it is unknown.
#[test]
fn a_ceiling_that_can_t_be_judged_is_not_called_broken() {
    let place = Place::new();
    let output = place.iodyno(
        "run random-read --on model:exflash-400g --vary depth=1,2 --ceiling p99.9999=1s --time 20ms -q",
    );
    let said = output.succeeds().stdout.replace('\n', " ");
    assert!(said.contains("too few operations to tell"), "{said}");
    assert!(!said.contains("is over the ceiling"), "{said}");
}

#[test]
fn flags_that_would_have_no_effect_are_refused() {
    let place = Place::new();
    for (words, expected) in [
        ("run pts-iops --on null: --block 4KiB", "--block has no effect on a method"),
        ("run pts-iops --on null: --vary depth=1,2", "take --vary out"),
        ("run random-read --on null: --scale 0.5", "--scale is for methods"),
        ("run random-read --on null: --vary deep=1,2", "can't vary `deep`"),
        ("run pts-iops --on null: --setting home", "enterprise and client"),
        ("run pts-iops --on null: --scale 2", "at most 1"),
        ("run pts-iops --on null: --scale 1e-9", "use 0.000017 or more"),
        ("run random-read --on null: --vary targets=1,9", "the number of targets of the run, 1:"),
        ("run random-read --on ram:1MiB --vary fill=50%", "leave `ram:1MiB` out"),
        ("run random-read --on null: --vary depth=1,2 --ceiling p99=0ms", "a time above 0"),
        (
            "run random-read --on null: --vary depth=1,2 --vary block=4KiB,8KiB --ceiling p99=1ms",
            "may have only depth, threads and rate",
        ),
        ("run random-read --on null: --constant --find-rate p99<1ms", "cannot be used with"),
        (
            "size --device nvme-tlc-3840g --volumes 3 --workload oltp1 --rate 1k/s",
            "cannot be used with",
        ),
        ("run random-read --on model:exflash-400g --system-clock", "leave it out"),
        ("serve ram:64MiB --speed model", "--speed is for emulated storage"),
        ("serve exflash-400g --memory 0", "use 1 MiB or more"),
        ("serve exflash-400g*2 --memory 1MiB", "1 MiB for each volume"),
        ("study calypso-ramdisk --threads 0", "from 1 to 1024"),
        ("study calypso-ramdisk --threads 100000", "from 1 to 1024"),
    ] {
        let refused = place.iodyno(words);
        assert!(refused.exits(2).stderr.contains(expected), "{words}");
    }
    let missing = place.iodyno("resume last");
    assert_ne!(missing.code, Some(0));
}

/// SNIA's latency test in virtual time, and much shortened on real memory. Wherever its name is shown, the deviations
/// are shown too.
#[test]
fn a_shortened_test_never_bears_the_name_alone() {
    let place = Place::new();
    let output = place.iodyno(&format!("run pts-lat --on {DEVICE} --json -q"));
    let document = output.succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let findings = &document["findings"];
    assert_eq!(findings["complete"], true);
    let deviations = findings["deviations"].as_array().unwrap();
    let deviates = |words: &str| deviations.iter().any(|d| d.as_str().unwrap().contains(words));
    // Its cells do not end early, since the test reports maxima.
    assert!(deviations.len() == 1 && deviates("constructed"), "{deviations:?}");
    let rounds = stage(&document, "latency");
    assert_eq!(rounds["steady"]["progress"], "reached");
    assert_eq!(rounds["table"]["rows"].as_array().unwrap().len(), 9);
    // 20 minutes of one write at a time: five nines are supported, because it did not end early.
    let long = &stage(&document, "long")["table"]["rows"][0];
    assert_eq!(long["settled"], false);
    assert!(number(&long["ops"]) > 1e6);

    let words = "run pts-lat --on ram:32MiB --scale 0.0003 -q";
    // Whether memory is steady over so short a time depends on the machine: 0 or 9.
    let shown = place.iodyno(words);
    let shown = &shown.stdout;
    assert!(shown.contains("NON-CONFORMANT") && shown.contains("NON_CONFORMANT"), "{shown}");
    assert!(shown.contains("multiplied by 0.0003"), "{shown}");
    let again = place.iodyno("show last");
    assert!(again.succeeds().stdout.contains("NON-CONFORMANT"));
    let document = place.iodyno("show last --json").succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let cells = document["cells"].as_array().unwrap();
    let fill = cells.iter().find(|c| c["name"] == "fill").unwrap();
    assert_eq!(fill["place"]["role"], "prepare");
    assert_eq!(whole(&fill["write"]["bytes"]), 2 * (32 << 20));
}

/// A cell whose blocks are smaller than the file system's sectors is left out, and shown as such.
#[test]
fn a_cell_that_does_not_fit_is_shown_as_not_available() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"m\"\ndo = \"cells\"\nblock = [\"1000KiB\", \"4KiB\"]\ntime = \"300ms\"\n";
    place.write("m.toml", file);
    // Smaller than one of the blocks.
    let output = place.iodyno("run ./m.toml --on ram:64KiB --json -q");
    let document = output.succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    let rows = &stage(&document, "m")["table"]["rows"];
    assert!(rows[0]["skipped"].is_string() && rows[0]["iops"].is_null(), "{rows:#}");
    assert!(number(&rows[1]["iops"]) > 0.0);
}

/// Write saturation from a fresh device: fast at first, slower in the end, on one device whose
/// state each sample passes to the next.
#[test]
fn a_saturated_device_falls_to_its_steady_state() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\ndo = \"purge\"\n[[stages]]\nname = \"s\"\ndo = \"series\"\nread = \"0%\"\nblock = \"4KiB\"\nthreads = 4\ndepth = 32\ntime = \"4s\"\nsamples = 400\nfills = 2.5\n";
    place.write("s.toml", file);
    let device = small_ssd(&place);
    let output = place.iodyno(&format!("run ./s.toml --on {device} --json -q"));
    let document = output.succeeds().json();
    let series = stage(&document, "s");
    let (first, end) = (number(&series["first"]["iops"]), number(&series["end"]["iops"]));
    assert!(end < 0.6 * first, "from {first} to {end}");
    let samples = series["samples"].as_array().unwrap();
    let fills = number(&samples.last().unwrap()["fills"]);
    assert!((2.5..2.7).contains(&fills), "{fills}");
}

/// Changes that make the device small: its capacity and its flash.
const SHRINK: [(&str, &str); 3] = [
    ("\"128GB\"", "\"960000KiB\""),
    ("\"128GiB\"", "\"1GiB\""),
    ("pages_per_block = { is = 256", "pages_per_block = { is = 32"),
];

/// Writes a device of the catalog with a capacity of 1 GB, so that a test can fill it. Returns its target name.
fn small_ssd(place: &Place) -> String {
    let device = place.iodyno("catalog ssd-msata-mlc-128g");
    let text = device.succeeds().stdout.clone();
    let small = SHRINK.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "the device file says {from}\n{text}");
        text.replacen(from, to, 1)
    });
    place.write("small.toml", small);
    "model:./small.toml".to_owned()
}

const METHOD: &str = r#"
schema = 1
[[stages]]
do = "purge"
[[stages]]
do = "fill"
[[stages]]
name = "rounds"
do = "rounds"
read = ["100%", "0%"]
block = ["16KiB", "4KiB"]
depth = 16
time = "300ms"
track = [{ read = "0%", block = "4KiB", measure = "iops" }]
settle = false
[[stages]]
name = "carried"
do = "series"
read = "0%"
depth = 16
time = "200ms"
wait = "50ms"
samples = 12
[[stages]]
name = "points"
do = "points"
of = "rounds"
choose = ["max", "min"]
time = "300ms"
"#;

/// A run that is killed repeatedly, in any state, and resumed has the same final table as a run without kills. At most
/// the current cell is measured again.
#[test]
fn kills_leave_the_final_table_the_same() {
    let place = Place::new();
    place.write("m.toml", METHOD);
    let run = format!("run ./m.toml --on {DEVICE} -q");
    let whole = place.iodyno(&format!("{run} --json"));
    let whole = whole.succeeds().json();
    let (mut kills, mut seed, mut lost) = (0_u32, 9_u64, 0_usize);
    while kills < 20 {
        let mut words = run.clone();
        let mut before = 0;
        // On a machine so slow that no cell ends in time, the next one is given longer.
        let mut stretch = 1;
        loop {
            // A simple generator is random enough for a waiting time.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let patience = Duration::from_millis(60 + stretch * ((seed >> 33) % 500));
            let mut child = place.command(&words).stdout(Stdio::null()).spawn().unwrap();
            let begun = Instant::now();
            let ended = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break Some(status);
                }
                if begun.elapsed() > patience {
                    break None;
                }
                std::thread::sleep(Duration::from_millis(2));
            };
            if let Some(status) = ended {
                assert!(status.success(), "{words}");
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            let shown = place.iodyno("show last --json");
            if shown.code != Some(0) {
                // Killed before there was a run at all, or a notebook.
                continue;
            }
            let stored = shown.json();
            if stored["run"]["status"] == "finished" {
                // Killed after its end, while exiting; or before it began, and this is the one before.
                break;
            }
            let finished = stored["cells"].as_array().unwrap().iter();
            let finished = finished.filter(|c| c["ended"] != "crashed").count();
            lost += usize::from(finished < before);
            stretch = if finished > before { 1 } else { (2 * stretch).min(64) };
            before = finished;
            words = "resume last -q".to_owned();
        }
        let again = place.iodyno("show last --json").succeeds().json();
        assert_eq!(again["run"]["status"], "finished");
        assert_eq!(again["findings"], whole["findings"]);
    }
    assert_eq!(lost, 0, "a cell that was finished was measured again");
    let refused = place.iodyno("resume last");
    assert!(refused.exits(2).stderr.contains("nothing to resume"));
}

/// On real storage, finished cells survive a kill and are not measured again. A scratch file is gone.
#[test]
fn a_run_on_a_file_continues_and_one_on_a_scratch_file_does_not() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\ndo = \"fill\"\n[[stages]]\nname = \"m\"\ndo = \"cells\"\ndepth = [1, 2, 4]\ntime = \"400ms\"\n";
    place.write("m.toml", file);
    let kill = |words: &str| {
        let mut running = place.start(words);
        place.wait_for_cells(&mut running, 2);
        running.signal(libc::SIGKILL);
        running.finish();
    };
    kill("run ./m.toml --on t?size=16MiB -q");
    let shown = place.iodyno("show last");
    assert!(shown.succeeds().stdout.contains("`iodyno resume "), "{shown:?}");
    // The stored request is all that it takes: neither the folder nor the method's file.
    std::fs::remove_file(place.path("m.toml")).unwrap();
    let output = in_another_folder(&place, "resume last --json -q");
    place.write("m.toml", file);
    let document = output.succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    assert_eq!(document["findings"]["complete"], true);
    let cells = document["cells"].as_array().unwrap();
    let fills: Vec<&Value> = cells.iter().filter(|c| c["place"]["role"] == "prepare").collect();
    assert_eq!((fills.len(), cells.len()), (1, 4));
    assert_eq!(whole(&fills[0]["write"]["bytes"]), 2 * (16 << 20));

    // Another size is another target.
    kill("run ./m.toml --on t?size=16MiB -q");
    let longer = std::fs::OpenOptions::new().write(true).open(place.path("t")).unwrap();
    longer.set_len(8 << 20).unwrap();
    let refused = place.iodyno("resume last -q");
    assert_ne!(refused.code, Some(0), "{refused:?}");

    kill("run ./m.toml --on scratch:16MiB -q");
    place.iodyno("resume last").fails(2, &["a temporary file of the interrupted process"]);
    // The summary of the run does not promise a resume that is refused.
    let shown = place.iodyno("show last");
    let said = shown.succeeds().stdout.replace('\n', " ");
    assert!(!said.contains("iodyno resume") && said.contains("scratch file is gone"), "{said}");
}

/// Runs the program in another folder than the original run, with the same notebook.
fn in_another_folder(place: &Place, words: &str) -> RunOutput {
    let mut command = place.command(words);
    command.current_dir("/").env("IODYNO_NOTEBOOK", place.notebook());
    Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish()
}

/// The description of a device is part of the request: a file that changes during the run does not change the rest of
/// the run.
#[test]
fn a_resumed_run_keeps_the_device_that_it_began_with() {
    let place = Place::new();
    let device = place.iodyno("catalog exflash-400g").succeeds().stdout.clone();
    place.write("disk.toml", &device);
    let words = "run random-write --on model:./disk.toml --vary block=4KiB,8KiB,16KiB,32KiB --vary depth=1,2,4,8 -q";
    let figures = |output: &RunOutput| -> Vec<(String, String)> {
        let document = output.succeeds().json();
        let cells = document["cells"].as_array().unwrap().iter();
        cells.map(|c| (c["name"].to_string(), c["write"]["iops"].to_string())).collect()
    };
    let whole = figures(&place.iodyno(&format!("{words} --json")));
    let mut running = place.start(words);
    place.wait_for_cells(&mut running, 2);
    running.signal(libc::SIGKILL);
    running.finish();
    place.write("disk.toml", device.replace("channels", "chanels"));
    let notebook = rusqlite::Connection::open(place.notebook()).unwrap();
    let on_machine = |model: &str| {
        let known: String =
            notebook.query_row("SELECT machine FROM runs", [], |row| row.get(0)).unwrap();
        let mut machine: Value = serde_json::from_str(&known).unwrap();
        let before = machine["cpu_model"].as_str().unwrap().to_owned();
        machine["cpu_model"] = model.into();
        notebook.execute("UPDATE runs SET machine = ?1", [machine.to_string()]).unwrap();
        before
    };
    let own = on_machine("another");
    place.iodyno("resume last").fails(2, &["begun on another machine"]);
    on_machine(&own);
    assert_eq!(figures(&in_another_folder(&place, "resume last --json -q")), whole);
    assert_eq!(whole.len(), 16);
}

/// The search ends between a rate that meets the limit and a near one that does not. If a cell has too few samples, the
/// output says how long it must be, and that suffices. A share of the highest rate is also one on several targets.
#[test]
fn loads_of_several_targets() {
    let place = Place::new();
    let document = place.document("run load-latency --on model:exflash-400g*2 --scale 5%");
    let cells = document["cells"].as_array().unwrap();
    let all = cells.iter().filter(|cell| cell["target"].as_str().unwrap().starts_with("all ("));
    let (mut most, mut offered) = (0.0_f64, Vec::new());
    for cell in all {
        match cell["offered_iops"].as_f64() {
            None => most = most.max(number(&cell["total"]["ops_per_s"])),
            Some(rate) => offered.push(rate / most),
        }
    }
    assert!(offered.len() > 3 && offered.iter().all(|share| *share < 1.001), "{offered:?}");
    assert!(offered.iter().any(|share| *share > 0.9), "{offered:?}");
}

#[test]
fn the_highest_rate_under_a_latency() {
    let place = Place::new();
    let search = "run random-read --on model:exflash-400g --ramp 100ms --find-rate";
    let document = place.document(&format!("{search} p99<500us --time 1s"));
    assert_valid(RUN_SCHEMA, &document);
    let found = &document["findings"]["subjects"][0]["stages"][0]["showed"];
    assert_eq!(found["kind"], "rate_search");
    let of = |key: &str| number(&found[key]);
    assert!(of("holds_iops") < of("fails_iops") && of("fails_iops") < of("capacity_iops"));
    assert!(of("fails_iops") < 1.021 * of("holds_iops"), "{found}");
    assert!(of("surely_holds_iops") <= of("holds_iops"));
    let probes = found["probes"].as_array().unwrap();
    assert_eq!(probes.len(), document["cells"].as_array().unwrap().len());
    let shown = place.iodyno("show last");
    let said = &shown.succeeds().stdout;
    assert!(said.contains("highest rate with p99 < 500 µs") && said.contains("closed loop"));
    let page = place.path("page.html");
    place.iodyno(&format!("report last -o {}", page.display())).succeeds();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Latency by offered rate"));
    // The legend and the note give the sign one meaning.
    assert!(page.contains(">does not meet the limit<") && page.contains("A triangle marks rates"));

    // Several targets: all rates are those of all together.
    let two = search.replace("exflash-400g", "exflash-400g*2");
    let two = place.document(&format!("{two} p99<500us --time 1s"));
    let both = &two["findings"]["subjects"][0]["stages"][0]["showed"];
    let of_both = |key: &str| number(&both[key]);
    let off = of_both("holds_iops") / (2.0 * of("holds_iops"));
    assert!((0.9..1.1).contains(&off), "{both}");
    assert!(of_both("surely_holds_iops") <= of_both("holds_iops"), "{both}");
    assert!(of_both("holds_iops") < of_both("capacity_iops"), "{both}");

    // Cells without an estimate of how operations cluster prove nothing.
    let short = place.document(&format!("{search} p50<150us --time 500ms"));
    let found = &short["findings"]["subjects"][0]["stages"][0]["showed"];
    assert!(number(&found["holds_iops"]) > 0.0, "{found}");
    assert!(
        found["surely_holds_iops"].is_null() && found["surely_fails_iops"].is_null(),
        "{found}"
    );

    let short = place.iodyno(&format!("{search} p99.9<10ms --time 20ms -q"));
    let said = short.succeeds().stdout.replace('\n', " ");
    assert!(said.contains("too few operations to tell") && said.contains("give --time 1 s"));

    // The table and the document agree with the sentence.
    let gp3 = "run random-read --on model:ebs-gp3?iops=5000 --time 1s --find-rate";
    let unknown = place.document(&format!("{gp3} p99<0.5ms"));
    assert_valid(RUN_SCHEMA, &unknown);
    let found = &unknown["findings"]["subjects"][0]["stages"][0]["showed"];
    let last = found["probes"].as_array().unwrap().iter().find(|p| p["offered_iops"] == 625.0);
    let last = last.unwrap();
    assert!(last["latency_ns"].is_null() && last["holds"].is_null(), "{found}");
    // The 100 ms of operations that the volume allows in advance last through the window.
    let said = place.iodyno(&format!("{gp3} p99<2ms")).succeeds().stdout.replace('\n', " ");
    assert!(said.contains("only for a time") && said.contains("use a longer --time"), "{said}");
    for refused in [
        "run four-corners --find-rate p99<1ms",
        "run random-read --find-rate iops<5",
        "run random-read --find-rate p99<1ms --rate 5/s",
        "run depth --find-rate p99<1ms",
    ] {
        place.iodyno(&format!("{refused} --on null:")).exits(2);
    }
    place
        .iodyno("run random-write --find-rate read.p99<1ms --on null:")
        .fails(2, &["latency of reads", "never issues"]);
}

const TWO_POINTS: &str = r#"
schema = 1
require = ["p99 < 1us"]
[[stages]]
name = "demand"
do = "cells"
read = "70%"
depth = [1, 8]
time = "60ms"
repeats = 2
[[stages]]
name = "quality"
do = "points"
of = "demand"
choose = ["max"]
time = "60ms"
[[stages]]
name = "idle"
do = "series"
read = "0%"
time = "50ms"
wait = "1s"
samples = 3
[[stages]]
name = "busy"
do = "series"
read = "0%"
time = "50ms"
samples = 24
"#;

/// Each target is measured alone, with points chosen from its own figures, and then all at the same time. Every cell
/// has its own random streams, a threshold in the file decides the exit code, and waits pass in virtual time.
#[test]
fn each_target_by_itself() {
    let place = Place::new();
    place.write("m.toml", TWO_POINTS);
    let words = format!("run ./m.toml --each --on {DEVICE} --on model:ssd-sas12-mlc-800g -q");
    let output = place.iodyno(&words);
    let shown = &output.exits(6).stdout;
    for words in
        ["confidence levels side by side", "max OIO 8 model:ssd-sata3", "max OIO 8 model:ssd-sas12"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document = place.iodyno("show last --json").json();
    assert_valid(RUN_SCHEMA, &document);
    let subjects = document["findings"]["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), 2);
    assert_eq!(document["findings"]["complete"], true);
    let mut seeds: Vec<u64> =
        document["cells"].as_array().unwrap().iter().map(|c| whole(&c["seed"])).collect();
    let cells = seeds.len();
    assert_eq!(cells, 2 * (4 + 1 + 3 + 24));
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), cells, "two cells issued the same addresses");
    let waited = &stage(&document, "idle")["samples"];
    assert!((number(&waited[2]["at_s"]) - 2.15).abs() < 1e-6, "{waited:#}");
    // 24 samples are enough for the drift test, if only for the verdict that it takes longer.
    let busy = stage(&document, "busy");
    assert!(busy["drift"]["steadiness"]["too_short"].is_object(), "{}", busy["drift"]);
    assert_eq!(busy["stalls"]["count"], 0);
}

/// A wait takes its time on real storage, however busy the machine is.
#[test]
fn waits_take_their_time() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\ndo = \"wait\"\ntime = \"1s\"\n[[stages]]\ndo = \"series\"\ntime = \"20ms\"\nwait = \"1s\"\nsamples = 2\n";
    place.write("w.toml", file);
    let begun = Instant::now();
    place.iodyno("run ./w.toml --on null: -q").succeeds();
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

/// A method whose rounds never become steady failed, though each of its cells is sound: the exit code, the
/// list, the terminal, JSON, the page and its pills report the same, and so does the run shown again.
#[test]
fn a_method_that_failed_is_not_valid_anywhere() {
    let place = Place::new();
    let file = |range: &str| {
        format!(
            "schema = 1\n[[stages]]\nname = \"r\"\ndo = \"rounds\"\nread = \"50%\"\nblock = \"4KiB\"\ndepth = 8\ntime = \"30ms\"\nrounds = 6\nrange = \"{range}\"\nslope = \"{range}\"\nsettle = false\ntrack = [{{ measure = \"iops\" }}]\n"
        )
    };
    place.write("m.toml", file("0.0001%"));
    let words = format!("run ./m.toml --on {DEVICE} -q");
    let output = place.iodyno(&words);
    output.exits(9);
    let shown = place.iodyno("show last");
    for text in [&output.stdout, &shown.succeeds().stdout] {
        assert!(text.contains("NOT REACHED") && text.contains("INVALID  NOT_STEADY"), "{text}");
        assert!(text.contains("NOT_STEADY: the run: stage `r`"), "{text}");
        assert!(
            !text.contains("VALID    ") && text.contains("no cell has a warning of its own"),
            "{text}"
        );
    }
    let document = place.iodyno("show last --json").succeeds().json();
    assert_valid(RUN_SCHEMA, &document);
    assert_eq!(document["run"]["level"], "invalid");
    assert_eq!(document["run"]["verdicts"][0]["code"], "NOT_STEADY");
    assert_eq!(document["run"]["verdicts"], document["findings"]["verdicts"]);
    assert!(document["cells"].as_array().unwrap().iter().all(|c| c["level"] == "note"));
    let list = place.iodyno("ls --json").succeeds().json();
    assert_valid(crate::contract::LIST_SCHEMA, &list);
    assert_eq!(list["runs"][0]["level"], "invalid");
    assert_eq!(list["runs"][0]["verdicts"], document["run"]["verdicts"]);
    let page = place.iodyno("report last --markdown");
    let page = &page.succeeds().stdout;
    assert!(
        page.contains("NOT_STEADY") && page.contains("run INVALID · no cell has a warning"),
        "{page}"
    );
    assert!(!page.contains("· VALID"), "{page}");
    place.iodyno(&format!("{words} --seed 2")).exits(9);
    let compared = place.iodyno("compare last~1 last");
    assert!(compared.stdout.contains("METHOD_FAILED"), "{}", compared.stdout);
    // It precedes a threshold, and follows graver failures.
    place.iodyno(&format!("{words} --require iops>1G")).exits(9);
    place.write("m.toml", file("90%"));
    let output = place.iodyno(&format!("{words} --name reached"));
    assert!(output.succeeds().stdout.contains("VALID    all 5 cells"), "{}", output.stdout);
    let list = place.iodyno("ls --json").succeeds().json();
    assert_eq!(list["runs"][3]["level"], "note");
    // A deviation from a standard is a warning, and the method is complete.
    let output = place.iodyno(&format!("run pts-lat --on {DEVICE} --scale 0.01 -q"));
    let text = &output.succeeds().stdout;
    assert!(
        text.contains("NON_CONFORMANT: the run: deviates from SNIA SSS PTS")
            && !text.contains("VALID    "),
        "{text}"
    );
    assert!(
        text.lines().any(|l| l.starts_with("long ")),
        "a stage of one cell has its name: {text}"
    );
    let list = place.iodyno("ls --json").succeeds().json();
    assert_eq!(list["runs"][4]["level"], "warning");
    assert_eq!(list["runs"][4]["verdicts"][0]["code"], "NON_CONFORMANT");
}

/// A flag without effect is refused, with the reason; names of other tools get a hint.
#[test]
fn flags_without_effect_and_names_of_other_tools() {
    let place = Place::new();
    let words = format!("run pts-lat --on {DEVICE} --depth 3");
    place.iodyno(&words).fails(2, &["--depth has no effect", "pts-lat"]);
    place.iodyno("run pts --on null:").fails(2, &["pts-iops", "pts-lat"]);
    place.iodyno("run randrw --on null:").fails(2, &["db-oltp"]);
    place.iodyno("run randread --on null:").fails(2, &["random-read"]);
    place.iodyno("run exflash-400g").fails(2, &["is a device", "--on model:exflash-400g"]);
    place.iodyno("run /dev/zero").fails(2, &["is a target", "--on /dev/zero"]);
    place.iodyno("run ram:64MiB").fails(2, &["is a target", "--on ram:64MiB"]);
    place.iodyno("run random-read --rwmixread 70").fails(2, &["--rwmixread", "--read 70%"]);
    place.iodyno("run random-read --on exflash-400g").fails(2, &["--on model:exflash-400g"]);
    place.iodyno("run pts-lat --on null: --scale 200%").fails(2, &["200%"]);
    place.iodyno("run random-read --iodepth=4").fails(2, &["use --depth"]);
}
