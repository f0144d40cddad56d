//! Tables of fio's options: aliases, supported options, options without effect on results, unsupported options, and
//! options that correspond to flags of `iodyno run`.

/// Alternative names of options, each with the canonical name.
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
    ("ratecycle", "rate_cycle"),
    ("fileoffset", "offset"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("mem_align", "iomem_align"),
    ("fill_fs", "fill_device"),
    ("threads", "thread"),
    ("steadystate", "ss"),
    ("steadystate_duration", "ss_dur"),
    ("steadystate_ramp_time", "ss_ramp"),
    ("steadystate_ramp", "ss_ramp"),
];

/// Options that have no effect on results, with the reason.
const NOTED: &[(&str, &str)] = &[
    ("group_reporting", "the workers of a job are always reported together"),
    ("thread", "workers are always threads"),
    ("new_group", "each job is reported separately"),
    ("description", "only a comment"),
    ("randrepeat", "random streams are the same in each run; give --seed for different ones"),
    ("allrandrepeat", "random streams are the same in each run; give --seed for different ones"),
    ("randseed", "all jobs of a run use one seed: give --seed"),
    (
        "random_generator",
        "only lfsr affects addresses: with one block size, each block is used once per pass, even with norandommap",
    ),
    ("use_os_rand", "the generator does not affect the distribution of addresses"),
    ("create_fsync", "iodyno creates files in its own way"),
    ("create_serialize", "iodyno creates files in its own way"),
    ("create_on_open", "iodyno creates files in its own way"),
    ("overwrite", "give --fill to write all blocks first"),
    ("unlink", "iodyno removes a file that it created for a run"),
    ("directory", "the target is given by --on, such as `--on scratch:@/mnt/disk`"),
    ("filename_format", "the target is given by --on"),
    ("openfiles", "all files of a job take turns, even where fio opens fewer at a time"),
    ("fixedbufs", "buffers are registered if possible; --plain-ring turns this off"),
    ("registerfiles", "files are registered if possible; --plain-ring turns this off"),
    ("refill_buffers", "no two blocks are alike, unless the job says otherwise"),
    ("scramble_buffers", "no two blocks are alike, unless the job says otherwise"),
    ("softrandommap", "iodyno needs no memory for a map of the blocks"),
    ("gtod_reduce", "timestamps cost too little to leave them out"),
    ("clocksource", "iodyno chooses and checks the clock; --system-clock uses the system's"),
    ("disable_lat", "latencies are always recorded"),
    ("disable_clat", "latencies are always recorded"),
    ("disable_slat", "latencies are always recorded"),
    ("disable_bw", "bandwidth is always recorded"),
    ("disable_bw_measurement", "bandwidth is always recorded"),
    ("percentile_list", "each percentile with enough samples is shown"),
    ("clat_percentiles", "percentiles are always shown"),
    ("lat_percentiles", "percentiles are always shown"),
    ("slat_percentiles", "percentiles are always shown"),
    ("unified_rw_reporting", "reads, writes and trims are always reported separately"),
    (
        "write_bw_log",
        "series are kept in the notebook: `iodyno export last --format fio-logs -o FOLDER`",
    ),
    (
        "write_lat_log",
        "series are kept in the notebook: `iodyno export last --format fio-logs -o FOLDER`",
    ),
    (
        "write_iops_log",
        "series are kept in the notebook: `iodyno export last --format fio-logs -o FOLDER`",
    ),
    (
        "write_hist_log",
        "histograms are kept in the notebook: `iodyno export last --format fio-logs -o FOLDER`",
    ),
    ("log_avg_msec", "give --interval to set the interval of the time series"),
    ("log_hist_msec", "give --interval to set the interval of the time series"),
    ("log_hist_coarseness", "histograms are kept at full resolution"),
    ("log_unix_epoch", "times in a series count from the start of the measurement"),
    ("per_job_logs", "series are kept in the notebook"),
    ("iopsavgtime", "give --interval to set the interval of the time series"),
    ("disk_util", "affects only fio's output"),
    ("exitall_on_error", "a run stops when it exceeds --max-errors"),
    ("unit_base", "output is in bytes"),
    ("norandommap", "addresses are independent draws, unless random_generator is lfsr"),
    ("group", "each job is reported separately"),
    ("allow_file_create", "the target is given by --on"),
    ("allow_mounted_write", "storage in use is always refused; --destroy lifts other refusals"),
    ("name", "the job's name; in `[global]` it has no effect, as in fio"),
    ("verify_fatal", "reads of wrong content are counted and shown"),
    ("verify_dump", "reads of wrong content are counted and shown"),
    ("verify_interval", "each unit of at most 4 KiB has a checksum"),
    ("verify_async", "each worker checks the data that it reads"),
    ("verify_async_cpus", "each worker checks the data that it reads"),
    ("verify_state_save", "any later run can check the content"),
    (
        "verify_state_load",
        "the notebook records what earlier runs wrote, and reads check only this data",
    ),
    ("write_iolog", "give --record-trace FILE to record a trace; `iodyno replay` replays it"),
    (
        "do_verify",
        "after a job that writes every block, iodyno reads all of it back; for others use `iodyno run --verify-only`",
    ),
    ("serialize_overlap", "with verifiable content, operations never overlap"),
    ("rate_cycle", "the rate is exact over any period"),
    ("sqthread_poll", "each worker submits its own I/O; its CPU time includes that"),
    ("sqthread_poll_cpu", "each worker submits its own I/O; its CPU time includes that"),
    ("thinktime_spin", "iodyno chooses how a worker waits"),
    ("stonewall", "begins a new group of jobs"),
    ("time_based", "the job ends after its runtime, not after `size` bytes"),
    ("uri", "the target is given by --on, such as `--on nbd://host/export`"),
    ("iomem", "buffers are allocated by iodyno"),
    ("iomem_align", "buffers are allocated by iodyno"),
    ("lockmem", "buffers are allocated by iodyno"),
    ("kb_base", "applies to the numbers of this job"),
    ("bwavgtime", "give --interval to set the interval of the time series"),
    (
        "rate_min",
        "fio stops below this rate; iodyno reports a missed rate, and --require 'bandwidth>=10MB/s' makes the run fail",
    ),
    (
        "rate_iops_min",
        "fio stops below this rate; iodyno reports a missed rate, and --require 'iops>1k' makes the run fail",
    ),
    ("io_submit_mode", "an open loop never waits for completions, whichever thread submits"),
    ("flow_id", "all jobs of a group that have `flow` are balanced against one another"),
    ("flow_sleep", "iodyno chooses how a worker waits for the others"),
    ("flow_watermark", "fio ignores it"),
    (
        "verify_pattern",
        "blocks carry verifiable content instead of the pattern; a device that compresses data may perform differently",
    ),
    ("thinktime_blocks_type", "operations count when they are issued, not when they complete"),
    ("dedupe_mode", "each duplicate is a copy of one of 64 blocks"),
    ("dedupe_global", "each duplicate is a copy of one of 64 blocks"),
    ("dedupe_working_set_percentage", "each duplicate is a copy of one of 64 blocks"),
    ("buffer_compress_chunk", "each 4 KiB is compressible by the given percentage"),
    ("file_service_type", "sets the order in which files are used"),
    ("nrfiles", "the files lie side by side on the target"),
    ("log_offset", "series are kept in the notebook"),
    ("log_prio", "series are kept in the notebook"),
    ("log_entries", "series are kept in the notebook"),
    ("log_max_value", "series are kept in the notebook"),
    ("log_compression", "series are kept in the notebook"),
    ("log_compression_cpus", "series are kept in the notebook"),
    ("log_store_compressed", "series are kept in the notebook"),
    ("log_window_value", "each interval of a series has a mean and a histogram"),
    ("log_issue_time", "series are kept in the notebook"),
    ("job_start_clock_id", "the start time of the run is stored"),
    ("comm", "workers are threads of iodyno and keep their names"),
    ("verify_write_sequence", "each block of verifiable content tells which write produced it"),
    ("verify_header_seed", "each block of verifiable content tells which write produced it"),
    ("log_alternate_epoch", "times in a series count from the start of the measurement"),
    ("log_alternate_epoch_clock_id", "times in a series count from the start of the measurement"),
    ("block_error_percentiles", "affects only fio's output"),
    ("significant_figures", "affects only fio's output"),
    ("stats", "affects only fio's output"),
    ("error_dump", "failed operations are counted and shown"),
    ("unique_filename", "the target is given by --on"),
    ("unlink_each_loop", "iodyno removes a file that it created for a run"),
    ("gtod_cpu", "timestamps cost too little to leave them out"),
    ("verifysort", "data is checked in the order in which it is read"),
    ("verifysort_nr", "data is checked in the order in which it is read"),
    ("verify_backlog_batch", "each batch reads back as many blocks as were written"),
    ("experimental_verify", "each block of verifiable content tells which write produced it"),
    ("fadvise_hint", "iodyno gives no access hints; with direct=1 they have no effect"),
    ("rwmixcycle", "fio ignores it"),
    ("write_barrier", "no effect: fio issues no barriers with these engines either"),
    ("job_max_open_zones", "the clones divide max_open_zones among themselves"),
    ("read_beyond_wp", "has an effect only with zonemode=zbd"),
    ("zone_reset_threshold", "has an effect only with zonemode=zbd"),
    ("zone_reset_frequency", "has an effect only with zonemode=zbd"),
    ("zonecapacity", "has an effect only with zonemode=zbd"),
    ("ignore_zone_limits", "has an effect only with zonemode=zbd"),
    ("hugepage-size", "buffers are allocated by iodyno"),
    ("thp", "buffers are allocated by iodyno"),
    ("nonvectored", "each operation has one buffer"),
    ("userspace_reap", "the engine decides how completions are reaped"),
    ("cmd_type", "fio, too, knows only commands of type nvme"),
];

