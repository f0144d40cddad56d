//! Tests the parts that every report must have, on synthetic runs.

use crate::samples;

use iodyno_notebook::Run;
use iodyno_page::{Block, Document, Figure, Shape, Tone, html, markdown};
use iodyno_report::compare::{self, Side};
use iodyno_report::page::{Options, comparison, document};
use std::collections::BTreeSet;

fn figures(document: &Document) -> Vec<&Figure> {
    let blocks = document.sections.iter().flat_map(|s| &s.blocks);
    blocks
        .flat_map(|block| match block {
            Block::Figure(figure) => std::slice::from_ref(figure),
            Block::Gallery(figures) => figures,
            _ => &[],
        })
        .collect()
}

/// The section `disclosure` of every report has all groups of test conditions, and every figure is self-contained.
#[test]
fn whatever_the_run_nothing_that_must_be_told_is_left_out() {
    for (name, run) in samples::all() {
        let document = document(&run, &Options::default());
        let disclosure = document.sections.iter().find(|s| s.id == "disclosure").unwrap();
        let groups: Vec<&str> = disclosure
            .blocks
            .iter()
            .filter_map(|b| if let Block::Facts(groups) = b { Some(groups) } else { None })
            .flatten()
            .map(|(topic, facts)| {
                assert!(!facts.is_empty(), "{name}: {topic} says nothing");
                assert!(facts.iter().all(|(_, value)| !value.is_empty()), "{name}: {topic}");
                topic.as_str()
            })
            .collect();
        for letter in "ABCDEFGHI".chars() {
            assert!(groups.iter().any(|g| g.starts_with(letter)), "{name}: no group {letter}");
        }
        let mut ids = BTreeSet::new();
        for figure in figures(&document) {
            assert!(ids.insert(&figure.id), "{name}: two figures are called {}", figure.id);
            assert!(figure.conditions.contains(&run.id), "{name}: {}", figure.conditions);
            assert!(!figure.summary.is_empty() && !figure.table().rows.is_empty(), "{name}");
        }
        let sections: BTreeSet<&str> = document.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(sections.len(), document.sections.len(), "{name}: two sections of one name");
        // The command is there to be repeated, and the first screen says how far to trust it.
        assert!(sections.contains("repeat"), "{name}");
        let has_verdicts = |b: &Block| matches!(b, Block::Verdicts(v) if !v.is_empty());
        let first = &document.sections[0];
        assert!(run.cells.is_empty() || first.blocks.iter().any(has_verdicts), "{name}");
        let page = html::page(&document);
        // A name of 10,000 characters stands in full wherever it stands.
        assert!(name == "hostile" || page.len() < 300_000, "{name}: {} bytes", page.len());
        assert_eq!(page, html::page(&document), "{name}: the same run, the same page");
    }
}

/// The lines below the title describe each target, with its size and engine.
#[test]
fn the_head_describes_the_targets() {
    for (name, run) in samples::all() {
        let about = document(&run, &Options::default()).about.join("\n");
        if run.head.targets.len() > 4 {
            assert!(about.contains("more targets"), "{name}: {about}");
            continue;
        }
        for target in &run.head.targets {
            let line = about.lines().find(|line| line.starts_with(&target.name));
            let line = line.unwrap_or_else(|| panic!("{name}: {about}"));
            let size = target.description().size_bytes.map(iodyno_units::human::size);
            assert!(size.is_none_or(|size| line.contains(&size)), "{name}: {line}");
            let mut cells = run.cells.iter().filter(|c| c.key.target == target.name);
            let is_real = |c: &&iodyno_measure::Cell| !c.evidence.virtual_time;
            if let Some(cell) = cells.find(|c| is_real(c) && !c.key.engine.is_empty()) {
                assert!(line.contains(&cell.key.engine), "{name}: {line}");
            }
        }
    }
}

/// Each threshold is listed once per result, with the cells and kinds of operation that have the result. A threshold
/// with too few samples has not failed.
#[test]
fn no_threshold_is_listed_twice() {
    let mut run = samples::four_corners();
    let own = ["p50<1s", "p99.999<1s"].map(|t| t.parse::<iodyno_measure::Threshold>().unwrap());
    run.head.plan["thresholds"] = serde_json::to_value(own).unwrap();
    let document = document(&run, &Options::default());
    let blocks = document.sections[0].blocks.iter();
    let verdicts = blocks.filter_map(|b| if let Block::Verdicts(v) = b { Some(v) } else { None });
    let listed: Vec<_> = verdicts.flatten().filter(|v| v.code == "THRESHOLD").collect();
    let words: Vec<_> = listed.iter().map(|v| (v.text.as_str(), v.tone, v.of.len())).collect();
    // Half of the cells have as many operations as the 99.999th percentile takes.
    let wanted = [
        ("p99.999<1s: not proven", Tone::Warning, 2),
        ("p50<1s: held", Tone::Good, 4),
        ("p99.999<1s: held", Tone::Good, 2),
    ];
    assert_eq!(words, wanted);
    for of in listed.iter().flat_map(|v| &v.of) {
        assert!(of.contains(", read p") || of.contains(", write p"), "{of}");
    }
}

