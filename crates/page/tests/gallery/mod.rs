//! One figure of each kind with typical data of a storage test, for tests and for inspection.
//!
//! The numbers come from closed forms and a small pseudo-random generator; nothing was measured.

use iodyno_page::figure::{HeatMap, Matrix, Rule, Span};
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Scale, Series, Shape, Tone};

/// A pseudo-random number generator with a fixed seed.
struct Dice(u64);

impl Dice {
    /// A uniform random number from 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An approximately normal random number with mean 0 and standard deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

fn figure(id: &str, title: &str, summary: &str, shape: Shape) -> Figure {
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        summary: summary.to_owned(),
        conditions:
            "run 7f3a, nvme0n1 (Example D7, 1.92 TB), 4 KiB random, 5 rounds of 60 s, steady \
                     state by PTS 2.0, no warnings"
                .to_owned(),
        shape,
        notes: vec!["Whiskers are 95 % intervals over rounds.".to_owned()],
    }
}

fn plot(x: Axis, panels: Vec<Panel>) -> Plot {
    Plot { x, panels, spans: Vec::new() }
}

fn series(name: &str, mark: Mark, color: usize, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), mark, color, points }
}

fn rule(at: f64, name: &str, tone: Tone) -> Rule {
    Rule { at, upright: false, name: name.to_owned(), tone }
}

fn span(from: f64, to: f64, name: &str, tone: Tone) -> Span {
    Span { from, to, name: name.to_owned(), tone }
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|&name| name.to_owned()).collect()
}

/// All figures of the gallery.
pub(crate) fn figures() -> Vec<Figure> {
    vec![
        hockey_stick(),
        spectrum(),
        time_series(),
        dense(),
        heat_map(),
        matrix(),
        load_map(),
        columns(),
        forest(),
        scaling(),
        budget(),
        bars(),
        distribution(),
        histogram(),
        sizes(),
        empty(),
        long_names(2),
        long_names(7),
        long_names(16),
        long_names(32),
        long_names_both_ways(),
    ]
}

/// A chart of three series of 60 points each, by which the size of a typical chart is measured.
pub(crate) fn usual() -> Figure {
    let mut dice = Dice(9);
    let mut of = |name: &str, color, level: f64| {
        let points = (0..60)
            .map(|i| Point::at(f64::from(i), level * (1.0 + 0.05 * dice.normal())))
            .collect();
        series(name, Mark::Line, color, points)
    };
    let series = vec![of("p50", 0, 9e4), of("p99", 1, 4e5), of("p99.9", 2, 2e6)];
    let panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), series);
    let plot = plot(Axis::from_zero("time", Quantity::Seconds), vec![panel]);
    figure(
        "usual",
        "Latency over time",
        "Latency is level for the whole minute.",
        Shape::Plot(plot),
    )
}

fn hockey_stick() -> Figure {
    let depths = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    let of = |name: &str, color, factor: f64, steep: f64| {
        let points = depths.iter().map(|&depth: &f64| {
            let iops = 780e3 * depth / (depth + 34.0);
            let queue = 1.0 + steep * (depth / 90.0).powi(2);
            let latency = factor * (depth / iops * 1e9) * queue;
            Point {
                x: iops,
                y: latency,
                interval: Some((latency * 0.93, latency * 1.08)),
                label: if color == 1 { format!("QD {depth}") } else { String::new() },
                tone: if depth > 200.0 && color == 2 { Tone::Warning } else { Tone::Plain },
            }
        });
        series(name, Mark::Line, color, points.collect())
    };
    let all = vec![of("p50", 0, 0.9, 0.0), of("p99", 1, 2.1, 0.4), of("p99.9", 2, 4.4, 1.4)];
    let mut panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), all);
    panel.rules.push(rule(5e6, "response time ceiling 5 ms", Tone::Bad));
    let plot = plot(Axis::from_zero("achieved", Quantity::Iops), vec![panel]);
    figure(
        "hockey-stick",
        "Latency against achieved rate, 4 KiB random reads",
        "Up to QD 32 the rate rises with hardly more latency; beyond QD 64 only latency grows.",
        Shape::Plot(plot),
    )
}

