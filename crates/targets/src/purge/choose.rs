//! Decides which purge methods are possible on a target, and why others are not. The plan is printed before anything is
//! erased. Devices are only queried; the rules are a pure function of the findings.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use iodyno_units::human;

use super::{Method, ata, nvme};
use crate::inspect::{self, Inspection, Kind};

/// A purge method, and whether it is possible on the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub method: Method,
    pub possible: bool,
    /// Effect and duration of the method on this target, or why it is impossible, as a sentence.
    pub remark: String,
}

/// Plan of a purge: the methods considered and the one chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgePlan {
    /// Name of the target, in canonical form.
    pub target: String,
    /// Methods for this kind of target, best first.
    pub choices: Vec<Choice>,
    /// Method to use: the requested one or, without a request, the best one. `None` if the requested method, or every
    /// method, is impossible.
    pub chosen: Option<Method>,
    /// Reason why no method was chosen, as a sentence; `None` if one was.
    pub why_not: Option<String>,
}

/// Results of querying a device for its erase commands; `None` for protocols that were not queried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) nvme: Option<Result<nvme::Identified, String>>,
    pub(super) ata: Option<Result<ata::Security, String>>,
}

/// Plans a purge. Queries the device but changes nothing.
pub fn plan(inspection: &Inspection, requested: Option<Method>) -> PurgePlan {
    decide(inspection, &query(inspection), requested)
}

/// Queries a whole NVMe or SCSI device for its erase commands. Does nothing for other targets.
pub(super) fn query(inspection: &Inspection) -> Found {
    let mut found = Found::default();
    let name = match &inspection.device {
        Some(device) if is_whole(inspection).is_ok() => device.kernel_name.as_str(),
        _ => return found,
    };
    let (is_nvme, is_scsi) = (name.starts_with("nvme"), name.starts_with("sd"));
    if !is_nvme && !is_scsi {
        return found;
    }
    let path = inspect::open_path(inspection);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(&path, flags, Mode::empty());
    let opened = opened.map_err(|errno: Errno| errno.to_string());
    if is_nvme {
        found.nvme = Some(opened.and_then(|fd| nvme::query(&mut nvme::Device(&fd))));
    } else {
        found.ata = Some(opened.and_then(|fd| ata::query(&mut ata::Device(&fd))));
    }
    found
}

/// Succeeds if the target is a whole device, so that erasing the device affects nothing else. The error names
/// what else would be erased.
fn is_whole(inspection: &Inspection) -> Result<(), String> {
    let Some(device) = inspection.device.as_ref().filter(|_| inspection.kind == Kind::Block) else {
        return Err(
            "it is not a whole device, and the command erases whole devices only.".to_owned()
        );
    };
    if let Some(disk) = &device.partition_of {
        return Err(format!("it is a partition, and the command would erase all of {disk}."));
    }
    if !device.slaves.is_empty() {
        return Err(format!(
            "it is built on {}, and the command would erase those devices.",
            device.slaves.join(" and ")
        ));
    }
    if inspection.size_bytes != inspection.whole_bytes {
        return Err(format!(
            "only the first {} of the device are the target (?size=), and the command would erase the whole device.",
            human::size(inspection.size_bytes.unwrap_or(0))
        ));
    }
    Ok(())
}

/// Decides which purge methods are possible and which to use, from query results alone.
pub(super) fn decide(
    inspection: &Inspection,
    found: &Found,
    requested: Option<Method>,
) -> PurgePlan {
    let choices: Vec<Choice> = Method::ALL
        .into_iter()
        .filter(|method| belongs(*method, inspection) || requested == Some(*method))
        .map(|method| match possible(method, inspection, found) {
            Ok(remark) => Choice { method, possible: true, remark },
            Err(remark) => Choice { method, possible: false, remark },
        })
        .collect();
    let wanted = |choice: &&Choice| requested.is_none_or(|method| choice.method == method);
    let chosen = choices.iter().filter(wanted).find(|choice| choice.possible);
    let chosen = chosen.map(|choice| choice.method);
    let why_not = chosen.is_none().then(|| match choices.iter().find(wanted) {
        Some(Choice { method, remark, .. }) if requested.is_some() => format!("{method}: {remark}"),
        _ if choices.is_empty() => "it stores no data that could be erased.".to_owned(),
        _ => {
            let all = choices.iter().map(|c| format!("{}: {}", c.method, c.remark));
            all.collect::<Vec<_>>().join(" ")
        }
    });
    PurgePlan { target: inspection.name.to_string(), choices, chosen, why_not }
}

/// True if a method applies to this kind of target, so that the plan must list it.
fn belongs(method: Method, inspection: &Inspection) -> bool {
    use Method as M;
    let name = inspection.device.as_ref().map_or("", |device| device.kernel_name.as_str());
    match method {
        M::NvmeSanitizeBlock | M::NvmeSanitizeCrypto | M::NvmeFormat | M::NvmeFormatCrypto => {
            inspection.kind == Kind::Block && name.starts_with("nvme")
        }
        M::AtaErase | M::AtaEraseEnhanced => {
            inspection.kind == Kind::Block && name.starts_with("sd")
        }
        M::Discard => {
            matches!(inspection.kind, Kind::Block | Kind::Nbd) || is_kept_file(inspection)
        }
        M::Anew => is_anew(inspection),
    }
}

fn is_anew(inspection: &Inspection) -> bool {
    inspection.kind == Kind::Ram || inspection.kind == Kind::File && !inspection.exists
}

