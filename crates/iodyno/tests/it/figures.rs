//! Plots compared with measurements: the points in the figures of real runs equal the values from the run's own
//! cells, computed here from `show --json` without the plotting code.
//!
//! The crate `page` tests how points become pixels, the crate `report` the required content of a figure.

use crate::place::{Place, cells, number, whole};
use iodyno_notebook::Notebook;
use iodyno_page::figure::Span;
use iodyno_page::{Block, Document, Mark, Plot, Point, Scale, Shape, Tone};
use iodyno_report::compare::{self, Options as Criteria, Side};
use iodyno_report::page::{self, Options};
use iodyno_units::human;
use serde_json::Value;

const DEVICE: &str = "model:exflash-400g";
const PERCENTILES: [&str; 5] = ["p50", "p99", "p99_9", "p99_99", "p99_999"];

/// Page of the latest run.
fn drawn(place: &Place) -> Document {
    let run = Notebook::open(&place.notebook()).unwrap().load("last").unwrap();
    page::document(&run, &Options::default())
}

/// The plot with this id.
fn plot<'a>(document: &'a Document, id: &str) -> &'a Plot {
    let blocks = document.sections.iter().flat_map(|s| &s.blocks);
    let figures = || {
        blocks.clone().flat_map(|block| match block {
            Block::Figure(figure) => std::slice::from_ref(figure),
            Block::Gallery(figures) => figures,
            _ => &[],
        })
    };
    let Some(figure) = figures().find(|f| f.id == id) else {
        panic!("no {id} among {:?}", figures().map(|f| &f.id).collect::<Vec<_>>())
    };
    let Shape::Plot(plot) = &figure.shape else { panic!("{id} is no plot") };
    plot
}

/// The points of a series.
fn points<'a>(plot: &'a Plot, panel: usize, name: &str) -> &'a [Point] {
    let all = &plot.panels[panel].series;
    let Some(series) = all.iter().find(|s| s.name == name) else {
        panic!("no {name} among {:?}", all.iter().map(|s| &s.name).collect::<Vec<_>>())
    };
    &series.points
}

/// Asserts that a drawn value equals the measured one up to rounding. A gap equals a gap.
#[track_caller]
fn assert_near(drawn: f64, measured: f64, what: &str) {
    let is_same = (drawn.is_nan() && measured.is_nan())
        || (drawn - measured).abs() <= 1e-9 * measured.abs().max(1e-6);
    assert!(is_same, "{what}: {drawn} is drawn, {measured} was measured");
}