fn spectrum() -> Figure {
    let q = |i: u32| 1.0 - 10_f64.powf(-f64::from(i) * 0.1);
    let value = |i: u32, base: f64| base * (1.0 + (f64::from(i) * 0.1).powi(3) * 0.28);
    let of = |name: &str, mark, color, base, range: std::ops::RangeInclusive<u32>| {
        let points = range.map(|i| Point::at(q(i), value(i, base))).collect();
        series(name, mark, color, points)
    };
    let band = (0..=40).map(|i| {
        let y = value(i, 8e4);
        let wide = 0.02 + 0.0002 * f64::from(i).powi(2);
        Point { interval: Some((y * (1.0 - wide), y * (1.0 + wide))), ..Point::at(q(i), y) }
    });
    let panel = Panel::new(
        Axis::log("latency", Quantity::LatencyNs),
        vec![
            series("QD 1", Mark::Band, 0, band.collect()),
            of("QD 1", Mark::Line, 0, 8e4, 0..=40),
            of("QD 1", Mark::Dashed, 0, 8e4, 40..=52),
            of("QD 32", Mark::Line, 1, 2.1e5, 0..=45),
            of("QD 32", Mark::Dashed, 1, 2.1e5, 45..=55),
        ],
    );
    let x = Axis {
        label: "share of I/Os that are faster".to_owned(),
        quantity: Quantity::Quantile,
        scale: Scale::Nines,
        range: None,
    };
    figure(
        "spectrum",
        "Latency by quantile",
        "The tail rises steadily; there is no jump.",
        Shape::Plot(plot(x, vec![panel])),
    )
}

fn time_series() -> Figure {
    let mut dice = Dice(1);
    let mut rates = [Vec::new(), Vec::new()];
    let mut latencies = [Vec::new(), Vec::new()];
    let mut heat = Vec::new();
    for i in 0..600 {
        let t = f64::from(i);
        let level = if t < 170.0 { 610e3 } else { 240e3 + 370e3 * (-(t - 170.0) / 40.0).exp() };
        let stall = if (402..408).contains(&i) { 0.08 } else { 1.0 };
        for (k, share) in [0.7, 0.3].into_iter().enumerate() {
            let y = level * share * stall * (1.0 + 0.03 * dice.normal());
            let y = if (300..310).contains(&i) { f64::NAN } else { y };
            rates[k].push(Point::at(t, y));
        }
        for (k, factor) in [1.0, 7.0].into_iter().enumerate() {
            let y = 6.4e10 / level / stall * factor * (1.0 + 0.1 * dice.share());
            latencies[k].push(Point::at(t, y));
        }
        heat.push(Point::at(t, 41.0 + 22.0 * (1.0 - (-t / 200.0).exp())));
    }
    let [reads, writes] = rates;
    let [p50, p99] = latencies;
    let mut rate = Panel::new(
        Axis::from_zero("rate", Quantity::Iops),
        vec![series("reads", Mark::Line, 0, reads), series("writes", Mark::Line, 1, writes)],
    );
    rate.rules.push(rule(168e3, "mean of the window, reads", Tone::Plain));
    let latency = Panel::new(
        Axis::log("read latency", Quantity::LatencyNs),
        vec![series("p50", Mark::Line, 2, p50), series("p99.9", Mark::Line, 3, p99)],
    );
    let axis = Axis {
        label: "temperature".to_owned(),
        quantity: Quantity::Celsius,
        scale: Scale::Linear { zero: false },
        range: None,
    };
    let mut strip = Panel::new(axis, vec![series("composite", Mark::Step, 7, heat)]);
    strip.height = 0.5;
    let mut plot = plot(Axis::from_zero("time", Quantity::Seconds), vec![rate, latency, strip]);
    plot.spans = vec![
        span(0.0, 60.0, "purge", Tone::Dim),
        span(60.0, 420.0, "preconditioning, workload dependent", Tone::Plain),
        span(400.0, 409.0, "stall", Tone::Bad),
        span(480.0, 600.0, "steady state window", Tone::Good),
    ];
    figure(
        "time-series",
        "Rate, latency and temperature over time",
        "The rate falls after 170 s, when the spare blocks are used up, and is level from 480 s on.",
        Shape::Plot(plot),
    )
}

