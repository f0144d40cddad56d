//! Writes results to standard output, and everything else to standard error.

use crate::failure::Failure;
use iodyno_units::text::{clean, is_hidden};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// Writes a result to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Failure::output("standard output", &e)),
    }
}

/// Writes to standard error. Unlike `eprint!`, does not panic if standard error is closed, which
/// would end a measurement.
pub(crate) fn complain(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Formats a path as a single line of text.
pub(crate) fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy()).into_owned()
}

/// Writes a line to standard error: a label such as `note`, and a text that may quote a file, a server or a
/// device.
pub(crate) fn remark(kind: &str, words: &str) {
    complain(&format!("{kind}: {}\n", clean(words)));
}

/// Writes a text to standard output, as [`print_bytes`] does.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    print_bytes(text.as_bytes())
}

/// Prints an indented JSON document, followed by a newline. Invisible characters are escaped as `\u…`.
pub(crate) fn print_json(document: &serde_json::Value) -> Result<ExitCode, Failure> {
    let mut out = Escaping(BufWriter::new(std::io::stdout().lock()));
    // In pieces: the text may be large.
    let written = serde_json::to_writer_pretty(&mut out, document).map_err(std::io::Error::from);
    match written.and_then(|()| out.0.write_all(b"\n")).and_then(|()| out.0.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Failure::output("standard output", &e)),
    }
}

/// The text that [`print_json`] prints.
pub(crate) fn json_text(document: &serde_json::Value) -> Vec<u8> {
    let mut out = Escaping(Vec::new());
    // A vector takes every write.
    let _ = serde_json::to_writer_pretty(&mut out, document);
    out.0.push(b'\n');
    out.0
}

/// Writer that escapes invisible characters in a JSON document. A write must not end within a UTF-8
/// character.
struct Escaping<W>(W);

impl<W: std::io::Write> std::io::Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let hidden = |c: char| is_hidden(c) && c != '\n';
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(hidden) => {
                for c in text.chars() {
                    if hidden(c) {
                        for unit in c.encode_utf16(&mut [0; 2]) {
                            write!(self.0, "\\u{unit:04x}")?;
                        }
                    } else {
                        write!(self.0, "{c}")?;
                    }
                }
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
