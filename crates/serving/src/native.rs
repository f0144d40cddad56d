//! The server for `--speed native`, which stores data but has no timing model. Like a device with a protected buffer,
//! it stores each write before it acknowledges it: killing the server loses no acknowledged write in a backing file.

use crate::apply_fault::{STOPS, done};
use crate::error::ServeError;
use crate::fault_effect::of_corruption;
use crate::interface::{AT_INTERFACE, Disk, Interface, at_interface};
use crate::numbered::Numbered;
use crate::setup::{Setup, begin, control, insert, places, start, wait};
use iodyno_emulate::{Fault, System};
use iodyno_live::control::Answer as ControlAnswer;
use iodyno_live::fault_command::{self, Ask, Effect, in_effect};
use iodyno_live::frontend::nbd::{described, failed, operation};
use iodyno_live::status::{InterfaceFaultStatus, NativeStatus, NativeVolumeStatus, Status};
use iodyno_live::store::{Store, WriteError};
use iodyno_nbd::{Answer, CmdFlags, Export, Exports, Info, Io, Kind, Peer, Session};
use iodyno_units::{IoError, Op, OpKind};
use serde_json::{Value, json};
use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum size of the read buffer that a connection keeps between requests, bytes.
const KEEP_BYTES: usize = 256 << 10;

/// A served volume, as the control socket and all connections share it.
#[derive(Clone)]
struct Served {
    store: Arc<Store>,
    faults: Arc<Interface>,
    failures: Arc<Failures>,
}

/// Failed writes and flushes of a volume's backing file or memory.
#[derive(Default)]
struct Failures {
    /// Number of failed writes, without flushes.
    writes: AtomicU64,
    /// Message about the first failure.
    first: OnceLock<String>,
}

impl Failures {
    /// Records the result of a write or flush, and converts it for the client.
    fn noted(&self, op: OpKind, done: Result<(), WriteError>) -> Result<(), IoError> {
        done.map_err(|e| {
            self.writes.fetch_add(u64::from(op != OpKind::Flush), Ordering::Relaxed);
            self.first.get_or_init(|| e.to_string());
            IoError::from(&e)
        })
    }
}

impl Disk for Served {
    fn size_bytes(&self) -> u64 {
        self.store.capacity_bytes()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.store.read(at, into).map_err(|e| IoError::from(&e))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.failures.noted(OpKind::Write, self.store.write_now(at, bytes))
    }

    fn perform(&self, op: &Op) -> Result<(), IoError> {
        let (at, len) = (op.offset_bytes, u64::from(op.len_bytes));
        let done = match op.kind {
            OpKind::Trim => self.store.trim_now(at, len),
            OpKind::WriteZeroes => self.store.zero_now(at, len),
            OpKind::Flush => self.store.flush_now(),
            OpKind::Read | OpKind::Write => Ok(()),
        };
        self.failures.noted(op.kind, done)
    }
}

struct Native {
    served: Served,
    info: Info,
}

/// Serves volumes as fast as this machine can, without the model's latencies.
pub(crate) fn serve(
    setup: &Setup<'_>,
    stores: Vec<Store>,
) -> Result<Option<ExitStatus>, ServeError> {
    let request = setup.request;
    let exports = Arc::new(Exports::default());
    let served =
        |store| Served { store: Arc::new(store), faults: Arc::default(), failures: Arc::default() };
    let volumes: Vec<Served> = stores.into_iter().map(served).collect();
    for ((served, name), volume) in volumes.iter().zip(&setup.names).zip(0..) {
        let export = export(served, &setup.system, volume, request.read_only);
        insert(&exports, name, volume == 0, export);
    }
    let remove_files = |_: &ServeError| volumes.iter().for_each(|of| of.store.remove_made());
    let answer = answer(&volumes, setup.stop);
    let control = control(request, answer).inspect_err(remove_files)?;
    let server = start(request, &exports).inspect_err(remove_files)?;
    setup.announce(&server, "", "native speed: as fast as this machine allows");
    let command = begin(request, &places(request, &server), setup.console);
    let troubles = || volumes.iter().filter_map(|of| of.failures.first.get().cloned()).collect();
    let ended = wait(command.inspect_err(remove_files)?, setup.stop, setup.console, troubles);
    drop(control);
    server.stop();
    for served in &volumes {
        served.store.end().map_err(|e| ServeError::target(e.to_string()))?;
    }
    ended
}

/// Creates the NBD export of a volume that is served without the model's latencies.
fn export(served: &Served, system: &System, volume: u32, read_only: bool) -> Arc<dyn Export> {
    let name = &system.volumes[volume as usize].name;
    let words = format!("{name} in {}, at native speed, by iodyno", system.name);
    let rotational = system.is_rotational(volume);
    let info = described(served.store.capacity_bytes(), words, rotational, read_only);
    Arc::new(Native { served: served.clone(), info })
}