fn dense() -> Figure {
    let mut dice = Dice(2);
    let mut of = |name: &str, color, level: f64| {
        let points = (0..3600).map(|i| {
            let spike = if i % 907 == 450 { 30.0 } else { 1.0 };
            Point::at(f64::from(i), level * spike * (0.08 * dice.normal()).exp())
        });
        series(name, Mark::Line, color, points.collect())
    };
    let all = vec![of("p50", 0, 9e4), of("p99", 1, 5e5), of("p99.9", 2, 3e6)];
    let panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), all);
    let plot = plot(Axis::from_zero("time", Quantity::Seconds), vec![panel]);
    figure(
        "dense",
        "Latency for an hour, each second",
        "Every 15 minutes one second has thirty times the latency.",
        Shape::Plot(plot),
    )
}

fn heat_map() -> Figure {
    let mut dice = Dice(3);
    let rows = 36;
    let y_edges: Vec<f64> = (0..=rows).map(|i| 3e4 * 10_f64.powf(f64::from(i) / 9.0)).collect();
    let mut of = |second: f64| {
        (0..120)
            .map(|column| {
                let mut counts = vec![0_u64; rows as usize];
                let wave = (f64::from(column) / 19.0).sin() * 1.5;
                for row in 0..rows {
                    let first = (-((f64::from(row) - 6.0 - wave) / 1.8).powi(2)).exp() * 40_000.0;
                    let slow = (-((f64::from(row) - 18.0) / 2.6).powi(2)).exp() * 900.0 * second;
                    let count = (first + slow) * (0.8 + 0.4 * dice.share());
                    counts[row as usize] = count as u64;
                }
                if column % 31 == 30 {
                    counts[31] = 1 + (dice.share() * 3.0) as u64;
                }
                counts
            })
            .collect()
    };
    let mut panel = |name: &str, second: f64| {
        let mut panel = Panel::new(Axis::log(name, Quantity::LatencyNs), Vec::new());
        panel.heat = Some(HeatMap {
            x_edges: (0..=120).map(f64::from).collect(),
            y_edges: y_edges.clone(),
            counts: of(second),
            of: "I/Os".to_owned(),
        });
        panel
    };
    let panels = vec![panel("read latency", 0.2), panel("write latency", 1.0)];
    let mut plot = plot(Axis::from_zero("time", Quantity::Seconds), panels);
    plot.spans = vec![span(60.0, 120.0, "steady state window", Tone::Good)];
    figure(
        "heat-map",
        "Where the latencies were",
        "Writes have a second mode near 3 ms; a few I/Os take 80 ms every 31 s.",
        Shape::Plot(plot),
    )
}

fn table(
    columns: &[&str],
    rows: &[&str],
    quantity: Quantity,
    of: impl Fn(f64, f64) -> f64,
) -> Matrix {
    let value = |row: usize, column: usize| Some(of(row as f64, column as f64));
    Matrix {
        range: None,
        columns_label: "share of reads".to_owned(),
        columns: names(columns),
        rows_label: "block size".to_owned(),
        rows: names(rows),
        quantity,
        values: (0..rows.len())
            .map(|row| (0..columns.len()).map(|column| value(row, column)).collect())
            .collect(),
        notes: Vec::new(),
    }
}

