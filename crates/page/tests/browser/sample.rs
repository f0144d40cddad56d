//! Sample documents: a typical report, one with hostile text, one with many figures.

#![allow(dead_code, unreachable_pub, reason = "each program of tests uses a part")]

use iodyno_page::document::{Headline, Verdict};
use iodyno_page::figure::{HeatMap, Matrix, Rule, Span};
use iodyno_page::*;

/// A series drawn as a line through `points`.
pub fn series(name: &str, color: usize, points: impl Iterator<Item = (f64, f64)>) -> Series {
    let points = points.map(|(x, y)| Point::at(x, y)).collect();
    Series { name: name.into(), mark: Mark::Line, color, points }
}

/// A figure of one shape.
pub fn figure(id: &str, title: &str, shape: Shape) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        summary: format!("{title}: what is to be seen, in a sentence."),
        conditions: "run 7f3a · exflash-400g, 4 KiB, T4Q32 · n = 3 · STEADY".into(),
        shape,
        notes: vec!["Percentiles beyond 99.99 % have fewer than ten samples.".into()],
    }
}

/// A linear axis of seconds that includes 0.
pub fn seconds() -> Axis {
    let scale = Scale::Linear { zero: true };
    Axis { label: "time".into(), quantity: Quantity::Seconds, scale, range: None }
}

/// Rate and latency at `n` times within 300 s, as waves of frequency `wave`.
pub fn over_time(id: &str, n: usize, wave: f64) -> Figure {
    let at = |i: usize| i as f64 * 300.0 / n as f64;
    let rate =
        |k: f64| (0..n).map(move |i| (at(i), 2e5 * k * (1.0 + 0.2 * (i as f64 * wave).sin())));
    let latency =
        |k: f64| (0..n).map(move |i| (at(i), 1e5 * k * (1.3 + (i as f64 * wave * 1.7).cos())));
    let mut panels = vec![
        Panel::new(
            Axis::from_zero("rate", Quantity::Iops),
            vec![series("reads", 0, rate(1.0)), series("writes", 1, rate(0.4))],
        ),
        Panel::new(
            Axis::log("latency", Quantity::LatencyNs),
            vec![series("p50", 2, latency(1.0)), series("p99.9", 3, latency(9.0))],
        ),
    ];
    panels[0].rules.push(Rule {
        at: 2e5,
        upright: false,
        name: "mean of the window".into(),
        tone: Tone::Plain,
    });
    let spans =
        vec![Span { from: 180.0, to: 300.0, name: "steady-state window".into(), tone: Tone::Good }];
    figure(id, "Rate and latency over time", Shape::Plot(Plot { x: seconds(), panels, spans }))
}

/// Latency over rate, with depths beside the points.
pub fn hockey_stick(id: &str) -> Figure {
    let curve = |name: &str, color: usize, k: f64| {
        let mut it = series(
            name,
            color,
            (0..12).map(|i| {
                let depth = 2_f64.powi(i);
                (4e5 * depth / (depth + 30.0), k * 8e4 * (1.0 + depth / 40.0))
            }),
        );
        for (i, point) in it.points.iter_mut().enumerate() {
            point.label = format!("QD {}", 1 << i);
        }
        it
    };
    let panel = Panel::new(
        Axis::log("latency", Quantity::LatencyNs),
        vec![curve("p50", 2, 1.0), curve("p99", 4, 2.5), curve("p99.9", 3, 7.0)],
    );
    let plot = Plot {
        x: Axis::from_zero("achieved rate", Quantity::Iops),
        panels: vec![panel],
        spans: Vec::new(),
    };
    figure(id, "Latency against rate", Shape::Plot(plot))
}

