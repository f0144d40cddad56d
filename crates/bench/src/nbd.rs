//! Comparison of NBD servers that answer from memory: iodyno's (`serve ram:`), nbdkit's memory plugin, and qemu-nbd
//! with a file in memory. The load comes from iodyno's client and from fio's nbd engine.
//!
//! Run `cargo build --release -p iodyno -p iodyno-nbd --examples --bins` for the server and the client (`load`), then
//! `cargo run -p iodyno-bench --release -- nbd [--reps N] [--seconds S] [--out DIR]`.
//!
//! All servers run throughout and hold the same random bytes. In each repetition each case runs against one server
//! after the other. CPU time is the server's own, from `/proc`.

use crate::tables::{Spread, rate, ratio, spread};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SIZE_MIB: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(10);

struct Options {
    reps: usize,
    seconds: f64,
    out: PathBuf,
}

/// An NBD server process, killed on drop.
struct Server {
    name: &'static str,
    child: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client program and its workload.
struct Case {
    name: &'static str,
    by: By,
    block_bytes: u32,
    depth: u32,
    connections: u32,
    writes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Load,
    Fio,
}

const fn reads(name: &'static str, by: By, block_bytes: u32, depth: u32, connections: u32) -> Case {
    Case { name, by, block_bytes, depth, connections, writes: false }
}

const CASES: &[Case] = &[
    reads("4 KiB random reads, depth 32, 1 connection, our client", By::Load, 4096, 32, 1),
    reads("4 KiB random reads, depth 32, 4 connections, our client", By::Load, 4096, 32, 4),
    Case {
        name: "4 KiB random writes, depth 32, 1 connection, our client",
        by: By::Load,
        block_bytes: 4096,
        depth: 32,
        connections: 1,
        writes: true,
    },
    reads("4 KiB random reads, depth 32, 4 connections, fio", By::Fio, 4096, 32, 4),
    reads("64 KiB random reads, depth 32, 1 connection, our client", By::Load, 65536, 32, 1),
    reads("64 KiB random reads, depth 32, 4 connections, our client", By::Load, 65536, 32, 4),
    reads("4 KiB random reads, depth 1, 1 connection, our client", By::Load, 4096, 1, 1),
    reads("4 KiB random reads, depth 1, 1 connection, fio", By::Fio, 4096, 1, 1),
];

/// Results of one run: rate, CPU time of the server per I/O, and median latency.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    iops: f64,
    server_us: f64,
    p50_us: f64,
}

pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let bench = std::env::current_exe().map_err(|e| e.to_string())?;
    let (iodyno, load) = (bench.with_file_name("iodyno"), bench.with_file_name("examples/load"));
    for program in [&iodyno, &load] {
        if !program.exists() {
            return Err(format!("{} is missing: see crates/bench/src/nbd.rs", program.display()));
        }
    }
    let folder = tempfile(Path::new("/dev/shm"))?;
    let servers = start(&folder, &iodyno)?;
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let mut raw = String::from("case,server,rep,iops,server_cpu_us_per_io,p50_us\n");
    let mut summary = String::new();
    for case in CASES {
        let mut all: Vec<Vec<Figures>> = servers.iter().map(|_| Vec::new()).collect();
        for rep in 0..options.reps {
            for (server, figures) in servers.iter().zip(&mut all) {
                let of = match case.by {
                    By::Load => by_load(&load, server, case, options.seconds)?,
                    By::Fio => by_fio(server, case, options.seconds, &folder)?,
                };
                let Figures { iops, server_us, p50_us } = of;
                let name = server.name;
                let _ = writeln!(
                    raw,
                    "\"{}\",{name},{rep},{iops:.0},{server_us:.3},{p50_us:.2}",
                    case.name
                );
                figures.push(of);
            }
        }
        let table = table(case, &servers, &all);
        print!("{table}");
        summary.push_str(&table);
    }
    drop(servers);
    let _ = fs::remove_dir_all(&folder);
    fs::write(options.out.join("nbd.csv"), &raw).map_err(|e| e.to_string())?;
    fs::write(options.out.join("nbd.txt"), &summary).map_err(|e| e.to_string())?;
    println!("raw data: {}", options.out.display());
    Ok(())
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options { reps: 5, seconds: 2.0, out: PathBuf::from("bench/out") };
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let wrong = || format!("{flag} {value}: the value is not valid");
        match flag.as_str() {
            "--reps" => options.reps = value.parse::<usize>().map_err(|_| wrong())?.max(1),
            "--seconds" => options.seconds = value.parse().map_err(|_| wrong())?,
            "--out" => options.out = value.into(),
            _ => {
                return Err(format!(
                    "unknown option {flag}: the options are --reps, --seconds and --out"
                ));
            }
        }
    }
    Ok(options)
}

