//! Compares synthetic runs: equal results are not called different, differences are found, no omission is silent, and
//! each document conforms to the schema.

use crate::samples;

use iodyno_measure::statistics::compare::Difference;
use iodyno_measure::{Ended, ErrorKind, Metric};
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_report::compare::{
    Compared, Covers, Finding, Options, SCHEMA, Side, compare, document, show,
};
use iodyno_units::OpKind;
use iodyno_units::rng::{self, Generator, RngCore as _};
use samples::{Ask, cell, finish, nvme, run};
use serde_json::{Value, json};

const STYLE: Style = Style { color: false, width: 110, unicode: true };

/// Approximately normal noise with standard deviation 1.
fn noise(random: &mut Generator) -> f64 {
    (0..12).map(|_| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
}

/// A run of two cells at `rate` times the default rate, with noise of coefficient of variation `cv`.
fn made(number: u32, target: &'static str, rate: f64, cv: f64, random: &mut Generator) -> Run {
    let mut one = |name, kind, repeat: u32| {
        let ops = 50_000.0 * rate * (1.0 + cv * noise(random));
        let mix = vec![(kind, ops as u64)];
        let ask = Ask {
            name,
            target,
            engine: "uring",
            threads: 1,
            depth: 32,
            block: 4096,
            mix,
            seconds: 2,
        };
        let mut cell = cell(&ask);
        cell.key.repeat = repeat;
        cell
    };
    let cells = vec![one("random-read", OpKind::Read, 0), one("random-write", OpKind::Write, 0)];
    let mut run = run("corners", target, nvme("Example"), cells);
    run.id = format!("{number:010}");
    run.started =
        format!("2026-11-21T{:02}:{:02}:00.000Z", number / 60, number % 60).parse().unwrap();
    run
}

/// `n` runs per side in alternating order, B at `rate` times A's rate.
fn sides(trial: u64, n: u32, rate: f64, cv: f64) -> [Vec<Run>; 2] {
    let mut random = rng::stream(trial, "compare", 0);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..n {
        a.push(made(2 * i, "/dev/nvme0n1", 1.0, cv, &mut random));
        b.push(made(2 * i + 1, "/dev/nvme1n1", rate, cv, &mut random));
    }
    [a, b]
}

fn compared<'a>([a, b]: &'a [Vec<Run>; 2], options: &Options) -> Compared<'a> {
    let side = |asked, runs| Side { asked, runs };
    let compared = compare(side("before", a), side("after", b), options).unwrap();
    let document = document(&compared);
    assert_valid(&document);
    compared
}

