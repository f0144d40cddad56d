//! Divides the I/O of a device, in bytes, among the targets of this run and other programs. The storage stacks of the
//! targets show which targets share a device.

use iodyno_measure::{Cell, Effect, LayerEffect, Reached, Storage, StorageEnd, StorageLayer};
use iodyno_targets::{Counted, DevNo, DiskStats, End, Inspection, Layer, LayerKind, Stack};
use iodyno_units::OpKind;

/// Bytes that a cell must move before its I/O is compared with that of other programs.
const MOVED_BYTES_MIN: u64 = 64 << 20;

/// Copy-on-write file systems, whose writes cause additional metadata I/O.
const COPY_ON_WRITE: [&str; 5] = ["btrfs", "f2fs", "bcachefs", "nilfs2", "zfs"];

/// For each target, I/O of other programs on its device, as a fraction of the run's own I/O there. The run's I/O
/// includes that of other targets on the same device. None if the device's counters can't show foreign I/O: if a page
/// cache delays writes, the I/O of a server is unknown, a copy-on-write file system adds metadata I/O, or a target of
/// the run writes zeroes, which some devices count as written bytes.
pub(crate) fn foreign_shares(
    inspections: &[Inspection],
    cells: &[Cell],
    moved: &[Option<DiskStats>],
) -> Vec<Option<f64>> {
    let all_bytes = |stats: &DiskStats| stats.read_bytes + stats.written_bytes;
    let one = |(i, cell): (usize, &Cell)| {
        let dev = device_number(&inspections[i])?;
        let all = all_bytes(moved[i].as_ref()?);
        let of_file = inspections[i].file_system.as_ref();
        let copies = of_file.is_some_and(|fs| COPY_ON_WRITE.contains(&fs.fs_type.as_str()));
        if cell.evidence.direct != Some(true) || cell.evidence.passthrough || copies {
            return None;
        }
        let zeroes = |cell: &Cell| cell.total().class(OpKind::WriteZeroes).is_some();
        let mut ours = 0;
        for (j, other) in inspections.iter().enumerate() {
            let bytes = cells[j].resources.moved_bytes;
            if device_number(other) == Some(dev) {
                if zeroes(&cells[j]) {
                    return None;
                }
                ours += bytes;
                continue;
            }
            let Some(stack) = other.stack.as_ref().filter(|stack| may_pass(stack, dev)) else {
                continue;
            };
            let is_held_back = cells[j].evidence.direct == Some(false);
            if is_held_back
                || zeroes(&cells[j])
                || stack.anywhere
                || !stack.page_cache.is_empty()
                || stack.layers.iter().any(is_copy_on_write)
            {
                return None;
            }
            // The device's counters include the overhead of its file system.
            ours += moved[j].as_ref().map_or(bytes, |stats| all_bytes(stats).max(bytes));
        }
        // The one-time I/O of the file system dominates short cells.
        let own = cell.resources.moved_bytes;
        (own >= MOVED_BYTES_MIN).then(|| all.saturating_sub(ours) as f64 / ours.max(1) as f64)
    };
    cells.iter().enumerate().map(one).collect()
}

/// Whether a layer is a copy-on-write file system. The layer's name begins with the type of the file system.
fn is_copy_on_write(layer: &Layer) -> bool {
    let fs_type = layer.name.split(' ').next().unwrap_or_default();
    layer.kind == LayerKind::FileSystem && COPY_ON_WRITE.contains(&fs_type)
}

/// Whether I/O to the top of this storage stack may reach device `dev`.
fn may_pass(stack: &Stack, dev: DevNo) -> bool {
    stack.anywhere || stack.passes(dev)
}

/// Describes the storage below each target, and how many bytes of its cell's I/O reached the devices.
pub(crate) fn storage(
    inspections: &[Inspection],
    cells: &[Cell],
    counted: &[(Option<Counted>, Option<Counted>)],
) -> Vec<Option<Storage>> {
    let stacks: Vec<Option<&Stack>> = inspections.iter().map(|i| i.stack.as_ref()).collect();
    let issued: Vec<Counted> = cells.iter().map(issued).collect();
    let moved: Vec<Option<Counted>> =
        counted.iter().map(|(before, after)| Some((*after)?.since(&(*before)?))).collect();
    let taken: Vec<Option<Counted>> =
        (0..cells.len()).map(|j| taken(stacks[j]?, &cells[j], issued[j], moved[j])).collect();
    let one = |i: usize| {
        let stack = stacks[i]?;
        let mut found = storage_of(stack);
        if !stack.anywhere {
            found.device_written_bytes = counted[i].0.map(|before| before.written_bytes);
        }
        let of_memory = || (stack.end == End::Memory).then(Counted::default);
        let reached = share_of(i, &stacks, &taken, &moved).or_else(of_memory);
        found.reached = reached.map(|reached| Reached {
            issued_read_bytes: issued[i].read_bytes,
            device_read_bytes: reached.read_bytes,
            issued_written_bytes: issued[i].written_bytes,
            device_written_bytes: reached.written_bytes,
        });
        Some(found)
    };
    (0..stacks.len()).map(one).collect()
}

