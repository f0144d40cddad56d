//! Carries out a purge: checks the guard, plans, writes test blocks, reads health, erases, reads health again, and
//! checks the test blocks.

use std::time::{Duration, Instant, SystemTime};

use iodyno_nbd::client::{Blocking, Config, Uri};

use super::erase_check::{Blocks, EraseCheck, ExportBlocks, OpenedBlocks};
use super::{
    Carried, Choice, Method, Progress, PurgeOptions, PurgeOutcome, PurgePlan, PurgeRecord, Setback,
    Verified, ata, choose, discard, nvme,
};
use crate::error::{Refusal, TargetError};
use crate::guard;
use crate::health::{Health, health};
use crate::inspect::{BlockDevice, Inspection, Kind};
use crate::ioctl;
use crate::name::TargetName;
use crate::open::{Access, OpenOptions, Opened, open_inspected};
use crate::sysroot::SysRoot;

/// Timeout of one request to an NBD server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Purges a target that no other process has open. Checks that it may be erased, opens it, purges it and
/// closes it.
///
/// # Errors
/// [`TargetError::Refused`] if the target must not be erased or `--destroy` does not name it,
/// [`TargetError::BadName`] if `--destroy` also names something else, and errors of opening the target. An
/// impossible or failed purge is not an error, but is stated in the returned record.
pub fn purge(
    inspection: Inspection,
    options: &PurgeOptions,
    progress: &mut Progress<'_>,
) -> Result<PurgeRecord, TargetError> {
    let refusals = guard::check_writable(&inspection, &SysRoot::real());
    let lifted = guard::allow_purge(&inspection, refusals, &options.confirm)?;
    guard::check_confirmed(&[&inspection], &options.confirm)?;
    if let (TargetName::Nbd(uri), Some(_)) = (&inspection.name, &inspection.nbd) {
        return Ok(export(&inspection, uri, options, &lifted, progress));
    }
    let is_there = matches!(inspection.kind, Kind::File | Kind::Block)
        && inspection.exists
        && !inspection.is_scratch();
    if !is_there {
        // Targets that keep nothing: memory, emulated storage, a file that is still to be created.
        return Ok(unkept(choose::plan(&inspection, options.method)));
    }
    let open = OpenOptions { confirm: options.confirm.clone(), ..OpenOptions::read_write() };
    purge_opened(&open_inspected(inspection, &open)?, options, progress)
}

/// Purges a target that is already open for writing, for example during a run. Confirmation to overwrite the
/// target is not enough: `options` must name it again.
///
/// # Errors
/// As [`purge`]; [`TargetError::Unsupported`] if the target is open for reading only.
pub fn purge_opened(
    opened: &Opened,
    options: &PurgeOptions,
    progress: &mut Progress<'_>,
) -> Result<PurgeRecord, TargetError> {
    let inspection = &opened.inspection;
    if opened.access != Access::ReadWrite {
        return Err(TargetError::Unsupported {
            path: inspection.name.to_string(),
            problem: "it is open for reading only, but a purge writes.".to_owned(),
            help: "leave --read-only out.".to_owned(),
        });
    }
    let root = SysRoot::real();
    let refusals = guard::check_through_descriptor(inspection, &root);
    let lifted = guard::allow_purge(inspection, refusals, &options.confirm)?;
    let found = choose::query(inspection);
    let plan = choose::decide(inspection, &found, options.method);
    let range_bytes = range_bytes(opened);
    let purge = Purge { opened, found: &found, range_bytes };
    let before = own_health(inspection, &root);
    let blocks = &mut OpenedBlocks(opened);
    let mut record = try_methods(
        plan,
        &lifted,
        options,
        blocks,
        range_bytes,
        opened.align_bytes,
        |_, method| purge.carry_out(method, progress),
    );
    if inspection.kind == Kind::Block && record.method.is_some() {
        let _ = ioctl::block_flush_buffers(&opened.fd);
        // Nodes of lost partitions would mislead later users.
        let _ = ioctl::block_reread_partitions(&opened.fd);
    }
    record.evidence.extend(kept(&record, inspection.kind));
    let after = own_health(inspection, &root);
    record.evidence.extend(wear(before.as_ref(), after.as_ref()));
    (record.health_before, record.health_after) = (before, after);
    Ok(record)
}

