//! The command line: every command and flag, with the texts of `--help`, the man pages and the shell completions. One
//! definition produces all of them.

mod log;
mod log_bench;
mod replay;
mod run;
mod serve;
mod size;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use iodyno_measure::{Metric, Threshold};
use iodyno_report::fio::COARSENESS_MAX;
use iodyno_target::TargetName;
use iodyno_target::purge::Method;
use iodyno_units::parse_percent;
use iodyno_workload::{ActiveRange, Block, MAX_DEPTH, MAX_THREADS, Pattern};
pub use log::{
    Log, LogCheck, LogClient, LogCommand, LogCreate, LogOutput, LogPublish, LogQuery, LogRead,
    LogReplay, LogServe,
};
pub use log_bench::LogBench;
pub use replay::Replay;
use run::EXAMPLES;
use run::run_name as trace_name;
pub use run::{DEFAULT_TARGET, Run};
pub use serve::{FaultFlags, Serve, Speed, Status};
pub use size::Size;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A dynamometer for block storage: measures what storage really does, and says how far the
/// numbers can be trusted.
#[derive(Debug, Parser)]
#[command(name = "iodyno", version, max_term_width = 100, after_help = MORE,
    after_long_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Results store; one SQLite file. Default: iodyno/notebook.sqlite in the XDG data folder.
    #[arg(long, global = true, value_name = "FILE", env = NOTEBOOK_VARIABLE, value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub notebook: Option<PathBuf>,
    /// Colours and symbols: `auto` looks at the terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
}

/// Names the notebook where no flag does; an empty value is none.
pub(crate) const NOTEBOOK_VARIABLE: &str = "IODYNO_NOTEBOOK";

impl Cli {
    /// Without a notebook where the environment's variable is empty, as if it were not set.
    pub(crate) fn with_notebook_of_environment(mut self) -> Self {
        let is_empty = std::env::var_os(NOTEBOOK_VARIABLE).is_some_and(|name| name.is_empty());
        self.notebook = self.notebook.filter(|name| !is_empty || !name.as_os_str().is_empty());
        self
    }
}

