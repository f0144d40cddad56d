//! NVMe: Sanitize and Format NVM, by the NVM Express Base Specification 2.0 (5.17 Identify, 5.14 Format
//! NVM, 5.24 Sanitize, 5.16.1.20 Sanitize Status log) and the NVM Command Set Specification 1.0
//! (Identify Namespace).
//!
//! Pure functions encode commands and parse the data that commands return. The sequence of commands uses a [`Port`], so
//! that tests can simulate a controller.

use core::time::Duration;

use rustix::fd::OwnedFd;

use super::{Carried, Method, Progress, STOPPED, Setback};
use crate::ioctl::{self, NvmeAdmin, NvmeFailure};

/// Length of an Identify page, bytes.
const PAGE_BYTES: usize = 4096;
/// Timeout of a query, ms.
const QUERY_MS: u32 = 10_000;
/// Timeout for the device to accept Sanitize, ms. The erase itself runs in the background and is polled.
const START_MS: u32 = 120_000;
/// Timeout of Format, ms. Format returns only when complete, which takes hours on large devices.
const FORMAT_MS: u32 = 4 * 3600 * 1000;
/// Maximum consecutive failures to read the log page while the device erases itself.
const LOG_FAILURES_MAX: u32 = 60;

/// Destination of NVMe admin commands: a controller, or a simulated one in tests.
pub(super) trait Port {
    fn admin(&mut self, command: &NvmeAdmin, data: &mut [u8]) -> Result<(), NvmeFailure>;
    fn namespace(&mut self) -> Result<u32, NvmeFailure>;
    /// Pauses before the sanitize log is read again.
    fn wait(&mut self);
}

/// The NVMe controller behind an open block device.
pub(super) struct Device<'a>(pub(super) &'a OwnedFd);

impl Port for Device<'_> {
    fn admin(&mut self, command: &NvmeAdmin, data: &mut [u8]) -> Result<(), NvmeFailure> {
        ioctl::nvme_admin(self.0, command, data)
    }

    fn namespace(&mut self) -> Result<u32, NvmeFailure> {
        ioctl::nvme_namespace(self.0).map_err(NvmeFailure::System)
    }

    fn wait(&mut self) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Properties of the NVMe controller and namespace that determine how to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identified {
    pub(super) nsid: u32,
    /// Identifiers (NSIDs) of all namespaces of the subsystem, including the target's.
    pub(super) namespaces: Vec<u32>,
    pub(super) sanitize_block: bool,
    pub(super) sanitize_crypto: bool,
    pub(super) format: bool,
    pub(super) format_crypto: bool,
    /// True if Format NVM, or its erase, affects all namespaces.
    pub(super) format_hits_all: bool,
    /// Present format of the namespace, which a purge keeps.
    pub(super) layout: Layout,
    pub(super) sanitize: Option<SanitizeStatus>,
}

impl Identified {
    /// Identifiers (NSIDs) of all namespaces of the subsystem except the target's.
    pub(super) fn others(&self) -> Vec<u32> {
        self.namespaces.iter().copied().filter(|&nsid| nsid != self.nsid).collect()
    }
}

/// The format of a namespace, as fields of the Format NVM command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Index of the LBA format, 0 to 63.
    format_index: u8,
    /// True if metadata is transferred at the end of each logical block (extended LBA).
    extended_metadata: bool,
    /// Type of end-to-end protection, 0 to 3.
    protection: u8,
    /// True if protection information is at the start of the metadata.
    protection_first: bool,
}