impl Served {
    fn clear_faults(&self) {
        self.store.clear_corruption();
        self.faults.clear();
    }
}

impl Export for Native {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(Client { served: self.served.clone(), buffer: Vec::new() }))
    }
}

struct Client {
    served: Served,
    buffer: Vec<u8>,
}

impl Session for Client {
    fn submit(&mut self, io: Io<'_>) {
        let command = *io.command();
        let (at, len) = (command.offset_bytes, command.len_bytes);
        let served = &self.served;
        let op = operation(&command);
        if let Some((op, met)) = op.and_then(|op| Some((op, served.faults.judge(served, &op)?))) {
            return served.faults.serve(served, &op, &met, io);
        }
        let done = match command.kind {
            Kind::Read if len > 0 => {
                self.buffer.resize(len as usize, 0);
                match served.read(at, &mut self.buffer) {
                    Ok(()) => io.answer(&Answer::Data(&self.buffer)),
                    Err(e) => io.answer(&failed(e)),
                }
                // A large read must not occupy its memory for the life of the connection.
                if self.buffer.capacity() > KEEP_BYTES {
                    self.buffer = Vec::new();
                }
                return;
            }
            Kind::BlockStatus => {
                let extents = iodyno_live::frontend::nbd::extents(&served.store, at, len);
                io.answer(&Answer::Extents(&extents));
                return;
            }
            Kind::Write => served.write(at, io.data()),
            // Allocated, as a write of zeros leaves them.
            Kind::WriteZeroes if command.flags.has(CmdFlags::NO_HOLE) => {
                served.write(at, &vec![0; len as usize])
            }
            Kind::WriteZeroes | Kind::Trim | Kind::Flush => {
                op.map_or(Ok(()), |op| served.perform(&op))
            }
            Kind::Read | Kind::Cache | Kind::Disc => Ok(()),
        };
        match done {
            Ok(()) => io.answer(&Answer::Done),
            Err(e) => io.answer(&failed(e)),
        }
    }
}

/// Returns the function that answers the control socket if storage is served without the model's latencies.
fn answer(volumes: &[Served], stop: &Arc<AtomicBool>) -> Arc<ControlAnswer> {
    let (volumes, stop) = (volumes.to_vec(), Arc::clone(stop));
    Arc::new(move |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["stop"] => {
                stop.store(true, Ordering::Relaxed);
                done(STOPS)
            }
            ["status"] => {
                let volumes = volumes.iter().map(|of| NativeVolumeStatus {
                    capacity_bytes: of.store.capacity_bytes(),
                    memory_bytes: of.store.memory_bytes(),
                    interface_faults: InterfaceFaultStatus::of_all(&of.faults.listed()),
                    backing_errors: of.failures.writes.load(Ordering::Relaxed),
                });
                Status::Native(NativeStatus { volumes: volumes.collect() }).to_json()
            }
            ["metrics"] => {
                json!({ "error": "at native speed there are no metrics, because metrics describe the model" })
            }
            words => fault_command::parse(words)
                .and_then(|ask| apply(&volumes, &at_interface(ask)))
                .unwrap_or_else(|why| json!({ "error": why })),
        }
    })
}

/// Applies a fault command to the stored data or to the interface.
fn apply(volumes: &[Served], ask: &Ask) -> Result<Value, String> {
    let numbered = Numbered::alone(volumes.iter().map(|of| of.store.capacity_bytes()).collect());
    numbered.check(ask)?;
    let mut effect = Effect::Usual;
    match *ask {
        Ask::Corrupt { volume, offset_bytes, len_bytes } => {
            let range = offset_bytes..offset_bytes + len_bytes;
            let store = &volumes[volume as usize].store;
            effect = of_corruption(store, &range);
            store.corrupt(&range, 1);
        }
        Ask::ClearAll => volumes.iter().for_each(Served::clear_faults),
        Ask::Fault(Fault::Clear { part }) => volumes[part.index()].clear_faults(),
        Ask::Interface { volume, fault } => volumes[volume as usize].faults.add(fault),
        Ask::Fault(_) | Ask::Full { .. } | Ask::Resize { .. } => {
            return Err(format!(
                "at native speed no device is modelled: only corrupt, clear, and faults at the interface ({AT_INTERFACE}) are available"
            ));
        }
    }
    let mut answer = done(&in_effect(ask, false, numbered.device, &effect));
    if let Effect::None(why) = effect {
        answer["no_effect"] = why.into();
    }
    Ok(answer)
}