const MORE: &str = "\
Begin with `iodyno run four-corners`. `iodyno COMMAND --help` has all flags and examples, `iodyno --help` the exit codes.";

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a fault of iodyno; 2 bad input (command line, workload, target name, run id); \
3 refused, for it would destroy something; 4 the target or an engine failed, too many operations did, the target stopped answering, \
or verified content was not what had been written; \
5 the notebook can't be used, or did not take all of a run that was made and printed; 6 a threshold (--require) was not held, or size: nothing meets the demand; 7 compare: something is slower; \
8 compare: nothing is shown to be slower, but not everything could be judged (with --strict, or where \
nothing at all could be compared), replay: the record was cut off; 9 a method failed: its steady state was not reached, or a stage measured \
nothing (the figures are kept); 130 interrupted (what was measured is kept).";

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When the output is a terminal and NO_COLOR is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload on one or more targets.
    #[command(after_help = EXAMPLES)]
    Run(Box<Run>),
    /// Make a workload file of a job file of fio, a parameter file of vdbench (.vdb), or a command line of sysbench,
    /// diskspd or `amps_bio_perf_test`, or say why that can't be.
    Convert(Convert),
    /// Say what a target is, whether writing to it is safe, and what would be measured.
    Check(Check),
    /// Erase a target by the best means that it has, so that it is as if it had never been written, and
    /// check that it worked.
    Purge(Purge),
    /// Say where the time of an I/O to an emulated device goes, and which resource is the limit.
    Explain(Explain),
    /// Serve emulated storage to other programs, over NBD: bytes are kept, latency is the model's, and
    /// it fails on command.
    Serve(Box<Serve>),
    /// Keep messages in a log on any target: make one, serve it, publish, subscribe, replay, and query the current values.
    Log(Log),
    /// Inject a fault into served storage.
    Fault(FaultFlags),
    /// Say what served storage did so far.
    Status(Status),
    /// Replay a trace (fio's iolog, blkparse, perf, biosnoop, published CSVs, our own) on any target, or say what it does; or run a
    /// record of served storage again in virtual time: the same events, or it says so.
    #[command(after_help = replay::EXAMPLES)]
    Replay(Box<Replay>),
    /// List the runs in the notebook, oldest first.
    Ls {
        /// One JSON document on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Show a run again: an id, the start of one, `last`, or `last~1` for the one before.
    Show {
        /// The run.
        run: String,
        /// Hold it against this threshold, as `run --require` does, rather than against its own; may be
        /// given again.
        #[arg(long, value_name = "THRESHOLD")]
        require: Vec<Threshold>,
        /// One JSON document on standard output.
        #[arg(long)]
        json: bool,
        /// One JSON document with the series by interval.
        #[arg(long)]
        series: bool,
        /// What the text shows.
        #[command(flatten)]
        shown: Shown,
    },
    /// Take up a run of a method that was cut short: nothing that was finished is measured again.
    Resume {
        /// The run: an id, the start of one, or `last`.
        run: String,
        /// Destroy what this target holds now. Names given when the run began don't count. May be repeated
        #[arg(long, value_name = "NAME")]
        destroy: Vec<String>,
        /// One JSON document on standard output, and nothing else there.
        #[arg(long)]
        json: bool,
        /// No live progress on standard error.
        #[arg(long, short)]
        quiet: bool,
        /// What the text shows.
        #[command(flatten)]
        shown: Shown,
    },
    /// Compare runs: is B faster or slower than A, or the same, or can't these runs tell?
    Compare(Compare),
    /// Draw a run as a page: one HTML file that opens offline and holds the run itself. Several runs are
    /// compared with the first.
    Report(Report),
    /// Read the runs out of a report into the notebook.
    Import(Import),
    /// Put the shards of a run together (`run --shard`): from these notebooks into the notebook.
    Merge {
        /// Notebooks of shards.
        #[arg(required = true)]
        notebooks: Vec<PathBuf>,
    },
    /// Write a run in another form, to standard output or into a folder.
    Export(Export),
    /// Run a published study again in virtual time, and show its figures beside the printed ones.
    Study(Study),
    /// Say how many devices and adapters of which kind meet a demand, found by simulation; or how many
    /// devices a pair of adapters can use fully.
    #[command(after_help = size::EXAMPLES)]
    Size(Box<Size>),
    /// List what the catalog holds, or show one entry.
    Catalog {
        /// The entry.
        name: Option<String>,
        /// One JSON document on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Print a shell's completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder; made if absent.
        folder: PathBuf,
    },
}

/// What the text of a run shows beside its figures, their verdict, and all that speaks against them.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Shown {
    /// Every note in words; otherwise those that repeat are codes with their counts.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub notes: bool,
    /// The notes in words, what was in effect (engine, clock, state), each of many targets, and each point of a
    /// table over two axes.
    #[arg(long, short, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
}

/// Forms of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The document of `show --json --series`.
    Json,
    /// One row a cell and kind of operation.
    Csv,
    /// One row an interval and kind of operation.
    CsvSeries,
    /// HdrHistogram's percentile distribution.
    Hgrm,
    /// fio's JSON output, for existing plotters and parsers.
    FioJson,
    /// The text that sysbench 1.0 prints of its fileio test: a report for each cell.
    Sysbench,
    /// fio's JSON output with the histogram of each latency.
    #[value(name = "fio-json+")]
    FioJsonPlus,
    /// fio's terse output, version 3.
    FioTerse,
    /// OpenMetrics, for Prometheus: counts, latency histograms and verdicts of each cell.
    #[value(name = "openmetrics")]
    OpenMetrics,
    /// fio's log files: bandwidth, IOPS, latency and histograms by interval. Needs -o.
    FioLogs,
}

/// Flags of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The run: an id, the start of one, or `last`.
    pub run: String,
    /// Which form.
    #[arg(long, value_name = "FORM")]
    pub format: Format,
    /// Write files into this folder, made if absent: the logs of fio-logs, or of fio-json a file for each job, as
    /// fio-plot reads them.
    #[arg(long, short, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Of fio-logs: each column of a histogram holds 2^N of fio's bins, 0 to 6.
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(COARSENESS_MAX)))]
    pub log_hist_coarseness: u8,
}

