//! Renders a document as one self-contained HTML file, which makes no network requests, is readable without scripts
//! and prints vector graphics.
//!
//! In `templates/`, `page.html` is the frame, and `block.html`, `figure.html` and `table.html` render the content. The
//! scripts are `page.js` and, for pages with figures, `scales.js` and `chart.js`. `chart/` draws the charts; this
//! module adds their data, which the scripts need to show values, zoom and hide series.
//!
//! uPlot (`web/`) is included only if a figure has more than [`DENSE_POINTS`] points. On screen, uPlot then draws the
//! points over the axes of the SVG. Print and pages without scripts use the complete SVG.
//!
//! The content security policy allows only the styles and scripts of the page, by hash, and no network requests,
//! whatever the names of targets and jobs contain.

mod read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
pub use read::embedded;
use sha2::{Digest as _, Sha256};

use std::fmt::Write;

use askama::Template;
use askama::filters::{Html, escape};
use serde_json::{Value, json};

use crate::chart::{self, Look};
use crate::document::Verdict;
use crate::figure::{Scale, Shape};
use crate::figure_table::heads_of_counts;
use crate::{Block, Cell, Column, Document, Figure, Table, Tone, csv, name, tone};

/// Number of points above which figures are drawn by uPlot, because a larger SVG is slow to zoom.
pub const DENSE_POINTS: usize = 5000;

/// Maximum number of characters in one row of the navigation bar; a gap between links counts as three.
const NAV_CHARS_MAX: usize = 135;

/// Number of verdicts of the level Note that stay visible when the rest are collapsed.
const NOTES_SHOWN: usize = 2;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SCALES_SCRIPT: &str = include_str!("scales.js");
const CHART_SCRIPT: &str = include_str!("chart.js");
const DENSE_SCRIPT: &str = include_str!("dense.js");
const UPLOT: &str = include_str!("../../web/uplot-1.6.32/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../web/uplot-1.6.32/uPlot.min.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    document: &'a Document,
    title: &'a str,
    policy: String,
    chart_style: String,
    style: String,
    /// Whether the navigation bar needs several rows.
    is_long: bool,
    sections: Vec<SectionView<'a>>,
    embedded: Vec<EmbeddedView<'a>>,
    scripts: Vec<String>,
}

struct SectionView<'a> {
    id: String,
    title: &'a str,
    folded: bool,
    blocks: Vec<String>,
}

struct EmbeddedView<'a> {
    id: String,
    media_type: &'a str,
    text: String,
}

#[derive(Template)]
#[template(path = "block.html")]
struct BlockView<'a> {
    block: &'a Block,
    stamp: &'a str,
}

#[derive(Template)]
#[template(path = "figure.html")]
struct FigureView<'a> {
    figure: &'a Figure,
    stamp: &'a str,
    id: String,
    /// Figures of a section that have the same key share cursor and zoom.
    link: String,
    dense: bool,
    svg: String,
    scales: String,
    table: String,
    /// Complete data as CSV if `table` is thinned; otherwise empty, and the page's script exports the table.
    csv: String,
}

#[derive(Template)]
#[template(path = "table.html")]
struct TableView<'a> {
    table: &'a Table,
}

/// Renders a document as an HTML page.
pub fn page(document: &Document) -> String {
    let figures = || document.sections.iter().flat_map(|it| &it.blocks).flat_map(figures_of);
    let (has_figures, has_dense) = (figures().next().is_some(), figures().any(is_dense));
    let chart_style = if has_figures { slim(chart::style()) } else { String::new() };
    let mut style = slim(STYLE) + &stamp_style(&document.stamp);
    let mut scripts = Vec::new();
    let mut script = slim(SCRIPT);
    if has_figures {
        script += &(slim(SCALES_SCRIPT) + &slim(CHART_SCRIPT));
    }
    if has_dense {
        // A class must be defined before the scripts of charts use it.
        script = slim(DENSE_SCRIPT) + &script;
        style += UPLOT_STYLE;
        scripts.push(UPLOT.to_owned());
    }
    scripts.push(format!("(() => {{\n\"use strict\";\n{script}}})();\n"));
    let sections = document.sections.iter().map(|section| SectionView {
        id: name::safe(&section.id),
        title: &section.title,
        folded: section.folded,
        blocks: section.blocks.iter().map(|it| block(it, &document.stamp)).collect(),
    });
    let embedded = document.embedded.iter().map(|it| EmbeddedView {
        id: name::safe(&it.id),
        // Another type might be one that a browser executes.
        media_type: if it.media_type.ends_with("json") {
            &it.media_type
        } else {
            "application/json"
        },
        text: inert(&it.text),
    });
    rendered(&Page {
        document,
        title: if document.title.is_empty() { "Untitled" } else { &document.title },
        is_long: document.sections.iter().map(|it| it.title.chars().count() + 3).sum::<usize>()
            > NAV_CHARS_MAX,
        policy: policy(&[&chart_style, &style], &scripts),
        sections: sections.collect(),
        embedded: embedded.collect(),
        chart_style,
        style,
        scripts,
    })
}

