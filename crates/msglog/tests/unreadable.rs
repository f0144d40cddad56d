//! Logs on a target that fails to read: some sectors always, or all reads for a time or from some time on.
//!
//! The rule: an unreadable chunk may have been acknowledged. A log is opened as if all were readable, or with damage, or not
//! at all.

use crate::common::disk::{Disk, SECTOR_BYTES};
use crate::damage::written;
use iodyno_msglog::layout::DESCRIPTION_OFFSETS;
use iodyno_msglog::recovery::{
    ReplayFrom, Replayed, lost_descriptions, recover, recover_ahead, replay,
};
use iodyno_msglog::storage::Buffer;
use iodyno_msglog::{Chunk, OpenError, ReadAhead, Recovered, Storage as _};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::VecDeque;
use std::io;
use std::ops::{ControlFlow, Range};

/// Read-ahead that reads when a read begins.
struct AtOnce(Disk, VecDeque<(Box<dyn Buffer>, io::Result<()>)>);

impl ReadAhead for AtOnce {
    fn begin(&mut self, offset: u64, bytes: usize, mut buffer: Box<dyn Buffer>, into: usize) {
        let result = self.0.read_at(offset, &mut (*buffer).as_mut()[into..into + bytes]);
        self.1.push_back((buffer, result));
    }

    fn take(&mut self) -> Option<(Box<dyn Buffer>, io::Result<()>)> {
        self.1.pop_front()
    }
}

fn ahead(disk: &Disk, rng: &mut Generator) -> Option<Box<dyn ReadAhead>> {
    let ahead = AtOnce(disk.clone(), VecDeque::new());
    (below(rng, 2) == 0).then(|| Box::new(ahead) as Box<dyn ReadAhead>)
}

type Opened<T> = (Result<T, OpenError>, Vec<u64>);

fn recovered(disk: &Disk, ahead: Option<Box<dyn ReadAhead>>) -> Opened<Recovered> {
    let mut numbers = Vec::new();
    let found = recover_ahead(disk, ahead, |chunk| note(&mut numbers, chunk));
    (found, numbers)
}

