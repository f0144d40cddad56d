//! Hosts that fail on command, and a host that tears writes.

use crate::rig::devices;
use iodyno_live::counts::Looks;
use iodyno_live::served::{self, Live, Payload, Sink};
use iodyno_live::store::{HostCall, HostFault, HostFaults, HostFile, Options, Store, WriteError};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const SECTOR: u64 = 512;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// How the host answers calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// One call in N fails.
    Flaky(u64),
    /// No data is written any more, and only some checksums.
    Full,
    /// Every call fails.
    Broken,
}

#[derive(Debug)]
pub(crate) struct State {
    pub mood: Mood,
    pub random: Generator,
    /// Number of calls until the server is killed; None: it is not killed.
    pub dies_in: Option<u64>,
    pub is_dead: bool,
    /// Whether the test itself reads, so that nothing must fail.
    pub is_quiet: bool,
    /// A failed write of data is cut short at a multiple of this, bytes. 4096 is Linux's behaviour, which copies whole
    /// pages into its cache or none. 512 is the worst case of a host behind FUSE or a network.
    pub cut_bytes: u64,
    /// Units in which a write was cut short, and which have no checksum of their own yet.
    pub torn: BTreeSet<u64>,
    pub faults: u64,
}

#[derive(Debug)]
pub(crate) struct FailingHost(Mutex<State>);

impl FailingHost {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            mood: Mood::Well,
            random: stream(seed, "host", 0),
            dies_in: None,
            is_dead: false,
            is_quiet: false,
            cut_bytes: if seed.is_multiple_of(2) { 4096 } else { SECTOR },
            torn: BTreeSet::new(),
            faults: 0,
        }))
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }
}

impl HostFaults for FailingHost {
    fn fault(&self, file: HostFile, call: HostCall, at: u64, len: u64) -> Option<HostFault> {
        let mut state = self.0.lock().unwrap();
        let state = &mut *state;
        if state.is_quiet {
            return None;
        }
        if state.is_dead {
            return Some(HostFault { errno: EIO, after_bytes: 0 });
        }
        // The part of a write that survives a kill: whole pages of data, whole entries of sums.
        let grain = match file {
            HostFile::Data => 4096,
            HostFile::Sums => 16,
        };
        if let Some(left) = &mut state.dies_in {
            if *left == 0 {
                state.is_dead = true;
                let after_bytes = (below(&mut state.random, len / grain + 1) * grain) as usize;
                return Some(HostFault { errno: EIO, after_bytes });
            }
            *left -= 1;
        }
        let one_in = match (state.mood, call) {
            (Mood::Well, _) | (Mood::Full, HostCall::Read | HostCall::Sync) => 0,
            (Mood::Flaky(n), HostCall::Read) => 4 * n,
            (Mood::Flaky(n), _) => n,
            (Mood::Full, _) if file == HostFile::Sums => 8,
            (Mood::Full | Mood::Broken, _) => 1,
        };
        let units = match file {
            HostFile::Data => at / 4096..(at + len).div_ceil(4096),
            HostFile::Sums => at.saturating_sub(4096) / 16..(at + len).saturating_sub(4096) / 16,
        };
        if one_in == 0 || below(&mut state.random, one_in) > 0 {
            // Written whole, or given a sum.
            if matches!(call, HostCall::Write | HostCall::Punch) {
                state.torn.retain(|unit| !units.contains(unit));
            }
            return None;
        }
        state.faults += 1;
        let errno = if state.mood == Mood::Full { ENOSPC } else { EIO };
        let grain = if file == HostFile::Data { state.cut_bytes } else { 16 };
        let short = below(&mut state.random, 2) == 0;
        let after_bytes = if short { below(&mut state.random, len / grain + 1) * grain } else { 0 };
        if file == HostFile::Data
            && call != HostCall::Read
            && !(at + after_bytes).is_multiple_of(4096)
        {
            state.torn.insert((at + after_bytes) / 4096);
        }
        Some(HostFault { errno, after_bytes: after_bytes as usize })
    }
}

/// While active, a write of data stops within a unit, and of the checksums only new entries are written.
#[derive(Debug, Default)]
struct Tearing {
    is_on: AtomicBool,
    is_torn: AtomicBool,
}