/// Latency by quantile.
pub fn spectrum(id: &str) -> Figure {
    let curve = |k: f64| {
        (0..50).map(move |i| {
            let nines = i as f64 / 10.0;
            (1.0 - 10_f64.powf(-nines), k * 8e4 * 1.9_f64.powf(nines))
        })
    };
    let panel = Panel::new(
        Axis::log("latency", Quantity::LatencyNs),
        vec![series("SSD A", 0, curve(1.0)), series("SSD B", 1, curve(1.6))],
    );
    let x = Axis {
        label: "quantile".into(),
        quantity: Quantity::Quantile,
        scale: Scale::Nines,
        range: None,
    };
    figure(
        id,
        "Latency by percentile",
        Shape::Plot(Plot { x, panels: vec![panel], spans: Vec::new() }),
    )
}

/// Bars by block size.
pub fn bars(id: &str) -> Figure {
    let bar = |name: &str, color, k: f64| Series {
        mark: Mark::Bars,
        ..series(name, color, (0..5).map(move |i| (f64::from(i), k * (1e5 + f64::from(i) * 3e4))))
    };
    let names = ["4 KiB", "8 KiB", "16 KiB", "64 KiB", "1 MiB"].map(String::from).to_vec();
    let panel = Panel::new(
        Axis::from_zero("rate", Quantity::Iops),
        vec![bar("before", 0, 1.0), bar("after", 1, 1.3)],
    );
    let plot =
        Plot { x: Axis::categories("block size", names), panels: vec![panel], spans: Vec::new() };
    figure(id, "Before and after", Shape::Plot(plot))
}

/// Rates, latencies and counts of ten intervals of 0.2 s. The n-th has a rate of n + 1 thousand and a p99 of n + 1 ms.
pub fn intervals(id: &str) -> Figure {
    let edge = |i: u32| f64::from(i) * 0.2;
    let rate = (0..=10).map(|i| (edge(i), 1e3 * f64::from(i.min(9) + 1)));
    let rate = Series { mark: Mark::Step, ..series("read", 0, rate) };
    let p99 = (0..10).map(|i| (f64::midpoint(edge(i), edge(i + 1)), 1e6 * f64::from(i + 1)));
    let mut latency =
        Panel::new(Axis::log("latency", Quantity::LatencyNs), vec![series("p99", 3, p99)]);
    latency.heat = Some(HeatMap {
        x_edges: (0..=10).map(edge).collect(),
        y_edges: (0..=8).map(|i| 1e5 * 2_f64.powf(f64::from(i) + 0.1)).collect(),
        counts: (0..10_u64)
            .map(|c| (0..8).map(|r| if r > c { 0 } else { 100 * c + r }).collect())
            .collect(),
        of: "I/Os".into(),
    });
    let panels = vec![Panel::new(Axis::from_zero("IOPS", Quantity::Iops), vec![rate]), latency];
    figure(id, "Intervals", Shape::Plot(Plot { x: seconds(), panels, spans: Vec::new() }))
}

/// Counts by time and latency, with the median over them.
pub fn heat(id: &str) -> Figure {
    let y_edges: Vec<f64> = (0..=24).map(|i| 2e4 * 1.25_f64.powi(i)).collect();
    let counts = (0..60_u64)
        .map(|c| {
            (0..24_u64)
                .map(|r| {
                    if r.abs_diff(8 + c / 12) < 6 {
                        4_u64.pow(6 - r.abs_diff(8 + c / 12) as u32)
                    } else {
                        0
                    }
                })
                .collect()
        })
        .collect();
    let mut panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), Vec::new());
    panel.heat = Some(HeatMap {
        x_edges: (0..=60).map(|i| f64::from(i) * 5.0).collect(),
        y_edges,
        counts,
        of: "I/Os".into(),
    });
    figure(
        id,
        "Latency heat map",
        Shape::Plot(Plot { x: seconds(), panels: vec![panel], spans: Vec::new() }),
    )
}

