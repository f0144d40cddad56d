//! Table of the formats of `iodyno export`: name, help text, and conversion function.

use crate::fio::json::Form;
use crate::{csv, fio, hgrm, json, openmetrics, sysbench_text};
use iodyno_notebook::Run;
use serde_json::Value;

/// A format of `iodyno export`.
#[derive(Debug)]
pub struct ExportFormat {
    /// Name of the format, as given to `--format`.
    pub name: &'static str,
    /// One line that describes the format in `iodyno export --help`.
    pub about: &'static str,
    /// Conversion to a document for standard output; `None` if the format consists of several files.
    pub document: Option<ToDocument>,
    /// Conversion to files in a folder; `None` if the format is a single document.
    pub files: Option<ToFiles>,
}

/// Conversion of a run to a single document, by type of document.
#[derive(Clone, Copy, Debug)]
pub enum ToDocument {
    /// Text, ready to print.
    Text(fn(&Run) -> String),
    /// A JSON value, to be printed with indentation.
    Json(fn(&Run) -> Value),
}

/// Converts a run to files, as pairs of name and content. The `u8` is the value of `--log-hist-coarseness`, 0 to
/// [`COARSENESS_MAX`](fio::COARSENESS_MAX); only fio's histogram logs use it.
pub type ToFiles = for<'a> fn(&'a Run, u8) -> Box<dyn Iterator<Item = (String, String)> + 'a>;

/// All export formats, in the order in which the help lists them.
pub const EXPORT_FORMATS: [ExportFormat; 10] = [
    ExportFormat {
        name: "json",
        about: "The JSON document of `show --json --series`",
        document: Some(ToDocument::Json(|run| json::document(run, json::Options { series: true }))),
        files: None,
    },
    text("csv", "CSV with one row per cell and kind of operation", csv::cells),
    text("csv-series", "CSV with one row per interval and kind of operation", csv::series),
    text("hgrm", "Percentile distribution of HdrHistogram", hgrm::text),
    ExportFormat {
        name: "fio-json",
        about: "JSON output of fio, for existing plotters and parsers",
        document: Some(ToDocument::Json(|run| fio::json::document(run, Form::Json))),
        files: Some(|run, _| fio_documents(run, Form::Json)),
    },
    text(
        "sysbench",
        "Output of sysbench 1.0's fileio test, one report per cell",
        sysbench_text::text,
    ),
    ExportFormat {
        name: "fio-json+",
        about: "JSON+ output of fio: fio-json with the histogram of each latency",
        document: Some(ToDocument::Json(|run| fio::json::document(run, Form::JsonPlus))),
        files: Some(|run, _| fio_documents(run, Form::JsonPlus)),
    },
    text("fio-terse", "Terse output of fio, version 3", fio::terse::text),
    text(
        "openmetrics",
        "OpenMetrics for Prometheus: counts, latency histograms and verdicts per cell",
        openmetrics::text,
    ),
    ExportFormat {
        name: FIO_LOGS,
        about: "Log files of fio: bandwidth, IOPS, latency and histograms per interval; requires --out",
        document: None,
        files: Some(|run, coarseness| Box::new(fio::logs::files(run, coarseness))),
    },
];

/// Name of the only format that uses `--log-hist-coarseness`.
pub const FIO_LOGS: &str = "fio-logs";

/// Defines an export format that is a single text.
const fn text(name: &'static str, about: &'static str, make: fn(&Run) -> String) -> ExportFormat {
    ExportFormat { name, about, document: Some(ToDocument::Text(make)), files: None }
}

/// Makes one JSON file per fio job.
fn fio_documents(run: &Run, form: Form) -> Box<dyn Iterator<Item = (String, String)> + '_> {
    Box::new(fio::json::documents(run, form).map(|(name, document)| {
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        (name, text + "\n")
    }))
}
