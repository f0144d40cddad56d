//! fio's options whose value decides nothing in iodyno: those that change no result, which are noted, and those that
//! can't be honoured, which are refused; and other names of the same option.

/// Other names of an option, and the one that is used here.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blockalign", "ba"),
    ("io_limit", "io_size"),
    ("timeout", "runtime"),
    ("wait_for_previous", "stonewall"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("nr_files", "nrfiles"),
    ("file_size", "filesize"),
    ("start_delay", "startdelay"),
    ("mem", "iomem"),
    ("cpumask", "cpus_allowed"),
    ("ratemin", "rate_min"),
];

/// Options that change nothing that is measured, with the reason.
const NOTED: &[(&str, &str)] = &[
    ("group_reporting", "the workers of a job are reported together always"),
    ("thread", "workers are threads always"),
    ("new_group", "each job has figures of its own"),
    ("description", "a comment"),
    ("invalidate", "with direct=1 there is no page cache between"),
    ("randrepeat", "streams are repeatable always: give --seed for others"),
    ("allrandrepeat", "streams are repeatable always: give --seed for others"),
    ("randseed", "the seed belongs to the run: give --seed"),
    ("random_generator", "a generator does not change what is random about addresses"),
    ("use_os_rand", "a generator does not change what is random about addresses"),
    ("end_fsync", "the flush at the end, which fio counts in its time, is not issued"),
    ("fsync_on_close", "the flush at the end, which fio counts in its time, is not issued"),
    ("create_fsync", "how files are made is iodyno's"),
    ("create_serialize", "how files are made is iodyno's"),
    ("create_on_open", "how files are made is iodyno's"),
    ("fallocate", "how files are made is iodyno's; give --fill for written blocks"),
    ("overwrite", "give --fill to have all blocks written first"),
    ("unlink", "a file that iodyno made for a run is removed"),
    ("directory", "the target is given by --on, such as `--on scratch:@/mnt/disk`"),
    ("filename_format", "the target is given by --on"),
    ("openfiles", "the target is given by --on"),
    ("file_service_type", "each worker has one target"),
    ("fixedbufs", "buffers are registered where the kernel can; --plain-ring turns it off"),
    ("registerfiles", "files are registered where the kernel can; --plain-ring turns it off"),
    ("refill_buffers", "no two blocks are alike, unless the job says otherwise"),
    ("scramble_buffers", "no two blocks are alike, unless the job says otherwise"),
    ("softrandommap", "a map of the blocks takes no memory here"),
    ("gtod_reduce", "stamps cost too little to be left out"),
    ("clocksource", "the clock is chosen and checked by iodyno; --system-clock takes the system's"),
    ("disable_lat", "latencies are recorded always"),
    ("disable_clat", "latencies are recorded always"),
    ("disable_slat", "latencies are recorded always"),
    ("disable_bw", "bandwidth is recorded always"),
    ("disable_bw_measurement", "bandwidth is recorded always"),
    ("percentile_list", "the percentiles that the samples support are shown"),
    ("clat_percentiles", "percentiles are shown always"),
    ("lat_percentiles", "percentiles are shown always"),
    ("slat_percentiles", "percentiles are shown always"),
    ("unified_rw_reporting", "kinds of operation are never mixed"),
    ("write_bw_log", "series are kept in the notebook: `iodyno export last --format csv-series`"),
    ("write_lat_log", "series are kept in the notebook: `iodyno export last --format csv-series`"),
    ("write_iops_log", "series are kept in the notebook: `iodyno export last --format csv-series`"),
    ("write_hist_log", "histograms are kept in the notebook: `iodyno export last --format hgrm`"),
    ("log_avg_msec", "give --interval for the length of the series' intervals"),
    ("log_hist_msec", "give --interval for the length of the series' intervals"),
    ("log_hist_coarseness", "histograms are kept in full"),
    ("log_unix_epoch", "series begin with the measurement"),
    ("per_job_logs", "series are kept in the notebook"),
    ("bwavgtime", "give --interval for the length of the series' intervals"),
    ("iopsavgtime", "give --interval for the length of the series' intervals"),
    ("disk_util", "output alone"),
    ("exitall", "jobs of a group end together"),
    ("exitall_on_error", "a run stops at --max-errors"),
    ("kb_base", "used for the numbers of this job"),
    ("unit_base", "output is in bytes"),
    ("norandommap", "addresses are independent draws"),
    ("group", "each job has figures of its own"),
    ("allow_file_create", "the target is given by --on"),
    ("allow_mounted_write", "what is in use is refused; --destroy names what may be overwritten"),
    ("name", "the job's name"),
    ("verify_fatal", "an operation that reads wrong content is counted and shown"),
    ("verify_dump", "an operation that reads wrong content is counted and shown"),
    ("verify_interval", "each unit of at most 4 KiB has a checksum"),
    ("verify_async", "workers check what they read"),
    ("verify_async_cpus", "workers check what they read"),
    ("verify_state_save", "any later run can check the content"),
    ("do_verify", "check afterwards with `iodyno run --verify-only`"),
    ("serialize_overlap", "with verifiable content operations never overlap"),
    ("rate_cycle", "a rate is exact over any time"),
    ("thinktime_spin", "how a worker waits is chosen by iodyno"),
    ("stonewall", "begins a group"),
    ("time_based", "the job ends by its runtime"),
    ("filename", "the target is given by --on"),
    ("nrfiles", "the job runs on one target in place of several files"),
    ("uri", "the target is given by --on, such as `--on nbd://host/export`"),
    ("iomem", "buffers are allocated by iodyno"),
    ("hugepage-size", "buffers are allocated by iodyno"),
];

