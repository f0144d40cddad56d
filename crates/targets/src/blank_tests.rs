use super::*;
use iodyno_units::mark::mark;
use iodyno_units::rng::RngCore as _;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

/// Samples a target of zeroes with these bytes in it.
fn sampled(size_bytes: u64, content: &[(u64, Vec<u8>)], seed: u64) -> Sampled {
    let mut read = |at: u64, to: &mut [u8]| {
        assert!(at.is_multiple_of(WINDOW_BYTES) && at + to.len() as u64 <= size_bytes);
        to.fill(0);
        for (start, bytes) in content {
            let (from, until) =
                (at.max(*start), (at + to.len() as u64).min(start + bytes.len() as u64));
            if from < until {
                to[(from - at) as usize..(until - at) as usize]
                    .copy_from_slice(&bytes[(from - start) as usize..(until - start) as usize]);
            }
        }
        Ok(())
    };
    sample(size_bytes, &[(0, size_bytes)], Depth::FULL, seed, &mut read).unwrap()
}

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut random = stream(seed, "content", 0);
    let some: Vec<u8> = (0..8192).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    some.into_iter().cycle().take(len).collect()
}

/// Content that iodyno writes: sectors, each with its mark.
fn own(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = random(len, seed);
    for (i, piece) in bytes.chunks_mut(MARKED_BYTES).enumerate() {
        piece[..16].copy_from_slice(&mark(splitmix(seed + i as u64)));
    }
    bytes
}

fn splitmix(x: u64) -> u64 {
    iodyno_units::rng::splitmix64(x)
}

#[test]
fn blank_space_and_own_content_are_no_data() {
    for size in [512, 4096, 3 << 20, WHOLE_BYTES, WHOLE_BYTES + 512, 10 * GIB] {
        let found = sampled(size, &[], 1);
        assert_eq!((found.own, found.foreign), (0, 0), "{size}");
        assert_eq!(found.whole, size <= WHOLE_BYTES);
        assert!(found.places < 1100 && found.findings().is_none());
    }
    let erased = sampled(GIB, &[(0, vec![0xFF; 8 << 20])], 1);
    assert_eq!((erased.own, erased.foreign), (0, 0));
    // Writes of any whole number of sectors, at any sector: marked pieces count from the start of the write.
    for (at, len) in [(0, 4 << 20), (512, 1 << 20), (3 << 20, 6144), (2048, 4096 * 40)] {
        let found = sampled(32 << 20, &[(at, own(len, 7))], 1);
        assert_eq!((found.own > 0, found.foreign), (true, 0), "{len} at {at}");
    }
    // A write of 512 bytes within a piece of 4 KiB, and the rest of that piece after it.
    let mut over = own(1 << 20, 9);
    over[2048..2560].copy_from_slice(&own(512, 10));
    assert_eq!(sampled(1 << 20, &[(0, over)], 1).foreign, 0);
    // A piece that begins before a random window, even before the first one, counts as well.
    let mut headed = random(4096, 4);
    headed[..16].copy_from_slice(PURGE_PROOF);
    for start in [WINDOW_BYTES, 9 * WINDOW_BYTES] {
        let mut read = |at: u64, to: &mut [u8]| {
            to.fill(0);
            // The ends are read in larger pieces, which hold nothing here.
            if to.len() as u64 == WINDOW_BYTES && at + WINDOW_BYTES == start {
                to[WINDOW_BYTES as usize - 2048..].copy_from_slice(&headed[..2048]);
            } else if to.len() as u64 == WINDOW_BYTES && at == start {
                to[..2048].copy_from_slice(&headed[2048..]);
            }
            Ok(())
        };
        let found = sample(GIB, &[(start, WINDOW_BYTES)], Depth::AGAIN, 1, &mut read).unwrap();
        assert_eq!((found.own, found.foreign), (32, 0), "{start}");
    }
    // Verifiable content proves its offset; elsewhere it is data that was copied.
    let mut unit = random(512, 3);
    unit[..8].copy_from_slice(b"iodynoV1");
    unit[8..16].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    assert_eq!(sampled(32 << 20, &[(1 << 20, unit.clone())], 1).own, 1);
    assert_eq!(sampled(32 << 20, &[(2 << 20, unit)], 1).foreign, 1);
}