impl HostFaults for Tearing {
    fn fault(&self, file: HostFile, call: HostCall, at: u64, _: u64) -> Option<HostFault> {
        if call != HostCall::Write || !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let is_torn = self.is_torn.load(Ordering::Relaxed);
        match file {
            HostFile::Data => {
                self.is_torn.store(true, Ordering::Relaxed);
                Some(HostFault { errno: EIO, after_bytes: 3 * SECTOR as usize })
            }
            HostFile::Sums if at >= 4096 && is_torn => {
                Some(HostFault { errno: ENOSPC, after_bytes: 0 })
            }
            HostFile::Sums => None,
        }
    }
}

/// A torn unit without its own checksum is readable by this server and makes flushes fail with the host's error. Once it
/// has one, it stays readable.
#[test]
fn a_torn_unit_gets_its_sum_before_a_flush_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let host = Arc::new(Tearing::default());
    let faults = Arc::clone(&host) as Arc<dyn HostFaults>;
    let open = || Store::in_file_with_faults(&path, 1 << 20, Options::default(), faults.clone());
    let store = open().unwrap();
    store.write_now(4096, &[1; 4096]).unwrap();
    store.flush_now().unwrap();
    host.is_on.store(true, Ordering::Relaxed);
    assert!(store.write_now(4096, &[2; 4096]).is_err());
    let wanted = [[2; 1536].as_slice(), &[1; 2560]].concat();
    let mut into = vec![0; 4096];
    store.read(4096, &mut into).unwrap();
    assert!(into == wanted);
    assert!(matches!(store.flush_now(), Err(WriteError::NoSpace { .. })));
    assert!(store.end().is_err());
    host.is_on.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_now(), Ok(()));
    drop(store);
    let store = open().unwrap();
    store.read(4096, &mut into).unwrap();
    assert!(into == wanted);
}

/// A host whose faults are decided by a function.
struct Hook<F>(F);

impl<F> std::fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl<F> HostFaults for Hook<F>
where
    F: Fn(HostFile, HostCall, u64) -> Option<HostFault> + Send + Sync,
{
    fn fault(&self, file: HostFile, call: HostCall, at: u64, _: u64) -> Option<HostFault> {
        self.0(file, call, at)
    }
}

const REFUSED: Option<HostFault> = Some(HostFault { errno: EIO, after_bytes: 0 });

/// A corrupt unit stays corrupt if the host refuses to rewrite it, even if the new content begins like the old one, its
/// checksum is refused, or it can't be read at that moment.
#[test]
fn a_refused_write_leaves_a_corrupt_unit_corrupt() {
    use HostCall::{Read, Write};
    use HostFile::{Data, Sums};
    for refused in [&[(Data, Write)][..], &[(Sums, Write)], &[(Data, Write), (Data, Read)]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let is_on = Arc::new(AtomicBool::new(false));
        let on = Arc::clone(&is_on);
        let faults: Arc<dyn HostFaults> = Arc::new(Hook(move |file, call, _| {
            let is_refused = on.load(Ordering::Relaxed) && refused.contains(&(file, call));
            if is_refused { REFUSED } else { None }
        }));
        let open =
            || Store::in_file_with_faults(&path, 1 << 20, Options::default(), faults.clone());
        let store = open().unwrap();
        store.write_now(0, &[1; 3 * 4096]).unwrap();
        store.flush_now().unwrap();
        let image = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&image, &[9], 4096 + 3000).unwrap();
        let mut into = [0; 4096];
        let corrupt = Err(iodyno_live::store::ReadError::Corrupt { unit: 1 });
        assert_eq!(store.read(4096, &mut into), corrupt);

        is_on.store(true, Ordering::Relaxed);
        let wanted = [[1; 512].as_slice(), &[2; 3584]].concat().repeat(3);
        assert!(store.write_now(0, &wanted).is_err());
        is_on.store(false, Ordering::Relaxed);
        assert_eq!(store.read(4096, &mut into), corrupt, "{refused:?}");
        assert_eq!(store.flush_now(), Ok(()));
        drop(store);
        let store = open().unwrap();
        assert_eq!(store.read(4096, &mut into), corrupt, "{refused:?}");
        for unit in [0, 2] {
            assert_eq!(store.read(unit * 4096, &mut into), Ok(()));
            assert_eq!(into, [1; 4096]);
        }
    }
}