/// The value as a number; NaN (a gap) if it is null.
fn or_gap(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The measured cells of a stage of a subject.
fn of_stage(document: &Value, subject: u64, stage: u64) -> Vec<&Value> {
    let mine = |c: &&Value| {
        let place = &c["place"];
        place["role"] == "measure" && place["subject"] == subject && place["stage"] == stage
    };
    cells(document).iter().filter(mine).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const LOADS: &str = r#"
schema = 1
[[stages]]
name = "curve"
do = "cells"
read = "100%"
block = "4KiB"
depth = [1, 4, 16, 64]
time = "60ms"
order = "abba"
repeats = 2
ceiling = { p99 = "1ms" }
[[stages]]
name = "offered"
do = "cells"
read = "100%"
block = "4KiB"
depth = 1024
rate = ["20%", "90%"]
of = "curve"
time = "60ms"
[[stages]]
name = "demand"
do = "cells"
read = "100%"
block = "4KiB"
threads = [1, 2]
depth = [1, 8]
time = "60ms"
[[stages]]
name = "quality"
do = "points"
of = "demand"
choose = ["max", "min"]
time = "200ms"
"#;

/// Load curves have the achieved rate on the x-axis, and latencies on the y-axis; operating points
/// their own percentiles under their own names, alone and beside those of another target.
#[test]
fn load_curves_and_operating_points_are_drawn_at_measured_values() {
    let place = Place::new();
    place.write("m.toml", LOADS);
    let targets = ["model:ssd-sata3-mlc-200g", "model:ssd-sas12-mlc-800g"];
    let words = format!("run ./m.toml --each --on {} --on {} -q", targets[0], targets[1]);
    place.iodyno(&words).succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    let report = drawn(&place);
    for subject in 0..2 {
        let id = |stage: &str, number: u32, figure: &str| {
            format!("{stage}-{}-{number}-{figure}", subject + 1)
        };
        // A curve over depth, each point of two cells.
        let curve = of_stage(&document, subject, 0);
        let at = |index: u64| -> Vec<&Value> {
            curve.iter().copied().filter(|c| whole(&c["place"]["index"]) == index).collect()
        };
        let figure = plot(&report, &id("curve", 1, "load"));
        assert_eq!(figure.panels[0].rules.iter().map(|r| r.at).collect::<Vec<_>>(), [1e6]);
        let mut reached = Vec::new();
        for index in 0..4 {
            let mine = at(index);
            assert_eq!(mine.len(), 2, "there and back");
            let iops: Vec<f64> = mine.iter().map(|c| number(&c["total"]["iops"])).collect();
            reached.push(mean(&iops));
            for (name, key) in ["p50", "p99", "p99.9"].into_iter().zip(PERCENTILES) {
                let Some(series) = figure.panels[0].series.iter().find(|s| s.name == name) else {
                    assert_eq!(name, "p99.9", "of few samples there may be none");
                    continue;
                };
                let point = &series.points[index as usize];
                assert_near(point.x, mean(&iops), "the rate of a point");
                let each: Vec<f64> =
                    mine.iter().map(|c| or_gap(&c["read"]["latency_ns"][key])).collect();
                if each.iter().all(|ns| ns.is_finite()) {
                    let (low, high) = (each[0].min(each[1]), each[0].max(each[1]));
                    assert!((low..=high).contains(&point.y), "{name} {} of {each:?}", point.y);
                }
            }
        }
        // The best point by its definition: of those that keep the ceiling the fewest outstanding
        // I/Os that reach 98 % of the most.
        let p99 = points(figure, 0, "p99");
        let kept: Vec<usize> = (0..4).filter(|&i| p99[i].y <= 1e6).collect();
        let most = kept.iter().map(|&i| reached[i]).fold(0.0, f64::max);
        let best = kept.iter().copied().find(|&i| reached[i] >= 0.98 * most).unwrap();
        for (i, (point, depth)) in p99.iter().zip([1, 4, 16, 64]).enumerate() {
            let label = if i == best { format!("{depth} best") } else { depth.to_string() };
            assert_eq!(point.label, label);
            assert!((point.tone == Tone::Good) == (i == best), "{point:?}");
        }
        // Offered rates: the plot shows the achieved ones.
        let figure = plot(&report, &id("offered", 2, "load"));
        for (i, cell) in of_stage(&document, subject, 1).into_iter().enumerate() {
            assert!(number(&cell["offered_iops"]) > 0.0);
            for (name, key) in ["p50", "p99"].into_iter().zip(PERCENTILES) {
                let point = &points(figure, 0, name)[i];
                assert_near(point.x, number(&cell["total"]["iops"]), "the rate that was reached");
                assert_near(point.y, or_gap(&cell["read"]["latency_ns"][key]), name);
            }
            let label = &points(figure, 0, "p99")[i].label;
            let share: f64 = label.trim_end_matches('%').parse().unwrap();
            assert_near(share, [20.0, 90.0][i], "an offered rate");
        }
        // Over two axes: a curve of the mean for each number of threads.
        let figure = plot(&report, &id("demand", 3, "load"));
        let mut seen = 0;
        for cell in of_stage(&document, subject, 2) {
            let (threads, depth) = (whole(&cell["threads"]), whole(&cell["depth"]));
            let oio = (threads * depth).to_string();
            let line = points(figure, 0, &format!("threads {threads}, mean"));
            let point = line.iter().find(|p| p.label.split(' ').next() == Some(&oio)).unwrap();
            assert_near(point.x, number(&cell["total"]["iops"]), "a point of two axes");
            assert_near(point.y, number(&cell["read"]["latency_ns"]["mean"]), "its mean");
            seen += 1;
        }
        assert_eq!(seen, 4);
        // Confidence levels.
        let alone = plot(&report, &id("quality", 4, "levels"));
        let Scale::Categories(names) = &alone.x.scale else { panic!("{:?}", alone.x) };
        assert_eq!(names, &["mean", "p50", "p99", "p99.9", "p99.99", "p99.999", "max"]);
        let quality = of_stage(&document, subject, 3);
        assert_eq!(quality.len(), 2);
        for (which, cell) in ["max", "min"].into_iter().zip(quality) {
            let oio = whole(&cell["threads"]) * whole(&cell["depth"]);
            let latency = &cell["read"]["latency_ns"];
            let mut wanted = vec![number(&latency["mean"])];
            wanted.extend(PERCENTILES.map(|key| or_gap(&latency[key])));
            wanted.push(number(&latency["max"]));
            let beside = plot(&report, &format!("levels-{which}"));
            let of_target = format!("{} (OIO {oio})", targets[subject as usize]);
            let named = format!("{which} (OIO {oio})");
            assert_eq!((alone.panels[0].series.len(), beside.panels[0].series.len()), (2, 2));
            for line in [points(alone, 0, &named), points(beside, 0, &of_target)] {
                assert_eq!(line.len(), wanted.len());
                for (i, (point, ns)) in line.iter().zip(&wanted).enumerate() {
                    assert_near(point.x, i as f64, "the place of a level");
                    assert_near(point.y, *ns, &names[i]);
                }
            }
        }
    }
}

/// Scaling is drawn relative to the smallest number of targets, whichever that is, with the efficiency at each number.
#[test]
fn scaling_is_normalised_to_the_smallest_number() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"s\"\ndo = \"cells\"\nread = \"100%\"\nblock = \"4KiB\"\ndepth = 32\ntargets = [2, 3, 4]\ntime = \"60ms\"\n";
    place.write("s.toml", file);
    place.iodyno(&format!("run ./s.toml --on {DEVICE}*4 -q")).succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    let figure = plot_of(&place, "s-1-scaling");
    // Targets that worked at once, and their total: the sum of their own cells.
    let mut together: Vec<(f64, f64)> = Vec::new();
    for index in 0..3 {
        let stage = of_stage(&document, 0, 0);
        let each = stage.into_iter().filter(|c| {
            whole(&c["place"]["index"]) == index && c["target"].as_str().unwrap().contains('#')
        });
        let iops: Vec<f64> = each.map(|c| number(&c["total"]["iops"])).collect();
        together.push((iops.len() as f64, iops.iter().sum()));
    }
    assert_eq!(together.iter().map(|t| t.0).collect::<Vec<_>>(), [2.0, 3.0, 4.0]);
    let (fewest, base) = together[0];
    for (i, (n, iops)) in together.into_iter().enumerate() {
        for (panel, name, wanted) in [
            (0, "ideal", n / fewest),
            (0, "measured", iops / base),
            (1, "efficiency", (iops / n) / (base / fewest)),
        ] {
            let point = &points(&figure, panel, name)[i];
            assert_near(point.x, n, name);
            assert!((point.y / wanted - 1.0).abs() < 1e-6, "{name}: {} for {wanted}", point.y);
        }
    }
}

/// Like [`plot`], for the page of the latest run.
fn plot_of(place: &Place, id: &str) -> Plot {
    plot(&drawn(place), id).clone()
}

/// Each round's value at its number, and the window with its mean, its limits and its line by least squares.
#[test]
fn rounds_are_drawn_with_their_window() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"r\"\ndo = \"rounds\"\nread = [\"100%\", \"0%\"]\nblock = [\"8KiB\", \"4KiB\"]\ndepth = 8\ntime = \"20ms\"\nrounds = 7\nwindow = 4\nrange = \"30%\"\nslope = \"0.0001%\"\ntrack = [{ read = \"0%\", block = \"4KiB\", measure = \"iops\" }, { read = \"100%\", block = \"8KiB\", measure = \"mean\" }]\n";
    place.write("r.toml", file);
    place.iodyno(&format!("run ./r.toml --on {DEVICE} -q"));
    let document = place.iodyno("show last --json").json();
    let figure = plot_of(&place, "r-1-convergence");
    let all = of_stage(&document, 0, 0);
    let rounds = all.iter().map(|c| whole(&c["place"]["round"])).max().unwrap() + 1;
    assert_eq!(figure.panels.len(), 2);
    for (panel, kind, block_bytes) in [(0, "write", 4096), (1, "read", 8192)] {
        let mut values = vec![f64::NAN; rounds as usize];
        for cell in &all {
            if whole(&cell["block_bytes"]) == block_bytes && whole(&cell[kind]["ops"]) > 0 {
                values[whole(&cell["place"]["round"]) as usize] = match kind {
                    "write" => number(&cell["total"]["iops"]),
                    _ => number(&cell["read"]["latency_ns"]["mean"]),
                };
            }
        }
        let line = &figure.panels[panel].series[0].points;
        assert_eq!(line.len(), values.len());
        for (i, (point, value)) in line.iter().zip(&values).enumerate() {
            assert_near(point.x, i as f64 + 1.0, "the number of a round");
            assert_near(point.y, *value, "the value of a round");
        }
        // The last four, with their mean and 15 % to either side.
        let first = rounds as usize - 4;
        let window = &values[first..];
        let middle = mean(window);
        let rules: Vec<f64> = figure.panels[panel].rules.iter().map(|r| r.at).collect();
        for (drawn, wanted) in rules.iter().zip([middle, middle * 1.15, middle * 0.85]) {
            assert_near(*drawn, wanted, "a level of the window");
        }
        assert_eq!(rules.len(), 3);
        let x: Vec<f64> = (first + 1..=rounds as usize).map(|round| round as f64).collect();
        let x_mean = mean(&x);
        let slope = x.iter().zip(window).map(|(x, y)| (x - x_mean) * (y - middle)).sum::<f64>()
            / x.iter().map(|x| (x - x_mean).powi(2)).sum::<f64>();
        let fit = points(&figure, panel, "best fit");
        for (point, x) in fit.iter().zip([x[0], x[3]]) {
            assert_near(point.x, x, "an end of the line");
            assert_near(point.y, middle + slope * (x - x_mean), "an end of the line");
        }
        assert_eq!(fit.len(), 2);
    }
    let Span { from, to, .. } = figure.spans[0];
    assert_eq!((from, to), (rounds as f64 - 3.5, rounds as f64 + 0.5));
}