/// Flags of `convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// The job file of fio or parameter file of vdbench (`.vdb`); or a command line of fio, sysbench, diskspd or
    /// `amps_bio_perf_test` in quotes, fio's also last of all: `iodyno convert fio --name=a --rw=randread`.
    pub job: String,
    /// Where to write the workload; of several jobs, a folder, made if absent, for a file of each. Default: standard
    /// output.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Only the job of this name.
    #[arg(long, value_name = "NAME")]
    pub section: Option<String>,
    /// Write no workload: print what the jobs may not do as expected.
    #[arg(long, conflicts_with = "out")]
    pub lint: bool,
}

/// Flags of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The target, as `run --on` takes it.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// What a later `run` would be told to destroy.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `purge`.
#[derive(Debug, Args)]
pub struct Purge {
    /// The target, as `run --on` takes it. Commands that erase a whole device are never sent for a
    /// partition, a file, or a part that `?size=` names.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// How: nvme-sanitize-block, nvme-sanitize-crypto, nvme-format, nvme-format-crypto, ata-erase,
    /// ata-erase-enhanced, discard or anew (memory, and files that are made for one run). Default: the first of
    /// these that the target has.
    #[arg(long, value_name = "METHOD")]
    pub method: Option<Method>,
    /// Name the target again, by its device name, path or serial number: needed for every device and
    /// export, and for files that iodyno did not make. What is in use is not purged by any name.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `study`.
#[derive(Debug, Args)]
pub struct Study {
    /// A study of the catalog, or the path of a file (with a `/` or ending in `.toml`).
    pub study: String,
    /// One JSON document on standard output, and nothing else there.
    #[arg(long)]
    pub json: bool,
    /// A tenth of the operations: faster, with standard errors about three times as large.
    #[arg(long)]
    pub quick: bool,
    /// Only this table or figure of the paper, by its name in the results; may be given again.
    #[arg(long, value_name = "NAME")]
    pub figure: Vec<String>,
    /// Seed of all random streams.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw it as a page: each table and figure of the paper with ours beside it. study-NAME.html here, or
    /// this file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    /// With --report: lay this run over the figures (an id, the start of one, `last`, a name); may be
    /// given again.
    #[arg(long, value_name = "RUN", requires = "report")]
    pub with: Vec<String>,
    /// Cells that are simulated at once, 1 to 1024. Default: one for each processor, and more make nothing
    /// faster. The figures do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// No live progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The runs to compare with: an id, the start of one, `last`, `last~1`, the name of runs
    /// (`run --name`) for all of that name, or several of these with commas.
    pub a: String,
    /// The runs that are judged, in the same way.
    pub b: String,
    /// A shift smaller than this does not matter; above 0%. Take at least the noise that a
    /// comparison of runs of the same thing shows.
    #[arg(long, value_name = "SHARE", value_parser = threshold_share, default_value = "2%")]
    pub threshold: f64,
    /// What is compared; may be given again: iops, bandwidth, mean, p50, p99, p99.9 and so on, of each
    /// kind of operation or of one (read.p99). Default: iops and p99.
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<Metric>,
    /// Of runs on several targets: the cells of each target too, and not only the merged ones.
    #[arg(long)]
    pub each_target: bool,
    /// Exit with 8 if not everything could be judged: what is inconclusive, what only one side has.
    #[arg(long)]
    pub strict: bool,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `report`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("form"))]
