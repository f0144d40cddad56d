//! ATA: SECURITY ERASE UNIT through SCSI's ATA PASS-THROUGH (16), by ACS-4 (7.45 to 7.50, and words
//! 82, 89, 90, 128 of IDENTIFY DEVICE) and SAT-4.
//!
//! A drive erases only with a password set. The password is [`PASSWORD`], so that any reader of this file can unlock a
//! drive that lost power half-way; a complete erase removes it. A drive that is frozen by the firmware, or already has
//! a password, is left alone.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};

use super::{Carried, Setback};
use crate::ioctl::{self, ScsiData};

const PAGE_BYTES: usize = 512;
/// Temporary password for the duration of an ATA erase; the rest of its 32 bytes are zeroes.
const PASSWORD: &str = "iodyno";
const SHORT_MS: u32 = 15_000;
/// Assumed duration of an erase, minutes, if the drive gives no estimate.
const UNKNOWN_MINUTES: u32 = 24 * 60;

/// Destination of ATA commands: a drive, or a simulated one in tests.
pub(super) trait Port {
    fn command(&mut self, block: &[u8; 16], data: ScsiData<'_>, timeout_ms: u32) -> Result<()>;
}

/// The ATA drive behind an open block device.
pub(super) struct Device<'a>(pub(super) &'a OwnedFd);

impl Port for Device<'_> {
    fn command(&mut self, block: &[u8; 16], data: ScsiData<'_>, timeout_ms: u32) -> Result<()> {
        ioctl::scsi(self.0, block, data, timeout_ms)
    }
}

/// State of the ATA Security feature set, from IDENTIFY DEVICE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is a bit of word 128.
pub(super) struct Security {
    pub(super) supported: bool,
    pub(super) enabled: bool,
    pub(super) locked: bool,
    pub(super) frozen: bool,
    pub(super) expired: bool,
    pub(super) enhanced: bool,
    /// The drive's estimate of an erase's duration, minutes; `None`: not reported.
    pub(super) erase_minutes: Option<u32>,
    pub(super) enhanced_minutes: Option<u32>,
}

impl Security {
    /// Reason why the drive can't be erased now; `None` if it can.
    pub(super) fn hindrance(&self, enhanced: bool) -> Option<String> {
        let text = if !self.supported {
            "the drive does not have the Security feature set"
        } else if self.frozen {
            "the drive is frozen: the firmware of the machine locked its security settings at \
             start; suspend the machine to memory and wake it (`rtcwake -m mem -s 10`), or pull the \
             drive's power and plug it in again while the machine runs, then try again"
        } else if self.locked || self.enabled {
            "the drive already has a password, which iodyno did not set and does not remove; \
             remove it with `hdparm --security-disable`, then try again"
        } else if self.expired {
            "the drive was given too many wrong passwords; switch its power off and on, then try again"
        } else if enhanced && !self.enhanced {
            "the drive does not support enhanced erase"
        } else {
            return None;
        };
        Some(format!("{text}."))
    }
}

/// Builds a command block of ATA PASS-THROUGH (16). Protocols: 3 no data, 4 PIO in, 5 PIO out. Transfer: 0Eh
/// from the device, 06h to the device, both with the length in the count field, in 512-byte blocks.
fn block(protocol: u8, transfer: u8, command: u8) -> [u8; 16] {
    let count = u8::from(transfer != 0);
    [0x85, protocol << 1, transfer, 0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0, command, 0]
}

fn identify_device() -> [u8; 16] {
    block(4, 0x0E, 0xEC)
}

fn set_password() -> [u8; 16] {
    block(5, 0x06, 0xF1)
}

fn erase_prepare() -> [u8; 16] {
    block(3, 0, 0xF3)
}

fn erase_unit() -> [u8; 16] {
    block(5, 0x06, 0xF4)
}

fn disable_password() -> [u8; 16] {
    block(5, 0x06, 0xF6)
}

/// Builds the data page of commands with a password. Word 0 is `control` (bit 0: master password; bit 1:
/// enhanced erase), words 1 to 16 are the password. Security level "high" (bit 8 clear) lets the master
/// password unlock the drive too.
fn password_page(control: u16) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    page[..2].copy_from_slice(&control.to_le_bytes());
    page[2..2 + PASSWORD.len()].copy_from_slice(PASSWORD.as_bytes());
    page
}

