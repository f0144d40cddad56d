//! Tests the diagnosis of random units of every kind of flaw, and pins the layout's bytes.

use super::*;
use proptest::prelude::*;

fn unit(len: usize, offset_bytes: u64, writer: u64, generation: u32) -> Vec<u8> {
    let mut unit = vec![0xAA; len];
    fill(&mut unit, offset_bytes, writer, generation);
    unit
}

/// The layout is a format: each version must read what another wrote.
#[test]
fn the_layout_is_pinned() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    let two = unit(1024, 0x1234_5000, 42, 7);
    assert_eq!(&two[..8], b"iodynoV2");
    assert_eq!(two[8..16], 0x1234_5000_u64.to_le_bytes());
    assert_eq!(two[16..24], 42_u64.to_le_bytes());
    assert_eq!(two[24..32], [7, 0, 0, 0, 0, 4, 0, 0]);
    for end in [496, 1008] {
        assert_eq!(two[end..end + 12], [42, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    }
    let found = (u64_at(&two, 32), u32_at(&two, 508), u32_at(&two, 1020));
    assert_eq!(found, (0xc085_2a2c_8a75_70f7, PINNED_2.0, PINNED_2.1), "{found:#x?}");
    // Content of version 1 must stay readable: the program that wrote it made these bytes.
    let mut one = vec![0; 512];
    fill_version(&mut one, 0x1234_5000, 42, 7, 1);
    assert_eq!((u64_at(&one, 32), u32_at(&one, 508)), (0xc085_2a2c_8a75_70f7, 0x29db_8bfa));
    let mark = check(&one, 0x1234_5000).unwrap();
    assert_eq!((mark.version, mark.writer, mark.generation), (1, 42, 7));
    one[100] ^= 1;
    assert_eq!(check(&one, 0x1234_5000), Err(Flaw::Damaged { first_byte: 100, bytes: 1 }));
}
const PINNED_2: (u32, u32) = (0x7f48_7775, 0xfcc6_187f);

#[test]
fn every_flipped_bit_is_found_at_its_byte() {
    for len in [512, 1024] {
        let whole = unit(len, 8192, 3, 9);
        for bit in 0..len * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let damaged = Flaw::Damaged { first_byte: bit / 8, bytes: 1 };
            let longer = matches!(check(&flipped, 8192), Err(Flaw::OtherLength { .. }));
            assert!(longer || check(&flipped, 8192) == Err(damaged), "bit {bit} of {len}");
        }
    }
}

#[test]
fn shorter_units_are_checked_each_and_longer_ones_are_not() {
    let mut short: Vec<u8> = (0..4_u64).flat_map(|i| unit(1024, 8192 + i * 1024, 3, 9)).collect();
    assert_eq!(check(&short, 8192).unwrap().len_bytes, 1024);
    short[3000] ^= 1;
    assert_eq!(check(&short, 8192), Err(Flaw::Damaged { first_byte: 3000 - 2048, bytes: 1 }));
    let long = unit(4096, 8192, 3, 9);
    let part = check(&long[..512], 8192);
    assert!(matches!(part, Err(Flaw::OtherLength { mark }) if mark.len_bytes == 4096), "{part:?}");
    assert!(is_written_here(&long, 8192) && !is_written_here(&long, 4096));
    assert!(!is_written_here(&long[..2048], 8192) && !is_written_here(&[0; 4096], 8192));
}

/// If an intact short unit is followed by zeroes or foreign bytes, the flaw is that of the bytes that follow, not
/// damage to a long unit. An unwritten short unit does not hide a flaw in another one.
#[test]
fn one_shorter_unit_beside_what_was_never_written_is_whole() {
    for len in [512, 1024, 2048] {
        for generation in 1..40 {
            let mut half = unit(len, 8192, 3, generation);
            half.resize(4096, 0);
            assert_eq!(check(&half, 8192), Err(Flaw::Zeroed), "{len}");
            half[len..].copy_from_slice(&random(4096 - len, 5));
            assert!(matches!(check(&half, 8192), Err(Flaw::Foreign { .. })), "{len}");
        }
    }
    let mut mixed = unit(1024, 8192, 3, 9);
    mixed.resize(3072, 0);
    mixed.extend(unit(1024, 8192 + 3072, 3, 9));
    assert_eq!(check(&mixed, 8192), Err(Flaw::Zeroed));
    mixed[3072 + 700] ^= 1;
    let found = check(&mixed, 8192);
    assert_eq!(found, Err(Flaw::Damaged { first_byte: 700, bytes: 1 }));
}

