//! Tests every option of fio's job format with two values. Either both fio and iodyno accept it, or iodyno refuses it
//! by name with a remedy. If both run a job, they move the same numbers of operations and bytes.

use iodyno_exchange::fio::{Job, JobFile, Process, parse};
use iodyno_units::OpKind;
use iodyno_workload::{Geometry, Shared, Stream};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// Number of simultaneous fio processes.
const PROCESSES: usize = 6;

/// Lines of each job other than the tested option.
const BASE: &str = "rw=write\nbs=4k\nsize=64k";

/// Two values for each option that is neither a number nor a switch.
const VALUES: &[(&str, [&str; 2])] = &[
    ("name", ["x", "y"]),
    ("description", ["x", "y"]),
    ("wait_for", ["first", "first"]),
    ("directory", [".", "./"]),
    ("filename_format", ["$jobname.$jobnum.$filenum", "$jobname"]),
    ("bs", ["8k", "4k,8k"]),
    ("ba", ["4k", "8k"]),
    ("bsrange", ["4k-8k", "8k-4k"]),
    ("bssplit", ["4k/50:8k/50", "4k/50:8k/40"]),
    ("ioengine", ["psync", "null"]),
    ("iodepth_low", ["1", "0"]),
    ("size", ["32k", "100k"]),
    ("io_size", ["32k", "50%"]),
    ("filesize", ["32k", "128k"]),
    ("offset", ["4k", "16k"]),
    ("offset_increment", ["4k", "64k"]),
    ("offset_align", ["4k", "8k"]),
    ("random_distribution", ["zipf:1.1", "random"]),
    ("percentage_random", ["50", "100,0"]),
    ("file_service_type", ["roundrobin", "sequential"]),
    ("loops", ["2", "3"]),
    ("numjobs", ["2", "3"]),
    ("startdelay", ["0", "1ms"]),
    ("runtime", ["2", "3s"]),
    ("ramp_time", ["0", "0s"]),
    ("rate", ["10m", "20m"]),
    ("rate_iops", ["5000", "8000"]),
    ("rate_min", ["1", "0"]),
    ("rate_iops_min", ["1", "0"]),
    ("latency_target", ["1s", "0"]),
    ("max_latency", ["1s", "0"]),
    ("thinktime", ["10us", "100"]),
    ("verify", ["crc32c", "md5"]),
    ("verify_pattern", ["0xff", "%o"]),
    ("buffer_pattern", ["0xff", "0x01"]),
    ("steadystate", ["iops:10%", "bw_slope:5%"]),
    ("exec_prerun", ["true", ":"]),
    ("exec_postrun", ["true", ":"]),
    ("cpumask", ["1", "3"]),
    ("cpus_allowed", ["0", "0,1"]),
    ("numa_cpu_nodes", ["0", "all"]),
    ("numa_mem_policy", ["local", "default"]),
    ("percentile_list", ["99", "50:99"]),
    ("log_compression", ["4k", "0"]),
    ("log_compression_cpus", ["0", "0,1"]),
    ("verify_async_cpus", ["0", "0,1"]),
    ("ignore_error", ["EIO", "EIO:ENOSPC"]),
    ("zonesize", ["16k", "32k"]),
    ("zoneskip", ["16k", "64k"]),
    ("zonerange", ["16k", "32k"]),
    ("opendir", [".", "./"]),
    ("ioscheduler", ["none", "mq-deadline"]),
    ("sync_file_range", ["write:4", "wait_before:2"]),
    ("profile", ["act", "tiobench"]),
    ("filename", ["x", "x:y"]),
    ("rw", ["randwrite", "write:4k"]),
    ("replay_redirect", ["x", "y"]),
    ("nice", ["0", "1"]),
    ("number_ios", ["4", "10"]),
    ("number_of_files", ["1", "2"]),
    ("nrfiles", ["2", "4"]),
    ("buffer_compress_percentage", ["50", "100"]),
    ("write_iolog", ["x.iolog", "y.iolog"]),
    ("write_bw_log", ["x", "y"]),
    ("write_lat_log", ["x", "y"]),
    ("write_iops_log", ["x", "y"]),
    ("write_hist_log", ["x", "y"]),
    ("comm", ["x", "y"]),
    ("kb_base", ["1024", "1000"]),
    ("unit_base", ["0", "8"]),
    ("exit_what", ["group", "all"]),
    ("verify_interval", ["4k", "512"]),
    ("hugepage-size", ["2m", "4m"]),
    ("iomem_align", ["4k", "8k"]),
    ("random_generator", ["tausworthe", "lfsr"]),
    ("lockfile", ["none", "exclusive"]),
    ("rw_sequencer", ["sequential", "identical"]),
    ("io_submit_mode", ["inline", "offload"]),
    ("fallocate", ["none", "native"]),
    ("clocksource", ["gettimeofday", "clock_gettime"]),
    ("mem", ["malloc", "shm"]),
    ("verify_offset", ["40", "64"]),
    ("zonemode", ["none", "strided"]),
    ("thinktime_blocks_type", ["complete", "issue"]),
    ("thinktime_blocks", ["1", "4"]),
    ("thinktime_iotime", ["1", "1ms"]),
    ("rate_process", ["linear", "poisson"]),
    ("sync", ["none", "dsync"]),
    ("write_hint", ["none", "short"]),
    ("cpus_allowed_policy", ["shared", "split"]),
    ("log_entries", ["1024", "2048"]),
    ("dedupe_mode", ["repeat", "working_set"]),
    ("unified_rw_reporting", ["none", "mixed"]),
    ("continue_on_error", ["none", "read"]),
    ("cgroup_weight", ["100", "200"]),
    ("iodepth", ["1", "4"]),
    ("fsync", ["1", "4"]),
    ("fdatasync", ["1", "4"]),
    ("verify_backlog", ["4", "7"]),
    ("flow", ["1", "8"]),
    ("dedupe_percentage", ["50", "100"]),
    ("rwmixread", ["20", "80"]),
    ("rwmixwrite", ["20", "80"]),
    ("significant_figures", ["1", "4"]),
    ("replay_time_scale", ["100", "50"]),
    ("log_alternate_epoch_clock_id", ["0", "1"]),
];