const MIXES: [&str; 7] = ["100 %", "95 %", "65 %", "50 %", "35 %", "5 %", "0 %"];
const SIZES: [&str; 8] =
    ["512 B", "4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "1 MiB"];

fn pts_iops(row: f64, column: f64) -> f64 {
    let bytes = if row == 0.0 {
        4096.0
    } else {
        4096.0 * 2_f64.powf(row - 1.0 + (row - 6.0).max(0.0) * 2.0)
    };
    let reads = 6.6e9 / (bytes + 4500.0);
    let writes = if row == 0.0 { 0.25 } else { 1.0 } * 1.3e9 / (bytes + 2500.0);
    let share = [1.0, 0.95, 0.65, 0.5, 0.35, 0.05, 0.0][column as usize];
    1.0 / (share / reads + (1.0 - share) / writes)
}

fn matrix() -> Figure {
    let mut matrix = table(&MIXES, &SIZES, Quantity::Iops, pts_iops);
    matrix.notes = vec![vec!["95 % interval ± 2 %".to_owned(); MIXES.len()]; SIZES.len()];
    figure(
        "matrix",
        "IOPS by block size and share of reads",
        "Small reads are fastest; 512 B writes are slower than 4 KiB ones.",
        Shape::Matrix(matrix),
    )
}

fn load_map() -> Figure {
    let shares: Vec<String> = (0..=20).map(|i| format!("{} %", i * 5)).collect();
    let values = (0..=20).map(|row| {
        (0..=20).map(move |column| {
            let load = f64::from(column + (20 - row)) / 28.0;
            (load < 1.0).then(|| 8.4e4 / (1.0 - load))
        })
    });
    let matrix = Matrix {
        range: None,
        columns_label: "read rate".to_owned(),
        columns: shares.clone(),
        rows_label: "write rate".to_owned(),
        rows: shares.into_iter().rev().collect(),
        quantity: Quantity::LatencyNs,
        values: values.map(Iterator::collect).collect(),
        notes: Vec::new(),
    };
    figure(
        "load-map",
        "p99 read latency by offered load",
        "Where reads and writes together exceed 135 % the rate was missed.",
        Shape::Matrix(matrix),
    )
}

fn columns() -> Figure {
    figure(
        "columns",
        "IOPS by block size and share of reads, as columns",
        "Small reads are fastest.",
        Shape::Columns(table(&MIXES, &SIZES, Quantity::Iops, pts_iops)),
    )
}

fn forest() -> Figure {
    let cells = [
        ("4 KiB random read, QD 1: p99 latency", 0.012, 0.02),
        ("4 KiB random read, QD 32: IOPS", -0.034, 0.012),
        ("4 KiB random write, QD 32: IOPS", 0.081, 0.024),
        (
            "128 KiB sequential read with a name that is much too long for the margin: throughput",
            0.002,
            0.004,
        ),
        ("128 KiB sequential write: throughput", -0.11, 0.045),
        ("4 KiB mixed 70/30, QD 16: p99.9 latency of reads", 0.05, 0.09),
    ];
    let points = cells.iter().enumerate().map(|(i, &(_, shift, half))| Point {
        x: shift,
        y: i as f64,
        interval: Some((shift - half, shift + half)),
        label: Quantity::Change.words(shift),
        tone: if i == 4 { Tone::Bad } else { Tone::Plain },
    });
    let y = Axis::categories("", cells.iter().map(|c| c.0.to_owned()).collect());
    let mut panel = Panel::new(
        y,
        vec![series("new firmware against old", Mark::Interval, 0, points.collect())],
    );
    panel.rules.push(Rule {
        at: 0.0,
        upright: true,
        name: "no change".to_owned(),
        tone: Tone::Plain,
    });
    let x = Axis {
        label: "change".to_owned(),
        quantity: Quantity::Change,
        scale: Scale::Linear { zero: false },
        range: None,
    };
    let mut plot = plot(x, vec![panel]);
    plot.spans = vec![span(-0.03, 0.03, "not distinguished", Tone::Dim)];
    figure(
        "forest",
        "What the new firmware changed",
        "Sequential writes lost a tenth; random writes gained.",
        Shape::Plot(plot),
    )
}

fn scaling() -> Figure {
    let counts = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0];
    let usl = |n: f64| n / (1.0 + 0.02 * (n - 1.0) + 0.0009 * n * (n - 1.0));
    let of =
        |f: &dyn Fn(f64) -> f64| counts.iter().map(|&n| Point::at(n, f(n))).collect::<Vec<_>>();
    let speed = Panel::new(
        Axis::from_zero("speed-up", Quantity::Ratio),
        vec![
            series("ideal", Mark::Dashed, 7, of(&|n| n)),
            series("measured", Mark::Line, 0, of(&usl)),
        ],
    );
    let mut share = Panel::new(
        Axis::from_zero("efficiency", Quantity::Share),
        vec![series("measured", Mark::Line, 0, of(&|n| usl(n) / n))],
    );
    share.height = 0.6;
    let x = Axis::from_zero("SSDs in the array", Quantity::Count);
    figure(
        "scaling",
        "Speed-up by number of SSDs",
        "Half of the ideal at 24 SSDs.",
        Shape::Plot(plot(x, vec![speed, share])),
    )
}

