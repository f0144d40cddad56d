//! Servers for sockets with few clients (control, metrics, the local web page). The number of connections per socket is
//! limited, so that enough file descriptors remain for storage clients. Each connection has its own thread with
//! deadlines, so a slow client does not block others. At the limit, the server shuts down the oldest connection and
//! waits until its descriptor is closed, before it serves a new one.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of open connections per listening socket.
pub const CONNECTIONS_MAX: usize = 16;
/// Pause after a failed accept, for instance when descriptors have run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Maximum time for a connection that was shut down to close its descriptor. Afterwards, the next oldest one is shut
/// down too.
const CLOSES_WITHIN: Duration = Duration::from_millis(200);

/// A connected socket, with a timeout for each transfer.
pub trait Socket: Send + Sync + Sized + 'static {
    /// Receives at least one byte, waiting at most `timeout`. Returns 0 if the peer has closed the connection.
    fn receive(&self, to: &mut [u8], timeout: Duration) -> io::Result<usize>;
    /// Sends at least one byte, waiting at most `timeout`. Returns the number of bytes sent, which may be only a part.
    fn send(&self, from: &[u8], timeout: Duration) -> io::Result<usize>;
    /// Shuts the connection down in both directions, which wakes a thread that waits on it.
    fn end(&self);
}