/// Returns the CSS of pages, without the CSS of charts. Other crates use it for pages with the same look.
pub fn style() -> String {
    slim(STYLE)
}

/// Returns the script that writes numbers as pages do (`WORDS`, `tickLabel`). Other crates use it for their own pages.
pub fn numbers_script() -> String {
    slim(SCALES_SCRIPT)
}

/// Content security policy of a page. It allows only the given styles and scripts, and no network requests.
fn policy(styles: &[&str], scripts: &[String]) -> String {
    let hash = |text: &str| format!(" 'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    let scripts: String = scripts.iter().map(|text| hash(text)).collect();
    let styles: String = styles.iter().map(|text| hash(text)).collect();
    format!(
        "default-src 'none'; script-src{scripts}; style-src{styles}; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

/// Strips indentation, empty lines and comment lines from a style or script.
fn slim(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let keep = lines.filter(|line| {
        !(line.is_empty()
            || line.starts_with("//")
            || line.starts_with("/*") && line.ends_with("*/"))
    });
    keep.fold(String::new(), |all, line| all + line + "\n")
}

/// CSS that prints the stamp in the margin of each page.
fn stamp_style(stamp: &str) -> String {
    let mut text = String::new();
    for c in stamp.chars() {
        let _ = write!(text, "\\{:x} ", u32::from(c));
    }
    if text.is_empty() { text } else { format!("@page{{@top-right{{content:\"{text}\"}}}}\n") }
}

/// Escapes character sequences in JSON that could end the surrounding HTML element.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn figures_of(block: &Block) -> &[Figure] {
    match block {
        Block::Figure(figure) => std::slice::from_ref(figure),
        Block::Gallery(figures) => figures,
        _ => &[],
    }
}

fn is_dense(figure: &Figure) -> bool {
    let Shape::Plot(plot) = &figure.shape else { return false };
    let series = plot.panels.iter().flat_map(|panel| &panel.series);
    series.map(|series| series.points.len()).sum::<usize>() > DENSE_POINTS
}

fn block(block: &Block, stamp: &str) -> String {
    rendered(&BlockView { block, stamp })
}

/// Splits verdicts, sorted by severity, into visible and collapsed ones. Only notes are collapsed, so that a
/// long list does not push the figures out of view.
fn fold_notes(verdicts: &[Verdict]) -> (&[Verdict], &[Verdict]) {
    let quiet = |v: &Verdict| matches!(v.tone, Tone::Note | Tone::Plain | Tone::Dim);
    let first = verdicts.iter().rposition(|v| !quiet(v)).map_or(0, |last| last + 1);
    if verdicts.len() - first <= NOTES_SHOWN + 1 {
        return (verdicts, &[]);
    }
    verdicts.split_at(first + NOTES_SHOWN)
}

fn figure(figure: &Figure, stamp: &str, look: Look) -> String {
    let dense = is_dense(figure);
    let (shown, data) = (figure.table(), figure.data());
    let csv = if shown.rows.len() < data.rows.len() {
        inert(&serde_json::Value::from(csv::table(&data)).to_string())
    } else {
        String::new()
    };
    rendered(&FigureView {
        figure,
        stamp,
        id: name::safe(&figure.id),
        link: link(figure),
        dense,
        svg: chart::svg(figure, look),
        scales: inert(&scales(figure, look).to_string()),
        table: table(&shown),
        csv,
    })
}

/// Description of a figure for the scripts, with the heads of the table of counts, if there is one.
fn scales(figure: &Figure, look: Look) -> Value {
    let mut out = chart::scales_in(figure, look);
    if let Shape::Plot(plot) = &figure.shape
        && let Some(heads) = heads_of_counts(plot)
        && let Some(panels) = out["panels"].as_array_mut()
    {
        for (panel, out) in plot.panels.iter().zip(panels).filter(|(panel, _)| panel.heat.is_some())
        {
            out["heat"]["head"] = json!(heads);
            out["heat"]["panel"] = json!(panel.y.label);
        }
    }
    out
}

/// Key that links figures with a common cursor and zoom: quantity and scale of the horizontal axis. A matrix
/// has a unique key; a 3D column chart has no cursor and an empty key.
fn link(figure: &Figure) -> String {
    let plot = match &figure.shape {
        Shape::Plot(plot) => plot,
        Shape::Matrix(_) => return format!("matrix {}", figure.id),
        Shape::Columns(_) => return String::new(),
    };
    let kind = match &plot.x.scale {
        Scale::Linear { .. } => "linear".to_owned(),
        Scale::Log => "log".to_owned(),
        Scale::Nines => "nines".to_owned(),
        Scale::Categories(names) => names.join("|"),
    };
    format!("{:?} {kind}", plot.x.quantity)
}

fn table(table: &Table) -> String {
    rendered(&TableView { table })
}

/// Escapes text for HTML. Text between backquotes becomes a `code` element.
fn with_code(text: &str) -> String {
    let text = escaped(text);
    if text.matches('`').count() % 2 == 1 {
        return text;
    }
    let parts = text.split('`').enumerate();
    parts
        .map(|(i, part)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

/// Escapes a command for HTML. In a one-line command, flags are marked so that lines do not break within
/// them.
fn with_whole_flags(text: &str) -> String {
    if text.contains('\n') {
        return escaped(text);
    }
    let with_flag = |word: &str| {
        let escaped = escaped(word);
        let is_flag = word.starts_with('-');
        if is_flag { format!("<span class=\"flag\">{escaped}</span>") } else { escaped }
    };
    text.split(' ').map(with_flag).collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    escape(text, Html).map_or_else(|never| match never {}, |escaped| escaped.to_string())
}

/// HTML of a tone's sign, with a label for screen readers; empty for a neutral tone.
fn mark(tone: Tone) -> String {
    let (sign, word) = (tone::sign(tone), tone::word(tone));
    if sign.is_empty() {
        return String::new();
    }
    format!(
        "<span class=\"sign {}\" role=\"img\" aria-label=\"{word}\">{sign}</span> ",
        tone::class(tone)
    )
}

/// HTML attributes of a table cell: alignment, raw value and tooltip.
fn attributes(cell: &Cell, column: Option<&Column>) -> String {
    let mut classes = Vec::new();
    let value = csv::value(cell).filter(|value| *value != cell.text);
    // A `data-v` attribute already marks a number.
    if column.is_some_and(|column| column.is_number) && value.is_none() {
        classes.push("n".to_owned());
    }
    if cell.tone != Tone::Plain {
        classes.push(tone::class(cell.tone).to_owned());
    }
    if let Some(heat) = cell.heat.filter(|heat| heat.is_finite()) {
        classes.push(format!("h{}", (heat.clamp(0.0, 1.0) * 9.0).round()));
    }
    let mut out = String::new();
    if !classes.is_empty() {
        let _ = write!(out, " class=\"{}\"", classes.join(" "));
    }
    if let Some(value) = value {
        let _ = write!(out, " data-v=\"{value}\"");
    }
    if !cell.note.is_empty()
        && let Ok(note) = escape(&cell.note, Html)
    {
        let _ = write!(out, " title=\"{note}\"");
    }
    out
}

fn rendered(template: &impl Template) -> String {
    template.render().expect("templates write into strings, which cannot fail")
}
