//! Parses the command line flags of `iodyno-mpi` itself, and starts `mpirun`.

use iodyno::Terminals;
use iodyno_ranks::Timing;
use iodyno_units::parse_duration_ns;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

const HELP: &str = "\
Run one measurement, or the cells of a sweep, with several processes (ranks) of an MPI job.

Usage: iodyno-mpi [FLAGS] run|resume|study ...
       mpirun -n 8 --hostfile hosts iodyno-mpi run ...
       srun -n 64 iodyno-mpi run ...

With --hosts, --hostfile or --ranks, starts the ranks through mpirun. Otherwise, runs as a rank of the job that started it.
Takes all flags of `iodyno run`, `resume` and `study`. Three flags of `run` are for ranks: --on-host, --shared, --overlap.

  --hosts HOST:RANKS,...   start this many ranks on each host [default: 1 per host]
  --hostfile FILE          take the hosts from this file, in the format of your mpirun
  --ranks N                start N ranks in total, on this host or on those of --hosts or --hostfile
  --mpi-bin PROGRAM        start the ranks with this program [default: mpirun]
  --mpi-args 'ARGS'        pass these arguments to mpirun; may be repeated
  --allow-run-as-root      pass --allow-run-as-root to mpirun
  --patience TIME          end the run if a rank is silent for this long [default: 10s]
  --terminals out,err,120  say which outputs are terminals, and their columns, since launchers hide this from ranks;
                           controls colours and the progress line; automatic if iodyno-mpi starts mpirun
  -h, --help               print this text
  -V, --version            print the version

Each rank has --threads workers per target. See docs/many-hosts.md.
";

/// Action that a command line requests.
#[derive(Debug)]
pub(crate) enum Launch {
    /// Start the ranks by running this launcher command.
    Start(Command),
    /// Run as one of the ranks, and execute the iodyno command in `words`.
    Rank { words: Vec<OsString>, timing: Timing, terminals: Option<Terminals> },
    /// Print this text, such as help.
    Print(String),
}

/// Flags of the MPI program itself, which are removed from iodyno's command line.
#[derive(Debug, Default)]
struct Flags {
    hosts: Option<String>,
    hostfile: Option<String>,
    ranks: Option<u32>,
    mpi_bin: Option<String>,
    mpi_args: Vec<String>,
    allow_run_as_root: bool,
    patience: Option<String>,
    terminals: Option<Terminals>,
}

impl Launch {
    pub(crate) fn from_arguments(arguments: Vec<OsString>) -> Result<Self, String> {
        let (flags, words) = Flags::taken_from(arguments)?;
        match command_of(&words).as_deref() {
            Some("run" | "resume" | "study") => {}
            None => {
                let asks = |long: &str, short: &str| words.iter().any(|w| w == long || w == short);
                return Ok(Self::Print(if asks("--version", "-V") {
                    format!("iodyno-mpi {}\n", env!("CARGO_PKG_VERSION"))
                } else {
                    HELP.to_owned()
                }));
            }
            Some(other) => {
                return Err(format!(
                    "`{other}` needs no ranks: use `iodyno {other}`; iodyno-mpi has only run, resume and study"
                ));
            }
        }
        let patience = match &flags.patience {
            None => Timing::default().patience,
            Some(text) => {
                let ns = parse_duration_ns(text).map_err(|e| format!("--patience: {e}"))?;
                Duration::from_nanos(ns)
            }
        };
        if patience < Duration::from_secs(2) {
            return Err(
                "--patience must be 2s or more, since a rank sends a heartbeat twice a second"
                    .to_owned(),
            );
        }
        // A single process here needs no launcher.
        if flags.starts_ranks() && !flags.is_one_here() {
            return Ok(Self::Start(flags.command(&words)?));
        }
        Ok(Self::Rank { words, timing: Timing { patience }, terminals: flags.terminals })
    }
}

impl Flags {
    /// Separates this program's own flags from the other arguments.
    fn taken_from(arguments: Vec<OsString>) -> Result<(Self, Vec<OsString>), String> {
        let (mut flags, mut words) = (Self::default(), Vec::new());
        let mut arguments = arguments.into_iter();
        while let Some(word) = arguments.next() {
            let Some(text) = word.to_str() else {
                words.push(word);
                continue;
            };
            if text == "--allow-run-as-root" {
                flags.allow_run_as_root = true;
                continue;
            }
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let known = [
                "--hosts",
                "--hostfile",
                "--ranks",
                "--mpi-bin",
                "--mpi-args",
                "--patience",
                "--terminals",
            ];
            if !known.contains(&name) {
                words.push(word);
                continue;
            }
            let name = name.to_owned();
            let value = match joined {
                Some(value) => value,
                None => arguments
                    .next()
                    .and_then(|value| value.into_string().ok())
                    .ok_or_else(|| format!("{name} needs a value"))?,
            };
            match name.as_str() {
                "--hosts" => flags.hosts = Some(value),
                "--hostfile" => flags.hostfile = Some(value),
                "--mpi-bin" => flags.mpi_bin = Some(value),
                "--mpi-args" => flags.mpi_args.push(value),
                "--patience" => flags.patience = Some(value),
                "--terminals" => {
                    let read =
                        value.parse::<Terminals>().map_err(|e| format!("--terminals: {e}"))?;
                    flags.terminals = Some(read);
                }
                _ => {
                    let number = value.parse().ok().filter(|n| *n > 0);
                    flags.ranks = Some(number.ok_or_else(|| {
                        format!("--ranks {value}: this must be a number of processes, 1 or more")
                    })?);
                }
            }
        }
        Ok((flags, words))
    }