/// Options that change results and can't be honoured: the reason, and the remedy.
const REFUSED: &[(&str, &str, &str)] = &[
    ("hipri", "polling belongs to the run", "remove the line, and give --poll"),
    ("sqthread_poll", "the kernel's submission thread is not used", "remove the line"),
    ("sqthread_poll_cpu", "the kernel's submission thread is not used", "remove the line"),
    ("force_async", "operations are not forced to the kernel's workers", "remove the line"),
    (
        "steadystate",
        "a steady state ends a method, not a job",
        "remove the line, and run `pts-iops` or a method of your own",
    ),
    (
        "ss",
        "a steady state ends a method, not a job",
        "remove the line, and run `pts-iops` or a method of your own",
    ),
    ("ss_dur", "a steady state ends a method, not a job", "remove the line"),
    ("ss_ramp", "a steady state ends a method, not a job", "remove the line"),
    (
        "latency_target",
        "a search is an option of the run",
        "remove the line, and give --find-rate 'p99<1ms'",
    ),
    (
        "latency_window",
        "a search is an option of the run",
        "remove the line, and give --find-rate 'p99<1ms'",
    ),
    (
        "latency_percentile",
        "a search is an option of the run",
        "remove the line, and give --find-rate 'p99<1ms'",
    ),
    (
        "latency_run",
        "a search is an option of the run",
        "remove the line, and give --find-rate 'p99<1ms'",
    ),
    (
        "max_latency",
        "a limit is an option of the run",
        "remove the line, and give --require 'max<10ms'",
    ),
    (
        "rate_min",
        "a limit is an option of the run",
        "remove the line, and give --require 'bandwidth>=10MB/s'",
    ),
    (
        "rate_iops_min",
        "a limit is an option of the run",
        "remove the line, and give --require 'iops>1k'",
    ),
    ("cpus_allowed", "processors are chosen for the run", "remove the line, and give --cpus 0-3"),
    (
        "cpus_allowed_policy",
        "processors are chosen for the run",
        "remove the line, and give --cpus 0-3",
    ),
    ("numa_cpu_nodes", "processors are chosen for the run", "remove the line, and give --numa 0"),
    (
        "numa_mem_policy",
        "memory is allocated on the node of --numa",
        "remove the line, and give --numa 0",
    ),
    ("sync_file_range", "it is not issued", "use fdatasync=N for durable writes"),
    ("write_barrier", "it is not issued", "use fdatasync=N for durable writes"),
    ("read_iolog", "a trace is no workload", "remove the line, and describe the I/O by options"),
    (
        "write_iolog",
        "operations are not logged one by one",
        "remove the line; series are kept in the notebook",
    ),
    ("replay_no_stall", "a trace is no workload", "remove the line"),
    ("replay_redirect", "a trace is no workload", "remove the line"),
    ("startdelay", "jobs of a group begin together", "remove the line, or use stonewall"),
    ("wait_for", "jobs wait for whole groups", "use stonewall"),
    ("flow", "jobs don't balance one another", "remove the line, and give each job a rate"),
    ("flow_id", "jobs don't balance one another", "remove the line, and give each job a rate"),
    ("bs_unaligned", "addresses are aligned to 512 bytes or more", "remove the line"),
    ("bs_is_seq_rand", "block sizes belong to kinds of operation", "use bs=READ,WRITE"),
    ("rw_sequencer", "it has a meaning with rw=…:N only", "remove the line"),
    ("zonemode", "zones are not issued", "remove the line"),
    ("zonesize", "zones are not issued", "remove the line"),
    ("zonerange", "zones are not issued", "remove the line"),
    ("zoneskip", "zones are not issued", "remove the line"),
    ("fill_device", "a job ends by time, size or number", "use --fill, or size=100%"),
    ("fill_fs", "a job ends by time, size or number", "use --fill, or size=100%"),
    (
        "buffer_pattern",
        "content is random, compressible or zeroes",
        "use zero_buffers or buffer_compress_percentage",
    ),
    ("verify_pattern", "verifiable content has a form of its own", "remove the line"),
    (
        "verify_backlog",
        "reads of verification are not mixed in",
        "remove the line, and run `iodyno run --verify-only` afterwards",
    ),
    ("verify_only", "it is an option of the run", "run `iodyno run --verify-only`"),
    ("verify_state_load", "content names its writes itself", "run `iodyno run --verify-only`"),
    (
        "trim_percentage",
        "trims are a kind of the mix",
        "use rw=trim, or a workload file with `mix = { trim = 1 }`",
    ),
    ("thinktime_iotime", "a worker thinks after each operation", "remove the line"),
    ("thinktime_blocks_type", "a worker thinks after each operation", "remove the line"),
    ("lockfile", "files are not locked", "remove the line"),
    (
        "nice",
        "the priority of the process is its caller's",
        "remove the line, and use `nice iodyno run`",
    ),
    ("prio", "I/O priorities are not set", "remove the line, and use `ionice iodyno run`"),
    ("prioclass", "I/O priorities are not set", "remove the line, and use `ionice iodyno run`"),
    ("cgroup", "cgroups are not entered", "remove the line"),
    ("exec_prerun", "no programs are run", "run it before"),
    ("exec_postrun", "no programs are run", "run it afterwards"),
    ("ioscheduler", "settings of a device are not changed", "remove the line, and set it before"),
    ("continue_on_error", "it is an option of the run", "remove the line, and give --max-errors"),
    ("ignore_error", "it is an option of the run", "remove the line, and give --max-errors"),
    ("rate_ignore_thinktime", "a rate has no think time", "remove thinktime"),
    ("uncached", "RWF_DONTCACHE is not used", "use direct=1"),
    ("atomic", "O_ATOMIC is not used", "remove the line"),
];