/// A matrix of rates.
pub fn matrix(id: &str) -> Figure {
    let values = (0..6).map(|r| {
        (0..7)
            .map(|c| (r + c != 3).then(|| 1e5 / f64::from(r + 1) * (1.0 + f64::from(c))))
            .collect()
    });
    figure(
        id,
        "Rate by block size and mix",
        Shape::Matrix(Matrix {
            range: None,
            columns_label: "share of reads".into(),
            columns: ["0 %", "5 %", "35 %", "50 %", "65 %", "95 %", "100 %"]
                .map(String::from)
                .to_vec(),
            rows_label: "block size".into(),
            rows: ["4 KiB", "8 KiB", "16 KiB", "64 KiB", "128 KiB", "1 MiB"]
                .map(String::from)
                .to_vec(),
            quantity: Quantity::Iops,
            values: values.collect(),
            notes: Vec::new(),
        }),
    )
}

/// A table with groups, heat, tones and a note.
pub fn table(rows: usize) -> Table {
    let mut table = Table {
        caption: "Cells of the sweep".into(),
        columns: vec![
            Column::words("cell"),
            Column::numbers("rate", "IOPS"),
            Column::numbers("p99", "ns"),
            Column::words("verdict"),
        ],
        rows: Vec::new(),
        notes: vec!["Rates are means of three rounds.".into()],
    };
    for i in 0..rows {
        if i % 4 == 0 {
            let heading = Cell::words(format!("block size {} KiB", 4 << (i / 4)));
            table.rows.push(Row { cells: vec![heading], is_heading: true });
        }
        let rate = 123_456.7 * (1.0 + (i as f64 * 2.3).sin() * 0.6);
        let mut cell = Cell::number(Quantity::Iops.words(rate), rate);
        cell.heat = Some(i as f64 / rows as f64);
        let p99 = 4.2e5 / (i + 1) as f64;
        let verdict = if i % 5 == 3 {
            Cell::words("not steady").toned(Tone::Warning)
        } else {
            Cell::words("valid").toned(Tone::Good)
        };
        let mut p99 = Cell::number(Quantity::LatencyNs.words(p99), p99);
        p99.note = "95 % interval 310 to 420 µs".into();
        table
            .rows
            .push(vec![Cell::words(format!("T4Q{}", 1 << (i % 8))), cell, p99, verdict].into());
    }
    table
}

