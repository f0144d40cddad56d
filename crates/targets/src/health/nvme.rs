//! NVMe's SMART / Health Information log, page 02h (NVM Express Base Specification 2.0, section
//! 5.16.1.3). 512 bytes, little-endian.

use rustix::fd::OwnedFd;
use rustix::io::Result;

use super::Health;
use crate::ioctl;

const LOG_ID: u8 = 0x02;
const LOG_BYTES: usize = 512;
/// Unit of the log's data counters: 1000 blocks of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

pub(super) fn read(fd: &OwnedFd) -> Result<Health> {
    let mut page = [0; LOG_BYTES];
    ioctl::nvme_log_page(fd, LOG_ID, &mut page)?;
    Ok(parse(&page))
}

fn parse(page: &[u8; LOG_BYTES]) -> Health {
    let le16 = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let le32 = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    // Counters have 16 bytes, but no device's values exceed 8 bytes in its life.
    let counter = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&page[at..at + 16]);
        u64::try_from(u128::from_le_bytes(bytes)).unwrap_or(u64::MAX)
    };
    let kelvin = le16(1);
    Health {
        source: "NVMe SMART log".to_owned(),
        critical_warning: Some(u64::from(page[0])),
        // 0 K means that the controller does not report its temperature.
        temperature_c: (kelvin != 0).then(|| i64::from(kelvin) - 273),
        available_spare: Some(u64::from(page[3])),
        available_spare_threshold: Some(u64::from(page[4])),
        percentage_used: Some(u64::from(page[5])),
        data_read_bytes: Some(counter(32).saturating_mul(DATA_UNIT_BYTES)),
        data_written_bytes: Some(counter(48).saturating_mul(DATA_UNIT_BYTES)),
        power_cycles: Some(counter(112)),
        power_on_hours: Some(counter(128)),
        unsafe_shutdowns: Some(counter(144)),
        media_errors: Some(counter(160)),
        reallocated_sectors: None,
        warning_temperature_minutes: Some(u64::from(le32(192))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests a log page built field by field from the specification's table. Adjacent fields differ, which
    /// exposes a wrong offset or width.
    #[test]
    fn every_field_lies_where_the_specification_says() {
        let mut page = [0xEE_u8; LOG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x04]);
        put(1, &310_u16.to_le_bytes());
        put(3, &[97, 10, 3]);
        put(32, &11_u128.to_le_bytes());
        put(48, &22_u128.to_le_bytes());
        put(112, &33_u128.to_le_bytes());
        put(128, &44_u128.to_le_bytes());
        put(144, &55_u128.to_le_bytes());
        put(160, &66_u128.to_le_bytes());
        put(192, &77_u32.to_le_bytes());
        let expected = Health {
            source: "NVMe SMART log".to_owned(),
            critical_warning: Some(4),
            temperature_c: Some(37),
            available_spare: Some(97),
            available_spare_threshold: Some(10),
            percentage_used: Some(3),
            data_read_bytes: Some(11 * 512_000),
            data_written_bytes: Some(22 * 512_000),
            power_cycles: Some(33),
            power_on_hours: Some(44),
            unsafe_shutdowns: Some(55),
            media_errors: Some(66),
            reallocated_sectors: None,
            warning_temperature_minutes: Some(77),
        };
        assert_eq!(parse(&page), expected);
    }

    #[test]
    fn absent_and_huge_values() {
        let mut page = [0; LOG_BYTES];
        assert_eq!(parse(&page).temperature_c, None);
        page[48..64].copy_from_slice(&u128::MAX.to_le_bytes());
        assert_eq!(parse(&page).data_written_bytes, Some(u64::MAX));
    }
}
