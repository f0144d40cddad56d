//! Cases of a comparison: the contenders and their command lines.

use crate::Options;
use crate::rival::{Figures, Reader, elbencho_file, run};
use crate::tables::{rate, ratio, ratios, spread};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program to be compared: name, command line, and output format.
struct Contender {
    name: &'static str,
    command: Vec<String>,
    reader: Reader,
}

/// Contenders that run the same task. The first is iodyno; the table shows its rate divided by each other
/// contender's.
struct Case {
    name: &'static str,
    contenders: Vec<Contender>,
}

impl Case {
    /// Adds a contender; `None` (not installed) adds nothing.
    fn and(mut self, contender: Option<Contender>) -> Self {
        self.contenders.extend(contender);
        self
    }
}

/// Programs, files and measuring time that all comparisons use.
struct Site {
    iodyno: String,
    bench: String,
    seconds: f64,
    tmpfs_file: String,
    cached_file: String,
    sysbench_dir: PathBuf,
}

const FILE_BYTES: u64 = 512 << 20;

pub(crate) fn run_all(options: &Options) -> Result<(), String> {
    for tool in ["fio", "sysbench"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("{tool} is not installed: `apt-get install fio sysbench`"));
        }
    }
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let site = Site::set_up(options)?;
    let result = run_cases(options, &site);
    site.clean_up();
    result
}

fn run_cases(options: &Options, site: &Site) -> Result<(), String> {
    let mut csv = String::from("case,contender,rep,iops,user_ns_per_io,system_ns_per_io\n");
    let mut commands = String::new();
    let mut summary = String::new();
    for case in cases(site) {
        if options.only.as_ref().is_some_and(|o| !case.name.contains(o.as_str())) {
            continue;
        }
        let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); case.contenders.len()];
        for rep in 0..options.reps {
            for (i, contender) in case.contenders.iter().enumerate() {
                // The page cache may have been dropped, so each contender starts with a warm file.
                warm(&site.cached_file)?;
                let f = run(&contender.command, contender.reader)?;
                let _ = writeln!(
                    csv,
                    "{},{},{rep},{:.0},{:.1},{:.1}",
                    case.name, contender.name, f.iops, f.user_ns, f.system_ns
                );
                figures[i].push(f);
            }
        }
        let table = table(&case, &figures);
        print!("{table}");
        summary.push_str(&table);
        for contender in &case.contenders {
            let _ = writeln!(
                commands,
                "{} / {}: {}",
                case.name,
                contender.name,
                contender.command.join(" ")
            );
        }
        write(&options.out.join("raw.csv"), &csv)?;
        write(&options.out.join("commands.txt"), &commands)?;
        write(&options.out.join("summary.txt"), &summary)?;
    }
    println!("raw data: {}", options.out.display());
    Ok(())
}

