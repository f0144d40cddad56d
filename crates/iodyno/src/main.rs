//! The `iodyno` program: passes its arguments to the library and its result to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    iodyno::main(std::env::args_os())
}
