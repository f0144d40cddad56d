//! Listening sockets of the server, Unix and TCP.

use crate::syscalls::{Waker, timespec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, connect, listen,
    socket_with, sockopt,
};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Idle time after which TCP keep-alive probes whether the client's machine is still reachable.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);

/// Address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// TCP address. With port 0, the operating system chooses the port.
    Tcp(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Reason why a server can't listen at an address or path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The TCP address is reachable from other machines, but there is no TLS, so that anyone could read and
    /// write.
    #[error(
        "{0} is open to other machines, and there is no TLS: give certificates, listen on 127.0.0.1, or allow plain TCP"
    )]
    Open(SocketAddr),
    /// The path exists, but is not a socket.
    #[error("{}: this path is a file, not a socket; name another path", .0.display())]
    NoSocket(PathBuf),
    /// Another server listens at the path.
    #[error("{}: another server already listens on this socket; stop that server, or name another path", .0.display())]
    InUse(PathBuf),
    /// The operating system refused to create the socket.
    #[error("cannot listen on {0}: {1}")]
    System(String, String),
}

impl ListenError {
    pub(crate) fn new(what: impl fmt::Display, error: &dyn fmt::Display) -> Self {
        Self::System(what.to_string(), error.to_string())
    }
}

/// A Unix socket to which only its owner may connect. It replaces a dead server's socket file, but no other file. On
/// drop, it removes its own socket file unless that has been replaced.
#[derive(Debug)]
pub struct OwnersSocket {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket's file; `None` if they could not be read.
    file: Option<(u64, u64)>,
}

impl OwnersSocket {
    /// Listens at a path. Accepting connections does not block.
    ///
    /// # Errors
    /// [`ListenError`] if a server listens there, the path holds something else, or the system refuses.
    pub fn listen(path: &Path) -> Result<Self, ListenError> {
        let fault = |e: rustix::io::Errno| ListenError::new(path.display(), &e);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(fault)?;
        // `bind` creates the file with this mode, less the umask, so it is never accessible to others.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(fault)?;
        let address = SocketAddrUnix::new(path).map_err(fault)?;
        match bind(&socket, &address) {
            Err(rustix::io::Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                bind(&socket, &address).map_err(fault)?;
            }
            bound => bound.map_err(fault)?,
        }
        let file = std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let made = Self { socket, path: path.to_owned(), file };
        listen(&made.socket, 4096).map_err(fault)?;
        Ok(made)
    }
}

impl AsFd for OwnersSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for OwnersSocket {
    fn drop(&mut self) {
        let now = std::fs::symlink_metadata(&self.path).ok().map(|m| (m.dev(), m.ino()));
        if now.is_some() && now == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

enum Socket {
    Unix(OwnersSocket),
    Tcp(TcpListener),
}

/// A listening Unix or TCP socket.
pub struct Listener {
    socket: Socket,
    endpoint: Endpoint,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Listener {
    /// Opens a listening socket. Without `plain_anywhere`, refuses TCP on addresses other than loopback.
    ///
    /// # Errors
    /// The socket can't be created, another server listens at the path, or the path or address is refused.
    pub fn open(endpoint: &Endpoint, plain_anywhere: bool) -> Result<Self, ListenError> {
        match endpoint {
            Endpoint::Unix(path) => {
                let socket = Socket::Unix(OwnersSocket::listen(path)?);
                Ok(Self { socket, endpoint: endpoint.clone() })
            }
            Endpoint::Tcp(address) => {
                if !plain_anywhere && !address.ip().is_loopback() {
                    return Err(ListenError::Open(*address));
                }
                let fault = |e: io::Error| ListenError::new(address, &e);
                let listener = TcpListener::bind(address).map_err(fault)?;
                listener.set_nonblocking(true).map_err(fault)?;
                let endpoint = Endpoint::Tcp(listener.local_addr().map_err(fault)?);
                Ok(Self { socket: Socket::Tcp(listener), endpoint })
            }
        }
    }

    /// Address of the socket, with the port that the operating system chose in place of port 0.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Accepts a pending connection, and returns its socket with the client's address. `None` if none is pending.
    pub fn accept(&self) -> Option<io::Result<(OwnedFd, String)>> {
        loop {
            match acceptfrom_with(self, SocketFlags::CLOEXEC) {
                Ok((socket, address)) => {
                    let address = match self.endpoint {
                        Endpoint::Unix(_) => {
                            crate::syscalls::deepen(socket.as_fd());
                            self.endpoint.to_string()
                        }
                        Endpoint::Tcp(_) => {
                            // Requests are small and awaited: disable Nagle's algorithm.
                            let _ = sockopt::set_tcp_nodelay(&socket, true);
                            // Keep-alive ends the connection of a machine that has vanished.
                            let _ = sockopt::set_socket_keepalive(&socket, true);
                            let _ = sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_IDLE);
                            address
                                .and_then(|a| SocketAddr::try_from(a).ok())
                                .map_or_else(|| self.endpoint.to_string(), |a| a.to_string())
                        }
                    };
                    return Some(Ok((socket, address)));
                }
                Err(rustix::io::Errno::AGAIN) => return None,
                // The client disconnected; another may wait.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(e) => return Some(Err(e.into())),
            }
        }
    }
}

/// Removes a socket file on which no process listens any more.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let fault = |e: io::Error| ListenError::new(path.display(), &e);
    let found = std::fs::symlink_metadata(path).map_err(fault)?;
    if !found.file_type().is_socket() {
        return Err(ListenError::NoSocket(path.to_owned()));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| fault(e.into()))?;
    match connect(&probe, address) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(fault),
        _ => Err(ListenError::InUse(path.to_owned())),
    }
}

/// Waits until a connection is pending, the waker is signalled, or the deadline passes.
pub(crate) fn wait(
    listeners: &[Listener],
    waker: &Waker,
    deadline: Option<Instant>,
) -> io::Result<()> {
    let sockets = listeners.iter().map(AsFd::as_fd);
    let mut fds: Vec<PollFd<'_>> =
        sockets.chain([waker.fd()]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let left = deadline.map(|d| timespec(d.saturating_duration_since(Instant::now())));
    match poll(&mut fds, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
