//! The program with its launcher, in a separate folder.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The launcher's arguments for ranks that share processors.
pub(crate) const SHARING: [&str; 3] =
    ["--allow-run-as-root", "--mpi-args", "--oversubscribe --bind-to none"];

/// A folder, and the programs in it.
pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `iodyno-mpi` with this number of ranks.
    pub(crate) fn ranks(&self, ranks: u32, words: &str) -> Command {
        let mut command = self.command(&mpi(), words);
        command.args(["--ranks", &ranks.to_string()]).args(SHARING);
        command
    }

    /// One process, by the same code: `iodyno-mpi` without a launcher.
    pub(crate) fn alone(&self, words: &str) -> Command {
        self.command(&mpi(), words)
    }

    fn command(&self, program: &Path, words: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--notebook").arg(self.path().join("n.sqlite")).args(words.split_whitespace());
        command.current_dir(self.path()).stdin(Stdio::null());
        command.env("TMPDIR", self.path()).env_remove("IODYNO_NOTEBOOK");
        command
    }

    /// The result of a run, as JSON.
    pub(crate) fn json(mut command: Command) -> Value {
        let output = command.arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
    }
}

pub(crate) fn mpi() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_iodyno-mpi"))
}

pub(crate) fn text(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", output.status, of(&output.stdout), of(&output.stderr))
}

/// Process ids of the ranks that `launcher` started, rank 0 first.
pub(crate) fn ranks_of(launcher: &Child) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let is_ours = line.starts_with(mpi().as_os_str().as_encoded_bytes());
        let variables = String::from_utf8_lossy(&environment).into_owned();
        let of = |name: &str| {
            let value = variables.split('\0').find_map(|v| v.strip_prefix(name));
            value.and_then(|value| value.parse::<u32>().ok())
        };
        // Set by the launcher; its process is the rank's parent, or that of the daemon of another host.
        if let (true, Some(rank)) = (is_ours, of("OMPI_COMM_WORLD_RANK="))
            && is_below(pid, launcher.id())
        {
            found.push((rank, pid));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

fn is_below(mut pid: u32, above: u32) -> bool {
    while pid > 1 {
        if pid == above {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        pid = parent.and_then(|p| p.parse().ok()).unwrap_or(0);
    }
    false
}

/// Cells of single targets, and the merged cell of all targets.
pub(crate) fn cells(run: &Value) -> (Vec<&Value>, &Value) {
    let mut cells: Vec<&Value> = run["cells"].as_array().unwrap().iter().collect();
    let merged = cells.pop().unwrap();
    assert!(merged["target"].as_str().unwrap().starts_with("all ("), "{}", merged["target"]);
    (cells, merged)
}
