//! Derives properties of a device from its parameters, without a run: size, endurance, and content after a power cut.

use iodyno_emulate::describe::{DescribedDevice, count_by_source};
use iodyno_emulate::endurance::{Outlook, outlook};
use iodyno_emulate::spec::{Attach, Counted, DurableOrder, Flash, Kind, Limit, LimitOf};
use iodyno_units::human;
use serde_json::{Value, json};

/// An emulated device and the properties derived from its parameters.
#[derive(Debug)]
pub struct Described {
    /// The device's parameters, each with its source.
    pub device: DescribedDevice,
    /// Expected lifetime of the device's flash; None if the device has no flash.
    pub outlook: Option<Outlook>,
}

impl Described {
    /// Derives the properties of a device from its parameters.
    pub fn new(device: DescribedDevice) -> Self {
        let outlook = match &device.device.kind {
            Kind::Flash(flash) if flash.zones.is_none() => Some(outlook(flash)),
            Kind::Flash(_) | Kind::Disk(_) | Kind::Memory(_) | Kind::Volume(_) => None,
        };
        Self { device, outlook }
    }

    fn kind(&self) -> &Kind {
        &self.device.device.kind
    }

    /// Describes the kind of device and its typical times.
    fn kind_in_words(&self) -> String {
        match self.kind() {
            Kind::Flash(flash) => match flash.attach {
                Attach::MemoryChannel { .. } => "flash in a memory slot, behind a driver thread",
                Attach::Link { .. } => "flash behind a link",
            }
            .to_owned(),
            Kind::Disk(disk) => {
                let turn_ns = 60e9 / f64::from(disk.rpm);
                format!(
                    "disk of {} rpm: half a turn takes {}, an average seek {}",
                    disk.rpm,
                    human::time_ns(turn_ns / 2.0),
                    human::time_ns(disk.average_seek_ns as f64)
                )
            }
            Kind::Volume(volume) => format!(
                "fixed latency and limits: a read takes {}, a write {}",
                human::time_ns(volume.read_ns as f64),
                human::time_ns(volume.write_ns as f64)
            ),
            Kind::Memory(_) => "memory: each byte is copied by the submitting core".to_owned(),
        }
    }

    /// Whether all acknowledged writes survive a power cut, and a sentence that explains it.
    fn power_cut(&self) -> (bool, String) {
        let size = human::size;
        match self.kind() {
            Kind::Flash(f) if f.buffer.protected => (
                true,
                format!(
                    "all acknowledged writes survive: the buffer of {} is protected{}",
                    size(f.buffer.bytes),
                    blocks_in_words(f)
                ),
            ),
            Kind::Flash(f) => (
                false,
                format!(
                    "only flushed writes survive: the buffer of {} is volatile{}",
                    size(f.buffer.bytes),
                    blocks_in_words(f)
                ),
            ),
            Kind::Disk(d) if d.write_cache => (
                false,
                format!(
                    "only flushed writes survive: the write cache of {} is volatile",
                    size(d.buffer_bytes)
                ),
            ),
            Kind::Disk(_) => {
                (true, "all acknowledged writes survive: the write cache is off".to_owned())
            }
            Kind::Memory(m) if m.protected => {
                (true, "everything survives: the memory is protected".to_owned())
            }
            Kind::Memory(_) => (false, "nothing survives".to_owned()),
            Kind::Volume(_) => (true, "all acknowledged writes survive".to_owned()),
        }
    }