/// Options that affect results but are not supported, with the reason and the remedy.
const REFUSED: &[(&str, &str, &str)] = &[
    ("nowait", "operations may block (iodyno does not use RWF_NOWAIT)", "remove the line"),
    ("force_async", "iodyno does not force operations into kernel workers", "remove the line"),
    (
        "sync_file_range",
        "iodyno does not issue sync_file_range",
        "use fdatasync=N for durable writes",
    ),
    ("read_iolog", "a job can't replay a trace", "replay it: `iodyno replay FILE --on TARGET`"),
    ("replay_no_stall", "a job can't replay a trace", "remove the line"),
    ("replay_redirect", "a job can't replay a trace", "remove the line"),
    ("bs_unaligned", "addresses are aligned to 512 bytes or more", "remove the line"),
    (
        "bs_is_seq_rand",
        "block sizes can differ only between kinds of operation",
        "use bs=READ,WRITE",
    ),
    (
        "buffer_pattern",
        "content can only be random, compressible or zeroes",
        "use zero_buffers or buffer_compress_percentage",
    ),
    (
        "trim_percentage",
        "fio trims a share of the blocks that it wrote; iodyno issues trims as a share of all operations",
        "use rw=trim, or a workload file with `mix = { trim = 1 }`",
    ),
    ("lockfile", "iodyno does not lock files", "remove the line"),
    (
        "nice",
        "iodyno does not change its own priority",
        "remove the line, and use `nice iodyno run`",
    ),
    ("prio", "iodyno does not set I/O priorities", "remove the line, and use `ionice iodyno run`"),
    (
        "prioclass",
        "iodyno does not set I/O priorities",
        "remove the line, and use `ionice iodyno run`",
    ),
    ("cgroup", "iodyno does not enter cgroups", "remove the line"),
    (
        "exec_prerun",
        "iodyno does not run programs",
        "remove the line, and run the program before iodyno",
    ),
    (
        "exec_postrun",
        "iodyno does not run programs",
        "remove the line, and run the program after iodyno",
    ),
    (
        "ioscheduler",
        "iodyno does not change device settings",
        "remove the line, and set the scheduler yourself",
    ),
    ("cmdprio_percentage", "iodyno does not set I/O priorities", "remove the line"),
    ("cmdprio_bssplit", "iodyno does not set I/O priorities", "remove the line"),
    ("cmdprio_class", "iodyno does not set I/O priorities", "remove the line"),
    ("cmdprio", "iodyno does not set I/O priorities", "remove the line"),
    ("cmdprio_hint", "iodyno does not set I/O priorities", "remove the line"),
    (
        "opendir",
        "iodyno does not use the files of a folder as targets",
        "name one target with --on",
    ),
    (
        "percentage_sequential",
        "iodyno supports only the share of random operations",
        "use percentage_random=100-N",
    ),
    (
        "pre_read",
        "iodyno does not fill the page cache before a job",
        "add a job that reads the file before this job, and `stonewall` to this job",
    ),
    ("file_append", "iodyno does not append to files", "remove the line"),
    ("write_hint", "iodyno gives no lifetime hints for writes", "remove the line"),
    ("verify_offset", "the position of the header in a block is fixed", "remove the line"),
    (
        "trim_backlog",
        "fio trims a share of the blocks that it wrote; iodyno issues trims as a share of all operations",
        "use rw=randtrim in a job of its own",
    ),
    (
        "trim_backlog_batch",
        "fio trims a share of the blocks that it wrote; iodyno issues trims as a share of all operations",
        "remove the line",
    ),
    ("trim_verify_zero", "reads of discarded blocks may return any data", "remove the line"),
    ("uid", "iodyno does not change its user", "remove the line, and use `sudo -u`"),
    ("gid", "iodyno does not change its group", "remove the line, and use `sudo -g`"),
    ("cgroup_weight", "iodyno does not enter cgroups", "remove the line"),
    ("cgroup_nodelete", "iodyno does not enter cgroups", "remove the line"),
    ("profile", "iodyno does not have fio's profiles", "replace the profile with its jobs"),
    ("merge_blktrace_file", "a job can't replay a trace", "remove the line"),
    ("merge_blktrace_iters", "a job can't replay a trace", "remove the line"),
    ("merge_blktrace_scalars", "a job can't replay a trace", "remove the line"),
    ("read_iolog_chunked", "a job can't replay a trace", "remove the line"),
    ("replay_align", "a job can't replay a trace", "remove the line"),
    ("replay_scale", "a job can't replay a trace", "remove the line"),
    ("replay_skip", "a job can't replay a trace", "remove the line"),
    ("replay_time_scale", "a job can't replay a trace", "remove the line"),
    ("gpu_dev_id", "iodyno does not use GPU memory", "remove the line"),
    ("atomic", "iodyno does not request untorn writes", "remove the line"),
    ("num_range", "each trim has one range", "remove the line"),
    ("sprandom", "iodyno preconditions in another way", "remove the line, and give --fill"),
    ("ramp_size", "a ramp can only be limited by time", "use ramp_time"),
    ("fdp", "iodyno gives no data placement hints", "remove the line"),
    ("dataplacement", "iodyno gives no data placement hints", "remove the line"),
    ("readfua", "iodyno does not set FUA on reads", "remove the line"),
    ("writefua", "the key `sync` requests FUA, with every engine", "use sync=dsync"),
    ("write_mode", "iodyno issues only plain writes", "remove the line"),
    ("thinkcycles", "workers do not compute while they think", "use thinktime"),
    ("end_syncfs", "iodyno does not flush other files of the file system", "use end_fsync"),
    (
        "steadystate_check_interval",
        "iodyno judges the steady state by one value per second",
        "remove the line",
    ),
];

