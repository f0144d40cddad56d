//! Speed of the emulator: simulated operations per CPU second, the set-up cost of a device, and memory; compared with
//! MQSim if its program is given.
//!
//! `cargo run -p iodyno-bench --release -- simulate [--reps N] [--out DIR] [--mqsim FILE] [--before FILE] [--study
//! yes]`
//!
//! CPU time and memory are those of the whole process, from `wait4`. A run with next to no operations measures a
//! contender's start-up, which is subtracted for the rate. `--before` names an iodyno of another build, which takes
//! turns with this one. MQSim simulates its own default device (512 GB, 8 channels × 4 chips × 2 dies). MQSim's
//! preconditioning did not end within ten minutes, so its device starts empty and does no garbage collection.

use crate::tables::{Spread, rate, spread};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Options {
    reps: usize,
    out: PathBuf,
    mqsim: Option<String>,
    /// Path of an older iodyno executable, run alternately with the current one for comparison; `None` for no
    /// comparison.
    before: Option<String>,
    study: bool,
}

/// Simulated operations of one run, and the resources that its process used.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    operations: f64,
    cpu_s: f64,
    wall_s: f64,
    memory_mib: f64,
}

struct Case {
    name: &'static str,
    workload: &'static str,
    target: &'static str,
    /// Virtual time that the run simulates.
    time: &'static str,
    /// Parameters of the equivalent run of MQSim: percentage of reads, and simulated time in ms; `None` if there
    /// is no equivalent.
    mqsim: Option<(u32, u64)>,
}

const CASES: &[Case] = &[
    Case {
        name: "4 KiB random reads, depth 32, one device",
        workload: "random-read",
        target: "model:exflash-400g",
        time: "30s",
        mqsim: Some((100, 6000)),
    },
    Case {
        name: "4 KiB random writes, depth 32, one device, steady state",
        workload: "random-write",
        target: "model:exflash-400g",
        time: "60s",
        mqsim: Some((0, 10_000)),
    },
    Case {
        name: "67 % reads, 4 KiB, depth 32, one device, steady state",
        workload: "oltp-67-33-4k",
        target: "model:exflash-400g",
        time: "40s",
        mqsim: Some((67, 6000)),
    },
    Case {
        name: "4 KiB random reads, depth 32 on each of 32 devices",
        workload: "random-read",
        target: "model:exflash-400g*32",
        time: "1s",
        mqsim: None,
    },
    Case {
        name: "4 KiB random writes, depth 32 on each of 32 devices, steady state",
        workload: "random-write",
        target: "model:exflash-400g*32",
        time: "2s",
        mqsim: None,
    },
];

pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let bench = std::env::current_exe().map_err(|e| e.to_string())?;
    let iodyno = bench.with_file_name("iodyno");
    if !iodyno.exists() {
        return Err("build iodyno first: `cargo build --release`".to_owned());
    }
    let iodyno = iodyno.display().to_string();
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let mut raw =
        String::from("case,contender,rep,operations,cpu_s,wall_s,memory_mib,startup_cpu_s\n");
    let mut summary = String::new();
    for case in CASES {
        let mut contenders: Vec<(&str, Vec<(Taken, Taken)>)> = vec![("iodyno", Vec::new())];
        if options.mqsim.is_some() && case.mqsim.is_some() {
            contenders.push(("MQSim", Vec::new()));
        }
        if options.before.is_some() {
            contenders.push(("before", Vec::new()));
        }
        for rep in 0..options.reps {
            for (name, taken) in &mut contenders {
                let of = |nothing: bool| {
                    if let (Some(program), Some((reads, ms)), "MQSim") =
                        (&options.mqsim, case.mqsim, *name)
                    {
                        return mqsim(program, reads, if nothing { 0 } else { ms });
                    }
                    let before = options.before.as_ref().filter(|_| *name == "before");
                    ours(before.unwrap_or(&iodyno), case, nothing)
                };
                let (startup, whole) = (of(true)?, of(false)?);
                let _ = writeln!(
                    raw,
                    "\"{}\",{name},{rep},{:.0},{:.3},{:.3},{:.1},{:.3}",
                    case.name,
                    whole.operations,
                    whole.cpu_s,
                    whole.wall_s,
                    whole.memory_mib,
                    startup.cpu_s
                );
                taken.push((startup, whole));
            }
        }
        let table = table(case.name, &contenders);
        print!("{table}");
        summary.push_str(&table);
    }
    if options.study {
        let line = study(&iodyno, &mut raw)?;
        print!("{line}");
        summary.push_str(&line);
    }
    write(&options.out.join("simulate.csv"), &raw)?;
    write(&options.out.join("simulate.txt"), &summary)?;
    println!("raw data: {}", options.out.display());
    Ok(())
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        reps: 5,
        out: PathBuf::from("bench/out"),
        mqsim: None,
        before: None,
        study: false,
    };
    for pair in args.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match flag.as_str() {
            "--reps" => {
                let reps: usize =
                    value.parse().map_err(|_| format!("--reps {value}: the value is not valid"))?;
                options.reps = reps.max(1);
            }
            "--out" => options.out = value.into(),
            "--mqsim" => options.mqsim = Some(value.clone()),
            "--before" => options.before = Some(value.clone()),
            "--study" => options.study = value == "yes",
            _ => {
                return Err(format!(
                    "unknown option {flag}: the options are --reps, --out, --mqsim, --before and --study"
                ));
            }
        }
    }
    Ok(options)
}

fn table(name: &str, contenders: &[(&str, Vec<(Taken, Taken)>)]) -> String {
    let mut text = format!("\n{name}\n");
    let rate_of = |(startup, whole): &(Taken, Taken)| {
        (whole.operations - startup.operations) / (whole.cpu_s - startup.cpu_s)
    };
    for (contender, taken) in contenders {
        let of = |f: &dyn Fn(&(Taken, Taken)) -> f64| -> Spread {
            spread(&taken.iter().map(f).collect::<Vec<_>>())
        };
        let simulated = of(&rate_of);
        let startup = of(&|(startup, _)| startup.cpu_s);
        let memory = of(&|(_, whole)| whole.memory_mib);
        let _ = writeln!(
            text,
            "  {contender:<7} {:<26} I/Os a CPU second   starts in {:.2} s   {:.0} MiB",
            rate(simulated),
            startup.median,
            memory.median
        );
    }
    // Speed drifts within minutes, so compare neighbouring runs pair by pair.
    for (contender, taken) in &contenders[1..] {
        let pairs = contenders[0].1.iter().zip(taken);
        let ratios: Vec<_> = pairs.map(|(ours, other)| rate_of(ours) / rate_of(other)).collect();
        let Spread { median, min, max } = spread(&ratios);
        let _ = writeln!(text, "  × {median:.2} [{min:.2}-{max:.2}] of {contender}");
    }
    text
}

/// Runs a whole study. Returns a text with the wall time and the CPU time of all threads.
fn study(iodyno: &str, raw: &mut String) -> Result<String, String> {
    let mut command = Command::new(iodyno);
    command.args(["study", "lenovo-exflash", "--quiet", "--json"]);
    let taken = measured(&mut command)?.1;
    let _ = writeln!(
        raw,
        "study lenovo-exflash,iodyno,0,,{:.3},{:.3},{:.1},",
        taken.cpu_s, taken.wall_s, taken.memory_mib
    );
    Ok(format!(
        "\nthe whole study lenovo-exflash: {:.0} s, {:.0} s of CPU time, {:.0} MiB\n",
        taken.wall_s, taken.cpu_s, taken.memory_mib
    ))
}

fn ours(iodyno: &str, case: &Case, nothing: bool) -> Result<Taken, String> {
    let time = if nothing { "1us" } else { case.time };
    let mut command = Command::new(iodyno);
    command.args(["run", case.workload, "--on", case.target, "--time", time]);
    command.args(["--ramp", "0s", "--json", "--no-notebook"]);
    let (text, mut taken) = measured(&mut command)?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    // With several targets the last cell is their sum.
    let cell = document["cells"].as_array().and_then(|c| c.last());
    let ops = cell.and_then(|c| Some(c["total"]["iops"].as_f64()? * c["seconds"].as_f64()?));
    taken.operations = match ops {
        Some(ops) => ops,
        None if nothing => 0.0,
        None => return Err("iodyno reported no operations".to_owned()),
    };
    Ok(taken)
}