/// Write saturation: the bytes written so far on the x-axis, in drive fills, and each sample's own rate and
/// latencies.
#[test]
fn saturation_is_drawn_over_the_bytes_written() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\ndo = \"purge\"\n[[stages]]\nname = \"w\"\ndo = \"series\"\nread = \"0%\"\nblock = \"4KiB\"\nthreads = 4\ndepth = 32\ntime = \"50ms\"\nwait = \"10ms\"\nsamples = 12\nfills = 4.0\nsteady_every = 3\n";
    place.write("w.toml", file);
    place.iodyno(&format!("run ./w.toml --on {DEVICE} -q"));
    let document = place.iodyno("show last --json").json();
    let figure = plot_of(&place, "w-2-course");
    let samples = of_stage(&document, 0, 1);
    assert_eq!(samples.len(), 12);
    let mut written = 0.0;
    for (i, cell) in samples.iter().enumerate() {
        written += number(&cell["write"]["bytes"]);
        let fills = written / number(&cell["evidence"]["active_bytes"]);
        let latency = &cell["write"]["latency_ns"];
        for (panel, name, wanted) in [
            (0, "IOPS", &cell["total"]["iops"]),
            (1, "mean", &latency["mean"]),
            (1, "p50", &latency["p50"]),
            (1, "p99", &latency["p99"]),
            (1, "max", &latency["max"]),
        ] {
            let point = &points(&figure, panel, name)[i];
            assert_near(point.x, fills, "drive fills");
            assert_near(point.y, or_gap(wanted), name);
        }
    }
    // The span covers the samples of the figures at the end: of 12, at most half. It begins where sample 6 ends.
    let rate = points(&figure, 0, "IOPS");
    assert_eq!((figure.spans[0].from, figure.spans[0].to), (rate[5].x, rate[11].x));
}