/// Short writes over a part of a long unit are not damage: the short units are whole, each at its
/// address.
#[test]
fn shorter_units_over_a_part_of_a_longer_one_are_not_damage() {
    for sector in 1..8 {
        let mut long = unit(4096, 8192, 3, 9);
        let short = unit(512, 8192 + sector * 512, 5, 2);
        long[sector as usize * 512..][..512].copy_from_slice(&short);
        let found = check(&long, 8192);
        assert!(
            matches!(found, Err(Flaw::OtherLength { mark }) if (mark.len_bytes, mark.writer) == (512, 5)),
            "{found:?}"
        );
        // A shorter unit in the wrong place is damage.
        let mut long = unit(4096, 8192, 3, 9);
        let short = unit(512, 512, 5, 2);
        long[sector as usize * 512..][..512].copy_from_slice(&short);
        let found = check(&long, 8192);
        assert!(matches!(found, Err(Flaw::Damaged { .. } | Flaw::Torn { .. })), "{found:?}");
    }
}

fn random(len: usize, key: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random_words(&mut bytes, key);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Distinguishes each flaw from the others, on units of every length, address and writer.
    #[test]
    fn each_way_to_be_wrong_has_its_name(
        sectors in 1_usize..=8,
        place in 0_u64..1 << 30,
        writers in (1_u64.., 1_u64..),
        generations in (1_u32.., 1_u32..),
        key: u64,
        cut in 1_usize..8,
        distance in 1_u64..1 << 20,
    ) {
        let len = sectors * 512;
        let at = place * len as u64;
        prop_assume!(writers != (writers.1, writers.1) || generations.0 != generations.1);
        let new = unit(len, at, writers.0, generations.0);
        let old = unit(len, at, writers.1, generations.1);
        let mark = check(&new, at).unwrap();
        prop_assert_eq!((mark.writer, mark.generation), (writers.0, generations.0));
        prop_assert_eq!(check(&vec![0; len], at), Err(Flaw::Zeroed));
        let is_foreign = matches!(check(&random(len, key), at), Err(Flaw::Foreign { .. }));
        prop_assert!(is_foreign);
        let elsewhere = at + distance * len as u64;
        let found = check(&unit(len, elsewhere, writers.0, generations.0), at);
        let misdirected = matches!(found, Err(Flaw::Misdirected { mark, at_byte: 0 })
            if mark.offset_bytes == elsewhere);
        prop_assert!(misdirected, "{found:?}");
        if sectors > 1 {
            let at_byte = (1 + cut % (sectors - 1)) * 512;
            let torn = [&new[..at_byte], &old[at_byte..]].concat();
            let head = Some(WriteId { writer: writers.0, generation: generations.0 });
            let tail = Some(WriteId { writer: writers.1, generation: generations.1 });
            prop_assert_eq!(check(&torn, at), Err(Flaw::Torn { head, tail, at_byte }));
            let half = [&new[..at_byte], &vec![0; len - at_byte]].concat();
            prop_assert_eq!(check(&half, at), Err(Flaw::Torn { head, tail: None, at_byte }));
            // A sector in the middle that was not written.
            if sectors > 2 {
                let hole = [&new[..512], &old[512..1024], &new[1024..]].concat();
                prop_assert_eq!(check(&hole, at), Err(Flaw::Torn { head, tail, at_byte: 512 }));
            }
            let mixed = [&new[..at_byte], &random(len - at_byte, key)].concat();
            let found = check(&mixed, at);
            let damaged = matches!(found, Err(Flaw::Damaged { first_byte, .. })
                if (at_byte..at_byte + 8).contains(&first_byte));
            prop_assert!(damaged, "{found:?}");
            // The content was shifted by some sectors.
            let next = unit(len, at + len as u64, writers.0, generations.0);
            let shifted = [&new[at_byte..], &next[..at_byte]].concat();
            let found = check(&shifted, at);
            let misdirected = matches!(found, Err(Flaw::Misdirected { mark, at_byte: b })
                if mark.offset_bytes == at + len as u64 && b == len - at_byte);
            prop_assert!(misdirected, "{found:?}");
        }
    }
}