#[test]
fn data_is_found_wherever_it_lies() {
    let size = 400 << 20;
    for (at, len) in [
        (0, 512),
        (2 << 20, 512),
        (2 << 20, 5 << 20),
        (size - 512, 512),
        (size - (3 << 20), 1 << 20),
        (64 << 20, 4096),
        (8193 << 10, 1024),
        (200 << 20, 512),
        // Two of 256 parts, at the worst offsets.
        (150 << 20, (size >> 7) as usize + 65_536),
    ] {
        let found = sampled(size, &[(at, random(len, 1))], at);
        let first = found.first_foreign.clone().unwrap_or_else(|| panic!("{len} at {at}"));
        assert!((at..at + len as u64).contains(&first.offset_bytes), "{found:?}");
    }
    // One foreign sector after iodyno's own.
    let mixed = [(0, own(1 << 20, 5)), (1 << 20, random(512, 6))];
    assert_eq!(sampled(32 << 20, &mixed, 1).first_foreign.unwrap().offset_bytes, 1 << 20);
    // A mark later in a foreign window does not excuse the data before it.
    let late = [(4 << 20, random(60 << 10, 5)), ((4 << 20) + (60 << 10), own(4096, 6))];
    assert_eq!(sampled(32 << 20, &late, 1).foreign, 1);
}

#[test]
fn findings_are_printed_as_clean_text() {
    let found = sampled(16 << 20, &[(4096, b"SQLite format 3\0".to_vec())], 1);
    assert_eq!(
        found.findings().unwrap(),
        "1 of 16 sampled positions hold data that iodyno did not write, the first at byte \
         4096 (beginning with 53 51 4c 69 74 65 20 66 6f 72 6d 61 74 20 33 00, \"SQLite format 3\")"
    );
    let escape = sampled(16 << 20, &[(0, b"abcd\x1b[31m".to_vec())], 1).findings().unwrap();
    assert!(escape.ends_with("\"abcd\")") && !escape.contains('\x1b'), "{escape}");
    let mut fails = |_: u64, _: &mut [u8]| Err(io::Error::other("medium"));
    assert!(sample(GIB, &[(0, GIB)], Depth::FULL, 1, &mut fails).is_err());
}

/// A part that can't be read in time may hold anything: neither a small target nor the windows of a large one
/// count as blank.
#[test]
fn a_target_that_is_too_slow_to_be_looked_at_is_not_blank() {
    let timed_out = |found: io::Result<Sampled>| {
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::TimedOut);
    };
    let at_once = Depth { at_most: Duration::ZERO, ..Depth::FULL };
    for size in [1 << 20, GIB] {
        let mut slow = |_: u64, to: &mut [u8]| {
            std::thread::sleep(Duration::from_millis(1));
            to.fill(0);
            Ok(())
        };
        timed_out(sample(size, &[(0, size)], at_once, 1, &mut slow));
    }
    // The ends and the backup offsets answer; the first random window uses up the time.
    let depth = Depth { at_most: Duration::from_millis(400), passes: 1, ..Depth::FULL };
    let mut windows = 0;
    let mut stalls = |_: u64, to: &mut [u8]| {
        windows += u32::from(to.len() as u64 == WINDOW_BYTES);
        if windows == BACKUPS.len() as u32 + 4 {
            std::thread::sleep(depth.at_most);
        }
        to.fill(0);
        Ok(())
    };
    timed_out(sample(GIB << 10, &[(0, GIB << 10)], depth, 1, &mut stalls));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Random windows stay within the ranges that hold data, and find the data there.
    #[test]
    fn ranges_are_kept_to(starts in prop::collection::btree_set(100_u64..16_000, 1..20), seed: u64) {
        // In units of 1 MiB, each range one unit long.
        let ranges: Vec<(u64, u64)> = starts.iter().map(|start| (start << 20, 1 << 20)).collect();
        let mut seen = std::collections::BTreeSet::new();
        let mut read = |at: u64, to: &mut [u8]| {
            to.fill(0);
            seen.insert(at >> 20);
            Ok(())
        };
        sample(16_384 << 20, &ranges, Depth::FULL, seed, &mut read).unwrap();
        prop_assert!(starts.iter().all(|start| seen.contains(start)));
        let beside = seen.iter().filter(|at| !starts.contains(at)).count();
        // The two ends and the offsets of backups.
        prop_assert!(beside <= 8 + BACKUPS.len() + 3, "{beside}");
    }

    /// If a share f of all windows holds data, n sampled windows miss it with a probability of (1 − f)ⁿ: for 2 % in 1
    /// GiB and 256 windows or more, less than 1 in 150.
    #[test]
    fn scattered_data_is_found(seed: u64) {
        let mut missed = 0;
        for trial in 0..20_u64 {
            let mut read = |at: u64, to: &mut [u8]| {
                let number = splitmix(splitmix(seed ^ trial) ^ (at / WINDOW_BYTES));
                let dirty = number.is_multiple_of(50);
                to.fill(if dirty && to.len() as u64 == WINDOW_BYTES { 7 } else { 0 });
                Ok(())
            };
            let found = sample(GIB, &[(0, GIB)], Depth::FULL, seed, &mut read).unwrap();
            missed += u32::from(found.foreign == 0);
        }
        prop_assert!(missed <= 3, "{missed} of 20");
    }
}
