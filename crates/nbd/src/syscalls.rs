//! System calls without a safe wrapper in the form needed here: gathering sends and scattering receives on memory that
//! other threads and clients change. The kernel permits that, but a Rust slice over such memory would be unsound, so
//! these functions take addresses.
//!
//! No call raises SIGPIPE. Only [`receive`], [`receive_into`], [`wait`], [`wait_or_signal`] and [`connect_unix`] block.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of memory ranges per system call, as limited by the kernel.
pub(crate) const PIECES_MAX: usize = 1024;

/// A memory range in the form that the kernel expects.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Span(libc::iovec);

impl Span {
    pub(crate) fn new(start: *const u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iov_len
    }

    pub(crate) fn skip(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.0.iov_len);
        self.0.iov_base = self.0.iov_base.wrapping_byte_add(bytes);
        self.0.iov_len -= bytes;
    }
}

/// Removes the first `bytes` bytes from a list of memory ranges, and returns the rest.
pub(crate) fn advance(mut spans: &mut [Span], mut bytes: usize) -> &mut [Span] {
    while let Some(first) = spans.first_mut() {
        if bytes < first.len() {
            first.skip(bytes);
            break;
        }
        bytes -= first.len();
        spans = &mut spans[1..];
    }
    spans
}

/// Sends memory ranges until the socket is full, without waiting. Returns `Ok(None)` if it was full from the
/// start.
///
/// # Safety
/// All spans are mapped readable memory for the length of the call.
pub(crate) unsafe fn send(fd: BorrowedFd<'_>, spans: &[Span]) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: an all-zero msghdr is a valid empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = spans.as_ptr().cast_mut().cast();
        message.msg_iovlen = spans.len().min(PIECES_MAX) as _;
        // SAFETY: the spans are valid by the caller's promise; Span is an iovec.
        let sent = unsafe {
            libc::sendmsg(
                fd.as_raw_fd(),
                &raw const message,
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        if sent >= 0 {
            return Ok(Some(sent as usize));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Receives into memory ranges. If `block`, waits for the first byte. Returns `Ok(None)` if nothing is
/// available or a signal ended the wait, and 0 at the end of the stream.
///
/// # Safety
/// All spans are mapped writable memory for the length of the call, and no reference to it exists.
pub(crate) unsafe fn receive(
    fd: BorrowedFd<'_>,
    spans: &mut [Span],
    block: bool,
) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: an all-zero msghdr is a valid empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = spans.as_mut_ptr().cast();
        message.msg_iovlen = spans.len().min(PIECES_MAX) as _;
        let flags = if block { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the spans are valid by the caller's promise; Span is an iovec.
        let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
        if received >= 0 {
            return Ok(Some(received as usize));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted if block => return Ok(None),
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Like [`receive`], into a slice.
pub(crate) fn receive_into(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    block: bool,
) -> io::Result<Option<usize>> {
    let mut spans = [Span::new(buffer.as_mut_ptr(), buffer.len())];
    // SAFETY: the slice is exclusively borrowed for the length of the call.
    unsafe { receive(fd, &mut spans, block) }
}

/// Connects to a Unix socket. Fails if the server's backlog of connections stays full until the deadline.
pub(crate) fn connect_unix(path: &Path, deadline: Instant) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(e) => return Err(e.into()),
        }
    }
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// Enlarges the buffer of a Unix socket to hold a few large payloads, so that the ends wait for each other
/// less often. The kernel may cap the size. TCP buffers adapt by themselves.
pub(crate) fn deepen(fd: BorrowedFd<'_>) {
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(fd, 1 << 20);
}

/// Number of sent bytes that the peer has not read yet; `None` if unknown. Over TCP, bytes count as read once
/// they reach the peer's kernel.
pub(crate) fn untaken_bytes(fd: BorrowedFd<'_>) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    (result == 0).then_some(bytes as usize)
}

/// Whether the descriptor is a Unix socket.
pub(crate) fn is_unix(fd: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_domain(fd).is_ok_and(|d| d == rustix::net::AddressFamily::UNIX)
}

/// Events that ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// Whether data can be read, or the peer has disconnected.
    pub(crate) readable: bool,
    /// Whether data can be written, or the peer has disconnected.
    pub(crate) writable: bool,
    /// Whether the waker was signalled.
    pub(crate) waker: bool,
}

impl Woken {
    /// Whether the wait timed out without any event.
    pub(crate) fn nothing(self) -> bool {
        self == Self::default()
    }
}

/// Waits until the socket is ready for reading or writing, the waker is signalled, or the deadline passes.
pub(crate) fn wait(
    fd: BorrowedFd<'_>,
    read: bool,
    write: bool,
    waker: Option<&Waker>,
    deadline: Option<Instant>,
) -> io::Result<Woken> {
    loop {
        if let Some(woken) = wait_or_signal(fd, read, write, waker, deadline)? {
            return Ok(woken);
        }
    }
}

/// Like [`wait`], but returns `None` if a signal ends it.
pub(crate) fn wait_or_signal(
    fd: BorrowedFd<'_>,
    read: bool,
    write: bool,
    waker: Option<&Waker>,
    deadline: Option<Instant>,
) -> io::Result<Option<Woken>> {
    let mut events = PollFlags::empty();
    if read {
        events |= PollFlags::IN;
    }
    if write {
        events |= PollFlags::OUT;
    }
    let waker_fd = waker.map_or(fd, |b| b.0.as_fd());
    let mut fds =
        [PollFd::from_borrowed_fd(fd, events), PollFd::from_borrowed_fd(waker_fd, PollFlags::IN)];
    let fds = if waker.is_some() { &mut fds[..] } else { &mut fds[..1] };
    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
    match poll(fds, left.map(timespec).as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    let got = fds[0].revents();
    let gone = got.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    Ok(Some(Woken {
        readable: gone || got.contains(PollFlags::IN),
        writable: gone || got.contains(PollFlags::OUT),
        waker: fds.get(1).is_some_and(|f| !f.revents().is_empty()),
    }))
}

pub(crate) fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as _, tv_nsec: d.subsec_nanos() as _ }
}

/// Event on which a thread can wait together with a socket, and by which other threads wake it.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn wake(&self) {
        // Fails only after 2^64 signals.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Raises this process's limit of open files to at least `wanted`, as far as its hard limit allows.
pub(crate) fn raise_file_limit(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|now| now < wanted) {
        let current = Some(maximum.map_or(wanted, |max| max.min(wanted)));
        // If it is refused, accepting reports the error when files run out.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_advance_over_whole_and_partial_pieces() {
        let bytes = [0u8; 10];
        let make = || {
            [
                Span::new(bytes.as_ptr(), 3),
                Span::new(bytes.as_ptr(), 0),
                Span::new(bytes.as_ptr(), 7),
            ]
        };
        for sent in 0..=10 {
            let mut spans = make();
            let left = advance(&mut spans, sent);
            assert_eq!(left.iter().map(Span::len).sum::<usize>(), 10 - sent);
            assert!(sent == 0 || left.first().is_none_or(|s| s.len() > 0));
        }
    }
}