    fn starts_ranks(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some() || self.ranks.is_some()
    }

    fn is_one_here(&self) -> bool {
        self.ranks == Some(1) && self.hosts.is_none() && self.hostfile.is_none()
    }

    /// Builds the command that starts the ranks: the MPI launcher with its flags, then this program with the
    /// remaining arguments.
    fn command(&self, words: &[OsString]) -> Result<Command, String> {
        if self.hosts.is_some() && self.hostfile.is_some() {
            return Err("--hosts and --hostfile both name hosts: give one of them".to_owned());
        }
        let own = std::env::current_exe()
            .map_err(|e| format!("could not find the path of this program: {e}"))?;
        let mut command = Command::new(self.mpi_bin.as_deref().unwrap_or("mpirun"));
        let mut ranks = self.ranks;
        if let Some(hosts) = &self.hosts {
            let mut all = 0;
            for host in hosts.split(',') {
                let (name, count) = host.split_once(':').unwrap_or((host, "1"));
                let count = count.parse::<u32>().ok().filter(|n| *n > 0 && !name.is_empty());
                all += count.ok_or_else(|| {
                    format!("--hosts: `{host}` is not HOST or HOST:RANKS, such as node1:4")
                })?;
            }
            ranks = ranks.or(Some(all));
            command.args(["--host", hosts]);
        }
        if let Some(file) = &self.hostfile {
            command.args(["--hostfile", file]);
        }
        if let Some(ranks) = ranks {
            command.args(["-n", &ranks.to_string()]);
        }
        if self.allow_run_as_root {
            command.arg("--allow-run-as-root");
        }
        command.args(self.mpi_args.iter().flat_map(|words| words.split_whitespace()));
        command.arg(own);
        if let Some(patience) = &self.patience {
            command.args(["--patience", patience]);
        }
        let terminals = self.terminals.unwrap_or_else(Terminals::own);
        command.args(["--terminals", &terminals.to_string()]);
        command.args(&words[1..]);
        Ok(command)
    }
}

/// Returns the iodyno command: the first argument that is neither a flag nor a flag's value. `None` if there is none.
fn command_of(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--notebook" | "--color" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}

/// Replaces this process by the MPI launcher, which starts the ranks.
pub(crate) fn start(mut command: Command) -> ExitCode {
    let e = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    eprintln!(
        "error: {program}: {e}: install an MPI (Debian: openmpi-bin), or name its launcher with --mpi-bin"
    );
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(words: &str) -> Result<Launch, String> {
        let words = std::iter::once("iodyno-mpi").chain(words.split_whitespace());
        Launch::from_arguments(words.map(OsString::from).collect())
    }

    #[test]
    fn hosts_start_a_launcher_with_the_same_command() {
        let line = "--terminals=err,80 run random-read --hosts a:2,b:4 --on-host a=/dev/x --patience=5s --mpi-args --oversubscribe --time 3s";
        let Ok(Launch::Start(command)) = launched(line) else { panic!() };
        let own = std::env::current_exe().unwrap();
        let expected = format!(
            "--host a:2,b:4 -n 6 --oversubscribe {} --patience 5s --terminals err,80 run random-read --on-host a=/dev/x --time 3s",
            own.display()
        );
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy().into_owned()).collect();
        assert_eq!((command.get_program().to_str(), words.join(" ")), (Some("mpirun"), expected));
        let line = "--notebook n --terminals err,80 --patience 5s run x";
        let Ok(Launch::Rank { words, timing, terminals }) = launched(line) else { panic!() };
        assert_eq!((words.len(), timing.patience), (5, Duration::from_secs(5)));
        assert_eq!(terminals, Some("err,80".parse().unwrap()));
        assert!(matches!(launched("run x --ranks 1"), Ok(Launch::Rank { .. })));
        assert!(matches!(launched("run x --ranks 1 --hosts a"), Ok(Launch::Start(_))));
    }

    #[test]
    fn wrong_flags_are_named() {
        for (line, says) in [
            ("run x --hosts a:0", "`a:0` is not HOST"),
            ("run x --hosts a --hostfile b", "both name hosts"),
            ("run x --ranks 0", "1 or more"),
            ("run x --ranks", "needs a value"),
            ("run x --patience 1s", "2s or more"),
            ("run x --patience soon", "--patience"),
            ("run x --terminals all", "`all` is not"),
            ("ls --ranks 2", "needs no ranks"),
        ] {
            let error = launched(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
        assert!(matches!(launched("--help"), Ok(Launch::Print(text)) if text.contains("--hosts")));
    }
}
