//! Commands byte by byte, and the sequence of commands on a simulated controller.

use super::*;
use core::ops::ControlFlow;
use rustix::io::Errno;

/// A simulated controller that records its commands.
#[derive(Default)]
struct Fake {
    controller: Vec<(usize, Vec<u8>)>,
    namespace_page: Vec<(usize, Vec<u8>)>,
    active: Vec<u32>,
    allocated: Option<Vec<u32>>,
    /// SPROG and SSTAT of successive readings; the last one repeats. `None`: the log can't be read.
    log: Vec<Option<(u16, u16)>>,
    reads: usize,
    refuses: Option<(u8, NvmeFailure)>,
    sent: Vec<NvmeAdmin>,
    waits: u32,
}

impl Fake {
    /// A controller with namespace 1, block and crypto sanitize, and format with crypto erase.
    fn able() -> Self {
        Self {
            controller: vec![(256, vec![0b0000_1010]), (328, vec![0b11]), (524, vec![0b100])],
            // FLBAS: index 17 (bits 6:5 = 1, 3:0 = 1), extended metadata; DPS: type 2, first.
            namespace_page: vec![(26, vec![0b0011_0001]), (29, vec![0b1010])],
            active: vec![1],
            allocated: Some(vec![1]),
            log: vec![Some((0xFFFF, 0))],
            ..Self::default()
        }
    }

    fn erasing(&self) -> Vec<NvmeAdmin> {
        self.sent.iter().filter(|c| matches!(c.opcode, 0x80 | 0x84)).copied().collect()
    }
}

