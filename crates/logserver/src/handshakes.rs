//! Connections whose client has not presented the access token yet. Their number is limited separately for TCP and for
//! Unix sockets. Beyond a limit, a new connection closes the oldest one that has sent nothing, or else the oldest of
//! all.

use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All handshakes in progress, that is, connections without authentication so far.
#[derive(Debug)]
pub(crate) struct Handshakes {
    /// Handshakes by id. Ids ascend in order of arrival.
    all: Mutex<BTreeMap<u64, Entry>>,
    /// Maximum number of handshakes in progress, for TCP and Unix sockets each.
    most: usize,
}

#[derive(Debug)]
struct Entry {
    /// Duplicate of the connection's socket, for shutting it down.
    socket: OwnedFd,
    is_local: bool,
    has_sent: Arc<AtomicBool>,
}

impl Handshakes {
    pub(crate) fn new(most: usize) -> Self {
        Self { all: Mutex::default(), most }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Registers a handshake. `id` must be higher than all earlier ids. Beyond the limit, an older handshake is
    /// closed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: u64,
        socket: &OwnedFd,
        is_local: bool,
    ) -> io::Result<Handshake> {
        let socket = socket.try_clone()?;
        let has_sent = Arc::default();
        let mut all = self.lock();
        let of_kind = || all.iter().filter(|(_, entry)| entry.is_local == is_local);
        if of_kind().count() >= self.most {
            let silent = of_kind().find(|(_, entry)| !entry.has_sent.load(Ordering::Relaxed));
            let victim = silent.or_else(|| of_kind().next()).map(|(id, _)| *id);
            if let Some(entry) = victim.and_then(|victim| all.remove(&victim)) {
                let _ = shutdown(&entry.socket, Shutdown::Both);
            }
        }
        all.insert(id, Entry { socket, is_local, has_sent: Arc::clone(&has_sent) });
        Ok(Handshake { all: Arc::clone(self), id, has_sent })
    }

    /// Shuts down the sockets of all handshakes in progress.
    pub(crate) fn end(&self) {
        for entry in core::mem::take(&mut *self.lock()).into_values() {
            let _ = shutdown(&entry.socket, Shutdown::Both);
        }
    }
}

/// A registered handshake, removed when dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    id: u64,
    has_sent: Arc<AtomicBool>,
}

impl Handshake {
    /// Records that the client has sent data: at the limit, silent clients are closed first.
    pub(crate) fn has_sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_oldest_silent_one_gives_way_to_one_of_its_kind() {
        let all = Arc::new(Handshakes::new(3));
        let mut clients = Vec::new();
        let mut begin = |id: u64, is_local: bool| {
            let (client, server) = UnixStream::pair().unwrap();
            client.set_nonblocking(true).unwrap();
            clients.push(client);
            all.begin(id, &server.into(), is_local).unwrap()
        };
        let mut kept: Vec<_> = (0..3).map(|id| begin(id, false)).collect();
        kept.extend((3..6).map(|id| begin(id, true)));
        kept[0].has_sent();
        // The second is closed; then, as all the others have sent, the first.
        kept.push(begin(6, false));
        kept[2].has_sent();
        kept[6].has_sent();
        kept.push(begin(7, false));
        let is_over = |mut client: &UnixStream| client.read(&mut [0]).is_ok_and(|n| n == 0);
        let over: Vec<_> = clients.iter().map(is_over).collect();
        assert_eq!(over, [true, true, false, false, false, false, false, false]);
        assert_eq!(all.len(), 6);
        drop(kept);
        assert_eq!(all.len(), 0);
    }
}
