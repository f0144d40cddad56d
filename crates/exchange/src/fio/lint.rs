//! Warns about fio options with surprising effects. `--lint` prints the warnings.

use super::layout::{self, Group, file_names};
use super::lines::Section;
use super::mix::{Mix, Plan, Walk};
use super::reading::Reading;
use super::{Note, Surroundings};
use crate::shared::{SECOND_NS, UNWRITTEN};
use iodyno_catalog::File;
use iodyno_units::{OpKind, human};
use iodyno_workload::time_text;
use std::collections::BTreeSet;

/// Rates below this probably lack a suffix such as `k`, bytes per second.
const SLOW_RATE: u64 = 65_536;

/// Threshold of the warning about skew: half of the operations go to at most this fraction of the blocks.
const FEW: f64 = 0.01;

/// Size assumed for a file of unknown size, bytes.
const USUAL_BYTES: u64 = 1 << 40;

/// Number of top ranks of a Zipf distribution whose weights are summed exactly; the rest is integrated.
const EXACT_RANKS: u64 = 1000;

impl Reading<'_> {
    /// Adds warnings about options whose effect the job's author may not expect.
    pub(super) fn traps(&mut self, mix: &Mix, direct: bool, threads: u64) {
        let place = self
            .opt("direct")
            .or(self.opt("buffered"))
            .map_or(&self.section.place, |opt| &opt.place);
        let durable = ["fsync", "fdatasync", "sync"].iter().any(|name| self.flag(name));
        if !direct && mix.has(OpKind::Write) && !durable {
            let words = "buffered writes without fsync measure the page cache, not the device: use direct=1";
            self.judged_trap(place, words);
        } else if !direct {
            self.judged_trap(
                place,
                "buffered I/O is fio's default, and measures the page cache: use direct=1",
            );
        }
        if mix.has(OpKind::Read) && !self.flag("verify") {
            self.judged_trap(&self.section.place, UNWRITTEN);
        }
        if let (Some(opt), false, true) = (
            self.opt("iodepth").filter(|opt| opt.value.as_deref() != Some("1")),
            direct,
            self.section.value("ioengine") == Some("libaio"),
        ) {
            let words = "libaio is asynchronous with direct=1 only: through the page cache each submission waits, and the depth has no effect";
            self.trap(&opt.place, words);
        }
        if let (Some(opt), Some(rate)) = (self.opt("rate"), self.section.value("rate"))
            && let Ok(rate) = rate.split(',').next().unwrap_or_default().parse::<u64>()
            && (1..SLOW_RATE).contains(&rate)
        {
            let words = format!(
                "a rate is in bytes a second, so {rate} is almost nothing: use {rate}k or {rate}m"
            );
            self.trap(&opt.place, words);
        }
        self.long_ramp();
        self.names_like_devices();
        if let (Some(opt), true) = (self.opt("zero_buffers"), mix.has(OpKind::Write)) {
            self.trap(&opt.place, "zeroes compress, and some devices do not store them");
        }
        if let (Some(opt), true) =
            (self.opt("verify"), threads > 1 && self.opt("filename").is_some())
        {
            self.trap(&opt.place, "clones that share a file overwrite one another's blocks: fio's verification may then fail");
        }
    }

    /// Warns if the ramp is longer than the measurement.
    fn long_ramp(&mut self) {
        let ramp_ns = self.time("ramp_time", SECOND_NS).unwrap_or(0);
        let Some(runtime_ns) = self.time("runtime", SECOND_NS).filter(|ns| *ns > 0) else { return };
        if ramp_ns > runtime_ns
            && let Some(opt) = self.opt("ramp_time")
        {
            let (ramp, runtime) = (time_text(ramp_ns), time_text(runtime_ns));
            let words = format!(
                "the ramp is most of the job: {ramp} of ramp, {runtime} measured; shorten ramp_time, or lengthen runtime"
            );
            self.trap(&opt.place, words);
        }
    }

    /// Warns about a file name, such as `sdb`, that looks like a device but is not one.
    fn names_like_devices(&mut self) {
        let Some(opt) = self.opt("filename") else { return };
        for name in file_names(opt.value.as_deref().unwrap_or_default()) {
            let bare = name.strip_prefix("./").unwrap_or(&name);
            let bare = bare.strip_prefix("dev/").unwrap_or(bare);
            let words = if is_device_name(bare) && !name.starts_with('/') {
                format!(
                    "fio takes `{name}` for a file in the current folder: the device is /dev/{bare}"
                )
            } else if name.starts_with("/dev/shm/") {
                format!("`{name}` is a file in memory, not a device")
            } else if name.starts_with("/dev/") && self.is_device(&name) == Some(false) {
                format!(
                    "`{name}` is not a device on this machine: fio would create a file of this name in memory"
                )
            } else {
                continue;
            };
            self.trap(&opt.place, words);
        }
    }

    /// Warns if the address distribution concentrates most operations on a few blocks.
    pub(super) fn skew(&mut self, plan: &Plan) {
        let (Walk::Random, Some((value, opt))) = (&plan.walk, self.text("random_distribution"))
        else {
            return;
        };
        let (name, rest) = value.split_once(':').unwrap_or((value, ""));
        let number = rest.split(':').next().and_then(|text| text.parse::<f64>().ok());
        let block = plan.mix.one_size().unwrap_or(4096).max(1);
        let bytes = plan.region.each_bytes.unwrap_or(USUAL_BYTES);
        let all = (bytes / block).max(1);
        let hottest: &dyn Fn(f64) -> u64 = match (name, number) {
            ("zipf", theta) => &move |share| zipf_ranks(all, theta.unwrap_or(1.1), share),
            ("pareto", h) => {
                let h = h.unwrap_or(0.2);
                &move |share: f64| (share.powf(h.ln() / (1.0 - h).ln()) * all as f64).ceil() as u64
            }
            _ => return,
        };
        let (half, most) = (hottest(0.5), hottest(0.9));
        if half as f64 > all as f64 * FEW {
            return;
        }
        let is_known = plan.region.each_bytes.is_some();
        let of_whole = if is_known { "" } else { " if the file has 1 TiB" };
        let words = format!(
            "half of the operations go to {half} of {all} blocks ({}), 9 of 10 to {most} ({}){of_whole}: a cache can serve them",
            human::size(half.saturating_mul(block)),
            human::size(most.saturating_mul(block)),
        );
        self.trap(&opt.place, words);
    }
}