/// The forest plot has each shift with its interval along the axis, on the line of its own figure;
/// the dots are the measured values.
#[test]
fn shifts_are_drawn_with_their_own_intervals() {
    let place = Place::new();
    for (target, seed) in [(DEVICE, 11), ("model:ssd-sas12-mlc-800g", 12)] {
        let words = format!(
            "run four-corners --on {target} --time 40ms --ramp 10ms --seed {seed} --repeat 5 -q"
        );
        place.iodyno(&words).succeeds();
    }
    let output = place.iodyno("compare last~1 last --json").json();
    let notebook = Notebook::open(&place.notebook()).unwrap();
    let sides = ["last~1", "last"].map(|asked| notebook.load_several(asked).unwrap());
    let [a, b] = &sides;
    let side = |asked, runs| Side { asked, runs };
    let compared =
        compare::compare(side("last~1", a), side("last", b), &Criteria::default()).unwrap();
    let report = page::comparison(&[compared], &[a, b], &Options::default());
    let forest = plot(&report, "shifts");
    let Scale::Categories(names) = &forest.panels[0].y.scale else { panic!("no names") };
    let rows = output["comparisons"].as_array().unwrap();
    assert_eq!(names.len(), rows.len());
    let mut judged = 0;
    for (i, (row, name)) in rows.iter().zip(names).enumerate() {
        assert!(name.starts_with(row["cell"].as_str().unwrap()), "{name}: {row}");
        assert!(name.ends_with(row["metric"].as_str().unwrap()), "{name}: {row}");
        let mine =
            forest.panels[0].series.iter().flat_map(|s| s.points.iter().map(move |p| (s, p)));
        let mine: Vec<_> = mine.filter(|(_, p)| (p.y - i as f64).abs() < 0.5).collect();
        let [(series, point)] = mine.as_slice() else { panic!("{name}: {mine:?}") };
        let verdict = row["verdict"].as_str().unwrap();
        let (name_of_series, mark) = match verdict {
            "faster" => ("better", Mark::Better),
            "slower" => ("worse", Mark::Worse),
            "same" => ("same", Mark::Interval),
            undecided => (undecided, Mark::Undecided),
        };
        assert_eq!((series.name.as_str(), series.mark), (name_of_series, mark));
        assert_near(point.x, number(&row["shift_share"]), name);
        let (low, high) = point.interval.unwrap();
        assert_near(low, number(&row["interval"]["low"]), name);
        assert_near(high, number(&row["interval"]["high"]), name);
        assert!((low - 1e-9..=high + 1e-9).contains(&point.x), "{name}: {row}");
        // More of a rate is faster, more of a latency slower.
        let is_more = point.x > 0.0;
        match verdict {
            "faster" => assert_eq!(is_more, row["better"] == "higher", "{name}"),
            "slower" => assert_eq!(is_more, row["better"] == "lower", "{name}"),
            _ => continue,
        }
        judged += 1;
    }
    assert!(judged >= 2, "two devices that differ");
    let threshold = number(&output["threshold_share"]);
    assert_eq!((forest.spans[0].from, forest.spans[0].to), (-threshold, threshold));
    // A figure of rates: its dots are the repeats of both runs.
    let number_of = rows.iter().position(|r| r["metric"] == "iops").unwrap() + 1;
    let dots = plot(&report, &format!("dots-{number_of}"));
    for (line, asked) in ["last~1", "last"].into_iter().enumerate() {
        let run = place.iodyno(&format!("show {asked} --json")).json();
        let name = rows[number_of - 1]["cell"].as_str().unwrap();
        let repeats = cells(&run).iter().filter(|c| c["name"] == name);
        let mut wanted: Vec<f64> = repeats.map(|c| number(&c["total"]["iops"])).collect();
        let mine = points(dots, 0, ["A", "B"][line]);
        assert!(mine.iter().all(|p| (p.y - line as f64).abs() < 1e-9));
        let mut values: Vec<f64> = mine.iter().map(|p| p.x).collect();
        values.sort_by(f64::total_cmp);
        wanted.sort_by(f64::total_cmp);
        assert_eq!(values, wanted);
    }
}

