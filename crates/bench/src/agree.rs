//! Runs job files with both fio and iodyno. Rates, bandwidths and median latencies should agree where the device or a
//! configured rate is the limit.
//!
//! Run `cargo build --release`, then `cargo run -p iodyno-bench --release -- agree [--reps N] [--seconds S] [--only
//! PART] [--out DIR] [--disk-dir DIR] [--tmpfs-dir DIR]`. As root it also uses a zram device, if one is free.
//!
//! In each repetition each job runs three times: by fio, by iodyno, by fio again. A figure agrees if the ratio of the
//! medians is within 5 %, or within twice the spread of fio's own figures. Where the processor is the limit (memory,
//! an idle export), iodyno may be faster; the table states the limit.

use crate::tables::spread;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum relative difference between iodyno's and fio's results for them to agree.
const AGREE_SHARE: f64 = 0.05;
/// Size of each target (file, disk or device), bytes.
const TARGET_BYTES: u64 = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The resource that limits a job's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Device,
    Rate,
    Processor,
}

/// Storage on which a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Disk,
    Tmpfs,
    Zram,
    /// An emulated disk, served over NBD.
    ServedDisk,
    /// An emulated SSD, served over NBD.
    ServedSsd,
}

struct Job {
    name: &'static str,
    on: On,
    limit: Limit,
    /// Sections of the job's file, without `[global]`.
    text: &'static str,
}

const fn job(name: &'static str, on: On, limit: Limit, text: &'static str) -> Job {
    Job { name, on, limit, text }
}

const JOBS: &[Job] = &[
    job("randread-4k-qd16", On::Disk, Limit::Device, "[j]\nrw=randread\nbs=4k\niodepth=16\n"),
    job("randwrite-4k-qd16", On::Disk, Limit::Device, "[j]\nrw=randwrite\nbs=4k\niodepth=16\n"),
    job(
        "randrw-70-30-8k",
        On::Disk,
        Limit::Device,
        "[j]\nrw=randrw\nrwmixread=70\nbs=8k\niodepth=8\n",
    ),
    job("read-1m-in-order", On::Disk, Limit::Device, "[j]\nrw=read\nbs=1m\niodepth=4\n"),
    job("write-1m-in-order", On::Disk, Limit::Device, "[j]\nrw=write\nbs=1m\niodepth=4\n"),
    job(
        "four-jobs-psync",
        On::Disk,
        Limit::Device,
        "[j]\nioengine=psync\nrw=randread\nbs=4k\nnumjobs=4\ngroup_reporting\n",
    ),
    job(
        "log-fdatasync",
        On::Disk,
        Limit::Device,
        "[j]\nioengine=psync\nrw=write\nbs=4k\nfdatasync=1\n",
    ),
    job(
        "rate-randread",
        On::Disk,
        Limit::Rate,
        "[j]\nrw=randread\nbs=4k\niodepth=4\nrate_iops=400\n",
    ),
    job(
        "rate-poisson-randwrite",
        On::Disk,
        Limit::Rate,
        "[j]\nrw=randwrite\nbs=4k\niodepth=16\nrate_iops=400\nrate_process=poisson\n",
    ),
    job("rate-bandwidth", On::Disk, Limit::Rate, "[j]\nrw=read\nbs=64k\niodepth=2\nrate=20m\n"),
    job(
        "thinktime",
        On::Disk,
        Limit::Rate,
        "[j]\nioengine=psync\nrw=randread\nbs=4k\nthinktime=2000\n",
    ),
    job(
        "reader-beside-writer",
        On::Disk,
        Limit::Device,
        "[reader]\nrw=randread\nbs=4k\niodepth=8\n[writer]\nrw=randwrite\nbs=16k\niodepth=2\nrate_iops=200\n",
    ),
    job("hdd-randread", On::ServedDisk, Limit::Device, "[j]\nrw=randread\nbs=4k\niodepth=8\n"),
    job("hdd-randrw", On::ServedDisk, Limit::Device, "[j]\nrw=randrw\nbs=16k\niodepth=4\n"),
    job(
        "hdd-bssplit",
        On::ServedDisk,
        Limit::Device,
        "[j]\nrw=randread\nbssplit=4k/60:64k/40\niodepth=4\n",
    ),
    job("ssd-randread-qd1", On::ServedSsd, Limit::Device, "[j]\nrw=randread\nbs=4k\niodepth=1\n"),
    job(
        "ssd-randrw-qd8",
        On::ServedSsd,
        Limit::Device,
        "[j]\nrw=randrw\nrwmixread=70\nbs=8k\niodepth=8\n",
    ),
    job("ssd-write-128k", On::ServedSsd, Limit::Device, "[j]\nrw=write\nbs=128k\niodepth=4\n"),
    job("zram-randread-qd16", On::Zram, Limit::Processor, "[j]\nrw=randread\nbs=4k\niodepth=16\n"),
    job("tmpfs-psync", On::Tmpfs, Limit::Processor, "[j]\nioengine=psync\nrw=randread\nbs=4k\n"),
    job(
        "tmpfs-zipf-mmap",
        On::Tmpfs,
        Limit::Processor,
        "[j]\nioengine=mmap\ndirect=0\nrw=randread\nbs=4k\nrandom_distribution=zipf:1.1\nnorandommap\n",
    ),
    job(
        "tmpfs-buffered-bssplit",
        On::Tmpfs,
        Limit::Processor,
        "[j]\nioengine=psync\ndirect=0\nrw=randrw\nbssplit=4k/50:16k/50\n",
    ),
];

