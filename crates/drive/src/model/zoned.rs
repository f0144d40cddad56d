//! Workloads on zoned devices: writes must go through the zones in order.

use crate::engine::Medium;
use crate::plan::{DriveError, TargetPlan, active_range};
use core::ops::Range;
use iodyno_emulate::spec::{PlacedDevice, Zones};
use iodyno_units::OpKind;
use iodyno_workload::{Address, Pattern, Spec, size_text};

/// Checks that a workload writes the zones of a zoned volume sequentially, and reads only addresses that can hold
/// data.
///
/// # Errors
/// [`DriveError::DoesNotFit`] with the change of the workload that is needed.
pub(super) fn check(spec: &Spec, at: &TargetPlan) -> Result<(), DriveError> {
    let Medium::Model { system, volume } = &at.medium else { return Ok(()) };
    let Some(zones) = system.devices_of(*volume).find_map(PlacedDevice::zones) else {
        return Ok(());
    };
    let capacity_bytes = at.medium.capacity_bytes();
    match misfit(zones, spec).or_else(|| gap(zones, spec, capacity_bytes)) {
        Some(why) => Err(DriveError::DoesNotFit { target: at.name.clone(), why }),
        None => Ok(()),
    }
}

/// Returns why a workload can't write to zones, and the remedy; `None` if it can, or only reads.
fn misfit(zones: Zones, spec: &Spec) -> Option<String> {
    if spec.issues(OpKind::WriteZeroes) {
        return Some("zoned devices refuse write_zeroes: remove it from the mix".to_owned());
    }
    if !spec.issues(OpKind::Write) {
        return None;
    }
    let Zones { size_bytes, capacity_bytes, open_max, .. } = zones;
    let size = size_text(capacity_bytes);
    // Without a capacity, a zone above 1 GiB is trimmed in parts, which reset nothing.
    let open = match spec.addresses(OpKind::Write) {
        [address] => match address.pattern {
            Pattern::Zones { zone_bytes, open, capacity_bytes: Some(capacity), .. }
                if (zone_bytes, capacity) == (size_bytes, capacity_bytes) =>
            {
                Some(u64::from(open))
            }
            _ => None,
        },
        _ => None,
    };
    let Some(open) = open else {
        return Some(format!(
            "zones must be written in order: give writes the addresses {{ pattern = \"zones\", zone = \"{}\", capacity = \"{size}\", open = 1, trim = true }}",
            size_text(size_bytes),
        ));
    };
    let partial = |bytes: u32| !capacity_bytes.is_multiple_of(bytes.into());
    if let Some(block) = spec.blocks(OpKind::Write).iter().find(|block| partial(block.bytes)) {
        return Some(format!(
            "blocks of {} never fill a zone of {size}, which then stays active: use a block size that divides {size}",
            size_text(block.bytes.into()),
        ));
    }
    let workers = u64::from(spec.threads());
    let per_worker = match spec.worker_step_bytes() {
        Some(_) => open,
        None => (open / workers).max(1),
    };
    (workers * per_worker > open_max.into()).then(|| {
        format!(
            "the workers keep {} zones open at once, but the device allows only {open_max}: reduce `threads` or `open`",
            workers * per_worker
        )
    })
}