/// Bytes of the target to erase: all whole blocks.
fn range_bytes(opened: &Opened) -> u64 {
    let inspection = &opened.inspection;
    let whole = inspection.whole_bytes.unwrap_or(0);
    let block = inspection.alignment.logical_block_bytes.unwrap_or(512).max(1);
    match inspection.kind {
        Kind::Block => inspection.size_bytes.unwrap_or(whole).min(whole) / block * block,
        _ => whole.min(inspection.size_bytes.unwrap_or(whole)),
    }
}

struct Purge<'a> {
    opened: &'a Opened,
    found: &'a choose::Found,
    range_bytes: u64,
}

impl Purge<'_> {
    fn carry_out(&self, method: Method, progress: &mut Progress<'_>) -> Carried {
        let fd = &self.opened.fd;
        match (method, &self.found.nvme) {
            (Method::Discard | Method::Anew, _) => {
                discard::opened(self.opened, self.range_bytes, progress)
            }
            (Method::AtaErase | Method::AtaEraseEnhanced, _) => {
                let enhanced = method == Method::AtaEraseEnhanced;
                ata::carry_out(&mut ata::Device(fd), enhanced)
            }
            (_, Some(Ok(found))) => nvme::carry_out(&mut nvme::Device(fd), method, found, progress),
            (_, _) => Err(Setback::Refused("the device could not be queried.".to_owned())),
        }
    }
}

/// Tries the possible purge methods, best first, until one works. Writes test blocks before and checks them
/// after.
fn try_methods<B: Blocks>(
    plan: PurgePlan,
    lifted: &[Refusal],
    options: &PurgeOptions,
    blocks: &mut B,
    range_bytes: u64,
    align_bytes: u64,
    mut carry_out: impl FnMut(&mut B, Method) -> Carried,
) -> PurgeRecord {
    let mut record = begun(plan.target, plan.choices, lifted);
    if plan.chosen.is_none() {
        record.outcome = PurgeOutcome::NotPossible(plan.why_not.unwrap_or_default());
        return record;
    }
    // Makes the pattern unique to this purge; should the clock stand still, only that is lost.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nonce = now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(48);
    let check = EraseCheck::write(blocks, range_bytes, align_bytes, nonce);
    let started = Instant::now();
    let mut why_not = Vec::new();
    for choice in &mut record.considered {
        if !choice.possible || options.method.is_some_and(|asked| asked != choice.method) {
            continue;
        }
        match carry_out(blocks, choice.method) {
            Ok(words) => {
                record.method = Some(choice.method);
                record.outcome = PurgeOutcome::Purged;
                record.evidence.extend(words);
                break;
            }
            Err(Setback::Refused(why)) => {
                choice.possible = false;
                choice.remark = why;
                why_not.push(format!("{}: {}", choice.method, choice.remark));
                record.outcome = PurgeOutcome::NotPossible(why_not.join(" "));
            }
            Err(Setback::Failed(why)) => {
                record.method = Some(choice.method);
                record.outcome = PurgeOutcome::Failed(why);
                break;
            }
        }
    }
    record.duration_ns = started.elapsed().as_nanos() as u64;
    if record.outcome == PurgeOutcome::Purged {
        let (verified, words) = check.verify(blocks);
        record.verified = verified;
        record.evidence.push(words);
    } else {
        record.evidence.push(
            "Some blocks were overwritten with a test pattern before the purge, to check that the purge erases them."
                .to_owned(),
        );
    }
    record
}

fn begun(target: String, considered: Vec<Choice>, lifted: &[Refusal]) -> PurgeRecord {
    PurgeRecord {
        target,
        method: None,
        outcome: PurgeOutcome::NotPossible(String::new()),
        duration_ns: 0,
        verified: Verified::Unknown,
        evidence: Vec::new(),
        considered,
        lifted: lifted.iter().map(ToString::to_string).collect(),
        health_before: None,
        health_after: None,
    }
}