struct Options {
    reps: usize,
    seconds: u32,
    only: Option<String>,
    out: PathBuf,
    disk_dir: PathBuf,
    tmpfs_dir: PathBuf,
}

/// A target, with the server process, file or device that provides it.
struct Target {
    /// Name of the target on iodyno's command line.
    name: String,
    /// Options by which fio uses the target.
    fio: String,
    server: Option<Child>,
    file: Option<PathBuf>,
    zram: Option<PathBuf>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
        if let Some(zram) = &self.zram {
            let _ = fs::write(zram.join("reset"), "1");
        }
    }
}

/// Results of one kind of operation: operations and bytes per second, and the median latency from submission
/// to completion, ns. (In fio this is `lat`; `clat` excludes the submitting call.)
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    iops: f64,
    bytes_per_s: f64,
    p50_ns: f64,
}

/// Results of one run, by section of the job file and kind of operation.
type Run = BTreeMap<(String, &'static str), Figures>;

pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let out = &options.out;
    fs::create_dir_all(out.join("jobs")).map_err(|e| format!("{}: {e}", out.display()))?;
    let iodyno = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("iodyno");
    let mut raw = String::from("job,on,by,rep,section,kind,iops,bytes_per_s,p50_ns\n");
    let mut summary = String::from(
        "| job | on | limit | kind | iodyno IOPS | fio IOPS | ratio | p50 ratio | fio against itself | agrees |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for on in [On::Disk, On::ServedDisk, On::ServedSsd, On::Zram, On::Tmpfs] {
        let wanted = |job: &&Job| {
            job.on == on
                && options.only.as_ref().is_none_or(|only| job.name.contains(only.as_str()))
        };
        let jobs: Vec<&Job> = JOBS.iter().filter(wanted).collect();
        if jobs.is_empty() {
            continue;
        }
        let target = match Target::set_up(on, &iodyno, &options) {
            Ok(target) => target,
            Err(why) => {
                println!("{on:?}: left out: {why}");
                let _ = writeln!(summary, "| all on {on:?} | left out: {why} | | | | | | | | |");
                continue;
            }
        };
        for job in jobs {
            let file = out.join("jobs").join(format!("{}.fio", job.name));
            write(&file, &target.job_file(job, options.seconds))?;
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for rep in 0..options.reps {
                for by in ["fio", "iodyno", "fio again"] {
                    let run = if by == "iodyno" {
                        run_iodyno(&iodyno, &file, &target.name)?
                    } else {
                        run_fio(&file)?
                    };
                    for ((section, kind), f) in &run {
                        let _ = writeln!(
                            raw,
                            "{},{on:?},{by},{rep},{section},{kind},{:.1},{:.0},{:.0}",
                            job.name, f.iops, f.bytes_per_s, f.p50_ns
                        );
                    }
                    if by == "iodyno" { ours.push(run) } else { theirs.push(run) }
                }
            }
            let rows = rows(job, &ours, &theirs);
            print!("{rows}");
            summary.push_str(&rows);
            write(&out.join("raw.csv"), &raw)?;
            write(&out.join("summary.md"), &summary)?;
        }
    }
    println!("raw data: {}", out.display());
    Ok(())
}

