//! A connected socket, with or without TLS, for protocols other than NBD. One thread may receive while another sends.

use crate::server::Endpoint;
use crate::syscalls::{self, Span};
use crate::tls::{ClientTls, ServerTls, TlsStream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A connected byte stream over a plain socket or TLS.
pub struct Stream {
    socket: OwnedFd,
    tls: Option<Mutex<TlsStream>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

fn held(lock: &Mutex<TlsStream>) -> MutexGuard<'_, TlsStream> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// Wraps an accepted socket as the server's end of a stream. With TLS, the client must complete the handshake
    /// before the deadline.
    ///
    /// # Errors
    /// The client did not complete the handshake, or the socket failed.
    pub fn accept(socket: OwnedFd, tls: Option<&ServerTls>, deadline: Instant) -> io::Result<Self> {
        let tls = tls.map(|tls| tls.accept(socket.as_fd(), &[], deadline)).transpose()?;
        Ok(Self { socket, tls: tls.map(Mutex::new) })
    }

    /// Connects to a server. With TLS, the server's certificate must be valid for the given name.
    ///
    /// # Errors
    /// No server answers in time, or its certificate is not accepted.
    pub fn connect(
        endpoint: &Endpoint,
        tls: Option<(&ClientTls, &str)>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let socket = match endpoint {
            Endpoint::Unix(path) => syscalls::connect_unix(path, deadline)?,
            Endpoint::Tcp(address) => {
                let socket = TcpStream::connect_timeout(address, timeout)?;
                socket.set_nodelay(true)?;
                socket.into()
            }
        };
        let tls = tls.map(|(tls, name)| tls.connect(name, socket.as_fd(), &[], deadline));
        Ok(Self { tls: tls.transpose()?.map(Mutex::new), socket })
    }

    /// Receives available bytes. If there are none, waits until the deadline (`None`: without limit). Returns 0 if the
    /// peer has stopped sending.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at the deadline, or the error of the socket or of TLS.
    pub fn receive(&self, to: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let fd = self.socket.as_fd();
        loop {
            let received = match &self.tls {
                None => syscalls::receive_into(fd, to, false)?,
                Some(tls) => held(tls).receive(fd, to)?,
            };
            if let Some(bytes) = received {
                return Ok(bytes);
            }
            if syscalls::wait(fd, true, false, None, deadline)?.nothing() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Sends all bytes. If the socket is full, waits until the peer reads, but not beyond the deadline (`None`: without
    /// limit).
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at the deadline, or the error of the socket or of TLS.
    pub fn send(&self, bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        self.send_until(bytes, || deadline, &mut |_| false)
    }

    /// Sends all bytes. While the socket is full, calls `goes_on` after each period `every` with the time since the
    /// last progress, and gives up when `goes_on` returns false.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when `goes_on` returns false, or the error of the socket or of TLS.
    pub fn send_while(
        &self,
        bytes: &[u8],
        every: Duration,
        goes_on: &mut dyn FnMut(Duration) -> bool,
    ) -> io::Result<()> {
        self.send_until(bytes, || Instant::now().checked_add(every), goes_on)
    }

    /// Sends all bytes. If the socket is full, waits until the time that `deadline` returns; `goes_on` then
    /// decides whether to continue.
    fn send_until(
        &self,
        mut bytes: &[u8],
        deadline: impl Fn() -> Option<Instant>,
        goes_on: &mut dyn FnMut(Duration) -> bool,
    ) -> io::Result<()> {
        let fd = self.socket.as_fd();
        let mut stalled_since = None;
        loop {
            let is_sent = match &self.tls {
                None => {
                    // SAFETY: the span is the slice.
                    let sent =
                        unsafe { syscalls::send(fd, &[Span::new(bytes.as_ptr(), bytes.len())]) };
                    bytes = &bytes[sent?.unwrap_or(0)..];
                    bytes.is_empty()
                }
                Some(tls) => {
                    let mut tls = held(tls);
                    let mut is_sent = tls.push_some(fd)?;
                    while is_sent && !bytes.is_empty() {
                        let taken = tls.give(bytes)?;
                        bytes = &bytes[taken..];
                        is_sent = tls.push_some(fd)?;
                    }
                    is_sent
                }
            };
            if is_sent {
                return Ok(());
            }
            let since = *stalled_since.get_or_insert_with(Instant::now);
            if !syscalls::wait(fd, false, true, None, deadline())?.nothing() {
                stalled_since = None;
            } else if !goes_on(since.elapsed()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Whether the peer has closed the connection, or the socket has failed. A TCP peer that only stopped sending
    /// looks the same as one that closed, until something is sent.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&no_wait));
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        polled.is_ok() && fds[0].revents().intersects(gone)
    }

    /// Ends the sending direction, and tells the peer so. Receiving still works.
    pub fn end_sending(&self) {
        if let Some(tls) = &self.tls {
            let _ = held(tls).close(self.socket.as_fd());
        }
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Reads and discards bytes until the peer has closed, but not longer than `at_most`. Closing a socket with
    /// unread bytes would reset the connection and lose the last bytes sent.
    pub fn linger(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        let fd = self.socket.as_fd();
        let mut rest = [0; 16 << 10];
        loop {
            match syscalls::receive_into(fd, &mut rest, false) {
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(_)) if Instant::now() < deadline => {}
                Ok(Some(_)) => return,
                Ok(None) => {
                    let woken = syscalls::wait(fd, true, false, None, Some(deadline));
                    if !woken.is_ok_and(|woken| !woken.nothing()) {
                        return;
                    }
                }
            }
        }
    }

    /// Ends both directions immediately. Blocked calls in other threads return.
    pub fn shut(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Read for &Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.receive(to, None)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, None)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.receive(to, None)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, None)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
