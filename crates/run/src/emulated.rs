//! Emulated targets: the system that a run is on, and in which state its devices are when a cell
//! starts.
//!
//! A machine is made anew for every cell, so the state is that cell's own. Where the user leaves it
//! to the workload it is what the workload itself would have made of the device after long: the
//! workload-dependent preconditioning of the SNIA Solid State Storage Performance Test
//! Specification. It is decided by what the cell writes, and by what it reads where it writes
//! nothing; half of these operations or more in plain sequence make the device sequential.

use iodyno_drive::clock::Clock;
use iodyno_drive::engine::live::CompletionHandle;
use iodyno_drive::{Medium, blocks};
use iodyno_emulate::spec::{Kind, Precondition, Volume, Written};
use iodyno_emulate::{Machine, System};
use iodyno_live::served::{Live, Options};
use iodyno_live::store::{self, Store};
use iodyno_target::TargetName;
use iodyno_units::{OpKind, human};
use iodyno_workload::{Content, Pattern, Spec};
use serde_json::{Value, json};
use std::sync::Arc;

/// The block of random writes where a workload says none: the unit of most mapping tables.
const BLOCK_BYTES_DEFAULT: u32 = 4096;
/// Most memory for the bytes of one volume in real time.
const LIVE_BYTES_MAX: u64 = 4 << 30;

/// The emulated system that all targets of a run are volumes of.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The system; each target is one of its volumes, in order. The states in it are nominal: they
    /// are decided for each cell.
    pub system: System,
    /// What is known of each volume beside the system.
    pub volumes: Vec<EmulatedVolume>,
    /// In real time, rather than in virtual time.
    pub live: bool,
}

/// One emulated target.
#[derive(Clone, Debug)]
pub struct EmulatedVolume {
    /// What the user named, for the record: this volume or many like it.
    pub asked: TargetName,
    /// Its name in results.
    pub name: String,
    /// What was done to it before.
    pub state: EmulatedState,
    /// Which share of its capacity was written then, above 0, at most 1.
    pub fill: f64,
}

/// What was done to an emulated volume before a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedState {
    /// What the cell's workload would have done for long.
    Auto,
    /// Random writes in the cell's own block size.
    Random,
    /// This, whatever the workload is.
    Given(Written),
}

impl EmulatedVolume {
    /// Its state when a cell with this workload starts.
    fn before(&self, spec: &Spec) -> Precondition {
        let random = Written::Random { block_bytes: block_bytes(spec) };
        let how = match self.state {
            EmulatedState::Given(how) => how,
            EmulatedState::Auto if is_sequential(spec) => Written::Sequential,
            EmulatedState::Auto | EmulatedState::Random => random,
        };
        Precondition { how, fill: self.fill }
    }

    /// That state in words, and why it is this one.
    fn before_in_words(&self, spec: &Spec) -> String {
        let before = self.before(spec);
        let mut words = in_words(&before);
        if self.state == EmulatedState::Auto {
            words.push_str(" (auto)");
        }
        words
    }
}

impl Emulated {
    /// The system as a cell with this workload finds it.
    pub fn before(&self, spec: &Spec) -> Arc<System> {
        let mut system = self.system.clone();
        for (volume, asked) in system.volumes.iter_mut().zip(&self.volumes) {
            volume.state = asked.before(spec);
        }
        Arc::new(system)
    }

    /// The system as a method's cell with this workload finds it: written so, if that is given, and
    /// to this share of its capacity.
    pub(crate) fn made(&self, spec: &Spec, how: Option<Written>, fill: Option<f64>) -> Arc<System> {
        let mut system = self.system.clone();
        for (volume, asked) in system.volumes.iter_mut().zip(&self.volumes) {
            let own = asked.before(spec);
            volume.state =
                Precondition { how: how.unwrap_or(own.how), fill: fill.unwrap_or(own.fill) };
        }
        Arc::new(system)
    }

    /// That state in words, where the workload decides it.
    pub(crate) fn made_in_words(&self, spec: &Spec, fill: Option<f64>) -> Vec<String> {
        let words = |volume: &EmulatedVolume| {
            let own = volume.before(spec);
            in_words(&Precondition { how: own.how, fill: fill.unwrap_or(own.fill) })
        };
        self.volumes.iter().map(words).collect()
    }

    /// The state that a cell finds each volume in, in words.
    pub fn states(&self, spec: &Spec) -> Vec<String> {
        self.volumes.iter().map(|volume| volume.before_in_words(spec)).collect()
    }

    /// The medium of each volume, for what does not depend on its state.
    pub(crate) fn media(&self) -> Vec<Medium> {
        let system = Arc::new(self.system.clone());
        let volumes = 0..system.volumes.len() as u32;
        volumes.map(|volume| Medium::Model { system: Arc::clone(&system), volume }).collect()
    }

    /// The targets of a cell in real time: one machine against the clock, that carries them all. Bytes
    /// are kept where the workload verifies them.
    ///
    /// # Errors
    /// What can't be built, and which rule it breaks.
    pub(crate) fn served(
        system: &System,
        spec: &Spec,
        seed: u64,
    ) -> Result<(Arc<Live<CompletionHandle>>, Vec<Medium>), String> {
        let mut machine = Machine::new(system, seed)?;
        let threads = spec.threads();
        let volumes = 0..machine.volumes();
        for volume in volumes.clone() {
            for _ in 0..threads {
                machine.add_worker(volume);
            }
        }
        let stores = match spec.content() {
            Content::Verifiable => system.volumes.iter().map(store).collect(),
            _ => Vec::new(),
        };
        let live = Live::new(machine, stores, &Options::default(), || Clock::new().now_ns());
        let live = Arc::new(live);
        let medium = |volume| Medium::Live {
            live: Arc::clone(&live),
            volume,
            first_worker: volume * threads,
        };
        Ok((Arc::clone(&live), volumes.map(medium).collect()))
    }