/// Options that `job.rs` gives a meaning.
const HONOURED: &[&str] = &[
    "rw",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bssplit",
    "bsrange",
    "ba",
    "size",
    "io_size",
    "filesize",
    "offset",
    "offset_increment",
    "iodepth",
    "numjobs",
    "ioengine",
    "direct",
    "buffered",
    "fsync",
    "fdatasync",
    "sync",
    "runtime",
    "ramp_time",
    "rate",
    "rate_iops",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "random_distribution",
    "percentage_random",
    "verify",
    "loops",
    "number_ios",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "zero_buffers",
    "buffer_compress_percentage",
    "dedupe_percentage",
];

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has a meaning.
    Honoured,
    /// It changes no result, for this reason.
    Noted(&'static str),
    /// It can't be honoured, for this reason; the remedy.
    Refused(&'static str, &'static str),
    /// fio has none of this name, or a rare one.
    Unknown,
}

/// The one name of an option.
pub(super) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours)
}

/// What becomes of an option, by its canonical name.
pub(super) fn fate(name: &str) -> Fate {
    if HONOURED.contains(&name) {
        return Fate::Honoured;
    }
    if let Some((_, why)) = NOTED.iter().find(|(noted, _)| *noted == name) {
        return Fate::Noted(why);
    }
    match REFUSED.iter().find(|(refused, _, _)| *refused == name) {
        Some((_, why, remedy)) => Fate::Refused(why, remedy),
        None => Fate::Unknown,
    }
}

/// The names of all options that have a fate.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let noted = NOTED.iter().map(|(name, _)| *name);
    let refused = REFUSED.iter().map(|(name, _, _)| *name);
    HONOURED.iter().copied().chain(noted).chain(refused)
}