/// Converts a target's storage stack to the form in which it is stored with a measured cell.
pub fn storage_of(stack: &Stack) -> Storage {
    let word = |kind: LayerKind| {
        let word = serde_json::to_value(kind).ok();
        word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let layer = |l: &Layer| StorageLayer { kind: word(l.kind), name: l.name.clone() };
    let effect = |of: &iodyno_targets::LayerEffect| LayerEffect {
        layer: of.layer.clone(),
        driver: of.driver.clone(),
        effect: same_effect(of.effect),
        amount: of.amount.clone(),
    };
    let sizes = stack.lowest.iter().map(|lowest| lowest.size_bytes);
    let turns = stack.lowest.iter().map(|lowest| lowest.rotational);
    Storage {
        layers: stack.layers.iter().map(layer).collect(),
        end: match stack.end {
            End::Unknown => StorageEnd::Unknown,
            End::Device => StorageEnd::Device,
            End::Served => StorageEnd::Served,
            End::Remote => StorageEnd::Remote,
            End::Emulated => StorageEnd::Emulated,
            End::Memory => StorageEnd::Memory,
        },
        lowest: stack.lowest.iter().map(|lowest| lowest.name.clone()).collect(),
        page_cache: stack.page_cache.clone(),
        effects: stack.effects.iter().map(effect).collect(),
        reached: None,
        device_bytes: sizes.sum::<Option<u64>>().filter(|bytes| *bytes > 0),
        device_written_bytes: None,
        // One rotating disk makes the storage rotational; it is non-rotational only if all are known to be.
        rotational: turns
            .reduce(|a, b| match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            })
            .flatten(),
    }
}

const fn same_effect(effect: iodyno_targets::Effect) -> Effect {
    use iodyno_targets::Effect as Of;
    match effect {
        Of::Delays => Effect::Delays,
        Of::Fails => Effect::Fails,
        Of::Caches => Effect::Caches,
        Of::CachesWrites => Effect::CachesWrites,
        Of::CopiesOnWrite => Effect::CopiesOnWrite,
        Of::RecordsWrites => Effect::RecordsWrites,
        Of::Degraded => Effect::Degraded,
        Of::Resyncs => Effect::Resyncs,
        Of::Allocates => Effect::Allocates,
        Of::Reduces => Effect::Reduces,
        Of::Encrypts => Effect::Encrypts,
        Of::Verifies => Effect::Verifies,
        Of::BuffersWrites => Effect::BuffersWrites,
    }
}

/// Estimates the bytes that a cell read and wrote, ramp included: the bytes that it moved, divided in the ratio of
/// reads to writes in the measured window.
fn issued(cell: &Cell) -> Counted {
    let total = cell.total();
    let of = |kind| total.class(kind).map_or(0, |class| class.bytes);
    let all = total.bytes();
    let scaled = |bytes: u64| {
        let moved = cell.resources.moved_bytes.max(all);
        (u128::from(bytes) * u128::from(moved) / u128::from(all.max(1))) as u64
    };
    Counted { read_bytes: scaled(of(OpKind::Read)), written_bytes: scaled(of(OpKind::Write)) }
}

/// Bytes that a target's own I/O certainly moved at the bottom of its storage stack: the bytes that the cell `issued`,
/// but at most those in the disks' counters (`moved`). None if a page cache, a server or an emulated device may have
/// completed the I/O instead.
fn taken(stack: &Stack, cell: &Cell, issued: Counted, moved: Option<Counted>) -> Option<Counted> {
    if cell.evidence.direct == Some(false) || !stack.page_cache.is_empty() {
        return None;
    }
    match stack.end {
        End::Device if !stack.lowest.is_empty() => Some(Counted {
            read_bytes: issued.read_bytes.min(moved?.read_bytes),
            written_bytes: issued.written_bytes.min(moved?.written_bytes),
        }),
        // All bytes come over the network, which is counted with the disks.
        End::Remote => Some(issued),
        _ => None,
    }
}

/// Upper bound of the bytes that target `i` moved at the bottom of its storage stack: the bytes in the disks' counters
/// (`moved`) minus the bytes that other targets of the run, with simpler stacks, certainly moved (`taken`). I/O of
/// other programs is not subtracted, so that a target is never wrongly suspected of being served from memory.
fn share_of(
    i: usize,
    stacks: &[Option<&Stack>],
    taken: &[Option<Counted>],
    moved: &[Option<Counted>],
) -> Option<Counted> {
    let (mine, mut left) = (stacks[i]?, moved[i]?);
    let depth =
        |j: usize| stacks[j].map(|s| (s.anywhere, !s.page_cache.is_empty(), s.layers.len()));
    for (j, other) in stacks.iter().enumerate() {
        let is_before = j != i && (depth(j), j) < (depth(i), i);
        if is_before
            && other.is_some_and(|other| is_counted_for(mine, other))
            && let Some(taken) = taken[j]
        {
            left.read_bytes = left.read_bytes.saturating_sub(taken.read_bytes);
            left.written_bytes = left.written_bytes.saturating_sub(taken.written_bytes);
        }
    }
    Some(left)
}

/// Whether the counters at the bottom of stack `mine` include all bytes that `other` moves at its own bottom.
fn is_counted_for(mine: &Stack, other: &Stack) -> bool {
    match other.lowest.as_slice() {
        _ if mine.anywhere => true,
        // A disk's counters include those of its partitions.
        [_] => mine.lowest.iter().any(|lowest| other.passes(lowest.dev)),
        [] => false,
        all => all.iter().all(|theirs| mine.lowest.iter().any(|lowest| lowest.dev == theirs.dev)),
    }
}

/// Device number of the block device whose counters include a target's I/O.
pub(crate) fn device_number(inspection: &Inspection) -> Option<DevNo> {
    inspection.device.as_ref().map(|d| d.dev)
}

#[cfg(test)]
#[path = "device_bytes_tests.rs"]
mod tests;