/// Options with the lines that they require.
const WITH: &[(&str, &str)] = &[
    ("percentage_random", "rw=randrw\nnorandommap=1"),
    ("random_distribution", "rw=randrw\nnorandommap=1"),
    ("verify_backlog", "verify=crc32c"),
    ("thinktime_iotime", "thinktime=10us"),
    ("thinktime_blocks", "thinktime=10us"),
    ("rate_ignore_thinktime", "thinktime=10us\nrate_iops=5000"),
    ("offset_align", "offset=4k"),
    ("file_service_type", "nrfiles=2"),
    ("bs_is_seq_rand", "bs=4k,8k"),
    ("ss_dur", "ss=iops:10%"),
    ("zoneskip", "zonemode=strided\nzonesize=16k"),
    ("zonerange", "zonemode=strided\nzonesize=16k"),
    ("zonesize", "zonemode=strided"),
];

/// Options that fio can't run in a test. For these, only fio's parser is tested.
const NOT_RUN: &[&str] = &[
    // These change the machine, start programs, or need users, devices, folders or other files.
    "exec_prerun",
    "exec_postrun",
    "ioscheduler",
    "uid",
    "gid",
    "cgroup",
    "cgroup_weight",
    "cgroup_nodelete",
    "nice",
    "prio",
    "prioclass",
    "read_iolog",
    "opendir",
    "lockmem",
    "profile",
    "iomem",
    "hugepage-size",
    "cpumask",
    "cpus_allowed",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "log_compression_cpus",
    "verify_async_cpus",
    "gtod_cpu",
    "zonemode",
    "verify_only",
    "verify_state_load",
    "merge_blktrace_file",
    "write_iolog",
    "unique_filename",
    "name",
    "allow_file_create",
    "exitall_on_error",
    // Jobs that have not run yet would count.
    "flow",
    "flow_id",
    // These end other jobs.
    "exitall",
    "exit_what",
    // The option would be given twice, or fio reports nothing on the job.
    "stonewall",
    "stats",
    "wait_for",
    "verify_async",
];

/// Options with random sizes: the bytes are equal, but the number of operations differs.
const DRAWN: &[&str] = &["bsrange", "bssplit"];

/// Options for which fio moves more or less than iodyno; `docs/fio.md` says why.
const DIFFERENT: &[&str] = &[];