fn le16(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

fn le32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

/// Builds Identify (06h); `cns` selects the structure to return.
fn identify(cns: u8, nsid: u32) -> NvmeAdmin {
    NvmeAdmin { opcode: 0x06, nsid, cdw10: u32::from(cns), cdw11: 0, timeout_ms: QUERY_MS }
}

/// Builds Get Log Page (02h) for the subsystem's Sanitize Status (81h), 512 bytes.
fn sanitize_log() -> NvmeAdmin {
    let dwords = 512 / 4 - 1;
    let cdw10 = 0x81 | dwords << 16;
    NvmeAdmin { opcode: 0x02, nsid: 0xFFFF_FFFF, cdw10, cdw11: 0, timeout_ms: QUERY_MS }
}

/// Builds Sanitize (84h). SANACT (bits 2:0) is 2 for block erase, 4 for crypto erase. AUSE (bit 3) is set, so
/// that a failed sanitize can be recovered from. NDAS (bit 9) is clear, so that all blocks are deallocated.
fn sanitize(crypto: bool) -> NvmeAdmin {
    const AUSE: u32 = 1 << 3;
    let action = if crypto { 0b100 } else { 0b010 };
    NvmeAdmin { opcode: 0x84, nsid: 0, cdw10: action | AUSE, cdw11: 0, timeout_ms: START_MS }
}

/// Builds Format NVM (80h) for one namespace, keeping its format. SES (bits 11:9) is 1 for a user data erase,
/// 2 for a cryptographic erase; 0 would erase nothing.
fn format(nsid: u32, layout: Layout, crypto: bool) -> NvmeAdmin {
    let ses = if crypto { 2 } else { 1 };
    let index = u32::from(layout.format_index);
    let cdw10 = (index & 0xF)
        | u32::from(layout.extended_metadata) << 4
        | u32::from(layout.protection) << 5
        | u32::from(layout.protection_first) << 8
        | ses << 9
        | (index >> 4) << 12;
    NvmeAdmin { opcode: 0x80, nsid, cdw10, cdw11: 0, timeout_ms: FORMAT_MS }
}

/// Capabilities from Identify Controller: OACS in bytes 257:256, SANICAP in 331:328, FNA in 524.
struct Controller {
    format: bool,
    namespace_management: bool,
    sanitize_crypto: bool,
    sanitize_block: bool,
    format_hits_all: bool,
    format_crypto: bool,
}

fn parse_controller(page: &[u8; PAGE_BYTES]) -> Controller {
    let (oacs, sanicap, fna) = (le16(page, 256), le32(page, 328), page[524]);
    Controller {
        format: oacs & 1 << 1 != 0,
        namespace_management: oacs & 1 << 3 != 0,
        sanitize_crypto: sanicap & 1 != 0,
        sanitize_block: sanicap & 1 << 1 != 0,
        format_hits_all: fna & 0b11 != 0,
        format_crypto: fna & 1 << 2 != 0,
    }
}

/// Parses a namespace's format from Identify Namespace: FLBAS in byte 26 (index in bits 3:0 and 6:5, extended
/// metadata in bit 4), DPS in byte 29 (protection type in bits 2:0, position in bit 3).
fn parse_layout(page: &[u8; PAGE_BYTES]) -> Layout {
    let (flbas, dps) = (page[26], page[29]);
    Layout {
        format_index: flbas & 0xF | (flbas >> 5 & 0b11) << 4,
        extended_metadata: flbas & 1 << 4 != 0,
        protection: dps & 0b111,
        protection_first: dps & 1 << 3 != 0,
    }
}

/// Parses a list of namespace identifiers: ascending, 32 bits each, terminated by 0.
fn parse_list(page: &[u8; PAGE_BYTES]) -> Vec<u32> {
    (0..PAGE_BYTES / 4).map(|i| le32(page, 4 * i)).take_while(|&nsid| nsid != 0).collect()
}

/// The state of the most recent sanitize: SSTAT bits 2:0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SanitizeState {
    Never,
    Completed,
    InProgress,
    Failed,
}

/// Content of the Sanitize Status log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SanitizeStatus {
    pub(super) state: SanitizeState,
    /// Progress of a running sanitize, in units of 1/65536.
    progress: u16,
    /// True if the device reports that nothing was written since the sanitize.
    pub(super) global_data_erased: bool,
    /// The device's estimate of the duration of a block erase, seconds.
    pub(super) block_erase_s: Option<u32>,
    pub(super) crypto_erase_s: Option<u32>,
}