/// With emulated storage at depth 1, the phases of an I/O add up to its time, by kind, and every
/// bar is complete.
#[test]
fn the_phases_of_an_emulated_io_are_its_time() {
    let place = Place::new();
    let file = "schema = 1\n[[stages]]\nname = \"b\"\ndo = \"cells\"\nread = [\"100%\", \"0%\", \"50%\"]\nblock = \"4KiB\"\ndepth = 1\ntime = \"2s\"\nsettle = false\n";
    place.write("b.toml", file);
    for device in [DEVICE, "model:ssd-sas12-mlc-800g", "model:hdd-15k-sas-80g"] {
        place.iodyno(&format!("run ./b.toml --on {device} -q")).succeeds();
        let document = place.iodyno("show last --json").succeeds().json();
        let figure = plot_of(&place, "b-1-budget");
        let Scale::Categories(names) = &figure.x.scale else { panic!("{:?}", figure.x) };
        let all = cells(&document);
        let bars =
            [(&all[0], "read", "read"), (&all[1], "write", "write"), (&all[2], "read", "write")];
        let bars: Vec<(&Value, &str)> = bars
            .into_iter()
            .flat_map(
                |(cell, a, b)| if a == b { vec![(cell, a)] } else { vec![(cell, a), (cell, b)] },
            )
            .collect();
        assert_eq!(names.len(), bars.len(), "{names:?}");
        let shares = &figure.panels[0].series;
        assert!(shares.iter().all(|s| s.mark == Mark::Stack && s.points.len() == bars.len()));
        for (bar, (cell, kind)) in bars.into_iter().enumerate() {
            let mean_ns = number(&cell[kind]["latency_ns"]["mean"]);
            let (mut sum_ns, mut phases) = (0.0, Vec::new());
            for spent in cell["evidence"]["spent"].as_array().unwrap() {
                let of = if spent["of"] == "page" { "read" } else { spent["of"].as_str().unwrap() };
                if of == kind {
                    let each_ns = number(&spent["total_ns"]) / number(&spent["count"]);
                    sum_ns += each_ns;
                    phases.push((spent["phase"].as_str().unwrap(), each_ns));
                }
            }
            assert!(
                (sum_ns / mean_ns - 1.0).abs() < 0.01,
                "{device} {kind}: {sum_ns} of {mean_ns}"
            );
            let time = format!("({})", human::time_ns(sum_ns));
            assert!(names[bar].ends_with(&time), "{} has {time}", names[bar]);
            for series in shares {
                let each_ns = phases.iter().find(|t| t.0 == series.name).map_or(0.0, |t| t.1);
                let point = &series.points[bar];
                assert_near(point.x, bar as f64, "the place of a bar");
                assert!((point.y * mean_ns - each_ns).abs() < 0.01 * mean_ns, "{}", series.name);
            }
            let whole_bar: f64 = shares.iter().map(|s| s.points[bar].y).sum();
            assert!((whole_bar - 1.0).abs() < 1e-9, "{device} {kind}: {whole_bar}");
        }
    }
}