/// A report with everything that a document can have.
pub fn report() -> Document {
    let headline = |name: &str, value: &str, tone| Headline {
        name: name.into(),
        value: value.into(),
        interval: "± 1.2 % (95 %, n = 3)".into(),
        beside: vec!["p99 412 µs · p99.9 1.31 ms".into(), "4 KiB, T4Q32".into()],
        tone,
    };
    let verdict = |code: &str, tone, text: &str, of: &[&str]| Verdict {
        code: code.into(),
        tone,
        text: text.into(),
        of: of.iter().map(|&it| it.into()).collect(),
    };
    let section = |id: &str, title: &str, folded, blocks| Section {
        id: id.into(),
        title: title.into(),
        blocks,
        folded,
    };
    let facts = vec![
        (
            "Target".to_owned(),
            vec![
                ("device".to_owned(), "exflash-400g".to_owned()),
                ("capacity".to_owned(), "373 GiB".to_owned()),
                ("firmware".to_owned(), "1.07b".to_owned()),
            ],
        ),
        (
            "Host".to_owned(),
            vec![
                ("kernel".to_owned(), "6.12.3".to_owned()),
                (
                    "processor".to_owned(),
                    "2 × 16 cores at 3.1 GHz, governor performance".to_owned(),
                ),
            ],
        ),
        (
            "Method".to_owned(),
            vec![
                ("preconditioned".to_owned(), "2 × capacity, 128 KiB sequential".to_owned()),
                ("steady state".to_owned(), "5 rounds, slope 2.1 %, excursion 4.0 %".to_owned()),
            ],
        ),
    ];
    Document {
        title: "exflash-400g: random mix at 4 KiB".into(),
        about: vec!["Run 7f3a91".into(), "4 SSDs, one host".into(), "21 November 2026, 10:04".into(), "seed 42".into()],
        stamp: "NON-CONFORMANT".into(),
        sections: vec![
            section("first", "What was found", false, vec![
                Block::Headlines(vec![
                    headline("Random read", "412 k IOPS", Tone::Plain),
                    headline("Random write", "88.1 k IOPS", Tone::Warning),
                    headline("Mixed 65/35", "131 k IOPS", Tone::Plain),
                    headline("Sequential read", "3.21 GB/s", Tone::Good),
                ]),
                Block::Verdicts(vec![
                    verdict("STEADY_NOT_REACHED", Tone::Warning, "The last five rounds drift by 12 %, more than the 10 % that steady state allows. Measure longer: --rounds 25.", &["randwrite T4Q32", "randwrite T8Q32"]),
                    verdict("GENERATOR_BOUND", Tone::Bad, "The load generator's cores were 97 % busy: the rate is its own and not the device's. Use more threads.", &["randread T1Q32"]),
                    verdict("", Tone::Good, "All other cells are valid.", &[]),
                    verdict("TAIL_SAMPLES", Tone::Note, "p99.99 has 8 samples; at least 10 are wanted.", &[]),
                ]),
                Block::Figure(over_time("first-time", 60, 0.21)),
            ]),
            section("figures", "Figures", false, vec![
                Block::Text("Latency is that of completed operations, from the intended start.".into()),
                Block::Figure(hockey_stick("hockey")),
                Block::Figure(spectrum("spectrum")),
                Block::Figure(over_time("time-a", 60, 0.13)),
                Block::Figure(over_time("time-b", 60, 0.37)),
                Block::Figure(bars("bars")),
                Block::Figure(matrix("matrix")),
                Block::Figure(heat("heat")),
                Block::Gallery((0..4).map(|i| over_time(&format!("small-{i}"), 60, 0.1 + i as f64 * 0.07)).collect()),
            ]),
            section("tables", "Tables", false, vec![Block::Table(table(16)), Block::Table(table(4))]),
            section("conditions", "Conditions", false, vec![
                Block::Facts(facts),
                Block::Code { caption: "Run it again".into(), text: "iodyno run --target /dev/nvme0n1 \\\n    --workload randmix.toml --seed 42".into() },
            ]),
            section("raw", "All cells", true, vec![Block::Table(table(60)), Block::Table(table(24))]),
        ],
        embedded: vec![Embedded { id: "iodyno-run-1".into(), media_type: "application/vnd.iodyno.run+json".into(), text: "{\"a\":\"</script><!--\"}".into() }],
        made_by: "iodyno 0.1.0".into(),
        links: Vec::new(),
        views: None,
    }
}

/// Hostile text: markup, ends of elements, scripts, formulas, reversed direction, excessive length.
pub const HOSTILE: &str = "</script><script>window.__pwned=1;alert(1)</script><img src=x onerror=\"window.__pwned=2\">'\"><svg onload=alert(2)>]]><!-- --> \u{202e}evil\u{202d} \u{5e9}\u{5dc}\u{5d5}\u{5dd} =cmd|' /C calc'!A0";