fn budget() -> Figure {
    let depths = names(&["QD 1", "QD 2", "QD 4", "QD 8", "QD 16", "QD 32", "QD 64"]);
    let of = |name: &str, color, f: &dyn Fn(f64) -> f64| {
        let points = (0..7).map(|i| Point::at(f64::from(i), f(2_f64.powi(i)))).collect();
        series(name, Mark::Stack, color, points)
    };
    let panel = Panel::new(
        Axis::from_zero("mean latency", Quantity::LatencyNs),
        vec![
            of("submission", 0, &|_| 1.9e3),
            of("kernel", 4, &|d| 3.1e3 + 40.0 * d),
            of("device", 2, &|d| 7.4e4 + 900.0 * d),
        ],
    );
    let x = Axis::categories("queue depth", depths);
    figure(
        "budget",
        "Where the time of an I/O goes",
        "Nearly all of it is spent in the device.",
        Shape::Plot(plot(x, vec![panel])),
    )
}

/// Names of the cells of a sweep over several axes, one per bar of its figures.
fn sweep_names(n: usize) -> Vec<String> {
    let name = |i: usize| {
        let (depth, kind) = (1 << (i % 9), ["read", "write"][i % 2]);
        format!("random-write, depth {depth}, block 64KiB, read 70%, {kind} ({}.{i} ms)", i + 1)
    };
    (0..n).map(name).collect()
}

fn long_names(n: usize) -> Figure {
    let of = |name: &str, color, share: f64| {
        let points = (0..n).map(|i| Point::at(i as f64, share)).collect();
        series(name, Mark::Stack, color, points)
    };
    let all = vec![
        of("submission of the request through the block layer", 0, 0.25),
        of("device, kernel and waiting", 2, 0.75),
    ];
    let panel = Panel::new(Axis::from_zero("share of the time of an I/O", Quantity::Share), all);
    let mut plot = plot(Axis::categories("", sweep_names(n)), vec![panel]);
    let at = n as f64 - 1.0;
    plot.spans = vec![span(at, at + 0.4, "a long name of the last of these bars", Tone::Good)];
    figure(
        &format!("long-names-{n}"),
        "Where the time of an I/O goes",
        "Nearly all of it is spent in the device.",
        Shape::Plot(plot),
    )
}

fn long_names_both_ways() -> Figure {
    let mut matrix = table(&MIXES, &SIZES, Quantity::LatencyNs, |row, column| row + 7.0 * column);
    "engine and outstanding operations of each worker".clone_into(&mut matrix.columns_label);
    matrix.columns = MIXES.map(|mix| format!("libaio, depth 32, {mix} reads")).to_vec();
    matrix.rows =
        SIZES.map(|size| format!("/dev/disk/by-id/nvme-Example_D7_1920GB, {size}")).to_vec();
    figure(
        "long-names-matrix",
        "p99 by target and engine",
        "Nothing was measured.",
        Shape::Matrix(matrix),
    )
}