/// Job options that correspond to a flag of `iodyno run`: name, reason, and flag.
const FLAGS: &[(&str, &str, &str)] = &[
    ("hipri", "polling applies to a whole run, not to one job", "poll"),
    ("hipri_percentage", "polling applies to all operations of a run", "poll"),
    (
        "latency_target",
        "a rate search applies to a whole run, not to one job, and chooses its own rates",
        "find-rate 'p99<1ms'",
    ),
    (
        "latency_window",
        "a rate search applies to a whole run, not to one job, and chooses its own rates",
        "find-rate 'p99<1ms'",
    ),
    (
        "latency_percentile",
        "a rate search applies to a whole run, not to one job, and chooses its own rates",
        "find-rate 'p99<1ms'",
    ),
    (
        "latency_run",
        "a rate search applies to a whole run, not to one job, and chooses its own rates",
        "find-rate 'p99<1ms'",
    ),
    ("max_latency", "a latency limit applies to a whole run, not to one job", "require 'max<10ms'"),
    ("cpus_allowed", "all jobs of a run use the same processors", "cpus 0-3"),
    ("cpus_allowed_policy", "all jobs of a run use the same processors", "cpus 0-3"),
    ("numa_cpu_nodes", "all jobs of a run use the same processors", "numa 0"),
    ("numa_mem_policy", "memory is allocated on the NUMA node of the run's processors", "numa 0"),
    (
        "continue_on_error",
        "the error limit applies to a whole run, not to one job",
        "max-errors 100",
    ),
    ("ignore_error", "the error limit applies to a whole run, not to one job", "max-errors 100"),
    (
        "verify_only",
        "verifying without writing applies to a whole run, not to one job",
        "verify-only",
    ),
];