/// A document whose every text is hostile, one of them ten thousand characters long.
pub fn hostile() -> Document {
    let h = || HOSTILE.to_owned();
    let mut plot = over_time("hostile-figure", 20, 0.3);
    (plot.title, plot.summary, plot.conditions, plot.notes) = (h(), h(), h(), vec![h()]);
    if let Shape::Plot(it) = &mut plot.shape {
        it.x.label = h();
        it.spans[0].name = h();
        for panel in &mut it.panels {
            panel.y.label = h();
            for series in &mut panel.series {
                series.name = format!("{} {HOSTILE}", series.name);
                series.points[3].label = h();
            }
        }
    }
    let mut bars = bars("hostile-bars");
    if let Shape::Plot(it) = &mut bars.shape {
        it.x.scale = Scale::Categories(vec![h(); 5]);
    }
    let mut matrix = matrix("hostile-matrix");
    if let Shape::Matrix(it) = &mut matrix.shape {
        it.rows[0] = h();
        it.columns[0] = h();
        it.rows_label = h();
    }
    let mut table = table(5);
    table.caption = h();
    table.columns[0].title = h();
    table.rows[1].cells[0] = Cell { text: h(), note: h(), ..Cell::default() };
    table.notes = vec![h()];
    let long = "x".repeat(10_000);
    Document {
        title: h(),
        about: vec![h(), long.clone()],
        stamp: h(),
        sections: vec![Section {
            id: h(),
            title: h(),
            blocks: vec![
                Block::Text(long.clone()),
                Block::Text(h()),
                Block::Headlines(vec![Headline {
                    name: h(),
                    value: long.clone(),
                    interval: h(),
                    beside: vec![h()],
                    tone: Tone::Bad,
                }]),
                Block::Verdicts(vec![Verdict {
                    code: h(),
                    tone: Tone::Bad,
                    text: h(),
                    of: vec![h(), long.clone()],
                }]),
                Block::Figure(plot),
                Block::Figure(bars),
                Block::Figure(matrix),
                Block::Table(table),
                Block::Facts(vec![(h(), vec![(h(), long.clone()), (long.clone(), h())])]),
                Block::Code { caption: h(), text: format!("{HOSTILE}\n{long}") },
            ],
            folded: false,
        }],
        embedded: vec![Embedded {
            id: h(),
            media_type: "text/javascript".into(),
            text: serde_json::Value::from(HOSTILE).to_string(),
        }],
        made_by: h(),
        links: vec![(h(), h())],
        views: Some(Views { label: h(), links: vec![(h(), h())], current: 0 }),
    }
}

/// A page of `n` figures.
pub fn many(n: usize) -> Document {
    let figures =
        (0..n).map(|i| Block::Figure(over_time(&format!("f{i}"), 60, 0.1 + i as f64 * 0.003)));
    let section = Section {
        id: "many".into(),
        title: "Many".into(),
        blocks: figures.collect(),
        folded: false,
    };
    Document { title: "Many figures".into(), sections: vec![section], ..Document::default() }
}

/// A page with one figure, which has enough points that uPlot draws it.
pub fn dense(n: usize) -> Document {
    let section = Section {
        id: "dense".into(),
        title: "Dense".into(),
        blocks: vec![
            Block::Text("Below is much.".into()),
            Block::Figure(over_time("dense", n / 4, 0.01)),
        ],
        folded: false,
    };
    Document { title: "Dense".into(), sections: vec![section], ..Document::default() }
}

/// Six figures of three series of 60 points, and four tables.
pub fn typical() -> Document {
    let figures = (0..6).map(|i| {
        let curve = |k: usize| {
            (0..60).map(move |x| {
                (f64::from(x), 1e5 * (1.0 + (x as f64 * 0.1 + (i + k) as f64).sin() / 3.0))
            })
        };
        let all = ["p50", "p99", "p99.9"]
            .into_iter()
            .enumerate()
            .map(|(k, name)| series(name, k, curve(k)))
            .collect();
        let panel = Panel::new(Axis::log("latency", Quantity::LatencyNs), all);
        let plot = Plot { x: seconds(), panels: vec![panel], spans: Vec::new() };
        Block::Figure(figure(&format!("typical-{i}"), "Latency over time", Shape::Plot(plot)))
    });
    let blocks = figures.chain((0..4).map(|_| Block::Table(table(16)))).collect();
    let section = Section { id: "all".into(), title: "All".into(), blocks, folded: false };
    Document { title: "Typical".into(), sections: vec![section], ..Document::default() }
}