fn word(page: &[u8; PAGE_BYTES], number: usize) -> u16 {
    u16::from_le_bytes([page[2 * number], page[2 * number + 1]])
}

/// Parses a duration from word 89 or 90 of IDENTIFY DEVICE, in units of two minutes: 15 bits if bit 15 is
/// set, otherwise 8. `None` for 0 (not reported) and for the highest value (any longer time).
fn minutes(word: u16) -> Option<u32> {
    let (units, most) =
        if word & 1 << 15 != 0 { (word & 0x7FFF, 0x7FFF) } else { (word & 0xFF, 0xFF) };
    (units != 0 && units != most).then(|| 2 * u32::from(units))
}

/// Parses words 82 and 128 of IDENTIFY DEVICE. `None` for a damaged page or another kind of device. Word 255
/// contains the signature A5h and a checksum, if the drive supports it.
fn parse(page: &[u8; PAGE_BYTES]) -> Option<Security> {
    let is_ata = word(page, 0) & 1 << 15 == 0 && page.iter().any(|&byte| byte != 0);
    let sum = page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if !is_ata || page[510] == 0xA5 && sum != 0 {
        return None;
    }
    let status = word(page, 128);
    let bit = |n: u16| status & 1 << n != 0;
    Some(Security {
        supported: word(page, 82) & 1 << 1 != 0 && bit(0),
        enabled: bit(1),
        locked: bit(2),
        frozen: bit(3),
        expired: bit(4),
        enhanced: bit(5),
        erase_minutes: minutes(word(page, 89)),
        enhanced_minutes: minutes(word(page, 90)),
    })
}

/// Reads the state of the drive's Security feature set. Changes nothing.
///
/// # Errors
/// Reason for the failure, as text.
pub(super) fn query(port: &mut dyn Port) -> core::result::Result<Security, String> {
    let mut page = [0; PAGE_BYTES];
    port.command(&identify_device(), ScsiData::ToHost(&mut page), SHORT_MS)
        .map_err(|errno: Errno| errno.to_string())?;
    parse(&page).ok_or_else(|| "its IDENTIFY data is damaged, or it is not an ATA drive".to_owned())
}

/// Erases the drive. Returns when the erase is complete, after minutes to hours.
pub(super) fn carry_out(port: &mut dyn Port, enhanced: bool) -> Carried {
    // Check again: another program may have set a password since.
    let security = query(port).map_err(Setback::Refused)?;
    if let Some(why) = security.hindrance(enhanced) {
        return Err(Setback::Refused(why));
    }
    let page = password_page(0);
    port.command(&set_password(), ScsiData::ToDevice(&page), SHORT_MS)
        .map_err(|errno| Setback::Refused(format!("the drive refused the password ({errno}).")))?;
    let estimate = if enhanced { security.enhanced_minutes } else { security.erase_minutes };
    let timeout_ms = estimate.map_or(UNKNOWN_MINUTES, |minutes| 2 * minutes + 10) * 60_000;
    let erase = password_page(u16::from(enhanced) << 1);
    let erased = port
        .command(&erase_prepare(), ScsiData::Nothing, SHORT_MS)
        .and_then(|()| port.command(&erase_unit(), ScsiData::ToDevice(&erase), timeout_ms));
    let after = query(port);
    let mode = if enhanced { "enhanced" } else { "normal" };
    match (erased, after) {
        (Ok(()), Ok(after)) if !after.enabled => Ok(vec![format!(
            "SECURITY ERASE UNIT ({mode} mode) was completed, and the drive removed its password."
        )]),
        (Ok(()), _) => Err(Setback::Failed(format!(
            "SECURITY ERASE UNIT was completed, but the drive still has its password: remove it \
             with `hdparm --user-master u --security-disable {PASSWORD}`."
        ))),
        (Err(errno), _) => {
            let removed =
                port.command(&disable_password(), ScsiData::ToDevice(&page), SHORT_MS).is_ok();
            let state = if removed {
                "the password was removed again".to_owned()
            } else {
                format!(
                    "the password `{PASSWORD}` is still set: to remove it, erase the device again with \
                     `hdparm --user-master u --security-erase {PASSWORD}`"
                )
            };
            Err(Setback::Failed(format!("SECURITY ERASE UNIT failed ({errno}); {state}.")))
        }
    }
}

#[cfg(test)]
#[path = "ata_tests.rs"]
mod tests;
