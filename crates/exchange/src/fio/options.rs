//! Tables of fio's options: aliases, options that change no result (noted), options that can't be honoured (refused),
//! options that are flags of the run, and options that other modules interpret.

/// Aliases of options, each with the canonical name.
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

/// Options that change no result, with the reason.
const NOTED: &[(&str, &str)] = &[
    ("group_reporting", "the workers of a job are reported together always"),
    ("thread", "workers are threads always"),
    ("new_group", "each job has figures of its own"),
    ("description", "a comment"),
    ("randrepeat", "streams are repeatable always: give --seed for others"),
    ("allrandrepeat", "streams are repeatable always: give --seed for others"),
    ("randseed", "the seed belongs to the run: give --seed"),
    (
        "random_generator",
        "a generator does not change what is random about addresses; lfsr gives each block once per pass, also with norandommap",
    ),
    ("use_os_rand", "a generator does not change what is random about addresses"),
    ("create_fsync", "how files are made is iodyno's"),
    ("create_serialize", "how files are made is iodyno's"),
    ("create_on_open", "how files are made is iodyno's"),
    ("overwrite", "give --fill to have all blocks written first"),
    ("unlink", "a file that iodyno made for a run is removed"),
    ("directory", "the target is given by --on, such as `--on scratch:@/mnt/disk`"),
    ("filename_format", "the target is given by --on"),
    ("openfiles", "the files of a job are in turn all at once, also where fio opens fewer of them"),
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
    ("log_avg_msec", "give --interval for the length of the series' intervals"),
    ("log_hist_msec", "give --interval for the length of the series' intervals"),
    ("log_hist_coarseness", "histograms are kept in full"),
    ("log_unix_epoch", "series begin with the measurement"),
    ("per_job_logs", "series are kept in the notebook"),
    ("iopsavgtime", "give --interval for the length of the series' intervals"),
    ("disk_util", "output alone"),
    ("exitall_on_error", "a run stops at --max-errors"),
    ("unit_base", "output is in bytes"),
    ("norandommap", "addresses are independent draws, unless random_generator is lfsr"),
    ("group", "each job has figures of its own"),
    ("allow_file_create", "the target is given by --on"),
    ("allow_mounted_write", "what is in use is refused; --destroy names what may be overwritten"),
    ("name", "the job's name; in `[global]` it names none, as in fio"),
    ("verify_fatal", "an operation that reads wrong content is counted and shown"),
    ("verify_dump", "an operation that reads wrong content is counted and shown"),
    ("verify_interval", "each unit of at most 4 KiB has a checksum"),
    ("verify_async", "workers check what they read"),
    ("verify_async_cpus", "workers check what they read"),
    ("verify_state_save", "any later run can check the content"),
    ("verify_state_load", "the notebook knows what earlier runs wrote, and reads check that alone"),
    ("write_iolog", "give --record-trace FILE for what the run issues; `iodyno replay` takes it"),
    (
        "do_verify",
        "after a job that writes every block, iodyno reads all of it back; for others use `iodyno run --verify-only`",
    ),
    ("serialize_overlap", "with verifiable content operations never overlap"),
    ("rate_cycle", "a rate is exact over any time"),
    ("sqthread_poll", "the worker submits by itself, and its CPU time shows it"),
    ("sqthread_poll_cpu", "the worker submits by itself, and its CPU time shows it"),
    ("thinktime_spin", "how a worker waits is chosen by iodyno"),
    ("stonewall", "begins a group"),
    ("time_based", "the job ends by its runtime"),
    ("uri", "the target is given by --on, such as `--on nbd://host/export`"),
    ("iomem", "buffers are allocated by iodyno"),
    ("iomem_align", "buffers are allocated by iodyno"),
    ("lockmem", "buffers are allocated by iodyno"),
    ("kb_base", "used for the numbers of this job"),
    ("bwavgtime", "give --interval for the length of the series' intervals"),
    (
        "rate_min",
        "fio gives up below it; a rate that is missed is reported, and --require 'bandwidth>=10MB/s' fails the run",
    ),
    (
        "rate_iops_min",
        "fio gives up below it; a rate that is missed is reported, and --require 'iops>1k' fails the run",
    ),
    ("io_submit_mode", "an open loop never waits for completions, whichever thread submits"),
    ("flow_id", "jobs at the same time that have a flow keep one proportion"),
    ("flow_sleep", "how a worker waits for the others is chosen by iodyno"),
    ("flow_watermark", "fio ignores it"),
    (
        "verify_pattern",
        "blocks carry verifiable content in place of the pattern; a device that compresses may differ",
    ),
    ("thinktime_blocks_type", "operations count when they are issued"),
    ("dedupe_mode", "the blocks that repeat are one of 64"),
    ("dedupe_global", "the blocks that repeat are one of 64"),
    ("dedupe_working_set_percentage", "the blocks that repeat are one of 64"),
    ("buffer_compress_chunk", "each 4 KiB compresses by its share"),
    ("file_service_type", "the order of several files"),
    ("nrfiles", "the files lie side by side on the target"),
    ("log_offset", "series are kept in the notebook"),
    ("log_prio", "series are kept in the notebook"),
    ("log_entries", "series are kept in the notebook"),
    ("log_max_value", "series are kept in the notebook"),
    ("log_compression", "series are kept in the notebook"),
    ("log_compression_cpus", "series are kept in the notebook"),
    ("log_store_compressed", "series are kept in the notebook"),
    ("log_window_value", "series have means and histograms"),
    ("log_issue_time", "series are kept in the notebook"),
    ("job_start_clock_id", "the run keeps its start"),
    ("comm", "workers are threads of iodyno"),
    ("verify_write_sequence", "content names its writes itself"),
    ("verify_header_seed", "content names its writes itself"),
    ("log_alternate_epoch", "series begin with the measurement"),
    ("log_alternate_epoch_clock_id", "series begin with the measurement"),
    ("block_error_percentiles", "output alone"),
    ("significant_figures", "output alone"),
    ("stats", "output alone"),
    ("error_dump", "failed operations are counted and shown"),
    ("unique_filename", "the target is given by --on"),
    ("unlink_each_loop", "a file that iodyno made for a run is removed"),
    ("gtod_cpu", "stamps cost too little to be left out"),
    ("verifysort", "reads check what they read, in their own order"),
    ("verifysort_nr", "reads check what they read, in their own order"),
    ("verify_backlog_batch", "what is read back is as much as was written"),
    ("experimental_verify", "content names its writes itself"),
    ("fadvise_hint", "no advice is given; with direct=1 there is no page cache between"),
    ("rwmixcycle", "fio ignores it"),
    ("write_barrier", "none of fio's engines that iodyno has issues it: fio ignores it too"),
    ("job_max_open_zones", "the clones divide max_open_zones among them"),
    ("read_beyond_wp", "it has a meaning with zonemode=zbd only"),
    ("zone_reset_threshold", "it has a meaning with zonemode=zbd only"),
    ("zone_reset_frequency", "it has a meaning with zonemode=zbd only"),
    ("zonecapacity", "it has a meaning with zonemode=zbd only"),
    ("ignore_zone_limits", "it has a meaning with zonemode=zbd only"),
    ("hugepage-size", "buffers are allocated by iodyno"),
    ("thp", "buffers are allocated by iodyno"),
    ("nonvectored", "each operation has one buffer"),
    ("userspace_reap", "how completions are taken is the engine's"),
    ("cmd_type", "NVMe's commands, the one type that fio has"),
];