/// Each distribution in a comparison covers a single kind of operation.
#[test]
fn reads_and_writes_have_percentiles_of_their_own() {
    let sides = ["a", "b"].map(|id| [Run { id: id.to_owned(), ..samples::open_loop() }]);
    let side = |i: usize| Side { asked: ["a", "b"][i], runs: &sides[i] };
    let compared = compare::compare(side(0), side(1), &compare::Options::default()).unwrap();
    let document = comparison(&[compared], &[&sides[0], &sides[1]], &Options::default());
    let overlay = figures(&document).into_iter().find(|f| f.id == "overlay-1").unwrap();
    let Shape::Plot(plot) = &overlay.shape else { panic!("no plot") };
    let names: BTreeSet<&str> = plot.panels[0].series.iter().map(|s| s.name.as_str()).collect();
    let total = sides[0][0].cells[0].total();
    let kinds = total.iter().filter(|(_, stats)| stats.ops() > 0).map(|(kind, _)| kind.name());
    let wanted: BTreeSet<String> =
        kinds.flat_map(|kind| ["A", "B"].map(|side| format!("{side}, {kind}"))).collect();
    assert!(wanted.len() > 2 && wanted.iter().map(String::as_str).eq(names), "{wanted:?}");
}

/// Results of an invalid cell are shown, and marked as invalid.
#[test]
fn nothing_flatters() {
    let mut run = samples::four_corners();
    let cell = &mut run.cells[0];
    cell.verdicts = vec![iodyno_measure::Verdict {
        code: "ERRORS".to_owned(),
        level: iodyno_measure::Level::Invalid,
        text: "12 operations failed".to_owned(),
    }];
    let text = markdown::text(&document(&run, &Options::default()));
    assert!(text.contains("12 operations failed") && text.contains("INVALID"), "{text}");
}

/// The counts of a heat map and of a histogram are those of the cell.
#[test]
fn what_is_drawn_is_what_was_counted() {
    let run = samples::four_corners();
    let document = document(&run, &Options::default());
    let mut seen = 0;
    for figure in figures(&document).iter().filter(|f| f.id.starts_with("time-")) {
        let Shape::Plot(plot) = &figure.shape else { panic!("{}", figure.id) };
        let drawn: u64 = plot
            .panels
            .iter()
            .filter_map(|p| p.heat.as_ref())
            .flat_map(|h| h.counts.iter().flatten())
            .sum();
        let cell = run.cells.iter().find(|c| figure.title.starts_with(&c.key.name)).unwrap();
        assert_eq!(drawn, cell.total().ops(), "{}", figure.id);
        seen += 1;
    }
    assert_eq!(seen, run.cells.len());
}

#[test]
fn a_report_in_words() {
    insta::assert_snapshot!(
        "markdown",
        markdown::text(&document(
            &samples::open_loop(),
            &Options { made_by: "iodyno 0".to_owned(), without_data: true, ..Options::default() }
        ))
    );
}

/// Figures of several subjects or stages have different names, and no figure occurs twice.
#[test]
fn no_figure_is_there_twice() {
    for (name, run) in samples::all() {
        let document = document(&run, &Options::default());
        let mut seen = BTreeSet::new();
        for figure in figures(&document) {
            assert!(seen.insert(&figure.title), "{name}: {} is there twice", figure.title);
        }
    }
}

/// For a sweep with repeats, one repeat of each point is drawn over time.
#[test]
fn a_point_with_repeats_has_one_course() {
    let mut run = samples::sweep_of_a_mix();
    for points in [4, 2] {
        run.cells.retain(|cell| cell.key.place.as_ref().is_some_and(|place| place.index < points));
        assert_eq!(run.cells.len() as u32, 2 * points);
        let document = document(&run, &Options::default());
        let all = figures(&document);
        let courses: BTreeSet<&str> =
            all.iter().map(|f| f.title.as_str()).filter(|t| t.contains(" over time")).collect();
        let wanted = ["1", "4", "16", "64"].map(|depth| format!("oltp depth={depth} over time"));
        let wanted: BTreeSet<&str> =
            wanted.iter().take(points as usize).map(String::as_str).collect();
        assert_eq!(courses, wanted);
        assert_eq!(all.iter().filter(|f| f.title.contains(" over time")).count(), wanted.len());
    }
}

/// The title is the name of the run, with changes by flags.
#[test]
fn what_flags_changed_is_in_the_title() {
    let mut run = samples::four_corners();
    let title = |run: &Run| document(run, &Options::default()).title;
    assert_eq!(title(&run), run.head.name);
    let changed = format!("{}, sequential, fsync every 8", run.head.name);
    run.head.plan["changed"] = changed.as_str().into();
    assert_eq!(title(&run), changed);
    run.head.name = "before".to_owned();
    assert_eq!(title(&run), format!("before: {changed}"));
}