/// Record of a target that needs no purge, because each run creates it anew or because it stores nothing.
fn unkept(plan: PurgePlan) -> PurgeRecord {
    let mut record = begun(plan.target, plan.choices, &[]);
    match plan.chosen {
        Some(method) => {
            record.method = Some(method);
            record.outcome = PurgeOutcome::Purged;
            record.verified = Verified::Yes;
            record.evidence.extend(record.considered.iter().map(|choice| choice.remark.clone()));
        }
        None => record.outcome = PurgeOutcome::NotPossible(plan.why_not.unwrap_or_default()),
    }
    record
}

fn export(
    inspection: &Inspection,
    uri: &Uri,
    options: &PurgeOptions,
    lifted: &[Refusal],
    progress: &mut Progress<'_>,
) -> PurgeRecord {
    let plan = choose::plan(inspection, options.method);
    let config = Config { depth: 1, timeout: REQUEST_TIMEOUT, ..Config::default() };
    let mut client = match Blocking::connect_with(uri, &config) {
        Ok(client) => client.with_patience(REQUEST_TIMEOUT),
        Err(error) => {
            let mut record = begun(plan.target, plan.choices, lifted);
            record.outcome = PurgeOutcome::Failed(format!("no connection: {error}."));
            return record;
        }
    };
    let range_bytes = inspection.size_bytes.unwrap_or(0);
    let align_bytes = inspection.nbd.as_ref().map_or(512, |e| u64::from(e.min_block_bytes));
    let blocks = &mut ExportBlocks(&mut client);
    let mut record =
        try_methods(plan, lifted, options, blocks, range_bytes, align_bytes, |blocks, _| {
            discard::export(blocks.0, range_bytes, progress)
        });
    record.evidence.extend(kept(&record, inspection.kind));
    record
}

/// Advice if data survived a purge whose commands all succeeded; `None` if none survived.
fn kept(record: &PurgeRecord, kind: Kind) -> Option<String> {
    let method = record.method.filter(|_| record.verified == Verified::No)?;
    let text = match (method, kind) {
        (Method::Discard, Kind::Nbd) => {
            "The server accepts trims but keeps the data: have the server pass trims on (`qemu-nbd \
             --discard=unmap`), or re-create its storage."
        }
        (Method::Discard, Kind::Block) => {
            "A discard is only a hint, and this device keeps the data: use a method that erases, \
             if the device has one, or configure the layer below (an image, a volume) to pass \
             discards on."
        }
        (Method::Discard, _) => {
            "The file system returns the old data: remove the file, and make it again."
        }
        _ => {
            "The device reports an erase, but still holds the data: try another `--method`, or the \
             manufacturer's tool."
        }
    };
    Some(text.to_owned())
}

/// Health report of a target that is a device. `None` for a file or a loop device, even if a device below has
/// one.
fn own_health(inspection: &Inspection, root: &SysRoot) -> Option<Health> {
    let own = inspection.device.as_ref().filter(|_| inspection.kind == Kind::Block)?;
    let is_own = |device: &&BlockDevice| {
        device.dev == own.dev || own.partition_of.as_ref() == Some(&device.kernel_name)
    };
    let device = inspection.physical.iter().find(is_own)?;
    health(&BlockDevice::read(root, device.dev)?).ok()
}

/// Describes life used and medium errors before and after the purge, from the device's own log.
fn wear(before: Option<&Health>, after: Option<&Health>) -> Option<String> {
    let (before, after) = (before?, after?);
    if after.percentage_used.is_none() && after.media_errors.is_none() {
        return None;
    }
    let unknown = || "unknown".to_owned();
    let percent =
        |health: &Health| health.percentage_used.map_or_else(unknown, |p| format!("{p} %"));
    let errors = |health: &Health| health.media_errors.map_or_else(unknown, |n| n.to_string());
    Some(format!(
        "According to the device's health log, {} of its rated life was used before the purge and \
         {} after it; media errors: {} before, {} after.",
        percent(before),
        percent(after),
        errors(before),
        errors(after)
    ))
}

#[cfg(test)]
#[path = "carry_out_tests.rs"]
mod tests;