/// Parses a Sanitize Status page: SPROG in bytes 1:0, SSTAT in 3:2, estimated seconds of block erase in 15:12
/// and of crypto erase in 19:16.
fn parse_sanitize(page: &[u8; 512]) -> SanitizeStatus {
    let sstat = le16(page, 2);
    let state = match sstat & 0b111 {
        1 | 4 => SanitizeState::Completed,
        2 => SanitizeState::InProgress,
        3 => SanitizeState::Failed,
        _ => SanitizeState::Never,
    };
    let estimate = |at: usize| Some(le32(page, at)).filter(|&seconds| seconds != u32::MAX);
    SanitizeStatus {
        state,
        progress: le16(page, 0),
        global_data_erased: sstat & 1 << 8 != 0,
        block_erase_s: estimate(12),
        crypto_erase_s: estimate(16),
    }
}

/// Describes why an NVMe command failed.
fn words(failure: NvmeFailure) -> String {
    match failure {
        NvmeFailure::System(errno) => errno.to_string(),
        NvmeFailure::Status(status) => {
            let known = match status & 0x7FF {
                0x001 => "invalid opcode",
                0x002 => "invalid field",
                0x006 => "internal error",
                0x007 => "abort requested",
                0x00B => "invalid namespace",
                0x015 => "operation denied",
                0x01C => "sanitize failed",
                0x01D => "sanitize in progress",
                0x020 => "namespace is write protected",
                0x084 => "format in progress",
                0x10A => "invalid format",
                0x10B => "firmware activation requires a reset",
                0x123 => "prohibited while a persistent memory region is enabled",
                0x371 => "the host aborted the command",
                _ => return format!("status {:#05x}", status & 0x7FF),
            };
            format!("status {:#05x}, {known}", status & 0x7FF)
        }
    }
}

/// True if the error status means that the controller did not begin the command. Other errors, such as
/// internal or medium errors, leave that unknown.
fn did_not_begin(failure: NvmeFailure) -> bool {
    const WITHOUT_EFFECT: [u16; 10] =
        [0x001, 0x002, 0x00B, 0x015, 0x01C, 0x01D, 0x020, 0x10A, 0x10B, 0x123];
    matches!(failure, NvmeFailure::Status(status) if WITHOUT_EFFECT.contains(&(status & 0x7FF)))
}

/// Queries what the NVMe controller can erase, and how. Changes nothing.
///
/// # Errors
/// Reason for the failure, as text.
pub(super) fn query(port: &mut dyn Port) -> Result<Identified, String> {
    let mut page = [0; PAGE_BYTES];
    let mut fetch = |port: &mut dyn Port, command: NvmeAdmin| {
        page.fill(0);
        port.admin(&command, &mut page).map(|()| page)
    };
    let nsid = port.namespace().map_err(words)?;
    let controller = parse_controller(&fetch(port, identify(0x01, 0)).map_err(words)?);
    let layout = parse_layout(&fetch(port, identify(0x00, nsid)).map_err(words)?);
    // Namespaces that are attached to no controller hold data as well.
    let allocated = controller.namespace_management.then(|| fetch(port, identify(0x10, 0)).ok());
    let namespaces = match allocated.flatten() {
        Some(page) => parse_list(&page),
        None => parse_list(&fetch(port, identify(0x02, 0)).map_err(words)?),
    };
    let can_sanitize = controller.sanitize_block || controller.sanitize_crypto;
    Ok(Identified {
        nsid,
        namespaces,
        sanitize_block: controller.sanitize_block,
        sanitize_crypto: controller.sanitize_crypto,
        format: controller.format,
        format_crypto: controller.format && controller.format_crypto,
        format_hits_all: controller.format_hits_all,
        layout,
        sanitize: if can_sanitize { read_status(port).ok() } else { None },
    })
}

fn read_status(port: &mut dyn Port) -> Result<SanitizeStatus, NvmeFailure> {
    let mut page = [0; 512];
    port.admin(&sanitize_log(), &mut page).map(|()| parse_sanitize(&page))
}

