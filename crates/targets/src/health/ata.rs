//! ATA health through SCSI's ATA PASS-THROUGH (16): the Device Statistics log 04h (ACS-4, section
//! 9.5), whose fields have standard units, and SMART READ DATA for older devices.
//!
//! The written and read totals of SMART attributes 241 and 242 are not used: their unit differs by
//! vendor, from 512 bytes to 1 GiB.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};

use super::Health;
use crate::ioctl;

const PAGE_BYTES: usize = 512;
/// Unit of the drive's read and write statistics: logical sectors of 512 bytes, except on 4Kn drives.
const SECTOR_BYTES: u64 = 512;

/// Builds READ LOG EXT (2Fh), which reads one page of a log, as an ATA PASS-THROUGH command of SAT-4.
/// Protocol 4 is PIO data-in; its bit 0 selects 48-bit registers. 0Eh: data come from the device, and the
/// count field is their length in 512-byte blocks. Each 16-bit register is two bytes, high byte first.
fn read_log_ext(log: u8, page: u8) -> [u8; 16] {
    [0x85, 4 << 1 | 1, 0x0E, 0, 0, 0, 1, 0, log, 0, page, 0, 0, 0, 0x2F, 0]
}

/// SMART READ DATA: command B0h, feature D0h, and the signature C24Fh in the LBA mid and high registers.
const SMART_READ_DATA: [u8; 16] =
    [0x85, 4 << 1, 0x0E, 0, 0xD0, 0, 1, 0, 0, 0, 0x4F, 0, 0xC2, 0, 0xB0, 0];

pub(super) fn read(fd: &OwnedFd) -> Result<Health> {
    let fetch = |command: &[u8; 16]| -> Result<[u8; PAGE_BYTES]> {
        let mut page = [0; PAGE_BYTES];
        ioctl::scsi_read(fd, command, &mut page).map(|()| page)
    };
    let mut health = Health::default();
    let mut sources = Vec::new();
    let mut error = None;
    for number in [0x01, 0x03, 0x04, 0x05, 0x07] {
        match fetch(&read_log_ext(0x04, number)) {
            Ok(page) if take_statistics(&mut health, number, &page) => {
                sources.push("ATA device statistics");
            }
            Ok(_) => {}
            Err(errno) => error = Some(errno),
        }
    }
    match fetch(&SMART_READ_DATA) {
        Ok(page) if take_attributes(&mut health, &page) => sources.push("ATA SMART data"),
        Ok(_) => {}
        Err(errno) => error = Some(errno),
    }
    sources.dedup();
    if sources.is_empty() {
        return Err(error.unwrap_or(Errno::OPNOTSUPP));
    }
    health.source = sources.join(" and ");
    Ok(health)
}

/// Reads an 8-byte statistic. Its highest byte contains flags (bit 7 supported, bit 6 valid), and its lowest `bytes`
/// bytes contain the value. `None` unless both flags are set.
fn statistic(page: &[u8; PAGE_BYTES], at: usize, bytes: usize) -> Option<u64> {
    const SUPPORTED_AND_VALID: u8 = 0xC0;
    if page[at + 7] & SUPPORTED_AND_VALID != SUPPORTED_AND_VALID {
        return None;
    }
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(&page[at..at + bytes]);
    Some(u64::from_le_bytes(value))
}

/// Copies the values of one page of the statistics log to `health`. Returns false if byte 2, the page number,
/// shows that the drive returned another page.
fn take_statistics(health: &mut Health, number: u8, page: &[u8; PAGE_BYTES]) -> bool {
    if page[2] != number {
        return false;
    }
    match number {
        0x01 => {
            health.power_cycles = statistic(page, 8, 4);
            health.power_on_hours = statistic(page, 16, 4);
            health.data_written_bytes =
                statistic(page, 24, 6).map(|sectors| sectors * SECTOR_BYTES);
            health.data_read_bytes = statistic(page, 40, 6).map(|sectors| sectors * SECTOR_BYTES);
        }
        0x03 => health.reallocated_sectors = statistic(page, 32, 4),
        0x04 => health.media_errors = statistic(page, 8, 4),
        0x05 => {
            health.temperature_c = statistic(page, 8, 1).map(|byte| i64::from(byte as u8 as i8));
        }
        0x07 => health.percentage_used = statistic(page, 8, 1),
        _ => return false,
    }
    true
}