/// Returns why a workload would read addresses between a zone's capacity and its size, and the remedy; `None` if it
/// does not. Such reads complete at once.
fn gap(zones: Zones, spec: &Spec, device_bytes: u64) -> Option<String> {
    let Zones { size_bytes, capacity_bytes, .. } = zones;
    if !spec.issues(OpKind::Read) || capacity_bytes == size_bytes {
        return None;
    }
    let Range { start, end } = active_range(spec, device_bytes);
    let is_in_one_zone = |from: u64, to: u64| {
        let zone_start = from / size_bytes * size_bytes;
        to <= zone_start + capacity_bytes
    };
    let is_inside = |address: &Address| match &address.pattern {
        Pattern::Zones { zone_bytes, capacity_bytes: Some(capacity), .. } => {
            (*zone_bytes, *capacity) == (size_bytes, capacity_bytes)
        }
        Pattern::HotSpots { spots, scatter: false } => {
            let mut from = start as f64;
            spots.iter().all(|spot| {
                let to = from + spot.range.fraction() * (end - start) as f64;
                let range = (from as u64, to as u64);
                from = to;
                spot.share == 0.0 || is_in_one_zone(range.0, range.1)
            })
        }
        _ => is_in_one_zone(start, end),
    };
    (!spec.addresses(OpKind::Read).iter().all(is_inside)).then(|| {
        let size = size_text(capacity_bytes);
        format!(
            "each zone of {} has data only in its first {size}, and reads of the rest would complete at once: read within one zone, such as --active {size}",
            size_text(size_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misfit_of(text: &str) -> String {
        let zones = Zones {
            size_bytes: 2 << 30,
            capacity_bytes: 1077 << 20,
            open_max: 14,
            active_max: 14,
            append_command_ns: 0,
            reset_ns: 0,
            appends: false,
        };
        let spec = Spec::from_toml(&format!("schema = 1\n{text}")).unwrap();
        misfit(zones, &spec).unwrap_or_default()
    }

    /// A workload that writes with this block size and number of threads; `zones` has the other keys of its address
    /// pattern.
    fn writes(block: &str, threads: u32, zones: &str) -> String {
        misfit_of(&format!(
            "threads = {threads}\nblock = \"{block}\"\n[mix]\nwrite = 1\n[all]\naddresses = {{ pattern = \"zones\", {zones} }}"
        ))
    }

    /// Reads stay below the capacity of one zone, or follow the zones.
    #[test]
    fn reads_avoid_the_gaps_between_zones() {
        let gap_of = |capacity_mib: u64, text: &str| {
            let zones = Zones {
                size_bytes: 2 << 30,
                capacity_bytes: capacity_mib << 20,
                open_max: 14,
                active_max: 14,
                append_command_ns: 0,
                reset_ns: 0,
                appends: false,
            };
            let spec = Spec::from_toml(&format!("schema = 1\n{text}")).unwrap();
            gap(zones, &spec, 200 << 30)
        };
        let read = "mix = { read = 1 }";
        let found = gap_of(1077, read).unwrap_or_default();
        assert!(found.contains("--active 1077MiB"), "{found}");
        assert_eq!(gap_of(2048, read), None);
        let spots = |range: &str, rest: &str| {
            format!(
                "{read}\n[read.addresses]\npattern = \"hot-spots\"\nspots = [{{ share = 1, range = \"{range}\" }}, {{ share = 0, range = \"{rest}\" }}]"
            )
        };
        for (text, is_refused) in [
            (format!("active = \"1077MiB\"\n{read}"), false),
            (format!("active = \"4GiB..+1077MiB\"\n{read}"), false),
            (format!("active = \"1078MiB\"\n{read}"), true),
            (format!("active = \"1GiB..+1GiB\"\n{read}"), true),
            (spots("0.5%", "99.5%"), false),
            (spots("0.6%", "99.4%"), true),
            (
                format!(
                    "{read}\n[all]\naddresses = {{ pattern = \"zones\", zone = \"2GiB\", capacity = \"1077MiB\", open = 1 }}"
                ),
                false,
            ),
            ("mix = { write = 1 }".to_owned(), false),
        ] {
            assert_eq!(gap_of(1077, &text).is_some(), is_refused, "{text}");
        }
    }

    #[test]
    fn each_misfit_has_a_remedy() {
        const ZONE: &str = "zone = \"2GiB\", capacity = \"1077MiB\", trim = true";
        let open = |open: u32| format!("{ZONE}, open = {open}");
        assert_eq!(writes("128KiB", 1, &open(14)), "");
        assert_eq!(writes("128KiB", 14, &open(1)), "");
        assert_eq!(writes("128KiB", 4, &open(14)), "", "3 zones per worker");
        assert_eq!(misfit_of("[mix]\nread = 1"), "");
        let exceeds = "15 zones open at once, but the device allows only 14";
        assert!(writes("128KiB", 1, &open(15)).contains(exceeds));
        assert!(writes("128KiB", 15, &open(1)).contains(exceeds));
        let partial = writes("2MiB\"\nalign = \"4KiB", 1, &open(1));
        assert!(partial.contains("blocks of 2MiB never fill a zone of 1077MiB"), "{partial}");
        let remedy = "zone = \"2GiB\", capacity = \"1077MiB\", open = 1, trim = true";
        for zones in [
            "zone = \"2GiB\", open = 1, trim = true",
            "zone = \"1077MiB\", capacity = \"1077MiB\", open = 1, trim = true",
            "zone = \"2GiB\", capacity = \"1GiB\", open = 1, trim = true",
        ] {
            let found = writes("128KiB", 1, zones);
            assert!(found.contains(remedy), "{zones}: {found}");
        }
        assert!(misfit_of("[mix]\nwrite = 1").contains(remedy));
        assert!(misfit_of("[mix]\nread = 1\nwrite_zeroes = 1").contains("remove it"));
    }

    /// A zone with all its blocks writable needs a `capacity` too: otherwise trims of at most 1 GiB do not reset it.
    #[test]
    fn a_capacity_is_required() {
        let zones = Zones {
            size_bytes: 2 << 30,
            capacity_bytes: 2 << 30,
            open_max: 1,
            active_max: 1,
            append_command_ns: 0,
            reset_ns: 0,
            appends: false,
        };
        let of = |capacity: &str| {
            let text = format!(
                "schema = 1\n[mix]\nwrite = 1\n[all]\naddresses = {{ pattern = \"zones\", zone = \"2GiB\", open = 1, trim = true{capacity} }}"
            );
            misfit(zones, &Spec::from_toml(&text).unwrap())
        };
        assert!(of("").unwrap().contains("capacity = \"2GiB\""));
        assert_eq!(of(", capacity = \"2GiB\""), None);
    }
}
