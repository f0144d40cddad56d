//! `--speed native`: the store without a machine. Acknowledged writes are in the backing store, as
//! in a device with a protected buffer: killing the server loses none.

use crate::apply_fault::{STOPS, done};
use crate::error::ServeError;
use crate::fault_effect::of_corruption;
use crate::numbered::Numbered;
use crate::setup::{Setup, begin, control, insert, places, start, wait};
use iodyno_emulate::{Fault, System};
use iodyno_live::control::Answer as ControlAnswer;
use iodyno_live::fault_command::{self, Ask, Effect, in_effect};
use iodyno_live::frontend::nbd::{described, failed};
use iodyno_live::status::{NativeStatus, NativeVolumeStatus, Status};
use iodyno_live::store::Store;
use iodyno_nbd::{Answer, Export, Exports, Info, Io, Kind, Peer, Session};
use iodyno_units::IoError;
use serde_json::{Value, json};
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum size of the read buffer that a connection keeps between requests, bytes.
const KEEP_BYTES: usize = 256 << 10;

struct Native {
    store: Arc<Store>,
    info: Info,
}

/// Serves volumes as fast as this machine can, without the model's latencies.
pub(crate) fn serve(
    setup: &Setup<'_>,
    stores: Vec<Store>,
) -> Result<Option<ExitStatus>, ServeError> {
    let request = setup.request;
    let exports = Arc::new(Exports::default());
    let stores: Vec<Arc<Store>> = stores.into_iter().map(Arc::new).collect();
    for ((store, name), volume) in stores.iter().zip(&setup.names).zip(0..) {
        let export = export(store, &setup.system, volume, request.read_only);
        insert(&exports, name, volume == 0, export);
    }
    let remove_files = |_: &ServeError| stores.iter().for_each(|store| store.remove_made());
    let answer = answer(&stores, setup.stop);
    let control = control(request, answer).inspect_err(remove_files)?;
    let server = start(request, &exports).inspect_err(remove_files)?;
    setup.announce(&server, "", "native speed: as fast as this machine can");
    let command = begin(request, &places(request, &server), setup.console);
    let ended = wait(command.inspect_err(remove_files)?, setup.stop, setup.console, Vec::new);
    drop(control);
    server.stop();
    for store in &stores {
        store.end().map_err(|e| ServeError::target(e.to_string()))?;
    }
    ended
}

/// Creates the NBD export of a volume that is served without the model's latencies.
fn export(store: &Arc<Store>, system: &System, volume: u32, read_only: bool) -> Arc<dyn Export> {
    let name = &system.volumes[volume as usize].name;
    let words = format!("{name} in {}, at native speed, by iodyno", system.name);
    let rotational = system.is_rotational(volume);
    let info = described(store.capacity_bytes(), words, rotational, read_only);
    Arc::new(Native { store: Arc::clone(store), info })
}

impl Export for Native {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn open(&self, _: &Peer) -> io::Result<Box<dyn Session>> {
        Ok(Box::new(Client { store: Arc::clone(&self.store), buffer: Vec::new() }))
    }
}

struct Client {
    store: Arc<Store>,
    buffer: Vec<u8>,
}

impl Session for Client {
    fn submit(&mut self, io: Io<'_>) {
        let command = *io.command();
        let (at, len) = (command.offset_bytes, command.len_bytes);
        let done = match command.kind {
            Kind::Read if len > 0 => {
                self.buffer.resize(len as usize, 0);
                match self.store.read(at, &mut self.buffer) {
                    Ok(()) => io.answer(&Answer::Data(&self.buffer)),
                    Err(e) => io.answer(&failed(IoError::from(&e))),
                }
                // A large read must not occupy its memory for the life of the connection.
                if self.buffer.capacity() > KEEP_BYTES {
                    self.buffer = Vec::new();
                }
                return;
            }
            Kind::BlockStatus => {
                let extents = iodyno_live::frontend::nbd::extents(&self.store, at, len);
                io.answer(&Answer::Extents(&extents));
                return;
            }
            Kind::Write => self.store.write_now(at, io.data()),
            Kind::WriteZeroes => self.store.zero_now(at, u64::from(len)),
            Kind::Trim => self.store.trim_now(at, u64::from(len)),
            Kind::Flush => self.store.flush_now(),
            Kind::Read | Kind::Cache | Kind::Disc => Ok(()),
        };
        match done {
            Ok(()) => io.answer(&Answer::Done),
            Err(e) => io.answer(&failed(IoError::from(&e))),
        }
    }
}

/// Returns the function that answers the control socket if storage is served without the model's latencies.
fn answer(stores: &[Arc<Store>], stop: &Arc<AtomicBool>) -> Arc<ControlAnswer> {
    let (stores, stop) = (stores.to_vec(), Arc::clone(stop));
    Arc::new(move |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["stop"] => {
                stop.store(true, Ordering::Relaxed);
                done(STOPS)
            }
            ["status"] => {
                let volumes = stores.iter().map(|store| NativeVolumeStatus {
                    capacity_bytes: store.capacity_bytes(),
                    memory_bytes: store.memory_bytes(),
                });
                Status::Native(NativeStatus { volumes: volumes.collect() }).to_json()
            }
            ["metrics"] => {
                json!({ "error": "at native speed there are no metrics, because metrics describe the model" })
            }
            words => fault_command::parse(words)
                .and_then(|ask| apply(&stores, &ask))
                .unwrap_or_else(|why| json!({ "error": why })),
        }
    })
}

/// Applies a fault command to the stored data.
fn apply(stores: &[Arc<Store>], ask: &Ask) -> Result<Value, String> {
    let numbered = Numbered::alone(stores.iter().map(|s| s.capacity_bytes()).collect());
    numbered.check(ask)?;
    let mut effect = Effect::Usual;
    match *ask {
        Ask::Corrupt { volume, offset_bytes, len_bytes } => {
            let (store, range) = (&stores[volume as usize], offset_bytes..offset_bytes + len_bytes);
            effect = of_corruption(store, &range);
            store.corrupt(&range, 1);
        }
        Ask::ClearAll => stores.iter().for_each(|s| s.clear_corruption()),
        Ask::Fault(Fault::Clear { part }) => stores[part.index()].clear_corruption(),
        Ask::Fault(_) | Ask::Full { .. } | Ask::Resize { .. } => {
            let why = "at native speed nothing is modelled: only corrupt and clear are available";
            return Err(why.to_owned());
        }
    }
    let mut answer = done(&in_effect(ask, false, numbered.device, &effect));
    if let Effect::None(why) = effect {
        answer["no_effect"] = why.into();
    }
    Ok(answer)
}
