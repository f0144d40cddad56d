//! Judges the conditions of the machine and the device during a cell, such as throttling, swapping or changed settings.

use super::{Level, Say};
use crate::cell::Cell;
use crate::conditions::Conditions;
use crate::interval::{ClassStats, Interval};
use iodyno_units::{OpKind, human};

/// Minimum number of swapped pages to report; idle programs cause fewer.
const SWAPPED_PAGES_MIN: u64 = 256;
/// Minimum number of major page faults to report. A program causes a few when it first touches its pages.
const MAJOR_FAULTS_MIN: u64 = 16;
/// Latency below which the cost of system calls is a significant fraction of an I/O, ns.
const KERNEL_ENTRY_MATTERS_NS: u64 = 20_000;
/// Used fraction of a file system above which it searches longer for free space and fragments new data.
const FILE_SYSTEM_USED_MAX: f64 = 0.9;
/// Minimum number of interrupts for judging their distribution over processors.
const INTERRUPTS_MIN: u64 = 10_000;
/// Fraction of interrupts on one processor above which all are considered to be on it. The rest may have occurred
/// before the affinity changed.
const INTERRUPTS_ON_ONE_MIN: f64 = 0.95;
/// Minimum amount of discards by other programs to report, as a fraction of the cell's bytes. Smaller amounts are
/// normal for a file system and disturb little: a discard takes little time even if its range is large.
const DISCARDED_SHARE_MIN: f64 = 0.05;
/// Maximum amount of discards by other programs for a note, as a fraction of the cell's bytes. More is a warning:
/// such discards may load the device as much as the cell does.
const DISCARDED_SHARE_MAX: f64 = 0.5;
/// Minimum amount of discards by other programs to report, bytes.
const DISCARDED_BYTES_MIN: u64 = 16 << 20;

pub(super) fn conditions(cell: &Cell, total: &Interval, say: &mut Say) {
    let Some(found) = &cell.evidence.conditions else { return };
    processors(found, total, cell, say);
    if !found.changed.is_empty() {
        say(
            "CONDITIONS_CHANGED",
            Level::Warning,
            format!(
                "settings of the machine changed during the cell: {}; find the program that changes them, and measure again",
                found.changed.join("; ")
            ),
        );
    }
    if let Some(pages) = found.swapped_pages.filter(|n| *n >= SWAPPED_PAGES_MIN) {
        say(
            "SWAPPING",
            Level::Warning,
            format!(
                "the machine swapped {} during the cell: processors waited for swap I/O, and so did the device if the swap space is on it; free memory, and measure again",
                human::size(pages * 4096)
            ),
        );
    }
    // The mmap engine reads by page faults.
    let of_memory = found.major_faults.filter(|_| cell.key.engine != "mmap");
    if let Some(faults) = of_memory.filter(|n| *n >= MAJOR_FAULTS_MIN) {
        say(
            "MAJOR_FAULTS",
            Level::Note,
            format!(
                "{faults} page faults of iodyno itself had to read from storage, because the machine is short of memory: some latencies may include this; stop programs that use much memory"
            ),
        );
    }
    if !cell.evidence.in_process {
        device(found, total, cell, say);
    }
}

/// Reports conditions of the processors and the machine that affect all measured times.
fn processors(found: &Conditions, total: &Interval, cell: &Cell, say: &mut Say) {
    if let Some(times) = found.processor_throttles.filter(|n| *n > 0) {
        say(
            "THROTTLED",
            Level::Warning,
            format!(
                "processors were throttled {} during the cell because of heat: the generator and the kernel were slower than usual; cool the machine",
                human::counted(times, "time")
            ),
        );
    }
    if cell.evidence.in_process {
        return;
    }
    if let Some(governor) =
        found.governor.as_ref().filter(|g| g.split(',').any(|g| g != "performance"))
    {
        let turbo = if found.turbo == Some(true) { ", with turbo" } else { "" };
        say(
            "GOVERNOR",
            Level::Note,
            format!(
                "the processors' frequency follows the load (governor {governor}{turbo}): short I/Os at low depth are slower and vary more; set the governor to performance for comparisons"
            ),
        );
    }
    if let Some(source) = &found.clock_source
        && !["tsc", "arch_sys_counter"].contains(&source.as_str())
    {
        say(
            "CLOCK_SOURCE",
            Level::Note,
            format!(
                "the kernel's clock source is {source}: each timestamp takes longer than with the processor's own counter, which the kernel does not trust on this machine; the kernel's log says why"
            ),
        );
    }
    if found.hypervisor == Some(true) {
        say(
            "VIRTUAL_MACHINE",
            Level::Note,
            "this machine is virtual: its processors, clock and devices may be shared with other machines, and the host may impose limits or burst credits; compare only with the same kind of machine".to_owned(),
        );
    }
    let median = total.iter().filter_map(|(_, class)| class.service.quantile_ns(0.5)).min();
    if let Some(n) = found.mitigations.filter(|n| *n > 0)
        && median.is_some_and(|ns| ns < KERNEL_ENTRY_MATTERS_NS)
    {
        say(
            "MITIGATIONS",
            Level::Note,
            format!(
                "the kernel mitigates {n} processor vulnerabilities, which makes each system call slower and matters at these latencies; compare only with machines that have the same mitigations"
            ),
        );
    }
}

