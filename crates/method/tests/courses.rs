//! Tests of methods on simulated storage: next steps, end, choices and findings. Also tests the errors of invalid
//! files.

use iodyno_measure::statistics::steady::Progress;
use iodyno_measure::{Cell, CellKey, ClassStats, Ended, Interval, IoLimit, Level, Place, Role};
use iodyno_method::findings::{RateSearchFinding, Showed};
use iodyno_method::{Choice, Done, Method, MethodSource, Step, Sweep, findings};
use iodyno_units::OpKind;
use proptest::prelude::*;

fn source(text: &str) -> MethodSource {
    MethodSource { name: "m".to_owned(), text: text.to_owned(), ..MethodSource::default() }
}

fn method(text: &str) -> Method {
    Method::new(source(text)).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Rate that an open-loop step offers; `None` for other steps.
fn offered(step: &Step) -> Option<f64> {
    let Step::Cell(step) = step else { return None };
    if let iodyno_workload::ArrivalKind::Open { rate_iops, .. } = step.cell.spec.arrivals() {
        return Some(rate_iops);
    }
    None
}

/// A cell of one second in which `iops` operations took `latency_ns` each.
fn cell(step: &Step, iops: u64, latency_ns: u64) -> Cell {
    let place = step.place().unwrap().clone();
    let (name, threads, depth) = match step {
        Step::Cell(step) => {
            (step.cell.name.clone(), step.cell.spec.threads(), step.cell.spec.depth())
        }
        _ => (String::new(), 0, 0),
    };
    let offered_iops = offered(step);
    let key =
        CellKey { name, threads, depth, offered_iops, place: Some(place), ..CellKey::default() };
    let mut cell =
        Cell { key, window_ns: 1_000_000_000, interval_ns: 1_000_000_000, ..Cell::default() };
    if let Step::Cell(_) = step {
        let mut interval = Interval::default();
        let class: &mut ClassStats = interval.class_mut(OpKind::Write);
        class.bytes = iops * 4096;
        class.service.record_n(latency_ns, iops);
        cell.series.push(interval);
        cell.evidence.active_bytes = 1 << 20;
    }
    cell
}

/// Runs a method to its end; `of` gives the IOPS and latency of each step.
fn play(method: &Method, seed: u64, of: impl Fn(&Step, usize) -> (u64, u64)) -> Vec<Cell> {
    let (mut cells, mut done): (Vec<Cell>, Vec<Done>) = (Vec::new(), Vec::new());
    loop {
        let step = method.next(0, seed, &done).unwrap();
        if step == Step::Finished {
            return cells;
        }
        let (iops, latency_ns) = of(&step, cells.len());
        let cell = cell(&step, iops, latency_ns);
        done.extend(Done::of(&cell));
        cells.push(cell);
        assert!(cells.len() < 100_000, "it ends");
    }
}

fn place(step: &Step) -> &Place {
    step.place().unwrap()
}

const ROUNDS: &str = r#"
schema = 1
[[stages]]
do = "rounds"
name = "r"
read = ["100%", "0%"]
block = ["8KiB", "4KiB", "512B"]
time = "60s"
track = [{ read = "0%", block = "4KiB", measure = "iops" }, { read = "100%", block = "8KiB", measure = "iops" }]
"#;

/// First round in which the specification's rule is met, by an independent implementation; `None` if there is none.
fn steady_round(values: &[[f64; 2]]) -> Option<usize> {
    (5..=values.len().min(25)).find(|&n| {
        (0..2).all(|v| {
            let y: Vec<f64> = values[n - 5..n].iter().map(|r| r[v]).collect();
            let mean = y.iter().sum::<f64>() / 5.0;
            let slope: f64 =
                y.iter().enumerate().map(|(i, y)| (i as f64 - 2.0) * (y - mean)).sum::<f64>()
                    / 10.0;
            let (high, low) =
                y.iter().fold((f64::MIN, f64::MAX), |(h, l), y| (h.max(*y), l.min(*y)));
            high - low <= 0.2 * mean && 4.0 * slope.abs() <= 0.1 * mean
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Rounds end at the first window in which every tracking variable is steady, or after round 25. The result of each
    /// point is the mean over that window.
    #[test]
    fn rounds_end_where_the_rule_says(values in prop::collection::vec([800_u64..1200, 700_u64..1300], 25)) {
        let method = method(ROUNDS);
        let cells = play(&method, 1, |step, _| {
            let p = place(step);
            let values = values[p.round as usize];
            // Point 0 is 100 % 8 KiB, point 4 is 0 % 4 KiB; the others wander and must not matter.
            let iops = match p.index { 4 => values[0], 0 => values[1], i => 1 + u64::from(i * (p.round + 1)) * 500 };
            (iops, 1_000_000)
        });
        let as_floats: Vec<[f64; 2]> = values.iter().map(|v| [v[0] as f64, v[1] as f64]).collect();
        let expected = steady_round(&as_floats);
        prop_assert_eq!(cells.len(), 6 * expected.unwrap_or(25));
        let found = findings(&method, 1, 1, &cells);
        prop_assert!(found.complete);
        let Some(Showed::Rounds(rounds)) = &found.subjects[0].stages[0].showed else { panic!() };
        let progress = rounds.steady.as_ref().unwrap().progress;
        prop_assert_eq!(progress == Progress::Reached, expected.is_some());
        let n = expected.unwrap_or(25);
        let mean = as_floats[n - 5..n].iter().map(|v| v[0]).sum::<f64>() / 5.0;
        let row = &rounds.table.rows[4];
        prop_assert_eq!(&row.at, &["0%".to_owned(), "4.00 KiB".replace(".00", "")]);
        prop_assert!((row.iops.unwrap() - mean).abs() < 1e-6 * mean);
        prop_assert_eq!(row.n, 5);
    }

    /// The next step depends only on the completed steps: a run that is cut anywhere continues with
    /// the same steps.
    #[test]
    fn a_run_continues_where_it_was_cut(seed in any::<u64>(), cut in 0_usize..40) {
        let method = method(r#"
schema = 1
[[stages]]
do = "purge"
[[stages]]
do = "fill"
[[stages]]
name = "sweep"
do = "cells"
read = ["100%", "0%"]
depth = [1, 4, 16]
time = "1s"
order = "random"
repeats = 3
[[stages]]
name = "points"
do = "points"
of = "sweep"
choose = ["optimal", "min"]
time = "5s"
before = { time = "1s" }
[[stages]]
name = "series"
do = "series"
read = "0%"
time = "1s"
samples = 9
wait = "1s"
"#);
        let answer = |step: &Step, _: usize| (1000 + u64::from(place(step).index) * 37, 5000);
        let all = play(&method, seed, answer);
        let cut = cut.min(all.len());
        let done: Vec<Done> = all[..cut].iter().filter_map(Done::of).collect();
        let next = method.next(0, seed, &done).unwrap();
        prop_assert_eq!(next.place(), all.get(cut).and_then(|c| c.key.place.as_ref()));
        prop_assert_eq!(all.len(), 2 + 18 + 4 + 9);
        // Each repeat has every point once.
        for round in 0..3 {
            let mut points: Vec<u32> = all.iter().filter_map(|c| c.key.place.as_ref())
                .filter(|p| p.stage == 2 && p.round == round).map(|p| p.index).collect();
            points.sort_unstable();
            prop_assert_eq!(points, (0..6).collect::<Vec<_>>());
        }
    }
}

#[test]
fn there_and_back_and_in_the_files_own_nesting() {
    let method = method(
        "schema = 1\n[[stages]]\ndo = \"cells\"\nblock = [\"4KiB\", \"8KiB\"]\ndepth = [1, 2]\ntime = \"1s\"\norder = \"abba\"\nrepeats = 2",
    );
    let cells = play(&method, 1, |_, _| (100, 1000));
    let names: Vec<&str> = cells.iter().map(|c| c.key.name.as_str()).collect();
    let there =
        ["block=4KiB depth=1", "block=4KiB depth=2", "block=8KiB depth=1", "block=8KiB depth=2"];
    let all: Vec<String> =
        there.iter().chain(there.iter().rev()).map(|n| format!("random {n}")).collect();
    assert_eq!(names, all);
}

/// Points are chosen under a latency ceiling, on a device whose IOPS grow by 1000 per outstanding I/O up to 8.
#[test]
fn points_are_chosen_under_the_ceiling() {
    let text = |ceiling: &str| {
        format!(
            "schema = 1\n[[stages]]\nname = \"d\"\ndo = \"cells\"\ndepth = [1, 2, 4, 8, 16, 32]\ntime = \"1s\"\nceiling = {{ mean = \"{ceiling}\" }}\n[[stages]]\ndo = \"points\"\nof = \"d\"\nchoose = [\"max\", \"optimal\", \"mid\", \"min\"]\ntime = \"1s\""
        )
    };
    let answer = |step: &Step, _: usize| {
        let Step::Cell(cell) = step else { panic!() };
        let depth = u64::from(cell.cell.spec.depth());
        let iops = 1000 * depth.min(8) + depth;
        (iops, depth * 1_000_000_000 / iops)
    };
    let chosen = |ceiling: &str| {
        let cells = play(&method(&text(ceiling)), 1, answer);
        let points = cells.iter().filter(|c| c.key.place.as_ref().unwrap().stage == 1);
        points.map(|c| c.key.depth).collect::<Vec<u32>>()
    };
    assert_eq!(chosen("1s"), [32, 8, 4, 1], "the most, 98 % of it, half of it, the least");
    // 4 ms are exceeded at depth 32 (8032 IOPS); 16 has the most below.
    assert_eq!(chosen("3ms"), [16, 8, 4, 1]);
}

/// A rate in percent refers to the highest IOPS of the stage that it names.
#[test]
fn rates_are_shares_of_what_was_measured() {
    let method = method(
        "schema = 1\n[[stages]]\nname = \"top\"\ndo = \"cells\"\ndepth = [1, 8]\ntime = \"1s\"\n[[stages]]\ndo = \"cells\"\nrate = [\"50%\", \"90%\"]\nof = \"top\"\ntime = \"1s\"",
    );
    let mut offered = Vec::new();
    let mut done: Vec<Done> = Vec::new();
    while let Ok(step @ Step::Cell(_)) = method.next(0, 1, &done) {
        let Step::Cell(it) = &step else { panic!() };
        if let iodyno_workload::ArrivalKind::Open { rate_iops, .. } = it.cell.spec.arrivals() {
            offered.push(rate_iops);
        }
        done.extend(Done::of(&cell(&step, u64::from(it.cell.spec.depth()) * 100, 1000)));
    }
    assert_eq!(offered, [400.0, 720.0]);
}

/// A series ends after a number of bytes written, in the steady state, or after its last sample, whichever comes first.
#[test]
fn a_series_ends_by_its_first_limit() {
    let text = |more: &str| {
        format!(
            "schema = 1\n[[stages]]\ndo = \"series\"\nread = \"0%\"\ntime = \"1s\"\nsamples = 40\n{more}"
        )
    };
    // 64 blocks of 4 KiB a sample are a quarter of the megabyte that is addressed.
    let samples = |more: &str, drift: u64| {
        play(&method(&text(more)), 1, |_, n| (64 + drift * n as u64, 1000)).len()
    };
    assert_eq!(samples("", 0), 40);
    assert_eq!(samples("fills = 2.0", 0), 8);
    // The megabyte is half of the capacity, or a quarter.
    assert_eq!(samples("fills = 2.0\nactive = \"0%..50%\"", 0), 16);
    assert_eq!(samples("fills = 2.0\nactive = \"50%..+25%\"", 0), 32);
    assert_eq!(samples("steady_every = 3", 0), 15);
    assert_eq!(samples("steady_every = 3", 30), 40, "what rises is not steady");
}

/// The end of a series is its steady-state window, which begins with the first judged sample; without a steady state, the
/// last samples. The finding says how many samples it covers.
#[test]
fn the_end_of_a_series_is_its_steady_state_window() {
    let end = |drift: u64| {
        let text = "schema = 1\n[[stages]]\ndo = \"series\"\nread = \"0%\"\ntime = \"1s\"\nsamples = 40\nsteady_every = 3";
        let method = method(text);
        let cells =
            play(
                &method,
                1,
                |_, n| {
                    if n < 2 { (500, 1000) } else { (64 + drift * n as u64, 1000) }
                },
            );
        let findings = findings(&method, 1, 1, &cells);
        let Some(Showed::Series(series)) = &findings.subjects[0].stages[0].showed else { panic!() };
        (series.samples.len(), series.end_samples, series.end.n, series.end.iops)
    };
    // The drive was fresh in samples 1 and 2; samples 3, 6, 9, 12 and 15 were judged.
    assert_eq!(end(0), (15, 13, 13, Some(64.0)));
    let (samples, counted, n, _) = end(30);
    assert_eq!((samples, counted, n), (40, 10, 10));
}

/// In open loop the outstanding I/Os of a point are the measured mean, not a whole number.
#[test]
fn outstanding_ios_of_an_offered_rate_are_the_measured_mean() {
    let method = method(
        "schema = 1\n[[stages]]\ndo = \"cells\"\nrate = [\"1000\"]\ndepth = [32]\ntime = \"1s\"",
    );
    let mut cells = play(&method, 1, |_, _| (1_000, 5_240_000));
    cells[0].resources.outstanding_area_ns = 5_240_000_000;
    let findings = findings(&method, 1, 1, &cells);
    let Some(Showed::Sweep(sweep)) = &findings.subjects[0].stages[0].showed else { panic!() };
    assert!((sweep.table.rows[0].oio - 5.24).abs() < 1e-6, "{}", sweep.table.rows[0].oio);
}

/// A cell whose latencies decide something may end early only once it supports their percentiles, and not at all for a
/// maximum.
#[test]
fn cells_end_early_with_enough_operations_for_what_is_judged() {
    let ops_min = |stage: &str| {
        let stage = format!("schema = 1\n[[stages]]\nname = \"a\"\ntime = \"1s\"\n{stage}");
        let step = method(&stage).next(0, 1, &[]).unwrap();
        let Step::Cell(step) = step else { panic!("{step:?}") };
        step.cell.emulation.settle.map(|settle| settle.ops_min)
    };
    let cells = |more: &str| format!("do = \"cells\"\nread = \"90%\"\n{more}");
    assert_eq!(ops_min(&cells("")), Some(12_000));
    assert_eq!(ops_min(&cells("ceiling = { mean = \"5ms\" }")), Some(12_000));
    // A hundred of the writes, a tenth of all operations.
    let near = |found: Option<u64>, ops: u64| found.is_some_and(|found| found.abs_diff(ops) <= 1);
    assert!(near(ops_min(&cells("ceiling = { \"p99.9\" = \"5ms\" }")), 1_000_000));
    assert_eq!(ops_min(&cells("ceiling = { max = \"5ms\" }")), None);
    let points = "[[stages]]\ndo = \"points\"\nof = \"a\"\nchoose = \"max\"\ntime = \"1s\"\nceiling = { max = \"5ms\" }";
    assert_eq!(ops_min(&cells(points)), None);
    let rounds = |measure: &str| {
        format!("do = \"rounds\"\nread = \"0%\"\ntrack = [{{ measure = \"{measure}\" }}]")
    };
    assert_eq!(ops_min(&rounds("mean")), Some(12_000));
    assert!(near(ops_min(&rounds("p99.9")), 100_000));
    assert_eq!(ops_min(&rounds("max")), None);
}

#[test]
fn a_scaled_run_reports_its_deviation() {
    let text = format!("{}\nstandard = \"S\"", "schema = 1") + &ROUNDS.replace("\nschema = 1", "");
    let scaled =
        MethodSource { choice: Choice { scale: Some(0.1), ..Choice::default() }, ..source(&text) };
    let scaled = Method::new(scaled).unwrap();
    assert_eq!(scaled.deviations(), ["all durations of the method are multiplied by 0.1"]);
    let Step::Cell(first) = scaled.next(0, 1, &[]).unwrap() else { panic!() };
    assert_eq!(first.cell.spec.limits().time_ns, Some(6_000_000_000));
    assert_eq!(first.place.role, Role::Measure);
    assert!(Method::new(source(&text)).unwrap().deviations().is_empty());
}

/// Each error is reported at its position, with a remedy.
#[test]
fn errors_are_reported_at_their_position() {
    let stage = |lines: &str| format!("schema = 1\n[[stages]]\n{lines}\n");
    let cells = |lines: &str| stage(&format!("do = \"cells\"\ntime = \"1s\"\n{lines}"));
    for (text, place, words) in [
        ("schema = 2\n[[stages]]\ndo = \"purge\"".to_owned(), "2", "schema 2"),
        (stage("do = \"purge\""), "", "does no I/O"),
        (stage("do = \"sweep\"\ntime = \"1s\""), "\"sweep\"", "`do` must be one of"),
        (cells("depth = [1, 0]"), "[1, 0]", "must be 1 or more"),
        (cells("depth = []"), "[]", "empty"),
        (cells("block = \"4KB!\""), "\"4KB!\"", "4KB!"),
        (cells("samples = 5"), "5", "has no effect"),
        (cells("order = \"down\""), "\"down\"", "`order` must be one of"),
        (cells("rate = [\"50%\"]"), "[\"50%\"]", "an earlier stage to refer to"),
        (cells("ceiling = { iops = \"5ms\" }"), "\"5ms\"", "needs a latency"),
        (
            cells("read = [\"0%\", \"100%\"]\ndepth = [1, 2]\nceiling = { p99 = \"1ms\" }"),
            "{ p99 = \"1ms\" }",
            "also varies `read` vary only depth, threads and rate",
        ),
        (cells("state = \"used\""), "\"used\"", "`state` must be one of"),
        (cells("workload = \"nope\""), "\"nope\"", "no workload"),
        (cells("workload = []"), "[]", "empty"),
        (cells("io = { mix = { raed = 1 } }"), "raed", "did you mean `read`"),
        (cells("io = { mix = { read = 1 }, depth = 0 }"), "0", "the depth must be a whole number"),
        (
            stage("do = \"points\"\nof = \"x\"\nchoose = \"max\"\ntime = \"1s\""),
            "\"x\"",
            "no stage before",
        ),
        (
            stage("do = \"rounds\"\ndepth = [1, 2]\ntime = \"1s\"\ntrack = [{ block = \"4KiB\" }]"),
            "\"4KiB\"",
            "not an axis",
        ),
        (
            stage(
                "do = \"rounds\"\ndepth = [1, 2]\ntime = \"1s\"\ntrack = [{ measure = \"iops\" }]",
            ),
            "{ measure = \"iops\" }",
            "several cells",
        ),
        (
            stage("do = \"rounds\"\ndepth = [1, 2]\ntime = \"1s\"\ntrack = [{ depth = 3 }]"),
            "{ depth = 3 }",
            "no cell",
        ),
        (
            stage("do = \"series\"\ndepth = [1, 2]\ntime = \"1s\"\nsamples = 2"),
            "\"series\"",
            "one workload",
        ),
        (stage("do = \"fill\"\npasses = 4"), "4", "1 to 3"),
        (stage("do = \"cells\""), "\"cells\"", "`time` is missing"),
    ] {
        let errors = Method::new(source(&text)).expect_err(&text);
        let first = &errors[0];
        let error = format!("{} {}", first.message, first.help.clone().unwrap_or_default());
        assert!(error.contains(words), "{text}\n{error}");
        if !place.is_empty() {
            assert_eq!(&text[first.span.clone()], place, "{text}\n{error}");
        }
    }
}

/// A method that missed its aim in any stage is INVALID. The verdict is milder if steps are still to be done, or if the
/// steady state was only one way for a series to end.
#[test]
fn a_method_that_missed_its_aim_has_a_verdict() {
    let codes = |method: &Method, subjects: u32, cells: &[Cell]| {
        let verdicts = findings(method, 1, subjects, cells).verdicts;
        verdicts.into_iter().map(|v| (v.code, v.level)).collect::<Vec<_>>()
    };
    let is = |code: &str, level: Level| (code.to_owned(), level);
    let unfinished = || is("UNFINISHED", Level::Warning);
    let skip = |cell: &mut Cell| {
        cell.evidence.skipped = Some("it does not fit".to_owned());
    };
    let rounds = method(ROUNDS);
    let wild = play(&rounds, 1, |step, _| (1000 * u64::from(1 + place(step).round % 2), 1000));
    assert_eq!(codes(&rounds, 1, &wild), [is("NOT_STEADY", Level::Invalid)]);
    assert_eq!(codes(&rounds, 1, &wild[..50]), [unfinished()], "it may become steady still");
    let mut steady = play(&rounds, 1, |_, _| (1000, 1000));
    assert_eq!(codes(&rounds, 1, &steady), []);
    assert_eq!(codes(&rounds, 2, &steady), [unfinished()], "on one of two targets");
    // A variable that could not be tracked is not known to be steady.
    skip(&mut steady[4]);
    let found = codes(&rounds, 1, &steady);
    assert_eq!(found, [is("NOT_STEADY", Level::Invalid), unfinished()]);

    let stage = "schema = 1\n[[stages]]\ntime = \"1s\"\n";
    let cells = method(&format!("{stage}do = \"cells\"\ndepth = [1, 8]"));
    let mut done = play(&cells, 1, |_, _| (1000, 1000));
    skip(&mut done[0]);
    assert_eq!(codes(&cells, 1, &done), [], "one of two was measured");
    skip(&mut done[1]);
    assert_eq!(codes(&cells, 1, &done), [is("STAGE_EMPTY", Level::Invalid)]);

    // A series ends by its time, too: that is no failure, once it has ended.
    let series = "do = \"series\"\nread = \"0%\"\nsamples = 40\nsteady_every = 3";
    let series = method(&format!("{stage}{series}"));
    let rising = play(&series, 1, |_, n| (64 + 30 * n as u64, 1000));
    assert_eq!(codes(&series, 1, &rising), [is("ENDED_UNSTEADY", Level::Note)]);
    assert_eq!(codes(&series, 1, &rising[..20]), [unfinished()]);
}

/// A cell in which `iops` operations per second completed in 50 equal intervals. Half of the operations are much faster
/// than the mean.
fn even(cell: &mut Cell, iops: u64) {
    let interval = |_| {
        let mut interval = Interval::default();
        let class = interval.class_mut(OpKind::Write);
        class.bytes = iops / 10 * 4096;
        class.service.record_n(100_000, iops / 20);
        class.service.record_n(9_000_000, iops / 10 - iops / 20);
        interval
    };
    cell.series = (0..50).map(interval).collect();
    (cell.interval_ns, cell.window_ns) = (100_000_000, 5_000_000_000);
}

/// A method without a file: a search for the highest rate under `limit`, or a sweep of one cell.
fn of_command_line(limit: Option<&str>) -> Method {
    let source = MethodSource {
        name: "s".to_owned(),
        workloads: [("w".to_owned(), "schema = 1\n[mix]\nwrite = 1".to_owned())].into(),
        sweep: Some(Sweep {
            find_rate: limit.map(|limit| limit.parse().unwrap()),
            repeats: 1,
            ..Sweep::default()
        }),
        ..MethodSource::default()
    };
    Method::new(source).unwrap_or_else(|e| panic!("{e:?}"))
}

fn rate_search(method: &Method, cells: &[Cell]) -> RateSearchFinding {
    match findings(method, 1, 1, cells).subjects[0].stages[0].showed.clone() {
        Some(Showed::RateSearch(found)) => found,
        other => panic!("{other:?}"),
    }
}

/// Rates below 4,000/s have a latency of 500 µs, higher ones 2 ms.
fn with_an_edge(step: &Step) -> (u64, u64) {
    match offered(step) {
        Some(rate) if rate < 4_000.0 => (rate as u64, 500_000),
        Some(rate) => (rate.min(5_000.0) as u64, 2_000_000),
        None => (5_000, 5_000_000),
    }
}

/// A search that was interrupted before any rate missed the limit has found no highest rate, only a lower bound.
#[test]
fn an_unfinished_search_claims_no_highest_rate() {
    let search = of_command_line(Some("p99<1ms"));
    let all = play(&search, 1, |step, _| with_an_edge(step));
    let said = |cells: usize| rate_search(&search, &all[..cells]).sentence();
    for (cells, words) in [
        (1, "the highest rate with p99 < 1.00 ms is unknown"),
        (3, "the highest rate with p99 < 1.00 ms is at least 3.75 k/s"),
        (5, "the highest rate with p99 < 1.00 ms is 3.75 k/s to 4.38 k/s"),
    ] {
        let said = said(cells);
        assert!(said.starts_with("the search is unfinished") && said.contains(words), "{said}");
    }
    assert!(
        said(all.len()).starts_with("highest rate with p99 < 1.00 ms: 3.9"),
        "{}",
        said(all.len())
    );
}

/// By Little's law, a target that completes more with fewer operations in flight than in closed loop is not steady. More
/// in flight may complete more.
#[test]
fn a_result_above_the_capacity_with_fewer_operations_in_flight_is_named() {
    let search = of_command_line(Some("p99<1ms"));
    let burst = |step: &Step| match offered(step) {
        Some(rate) => (rate as u64, if rate < 5_500.0 { 500_000 } else { 2_000_000 }),
        None => (5_000, 5_000_000),
    };
    let mut cells = play(&search, 1, |step, _| burst(step));
    for (in_flight_ns, says) in [(100_000, true), (500_000, false)] {
        for cell in &mut cells {
            let ops = u128::from(cell.total().ops());
            cell.resources.outstanding_area_ns = ops * in_flight_ns;
        }
        let found = rate_search(&search, &cells);
        assert!(found.holds_iops.unwrap() > 5_300.0, "{found:?}");
        let said = found.sentence();
        assert_eq!(said.contains("sustains the higher rate only for a time"), says, "{said}");
        assert!(!says || said.contains("(1.00 instead of 0.5"), "{said}");
    }
}

/// Too few operations to tell whether a rate meets the limit are neither a success nor a miss.
#[test]
fn an_unknown_outcome_is_no_miss() {
    let search = of_command_line(Some("p99<1ms"));
    let cells = play(&search, 1, |step, _| match offered(step) {
        Some(_) => (100, 500_000),
        None => (150, 5_000_000),
    });
    let found = rate_search(&search, &cells);
    let open = found.probes.iter().filter(|probe| probe.offered_iops.is_some());
    let outcomes: Vec<_> = open.map(|probe| (probe.latency_ns, probe.holds)).collect();
    assert_eq!(outcomes, [(None, None)], "{found:?}");
    assert!(found.sentence().starts_with("too few operations to tell"), "{}", found.sentence());
}

/// The mean latency has a confidence interval, too: of equally many operations in each interval, that of the mean of
/// the intervals' means.
#[test]
fn a_mean_latency_has_an_interval() {
    let search = of_command_line(Some("mean<1ms"));
    let mut cells = play(&search, 1, |step, _| with_an_edge(step));
    let factor = |i: u64| 0.9 + 0.02 * (i * 7 % 11) as f64;
    for cell in &mut cells {
        let class = cell.series[0].class(OpKind::Write).unwrap();
        let (ops, ns) = (class.ops() / 10, class.service.mean_ns().unwrap());
        let interval = |i: u64| {
            let mut interval = Interval::default();
            interval.class_mut(OpKind::Write).service.record_n((ns * factor(i)) as u64, ops);
            interval
        };
        cell.series = (0..55).map(interval).collect();
        (cell.interval_ns, cell.window_ns) = (100_000_000, 5_500_000_000);
    }
    let found = rate_search(&search, &cells);
    let means: Vec<f64> = (0..55).map(|i| 500_000.0 * factor(i)).collect();
    let expected = iodyno_measure::statistics::batch::mean(&means, 0.95).unwrap().interval;
    let within = found.probes[0].within.unwrap();
    let ends = [within.low_ns, within.high_ns].map(|ns| ns.unwrap() as f64);
    assert!(
        (ends[0] - expected.low).abs() < 3.0 && (ends[1] - expected.high).abs() < 3.0,
        "{within:?} {expected:?}"
    );
    assert_eq!(
        (found.surely_holds_iops, found.surely_fails_iops),
        (found.holds_iops, found.fails_iops)
    );
    assert!(found.sentence().contains("/s (95 %); "), "{}", found.sentence());
}

/// A sweep has no file to deviate from; its plan says that cells may end early.
#[test]
fn a_sweep_does_not_deviate_from_a_file() {
    let deviations = |method: &Method| {
        let mut cells = play(method, 1, |_, _| (1_000, 1_000));
        cells[0].ended = Ended::Settled;
        findings(method, 1, 1, &cells).verdicts.into_iter().map(|v| v.text).collect::<Vec<_>>()
    };
    assert_eq!(deviations(&of_command_line(None)), [""; 0]);
    let file = method("schema = 1\n[[stages]]\ndo = \"cells\"\ndepth = [1, 8]\ntime = \"1s\"");
    let words =
        "deviates from the method's file: cells ended early where their steady state was proven";
    assert_eq!(deviations(&file), [words]);
}

/// A load curve or a rate search that ends at an external limit says so, whether the limit was read from the kernel or
/// inferred. On a device without a limit, it does not.
#[test]
fn an_edge_that_is_a_limit_s_is_named_so() {
    let sweep = method(
        "schema = 1\n[[stages]]\nname = \"d\"\ndo = \"cells\"\ndepth = [1, 4, 16]\ntime = \"1s\"",
    );
    let search = of_command_line(Some("p99<1ms"));
    let limited = |method: &Method, mark: &dyn Fn(&mut Cell)| {
        let mut cells = play(method, 1, |step, _| with_an_edge(step));
        for cell in cells.iter_mut().filter(|cell| cell.key.offered_iops.is_none()) {
            mark(cell);
        }
        match findings(method, 1, 1, &cells).subjects[0].stages[0].showed.clone() {
            Some(Showed::Sweep(found)) => found.load.unwrap().limited(),
            Some(Showed::RateSearch(found)) => found.limited(),
            other => panic!("{other:?}"),
        }
    };
    let by_kernel = |cell: &mut Cell| {
        let limit = IoLimit {
            source: "/box/io.max, 8:0 wiops".into(),
            is_of_reads: false,
            is_of_bytes: false,
            per_s: 5_000,
        };
        cell.evidence.conditions.get_or_insert_default().io_limits.push(limit);
    };
    for (method, edge) in [
        (&sweep, "the knee is caused by an external limit"),
        (&search, "the highest rate is set by an external limit"),
    ] {
        let words = limited(method, &by_kernel).unwrap();
        assert!(words.starts_with(edge) && words.contains("/box/io.max"), "{words}");
        assert!(words.contains("not queueing in the device"), "{words}");
        let words = limited(method, &|cell| even(cell, 5_000)).unwrap();
        assert!(
            words.starts_with(edge) && words.contains("5.00 k/s, constant to within"),
            "{words}"
        );
        assert_eq!(limited(method, &|_| {}), None);
    }
}