/// Number of most frequent items, out of `all`, that together receive the fraction `share` of the draws from a Zipf
/// distribution with exponent `theta`.
fn zipf_ranks(all: u64, theta: f64, share: f64) -> u64 {
    if !theta.is_finite() || theta <= 0.0 {
        return all;
    }
    let exact: Vec<f64> = (1..=EXACT_RANKS.min(all))
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-theta);
            Some(*sum)
        })
        .collect();
    // Beyond the exact ranks: the integral between midpoints of ranks.
    let integral = |rank: f64| {
        if (theta - 1.0).abs() < 1e-9 { rank.ln() } else { rank.powf(1.0 - theta) / (1.0 - theta) }
    };
    let weight = |ranks: u64| match ranks {
        0 => 0.0,
        ranks if ranks <= exact.len() as u64 => exact[ranks as usize - 1],
        ranks => {
            let from = EXACT_RANKS as f64 + 0.5;
            exact[exact.len() - 1] + integral(ranks as f64 + 0.5) - integral(from)
        }
    };
    let wanted = share * weight(all);
    let (mut low, mut high) = (0, all);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if weight(middle) >= wanted { high = middle } else { low = middle }
    }
    high
}

/// Whether a file name without a folder looks like a Linux disk, such as `sdb` or `nvme0n1`.
fn is_device_name(name: &str) -> bool {
    let letters = |rest: &str| {
        let rest = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        !rest.is_empty() && rest.len() <= 2 && rest.bytes().all(|b| b.is_ascii_alphabetic())
    };
    let numbers = |rest: &str| {
        !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit() || b"npX".contains(&b))
    };
    let with_letters = ["sd", "hd", "vd", "xvd"];
    let with_numbers = ["nvme", "md", "dm-", "nbd", "mmcblk", "loop", "zram", "pmem"];
    with_letters.iter().any(|start| name.strip_prefix(start).is_some_and(letters))
        || with_numbers.iter().any(|start| name.strip_prefix(start).is_some_and(numbers))
}