/// A flush does not succeed while another one is failing to write the generation.
#[test]
fn a_flush_waits_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let (sent, heard) = std::sync::mpsc::channel();
    let over = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let is_on = Arc::new(AtomicBool::new(false));
    let (on, other) = (Arc::clone(&is_on), Arc::clone(&over));
    let faults: Arc<dyn HostFaults> = Arc::new(Hook(move |file, call, at| {
        if file != HostFile::Sums
            || call != HostCall::Write
            || at >= 4096
            || !on.load(Ordering::SeqCst)
        {
            return None;
        }
        let _ = sent.send(());
        // Until the other flush is over, or has had its time.
        let is_over = other.0.lock().unwrap();
        let timeout = std::time::Duration::from_millis(500);
        drop(other.1.wait_timeout_while(is_over, timeout, |is_over| !*is_over).unwrap());
        REFUSED
    }));
    let store = Store::in_file_with_faults(&path, 1 << 20, Options::default(), faults).unwrap();
    store.write_now(0, &[1; 4096]).unwrap();
    is_on.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| store.flush_now());
        heard.recv().unwrap();
        let second = store.flush_now();
        *over.0.lock().unwrap() = true;
        over.1.notify_all();
        assert!(second.is_err(), "nothing was written down");
        assert!(first.join().unwrap().is_err());
    });
    is_on.store(false, Ordering::SeqCst);
    assert_eq!(store.flush_now(), Ok(()));
}

/// An image gets its size only after the checksums of an earlier one are gone from the disk, so a server killed in
/// between leaves no image that reads as corrupt.
#[test]
fn an_image_gets_its_size_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    Store::in_file(&path, 1 << 20, Options::default()).unwrap().write_now(0, &[1; 4096]).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let (found, image) = (Arc::clone(&lengths), path.clone());
    let faults: Arc<dyn HostFaults> = Arc::new(Hook(move |_, call, _| {
        if call == HostCall::Sync {
            found.lock().unwrap().push(std::fs::metadata(&image).unwrap().len());
        }
        None
    }));
    let store = Store::in_file_with_faults(&path, 1 << 20, Options::default(), faults).unwrap();
    assert_eq!(*lengths.lock().unwrap(), [0]);
    store.read(0, &mut [0; 4096]).unwrap();
    drop(store);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

struct Discard;

impl Sink for Discard {
    fn done(self, _: Result<(), IoError>) {}
}

/// A stop syncs and closes all data that the host accepts, and reports the rest.
#[test]
fn a_stop_keeps_what_the_host_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let syncs = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&syncs);
    let faults: Arc<dyn HostFaults> = Arc::new(Hook(move |file, call, at| {
        if call == HostCall::Sync {
            heard.lock().unwrap().push(file);
        }
        let is_refused = file == HostFile::Data && call == HostCall::Write && at == 4096;
        is_refused.then_some(HostFault { errno: ENOSPC, after_bytes: 0 })
    }));
    let device = devices().into_iter().find(|d| d.name == "a volatile buffer").unwrap();
    let mut machine = device.machine(1);
    machine.add_worker(0);
    let capacity = machine.capacity_bytes(0);
    let open = |faults| Store::in_file_with_faults(&path, capacity, device.options(), faults);
    let store = open(faults).unwrap();
    let live = Live::new(machine, vec![store], &served::Options::default(), || NOW_NS.get());
    for unit in 0..3 {
        let op = Op { offset_bytes: unit * 4096, len_bytes: 4096, kind: OpKind::Write, fua: false };
        live.submit(0, 0, &op, Payload::Write(&[7; 4096]), Discard);
    }
    NOW_NS.set(1_000_000_000);
    live.poll(Looks::default());
    syncs.lock().unwrap().clear();
    let troubles = live.end(|_| 0).unwrap_err();
    assert_eq!(*syncs.lock().unwrap(), [HostFile::Data, HostFile::Sums]);
    assert!(troubles.contains("is full") && troubles.contains("are lost"), "{troubles}");
    drop(live);
    // An older version of the rest is refused.
    let image = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, &[0; 4096], 0).unwrap();
    let store = Store::in_file(&path, capacity, device.options()).unwrap();
    let read = |unit: u64| {
        let mut into = [1; 4096];
        store.read(unit * 4096, &mut into).map(|()| into[0])
    };
    let corrupt = Err(iodyno_live::store::ReadError::Corrupt { unit: 0 });
    assert_eq!([read(0), read(1), read(2)], [corrupt, Ok(0), Ok(7)]);
}
