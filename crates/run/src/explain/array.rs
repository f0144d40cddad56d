//! Describes the arrays of a system by their layout and parameters, without a run.

use super::device::decimal;
use iodyno_emulate::System;
use iodyno_emulate::spec::{Array, SECTOR_BYTES};
use iodyno_units::human;
use serde_json::{Value, json};

/// An array of an emulated system.
#[derive(Debug)]
pub struct DescribedArray {
    /// Name of the volume.
    pub name: String,
    array: Array,
}

/// Returns the arrays of the system's volumes, one per name. Arrays that are members of others are left out.
pub fn arrays(system: &System) -> Vec<DescribedArray> {
    let mut all: Vec<DescribedArray> = Vec::new();
    for (volume, of) in (0..).zip(&system.volumes) {
        if let Some((_, array)) = system.array_of(volume)
            && all.iter().all(|known| known.name != of.name)
        {
            all.push(DescribedArray { name: of.name.clone(), array: array.clone() });
        }
    }
    all
}

impl DescribedArray {
    fn capacity_bytes(&self) -> u64 {
        self.array.layout.sectors() * SECTOR_BYTES
    }

    /// Strip size in bytes; None for levels without strips.
    fn strip_bytes(&self) -> Option<u64> {
        let layout = &self.array.layout;
        layout.level().has_strips().then(|| layout.strip_sectors() * SECTOR_BYTES)
    }

    fn has_parity(&self) -> bool {
        self.array.layout.level().parities() > 0
    }

    fn kind_in_words(&self) -> String {
        let Array { members, spares, layout, .. } = &self.array;
        let mut words = vec![format!("{} of {} members", layout.level(), members.len())];
        if !spares.is_empty() {
            words.push(human::counted(spares.len() as u64, "spare"));
        }
        words.extend(self.strip_bytes().map(|bytes| format!("strips of {}", human::size(bytes))));
        words.extend(self.has_parity().then(|| layout.rotation().to_string()));
        words.join(", ")
    }

    /// The array's properties as text, each with a label.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Array { stripe_ns, parity_bytes_per_s, rebuild_bytes_per_s, journal, path, .. } =
            &self.array;
        let bytes = self.capacity_bytes();
        let usable = format!("{} ({}) usable", decimal(bytes as f64), human::size(bytes));
        let mut lines = vec![("kind", self.kind_in_words()), ("capacity", usable)];
        if self.has_parity() {
            let parity = match path {
                Some(_) => "computed by the RAID adapters".to_owned(),
                None => format!(
                    "computed by one processor: {} per stripe of a write, and {} of data read and written (assumed)",
                    human::time_ns(*stripe_ns as f64),
                    human::throughput(*parity_bytes_per_s)
                ),
            };
            lines.push(("parity", parity));
        }
        if self.array.layout.is_redundant() {
            let rebuild =
                format!("at most {} to a member", human::throughput(*rebuild_bytes_per_s));
            lines.push(("rebuild", rebuild));
        }
        if self.has_parity() {
            let cut = if *journal {
                "a journal in the adapters' cache keeps parity consistent"
            } else {
                "without a member, rows with unflushed writes lose its data (write hole)"
            };
            lines.push(("power cut", cut.to_owned()));
        }
        lines
    }

    /// Returns the array's properties as JSON.
    pub fn json(&self) -> Value {
        let array = &self.array;
        let has_own = self.has_parity() && array.path.is_none();
        json!({
            "name": self.name,
            "level": array.layout.level().word(),
            "members": array.members.len(),
            "spares": array.spares.len(),
            "capacity_bytes": self.capacity_bytes(),
            "strip_bytes": self.strip_bytes(),
            "layout": self.has_parity().then(|| array.layout.rotation().to_string()),
            "stripe_ns": has_own.then_some(array.stripe_ns),
            "parity_bytes_per_s": has_own.then_some(array.parity_bytes_per_s),
            "rebuild_bytes_per_s": array.rebuild_bytes_per_s,
            "journal": array.journal,
        })
    }
}