fn is_kept_file(inspection: &Inspection) -> bool {
    inspection.kind == Kind::File && inspection.exists
}

/// Effect of a purge method on this target, as a sentence. The error says why the method is impossible.
fn possible(method: Method, inspection: &Inspection, found: &Found) -> Result<String, String> {
    if method.is_whole_device() {
        is_whole(inspection)?;
    }
    match method {
        Method::NvmeSanitizeBlock | Method::NvmeSanitizeCrypto => {
            sanitize(answer_of(found.nvme.as_ref())?, method == Method::NvmeSanitizeCrypto)
        }
        Method::NvmeFormat | Method::NvmeFormatCrypto => {
            format(answer_of(found.nvme.as_ref())?, method == Method::NvmeFormatCrypto)
        }
        Method::AtaErase | Method::AtaEraseEnhanced => {
            let enhanced = method == Method::AtaEraseEnhanced;
            if inspection.device.as_ref().is_some_and(|d| d.transport.as_deref() == Some("usb")) {
                return Err(
                    "it is attached through a USB bridge, and some bridges lose the drive during \
                     an erase; attach the drive directly."
                        .to_owned(),
                );
            }
            let security = answer_of(found.ata.as_ref())?;
            if let Some(why) = security.hindrance(enhanced) {
                return Err(why);
            }
            let minutes = if enhanced { security.enhanced_minutes } else { security.erase_minutes };
            let time = minutes.map_or("the drive gives no time estimate".to_owned(), |m| {
                format!("the drive estimates {m} min")
            });
            Ok(format!("erases the whole drive; {time}."))
        }
        Method::Discard => discard(inspection),
        Method::Anew if inspection.kind == Kind::Ram => {
            Ok("each run maps new memory, which reads as zeroes.".to_owned())
        }
        Method::Anew if is_anew(inspection) => {
            Ok("the file does not exist yet: the run that makes it begins with an empty file."
                .to_owned())
        }
        Method::Anew => Err("it already exists.".to_owned()),
    }
}

fn answer_of<T>(answer: Option<&Result<T, String>>) -> Result<&T, String> {
    match answer {
        Some(Ok(found)) => Ok(found),
        Some(Err(why)) => {
            Err(format!("the device could not be queried ({why}); this usually needs root."))
        }
        None => Err("this method applies to a different kind of device.".to_owned()),
    }
}

fn sanitize(found: &nvme::Identified, crypto: bool) -> Result<String, String> {
    let able = if crypto { found.sanitize_crypto } else { found.sanitize_block };
    if !able {
        return Err("the controller does not support this method.".to_owned());
    }
    only_namespace(found, "Sanitize")?;
    let Some(status) = &found.sanitize else {
        return Err(
            "its sanitize log can't be read, so the end of a sanitize could not be detected."
                .to_owned(),
        );
    };
    if status.state == nvme::SanitizeState::InProgress {
        return Err("a sanitize is already in progress; wait until it is done.".to_owned());
    }
    let estimate = if crypto { status.crypto_erase_s } else { status.block_erase_s };
    let time = estimate.map_or("the device gives no time estimate".to_owned(), |seconds| {
        format!("the device estimates {}", human::duration_ns(u64::from(seconds) * 1_000_000_000))
    });
    Ok(format!("erases the whole device, and continues after a reset or a loss of power; {time}."))
}

fn format(found: &nvme::Identified, crypto: bool) -> Result<String, String> {
    let able = if crypto { found.format_crypto } else { found.format };
    if !able {
        return Err("the controller does not support this method.".to_owned());
    }
    if found.format_hits_all {
        only_namespace(found, "Format NVM of one namespace")?;
    }
    let ses = if crypto { "SES=2" } else { "SES=1" };
    Ok(format!("erases namespace {} and keeps its block size ({ses}).", found.nsid))
}

fn only_namespace(found: &nvme::Identified, what: &str) -> Result<(), String> {
    let others = found.others();
    if others.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = others.iter().map(ToString::to_string).collect();
    Err(format!("{what} erases all namespaces of the device, including {}.", list.join(", ")))
}

fn discard(inspection: &Inspection) -> Result<String, String> {
    let size = human::size(inspection.size_bytes.unwrap_or(0));
    let zoned = inspection.device.as_ref().and_then(|device| device.zoned.as_deref());
    match (inspection.kind, inspection.capabilities.trim) {
        // A discard leaves the write pointers unchanged.
        (Kind::Block, _) if zoned.is_some_and(|model| model != "none") => Err(
            "it is a zoned device, whose zones are emptied by a zone reset, not by a discard: use \
             `blkzone reset` (util-linux)."
                .to_owned(),
        ),
        (Kind::Block, Some(true)) => Ok(format!(
            "tells the device that all {size} are unused; the device may or may not erase the data."
        )),
        (Kind::Nbd, Some(true)) => Ok(format!(
            "tells the server that all {size} are unused; the server may or may not erase the data."
        )),
        (Kind::File, Some(true) | None) if is_kept_file(inspection) => {
            Ok(format!("frees all {size} of the file's blocks; the file's length stays."))
        }
        (Kind::Block, _) => {
            Err("the kernel reports that the device does not support discard.".to_owned())
        }
        (Kind::Nbd, _) => {
            Err("the server does not offer TRIM; `qemu-nbd --discard=unmap`, `iodyno serve` and \
                           nbdkit's memory and file plugins do."
                .to_owned())
        }
        (Kind::File, Some(false)) => Err("its file system can't punch holes.".to_owned()),
        _ => Err("it stores no data that could be discarded.".to_owned()),
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
