//! Command-line flags of the commands on stored runs: `compare`, `history`, `report`, `import`, `export`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use iodyno_measure::Metric;
use iodyno_report::fio::COARSENESS_MAX;
use iodyno_report::formats::{EXPORT_FORMATS, ExportFormat};
use iodyno_units::parse_percent;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Compare {
    /// Baseline: an id, the start of an id, `last`, `last~1`, or a name; or several of these, separated by commas
    ///
    /// A name (`run --name`) stands for all runs with that name.
    pub a: String,
    /// Runs to judge against the baseline, in the same form as A
    ///
    /// `iodyno report A B C` compares more than two.
    pub b: String,
    /// Further runs: refused, with the command to use instead
    #[arg(hide = true)]
    pub more: Vec<String>,
    /// Treat values that differ by less than this as equal; must be above 0%
    ///
    /// Should be at least the noise: the difference between repeated runs of the same configuration.
    #[arg(long, value_name = "SHARE", value_parser = threshold_share, default_value = "2%")]
    pub threshold: f64,
    /// Compare this metric; may be repeated [default: iops and p99]
    ///
    /// Metrics are iops, bandwidth, mean and percentiles (p50, p99, p99.9), for each kind of operation, or for one
    /// kind with a prefix (`read.p99`).
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<Metric>,
    /// Also compare the cells of each target, not only those that merge all targets
    #[arg(long)]
    pub each_target: bool,
    /// Exit with 8 if any comparison is inconclusive, or if a cell exists on one side only
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct History {
    /// Workload, or name of runs [default: the workload of the last run]
    ///
    /// The name of a run is that of its workload or method, unless `run --name` gave another.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Include only runs on this target [default: the targets of the last run of the workload]
    #[arg(long, value_name = "TARGET")]
    pub on: Option<String>,
    /// Follow this metric, such as iops, bandwidth, p99 or write.mean
    #[arg(long, value_name = "METRIC", default_value = "iops")]
    pub metric: Metric,
    /// Show at most the latest N runs
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(2..=4000))]
    pub last: u16,
    /// Write an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("form"))]
pub struct Report {
    /// Run: an id, the start of an id, `last`, `last~1`, or a name; may be repeated
    ///
    /// With several arguments, each is compared with the first, and a name (`run --name`) stands for all runs with that
    /// name. A single argument must name one run.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Write to this file, or to standard output with `-` [default: iodyno-ID.html; --markdown and --csv: standard
    /// output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write each figure as an SVG file into this folder, created if absent
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Write Markdown instead of HTML, with links to the figures of --svg (figures/NAME.svg)
    #[arg(long, group = "form")]
    pub markdown: bool,
    /// Write the data of all figures and tables as CSV instead of HTML
    #[arg(long, group = "form")]
    pub csv: bool,
    /// Print the document of `show --json --series`, or of `compare --json` if there are several runs, instead of
    /// HTML
    #[arg(long, group = "form")]
    pub json: bool,
    /// Also draw tables over two axes as 3-D columns, as in SNIA's test specification
    #[arg(long)]
    pub columns: bool,
    /// Leave out the data of the runs: a smaller page, which `iodyno import` can't read
    #[arg(long)]
    pub without_data: bool,
    /// When comparing runs, treat differences smaller than this as the same; must be above 0%
    #[arg(long, value_name = "SHARE", value_parser = threshold_share, default_value = "2%")]
    pub threshold: f64,
}

#[derive(Debug, Args)]
pub struct Import {
    /// Pages written by `iodyno report`, and JSON written by fio (`--output-format=json+`), each followed by its log files
    ///
    /// Each JSON file becomes a run, and each of its jobs a cell, with a warning that iodyno did not measure it. The bins
    /// of json+ preserve the whole latency distribution; plain JSON has percentiles only.
    ///
    /// Log files (`*.log`) add time series: each I/O from write_lat_log (without log_avg_msec), percentiles per interval
    /// from write_hist_log (with log_hist_msec), and rates from write_iops_log or write_bw_log (with log_avg_msec).
    /// They must keep the names that fio gave.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

fn threshold_share(text: &str) -> Result<f64, String> {
    match parse_percent(text) {
        Ok(share) if share > 0.0 => Ok(share),
        Ok(_) => {
            Err("a threshold of 0% treats hardly any values as the same: use a share above 0%"
                .to_owned())
        }
        Err(e) => Err(e.to_string()),
    }
}

#[derive(Debug, Args)]
pub struct Export {
    /// Run to export: an id, the start of an id, `last`, or a name
    pub run: String,
    /// Choose the format
    #[arg(long, value_name = "FORM", value_parser = export_formats())]
    pub format: &'static ExportFormat,
    /// Write to this file [default: standard output]
    ///
    /// With fio-json and fio-json+, a PATH that ends in .json is one file with all jobs. Any other is a folder, created
    /// if absent, with one file per job, named as fio-plot expects. fio-logs requires --out, always a folder.
    #[arg(long, short, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// With fio-logs, combine 2^N of fio's histogram bins into one column, N from 0 to 6
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(COARSENESS_MAX)))]
    pub log_hist_coarseness: u8,
}

fn export_formats() -> impl TypedValueParser<Value = &'static ExportFormat> {
    let value = |format: &ExportFormat| PossibleValue::new(format.name).help(format.about);
    PossibleValuesParser::new(EXPORT_FORMATS.iter().map(value)).map(|given| {
        let mut all = EXPORT_FORMATS.iter();
        all.find(|format| format.name == given).expect("the parser admits names of formats only")
    })
}
