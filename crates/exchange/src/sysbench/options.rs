//! Tables of sysbench's options: supported ones with their defaults, and those without effect on results. Also the
//! test modes of `fileio`.

/// Supported options, with their defaults.
pub(super) const HONOURED: &[(&str, &str)] = &[
    ("threads", "1"),
    ("events", "0"),
    ("time", "10"),
    ("rate", "0"),
    ("warmup-time", "0"),
    ("validate", "off"),
    ("file-num", "128"),
    ("file-block-size", "16384"),
    ("file-total-size", "2G"),
    ("file-test-mode", ""),
    ("file-io-mode", "sync"),
    ("file-async-backlog", "128"),
    ("file-extra-flags", ""),
    ("file-fsync-freq", "100"),
    ("file-fsync-all", "off"),
    ("file-fsync-end", "on"),
    ("file-fsync-mode", "fsync"),
    ("file-merged-requests", "0"),
    ("file-rw-ratio", "1.5"),
];

/// Options that have no effect on results, with the reason.
pub(super) const NOTED: &[(&str, &str)] = &[
    ("thread-stack-size", "the stack size has no effect on results"),
    ("thread-init-timeout", "workers always start together"),
    (
        "forced-shutdown",
        "after the end of a run, iodyno stops waiting for a target that completes nothing for 4 s",
    ),
    ("report-interval", "a time series by interval is always kept: `iodyno show --json --series`"),
    (
        "report-checkpoints",
        "a time series by interval is always kept: `iodyno show --json --series`",
    ),
    (
        "percentile",
        "each percentile with enough samples is shown; `iodyno export --format sysbench` has the 95th",
    ),
    ("histogram", "histograms are always kept: `iodyno export --format hgrm`"),
    ("rand-seed", "random streams are the same in each run; give --seed for different ones"),
    ("rand-type", "no effect: `fileio` draws uniform addresses"),
    ("rand-spec-iter", "no effect: `fileio` draws uniform addresses"),
    ("rand-spec-pct", "no effect: `fileio` draws uniform addresses"),
    ("rand-spec-res", "no effect: `fileio` draws uniform addresses"),
    ("rand-pareto-h", "no effect: `fileio` draws uniform addresses"),
    ("rand-zipfian-exp", "no effect: `fileio` draws uniform addresses"),
    ("debug", "affects only sysbench's output"),
    ("verbosity", "affects only sysbench's output"),
    ("luajit-cmd", "`fileio` runs no script"),
    ("db-driver", "`fileio` uses no database"),
    ("db-ps-mode", "`fileio` uses no database"),
    ("db-debug", "`fileio` uses no database"),
];

/// Deprecated option names that sysbench still accepts, each with the current name.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("num-threads", "threads"),
    ("max-time", "time"),
    ("max-requests", "events"),
    ("tx-rate", "rate"),
];

/// A test mode: which kinds of operations it issues, and whether their addresses are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) is_random: bool,
}

pub(super) const MODES: [Mode; 6] = [
    Mode { name: "seqwr", reads: false, writes: true, is_random: false },
    Mode { name: "seqrewr", reads: false, writes: true, is_random: false },
    Mode { name: "seqrd", reads: true, writes: false, is_random: false },
    Mode { name: "rndrd", reads: true, writes: false, is_random: true },
    Mode { name: "rndwr", reads: false, writes: true, is_random: true },
    Mode { name: "rndrw", reads: true, writes: true, is_random: true },
];
