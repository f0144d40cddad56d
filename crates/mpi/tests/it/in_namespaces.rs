//! Hosts as network namespaces of this machine, each with its own name. `mpirun` reaches them as it would reach others
//! by ssh. Needs root.

use crate::program::{Lab, cells, mpi, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Network namespaces: a switch and some hosts, removed on drop.
struct Hosts {
    names: Vec<String>,
    switch: String,
    agent: PathBuf,
}

fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output));
}

impl Hosts {
    fn new(lab: &Lab, number: u32) -> Self {
        let tag = std::process::id() % 10_000;
        let switch = format!("io{tag}sw");
        let agent = lab.path().join("agent");
        let names: Vec<String> = (0..number).map(|i| format!("io{tag}h{i}")).collect();
        run(&format!("ip netns add {switch}"));
        run(&format!("ip -n {switch} link add br0 type bridge"));
        run(&format!("ip -n {switch} link set br0 up"));
        let mut table = "127.0.0.1 localhost\n".to_owned();
        for (i, name) in names.iter().enumerate() {
            let _ = writeln!(table, "10.77.0.{} {name}", 10 + i);
        }
        for (i, name) in names.iter().enumerate() {
            run(&format!("ip netns add {name}"));
            run(&format!("ip -n {name} link add eth0 type veth peer name p{i} netns {switch}"));
            run(&format!("ip -n {name} addr add 10.77.0.{}/24 dev eth0", 10 + i));
            run(&format!("ip -n {name} link set lo up"));
            run(&format!("ip -n {name} link set eth0 up"));
            run(&format!("ip -n {switch} link set p{i} master br0"));
            run(&format!("ip -n {switch} link set p{i} up"));
            fs::create_dir_all(format!("/etc/netns/{name}")).unwrap();
            fs::write(format!("/etc/netns/{name}/hosts"), &table).unwrap();
        }
        // The last host has a folder of its own where the others have `first`, and sees theirs by another name too.
        let (first, other) = (lab.path().join("first"), lab.path().join("other"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&other).unwrap();
        let (lab_path, last) = (lab.path().display(), &names[names.len() - 1]);
        let own = format!(
            "[ \"$0\" != {last} ] || {{ mount --bind {lab_path} {} && mount -t tmpfs none {}; }}",
            other.display(),
            first.display()
        );
        let script = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do case $1 in -o|-p|-l|-i) shift 2;; *) shift;; esac; done\nh=$1; shift\nexec ip netns exec \"$h\" unshare -u sh -c 'hostname \"$0\"; OWN; eval \"$1\"' \"$h\" \"$*\"\n";
        fs::write(&agent, script.replace("OWN", &own)).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        Self { names, switch, agent }
    }

    /// The program, started on the first of the hosts, with ranks on the others.
    fn launch(&self, lab: &Lab, on: &str, words: &str) -> Command {
        let first = &self.names[0];
        let mut command = Command::new("ip");
        command.args(["netns", "exec", first, "unshare", "-u", "sh", "-c"]);
        command.args(["hostname \"$0\"; exec \"$@\"", first]);
        command.arg(mpi()).arg("--notebook").arg(lab.path().join("n.sqlite"));
        command.args(words.split_whitespace()).args(["--hosts", on, "--allow-run-as-root"]);
        let agent = self.agent.display();
        command.args(["--mpi-args", &format!(
            "--oversubscribe --bind-to none --mca plm_rsh_agent {agent} --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --mca btl self,vader,tcp"
        )]);
        command.current_dir(lab.path()).env("TMPDIR", lab.path()).env_remove("IODYNO_NOTEBOOK");
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
            let _ = fs::remove_dir_all(format!("/etc/netns/{name}"));
        }
    }
}

/// Two hosts with targets of their own. Namespaces share a clock, so the measured offset must be within its bound; the
/// test prints it with the skew of the start.
#[test]
#[ignore = "needs root, for network namespaces"]
fn hosts_measure_together() {
    let lab = Lab::new();
    let hosts = Hosts::new(&lab, 3);
    let [_, a, b] = &hosts.names[..] else { unreachable!() };
    let line = format!(
        "run random-read --on-host {a}=ram:16MiB --on-host {b}=null:1GiB --time 1s --depth 4"
    );
    let run = Lab::json(hosts.launch(&lab, &format!("{a}:2,{b}:1"), &line));
    let (of_ranks, merged) = cells(&run);
    let targets: Vec<&str> = of_ranks.iter().map(|c| c["target"].as_str().unwrap()).collect();
    let expected =
        [format!("{a}#0:ram:16MiB"), format!("{a}#1:ram:16MiB"), format!("{b}#2:null:1GiB")];
    assert_eq!(targets, expected);
    let kept = merged["evidence"]["ranks"].as_array().unwrap();
    let of_host = |rank: &Value| rank["host"].as_str().unwrap().to_owned();
    assert_eq!(kept.iter().map(of_host).collect::<Vec<_>>(), [a.clone(), a.clone(), b.clone()]);
    // One rank a host, each with a processor.
    let mut late = Vec::new();
    let mut bounds = Vec::new();
    let rounds = std::env::var("IODYNO_MPI_STARTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for _ in 0..rounds {
        let line = "run random-read --on ram:16MiB --vary depth=1,2,3,4,5,6,7,8,9,10 --time 50ms";
        let run = Lab::json(hosts.launch(&lab, &format!("{a},{b}"), line));
        for cell in run["cells"].as_array().unwrap() {
            for rank in cell["evidence"]["ranks"].as_array().into_iter().flatten() {
                late.push(rank["start_late_ns"].as_u64().unwrap());
                bounds.push(rank["clock_bound_ns"].as_u64().unwrap());
            }
        }
    }
    late.sort_unstable();
    bounds.sort_unstable();
    let at = |all: &[u64], q: f64| all[((all.len() - 1) as f64 * q) as usize];
    println!(
        "{} starts: late p50 {} ns, p90 {} ns, max {} ns; clocks known to p50 {} ns, max {} ns",
        late.len(),
        at(&late, 0.5),
        at(&late, 0.9),
        at(&late, 1.0),
        at(&bounds, 0.5),
        at(&bounds, 1.0)
    );
    // Files of the request are those of rank 0's host; a file that another host has under another name is shared.
    let workload = "schema = 1\n[mix]\nwrite = 1\n[limits]\ntime = \"100ms\"\nramp = \"0s\"";
    fs::write(lab.path().join("first/w.toml"), workload).unwrap();
    let line = format!(
        "run first/w.toml --on-host {a}=f?size=8MiB --on-host {b}=other/f?size=8MiB --shared"
    );
    let run = Lab::json(hosts.launch(&lab, &format!("{a},{b}"), &line));
    let bytes = |cell: &Value| cell["evidence"]["active_bytes"].as_u64().unwrap();
    let of_ranks: Vec<u64> = cells(&run).0.into_iter().map(bytes).collect();
    assert_eq!(of_ranks, [4 << 20, 4 << 20]);
    // What one host's guard refuses, none writes.
    fs::write(lab.path().join("mine"), b"not iodyno's").unwrap();
    let line = format!("run random-write --on-host {a}=new?size=4MiB --on-host {b}=mine --time 1s");
    let refused = hosts.launch(&lab, &format!("{a},{b}"), &line).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    assert!(text(&refused).contains(&format!("rank 1 on {b}: ")), "{}", text(&refused));
    assert!(!lab.path().join("new").exists(), "nothing is made before all guards have agreed");
}