fn table(case: &Case, figures: &[Vec<Figures>]) -> String {
    let mut text = format!("\n{}\n", case.name);
    for (i, contender) in case.contenders.iter().enumerate() {
        let of = |f: fn(&Figures) -> f64| spread(&figures[i].iter().map(f).collect::<Vec<_>>());
        let iops = of(|f| f.iops);
        let (user, system) = (of(|f| f.user_ns).median, of(|f| f.system_ns).median);
        let against = if i == 0 {
            String::new()
        } else {
            format!("  iodyno is {} ×", ratio(ratios(&figures[0], &figures[i])))
        };
        let _ = writeln!(
            text,
            "  {:<28} {:<26} user {:>4.0} ns  system {:>5.0} ns{against}",
            contender.name,
            rate(iops),
            user,
            system
        );
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Site {
    fn set_up(options: &Options) -> Result<Self, String> {
        let bench = std::env::current_exe().map_err(|e| e.to_string())?;
        let iodyno = bench.with_file_name("iodyno");
        if !iodyno.exists() {
            return Err("build iodyno first: `cargo build --release`".to_owned());
        }
        let tmpfs_file = options.tmpfs_dir.join("iodyno-bench.dat");
        let cached_file = options.disk_dir.join("iodyno-bench.dat");
        let sysbench_dir = options.tmpfs_dir.join("iodyno-bench-sysbench");
        for file in [&tmpfs_file, &cached_file] {
            fill(file, &iodyno)?;
        }
        fs::create_dir_all(&sysbench_dir).map_err(|e| e.to_string())?;
        let made = Command::new("sysbench")
            .args(["fileio", "--file-total-size=512M", "--file-num=1", "prepare"])
            .current_dir(&sysbench_dir)
            .output();
        if !made.is_ok_and(|o| o.status.success()) {
            return Err("sysbench could not prepare its file".to_owned());
        }
        let text = |p: &Path| p.display().to_string();
        Ok(Self {
            iodyno: text(&iodyno),
            bench: text(&bench),
            seconds: options.seconds,
            tmpfs_file: text(&tmpfs_file),
            cached_file: text(&cached_file),
            sysbench_dir,
        })
    }

    fn clean_up(&self) {
        let _ = fs::remove_file(&self.tmpfs_file);
        let _ = fs::remove_file(&self.cached_file);
        let _ = fs::remove_dir_all(&self.sysbench_dir);
    }

    fn iodyno(&self, arguments: &str) -> Contender {
        let line = format!(
            "{} run {arguments} --time {}s --ramp 200ms --json --no-notebook",
            self.iodyno, self.seconds
        );
        Contender { name: "iodyno", command: words(&line), reader: Reader::Iodyno }
    }

    fn fio(&self, name: &'static str, arguments: &str) -> Contender {
        let line = format!(
            "fio --name=j --time_based --runtime={} --ramp_time=0.2 --group_reporting --norandommap --bs=4k --thread --output-format=json {arguments}",
            self.seconds
        );
        Contender { name, command: words(&line), reader: Reader::Fio }
    }

    fn bare(&self, path: &str, bytes: u64) -> Contender {
        let line = format!("{} bare {path} {bytes} 32 {}", self.bench, self.seconds);
        Contender { name: "bare ring loop, no timing", command: words(&line), reader: Reader::Bare }
    }

    fn bare_ram(&self, threads: u32) -> Contender {
        let line = format!("{} bare-ram {} {threads} {}", self.bench, 2_u64 << 30, self.seconds);
        Contender { name: "bare memory loop", command: words(&line), reader: Reader::Bare }
    }

    /// Builds the command of elbencho; `None` if it is not installed (Debian does not package it). Like the other
    /// tools it does not refill write buffers. Its time limit is set a second shorter than its actual run time.
    fn elbencho(&self, path: &str, arguments: &str) -> Option<Contender> {
        Command::new("elbencho").arg("--version").output().ok()?;
        let line = format!(
            "elbencho -t 1 -b 4k -s 512m --rand --randamount 1t --blockvarpct 0 --nolive --timelimit {} --jsonfile {} {arguments} {path}",
            (self.seconds - 1.0).ceil().max(1.0),
            elbencho_file().display()
        );
        Some(Contender { name: "elbencho", command: words(&line), reader: Reader::Elbencho })
    }

    fn sysbench(&self, mode: &str) -> Contender {
        let line = format!(
            "env -C {} sysbench fileio --file-total-size=512M --file-num=1 --file-block-size=4096 --file-test-mode={mode} --file-fsync-freq=0 --time={} run",
            self.sysbench_dir.display(),
            self.seconds.ceil().max(1.0)
        );
        Contender { name: "sysbench sync", command: words(&line), reader: Reader::Sysbench }
    }
}

/// Reads a file to its end, to bring it into the page cache.
fn warm(path: &str) -> Result<(), String> {
    let mut file = fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
    std::io::copy(&mut file, &mut std::io::sink()).map_err(|e| format!("{path}: {e}"))?;
    Ok(())
}

/// Writes a file of FILE_BYTES through the page cache, so that it is cached afterwards.
fn fill(path: &Path, iodyno: &Path) -> Result<(), String> {
    let random = fs::read(iodyno).map_err(|e| e.to_string())?;
    let mut content = Vec::with_capacity(FILE_BYTES as usize);
    while content.len() < FILE_BYTES as usize {
        content.extend_from_slice(&random);
    }
    content.truncate(FILE_BYTES as usize);
    fs::write(path, content).map_err(|e| format!("{}: {e}", path.display()))
}

const TUNED: &str = "--ioengine=io_uring --iodepth=32 --registerfiles --fixedbufs --iodepth_batch_submit=16 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=32";

fn cases(s: &Site) -> Vec<Case> {
    without_storage(s).into_iter().chain(on_tmpfs(s)).chain(in_page_cache(s)).collect()
}

/// Comparisons without storage, which measure the cost of the tools themselves.
fn without_storage(s: &Site) -> Vec<Case> {
    let zero = "--filename=/dev/zero --size=512m --rw=randread";
    vec![
        Case {
            name: "null-depth-32",
            contenders: vec![
                s.iodyno("random-read --on null: --depth 32"),
                s.fio("fio null", "--ioengine=null --iodepth=32 --size=1t --rw=randread"),
            ],
        },
        Case {
            name: "zero-uring-depth-32",
            contenders: vec![
                s.iodyno("random-read --on /dev/zero?size=512MiB --engine uring --depth 32"),
                s.bare("/dev/zero", FILE_BYTES),
                s.fio("fio io_uring tuned", &format!("{zero} {TUNED}")),
                s.fio("fio io_uring defaults", &format!("{zero} --ioengine=io_uring --iodepth=32")),
            ],
        },
        Case {
            name: "zero-psync",
            contenders: vec![
                s.iodyno("random-read --on /dev/zero?size=512MiB --engine psync --depth 1"),
                s.fio("fio psync", &format!("{zero} --ioengine=psync")),
            ],
        },
        Case {
            name: "ram-threads",
            contenders: vec![
                Contender {
                    name: "iodyno, 2 threads",
                    ..s.iodyno("random-read --on ram:2GiB --threads 2 --depth 32")
                },
                s.bare_ram(2),
                Contender {
                    name: "iodyno, 1 thread",
                    ..s.iodyno("random-read --on ram:2GiB --threads 1 --depth 32")
                },
            ],
        },
    ]
}

/// Comparisons on a file in tmpfs.
fn on_tmpfs(s: &Site) -> Vec<Case> {
    let tmpfs = &s.tmpfs_file;
    let on_tmpfs = format!("--filename={tmpfs} --size=512m --direct=1");
    vec![
        Case {
            name: "tmpfs-direct-read-psync",
            contenders: vec![
                s.iodyno(&format!("random-read --on {tmpfs} --read-only --engine psync --depth 1")),
                s.fio("fio psync", &format!("{on_tmpfs} --rw=randread --ioengine=psync")),
            ],
        }
        .and(s.elbencho(tmpfs, "-r --direct")),
        Case {
            name: "tmpfs-direct-read-libaio-32",
            contenders: vec![
                s.iodyno(&format!("random-read --on {tmpfs} --read-only --engine libaio --depth 32")),
                s.fio("fio libaio", &format!("{on_tmpfs} --rw=randread --ioengine=libaio --iodepth=32")),
                s.fio("fio libaio batch 16", &format!("{on_tmpfs} --rw=randread --ioengine=libaio --iodepth=32 --iodepth_batch_submit=16 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=32")),
            ],
        }
        .and(s.elbencho(tmpfs, "-r --direct --iodepth 32")),
        Case {
            name: "tmpfs-direct-write-psync",
            contenders: vec![
                s.iodyno(&format!("random-write --on {tmpfs} --destroy {tmpfs} --engine psync --depth 1")),
                s.fio("fio psync", &format!("{on_tmpfs} --rw=randwrite --ioengine=psync")),
            ],
        }
        .and(s.elbencho(tmpfs, "-w --direct")),
        Case {
            name: "tmpfs-buffered-read-psync",
            contenders: vec![
                s.iodyno(&format!("random-read --on {tmpfs}?direct=no --read-only --engine psync --depth 1")),
                s.fio("fio psync", &format!("--filename={tmpfs} --size=512m --invalidate=0 --rw=randread --ioengine=psync")),
                s.sysbench("rndrd"),
            ],
        }
        .and(s.elbencho(tmpfs, "-r")),
    ]
}

/// Comparisons on a file in the page cache.
fn in_page_cache(s: &Site) -> Vec<Case> {
    let cached = &s.cached_file;
    let on_cached = format!("--filename={cached} --size=512m --invalidate=0 --rw=randread");
    vec![
        Case {
            name: "page-cache-read-psync",
            contenders: vec![
                s.iodyno(&format!(
                    "random-read --on {cached}?direct=no --read-only --engine psync --depth 1"
                )),
                s.fio("fio psync", &format!("{on_cached} --ioengine=psync")),
            ],
        }
        .and(s.elbencho(cached, "-r")),
        Case {
            name: "page-cache-read-uring-32",
            contenders: vec![
                s.iodyno(&format!(
                    "random-read --on {cached}?direct=no --read-only --engine uring --depth 32"
                )),
                s.bare(cached, FILE_BYTES),
                s.fio("fio io_uring tuned", &format!("{on_cached} {TUNED}")),
                s.fio(
                    "fio io_uring defaults",
                    &format!("{on_cached} --ioengine=io_uring --iodepth=32"),
                ),
            ],
        },
    ]
}