/// Reports settings and state of the device.
fn device(found: &Conditions, total: &Interval, cell: &Cell, say: &mut Say) {
    if let (Some(now), Some(limit)) = (found.temperature_c, found.temperature_warning_c)
        && now >= limit
    {
        say(
            "HOT",
            Level::Warning,
            format!(
                "the device is at {now:.0} °C, and its warning threshold is {limit:.0} °C: it may have throttled itself; cool it, or pause between cells"
            ),
        );
    }
    if let Some(link) = &found.link_below {
        say(
            "LINK_BELOW_CAPABILITY",
            Level::Warning,
            format!(
                "the device's PCIe link runs at {link}, which limits the throughput; check the slot, riser, cable and firmware settings"
            ),
        );
    }
    if !found.raid_at_work.is_empty() {
        say(
            "RAID_AT_WORK",
            Level::Warning,
            format!(
                "a RAID set below the target was doing background work ({}); wait until it ends, or stop it, and measure again",
                found.raid_at_work.join(", ")
            ),
        );
    }
    if let Some(n) = found.in_flight_before.filter(|n| *n > 0) {
        say(
            "BUSY_BEFORE",
            Level::Note,
            format!(
                "other programs had {} in flight on the device just before the cell; find the program that uses the device",
                if n == 1 { "1 I/O".to_owned() } else { format!("{n} I/Os") }
            ),
        );
    }
    writes(found, total, cell, say);
    surroundings(found, cell, say);
}

/// Reports conditions that affect writes, and discards by other programs.
fn writes(found: &Conditions, total: &Interval, cell: &Cell, say: &mut Say) {
    let ops = |kind| total.class(kind).map_or(0, ClassStats::ops);
    let own_discards = ops(OpKind::Trim) + ops(OpKind::WriteZeroes);
    if let Some(bytes) = found.discarded_bytes.filter(|n| *n >= DISCARDED_BYTES_MIN)
        && own_discards == 0
    {
        let share = bytes as f64 / cell.resources.moved_bytes.max(1) as f64;
        let level = if share > DISCARDED_SHARE_MAX { Level::Warning } else { Level::Note };
        if share >= DISCARDED_SHARE_MIN {
            say(
                "FOREIGN_TRIM",
                level,
                format!(
                    "other programs discarded {} on the device during the cell ({:.0} % of the bytes that the cell moved): the discards disturbed the cell, and may have changed the device's state; check for fstrim and for mounts with the option discard",
                    human::size(bytes),
                    share * 100.0
                ),
            );
        }
    }
    let odd = |bytes: u32, physical: u64| !u64::from(bytes).is_multiple_of(physical);
    // The page cache writes whole pages.
    if let Some(physical) = found.physical_block_bytes.filter(|n| *n > 512)
        && cell.evidence.direct != Some(false)
        && ops(OpKind::Write) > 0
        && let Some((bytes, _)) = cell.key.blocks.iter().find(|b| odd(b.0, physical))
    {
        say(
            "BELOW_PHYSICAL_BLOCK",
            Level::Note,
            format!(
                "writes of {} are not a multiple of the physical block of {}: the device reads before it writes; use a multiple of the physical block",
                human::size(u64::from(*bytes)),
                human::size(physical)
            ),
        );
    }
    if found.write_cache.as_deref() == Some("write back")
        && ops(OpKind::Write) > 0
        && ops(OpKind::Flush) == 0
        && !super::storage::forces_writes(cell)
    {
        say(
            "VOLATILE_CACHE",
            Level::Note,
            "the device acknowledged writes from a volatile cache, and no flush was issued: the latencies are not those of durable writes; for durable writes use --dsync, or a workload that flushes, such as redo-log".to_owned(),
        );
    }
}

/// Reports a nearly full file system, and interrupts concentrated on one processor.
fn surroundings(found: &Conditions, cell: &Cell, say: &mut Say) {
    if let Some(used) = found.file_system_used.filter(|used| *used > FILE_SYSTEM_USED_MAX) {
        say(
            "FILE_SYSTEM_FULL",
            Level::Warning,
            format!(
                "the file system is {:.0} % full: it searches longer for free space and fragments new data; free some space, or measure the device itself",
                used * 100.0
            ),
        );
    }
    if let (Some(n), Some(share)) = (found.interrupts, found.interrupts_on_one)
        && n >= INTERRUPTS_MIN
        && share >= INTERRUPTS_ON_ONE_MIN
        && cell.evidence.cpus > 1
        && cell.resources.cpu_user_ns.len() > 1
    {
        say(
            "INTERRUPTS_ON_ONE_CPU",
            Level::Note,
            format!(
                "{:.0} % of the device's {} interrupts went to one processor, which may limit the rate; spread the interrupts (irqbalance, smp_affinity)",
                share * 100.0,
                human::whole(n)
            ),
        );
    }
}