/// Erases a device by an NVMe purge method.
pub(super) fn carry_out(
    port: &mut dyn Port,
    method: Method,
    found: &Identified,
    progress: &mut Progress<'_>,
) -> Carried {
    match method {
        Method::NvmeSanitizeBlock => run_sanitize(port, false, progress),
        Method::NvmeSanitizeCrypto => run_sanitize(port, true, progress),
        _ => run_format(port, found, method == Method::NvmeFormatCrypto),
    }
}

/// Erases the namespace by Format NVM. Returns when the erase is complete.
fn run_format(port: &mut dyn Port, found: &Identified, crypto: bool) -> Carried {
    let command = format(found.nsid, found.layout, crypto);
    match port.admin(&command, &mut []) {
        Ok(()) => Ok(vec![format!(
            "Format NVM of namespace {} with SES={} was completed without an error.",
            found.nsid,
            command.cdw10 >> 9 & 0b111
        )]),
        Err(failure) if did_not_begin(failure) => Err(Setback::Refused(format!(
            "the controller refused Format NVM ({}).",
            words(failure)
        ))),
        Err(failure) => Err(Setback::Failed(format!(
            "Format NVM ended with {}, and part of the namespace may be erased: check the kernel's \
             log (`dmesg`), then purge again, or with another `--method`.",
            words(failure)
        ))),
    }
}

/// Starts Sanitize, then polls its log until the erase is complete.
fn run_sanitize(port: &mut dyn Port, crypto: bool, progress: &mut Progress<'_>) -> Carried {
    match port.admin(&sanitize(crypto), &mut []) {
        Ok(()) => {}
        Err(failure) if did_not_begin(failure) => {
            let why = format!("the controller refused Sanitize ({}).", words(failure));
            return Err(Setback::Refused(why));
        }
        Err(failure) => {
            return Err(Setback::Failed(format!(
                "The command Sanitize failed with {}, but a sanitize may have begun: check the kernel's log \
                 (`dmesg`) and `nvme sanitize-log`, then purge again.",
                words(failure)
            )));
        }
    }
    let mut failures = 0;
    loop {
        match read_status(port) {
            Ok(status) => {
                failures = 0;
                match status.state {
                    SanitizeState::Completed => return Ok(vec![completed(&status)]),
                    SanitizeState::Failed => {
                        return Err(Setback::Failed(
                            "the sanitize log reports a failure; the device takes no I/O until a \
                             sanitize succeeds or `nvme sanitize --sanact=1` ends the failure mode."
                                .to_owned(),
                        ));
                    }
                    SanitizeState::Never => {
                        return Err(Setback::Failed(
                            "the controller accepted Sanitize, but its log reports that no \
                             sanitize ever started."
                                .to_owned(),
                        ));
                    }
                    SanitizeState::InProgress => {
                        if progress(Some(f64::from(status.progress) / 65_536.0)).is_break() {
                            return Err(Setback::Failed(STOPPED.to_owned()));
                        }
                    }
                }
            }
            Err(failure) => {
                failures += 1;
                if failures > LOG_FAILURES_MAX {
                    let why = format!("the sanitize log can't be read ({}).", words(failure));
                    return Err(Setback::Failed(why));
                }
                if progress(None).is_break() {
                    return Err(Setback::Failed(STOPPED.to_owned()));
                }
            }
        }
        port.wait();
    }
}

fn completed(status: &SanitizeStatus) -> String {
    let erased = if status.global_data_erased {
        "and that nothing was written since (global data erased)"
    } else {
        "but data may have been written since (global data erased is clear)"
    };
    format!("The sanitize log reports completion, {erased}.")
}

/// Returns a Sanitize Status in this state, for tests.
#[cfg(test)]
pub(super) fn fixture(state: SanitizeState) -> SanitizeStatus {
    let (block_erase_s, crypto_erase_s) = (Some(90), None);
    SanitizeStatus { state, progress: 0, global_data_erased: false, block_erase_s, crypto_erase_s }
}

#[cfg(test)]
#[path = "nvme_tests.rs"]
mod tests;