/// Options that change results and can't be honoured: the reason, and the remedy.
const REFUSED: &[(&str, &str, &str)] = &[
    ("nowait", "an operation waits where it must (RWF_NOWAIT is not used)", "remove the line"),
    ("force_async", "operations are not forced to the kernel's workers", "remove the line"),
    ("sync_file_range", "it is not issued", "use fdatasync=N for durable writes"),
    ("read_iolog", "a trace is not a workload", "replay it: `iodyno replay FILE --on TARGET`"),
    ("replay_no_stall", "a trace is not a workload", "remove the line"),
    ("replay_redirect", "a trace is not a workload", "remove the line"),
    ("bs_unaligned", "addresses are aligned to 512 bytes or more", "remove the line"),
    ("bs_is_seq_rand", "block sizes belong to kinds of operation", "use bs=READ,WRITE"),
    (
        "buffer_pattern",
        "content is random, compressible or zeroes",
        "use zero_buffers or buffer_compress_percentage",
    ),
    (
        "trim_percentage",
        "trims are a kind of the mix",
        "use rw=trim, or a workload file with `mix = { trim = 1 }`",
    ),
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
    ("cmdprio_percentage", "I/O priorities are not set", "remove the line"),
    ("cmdprio_bssplit", "I/O priorities are not set", "remove the line"),
    ("cmdprio_class", "I/O priorities are not set", "remove the line"),
    ("cmdprio", "I/O priorities are not set", "remove the line"),
    ("cmdprio_hint", "I/O priorities are not set", "remove the line"),
    ("opendir", "the files of a folder are not its targets", "name one target by --on"),
    (
        "percentage_sequential",
        "a share of sequential operations has another name",
        "use percentage_random=100-N",
    ),
    (
        "pre_read",
        "the page cache is not filled before",
        "run a job of reads with `stonewall` before it",
    ),
    ("file_append", "files don't grow", "remove the line"),
    ("write_hint", "lifetimes of writes are not given", "remove the line"),
    ("verify_offset", "the header's place is fixed", "remove the line"),
    ("trim_backlog", "trims are a kind of the mix", "use rw=randtrim in a job of its own"),
    ("trim_backlog_batch", "trims are a kind of the mix", "remove the line"),
    ("trim_verify_zero", "discarded blocks may read as anything", "remove the line"),
    ("uid", "the user of the process is its caller's", "remove the line, and use `sudo -u`"),
    ("gid", "the group of the process is its caller's", "remove the line, and use `sudo -g`"),
    ("cgroup_weight", "cgroups are not entered", "remove the line"),
    ("cgroup_nodelete", "cgroups are not entered", "remove the line"),
    ("profile", "profiles are not known", "write the jobs out"),
    ("merge_blktrace_file", "a trace is not a workload", "remove the line"),
    ("merge_blktrace_iters", "a trace is not a workload", "remove the line"),
    ("merge_blktrace_scalars", "a trace is not a workload", "remove the line"),
    ("read_iolog_chunked", "a trace is not a workload", "remove the line"),
    ("replay_align", "a trace is not a workload", "remove the line"),
    ("replay_scale", "a trace is not a workload", "remove the line"),
    ("replay_skip", "a trace is not a workload", "remove the line"),
    ("replay_time_scale", "a trace is not a workload", "remove the line"),
    ("gpu_dev_id", "memory of GPUs is not used", "remove the line"),
    ("atomic", "untorn writes are not asked for", "remove the line"),
    ("num_range", "a trim has one range", "remove the line"),
    ("sprandom", "another way of preconditioning", "remove the line, and give --fill"),
    ("ramp_size", "a ramp has a time", "use ramp_time"),
    ("fdp", "placements are not given", "remove the line"),
    ("dataplacement", "placements are not given", "remove the line"),
    ("readfua", "reads have no FUA", "remove the line"),
    ("writefua", "a flag of one engine has another name here", "use sync=dsync"),
    ("write_mode", "a write is a write", "remove the line"),
    ("thinkcycles", "a worker thinks without work", "use thinktime"),
    ("end_syncfs", "other files of the file system are not flushed", "use end_fsync"),
    ("steadystate_check_interval", "values are those of each second", "remove the line"),
];

