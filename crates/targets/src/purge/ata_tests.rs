//! Command blocks byte by byte, and the sequence of commands on a simulated drive.

use super::*;

/// First word and password of a page.
type Page = (u16, Vec<u8>);

/// A simulated drive with the Security feature set.
struct Fake {
    /// Word 128 of IDENTIFY DEVICE, the security status.
    status: u16,
    words: Vec<(usize, u16)>,
    fails: Option<u8>,
    /// Commands received: command, page's first word and password, timeout.
    sent: Vec<(u8, Option<Page>, u32)>,
}

const SUPPORTED: u16 = 1;
const ENABLED: u16 = 1 << 1;

impl Fake {
    fn with(status: u16) -> Self {
        Self {
            status,
            words: vec![(82, 1 << 1), (89, 4), (90, 1 << 15 | 0x12C)],
            fails: None,
            sent: vec![],
        }
    }

    fn page(&self) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[0] = 0x40;
        for (number, word) in self.words.iter().copied().chain([(128, self.status)]) {
            page[2 * number..2 * number + 2].copy_from_slice(&word.to_le_bytes());
        }
        page[510] = 0xA5;
        let sum = page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        page[511] = sum.wrapping_neg();
        page
    }

    fn commands(&self) -> Vec<u8> {
        self.sent.iter().map(|(command, ..)| *command).collect()
    }
}

impl Port for Fake {
    fn command(&mut self, block: &[u8; 16], data: ScsiData<'_>, timeout_ms: u32) -> Result<()> {
        let command = block[14];
        let page = match &data {
            ScsiData::ToDevice(page) => {
                assert_eq!((block[1], block[2], block[6], page.len()), (5 << 1, 0x06, 1, 512));
                Some((u16::from_le_bytes([page[0], page[1]]), page[2..34].to_vec()))
            }
            ScsiData::ToHost(_) => {
                assert_eq!((block[1], block[2], block[6]), (4 << 1, 0x0E, 1));
                None
            }
            ScsiData::Nothing => {
                assert_eq!((block[1], block[2], block[6]), (3 << 1, 0, 0));
                None
            }
        };
        self.sent.push((command, page, timeout_ms));
        if self.fails == Some(command) {
            return Err(Errno::IO);
        }
        match (command, data) {
            (0xEC, ScsiData::ToHost(to)) => to.copy_from_slice(&self.page()),
            (0xF1, _) => self.status |= ENABLED,
            // A drive accepts the erase only directly after its preparation.
            (0xF4, _) => {
                assert_eq!(self.sent[self.sent.len() - 2].0, 0xF3);
                self.status &= !ENABLED;
            }
            (0xF6, _) => self.status &= !ENABLED,
            (0xF3, _) => {}
            other => panic!("{:x}", other.0),
        }
        Ok(())
    }
}

/// Expected bytes from SAT-4's table of ATA PASS-THROUGH (16) and the command codes of ACS-4.
/// `hdparm` sends the same blocks except for the protocol's reserved bits.
#[test]
fn command_blocks_are_those_of_the_standards() {
    let bytes = |command: u8, protocol: u8, transfer: u8, count: u8| {
        [0x85, protocol, transfer, 0, 0, 0, count, 0, 0, 0, 0, 0, 0, 0, command, 0]
    };
    assert_eq!(identify_device(), bytes(0xEC, 0x08, 0x0E, 1));
    assert_eq!(set_password(), bytes(0xF1, 0x0A, 0x06, 1));
    assert_eq!(erase_prepare(), bytes(0xF3, 0x06, 0, 0));
    assert_eq!(erase_unit(), bytes(0xF4, 0x0A, 0x06, 1));
    assert_eq!(disable_password(), bytes(0xF6, 0x0A, 0x06, 1));
    let page = password_page(0b10);
    assert_eq!(page[..9], [2, 0, b'i', b'o', b'd', b'y', b'n', b'o', 0]);
    assert!(page[9..].iter().all(|&byte| byte == 0));
}

#[test]
fn the_identity_page() {
    let security = parse(&Fake::with(0x0029).page()).unwrap();
    assert_eq!(
        security,
        Security {
            supported: true,
            frozen: true,
            enhanced: true,
            erase_minutes: Some(8),
            enhanced_minutes: Some(600),
            ..Security::default()
        }
    );
    let mut damaged = Fake::with(SUPPORTED).page();
    damaged[100] ^= 1;
    assert_eq!(parse(&damaged), None);
    assert_eq!(parse(&[0; PAGE_BYTES]), None);
    let packet = Fake { words: vec![(0, 0x8580)], ..Fake::with(SUPPORTED) };
    assert_eq!(parse(&packet.page()), None, "an optical drive");
    assert_eq!([minutes(0), minutes(0xFF), minutes(0xFFFF)], [None; 3]);
    assert_eq!(minutes(0xFE), Some(508));
}

#[test]
fn a_drive_is_erased_under_a_password_that_is_gone_afterwards() {
    for (enhanced, control, minutes) in [(false, 0, 8), (true, 2, 600)] {
        let mut drive = Fake::with(SUPPORTED | 1 << 5);
        let words = carry_out(&mut drive, enhanced).unwrap();
        assert!(words[0].contains("removed its password"), "{words:?}");
        assert_eq!(drive.commands(), [0xEC, 0xF1, 0xF3, 0xF4, 0xEC]);
        let (_, page, timeout_ms) = &drive.sent[3];
        let (word, password) = page.as_ref().unwrap();
        assert_eq!((*word, &password[..7]), (control, b"iodyno\0".as_slice()));
        assert!(*timeout_ms > minutes * 60_000);
        assert_eq!(drive.sent[1].1.as_ref().unwrap().0, 0, "user password, level high");
    }
}

#[test]
fn a_drive_that_is_frozen_or_has_a_password_is_left_alone() {
    for (status, enhanced, word) in [
        (SUPPORTED | 1 << 3, false, "rtcwake"),
        (SUPPORTED | ENABLED, false, "already has a password"),
        (SUPPORTED | ENABLED | 1 << 2, false, "already has a password"),
        (SUPPORTED | 1 << 4, false, "power off"),
        (SUPPORTED, true, "enhanced erase"),
        (0, false, "does not have"),
    ] {
        let mut drive = Fake::with(status);
        match carry_out(&mut drive, enhanced) {
            Err(Setback::Refused(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(drive.commands(), [0xEC], "{word}");
    }
}

#[test]
fn a_failed_erase_takes_the_password_off_again() {
    for fails in [0xF3, 0xF4] {
        let mut drive = Fake { fails: Some(fails), ..Fake::with(SUPPORTED) };
        match carry_out(&mut drive, false) {
            Err(Setback::Failed(why)) => assert!(why.contains("removed again"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(drive.status, SUPPORTED);
        assert_eq!(drive.commands().last(), Some(&0xF6));
    }
    let mut drive = Fake { fails: Some(0xF1), ..Fake::with(SUPPORTED) };
    assert!(matches!(carry_out(&mut drive, false), Err(Setback::Refused(_))));
    assert_eq!(drive.commands(), [0xEC, 0xF1]);
}
