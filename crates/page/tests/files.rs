//! Tests documents as Markdown, CSV and SVG files.

use crate::sample;

use iodyno_page::document::Verdict;
use iodyno_page::{Block, Cell, Column, Document, Row, Section, Shape, Table, Tone, csv, markdown};

fn document(blocks: Vec<Block>) -> Document {
    let section = Section { id: "s".into(), title: "Section".into(), blocks, folded: false };
    Document { title: "Run".into(), sections: vec![section], ..Document::default() }
}

#[test]
fn markdown_reads_as_it_was_written() {
    let table = Table {
        caption: "Cells".into(),
        columns: vec![Column::words("cell|name"), Column::numbers("rate", "IOPS")],
        rows: vec![
            Row { cells: vec![Cell::words("4 KiB")], is_heading: true },
            vec![Cell::words("a_b *c*").toned(Tone::Warning), Cell::number("123 k", 123_456.7)]
                .into(),
        ],
        notes: vec!["1. A note.".into()],
    };
    let verdict = Verdict {
        code: "DRIFT".into(),
        tone: Tone::Bad,
        text: "Rates <fell>.".into(),
        of: vec!["T4Q32".into()],
    };
    let mut document = document(vec![
        Block::Verdicts(vec![verdict]),
        Block::Table(table),
        Block::Figure(sample::bars("bars")),
        Block::Code { caption: "Again".into(), text: "echo ```\n".into() },
    ]);
    document.stamp = "NON-CONFORMANT".into();
    let expected = "\
# Run

> **NON-CONFORMANT**

## Section

- ✗ **Failed.** Rates \\<fell\\>. `DRIFT` (T4Q32)

**Cells**

| cell\\|name | rate |
| --- | ---: |
| **4 KiB** |
| ! a_b \\*c\\* | 123 k |

- 1\\. A note.

### Before and after

![Before and after: what is to be seen, in a sentence.](figures/bars.svg)

*NON-CONFORMANT · run 7f3a · exflash-400g, 4 KiB, T4Q32 · n = 3 · STEADY*

- Percentiles beyond 99.99 % have fewer than ten samples.

Again:

````
echo ```
````
";
    assert_eq!(markdown::text(&document), expected);
}

#[test]
fn markdown_of_hostile_text_has_no_markup_of_its_own() {
    let text = markdown::text(&sample::hostile());
    // Text that a browser would take for an element is escaped, in code only where it stands between fences, and there are none around a `<`.
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        // Our own, around text that a reader without fences could take for markup.
        let line = line.strip_prefix("<pre><code>").unwrap_or(line);
        if !is_code && line != "</code></pre>" {
            for (at, _) in line.match_indices('<') {
                assert!(at > 0 && line.as_bytes()[at - 1] == b'\\', "{line}");
            }
        }
    }
    assert!(!text.contains('\u{202e}'));
}

#[test]
fn every_figure_is_a_file_that_bears_the_stamp() {
    let document = sample::report();
    let text = markdown::text(&document);
    let files = markdown::files(&document);
    assert_eq!(files.len(), text.matches("](figures/").count());
    for (name, bytes) in &files {
        assert!(text.contains(&format!("](figures/{name})")), "{name}");
        let svg = std::str::from_utf8(bytes).unwrap();
        roxmltree::Document::parse(svg).unwrap();
        assert!(svg.contains("NON-CONFORMANT"), "{name}");
    }
    let mut names: Vec<&String> = files.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), files.len());
}

#[test]
fn csv_has_raw_values_and_no_formulas() {
    let table = Table {
        columns: vec![Column::words("=name"), Column::numbers("p99", "ns")],
        rows: vec![
            Row { cells: vec![Cell::words("@group")], is_heading: true },
            vec![Cell::words("-5"), Cell::number("1.5 µs", 1500.25)].into(),
            vec![Cell::words("=1+1"), Cell::number("–", f64::NAN)].into(),
            vec![Cell::words("+x,\"y\"\nz"), Cell::number("0.1", 0.1)].into(),
        ],
        ..Table::default()
    };
    let expected = "group,'=name,p99 (ns)\n'@group,-5,1500.25\n'@group,'=1+1,\n'@group,\"'+x,\"\"y\"\"\nz\",0.1\n";
    assert_eq!(csv::table(&table), expected);

    let document = document(vec![Block::Table(table), Block::Figure(sample::spectrum("tail"))]);
    // Raw values lose nothing: the quantile of the last point is read back to the bit.
    let last = 1.0 - 10_f64.powf(-4.9);
    assert!(csv::table(&sample::spectrum("tail").data()).contains(&last.to_string()));

    let all = csv::text(&document);
    assert!(all.starts_with("section,of,row,column,unit,text,value\ns,s-table-1,1,'=name,,-5,\ns,s-table-1,1,p99,ns,1.5 µs,1500.25\n"));
    assert!(all.contains("\ns,tail,1,"), "{all}");
}

/// A heat map behind series has a table of its own, with every count. The note below the figure names its lines.
#[test]
fn counts_are_data_too() {
    let figure = sample::intervals("time");
    let Shape::Plot(plot) = &figure.shape else { panic!("no plot") };
    let heat = plot.panels[1].heat.clone().unwrap();
    let text = csv::table(&figure.counts().unwrap());
    let notes = figure.table().notes.join(" ");
    assert!(notes.contains("the lines whose `of` ends in `-counts`"), "{notes}");
    let document = document(vec![Block::Figure(figure)]);
    let mut lines = text.lines();
    let head = "time from (s),time to (s),latency from (ns),latency to (ns),I/Os";
    assert_eq!(lines.next(), Some(head));
    assert_eq!(lines.next(), Some("0.2,0.4,107177,214355,100"), "edges have six digits");
    let last = |line: &str| line.rsplit(',').next().unwrap().parse::<u64>().unwrap();
    let all: u64 = heat.counts.iter().flatten().sum();
    assert_eq!(text.lines().skip(1).map(last).sum::<u64>(), all);
    assert!(csv::text(&document).contains("\ns,time-counts,1,I/Os,,100,100\n"));
}

/// Dense figures show a part of their rows on the page, and export all rows as data.
#[test]
fn data_files_are_whole() {
    let document = sample::dense(8000);
    let dense = document.sections[0].blocks.iter().find_map(|block| match block {
        Block::Figure(figure) => Some(csv::table(&figure.data())),
        _ => None,
    });
    assert_eq!(dense.unwrap().lines().count(), 8001, "a head, the points");
}
