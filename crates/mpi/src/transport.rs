//! Exchanges messages between ranks by MPI. Sends and receives are non-blocking, so that a lost rank does not block the
//! others.

use iodyno_ranks::Transport;
use mpi::ffi;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// MPI tag of all messages.
const TAG: c_int = 7;
/// Time limit for sending a rank's last messages when it ends.
const FLUSH_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// Ends all processes of the MPI job with this exit code.
pub(crate) fn abort(code: i32) -> ! {
    // SAFETY: MPI is initialized and not finalized; the call takes no memory.
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    std::process::exit(code)
}

/// An MPI send or receive in progress, with its buffer.
struct InFlight {
    request: ffi::MPI_Request,
    bytes: Vec<u8>,
}

impl InFlight {
    fn is_done(&mut self) -> bool {
        let mut flag: c_int = 0;
        // SAFETY: the request's operation was started and not yet found complete; the status is ignored.
        unsafe {
            ffi::MPI_Test(&raw mut self.request, &raw mut flag, ffi::RSMPI_STATUS_IGNORE);
        }
        flag != 0
    }
}

/// Transport between ranks that are processes of an MPI job.
pub(crate) struct MpiTransport {
    rank: u32,
    size: u32,
    sends: Vec<InFlight>,
    /// For each sending rank, the messages being received, in order of arrival.
    receives: Vec<VecDeque<InFlight>>,
}

impl MpiTransport {
    pub(crate) fn new(rank: u32, size: u32) -> Self {
        let receives = (0..size).map(|_| VecDeque::new()).collect();
        Self { rank, size, sends: Vec::new(), receives }
    }

    /// Waits until MPI has sent all messages, for at most [`FLUSH_MAX`].
    pub(crate) fn flush(&mut self) {
        let until = std::time::Instant::now() + FLUSH_MAX;
        while !self.sends.is_empty() && std::time::Instant::now() < until {
            self.sends.retain_mut(|send| !send.is_done());
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        // MPI may still read this memory, so it must not be freed.
        for send in std::mem::take(&mut self.sends) {
            std::mem::forget(send.bytes);
        }
    }

    /// Starts receiving all messages that have arrived.
    fn begin_receives(&mut self) {
        loop {
            let mut flag: c_int = 0;
            let mut message = MaybeUninit::<ffi::MPI_Message>::uninit();
            let mut status = MaybeUninit::<ffi::MPI_Status>::zeroed();
            // SAFETY: all pointers are to writable memory, and used only during the call.
            unsafe {
                ffi::MPI_Improbe(
                    ffi::RSMPI_ANY_SOURCE,
                    TAG,
                    ffi::RSMPI_COMM_WORLD,
                    &raw mut flag,
                    message.as_mut_ptr(),
                    status.as_mut_ptr(),
                );
            }
            if flag == 0 {
                return;
            }
            // SAFETY: the probe found a message, and wrote both values.
            let (mut message, status) = unsafe { (message.assume_init(), status.assume_init()) };
            let mut len: c_int = 0;
            // SAFETY: the status is that of the probe.
            unsafe { ffi::MPI_Get_count(&raw const status, ffi::RSMPI_UINT8_T, &raw mut len) };
            let mut bytes = vec![0_u8; usize::try_from(len).unwrap_or(0)];
            let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
            // SAFETY: the buffer has the message's length, and lives until the request is complete.
            let request = unsafe {
                ffi::MPI_Imrecv(
                    bytes.as_mut_ptr().cast(),
                    len,
                    ffi::RSMPI_UINT8_T,
                    &raw mut message,
                    request.as_mut_ptr(),
                );
                request.assume_init()
            };
            self.receives[status.MPI_SOURCE as usize].push_back(InFlight { request, bytes });
        }
    }
}

impl Transport for MpiTransport {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&mut self, to: u32, message: Vec<u8>) {
        self.sends.retain_mut(|send| !send.is_done());
        let len = c_int::try_from(message.len()).expect("a cell is shorter than 2 GiB");
        let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
        // SAFETY: the message's memory does not move, and lives until the request is complete.
        let request = unsafe {
            ffi::MPI_Isend(
                message.as_ptr().cast(),
                len,
                ffi::RSMPI_UINT8_T,
                to as c_int,
                TAG,
                ffi::RSMPI_COMM_WORLD,
                request.as_mut_ptr(),
            );
            request.assume_init()
        };
        self.sends.push(InFlight { request, bytes: message });
    }

    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        self.begin_receives();
        for (from, receives) in self.receives.iter_mut().enumerate() {
            if receives.front_mut().is_some_and(InFlight::is_done) {
                return receives.pop_front().map(|done| (from as u32, done.bytes));
            }
        }
        None
    }
}