fn bars() -> Figure {
    let of = |name: &str, color, values: [f64; 4]| {
        let points = values.iter().enumerate().map(|(i, &y)| Point {
            interval: Some((y * 0.96, y * 1.04)),
            label: Quantity::Throughput.words(y),
            tone: if y < 1e9 { Tone::Warning } else { Tone::Plain },
            ..Point::at(i as f64, y)
        });
        series(name, Mark::Bars, color, points.collect())
    };
    let mut panel = Panel::new(
        Axis::from_zero("throughput", Quantity::Throughput),
        vec![
            of("measured", 0, [6.71e9, 4.02e9, 2.9e9, 0.83e9]),
            of("data sheet", 4, [7.0e9, 4.2e9, 3.9e9, 1.56e9]),
        ],
    );
    panel.rules.push(rule(7.88e9, "PCIe 4.0 x4", Tone::Note));
    let corners = names(&["sequential read", "sequential write", "random read", "random write"]);
    figure(
        "bars",
        "Four corners beside the data sheet",
        "Random writes reach half of what the data sheet promises.",
        Shape::Plot(plot(Axis::categories("", corners), vec![panel])),
    )
}

fn distribution() -> Figure {
    let mut dice = Dice(5);
    let mut of = |name: &str, color, at: f64, mean: f64| {
        let points = (0..8).map(|_| Point::at(at, mean * (1.0 + 0.02 * dice.normal()))).collect();
        series(name, Mark::Dots, color, points)
    };
    let y = Axis {
        label: "rate".to_owned(),
        quantity: Quantity::Iops,
        scale: Scale::Linear { zero: false },
        range: None,
    };
    let all = vec![of("A", 0, 0.0, 412e3), of("B", 1, 1.0, 431e3), of("C", 2, 2.0, 405e3)];
    let x =
        Axis::categories("configuration", names(&["A: kernel 6.12", "B: kernel 6.18", "C: SPDK"]));
    figure(
        "distribution",
        "Runs, one dot each",
        "B is above A in seven of eight runs.",
        Shape::Plot(plot(x, vec![Panel::new(y, all)])),
    )
}

fn histogram() -> Figure {
    let points = (0..90).map(|i| {
        let log = 4.5 + f64::from(i) * 0.04;
        let mode = |at: f64, wide: f64, n: f64| n * (-((log - at) / wide).powi(2)).exp();
        let count = mode(4.95, 0.12, 4e6) + mode(5.9, 0.2, 6e4) + mode(7.1, 0.16, 90.0);
        Point::at(10_f64.powf(log), count.floor())
    });
    let mut panel = Panel::new(
        Axis::log("I/Os", Quantity::Count),
        vec![series("reads", Mark::Step, 0, points.collect())],
    );
    for (at, name) in [(8.9e4, "mode 89 µs"), (7.9e5, "mode 790 µs"), (1.26e7, "mode 12.6 ms")] {
        panel.rules.push(Rule { at, upright: true, name: name.to_owned(), tone: Tone::Plain });
    }
    figure(
        "histogram",
        "Histogram of read latency",
        "Three modes: cache, flash, and blocks being erased.",
        Shape::Plot(plot(Axis::log("latency", Quantity::LatencyNs), vec![panel])),
    )
}

fn sizes() -> Figure {
    let of = |name: &str, color, most: f64, cost: f64| {
        let points = (9..=20).map(|p| {
            let bytes = 2_f64.powi(p);
            Point::at(bytes, most * bytes / (bytes + cost))
        });
        series(name, Mark::Line, color, points.collect())
    };
    let panel = Panel::new(
        Axis::from_zero("throughput", Quantity::Throughput),
        vec![of("reads", 0, 6.9e9, 11_000.0), of("writes", 1, 4.1e9, 19_000.0)],
    );
    figure(
        "sizes",
        "Throughput by block size",
        "Blocks of 128 KiB reach nine tenths of the most.",
        Shape::Plot(plot(Axis::log("block size", Quantity::Bytes), vec![panel])),
    )
}

fn empty() -> Figure {
    let panel = Panel::new(
        Axis::log("latency", Quantity::LatencyNs),
        vec![series("reads", Mark::Line, 0, vec![Point::at(1.0, f64::NAN)])],
    );
    figure(
        "empty",
        "Nothing was measured",
        "There are no values.",
        Shape::Plot(plot(Axis::from_zero("time", Quantity::Seconds), vec![panel])),
    )
}