/// Runs MQSim on its default device with 4 KiB requests, in closed loop at depth 32, for `ms` of simulated
/// time; for 32 requests if `ms` is 0.
fn mqsim(program: &str, reads: u32, ms: u64) -> Result<Taken, String> {
    let folder = std::env::temp_dir().join("iodyno-bench-mqsim");
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let config = Path::new(program).with_file_name("ssdconfig.xml");
    let workload = folder.join("workload.xml");
    let (stop_ns, requests) = if ms == 0 { (0, 32) } else { (ms * 1_000_000, 0) };
    write(
        &workload,
        &format!(
            "<?xml version=\"1.0\" encoding=\"us-ascii\"?>
<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Synthetic>
<Priority_Class>HIGH</Priority_Class>
<Device_Level_Data_Caching_Mode>WRITE_CACHE</Device_Level_Data_Caching_Mode>
<Channel_IDs>0,1,2,3,4,5,6,7</Channel_IDs><Chip_IDs>0,1,2,3</Chip_IDs>
<Die_IDs>0,1</Die_IDs><Plane_IDs>0,1</Plane_IDs>
<Initial_Occupancy_Percentage>75</Initial_Occupancy_Percentage>
<Working_Set_Percentage>100</Working_Set_Percentage>
<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type>
<Read_Percentage>{reads}</Read_Percentage>
<Address_Distribution>RANDOM_UNIFORM</Address_Distribution>
<Percentage_of_Hot_Region>0</Percentage_of_Hot_Region>
<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses>
<Address_Alignment_Unit>8</Address_Alignment_Unit>
<Request_Size_Distribution>FIXED</Request_Size_Distribution>
<Average_Request_Size>8</Average_Request_Size>
<Variance_Request_Size>0</Variance_Request_Size>
<Seed>798</Seed>
<Average_No_of_Reqs_in_Queue>32</Average_No_of_Reqs_in_Queue>
<Intensity>32768</Intensity>
<Stop_Time>{stop_ns}</Stop_Time>
<Total_Requests_To_Generate>{requests}</Total_Requests_To_Generate>
</IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>
"
        ),
    )?;
    // MQSim writes its results next to the workload, and waits for a key at the end.
    let mut command = Command::new(program);
    command.arg("-i").arg(&config).arg("-w").arg(&workload);
    let (_, mut taken) = measured(&mut command)?;
    let results = fs::read_to_string(folder.join("workload_scenario_1.xml"))
        .map_err(|e| format!("MQSim's results: {e}"))?;
    let count = results.split("<Request_Count>").nth(1).and_then(|t| t.split('<').next());
    taken.operations =
        count.and_then(|c| c.parse().ok()).ok_or("MQSim reported no count of requests")?;
    Ok(taken)
}

/// Runs a command. Returns its output and the resources that it used.
fn measured(command: &mut Command) -> Result<(String, Taken), String> {
    let started = std::time::Instant::now();
    let folder = std::env::temp_dir();
    let printed = folder.join(format!("iodyno-bench-{}.out", std::process::id()));
    let file = fs::File::create(&printed).map_err(|e| e.to_string())?;
    let child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both pointers are to locals, and nothing else waits for this child.
    let waited =
        unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
    let text = fs::read_to_string(&printed).unwrap_or_default();
    let _ = fs::remove_file(&printed);
    if waited < 0 || !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        return Err(format!("{} failed: {text}", command.get_program().display()));
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let taken = Taken {
        operations: 0.0,
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        wall_s: started.elapsed().as_secs_f64(),
        memory_mib: usage.ru_maxrss as f64 / 1024.0,
    };
    Ok((text, taken))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