/// Options that take no separate value on a command line. Options such as `--unlink 1`, which take one, are
/// not included.
const STAND_ALONE: &[&str] = &[
    "time_based",
    "group_reporting",
    "thread",
    "new_group",
    "stonewall",
    "norandommap",
    "exitall",
    "exitall_on_error",
    "hipri",
    "zero_buffers",
    "refill_buffers",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "bs_unaligned",
    "verify_only",
    "userspace_reap",
];

/// Whether an option on a command line takes no separate value.
pub(super) fn stands_alone(name: &str) -> bool {
    STAND_ALONE.contains(&name)
}

/// Supported options. Other modules, such as `job.rs`, interpret them.
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
    "offset_align",
    "iodepth",
    "numjobs",
    "ioengine",
    "direct",
    "buffered",
    "invalidate",
    "uncached",
    "fsync",
    "fallocate",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "sync",
    "runtime",
    "ramp_time",
    "rate",
    "rate_iops",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "thinktime_iotime",
    "rate_ignore_thinktime",
    "create_only",
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
    "filename",
    "startdelay",
    "wait_for",
    "exitall",
    "exit_what",
    "flow",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "max_open_zones",
    "fill_device",
    "verify_backlog",
    "ss",
    "ss_dur",
    "ss_ramp",
    "rw_sequencer",
];

