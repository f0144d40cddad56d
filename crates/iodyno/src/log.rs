//! `iodyno log`: creates, checks and serves message logs, and acts as a client of their servers.

mod check;
mod client;
mod create;
mod print;
mod publish;
mod read;
mod read_target;
mod serve;

use crate::args::{Cli, Log, LogCommand};
use crate::console::print;
use crate::failure::Failure;
use crate::{log_bench, secrets};
use iodyno_catalog::input::read_bytes;
use iodyno_page::terminal::Style;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Maximum size of an access token, bytes.
const TOKEN_BYTES_MAX: u64 = 1024;

pub(crate) fn command(
    flags: &Log,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    match &flags.command {
        LogCommand::Bench(flags) => log_bench::command(flags, cli, words, style),
        LogCommand::Create(flags) => create::command(flags),
        LogCommand::Check(flags) => check::command(flags),
        LogCommand::Serve(flags) => serve::command(flags),
        LogCommand::Publish(flags) => publish::command(flags),
        LogCommand::Subscribe(flags) => read::subscribe(flags),
        LogCommand::Replay(flags) => read::replay(flags),
        LogCommand::Query(flags) => read::query(flags),
        LogCommand::Status { client } => {
            let status = client::connect(client)?.status().map_err(client::failure)?;
            print(&(status + "\n"))
        }
    }
}

/// Reads the access token from a file, without the newline; empty without a file.
fn token(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let Some(path) = file else { return Ok(Vec::new()) };
    let wrong = |why: &dyn core::fmt::Display| {
        Failure::input(format!("--token-file {}: {why}", path.display()))
    };

    let mut token = read_bytes(path, TOKEN_BYTES_MAX + 2).map_err(|e| wrong(&e))?;
    while token.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        token.pop();
    }
    match token.len() {
        0 => Err(wrong(&"the file contains no token: add one of at least 16 random characters")),
        len if len as u64 > TOKEN_BYTES_MAX => {
            Err(wrong(&format!("a token must have at most {TOKEN_BYTES_MAX} bytes")))
        }
        _ => {
            secrets::warn_if_shared("--token-file", path);
            Ok(token)
        }
    }
}