macro_rules! socket {
    ($of:ty) => {
        impl Socket for $of {
            fn receive(&self, to: &mut [u8], timeout: Duration) -> io::Result<usize> {
                self.set_read_timeout(Some(timeout))?;
                (&*self).read(to)
            }
            fn send(&self, from: &[u8], timeout: Duration) -> io::Result<usize> {
                self.set_write_timeout(Some(timeout))?;
                (&*self).write(from)
            }
            fn end(&self) {
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    };
}
socket!(TcpStream);
socket!(UnixStream);

/// A socket whose reads and writes fail once a deadline has passed.
#[derive(Debug)]
pub struct Timed<'a, S> {
    socket: &'a S,
    deadline: Instant,
}

impl<'a, S: Socket> Timed<'a, S> {
    /// Wraps `socket`; the deadline is `timeout` from now.
    pub fn new(socket: &'a S, timeout: Duration) -> Self {
        Self { socket, deadline: Instant::now() + timeout }
    }

    /// Sets the deadline to `timeout` from now.
    pub fn renew(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl<S: Socket> Read for Timed<'_, S> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(to, self.left()?)
    }
}

impl<S: Socket> Write for Timed<'_, S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.send(from, self.left()?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Open connections by connection number, and the number of open descriptors. A connection that was shut down counts as
/// open until its thread has closed the descriptor.
struct Open<S> {
    sockets: BTreeMap<u64, Arc<S>>,
    held: usize,
}

struct Connections<S> {
    open: Mutex<Open<S>>,
    closed: Condvar,
}

impl<S: Socket> Connections<S> {
    fn new() -> Self {
        let open = Mutex::new(Open { sockets: BTreeMap::new(), held: 0 });
        Self { open, closed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Open<S>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the oldest connection by shutting down its socket, which wakes its thread.
    fn end_oldest(open: &mut Open<S>) {
        if let Some((_, oldest)) = open.sockets.pop_first() {
            oldest.end();
        }
    }

    /// Registers a connection. At the connection limit it first shuts down the oldest connection, and the next
    /// oldest too if the first is slow to close.
    fn add(&self, number: u64, socket: &Arc<S>) {
        let mut open = self.lock();
        while open.held >= CONNECTIONS_MAX {
            Self::end_oldest(&mut open);
            let woken = self
                .closed
                .wait_timeout_while(open, CLOSES_WITHIN, |open| open.held >= CONNECTIONS_MAX);
            open = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        open.held += 1;
        open.sockets.insert(number, Arc::clone(socket));
    }
}

/// A connection's entry in the table of open connections. Dropping this value, even in a panic, removes it.
struct Place<S: Socket> {
    number: u64,
    socket: Option<Arc<S>>,
    connections: Arc<Connections<S>>,
}

impl<S: Socket> Drop for Place<S> {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.sockets.remove(&self.number);
        // This drops the last reference, which closes the socket.
        self.socket = None;
        open.held -= 1;
        self.connections.closed.notify_one();
    }
}

/// Accepts connections in a thread named `name`, and serves each with `handler` in a thread of its own.
///
/// # Errors
/// No thread can be created.
pub fn serve<S: Socket>(
    name: &'static str,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
    handler: impl Fn(&S) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let handler = Arc::new(handler);
    let thread = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    };
    let work = move || {
        let connections = Arc::new(Connections::new());
        for number in 0.. {
            let Ok(socket) = accept() else {
                Connections::end_oldest(&mut connections.lock());
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            };
            let socket = Arc::new(socket);
            connections.add(number, &socket);
            let handler = Arc::clone(&handler);
            let place =
                Place { number, socket: Some(socket), connections: Arc::clone(&connections) };
            // If no thread can be created, the closure is dropped, which closes the socket.
            let _ = thread(Box::new(move || {
                if let Some(socket) = &place.socket {
                    let _ = handler(socket);
                }
            }));
        }
    };
    thread(Box::new(work)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Test handler that sends one received line back.
    fn echo(socket: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        let timeout = Duration::from_secs(60);
        BufReader::new(Timed::new(socket, timeout)).read_line(&mut line)?;
        Timed::new(socket, timeout).write_all(line.as_bytes())
    }

    fn is_ended(mut socket: &UnixStream) -> bool {
        socket.set_nonblocking(true).unwrap();
        socket.read(&mut [0]).is_ok_and(|n| n == 0)
    }

    /// When descriptors run out, the acceptor retries at intervals, not in a busy loop, and continues once some are
    /// free. New clients end the oldest connections.
    #[test]
    fn accepting_continues_after_failures_and_ends_the_oldest() {
        let tries = Arc::new(AtomicUsize::new(0));
        let (sender, sockets) = std::sync::mpsc::channel::<UnixStream>();
        let asked = Arc::clone(&tries);
        let accept = move || match asked.fetch_add(1, Ordering::SeqCst) {
            0..=3 => Err(io::Error::other("too many open files")),
            _ => sockets.recv().map_err(io::Error::other),
        };
        serve("test", accept, echo).unwrap();
        let silent: Vec<UnixStream> = (0..3 * CONNECTIONS_MAX)
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                sender.send(theirs).unwrap();
                ours
            })
            .collect();
        let (ours, theirs) = UnixStream::pair().unwrap();
        sender.send(theirs).unwrap();
        (&ours).write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(&ours).read_line(&mut line).unwrap();
        assert_eq!(line, "hello\n");
        // Only the oldest were ended: the others are within the limit.
        let stay = silent.iter().filter(|socket| !is_ended(socket)).count();
        assert_eq!(stay + 1, CONNECTIONS_MAX);
        assert!(is_ended(&silent[0]));
        // The thread may or may not be about to accept the next.
        let tries = tries.load(Ordering::SeqCst) - 4 - silent.len();
        assert!((1..=2).contains(&tries), "{tries}");
    }

    /// A connection that was shut down counts towards the limit until its thread has closed the descriptor.
    #[test]
    fn connections_that_end_slowly_are_counted() {
        let (sender, sockets) = std::sync::mpsc::channel::<UnixStream>();
        let accept = move || sockets.recv().map_err(io::Error::other);
        let (held, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&held), Arc::clone(&most));
        let slow = move |socket: &UnixStream| {
            let (held, most) = &counts;
            most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let end = socket.receive(&mut [0], Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
            held.fetch_sub(1, Ordering::SeqCst);
            end.map(drop)
        };
        serve("test", accept, slow).unwrap();
        let connect = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            sender.send(theirs).unwrap();
            ours
        };
        let clients: Vec<UnixStream> = (0..4 * CONNECTIONS_MAX).map(|_| connect()).collect();
        // The last of the ended clients.
        let (last, _) = clients[..3 * CONNECTIONS_MAX].split_last().unwrap();
        assert_eq!((&*last).read(&mut [0]).unwrap(), 0);
        assert!(most.load(Ordering::SeqCst) <= CONNECTIONS_MAX, "{most:?}");
    }

    /// When descriptors run out, the acceptor ends the oldest connection to free its descriptor.
    #[test]
    fn a_client_that_cannot_be_accepted_ends_the_oldest() {
        let pairs = || UnixStream::pair().unwrap();
        let [(oldest, a), (younger, b), (ours, c)] = [pairs(), pairs(), pairs()];
        let full = Err(io::Error::other("too many open files"));
        let mut accepted = [Ok(a), Ok(b), full, Ok(c)].into_iter();
        let accept = move || {
            accepted.next().unwrap_or_else(|| {
                loop {
                    std::thread::park();
                }
            })
        };
        serve("test", accept, echo).unwrap();
        (&ours).write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(&ours).read_line(&mut line).unwrap();
        assert_eq!(line, "hello\n");
        assert_eq!((is_ended(&oldest), is_ended(&younger)), (true, false));
    }

    /// The deadline covers a whole message: a client that sends one byte at a time cannot extend it.
    #[test]
    fn a_deadline_is_for_all_of_a_message() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let drip = std::thread::spawn(move || {
            while (&ours).write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let timed = Timed::new(&theirs, Duration::from_millis(100));
        let error = BufReader::new(timed).read_line(&mut String::new()).unwrap_err();
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(kinds.contains(&error.kind()), "{error}");
        drop(theirs);
        drip.join().unwrap();
    }
}
