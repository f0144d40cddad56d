//! Attribution of a device's transferred bytes: to the targets of this run through their stacks, and to other programs.

use iodyno_measure::{Cell, Effect, LayerEffect, Reached, Storage, StorageEnd, StorageLayer};
use iodyno_targets::{Counted, DevNo, DiskStats, End, Inspection, Layer, LayerKind, Stack};
use iodyno_units::OpKind;

/// Minimum of own I/O for a comparison with foreign I/O, bytes.
const MOVED_BYTES_MIN: u64 = 64 << 20;

/// File systems that write each block to a new place, and record that place in a tree or a table.
const COPY_ON_WRITE: [&str; 5] = ["btrfs", "f2fs", "bcachefs", "nilfs2", "zfs"];

/// Foreign I/O by target: the bytes that its device moved beyond those of this run, as a share of the run's. Other
/// targets of the run may use the same device, directly or at the bottom of their stacks. None if own and foreign
/// bytes can't be told apart: a page cache writes its bytes later, a server's I/O is unknown, and a copy-on-write file
/// system reads and writes its own metadata with each small I/O.
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
        let mut ours = 0;
        for (j, other) in inspections.iter().enumerate() {
            let bytes = cells[j].resources.moved_bytes;
            if device_number(other) == Some(dev) {
                ours += bytes;
                continue;
            }
            let Some(stack) = other.stack.as_ref().filter(|stack| may_pass(stack, dev)) else {
                continue;
            };
            let is_held_back = cells[j].evidence.direct == Some(false);
            if is_held_back
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

/// Whether a layer of a stack is a copy-on-write file system: its name begins with the type.
fn is_copy_on_write(layer: &Layer) -> bool {
    let fs_type = layer.name.split(' ').next().unwrap_or_default();
    layer.kind == LayerKind::FileSystem && COPY_ON_WRITE.contains(&fs_type)
}

/// Whether I/O through this stack may reach the device.
fn may_pass(stack: &Stack, dev: DevNo) -> bool {
    stack.anywhere || stack.passes(dev)
}

/// The storage below each target, and the number of its cell's bytes that reached it.
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

/// Converts a target's stack of storage layers into evidence.
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

/// The bytes of a cell's reads and writes, from its first operation to its last: all moved bytes, in the window's
/// ratio of reads to writes.
fn issued(cell: &Cell) -> Counted {
    let total = cell.total();
    let of = |kind| total.class(kind).map_or(0, |class| class.bytes);
    let all: u64 = OpKind::ALL.iter().map(|kind| of(*kind)).sum();
    let scaled = |bytes: u64| {
        let moved = cell.resources.moved_bytes.max(all);
        (u128::from(bytes) * u128::from(moved) / u128::from(all.max(1))) as u64
    };
    Counted { read_bytes: scaled(of(OpKind::Read)), written_bytes: scaled(of(OpKind::Write)) }
}

/// The bytes that a target's own I/O certainly moved at the bottom of its stack, at most the bytes counted there. None
/// if they are unknown: a page cache, a server or an emulated device may have answered.
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

/// The bytes at the bottom of target `i` that may be its own: all except those that the run's other targets with
/// simpler stacks certainly moved. Foreign I/O counts for the target: it may hide that memory answered, but never
/// casts doubt on an honest target.
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

/// Whether all bytes that `other` moves at its bottom are included in the count of `mine`.
fn is_counted_for(mine: &Stack, other: &Stack) -> bool {
    match other.lowest.as_slice() {
        _ if mine.anywhere => true,
        // A disk's counters include those of its partitions.
        [_] => mine.lowest.iter().any(|lowest| other.passes(lowest.dev)),
        [] => false,
        all => all.iter().all(|theirs| mine.lowest.iter().any(|lowest| lowest.dev == theirs.dev)),
    }
}

/// The device whose counters include a target's I/O.
pub(crate) fn device_number(inspection: &Inspection) -> Option<DevNo> {
    inspection.device.as_ref().map(|d| d.dev)
}

#[cfg(test)]
#[path = "device_bytes_tests.rs"]
mod tests;