fn replayed(disk: &Disk, ahead: Option<Box<dyn ReadAhead>>, chunks: u64) -> Opened<Replayed> {
    let (mut numbers, mut left) = (Vec::new(), chunks);
    let found = replay(disk, ahead, ReplayFrom::Message(0), &mut |chunk| {
        note(&mut numbers, chunk);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (found, numbers)
}

fn note(numbers: &mut Vec<u64>, chunk: &Chunk<'_>) {
    numbers.extend(chunk.messages().map(|(number, _)| number));
}

/// Requires that an error is a read error at an unreadable sector.
fn is_read_error(error: &OpenError, unreadable: &Range<usize>) {
    let OpenError::Read { offset_bytes, source } = error else { panic!("{error}") };
    let at = *offset_bytes as usize / SECTOR_BYTES;
    assert!(unreadable.is_empty() || (at < unreadable.end && unreadable.start < at + 8), "{error}");
    assert_eq!(source.raw_os_error(), Some(5));
    assert!(error.to_string().ends_with("Input/output error (os error 5)"), "{error}");
}

/// Whether recovery needs this sector: of a segment on the target, up to the chunk after the log's end.
fn is_needed(whole: &Recovered, sector: usize) -> bool {
    let (layout, end) = (&whole.layout, whole.tail.position);
    let newest = layout.segment(end);
    let at = (sector * SECTOR_BYTES) as u64;
    ((newest + 1).saturating_sub(layout.slots())..=newest).any(|segment| {
        let start = layout.segment_start(segment);
        let len = layout.segment_bytes.min(end - start + u64::from(layout.align_bytes));
        (layout.offset_bytes(start)..layout.offset_bytes(start) + len).contains(&at)
    })
}

#[test]
fn no_acknowledged_message_is_missing_without_an_error() {
    let [mut as_whole, mut damaged, mut refused] = [0; 3];
    for seed in 0..60 {
        let rng = &mut stream(seed, "unreadable", 0);
        let (mut history, _) = written(seed, rng);
        if below(rng, 2) == 0 {
            let mut life = history.open(1).unwrap();
            let steps = below(rng, 60);
            history.run(&mut life, rng, steps).unwrap();
            history.crash(&life, rng).unwrap();
        }
        let disk = history.disk.clone();
        let reads = disk.reads();
        let (whole, numbers) = recovered(&disk, None);
        let (whole, reads) = (whole.unwrap(), disk.reads() - reads);
        let sectors = disk.capacity_bytes() as usize / SECTOR_BYTES;
        for kind in [0, 0, 0, 1, 2, 3] {
            let disk = disk.clone();
            let first = 128 + below(rng, sectors as u64 - 128) as usize;
            let len = [1, 1, 8, 64][below(rng, 4) as usize];
            let from = disk.reads() + 1 + below(rng, reads + 2);
            let mut unreadable = 0..0;
            match kind {
                0 => unreadable = first..(first + len).min(sectors),
                1 => unreadable = first..sectors,
                2 => disk.fail_reads(from..from + 1 + below(rng, reads)),
                _ => disk.fail_reads(from..u64::MAX),
            }
            unreadable.clone().for_each(|sector| disk.make_unreadable(sector));
            let why = format!("seed {seed}, kind {kind}, sectors {unreadable:?}, reads {from}");
            let again = disk.clone();
            let (found, read) = recovered(&disk, ahead(&disk, rng));
            match found {
                Err(e) => {
                    is_read_error(&e, &unreadable);
                    let is_single = unreadable.len() == 1 && !numbers.is_empty();
                    let may_fail = whole.cut.is_some() || is_needed(&whole, first);
                    assert!(!is_single || may_fail, "{why}: {e}");
                    refused += 1;
                }
                Ok(found) if found.damages.is_empty() => {
                    assert!(found == whole && read == numbers, "{why}: {found:?} for {whole:?}");
                    as_whole += 1;
                }
                Ok(found) => {
                    let end = |it: &Recovered| (it.tail.position, it.tail.epoch, it.cut.clone());
                    assert_eq!(end(&found), end(&whole), "{why}");
                    damaged += 1;
                }
            }
            let (found, read) = replayed(&again, ahead(&again, rng), u64::MAX);
            match found {
                Err(e) => is_read_error(&e, &unreadable),
                Ok(found) if found.damages.is_empty() => assert_eq!(read, numbers, "{why}"),
                Ok(_) => {}
            }
        }
    }
    assert!(as_whole > 40 && damaged > 40 && refused > 40, "{as_whole} {damaged} {refused}");
}

/// Messages before an unreadable end can be replayed.
#[test]
fn a_log_with_an_unreadable_end_is_replayed_up_to_it() {
    for seed in 0..40 {
        let (history, _) = written(seed, &mut stream(seed, "unreadable end", 0));
        let (whole, numbers) = recovered(&history.disk, None);
        let whole = whole.unwrap();
        let end = whole.layout.offset_bytes(whole.tail.position) as usize / SECTOR_BYTES;
        history.disk.make_unreadable(end);
        let Err(e) = recovered(&history.disk, None).0 else { panic!("seed {seed} is opened") };
        is_read_error(&e, &(end..end + 1));
        let (found, read) = replayed(&history.disk, None, u64::MAX);
        assert!(found.is_err() && read == numbers, "seed {seed}");
        if !numbers.is_empty() {
            let (found, read) = replayed(&history.disk, None, 1);
            assert!(found.unwrap().damages.is_empty() && numbers.starts_with(&read));
        }
    }
}

/// A copy of the description is damaged if only that copy is unreadable. If both are, the target is unreadable.
#[test]
fn an_unreadable_copy_of_the_description_is_damage_and_two_are_a_read_error() {
    let (history, _) = written(1, &mut stream(1, "descriptions", 0));
    let (disk, layout) = (&history.disk, &history.layout);
    assert!(lost_descriptions(disk, layout).unwrap().is_empty());
    let [first, copy] = DESCRIPTION_OFFSETS.map(|offset| offset as usize / SECTOR_BYTES);
    disk.make_unreadable(copy);
    assert_eq!(lost_descriptions(disk, layout).unwrap(), [DESCRIPTION_OFFSETS[1]]);
    assert_eq!(recover(disk, |_| {}).unwrap().layout, *layout);
    disk.make_unreadable(first);
    is_read_error(&lost_descriptions(disk, layout).unwrap_err(), &(first..first + 1));
    is_read_error(&recover(disk, |_| {}).unwrap_err(), &(copy..copy + 1));
}