/// Options of a job that are flags of the run here: the reason, and the flag.
const FLAGS: &[(&str, &str, &str)] = &[
    ("hipri", "polling belongs to the run", "poll"),
    ("hipri_percentage", "polling belongs to the run, of all operations", "poll"),
    ("latency_target", "a search is an option of the run", "find-rate 'p99<1ms'"),
    ("latency_window", "a search is an option of the run", "find-rate 'p99<1ms'"),
    ("latency_percentile", "a search is an option of the run", "find-rate 'p99<1ms'"),
    ("latency_run", "a search is an option of the run", "find-rate 'p99<1ms'"),
    ("max_latency", "a limit is an option of the run", "require 'max<10ms'"),
    ("cpus_allowed", "processors are chosen for the run", "cpus 0-3"),
    ("cpus_allowed_policy", "processors are chosen for the run", "cpus 0-3"),
    ("numa_cpu_nodes", "processors are chosen for the run", "numa 0"),
    ("numa_mem_policy", "memory is allocated on the node of the processors", "numa 0"),
    ("continue_on_error", "it is an option of the run", "max-errors 100"),
    ("ignore_error", "it is an option of the run", "max-errors 100"),
    ("verify_only", "it is an option of the run", "verify-only"),
];

/// Options that take no value from the next word of a command line (`--unlink 1` does, so it is missing here).
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

/// Whether an option takes no value from the next word.
pub(super) fn stands_alone(name: &str) -> bool {
    STAND_ALONE.contains(&name)
}

/// Options that other modules, such as `job.rs`, interpret.
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

/// Treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The option is interpreted.
    Honoured,
    /// The option changes no result: reason.
    Noted(&'static str),
    /// The option is a flag of the run here: reason, flag.
    Flag(&'static str, &'static str),
    /// The option can't be honoured: reason, remedy.
    Refused(&'static str, &'static str),
    /// Not in the tables: unknown to fio, or rare.
    Unknown,
}

/// Canonical name of an option.
pub(super) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours)
}

/// Treatment of an option, by its canonical name.
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

/// Names of all options of the tables, with aliases.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    known().chain(ALIASES.iter().map(|(name, _)| *name))
}

/// Canonical names of all options of the tables.
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

    /// Option names in fio's output for `flag`: one per line, before a colon.
    fn named(flag: &str) -> Vec<String> {
        let printed = Command::new("fio").arg(flag).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let names = printed.lines().filter_map(|line| line.split_once(':'));
        let names = names.map(|(name, _)| name.trim().to_owned());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        names.filter(|name| !name.is_empty() && name.chars().all(is_name)).collect()
    }

    /// Every option that fio has, of its own and of the engines that iodyno has, is honoured, noted or refused with a
    /// reason. Without fio nothing is compared; with `CI` set that fails.
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