fn tempfile(within: &Path) -> Result<PathBuf, String> {
    let folder = within.join(format!("iodyno-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// Starts all installed NBD servers, and fills them with random bytes.
fn start(folder: &Path, iodyno: &Path) -> Result<Vec<Server>, String> {
    let image = folder.join("image");
    let bytes = SIZE_MIB << 20;
    let random = Command::new("dd")
        .args(["if=/dev/urandom", "bs=1M", "status=none"])
        .arg(format!("count={SIZE_MIB}"))
        .arg(format!("of={}", image.display()))
        .status();
    if !random.is_ok_and(|status| status.success()) {
        return Err(format!("{} can't be written", image.display()));
    }
    let copy = folder.join("copy");
    fs::copy(&image, &copy).map_err(|e| e.to_string())?;
    let socket = |name: &str| folder.join(format!("{name}.sock"));
    let text = |path: &Path| path.display().to_string();
    let ours = [
        text(iodyno),
        "serve".to_owned(),
        format!("ram:{SIZE_MIB}MiB"),
        "--nbd".to_owned(),
        format!("unix:{}", text(&socket("iodyno"))),
    ];
    let nbdkit = ["nbdkit", "-f", "-U", &text(&socket("nbdkit")), "memory", &bytes.to_string()]
        .map(str::to_owned);
    let qemu =
        ["qemu-nbd", "-t", "-e", "8", "-f", "raw", "-k", &text(&socket("qemu-nbd")), &text(&copy)]
            .map(str::to_owned);
    let commands = [("iodyno", &ours[..]), ("nbdkit", &nbdkit), ("qemu-nbd", &qemu)];
    let mut servers = Vec::new();
    for (name, command) in commands {
        let child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{name}: {e}"))?;
        let server = Server { name, child, socket: socket(name) };
        let since = Instant::now();
        while !server.socket.exists() {
            if since.elapsed() > PATIENCE {
                return Err(format!("{name} does not listen for connections"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let filled = Command::new("nbdcopy").arg(&image).arg(uri(&server)).status();
        if !filled.is_ok_and(|status| status.success()) {
            return Err(format!("{name} can't be filled by nbdcopy"));
        }
        servers.push(server);
    }
    Ok(servers)
}

fn uri(server: &Server) -> String {
    format!("nbd+unix:///?socket={}", server.socket.display())
}

fn by_load(load: &Path, server: &Server, case: &Case, seconds: f64) -> Result<Figures, String> {
    let output = Command::new(load)
        .arg(uri(server))
        .arg(if case.writes { "write" } else { "read" })
        .args([case.block_bytes, case.depth, case.connections].map(|n| n.to_string()))
        .args([seconds.to_string(), server.child.id().to_string()])
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    // Fields: IOPS, MiB/s, server, client, median.
    let [iops, _, server_us, _, p50_us] = numbers[..] else {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} through our client: {text}{errors}", server.name));
    };
    Ok(Figures { iops, server_us, p50_us })
}

fn by_fio(server: &Server, case: &Case, seconds: f64, folder: &Path) -> Result<Figures, String> {
    let file = folder.join("fio.json");
    let before = cpu_s(server);
    let output = Command::new("fio")
        .args(["--name=a", "--ioengine=nbd", "--time_based", "--norandommap", "--group_reporting"])
        .args(["--thread", "--output-format=json", &format!("--output={}", file.display())])
        .arg(format!("--uri={}", uri(server)))
        .arg(format!("--rw={}", if case.writes { "randwrite" } else { "randread" }))
        .arg(format!("--bs={}", case.block_bytes))
        .arg(format!("--iodepth={}", case.depth))
        .arg(format!("--numjobs={}", case.connections))
        .arg(format!("--runtime={seconds}"))
        .output()
        .map_err(|e| e.to_string())?;
    let cpu_s = cpu_s(server) - before;
    let wrong =
        || format!("{} through fio: {}", server.name, String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&file).map_err(|_| wrong())?;
    // fio's nbd engine prints a greeting first.
    let text = &text[text.find('{').ok_or_else(wrong)?..];
    let json: serde_json::Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let of = &json["jobs"][0][if case.writes { "write" } else { "read" }];
    let ios = of["total_ios"].as_f64().filter(|&n| n > 0.0).ok_or_else(wrong)?;
    Ok(Figures {
        iops: of["iops"].as_f64().unwrap_or(0.0),
        server_us: cpu_s * 1e6 / ios,
        p50_us: of["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap_or(0.0) / 1e3,
    })
}

/// CPU time of a server process, user and system, s.
fn cpu_s(server: &Server) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn table(case: &Case, servers: &[Server], all: &[Vec<Figures>]) -> String {
    let mut text = format!("\n{}\n", case.name);
    for (server, figures) in servers.iter().zip(all) {
        let of = |f: fn(&Figures) -> f64| spread(&figures.iter().map(f).collect::<Vec<_>>());
        let against = |f: fn(&Figures) -> f64| -> Spread {
            spread(&all[0].iter().zip(figures).map(|(a, b)| f(a) / f(b)).collect::<Vec<_>>())
        };
        let iops = of(|f| f.iops);
        let _ = write!(text, "  {:<9} {:<26}", server.name, rate(iops));
        if case.block_bytes > 4096 {
            let mib = iops.median * f64::from(case.block_bytes) / f64::from(1 << 20);
            let _ = write!(text, " {mib:>6.0} MiB/s");
        }
        let _ = write!(text, "  server {:>5.2} µs an I/O", of(|f| f.server_us).median);
        if case.depth == 1 {
            let _ = write!(text, "  p50 {:>5.1} µs", of(|f| f.p50_us).median);
        }
        if server.name != servers[0].name {
            let cpu = against(|f| f.server_us);
            let _ =
                write!(text, "  ours is × {}, CPU × {:.2}", ratio(against(|f| f.iops)), cpu.median);
        }
        text.push('\n');
    }
    text
}