/// Values that iodyno accepts as "off", and this version of fio refuses.
const READ_HERE_ALONE: &[(&str, &str)] =
    &[("replay_align", "0"), ("replay_skip", "0"), ("log_compression", "0")];

fn fio(words: &[&str], folder: &Path) -> Output {
    Command::new("fio").args(words).current_dir(folder).output().unwrap()
}

/// Names of all options of the installed fio.
fn options(folder: &Path) -> Vec<String> {
    let printed = String::from_utf8(fio(&["--cmdhelp=all"], folder).stdout).unwrap();
    let names = printed.lines().filter_map(|line| line.split_once(':'));
    let names = names.map(|(name, _)| name.trim().to_owned());
    names.filter(|name| !name.is_empty() && !name.contains(' ')).collect()
}

/// Two values of an option; by default numbers that also serve a switch.
fn values(name: &str) -> [&'static str; 2] {
    VALUES.iter().find(|(option, _)| *option == name).map_or(["1", "0"], |(_, values)| *values)
}

/// An option with a value, and the text of its job.
struct Case {
    option: String,
    value: String,
    text: String,
}

impl Case {
    fn new(option: &str, value: &str, number: usize) -> Self {
        let with = WITH.iter().find(|(name, _)| *name == option).map_or("", |(_, with)| with);
        let names_files = ["filename", "filename_format", "nrfiles"].contains(&option);
        let own = if names_files || with.contains("nrfiles") {
            String::new()
        } else {
            format!("filename=f{number}\n")
        };
        let text = format!("{BASE}\n{own}{with}\n{option}={value}\n");
        Self { option: option.to_owned(), value: value.to_owned(), text }
    }

    fn section(&self, number: usize) -> String {
        format!("[case{number}]\nstonewall\n{}", self.text)
    }

    fn of_iodyno(&self, number: usize) -> Result<Option<Job>, String> {
        // Another job runs before, for options that refer to one.
        let text = format!("[first]\nsize=4k\n{}", self.section(number));
        let file: JobFile =
            parse("case.fio", &text, &Process).map_err(|problem| problem.to_string())?;
        let mut all = file.groups.into_iter().flatten().rev();
        Ok(all.find(|job| job.name != "first"))
    }
}

/// Operations and bytes that a job moves until its limits.
fn moved_by_iodyno(job: &Job) -> (u64, u64) {
    let (spec, limits) = (&job.spec, job.spec.limits());
    let capacity_bytes = 4 << 20;
    let geometry = Geometry { capacity_bytes, align_bytes: 1, workers: 1 };
    let shared = Shared::new(spec, 1, &geometry).unwrap();
    let mut stream = Stream::new(&shared, 0);
    let (start, end) = spec.active_on(capacity_bytes);
    let of_passes = limits.passes.map(|passes| ((end - start) as f64 * passes) as u64);
    let most_bytes = limits.bytes.into_iter().chain(of_passes).min().unwrap_or(u64::MAX);
    let most_ops = limits.ops.unwrap_or(u64::MAX);
    let (mut ops, mut bytes, mut read_back) = (0, 0, (0, 0));
    while bytes < most_bytes && ops < most_ops && ops < 100_000 {
        let op = stream.next_op();
        let is_read_back = spec.read_back() > 0 && op.kind == OpKind::Read;
        if op.kind != OpKind::Flush && !is_read_back {
            ops += 1;
            bytes += u64::from(op.len_bytes);
        }
    }
    if spec.read_back() > 0 {
        read_back = (ops, bytes);
    }
    let checked = job.check.as_ref().map_or((0, 0), |check| moved_by_iodyno(check));
    (ops + read_back.0 + checked.0, bytes + read_back.1 + checked.1)
}

/// Number of the first section that fio refuses; None if it accepts all.
fn dropped(output: &Output) -> Option<usize> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("job case") && line.contains("dropped"))?;
    let digits = line.split("job case").nth(1)?;
    digits.split_whitespace().next()?.parse().ok()
}