/// For a real target, submission and reaping are drawn separately, by the timestamps of the cells.
#[test]
fn the_time_of_a_real_io_is_divided_by_its_stamps() {
    let place = Place::new();
    let words = "run random-read --on scratch:16MiB --engine libaio --depth 4 --time 400ms -q";
    place.iodyno(&format!("{words} --ramp 0s --vary block=4KiB,8KiB")).succeeds();
    let document = place.iodyno("show last --json").succeeds().json();
    let report = drawn(&place);
    let figure = plot(&report, "sweep-1-budget");
    let names: Vec<&str> = figure.panels[0].series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["submission", "device, kernel and waiting", "reaping"]);
    for (bar, cell) in cells(&document).iter().enumerate() {
        let spent = cell["evidence"]["spent"].as_array().unwrap();
        let each_ns = |phase: &str| {
            let it = spent.iter().find(|s| s["phase"] == phase && s["of"] == "operation").unwrap();
            number(&it["total_ns"]) / number(&it["count"])
        };
        let mean_ns = number(&cell["read"]["latency_ns"]["mean"]);
        let submission_ns = each_ns("submission").min(mean_ns);
        let whole_ns = mean_ns.max(each_ns("submission")) + each_ns("reaping");
        let share = |i: usize| figure.panels[0].series[i].points[bar].y;
        assert!((share(0) * whole_ns / submission_ns - 1.0).abs() < 0.01, "{bar}");
        assert!((share(2) * whole_ns / each_ns("reaping") - 1.0).abs() < 0.01, "{bar}");
    }
}