pub struct Report {
    /// The run: an id, the start of one, `last`, `last~1`. Of several each is compared with the first; then
    /// a name stands for all runs of that name (`run --name`).
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Where to write it; `-` is standard output. Default: iodyno-ID.html here, other forms on standard
    /// output.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Each figure as an SVG file in this folder; made if absent.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Markdown instead of HTML; its figures are those of --svg, as figures/NAME.svg.
    #[arg(long, group = "form")]
    pub markdown: bool,
    /// The data behind all figures and tables instead, as CSV.
    #[arg(long, group = "form")]
    pub csv: bool,
    /// The document of `show --json --series`, or of `compare --json`, instead.
    #[arg(long, group = "form")]
    pub json: bool,
    /// Grids of two axes also as columns on a plane, as SNIA's test specification draws them.
    #[arg(long)]
    pub columns: bool,
    /// Leave the runs themselves out: a smaller page, which nothing can be read back from.
    #[arg(long)]
    pub without_data: bool,
    /// Of several runs: a shift smaller than this does not matter; above 0%.
    #[arg(long, value_name = "SHARE", value_parser = threshold_share, default_value = "2%")]
    pub threshold: f64,
}

/// Flags of `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// A page that `iodyno report` wrote.
    pub file: PathBuf,
}

fn threshold_share(text: &str) -> Result<f64, String> {
    match parse_percent(text) {
        Ok(share) if share > 0.0 => Ok(share),
        Ok(_) => Err("a shift of 0% is never reached exactly: use a share above 0%".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Emulated storage as `run --on` takes it, with or without `model:`: a device of the catalog,
    /// the path of a file, several in a server: `exflash-400g*4@x3850-x6`.
    #[arg(value_parser = emulated)]
    pub device: TargetName,
    /// A workload, which is run in virtual time. Without one: what the device is made of, and a few
    /// predictions.
    pub workload: Option<String>,
    /// Workers on each volume, in place of the workload's own.
    #[arg(long, value_name = "N", requires = "workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u32>,
    /// Outstanding I/Os of each worker.
    #[arg(long, value_name = "N", requires = "workload",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    pub depth: Option<u32>,
    /// Block size, or several with shares: `4KiB`, `4KiB:60,8KiB:40`.
    #[arg(long, value_name = "SIZE", requires = "workload", value_parser = Block::parse_list)]
    pub block: Option<std::vec::Vec<Block>>,
    /// Part of the target that is used: `0%..50%`, `8GiB`.
    #[arg(long, value_name = "RANGE", requires = "workload")]
    pub active: Option<ActiveRange>,
    /// Addresses by Zipf's law with this exponent, above 0 and at most 5.
    #[arg(long, value_name = "THETA", requires = "workload", value_parser = Pattern::zipf)]
    pub zipf: Option<Pattern>,
    /// A share of the operations on a share of the range: `90/10`.
    #[arg(long, value_name = "OPS/RANGE", requires = "workload", value_parser = Pattern::hot,
        conflicts_with = "zipf")]
    pub hot: Option<Pattern>,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `unix:PATH`, or a path.
fn socket(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("unix:").unwrap_or(text) {
        "" => Err("write unix:/run/ctl.sock".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// An address to serve metrics at; a port alone is one of 127.0.0.1.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    let port = port.strip_prefix(':').unwrap_or(port).parse::<u16>();
    port.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).or_else(|_| {
        text.parse().map_err(|_| {
            format!("`{text}` is not an address: write 9469, 127.0.0.1:9469 or [::1]:9469")
        })
    })
}

/// The name of something emulated.
fn emulated(text: &str) -> Result<TargetName, String> {
    if text.starts_with("model:") || text.starts_with("ram:") {
        target(text)
    } else {
        target(&format!("model:{text}"))
    }
}

fn target(text: &str) -> Result<TargetName, String> {
    TargetName::parse(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// What the help says of a flag.
    fn help(command: &str, flag: &str) -> String {
        let cli = Cli::command();
        let command = cli.find_subcommand(command).unwrap();
        let arg = command.get_arguments().find(|a| a.get_long() == Some(flag)).unwrap();
        arg.get_long_help().or_else(|| arg.get_help()).unwrap().to_string()
    }

    /// The help and what is taken have the same values.
    #[test]
    fn the_help_says_what_is_taken() {
        for (flag, most) in [("threads", MAX_THREADS), ("depth", MAX_DEPTH)] {
            let said = help("run", flag);
            assert!(said.contains(&format!("1 to {most}")), "{said}");
        }
        let said = help("purge", "method");
        for method in Method::ALL {
            assert!(said.contains(method.name()), "{method}: {said}");
        }
    }
}