#[test]
fn every_option_is_taken_as_by_fio_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    if Command::new("fio").arg("--version").output().is_err() {
        assert!(std::env::var("CI").is_err(), "fio is missing");
        return;
    }
    let mut cases = Vec::new();
    for option in options(at) {
        for value in values(&option) {
            cases.push(Case::new(&option, value, cases.len()));
        }
    }
    assert!(cases.len() > 400, "{}", cases.len());
    let job_file = |name: &str, numbers: &[usize]| {
        let mut text = "[first]\nsize=4k\nrw=write\n".to_owned();
        for number in numbers {
            let _ = write!(text, "{}", cases[*number].section(*number));
        }
        std::fs::write(at.join(name), text).unwrap();
    };
    // fio stops at the first section that it refuses.
    let mut left: Vec<usize> = (0..cases.len()).collect();
    let mut refused_by_fio = BTreeSet::new();
    loop {
        job_file("cases.fio", &left);
        let output = fio(&["cases.fio", "--parse-only"], at);
        let Some(number) = dropped(&output) else {
            assert!(output.status.success(), "{output:?}");
            break;
        };
        refused_by_fio.insert(number);
        left.retain(|other| *other != number);
    }
    let mut wrong = Vec::new();
    let mut both = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let Case { option, value, .. } = case;
        let is_alone = READ_HERE_ALONE.contains(&(option.as_str(), value.as_str()));
        match (case.of_iodyno(number), refused_by_fio.contains(&number)) {
            (Ok(job), false) => both.push((number, job)),
            (Ok(_), true) if !is_alone => {
                wrong.push(format!("{option}={value}: fio does not take it"));
            }
            (Ok(_), true) => {}
            (Err(words), _) => {
                let names = words.contains(&format!("`{option}")) || words.contains(option);
                let helps = words.contains("help: ");
                if !names || !helps {
                    wrong.push(format!("{option}={value}: refused in these words:\n{words}"));
                }
            }
        }
    }
    both.retain(|(number, _)| !NOT_RUN.contains(&cases[*number].option.as_str()));
    // Several processes of fio run all jobs that both accept; some values are refused only at this point.
    let found: Vec<serde_json::Value> = std::thread::scope(|scope| {
        let parts = both.chunks(both.len().div_ceil(PROCESSES)).enumerate();
        let threads: Vec<_> = parts
            .map(|(part, own)| {
                let mut numbers: Vec<usize> = own.iter().map(|(number, _)| *number).collect();
                let job_file = &job_file;
                scope.spawn(move || {
                    let (name, out) = (format!("part{part}.fio"), format!("part{part}.json"));
                    loop {
                        job_file(&name, &numbers);
                        let words = [&name, "--output-format=json", &format!("--output={out}")];
                        let output = fio(&words, at);
                        if let Some(number) = dropped(&output) {
                            numbers.retain(|other| *other != number);
                            continue;
                        }
                        let text = std::fs::read_to_string(at.join(&out)).unwrap();
                        let start = text.find('{').unwrap_or_else(|| panic!("{output:?}\n{text}"));
                        break serde_json::from_str(&text[start..]).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<&serde_json::Value> =
        found.iter().flat_map(|part| part["jobs"].as_array().unwrap()).collect();
    for (number, job) in &both {
        let Case { option, value, .. } = &cases[*number];
        let name = format!("case{number}");
        let own: Vec<_> = all.iter().filter(|of| of["jobname"].as_str() == Some(&name)).collect();
        if own.is_empty() {
            if !READ_HERE_ALONE.contains(&(option.as_str(), value.as_str())) {
                wrong.push(format!("{option}={value}: fio does not take it"));
            }
            continue;
        }
        let (mut ops, mut bytes, mut error) = (0, 0, 0);
        for of in own {
            for kind in ["read", "write", "trim", "mixed"] {
                ops += of[kind]["total_ios"].as_u64().unwrap_or(0);
                bytes += of[kind]["io_bytes"].as_u64().unwrap_or(0);
            }
            error = of["error"].as_u64().unwrap_or(0);
        }
        let ours = job.as_ref().map_or((0, 0), moved_by_iodyno);
        let is_named = DIFFERENT.contains(&option.as_str());
        let is_same = ours.1 == bytes && (ours.0 == ops || DRAWN.contains(&option.as_str()));
        if error > 0 || is_same == is_named {
            wrong.push(format!(
                "{option}={value}: fio {ops} ops, {bytes} bytes, error {error}; iodyno {ours:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