/// Compared time series have the same axes.
#[test]
fn series_of_one_unit_share_their_axes() {
    let place = Place::new();
    let words = format!("run random-read --on {DEVICE} --vary depth=16,32 --time 500ms -q");
    place.iodyno(&words).succeeds();
    let report = drawn(&place);
    let figures = report.sections.iter().flat_map(|s| &s.blocks).flat_map(|block| match block {
        Block::Figure(figure) => std::slice::from_ref(figure),
        Block::Gallery(figures) => figures,
        _ => &[],
    });
    let courses: Vec<_> = figures.filter(|f| f.title.ends_with("over time")).collect();
    let ranges = |panel: usize| -> Vec<_> {
        let plots = courses.iter().map(|f| match &f.shape {
            Shape::Plot(plot) => plot.panels[panel].y.range,
            _ => None,
        });
        plots.collect()
    };
    assert_eq!(courses.len(), 2);
    for panel in [0, 1] {
        assert!(ranges(panel)[0].is_some(), "panel {panel}");
        assert_eq!(ranges(panel)[0], ranges(panel)[1], "panel {panel}");
    }
}

/// Panels that these tests add to the study used in `study.rs`.
const PANELS: &str = r#"[[panels]]
figure = "Figure 1"
title = "depth"
workloads = ["randread"]
block = ["4KiB", "8KiB"]
depth = [1, 2, 8]
devices = [1]
metrics = ["iops", "bandwidth", "latency_mean", "latency_p99"]

[[panels]]
figure = "Figure 2"
title = "devices"
workloads = ["randread"]
block = ["4KiB"]
depth = [2]
devices = [1, 2]
metrics = ["iops", "latency_mean"]
"#;

/// The rows of the data behind a figure of a page: the name of the series, and its coordinates.
fn rows_of_page(page: &str, id: &str) -> Vec<(String, f64, f64)> {
    let figure = page.split_once(&format!("id=\"figure-{id}\"")).unwrap().1;
    let table = figure.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    let value = |cell: &str| -> f64 {
        let (attributes, text) = cell.split_once('>').unwrap();
        let exact =
            attributes.split_once("data-v=\"").map(|(_, rest)| rest.split('"').next().unwrap());
        exact.unwrap_or(text.trim_end_matches("</tr>")).trim().parse().unwrap()
    };
    let rows = table.split("<tr>").skip(1).map(|row| {
        let cells: Vec<&str> = row.trim().split("<td").skip(1).collect();
        (cells[0].split_once('>').unwrap().1.to_owned(), value(cells[1]), value(cells[2]))
    });
    rows.collect()
}