/// A cell with the same verdict for reads and writes counts once. The headline of repeats counts the operations of all
/// repeats.
#[test]
fn cells_are_counted_once_and_repeats_all() {
    let mut run = samples::four_corners();
    let code = |text: &str| iodyno_measure::Verdict {
        code: "FEW_SAMPLES".to_owned(),
        level: iodyno_measure::Level::Note,
        text: text.to_owned(),
    };
    let first = run.cells[0].clone();
    for (i, cell) in run.cells.iter_mut().enumerate() {
        cell.verdicts = vec![code(&format!("{i} reads")), code(&format!("{i} writes"))];
    }
    run.cells = (0..3)
        .map(|repeat| {
            let mut cell = first.clone();
            cell.key.repeat = repeat;
            cell.verdicts = vec![code("reads"), code("reads")];
            cell
        })
        .collect();
    let document = document(&run, &Options::default());
    let blocks = &document.sections[0].blocks;
    let headlines = blocks
        .iter()
        .find_map(|b| if let Block::Headlines(h) = b { Some(h) } else { None })
        .unwrap();
    assert_eq!(headlines[0].name, first.key.name);
    let n = iodyno_page::Quantity::Count.words((first.total().ops() * 3) as f64);
    assert!(headlines[0].beside.contains(&format!("n = {n}")), "{:?}", headlines[0].beside);
    let verdicts = blocks
        .iter()
        .find_map(|b| if let Block::Verdicts(v) = b { Some(v) } else { None })
        .unwrap();
    assert_eq!(verdicts[0].of, ["all 3 cells"]);
}

/// The load curve of a mix has a curve per kind of operation, in its own colour, and no merged curve. With one kind,
/// it has only the merged percentiles. The table of points has columns for each kind.
#[test]
fn reads_and_writes_of_a_load_curve_are_apart() {
    for (run, names, columns) in [
        (
            samples::sweep_of_a_mix(),
            &["p99 of reads", "p50 of reads", "p99 of writes", "p50 of writes"][..],
            &["read IOPS", "read p99", "write IOPS", "write p99"][..],
        ),
        (samples::sweep_of_rates(), &["p50", "p99", "p99.9"][..], &[]),
    ] {
        let document = document(&run, &Options::default());
        let all = figures(&document);
        let load = all.iter().find(|figure| figure.id.ends_with("-load")).unwrap();
        let Shape::Plot(plot) = &load.shape else { panic!("{load:?}") };
        let series = &plot.panels[0].series;
        assert_eq!(series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), names);
        for (series, other) in series.iter().zip(&series[1..]) {
            let of = |name: &str| name.split_once(" of ").map(|(_, kind)| kind.to_owned());
            let is_same = columns.is_empty() || of(&series.name) != of(&other.name);
            assert_eq!(series.color != other.color, is_same, "{names:?}");
        }
        let tables = document.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Table(table) if table.caption == "The points" => Some(table),
            _ => None,
        });
        let heads: Vec<&str> =
            tables.flat_map(|table| &table.columns).map(|column| column.title.as_str()).collect();
        for column in ["read IOPS", "read p99", "write IOPS", "write p99"] {
            assert_eq!(heads.contains(&column), columns.contains(&column), "{heads:?}");
        }
    }
    insta::assert_snapshot!(
        "markdown_of_a_mix",
        markdown::text(&document(
            &samples::sweep_of_a_mix(),
            &Options { made_by: "iodyno 0".to_owned(), without_data: true, ..Options::default() }
        ))
    );
}

/// A slow rank is marked in the table of hosts by its verdict, and in the heat map by its row.
#[test]
fn a_straggler_is_seen() {
    let run = samples::over_hosts();
    let document = document(&run, &Options::default());
    let ranks = document.sections.iter().find(|s| s.id == "ranks").unwrap();
    let [Block::Table(table), Block::Figure(figure)] = &ranks.blocks[..] else {
        panic!("{:?}", ranks.blocks)
    };
    let verdicts: Vec<(&str, &str)> = table
        .rows
        .iter()
        .map(|row| (row.cells[1].text.as_str(), row.cells.last().unwrap().text.as_str()))
        .collect();
    let expected = [("node0", ""), ("node1", ""), ("node2", "slowest, STRAGGLER")];
    assert_eq!(verdicts, expected);
    let why = &table.rows[2].cells.last().unwrap().note;
    assert!(why.contains("other programs' I/O on the device was 40 % of the rank's"), "{why}");
    let Shape::Matrix(map) = &figure.shape else { panic!("no map") };
    assert_eq!((map.rows.len(), map.columns.len()), (6, 6));
    let rate = |rank: usize| map.values[rank][0].unwrap();
    assert!(rate(5) < 0.5 * rate(0), "{:?}", map.values);
    assert!(figure.summary.contains("Slowest: rank 5 on node2"), "{}", figure.summary);
}

/// The page omits the host's name, which may identify its owner.
#[test]
fn a_page_does_not_name_the_host() {
    let mut run = samples::four_corners();
    run.head.machine["host_name"] = serde_json::json!("box7.storage.test");
    let document = document(&run, &Options { without_data: true, ..Options::default() });
    for text in [html::page(&document), markdown::text(&document)] {
        assert!(!text.contains("box7.storage.test") && text.contains("6.18.0"));
    }
}