/// Treatment of a job's option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The option is supported: another module interprets it.
    Honoured,
    /// The option has no effect on results, for this reason.
    Noted(&'static str),
    /// The option corresponds to a flag of `iodyno run`: reason, and flag.
    Flag(&'static str, &'static str),
    /// The option can't be honoured: reason, and remedy.
    Refused(&'static str, &'static str),
    /// The option is in none of the tables: fio does not have it, or it is rare.
    Unknown,
}

/// Canonical name of the option that is called `name` or has this alternative name.
pub(super) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours)
}

/// Looks up how an option is treated, by its canonical name.
pub(super) fn fate(name: &str) -> Fate {
    if HONOURED.contains(&name) {
        return Fate::Honoured;
    }
    if let Some((_, why)) = NOTED.iter().find(|(noted, _)| *noted == name) {
        return Fate::Noted(why);
    }
    if let Some((_, why, flag)) = FLAGS.iter().find(|(given, _, _)| *given == name) {
        return Fate::Flag(why, flag);
    }
    match REFUSED.iter().find(|(refused, _, _)| *refused == name) {
        Some((_, why, remedy)) => Fate::Refused(why, remedy),
        None => Fate::Unknown,
    }
}

/// Names of all options in the tables, including alternative names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    known().chain(ALIASES.iter().map(|(name, _)| *name))
}

/// Canonical names of all options in the tables.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let noted = NOTED.iter().map(|(name, _)| *name);
    let refused = REFUSED.iter().map(|(name, _, _)| *name);
    let flags = FLAGS.iter().map(|(name, _, _)| *name);
    HONOURED.iter().copied().chain(noted).chain(flags).chain(refused)
}

#[cfg(test)]
mod tests {
    use super::{Fate, canonical, fate};
    use std::process::Command;

    /// Runs fio with `flag`, and returns the option names that it prints: one per line, before a colon.
    fn named(flag: &str) -> Vec<String> {
        let printed = Command::new("fio").arg(flag).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let names = printed.lines().filter_map(|line| line.split_once(':'));
        let names = names.map(|(name, _)| name.trim().to_owned());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        names.filter(|name| !name.is_empty() && name.chars().all(is_name)).collect()
    }

    /// Every option of the installed fio, and of its engines that iodyno supports, is in one of the tables.
    /// Without fio, the test checks nothing, or fails if `CI` is set.
    #[test]
    fn every_option_of_fio_has_a_fate() {
        if Command::new("fio").arg("--version").output().is_err() {
            assert!(std::env::var("CI").is_err(), "fio is missing");
            return;
        }
        let engines = "io_uring io_uring_cmd libaio psync pvsync2 sync mmap nbd null posixaio";
        let of_engines = engines.split(' ').flat_map(|name| named(&format!("--enghelp={name}")));
        let all: Vec<String> = named("--cmdhelp").into_iter().chain(of_engines).collect();
        assert!(all.len() > 200, "{all:?}");
        let unknown = |name: &&String| fate(canonical(name)) == Fate::Unknown;
        let unknown: Vec<&String> = all.iter().filter(unknown).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