/// Fills missing values from the SMART attributes: 30 entries of 12 bytes, starting at byte 2 of the page. Byte 0 of an
/// entry is the attribute's id; bytes 5 to 10 are its raw value. Returns false if the page's checksum is wrong.
fn take_attributes(health: &mut Health, page: &[u8; PAGE_BYTES]) -> bool {
    if page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != 0
        || page.iter().all(|&byte| byte == 0)
    {
        return false;
    }
    for entry in page[2..362].chunks_exact(12) {
        let raw = |bytes: usize| {
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(&entry[5..5 + bytes]);
            u64::from_le_bytes(value)
        };
        match entry[0] {
            5 => health.reallocated_sectors = health.reallocated_sectors.or(Some(raw(4))),
            // Some vendors keep minutes or milliseconds in the upper bytes.
            9 => health.power_on_hours = health.power_on_hours.or(Some(raw(4))),
            12 => health.power_cycles = health.power_cycles.or(Some(raw(4))),
            // Minimum and maximum are packed into the upper bytes.
            190 | 194 => {
                health.temperature_c = health.temperature_c.or(Some(i64::from(entry[5] as i8)));
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut [u8; PAGE_BYTES], at: usize, value: u64) {
        page[at..at + 8].copy_from_slice(&(value | 0xC0 << 56).to_le_bytes());
    }

    fn page(number: u8) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[2] = number;
        page
    }

    #[test]
    fn statistics_count_only_when_supported_and_valid() {
        let mut health = Health::default();
        let mut general = page(1);
        put(&mut general, 8, 12);
        put(&mut general, 16, 4321);
        put(&mut general, 24, 0x0001_0000_0000);
        // Supported, but not valid now.
        general[40..48].copy_from_slice(&(7 | 0x80_u64 << 56).to_le_bytes());
        assert!(take_statistics(&mut health, 1, &general));
        let mut wear = page(7);
        put(&mut wear, 8, 55);
        assert!(take_statistics(&mut health, 7, &wear));
        let mut warmth = page(5);
        put(&mut warmth, 8, u64::from((-5_i8) as u8));
        assert!(take_statistics(&mut health, 5, &warmth));
        let mut errors = page(4);
        put(&mut errors, 8, 2);
        assert!(take_statistics(&mut health, 4, &errors));
        assert_eq!(
            health,
            Health {
                power_cycles: Some(12),
                power_on_hours: Some(4321),
                data_written_bytes: Some(0x0001_0000_0000 * 512),
                percentage_used: Some(55),
                temperature_c: Some(-5),
                media_errors: Some(2),
                ..Health::default()
            }
        );
        // A device that answers with another page does not have these statistics.
        assert!(!take_statistics(&mut health, 7, &page(1)));
    }

    #[test]
    fn attributes_fill_gaps_and_need_their_checksum() {
        let mut data = [0_u8; PAGE_BYTES];
        let entries: [[u8; 12]; 3] = [
            [9, 0, 0, 0, 0, 0x10, 0x27, 0, 0, 0xAA, 0xAA, 0],
            [194, 0, 0, 0, 0, 41, 0, 20, 0, 60, 0, 0],
            [5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0],
        ];
        for (slot, entry) in data[2..].chunks_exact_mut(12).zip(entries) {
            slot.copy_from_slice(&entry);
        }
        let mut health = Health { temperature_c: Some(30), ..Health::default() };
        assert!(!take_attributes(&mut health, &data));
        data[511] = 0_u8.wrapping_sub(data.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
        assert!(take_attributes(&mut health, &data));
        assert_eq!(health.power_on_hours, Some(10_000));
        assert_eq!(health.temperature_c, Some(30));
        assert_eq!(health.reallocated_sectors, Some(8));
    }

    /// Checks the command blocks against SAT-4's table of ATA PASS-THROUGH (16): features in bytes
    /// 3 and 4, count in 5 and 6, address in 7 to 12 (high, low for each of LBA low, mid, high),
    /// device in 13, command in 14.
    #[test]
    fn command_blocks() {
        let log = read_log_ext(0x04, 0x07);
        assert_eq!((log[0], log[1], log[14]), (0x85, 0x09, 0x2F));
        assert_eq!((log[6], log[8], log[10]), (1, 0x04, 0x07));
        assert_eq!((SMART_READ_DATA[4], SMART_READ_DATA[14]), (0xD0, 0xB0));
        assert_eq!((SMART_READ_DATA[10], SMART_READ_DATA[12]), (0x4F, 0xC2));
    }
}
