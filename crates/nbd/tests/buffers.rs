//! Buffers of idle connections are freed. This test has a process of its own, since it counts all allocated bytes.

mod common;
#[cfg(feature = "tls")]
#[path = "common/pki.rs"]
mod pki;

use common::{Delayed, Lab, Manner, Raw};
use iodyno_nbd::Kind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: u64 = 1 << 20;

/// The system's allocator, with a count of the bytes that are allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated_bytes() -> u64 {
    ALLOCATED.load(Ordering::Relaxed) as u64
}

/// A single test, since the count covers the whole process.
#[test]
fn sent_replies_are_freed() {
    let export = Delayed::new(Manner::Held);
    let lab = Lab::new(export.clone());
    let mut clients: Vec<Raw> = (0..3).map(|_| lab.raw().agreed()).collect();
    let before = allocated_bytes();
    for client in &mut clients {
        (0..40).for_each(|cookie| client.request(Kind::Read as u16, cookie, MIB, MIB as u32));
    }
    lab.eventually("all requested", |_| export.submitted.load(Ordering::SeqCst) == 120);
    export.release();
    lab.eventually("all queued", |_| allocated_bytes() > before + 100 * MIB);
    // All but a few MiB: what the socket took of these and what it did not.
    for client in &mut clients {
        client.receive(36 * (16 + MIB as usize));
    }
    lab.eventually("most given back", |_| allocated_bytes() < before + 3 * 5 * MIB);
    for client in &mut clients {
        client.receive(4 * (16 + MIB as usize));
    }
    lab.eventually("all given back", |_| allocated_bytes() < before + 3 * MIB);
    drop((clients, lab));
    #[cfg(feature = "tls")]
    with_tls();
}

#[cfg(feature = "tls")]
fn with_tls() {
    use iodyno_nbd::client::{Blocking, Uri};
    let folder = tempfile::tempdir().unwrap();
    let authority = pki::Authority::new();
    authority.trusted_in(folder.path());
    authority.server(folder.path(), "localhost");
    authority.client(folder.path());
    let tls = Some(iodyno_nbd::tls::ServerTls::from_folder(folder.path()).unwrap());
    let config = iodyno_nbd::ServerConfig { tls, ..Default::default() };
    let lab = Lab::with(Delayed::new(Manner::Each), config);
    let tls_certificates = Some(folder.path().to_owned());
    let uri = Uri { tls: true, tls_certificates, ..lab.uri() };
    let mut clients = [(); 3].map(|()| Blocking::connect(&uri).unwrap());
    let mut bytes = vec![0; 32 * MIB as usize];
    let before = allocated_bytes();
    for client in &mut clients {
        // Each of the buffers that the server uses in turn.
        (0..3).for_each(|_| client.read(MIB, &mut bytes).unwrap());
    }
    lab.eventually("all given back", |_| allocated_bytes() < before + 3 * MIB);
}