    /// What a volume is, for the record and for people.
    pub fn facts(&self, volume: usize) -> Value {
        let (System { name, host, .. }, of) = (&self.system, &self.system.volumes[volume]);
        json!({
            "device": of.device.name,
            "family": of.device.kind.family(),
            "system": name,
            "live": self.live,
            "volumes": self.system.volumes.len(),
            "socket": of.socket,
            "sockets": host.sockets,
            "cores_per_socket": host.cores_per_socket,
            "workers_near": host.workers_near,
            "state": match self.volumes[volume].state {
                EmulatedState::Auto => "auto",
                EmulatedState::Random | EmulatedState::Given(Written::Random { .. }) => "random",
                EmulatedState::Given(Written::Fresh) => "fresh",
                EmulatedState::Given(Written::Sequential) => "sequential",
            },
            "fill": self.volumes[volume].fill,
        })
    }
}

/// The bytes of a volume, in memory.
fn store(volume: &Volume) -> Store {
    let emptied_by_power_failure =
        matches!(&volume.device.kind, Kind::Memory(memory) if !memory.protected);
    let options = store::Options { emptied_by_power_failure, ..store::Options::default() };
    Store::in_memory(volume.device.capacity_bytes(), LIVE_BYTES_MAX, options)
}

/// `random in 4 KiB blocks, 50 % full`: the words of `?state=`.
pub fn in_words(before: &Precondition) -> String {
    let how = match before.how {
        Written::Fresh => return "fresh".to_owned(),
        Written::Sequential => "sequential".to_owned(),
        Written::Random { block_bytes } => {
            format!("random in {} blocks", human::size(block_bytes.into()))
        }
    };
    let percent = before.fill * 100.0;
    if before.fill < 1.0 { format!("{how}, {percent} % full") } else { how }
}

/// The kinds of operation that decide what a workload makes of a device, with their shares.
fn decisive(spec: &Spec) -> Vec<(OpKind, f64)> {
    let shares = |kind| spec.kinds().filter(move |k| k.0 == kind);
    let writes: Vec<_> = shares(OpKind::Write).collect();
    if writes.is_empty() { shares(OpKind::Read).collect() } else { writes }
}

/// Whether half of the decisive operations or more go on where the one before ended.
fn is_sequential(spec: &Spec) -> bool {
    let (mut sequential, mut all) = (0.0, 0.0);
    for (kind, _) in decisive(spec) {
        for address in spec.addresses(kind) {
            all += address.share;
            if matches!(address.pattern, Pattern::Sequential { run: None, .. }) {
                sequential += address.share;
            }
        }
    }
    all > 0.0 && 2.0 * sequential >= all
}

/// The block of the decisive operations with the largest share, bytes.
fn block_bytes(spec: &Spec) -> u32 {
    let decisive = decisive(spec);
    let own = decisive.iter().flat_map(|(kind, _)| spec.blocks(*kind));
    let largest = own.reduce(|a, b| if b.share > a.share { b } else { a });
    let any = || blocks(spec).first().map(|block| block.0);
    largest.map(|block| block.bytes).or_else(any).unwrap_or(BLOCK_BYTES_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(text: &str, state: EmulatedState) -> Precondition {
        let spec = Spec::from_toml(&format!("schema = 1\n{text}")).unwrap();
        let asked = TargetName::parse("model:x").unwrap();
        EmulatedVolume { name: asked.to_string(), asked, state, fill: 1.0 }.before(&spec)
    }

    /// What is written decides; only where nothing is written, what is read.
    #[test]
    fn the_state_follows_the_workload() {
        use Written::{Random, Sequential};
        for (text, how) in [
            ("[mix]\nread = 1", Random { block_bytes: 4096 }),
            ("block = \"16KiB\"\n[mix]\nread = 1", Random { block_bytes: 16 << 10 }),
            ("[mix]\nread = 1\n[read]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 99\nwrite = 1\n[read]\naddresses = \"sequential\"",
                Random { block_bytes: 4096 },
            ),
            ("[mix]\nread = 99\nwrite = 1\n[write]\naddresses = \"sequential\"", Sequential),
            (
                "[mix]\nread = 1\nwrite = 1\n[read]\nblock = \"64KiB\"\n[write]\nblock = [{ size = \"4KiB\", share = 1 }, { size = \"8KiB\", share = 3 }]",
                Random { block_bytes: 8192 },
            ),
            ("block = \"32KiB\"\n[mix]\ntrim = 1", Random { block_bytes: 32 << 10 }),
        ] {
            assert_eq!(before(text, EmulatedState::Auto).how, how, "{text}");
        }
        let seq = "block = \"1MiB\"\n[mix]\nwrite = 1\n[write]\naddresses = \"sequential\"";
        assert_eq!(before(seq, EmulatedState::Random).how, Random { block_bytes: 1 << 20 });
        let fresh = EmulatedState::Given(Written::Fresh);
        assert_eq!(before(seq, fresh).how, Written::Fresh);
    }
}