/// Formats the table rows that compare iodyno's and fio's results of a job.
fn rows(job: &Job, ours: &[Run], theirs: &[Run]) -> String {
    let mut rows = String::new();
    let Some(first) = theirs.first() else { return rows };
    for (section, kind) in first.keys() {
        let of = |runs: &[Run], f: fn(&Figures) -> f64| -> Vec<f64> {
            let of_one = |run: &Run| run.get(&(section.clone(), *kind)).map_or(0.0, f);
            runs.iter().map(of_one).collect()
        };
        let compared = |f: fn(&Figures) -> f64| {
            let (mine, fio) = (spread(&of(ours, f)), spread(&of(theirs, f)));
            let own = (fio.max - fio.min) / fio.median;
            let ratio = mine.median / fio.median;
            (ratio, own, (ratio - 1.0).abs() <= AGREE_SHARE.max(2.0 * own), mine.median, fio.median)
        };
        let (rate, rate_own, rate_agrees, mine, fio) = compared(|f| f.iops);
        let (_, _, bytes_agree, ..) = compared(|f| f.bytes_per_s);
        let (p50, p50_own, p50_agrees, ..) = compared(|f| f.p50_ns);
        let what = if section == "j" { (*kind).to_owned() } else { format!("{section} {kind}") };
        let agrees = match (rate_agrees && bytes_agree, p50_agrees) {
            (true, true) => "yes",
            (false, _) if job.limit == Limit::Processor && rate > 1.0 => "faster",
            (true, false) if job.limit == Limit::Processor && p50 < 1.0 => "faster",
            (true, false) => "**not p50**",
            (false, _) => "**no**",
        };
        let limit = format!("{:?}", job.limit).to_lowercase();
        let _ = writeln!(
            rows,
            "| {} | {:?} | {limit} | {what} | {mine:.0} | {fio:.0} | {rate:.3} | {p50:.3} | {:.1} %, p50 {:.1} % | {agrees} |",
            job.name,
            job.on,
            rate_own * 100.0,
            p50_own * 100.0
        );
    }
    rows
}

fn run_fio(file: &Path) -> Result<Run, String> {
    let file = file.display().to_string();
    let document = document("fio", &["--output-format=json", &file])?;
    let mut run = Run::new();
    for job in document["jobs"].as_array().into_iter().flatten() {
        let section = job["jobname"].as_str().unwrap_or_default();
        for kind in ["read", "write"] {
            let of = &job[kind];
            if of["total_ios"].as_f64().unwrap_or(0.0) == 0.0 {
                continue;
            }
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            let figures = Figures {
                iops: number(&of["iops"]),
                bytes_per_s: number(&of["bw_bytes"]),
                p50_ns: number(&of["lat_ns"]["percentile"]["50.000000"]),
            };
            run.insert((section.to_owned(), kind), figures);
        }
    }
    Ok(run)
}

fn run_iodyno(iodyno: &Path, file: &Path, target: &str) -> Result<Run, String> {
    let (iodyno, file) = (iodyno.display().to_string(), file.display().to_string());
    let arguments = ["run", &file, "--on", target, "--destroy", target, "--json", "--no-notebook"];
    let document = document(&iodyno, &arguments)?;
    let mut run = Run::new();
    for cell in document["cells"].as_array().into_iter().flatten() {
        let section = cell["workload"].as_str().unwrap_or_default();
        for kind in ["read", "write"] {
            let of = &cell[kind];
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            if number(&of["ops"]) == 0.0 {
                continue;
            }
            let service =
                if of["service_ns"].is_null() { &of["latency_ns"] } else { &of["service_ns"] };
            let figures = Figures {
                iops: number(&of["iops"]),
                bytes_per_s: number(&of["bytes_per_s"]),
                p50_ns: number(&service["p50"]),
            };
            run.insert((section.to_owned(), kind), figures);
        }
    }
    Ok(run)
}

/// Runs a program and parses its output as JSON.
fn document(program: &str, arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words = || format!("{program} {}", arguments.join(" "));
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\nended with {}: {errors}", words(), output.status));
    }
    let from = text.find('{').unwrap_or(0);
    serde_json::from_str(&text[from..]).map_err(|e| format!("{}\nprinted no JSON: {e}", words()))
}

