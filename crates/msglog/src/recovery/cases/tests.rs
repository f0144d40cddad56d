//! Each combination of conditions has one case, and each case is reached by the bytes of a log.

#![expect(clippy::single_range_in_vec_init, reason = "a list of damaged ranges may have one")]

use super::{CASES, COMBINATIONS, CONDITIONS, matches};
use crate::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use crate::layout::{DESCRIPTION_BYTES, DESCRIPTION_OFFSETS, EpochStart, Layout};
use crate::message::{Message, MessageKind};
use crate::recovery::recover;
use crate::storage::{Buffer, Storage};
use std::cell::Cell;
use std::io;

thread_local! {
    /// Bit mask of the cases that this thread has reached.
    static REACHED: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn note(case: u8) {
    REACHED.set(REACHED.get() | 1 << case);
}

#[test]
fn exactly_one_case_matches_each_combination() {
    for bits in 0..COMBINATIONS {
        let matching: Vec<usize> =
            (0..CASES.len()).filter(|case| matches(CASES[*case].when, bits)).collect();
        assert_eq!(matching.len(), 1, "{bits:0CONDITIONS$b}: {matching:?}");
    }
}

/// A read-only target in memory.
struct Image(Vec<u8>);

impl Storage for Image {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        let from = self.0.get(offset_bytes as usize..).unwrap_or_default();
        to.copy_from_slice(from.get(..to.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(vec![0; bytes])
    }
}

/// Length of all chunks in these tests, bytes: so positions can be counted in blocks.
const BLOCK_BYTES: u64 = 512;

/// A chunk with one message on the target. Positions are counted in blocks.
#[derive(Clone, Copy)]
struct On {
    position: u64,
    epoch: u32,
    durable: u64,
    message: u64,
    is_torn: bool,
}

/// The chunk at a position of a log in which each block is a chunk with one message.
const fn on(position: u64, epoch: u32, durable: u64) -> On {
    On { position, epoch, durable, message: position + 1, is_torn: false }
}

fn image(chunks: &[On]) -> Image {
    let capacity_bytes = DESCRIPTION_BYTES + 5 * (64 << 10);
    let layout = Layout::new(7, capacity_bytes, 64 << 10, 4096, BLOCK_BYTES as u32).unwrap();
    let mut image = vec![0; capacity_bytes as usize];
    for offset in DESCRIPTION_OFFSETS {
        let block = layout.describe(EpochStart::default());
        image[offset as usize..][..block.len()].copy_from_slice(&block);
    }
    let message = Message {
        kind: MessageKind::Publish,
        publisher: 1,
        sequence: 1,
        time_ns: 1,
        topic: "t",
        key: b"k",
        body: b"body",
    };
    let mut previous_checksum = 0;
    for it in chunks {
        let position = it.position * BLOCK_BYTES;
        let to = &mut image[layout.offset_bytes(position) as usize..][..BLOCK_BYTES as usize];
        message.encode(&mut to[CHUNK_HEADER_BYTES..]);
        let mut header = ChunkHeader {
            log_id: 7,
            position,
            first_message: it.message,
            durable_position: it.durable * BLOCK_BYTES,
            length_bytes: BLOCK_BYTES as u32,
            used_bytes: (CHUNK_HEADER_BYTES + message.record_bytes()) as u32,
            messages: 1,
            epoch: it.epoch,
            previous_checksum,
            ..ChunkHeader::default()
        };
        header.seal(to);
        previous_checksum = header.checksum;
        if it.is_torn {
            to[CHUNK_HEADER_BYTES + 1] ^= 1;
        }
    }
    Image(image)
}

/// A log that reaches a case, and what recovery must find.
struct Reached {
    case: usize,
    chunks: &'static [On],
    messages: &'static [u64],
    /// Damaged ranges, in blocks.
    damages: &'static [core::ops::Range<u64>],
}

#[test]
fn each_case_is_reached_by_bytes_and_decides_what_is_found() {
    const TORN: On = On { is_torn: true, ..on(1, 1, 1) };
    // Message 1 in block 2: the log that wrote it was shorter.
    const BACK: On = On { message: 1, ..on(2, 1, 2) };
    const LOGS: [Reached; CASES.len()] = [
        Reached { case: 0, chunks: &[on(0, 1, 0)], messages: &[1], damages: &[] },
        Reached { case: 1, chunks: &[on(0, 2, 0), on(1, 1, 1)], messages: &[1], damages: &[] },
        Reached { case: 2, chunks: &[on(0, 1, 0), on(1, 1, 1)], messages: &[1, 2], damages: &[] },
        Reached { case: 3, chunks: &[on(0, 1, 0), TORN, BACK], messages: &[1], damages: &[] },
        Reached {
            case: 4,
            chunks: &[on(0, 1, 0), TORN, on(2, 1, 1), on(3, 1, 3)],
            messages: &[1, 3, 4],
            damages: &[1..2],
        },
        Reached {
            case: 5,
            chunks: &[on(0, 1, 0), TORN, on(2, 1, 2)],
            messages: &[1, 3],
            damages: &[1..2],
        },
        Reached {
            case: 6,
            chunks: &[on(0, 1, 0), TORN, on(2, 1, 1), on(3, 1, 2)],
            messages: &[1, 3, 4],
            damages: &[1..2],
        },
        Reached {
            case: 7,
            chunks: &[on(0, 1, 0), TORN, on(3, 1, 2), on(4, 2, 3)],
            messages: &[1, 5],
            damages: &[1..4],
        },
        Reached {
            case: 8,
            chunks: &[on(0, 1, 0), TORN, on(3, 1, 1), on(4, 2, 3)],
            messages: &[1, 5],
            damages: &[1..4],
        },
        Reached {
            case: 9,
            chunks: &[on(0, 1, 0), TORN, on(2, 1, 1)],
            messages: &[1],
            damages: &[],
        },
    ];
    assert_eq!(LOGS.each_ref().map(|log| log.case).to_vec(), (0..CASES.len()).collect::<Vec<_>>());
    for Reached { case, chunks, messages, damages } in LOGS {
        REACHED.set(0);
        let mut read = Vec::new();
        let found = recover(&image(chunks), |chunk| {
            read.extend(chunk.messages().map(|(number, _)| number));
        })
        .unwrap();
        assert!(REACHED.get() & 1 << case != 0, "case {case} is not reached");
        assert_eq!(read, messages, "case {case}");
        let blocks = |it: &crate::Damage| {
            it.position / BLOCK_BYTES..(it.position + it.length_bytes) / BLOCK_BYTES
        };
        assert_eq!(found.damages.iter().map(blocks).collect::<Vec<_>>(), damages, "case {case}");
    }
}