fn assert_valid(document: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// The terminal text without line breaks.
fn words(compared: &Compared) -> String {
    show(compared, STYLE).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn codes(compared: &Compared) -> Vec<String> {
    compared.remarks.iter().map(|r| r.code.clone()).collect()
}

#[test]
fn noise_is_no_difference_and_a_difference_is_found() {
    let (mut quiet, mut found, trials) = (0, 0, 60);
    for trial in 0..trials {
        let same = sides(trial, 6, 1.0, 0.02);
        quiet += u64::from(compared(&same, &Options::default()).counts()[..2] == [0, 0]);
        let slower = sides(trial, 6, 0.9, 0.02);
        let compared = compared(&slower, &Options::default());
        found += u64::from(compared.counts()[0] == 4 && compared.finding() == Finding::Slower);
    }
    assert!(quiet * 100 >= 95 * trials && found * 100 >= 95 * trials, "{quiet}, {found}");
}

/// Asserts that every cell of either side is in a row or an omission.
fn assert_nothing_is_lost(runs: &[Vec<Run>; 2], compared: &Compared) {
    for run in runs.iter().flatten() {
        for cell in &run.cells {
            let name = &cell.key.name;
            let shown = compared.rows.iter().any(|r| r.a_key.name == *name)
                || compared.omissions.iter().any(|o| o.cell == *name);
            assert!(shown, "{name}");
        }
    }
}

#[test]
fn what_is_not_compared_is_said() {
    let mut runs = sides(1, 5, 1.0, 0.01);
    // A cell that only B has, one that is INVALID in a run of A, and one that is in all of B.
    for run in &mut runs[1] {
        let mut extra = run.cells[0].clone();
        extra.key.name = "extra".to_owned();
        run.cells.push(extra);
        let write = run.cells[1].series[0].class_mut(OpKind::Write);
        write.errors.add(ErrorKind::Io, 5);
        finish(&mut run.cells[1]);
    }
    runs[0][2].cells[0].ended = Ended::Interrupted;
    let of = compared(&runs, &Options::default());
    assert_nothing_is_lost(&runs, &of);
    assert_eq!(of.rows.iter().map(|r| (r.a.len(), r.b.len())).collect::<Vec<_>>(), [(4, 5); 2]);
    let said: Vec<(&str, &str, &str)> =
        of.omissions.iter().map(|o| (o.cell.as_str(), o.side, o.why.as_str())).collect();
    for (cell, side, why) in [
        ("extra", "b", "A has no such cell"),
        ("random-read", "a", "in 1 of 5: the cell was interrupted"),
        ("random-write", "b", "in 5 of 5: the cell is INVALID (ERRORS)"),
    ] {
        assert!(said.contains(&(cell, side, why)), "{said:?}");
    }
    assert_eq!(of.finding(), Finding::Open);
    let shown = show(&of, STYLE);
    assert!(shown.contains("not compared  extra of B: A has no such cell"), "{shown}");
}

/// Cells of different names are paired if each side has one cell, and only then.
#[test]
fn single_cells_of_different_names_are_paired() {
    let mut runs = sides(4, 5, 0.8, 0.01);
    for run in runs.iter_mut().flatten() {
        run.cells.truncate(1);
    }
    for run in &mut runs[1] {
        "job1".clone_into(&mut run.cells[0].key.name);
    }
    let of = compared(&runs, &Options::default());
    let names = |of: &Compared| -> Vec<[String; 2]> {
        of.rows.iter().map(|r| [r.a_key.name.clone(), r.b_key.name.clone()]).collect()
    };
    let pair = ["random-read".to_owned(), "job1".to_owned()];
    assert_eq!((names(&of), of.omissions.len()), (vec![pair.clone(), pair], 0));
    assert_eq!(of.finding(), Finding::Slower);
    assert!(words(&of).contains("job1"), "{}", words(&of));
    // A second cell on one side makes the pairing a guess.
    for run in &mut runs[0] {
        let mut second = run.cells[0].clone();
        "second".clone_into(&mut second.key.name);
        run.cells.push(second);
    }
    let of = compared(&runs, &Options::default());
    assert_eq!(names(&of), [[""; 2]; 0]);
    assert_nothing_is_lost(&runs, &of);
}

#[test]
fn percentiles_without_samples_are_left_out() {
    let runs = sides(2, 5, 1.0, 0.01);
    let metrics = ["p99.999", "write.bandwidth", "flush.p50"].map(|m| m.parse::<Metric>().unwrap());
    let of = compared(&runs, &Options { metrics: metrics.to_vec(), ..Options::default() });
    assert_eq!(of.rows.len(), 1, "writes of random-write");
    assert_eq!(of.rows[0].metric.to_string(), "write.bandwidth");
    assert!(of.omissions.iter().any(|o| o.why.contains("can't support p99.999")));
    // Another cell has writes, and none has flushes: those can't be judged though they were asked for.
    let neither = |figure: &str| {
        let of = of.omissions.iter().filter(|o| o.why.contains("neither"));
        of.filter(|o| o.metric == figure.parse().ok()).map(|o| o.is_loss).collect::<Vec<_>>()
    };
    assert!(neither("write.bandwidth").iter().all(|is_loss| !is_loss));
    assert!(!neither("write.bandwidth").is_empty());
    assert!(neither("flush.p50").iter().all(|is_loss| *is_loss));
    let metrics = ["read.bandwidth", "flush.p50"].map(|m| m.parse::<Metric>().unwrap());
    let same = [runs[0].clone(), sides(3, 5, 1.0, 0.01)[1].clone()];
    let of = compared(&same, &Options { metrics: metrics.to_vec(), ..Options::default() });
    assert_ne!(of.finding(), Finding::Clear, "flush.p50 was asked for");
    let max = Options { metrics: vec!["max".parse().unwrap()], ..Options::default() };
    let side = |i: usize| Side { asked: "x", runs: &runs[i] };
    assert!(compare(side(0), side(1), &max).unwrap_err().contains("grows with the number"));
    assert!(compare(side(0), side(0), &Options::default()).unwrap_err().contains("both sides"));
}

/// With one or three runs per side, both values are shown, without a verdict.
#[test]
fn too_few_runs_show_nothing() {
    for n in [1, 3] {
        let of_runs = sides(3, n, 0.5, 0.001);
        let of = compared(&of_runs, &Options::default());
        assert_eq!((of.counts(), of.finding()), ([0, 0, 0, 4], Finding::Open));
        assert_eq!(codes(&of), ["FEW_RUNS"]);
        let document = document(&of);
        let first = &document["comparisons"][0];
        assert!((first["ratio"].as_f64().unwrap() - 0.5).abs() < 0.01);
        assert_eq!((&first["verdict"], &first["runs_needed"]), (&json!("inconclusive"), &json!(4)));
        assert_eq!((&first["p_adjusted"], &first["interval"]), (&Value::Null, &Value::Null));
        let shown = words(&of);
        assert!(shown.contains("at least 4 of each (5 to detect"), "{shown}");
    }
    // Four each show one figure alone, and not one of four.
    let of_runs = sides(3, 4, 0.5, 0.001);
    let of = compared(&of_runs, &Options::default());
    assert_eq!(of.counts(), [4, 0, 0, 0], "all of them differ");
    let mut of_runs = sides(3, 4, 1.0, 0.05);
    for run in &mut of_runs[1] {
        let mut random = rng::stream(9, "odd", 0);
        run.cells[0] = made(0, "/dev/nvme1n1", 0.5, 0.0, &mut random).cells[0].clone();
    }
    let of = compared(&of_runs, &Options::default());
    assert!(matches!(of.rows[0].comparison.difference, Difference::Inconclusive { .. }));
    let text = &of.remarks[0].text;
    let said = "4 runs a side can't show a difference in random-read iops, however large, because p is corrected for 4 figures";
    assert!(text.starts_with(said), "{text}");
    // The row promises no detectable shift either.
    let row = &document(&of)["comparisons"][0];
    assert_eq!((&row["detectable_share"], &row["runs_needed"]), (&Value::Null, &json!(5)));
    let shown = show(&of, Style { width: 160, ..STYLE });
    let line = shown.lines().find(|line| line.contains("inconclusive")).unwrap();
    assert!(line.ends_with("inconclusive (5 a side needed)"), "{shown}");
    // Where others are shown beside it, the correction leaves room for a further one: no such claim.
    let mut random = rng::stream(10, "shown", 0);
    for run in &mut of_runs[1] {
        run.cells[1] = made(0, "/dev/nvme1n1", 0.5, 0.01, &mut random).cells[1].clone();
    }
    let write = ["write.iops", "write.p99", "read.iops"].map(|m| m.parse::<Metric>().unwrap());
    let [before, after] = &mut of_runs;
    after.iter_mut().zip(before).for_each(|(b, a)| b.cells[0] = a.cells[0].clone());
    let of = compared(&of_runs, &Options { metrics: write.to_vec(), ..Options::default() });
    assert_eq!((of.rows.len(), of.counts()[0]), (3, 2), "{:?}", of.counts());
    assert_eq!(codes(&of), Vec::<String>::new(), "{:?}", of.remarks);
}

#[test]
fn conditions_are_told() {
    let mut runs = sides(4, 5, 1.0, 0.01);
    for run in &mut runs[1] {
        run.head.iodyno_version = "0.2.0".to_owned();
        run.head.machine["kernel"] = json!("6.19.0");
        run.cells[0].key.depth = 64;
        run.cells[1].key.engine = "libaio".to_owned();
        run.cells[1].evidence.emulated_live = true;
    }
    runs[0][0].cells[1].key.engine = "psync".to_owned();
    let of = compared(&runs, &Options::default());
    assert_eq!(of.rows.len(), 4, "a depth that differs is paired by its name");
    let shown: Vec<(&str, String, String)> =
        of.conditions.iter().map(|c| (c.what.as_str(), c.a.join("|"), c.b.join("|"))).collect();
    for (what, a, b) in [
        ("version of iodyno", "0.1.0", "0.2.0"),
        ("kernel", "6.18.0", "6.19.0"),
        ("depth", "32", "64"),
        ("engine", "psync|uring", "libaio"),
        ("storage", "real", "emulated, real time"),
    ] {
        assert!(shown.contains(&(what, a.to_owned(), b.to_owned())), "{what}: {shown:?}");
    }
    assert_eq!(shown.len(), 5, "{shown:?}");
    assert_eq!(codes(&of), ["CONDITIONS_DIFFER"]);
    assert!(compared(&sides(4, 5, 1.0, 0.01), &Options::default()).conditions.is_empty());
    // Made one side after the other.
    let mut runs = sides(5, 5, 1.0, 0.01);
    runs[1].iter_mut().for_each(|run| run.started = "2026-11-22T00:00:00Z".parse().unwrap());
    assert_eq!(codes(&compared(&runs, &Options::default())), ["NOT_INTERLEAVED"]);
}

/// Repeats are compared individually if each side has one run; otherwise, the repeats of a run form one value.
#[test]
fn repeats_are_not_runs() {
    let mut random = rng::stream(6, "repeats", 0);
    let mut repeated = |number: u32, rate: f64| {
        let mut all = made(number, "/dev/nvme0n1", rate, 0.01, &mut random);
        for repeat in 1..6 {
            let more = made(number, "/dev/nvme0n1", rate, 0.01, &mut random);
            all.cells.extend(more.cells.into_iter().map(|mut cell| {
                cell.key.repeat = repeat;
                cell.key.seed += u64::from(repeat);
                cell
            }));
        }
        all
    };
    let one = [vec![repeated(1, 1.0)], vec![repeated(2, 0.9)]];
    let of = compared(&one, &Options::default());
    assert_eq!((of.counts(), of.rows[0].covers), ([4, 0, 0, 0], Covers::Repeats));
    assert_eq!((of.rows[0].a.len(), codes(&of)), (6, vec!["FEW_RUNS".to_owned()]));
    assert!(
        words(&of)
            .contains("are computed from repeats of a cell within one run, not from other runs")
    );
    let two = [vec![repeated(1, 1.0), repeated(3, 1.0)], vec![repeated(2, 0.9)]];
    let of = compared(&two, &Options::default());
    assert_eq!((of.counts(), of.rows[0].covers), ([0, 0, 0, 4], Covers::Runs));
    assert_eq!((of.rows[0].a.len(), of.rows[0].b.len()), (2, 1));
    // The value of a run is that of all its repeats' operations and time.
    let cells = two[0][0].cells.iter().filter(|c| c.key.name == "random-read");
    let rates: Vec<f64> = cells.map(|c| c.per_second(c.total().ops() as f64)).collect();
    let mean = rates.iter().sum::<f64>() / 6.0;
    assert!(of.rows[0].a.iter().any(|v| (v / mean - 1.0).abs() < 1e-9));
}

/// In virtual time, runs with the same seed are copies, and six copies count as one run.
#[test]
fn copies_count_once() {
    let mut runs = sides(7, 6, 0.9, 0.02);
    for side in &mut runs {
        let first = side[0].cells.clone();
        for run in side {
            run.cells.clone_from(&first);
            run.cells.iter_mut().for_each(|c| c.evidence.virtual_time = true);
        }
    }
    let of = compared(&runs, &Options::default());
    assert_eq!((of.rows[0].a.len(), of.counts()), (1, [0, 0, 0, 4]));
    assert!(codes(&of).contains(&"SAME_SEED".to_owned()), "{:?}", of.remarks);
    // Real runs of one seed are not copies, though they be equal to the last bit.
    runs.iter_mut()
        .flatten()
        .flat_map(|r| &mut r.cells)
        .for_each(|c| c.evidence.virtual_time = false);
    assert_eq!(compared(&runs, &Options::default()).rows[0].a.len(), 6);
}

/// With several targets the merged cell is compared, unless each target is requested.
#[test]
fn merged_cells_speak() {
    let mut runs = sides(8, 5, 1.0, 0.01);
    for run in runs.iter_mut().flatten() {
        for (i, target) in ["x", "y", "all (2 targets)"].iter().enumerate() {
            let mut more = run.cells[i % 2].clone();
            "random-read".clone_into(&mut more.key.name);
            (*target).clone_into(&mut more.key.target);
            run.cells.push(more);
        }
        run.cells.drain(..2);
    }
    let of =
        compared(&runs, &Options { metrics: vec!["iops".parse().unwrap()], ..Options::default() });
    assert_eq!((of.rows.len(), of.finding()), (1, Finding::Clear));
    assert_eq!(of.omissions.len(), 2);
    let each =
        Options { each_target: true, metrics: vec!["iops".parse().unwrap()], ..Options::default() };
    assert_eq!(compared(&runs, &each).rows.len(), 3);
    assert!(show(&compared(&runs, &each), STYLE).contains("random-read  all (2 targets)"));
}

#[test]
fn it_is_shown() {
    let mut runs = sides(9, 6, 0.9, 0.005);
    // Writes are as they were, in another order.
    let writes: Vec<_> = runs[0].iter().map(|run| run.cells[1].clone()).collect();
    for (run, write) in runs[1].iter_mut().rev().zip(writes) {
        run.cells[1] = write;
    }
    runs[1].iter_mut().for_each(|run| run.head.machine["kernel"] = json!("6.19.0"));
    let of = compared(&runs, &Options::default());
    insta::assert_snapshot!("compare", show(&of, STYLE));
    for width in [40, 60, 80, 100, 200] {
        let narrow = show(&of, Style { width, ..STYLE });
        for word in ["random-read", "slower", "kernel"] {
            assert!(narrow.contains(word), "{width}: {narrow}");
        }
        let is_wide = width >= 80;
        assert_eq!(narrow.contains("-10.5 to -9.3 %  0.004"), is_wide, "{width}: {narrow}");
        assert!(narrow.contains("columns hidden (terminal") != is_wide, "{narrow}");
        let ascii = show(&of, Style { unicode: false, width, ..STYLE });
        assert!(ascii.is_ascii(), "{ascii}");
    }
}

/// The shift is explained, because it is not the ratio of the displayed medians. Even with a long verdict, the
/// interval and the p-value remain visible.
#[test]
fn a_shift_is_explained_and_keeps_its_interval() {
    let of_runs = sides(12, 6, 1.0, 0.08);
    let of = compared(&of_runs, &Options::default());
    assert!(of.counts()[3] > 0, "{:?}", of.counts());
    for width in [80, 100, 110, 160] {
        let text = show(&of, Style { width, ..STYLE });
        assert!(text.contains("interval") && text.contains(" p"), "{width}: {text}");
        assert!(!text.contains("B/A") && !text.contains("hidden"), "{width}: {text}");
        let has_rest = text.contains("(would detect ");
        assert_eq!(has_rest, width >= 100, "{width}: {text}");
    }
    let text = words(&of);
    assert!(text.contains("A and B are medians; the shift is the median ratio"), "{text}");
    for row in &of.rows {
        let interval = row.comparison.interval.unwrap();
        assert!(interval.low > -1.0 && interval.contains(row.comparison.shift_share));
    }
}

/// If the loads of both sides differ only in their rate, the block size is shown once. The headings of the sides
/// include changes by flags.
#[test]
fn what_differs_between_sides_is_whole() {
    let mut runs = sides(1, 4, 1.0, 0.01);
    for (side, rate) in runs.iter_mut().zip([5_000.0, 4_880.0]) {
        for run in side {
            run.head.plan["changed"] = format!("{}, fsync every {rate}", run.head.name).into();
            run.cells.iter_mut().for_each(|cell| cell.key.offered_iops = Some(rate));
        }
    }
    let text = show(&compared(&runs, &Options::default()), Style { width: 160, ..STYLE });
    assert!(text.contains("4 KiB at 5.00 k/s to 4.88 k/s"), "{text}");
    assert!(text.contains("· corners, fsync every 4880 ·"), "{text}");
}