fn put(page: &mut [u8], parts: &[(usize, Vec<u8>)]) {
    for (at, bytes) in parts {
        page[*at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Port for Fake {
    fn admin(&mut self, command: &NvmeAdmin, data: &mut [u8]) -> Result<(), NvmeFailure> {
        self.sent.push(*command);
        if let Some((opcode, failure)) = self.refuses
            && opcode == command.opcode
        {
            return Err(failure);
        }
        let list = |data: &mut [u8], list: &[u32]| {
            for (slot, nsid) in data.chunks_exact_mut(4).zip(list) {
                slot.copy_from_slice(&nsid.to_le_bytes());
            }
        };
        match (command.opcode, command.cdw10 & 0xFF) {
            (0x06, 0x01) => put(data, &self.controller),
            (0x06, 0x00) => {
                assert_eq!(command.nsid, 1);
                put(data, &self.namespace_page);
            }
            (0x06, 0x02) => list(data, &self.active),
            (0x06, 0x10) => {
                list(data, self.allocated.as_ref().ok_or(NvmeFailure::Status(2))?);
            }
            (0x02, 0x81) => {
                assert_eq!(data.len(), 512);
                let state = self.log[self.reads.min(self.log.len() - 1)];
                self.reads += 1;
                let (progress, sstat) = state.ok_or(NvmeFailure::Status(6))?;
                put(
                    data,
                    &[
                        (0, progress.to_le_bytes().to_vec()),
                        (2, sstat.to_le_bytes().to_vec()),
                        (12, 90_u32.to_le_bytes().to_vec()),
                        (16, u32::MAX.to_le_bytes().to_vec()),
                    ],
                );
            }
            (0x80 | 0x84, _) => {}
            other => panic!("{other:x?}"),
        }
        Ok(())
    }

    fn namespace(&mut self) -> Result<u32, NvmeFailure> {
        Ok(1)
    }

    fn wait(&mut self) {
        self.waits += 1;
    }
}

/// Dwords as sent by nvme-cli 2.x for `format -n 1 -l 17 -s 1 -i 2 -p 1 -m 1`, `format -s 2`,
/// `sanitize -a 2 -u`, `sanitize -a 4 -u`, and `get-log -i 0x81 -l 512`.
#[test]
fn commands_are_encoded_as_the_specification_has_them() {
    let layout =
        Layout { format_index: 17, extended_metadata: true, protection: 2, protection_first: true };
    let user = format(1, layout, false);
    assert_eq!((user.opcode, user.nsid, user.cdw10), (0x80, 1, 0x1351));
    let crypto = format(3, Layout::default(), true);
    assert_eq!((crypto.opcode, crypto.nsid, crypto.cdw10), (0x80, 3, 0x400));
    for of in [user, crypto] {
        assert_ne!(of.cdw10 >> 9 & 0b111, 0, "SES=0 erases nothing");
        assert!(of.timeout_ms >= 3_600_000);
    }
    assert_eq!((sanitize(false).opcode, sanitize(false).cdw10), (0x84, 0x0A));
    assert_eq!((sanitize(true).opcode, sanitize(true).cdw10), (0x84, 0x0C));
    let log = sanitize_log();
    assert_eq!((log.opcode, log.nsid, log.cdw10), (0x02, 0xFFFF_FFFF, 0x007F_0081));
    assert_eq!((identify(0x10, 0).opcode, identify(0x10, 0).cdw10), (0x06, 0x10));
}

#[test]
fn identify_pages_are_parsed() {
    let mut fake = Fake::able();
    let found = query(&mut fake).unwrap();
    assert_eq!(
        found,
        Identified {
            nsid: 1,
            namespaces: vec![1],
            sanitize_block: true,
            sanitize_crypto: true,
            format: true,
            format_crypto: true,
            format_hits_all: false,
            layout: Layout {
                format_index: 17,
                extended_metadata: true,
                protection: 2,
                protection_first: true,
            },
            sanitize: Some(SanitizeStatus {
                state: SanitizeState::Never,
                progress: 0xFFFF,
                global_data_erased: false,
                block_erase_s: Some(90),
                crypto_erase_s: None,
            }),
        }
    );
    assert!(fake.erasing().is_empty(), "a query erases nothing");
    // A namespace that no controller has attached is only in the allocated list.
    fake.allocated = Some(vec![1, 2, 7]);
    assert_eq!(query(&mut fake).unwrap().others(), [2, 7]);
    fake.allocated = None;
    fake.active = vec![1, 4];
    assert_eq!(query(&mut fake).unwrap().others(), [4]);
    // FNA bits 0 and 1 each make a format, or its erase, hit all namespaces.
    for bit in [0b01, 0b10] {
        fake.controller[2] = (524, vec![bit]);
        let found = query(&mut fake).unwrap();
        assert!(found.format_hits_all && !found.format_crypto);
    }
    fake.controller = vec![(256, vec![0]), (328, vec![0b100]), (524, vec![0b100])];
    let found = query(&mut fake).unwrap();
    let able = [found.sanitize_block, found.sanitize_crypto, found.format, found.format_crypto];
    assert_eq!(able, [false; 4], "overwrite alone is none of ours");
}

fn go_on(_: Option<f64>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn sanitize_is_not_done_before_its_log_says_so() {
    let found = query(&mut Fake::able()).unwrap();
    let erased = 1 << 8 | 1;
    let mut fake = Fake {
        log: vec![Some((0, 2)), None, Some((32_768, 2)), Some((0xFFFF, erased))],
        ..Fake::able()
    };
    // A failed read of the log is repeated.
    let mut shares = Vec::new();
    let mut progress = |share| {
        shares.push(share);
        ControlFlow::Continue(())
    };
    let words = carry_out(&mut fake, Method::NvmeSanitizeBlock, &found, &mut progress).unwrap();
    assert_eq!(shares, [Some(0.0), None, Some(0.5)]);
    assert_eq!((fake.waits, fake.erasing()), (3, vec![sanitize(false)]));
    assert!(words[0].contains("nothing was written since"), "{words:?}");
    // Completed, but data may have been written since.
    let mut fake = Fake { log: vec![Some((0xFFFF, 4))], ..Fake::able() };
    let words = carry_out(&mut fake, Method::NvmeSanitizeCrypto, &found, &mut go_on).unwrap();
    assert!(words[0].contains("may have been written since"), "{words:?}");
    assert_eq!(fake.erasing(), [sanitize(true)]);
}

#[test]
fn a_sanitize_that_fails_is_no_purge() {
    let found = query(&mut Fake::able()).unwrap();
    let run = |log: Vec<Option<(u16, u16)>>, refuses| {
        let mut fake = Fake { log, refuses, ..Fake::able() };
        carry_out(&mut fake, Method::NvmeSanitizeBlock, &found, &mut go_on)
    };
    let failed = |outcome: Carried, word: &str| match outcome {
        Err(Setback::Failed(why)) => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    };
    failed(run(vec![Some((0, 2)), Some((0xFFFF, 3))], None), "log reports a failure");
    failed(run(vec![Some((0xFFFF, 0))], None), "no sanitize ever started");
    failed(run(vec![None], None), "log can't be read");
    failed(run(vec![], Some((0x84, NvmeFailure::System(Errno::TIMEDOUT)))), "timed out");
    // After a refusal the next method is tried.
    match run(vec![], Some((0x84, NvmeFailure::Status(0x4002)))) {
        Err(Setback::Refused(why)) => assert!(why.contains("invalid field"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut fake = Fake { log: vec![Some((9, 2))], ..Fake::able() };
    let mut stop = |_| ControlFlow::Break(());
    let stopped = carry_out(&mut fake, Method::NvmeSanitizeBlock, &found, &mut stop);
    failed(stopped, "continues in the device");
}

#[test]
fn format_keeps_the_layout_and_names_one_namespace() {
    let mut fake = Fake::able();
    let found = query(&mut fake).unwrap();
    let words = carry_out(&mut fake, Method::NvmeFormat, &found, &mut go_on).unwrap();
    assert!(words[0].contains("namespace 1 with SES=1"), "{words:?}");
    let words = carry_out(&mut fake, Method::NvmeFormatCrypto, &found, &mut go_on).unwrap();
    assert!(words[0].contains("SES=2"), "{words:?}");
    let sent: Vec<_> = fake.erasing().iter().map(|c| (c.nsid, c.cdw10)).collect();
    assert_eq!(sent, [(1, 0x1351), (1, 0x1551)]);
    fake.refuses = Some((0x80, NvmeFailure::Status(0x10A)));
    let refused = carry_out(&mut fake, Method::NvmeFormat, &found, &mut go_on);
    assert!(matches!(&refused, Err(Setback::Refused(why)) if why.contains("invalid format")));
    // After other errors the effect is unknown.
    for status in [0x006, 0x281, 0x371] {
        fake.refuses = Some((0x80, NvmeFailure::Status(0x4000 | status)));
        match carry_out(&mut fake, Method::NvmeFormat, &found, &mut go_on) {
            Err(Setback::Failed(why)) => {
                assert!(why.contains("part of the namespace may be erased"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}