/// Returns warnings about jobs that run at the same time, each with the index of the job to which it belongs.
pub(super) fn of_groups(
    sections: &[Section],
    groups: &[Group],
    files: &[File],
    around: &dyn Surroundings,
) -> Vec<(usize, Note)> {
    const ON_PURPOSE: &[&str] = &["flow", "wait_for", "startdelay", "exitall"];
    let mut all = Vec::new();
    for group in groups {
        let jobs = group.jobs.iter().filter(|job| !sections[**job].flag("create_only"));
        let jobs: Vec<usize> = jobs.copied().collect();
        let [first, second, ..] = jobs.as_slice() else { continue };
        let names = match jobs.len() {
            2 => {
                format!("`{}` and `{}`", sections[*first].job_name(), sections[*second].job_name())
            }
            more => format!(
                "`{}`, `{}` and {} more",
                sections[*first].job_name(),
                sections[*second].job_name(),
                more - 2
            ),
        };
        let at = sections[*second].place.at(files);
        let own = |job: &usize| layout::file_of(&sections[*job]);
        if jobs.iter().all(|job| own(job).is_some_and(|file| around.is_target(&file))) {
            // Each job runs on its own target.
            let first = own(first);
            if jobs.iter().any(|job| own(job) != first) {
                continue;
            }
        }
        let devices = jobs.iter().filter(|job| layout::is_device(&sections[**job]));
        let devices: BTreeSet<&str> =
            devices.filter_map(|job| sections[*job].value("filename")).collect();
        if devices.len() > 1 {
            let named: Vec<String> =
                devices.iter().map(|device| format!("--on {device}")).collect();
            let words = format!(
                "{names} run at the same time on {} devices: with `{}` each job runs on its own device only; otherwise each target gets all jobs",
                devices.len(),
                named.join(" ")
            );
            all.push((*second, Note::new(at, words)));
        } else if !jobs.iter().any(|job| ON_PURPOSE.iter().any(|name| sections[*job].flag(name))) {
            let words = format!(
                "{names} run at the same time on one target, and slow each other down: if they are separate tests, add `stonewall` to each"
            );
            all.push((*second, Note::new(at, words)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{is_device_name, zipf_ranks};

    /// Compares the computed number of hot ranks with the exact sum of all weights.
    #[test]
    fn the_hottest_ranks_are_counted() {
        for (all, theta, share) in [
            (100_000_u64, 0.9, 0.5),
            (100_000, 1.0, 0.5),
            (100_000, 1.2, 0.9),
            (500, 0.5, 0.5),
            (1, 1.1, 0.5),
        ] {
            let weights: Vec<f64> = (1..=all).map(|k| (k as f64).powf(-theta)).collect();
            let wanted = weights.iter().sum::<f64>() * share;
            let mut sum = 0.0;
            let exact = weights
                .iter()
                .take_while(|weight| {
                    let goes = sum < wanted;
                    sum += **weight;
                    goes
                })
                .count() as u64;
            let found = zipf_ranks(all, theta, share);
            assert!(found.abs_diff(exact) <= 1 + exact / 1000, "{all} {theta}: {found}, {exact}");
        }
    }

    #[test]
    fn names_of_disks_are_known() {
        for name in [
            "sda",
            "sdb1",
            "sdX",
            "nvme0n1",
            "nvme0n1p2",
            "nvmeXn1",
            "md127",
            "dm-0",
            "vdb",
            "xvdf",
        ] {
            assert!(is_device_name(name), "{name}");
        }
        for name in ["sdcard", "data", "nvme", "nvme-test", "sd", "file1", "loopback"] {
            assert!(!is_device_name(name), "{name}");
        }
    }
}
