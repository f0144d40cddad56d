//! Prints messages as lines on standard output.

use crate::args::LogOutput;
use crate::failure::Failure;
use iodyno_msglog::lines::{LineForm, Lines};
use std::io::{self, Write as _};

pub(super) struct Printer {
    pub(super) lines: Lines,
    /// Whether the output is closed, such as by `| head`.
    pub(super) is_gone: bool,
}

impl Printer {
    pub(super) fn new(form: LogOutput) -> Self {
        let form = match form {
            LogOutput { bodies: true, .. } => LineForm::Body,
            LogOutput { json: true, .. } => LineForm::Json,
            LogOutput { .. } => LineForm::Text,
        };
        Self { lines: Lines::new(form), is_gone: false }
    }

    pub(super) fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.lines.is_full() { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = out.write_all(self.lines.text()).and_then(|()| out.flush());
        self.lines.clear();
        match written {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(())
            }
            Err(e) => Err(Failure::output("standard output", &e)),
            Ok(()) => Ok(()),
        }
    }
}