impl Target {
    fn set_up(on: On, iodyno: &Path, options: &Options) -> Result<Self, String> {
        let target = match on {
            On::Disk | On::Tmpfs => {
                let dir = if on == On::Disk { &options.disk_dir } else { &options.tmpfs_dir };
                let path = dir.join("iodyno-agree.dat");
                let text = path.display().to_string();
                let mut target = Self::of(&text, &format!("filename={text}"));
                let file = fs::File::create_new(&path).map_err(|e| format!("{text}: {e}"))?;
                target.file = Some(path);
                file.set_len(TARGET_BYTES).map_err(|e| e.to_string())?;
                target
            }
            On::Zram => {
                let path = Path::new("/sys/block/zram0");
                let size = fs::read_to_string(path.join("disksize"));
                if size.map_err(|e| e.to_string())?.trim() != "0" {
                    return Err("/dev/zram0 is in use".to_owned());
                }
                fs::write(path.join("disksize"), TARGET_BYTES.to_string())
                    .map_err(|e| format!("/dev/zram0: {e}"))?;
                let mut target = Self::of("/dev/zram0", "filename=/dev/zram0");
                target.zram = Some(path.to_owned());
                target
            }
            On::ServedDisk | On::ServedSsd => {
                let device =
                    if on == On::ServedDisk { "hdd-15k-sas-80g" } else { "ssd-sata3-mlc-200g" };
                let socket = options.tmpfs_dir.join("iodyno-agree.sock");
                let _ = fs::remove_file(&socket);
                let uri = format!("nbd+unix:///?socket={}", socket.display());
                let served = format!("unix:{}", socket.display());
                let mut command = Command::new(iodyno);
                command.args(["serve", device, "--size", "512MiB", "--memory", "600MiB"]);
                command.args(["--nbd", &served]).stdout(Stdio::null()).stderr(Stdio::null());
                let server = command.spawn().map_err(|e| e.to_string())?;
                let mut target = Self::of(&uri, &format!("uri={uri}\nioengine=nbd"));
                target.server = Some(server);
                let begun = Instant::now();
                while !socket.exists() {
                    if begun.elapsed() > PATIENCE {
                        return Err(format!("the server of {device} does not start"));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                target
            }
        };
        // Reads of unwritten blocks touch no medium, so fill the target first.
        let arguments = ["run", "seq-write", "--on", &target.name, "--destroy", &target.name];
        let filled = Command::new(iodyno)
            .args(arguments)
            .args(["--block", "1MiB", "--depth", "4", "--ramp", "0s", "--bytes", "512MiB"])
            .args(["--time", "120s", "--no-notebook", "--json"])
            .output()
            .map_err(|e| e.to_string())?;
        // (Its verdicts don't matter.)
        if filled.stdout.is_empty() {
            return Err(String::from_utf8_lossy(&filled.stderr).into_owned());
        }
        Ok(target)
    }

    fn of(name: &str, fio: &str) -> Self {
        Self { name: name.to_owned(), fio: fio.to_owned(), server: None, file: None, zram: None }
    }

    /// Builds the job file that both fio and iodyno run.
    fn job_file(&self, job: &Job, seconds: u32) -> String {
        let size = if self.zram.is_some() { "" } else { "size=512m\n" };
        format!(
            "[global]\nioengine=io_uring\ndirect=1\n{}\n{size}runtime={seconds}\ntime_based\nrandrepeat=0\nlat_percentiles=1\n{}",
            self.fio, job.text
        )
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        reps: 3,
        seconds: 2,
        only: None,
        out: PathBuf::from("bench/out"),
        disk_dir: std::env::current_dir().map_err(|e| e.to_string())?,
        tmpfs_dir: PathBuf::from("/dev/shm"),
    };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number =
            || value.parse::<u32>().map_err(|_| format!("{flag} {value}: not a whole number"));
        match flag.as_str() {
            "--reps" => options.reps = number()?.max(1) as usize,
            "--seconds" => options.seconds = number()?.max(1),
            "--only" => options.only = Some(value.clone()),
            "--out" => options.out = value.into(),
            "--disk-dir" => options.disk_dir = value.into(),
            "--tmpfs-dir" => options.tmpfs_dir = value.into(),
            _ => {
                return Err(format!(
                    "unknown option {flag}: the options are --reps, --seconds, --only, --out, --disk-dir and --tmpfs-dir"
                ));
            }
        }
    }
    Ok(options)
}
