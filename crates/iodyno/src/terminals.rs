//! Detects which outputs are terminals, and the terminal's width. A launcher of ranks hides the terminal: Open MPI
//! provides a pseudo-terminal as standard output, whatever its destination, and a pipe as standard error.

use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;
use std::sync::OnceLock;

/// Width of the output if it is not a terminal, columns.
const WIDTH: u16 = 100;

static TERMINALS: OnceLock<Terminals> = OnceLock::new();

/// Whether standard output and standard error are terminals, and the width of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminals {
    /// Whether standard output is a terminal.
    pub(crate) out: bool,
    /// Whether standard error is a terminal.
    pub(crate) err: bool,
    /// Width of the output, columns.
    pub(crate) columns: u16,
}

impl Terminals {
    pub fn own() -> Self {
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self { out, err, columns: columns() }
    }

    /// The terminals that finally display the output. A launcher of ranks can [`set`](Self::set) its own; the
    /// default is this process's.
    pub(crate) fn of_process() -> Self {
        *TERMINALS.get_or_init(Self::own)
    }

    /// Sets the terminals that `iodyno-mpi` detected before it started the ranks. Must be called before the command
    /// begins.
    pub fn set(self) {
        let _ = TERMINALS.set(self);
    }
}

/// Width of the terminal, columns: from the terminal itself, or else from the variable COLUMNS.
fn columns() -> u16 {
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: an all-zero winsize is valid, and the ioctl fills it or fails.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
        };
        if let Some(size) = size
            && size.ws_col > 0
        {
            return size.ws_col;
        }
    }
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(WIDTH)
}

/// Formats the names of the outputs that are terminals, and the width: `out,err,120`.
impl fmt::Display for Terminals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, is_one) in [("out", self.out), ("err", self.err)] {
            if is_one {
                write!(f, "{name},")?;
            }
        }
        write!(f, "{}", self.columns)
    }
}

impl FromStr for Terminals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = Self { out: false, err: false, columns: WIDTH };
        for word in text.split(',') {
            match word {
                "out" => found.out = true,
                "err" => found.err = true,
                number => {
                    found.columns = number.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                        format!(
                            "`{word}` is not `out`, `err` or a number of columns: use a form such as `out,err,120`"
                        )
                    })?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (out, err) in [(false, false), (true, false), (false, true), (true, true)] {
            let terminals = Terminals { out, err, columns: 132 };
            assert_eq!(terminals.to_string().parse(), Ok(terminals));
        }
        assert_eq!("err".parse(), Ok(Terminals { out: false, err: true, columns: WIDTH }));
        for wrong in ["", "0", "out,", "both"] {
            assert!(wrong.parse::<Terminals>().is_err(), "{wrong}");
        }
    }
}