    /// The device's properties as text, each with a label.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let capacity_bytes = self.device.device.capacity_bytes();
        let mut lines = vec![
            ("kind", self.kind_in_words()),
            (
                "capacity",
                format!("{} ({})", decimal(capacity_bytes as f64), human::size(capacity_bytes)),
            ),
        ];
        lines.extend(self.device.device.limits.iter().map(|of| ("limit", limit_in_words(of))));
        if let (Some(outlook), Kind::Flash(flash)) = (&self.outlook, self.kind()) {
            let rated = &flash.endurance;
            lines.push((
                "spare",
                format!(
                    "{} of {} of NAND, less {} reserved",
                    share(outlook.spare_factor),
                    human::size(flash.nand.raw_bytes),
                    share(flash.translation.reserved_share)
                ),
            ));
            lines.push((
                "amplification",
                format!(
                    "{:.2} flash pages written per host page, for random writes to the whole device (from a formula)",
                    outlook.write_amplification
                ),
            ));
            let (freed, w) = (flash.translation.freed_per_write, outlook.write_amplification);
            if freed > 1.0 {
                lines.push((
                    "collection",
                    format!(
                        "garbage is collected in bursts of one superblock. During a burst a saturated drive has about {} of its mean rate of random writes. `explain` predicts long-term means",
                        share(w / (1.0 + freed * (w - 1.0)))
                    ),
                ));
            }
            lines.push((
                "endurance",
                format!(
                    "rated for {} drive writes a day over {} years: {}",
                    human::three_digits(rated.drive_writes_per_day),
                    rated.years,
                    decimal(outlook.rated_bytes)
                ),
            ));
            lines.push((
                "",
                format!(
                    "{} erase cycles allow {} of random writes ({} drive writes a day), or up to {} of sequential writes",
                    rated.cycles,
                    decimal(outlook.random_bytes),
                    human::three_digits(outlook.random_drive_writes_per_day),
                    decimal(outlook.sequential_bytes)
                ),
            ));
        }
        lines.push(("power cut", self.power_cut().1));
        lines
    }

    /// Returns the device's properties and parameters as JSON, with the source of each parameter.
    pub fn json(&self) -> Value {
        let parameter = |p: &iodyno_emulate::describe::Parameter| json!({ "key": p.key, "value": p.text, "rule": p.rule, "source": p.from.name(), "why": p.why });
        let sources: serde_json::Map<String, Value> = count_by_source(&self.device.parameters)
            .into_iter()
            .map(|(source, count)| (source.name().to_owned(), count.into()))
            .collect();
        let endurance = match (&self.outlook, self.kind()) {
            (Some(o), Kind::Flash(f)) => json!({
                "drive_writes_per_day": f.endurance.drive_writes_per_day,
                "years": f.endurance.years,
                "cycles": f.endurance.cycles,
                "rated_bytes": o.rated_bytes,
                "spare_factor": o.spare_factor,
                "write_amplification": o.write_amplification,
                "random_bytes": o.random_bytes,
                "sequential_bytes": o.sequential_bytes,
                "random_drive_writes_per_day": o.random_drive_writes_per_day,
            }),
            _ => Value::Null,
        };
        json!({
            "name": self.device.device.name,
            "summary": self.device.summary,
            "family": self.device.device.family(),
            "capacity_bytes": self.device.device.capacity_bytes(),
            "endurance": endurance,
            "acknowledged_survives_power_cut": self.power_cut().0,
            "sources": sources,
            "parameters": self.device.parameters.iter().map(parameter).collect::<Vec<_>>(),
        })
    }
}

/// Describes what a power cut may leave of writes that are not certain to survive: `; other writes may survive in part,
/// in whole blocks of 16 KiB, in any order`. Empty if the device's file does not say.
fn blocks_in_words(flash: &Flash) -> String {
    let Some(cut) = flash.power_cut else { return String::new() };
    let order = match cut.order {
        _ if flash.buffer.protected => "",
        DurableOrder::Any => ", in any order",
        DurableOrder::Acknowledged => ", in the order of acknowledgement",
    };
    format!(
        "; other writes may survive in part, in whole blocks of {}{order}",
        human::size(cut.atomic_bytes.into())
    )
}

/// Describes a limit: `300 IOPS; bursts to 3.00 k IOPS for 33 min 20 s, and refills in 5 h 0 min when idle`.
pub fn limit_in_words(limit: &Limit) -> String {
    let of = match limit.of {
        LimitOf::All => "",
        LimitOf::Reads => " of reads",
        LimitOf::Writes => " of writes",
    };
    let rate = |units: u64| match limit.counts {
        Counted::Operations => format!("{} IOPS{of}", human::count(units as f64)),
        Counted::Bytes => format!("{}{of}", human::throughput(units as f64)),
    };
    let Some(credits) = &limit.credits else { return rate(limit.rate) };
    let after = |units: u64, rate: u64| {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(rate.max(1));
        human::duration_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    };
    format!(
        "{}; bursts to {} for {}; credits refill in {} when idle",
        rate(limit.rate),
        rate(credits.burst),
        after(credits.start, credits.burst.saturating_sub(limit.rate)),
        after(credits.most, limit.rate)
    )
}

/// Formats bytes in powers of 1000, as manufacturers print them: `400 GB`, `7.30 PB`.
pub(super) fn decimal(bytes: f64) -> String {
    let units = [(1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let (scale, unit) = units.into_iter().find(|u| bytes >= u.0 * 0.9995).unwrap_or(units[4]);
    format!("{} {unit}", human::three_digits(bytes / scale))
}

/// Formats a fraction as a percentage: `25.3 %`.
fn share(share: f64) -> String {
    format!("{} %", human::three_digits(share * 100.0))
}
