//! `iodyno-mpi`: executes a command of `iodyno` on many hosts, as an MPI job of several processes (ranks), by default
//! one per host. With a list of hosts it starts `mpirun`, which runs `iodyno-mpi` on each of them. Under `mpirun`,
//! `srun` or an MPI operator it is one of the ranks. The protocol between ranks is in the crate `iodyno-ranks`;
//! `iodyno-run` uses it.

mod launch;
mod launched;
mod program;
mod transport;

use iodyno_ranks::{Ranks, Timing, serve};
use launch::Launch;
use mpi::Threading;
use mpi::traits::Communicator as _;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use transport::MpiTransport;

/// Stack size of the thread that executes the command, bytes. Equals that of a main thread.
const STACK_BYTES: usize = 8 << 20;
/// Exit code of a rank that fails because of a bug in iodyno.
const FAULT: u8 = 1;

fn main() -> ExitCode {
    match Launch::from_arguments(std::env::args_os().collect()) {
        Ok(Launch::Start(command)) => launch::start(command),
        // MPI takes a while to start, and a single process does not need it.
        Ok(Launch::Rank { words, .. }) if launched::size() == Some(1) => {
            iodyno::main(words.into_iter())
        }
        Ok(Launch::Rank { words, timing, terminals }) => {
            if let Some(terminals) = terminals {
                terminals.set();
            }
            execute(words, timing)
        }
        Ok(Launch::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// Executes an iodyno command as one of the ranks.
fn execute(words: Vec<OsString>, timing: Timing) -> ExitCode {
    // Only this thread calls MPI; the command has its own thread.
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("error: MPI is already initialized in this process");
        return ExitCode::from(FAULT);
    };
    let world = universe.world();
    let (rank, size) = (world.rank() as u32, world.size() as u32);
    if let Some(started) = launched::size().filter(|started| *started != size) {
        eprintln!(
            "error: {started} processes were started, but MPI connects only {size} of them, so each would measure on its own. Start them with the launcher of the MPI that iodyno-mpi was built with; for Slurm that is `srun --mpi=pmix` (`srun --mpi=list` shows what yours has)"
        );
        return ExitCode::from(2);
    }
    let (mut ranks, server) = Ranks::connected(rank, size, timing, iodyno::stop_flag());
    let command = std::thread::Builder::new().name("run".to_owned()).stack_size(STACK_BYTES).spawn(
        move || {
            let met = ranks.meet().and_then(|()| program::differs(&ranks));
            let ranks = Arc::new(ranks);
            let code = match met {
                Ok(Some(why)) => {
                    if ranks.is_first() {
                        eprintln!("error: {why}");
                    }
                    ExitCode::from(2)
                }
                Ok(None) => iodyno::main_of_rank(Arc::clone(&ranks), words.into_iter()),
                Err(lost) => {
                    eprintln!("error: {lost}, before the run began");
                    ExitCode::from(4)
                }
            };
            let lost = ranks.lost();
            ranks.leave();
            (code, lost)
        },
    );
    let command = match command {
        Ok(command) => command,
        Err(e) => {
            eprintln!("error: could not start a thread: {e}");
            transport::abort(FAULT.into());
        }
    };
    let mut transport = MpiTransport::new(rank, size);
    let silent = serve(&mut transport, server);
    let Ok((code, lost)) = command.join() else { transport::abort(FAULT.into()) };
    if silent.or(lost).is_some() {
        // MPI_Finalize would wait for the lost rank forever.
        transport::abort(4);
    }
    transport.flush();
    // The exit code of a job is that of rank 0.
    if rank == 0 { code } else { ExitCode::SUCCESS }
}