/// A measured run over a study: its values are drawn where the study has the same depth, block size and number of
/// targets, and nowhere else.
#[test]
fn a_measured_run_is_overlaid_on_a_study_at_its_own_coordinates() {
    let place = Place::new();
    let (study, _) = crate::study::STUDY.split_once("[[panels]]").unwrap();
    place.write("my.toml", format!("{study}{PANELS}"));
    let head = crate::study::FIGURES.lines().next().unwrap();
    let printed = "Figure 1,ram,randread,4096,2,,1,iops,=,200000,500,1/s,table,";
    place.write("figures.csv", format!("{head}\n{printed}\n"));
    let short = "--time 300ms --ramp 5ms -q";
    let one = format!("run random-read --on {DEVICE} --vary block=16KiB,4KiB --vary depth=1,2,3,8");
    place.iodyno(&format!("{one} {short} --name alone")).succeeds();
    let two = format!("run random-read --on {DEVICE}*2 --depth 2");
    place.iodyno(&format!("{two} {short} --name pair")).succeeds();
    // At the same coordinates, but it writes.
    let other = format!("run random-write --on {DEVICE} --depth 2");
    place.iodyno(&format!("{other} {short} --name writes")).succeeds();
    let words = "study my.toml --quick -q --report=my.html --with alone --with pair --with writes";
    place.iodyno(words).succeeds();
    let page = std::fs::read_to_string(place.path("my.html")).unwrap();

    let measured = |run: &str| place.iodyno(&format!("show {run} --json")).succeeds().json();
    let (alone, pair) = (measured("last~2"), measured("last~1"));
    let at = |depth: u64| {
        let found = cells(&alone).iter().find(|c| c["depth"] == depth && c["block_bytes"] == 4096);
        found.unwrap().clone()
    };
    let of_pair: Vec<&Value> =
        cells(&pair).iter().filter(|c| c["target"].as_str().unwrap().contains('#')).collect();
    assert_eq!(of_pair.len(), 2);
    let sum = of_pair.iter().map(|c| number(&c["total"]["iops"])).sum::<f64>();
    let laid_over = |id: &str, name: &str| -> Vec<(f64, f64)> {
        let rows = rows_of_page(&page, id).into_iter();
        rows.filter(|(series, ..)| series.starts_with(name)).map(|(_, x, y)| (x, y)).collect()
    };
    for (id, keys) in [
        ("p1-iops", ["total", "iops"]),
        ("p1-bandwidth", ["total", "bytes_per_s"]),
        ("p1-latency-mean", ["latency_ns", "mean"]),
        ("p1-latency-p99", ["latency_ns", "p99"]),
    ] {
        let drawn = laid_over(id, "alone on");
        assert_eq!(drawn.iter().map(|p| p.0).collect::<Vec<_>>(), [1.0, 2.0, 8.0], "{id}");
        for (x, y) in drawn {
            let cell = at(x as u64);
            let of = if keys[0] == "total" { &cell } else { &cell["read"] };
            assert_near(y, number(&of[keys[0]][keys[1]]), id);
        }
        // Two targets are not one.
        assert!(laid_over(id, "pair on").is_empty(), "{id}");
        assert!(laid_over(id, "writes on").is_empty(), "{id}");
    }
    let [(x, y)] = laid_over("p2-iops", "alone on")[..] else { panic!("one device, one point") };
    assert_near(x, 1.0, "a device");
    assert_near(y, number(&at(2)["total"]["iops"]), "its rate");
    let [(x, y)] = laid_over("p2-iops", "pair on")[..] else { panic!("two devices, one point") };
    assert_near(x, 2.0, "two devices");
    assert!((y / sum - 1.0).abs() < 1e-6, "{y} of both, {sum} one by one");
    assert!(laid_over("p2-iops", "writes on").is_empty());
    // The measured line is there beside it.
    assert!(rows_of_page(&page, "p2-iops").len() >= 4);
}
