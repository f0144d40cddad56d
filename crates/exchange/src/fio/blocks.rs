//! Converts fio's block-size options (`bs`, `bsrange`, `bssplit`) and address distributions.

use super::Note;
use super::lines::Opt;
use super::mix::{Blocks, Mix, Plan, Region, Size, Walk};
use super::number::count;
use super::reading::Reading;
use iodyno_workload::{Pattern, Percent, Spot};

/// Maximum number of block sizes that a `bsrange` may contain.
const MAX_SIZES: u64 = 2048;

/// Maximum number of zones of a distribution. It is one less than the maximum number of hot spots, because the space
/// outside all zones becomes another hot spot with a share of 0.
const MAX_ZONES: usize = 63;

/// Sequential addresses, with one cursor per clone.
const SEQUENTIAL: Pattern = Pattern::Sequential { shared: false, run: None };

impl Reading<'_> {
    /// Block sizes of reads, writes and trims, each size with its share.
    pub(super) fn blocks(&mut self) -> Blocks {
        let one = |bytes: u64| vec![Size { bytes, share: 1.0 }];
        let mut all = [one(4096), one(4096), one(4096)];
        if let Some((value, opt)) = self.text("bs") {
            self.trap_of_suffix(value, opt);
        }
        let kb_base = self.kb_base;
        self.all_by_kind("bs", &mut all, |text| {
            let two = text.split_once(['-', ':']);
            match two.map(|(a, b)| (count(a, kb_base), count(b, kb_base))) {
                Some((Ok(_), Ok(_))) => {
                    let (reads, writes) = two.unwrap_or_default();
                    Err(format!(
                        "`{text}` is two values: fio reads blocks of {reads} and writes blocks of {writes}; use bs={reads},{writes} for that, or bsrange={reads}-{writes} for a range of sizes"
                    ))
                }
                _ => count(text, kb_base).map(one),
            }
        });
        self.all_by_kind("bsrange", &mut all, |text| range_sizes(text, kb_base));
        self.all_by_kind("bssplit", &mut all, |text| split_sizes(text, kb_base));
        all
    }

    /// Address pattern of each issued kind of operation, and whether these patterns need a separate range for each
    /// clone.
    pub(super) fn addresses(&mut self, plan: &Plan) -> (Vec<Pattern>, bool) {
        let kinds = plan.mix.0.len();
        let Some(percents) = self.jumps(plan) else {
            let (addresses, is_alone) = self.addresses_of(plan, 100);
            return (vec![addresses; kinds], is_alone);
        };
        let mut is_any_alone = false;
        let mut by_kind = Vec::new();
        for percent in percents {
            // Don't repeat the refusals and notes of one kind for the others.
            let (notes, traps, refused) = (self.notes.len(), self.traps.len(), self.refused.len());
            let (addresses, is_alone) = self.addresses_of(plan, percent);
            is_any_alone |= is_alone;
            dedup_from(&mut self.notes, notes);
            dedup_from(&mut self.traps, traps);
            dedup_from(&mut self.refused, refused);
            by_kind.push(addresses);
        }
        (by_kind, is_any_alone)
    }

    /// Address pattern of one kind of operation, and whether the pattern needs a separate range for each clone.
    /// `percent` is `percentage_random` of that kind. If the pattern is refused, returns an arbitrary one.
    fn addresses_of(&mut self, plan: &Plan, percent: u64) -> (Pattern, bool) {
        let Plan { mix, walk, region } = plan;
        let distribution = match self.text("random_distribution") {
            Some((value, opt)) if value != "random" && walk.is_random() => Some((value, opt)),
            Some((value, opt)) if value != "random" => {
                self.note(opt, "no effect on sequential I/O");
                None
            }
            _ => None,
        };
        let (block, is_distributed) = (mix.one_size(), distribution.is_some());
        let spots = self.addresses_of_drawn(walk, region, percent, block, is_distributed);
        if let Some(spots) = spots {
            return (spots, false);
        }
        if let Some(streams) = self.files_in_turn(plan) {
            return (streams, true);
        }
        match (walk, distribution) {
            // fio redraws a size that does not fit before the end of the file, and each clone has its own end.
            (Walk::Sequential, _) if block.is_none() => {
                (Pattern::ToEnd, region.each_bytes.is_some())
            }
            (Walk::Sequential, _) => (SEQUENTIAL, false),
            (Walk::Skips(run, skip), _) => (Pattern::Skips { run: *run, skip_bytes: *skip }, true),
            (Walk::Holes(_, skip), _) => (Pattern::Skips { run: 1, skip_bytes: *skip }, true),
            (Walk::Zones(zone, open), _) => {
                let open = u32::try_from(*open).unwrap_or(u32::MAX);
                (
                    Pattern::Zones { zone_bytes: *zone, open, trim: false, capacity_bytes: None },
                    false,
                )
            }
            (Walk::Backward(back), _) => {
                let (stride_bytes, start_bytes) = (back.stride, back.start);
                (Pattern::Strided { stride_bytes, start_bytes, backward: true }, true)
            }
            (Walk::Runs(run), None) => {
                (Pattern::Sequential { shared: false, run: Some(*run) }, false)
            }
            (Walk::Random, _) if percent == 0 => (SEQUENTIAL, false),
            (Walk::Random, None) if percent < 100 => {
                (Pattern::Jumps { share: share_of(percent as f64) }, false)
            }
            (Walk::Random, None) => (self.uniform(mix), false),
            (Walk::Runs(_), Some((_, opt))) => {
                let help = "remove the colon of rw and the text after it";
                self.refuse(opt, "runs of blocks can't be combined with a distribution", help);
                (SEQUENTIAL, false)
            }
            (Walk::Random, Some((value, opt))) => {
                if percent < 100 {
                    let help = "remove percentage_random, or the distribution";
                    self.refuse(
                        opt,
                        "a distribution can't be combined with percentage_random",
                        help,
                    );
                }
                (self.distributed(value, opt, region).unwrap_or(SEQUENTIAL), true)
            }
        }
    }

    /// Notes that passes of random draws differ, on an engine with a queue. fio then seeds each pass alike.
    pub(super) fn remark_on_passes(&mut self, plan: &Plan, addresses: &[Pattern]) {
        let is_drawn =
            |of: &Pattern| *of != SEQUENTIAL && *of != Pattern::Uniform { once_per_pass: true };
        let is_seeded = self.opt("randrepeat").is_none() || self.flag("randrepeat");
        if plan.walk.is_random()
            && is_seeded
            && addresses.iter().any(is_drawn)
            && self.has_passes(&plan.region)
            && let Some(opt) = self.opt("loops").or(self.opt("io_size"))
        {
            self.note(opt, "each pass draws other random addresses; with this engine fio repeats those of the first pass, unless randrepeat=0");
        }
    }

    /// Converts the order in which fio uses several files (`file_service_type`), and refuses an order without an
    /// equivalent. Returns the pattern if fio takes sequential blocks from the files in turn; None if the files are
    /// used as one range.
    fn files_in_turn(&mut self, plan: &Plan) -> Option<Pattern> {
        let Plan { mix, walk, region } = plan;
        let opt = self.opt("filename").or(self.opt("nrfiles")).filter(|_| region.files > 1)?;
        let service = self.section.value("file_service_type").unwrap_or("roundrobin");
        let words = format!(
            "the job's {} files lie side by side on the target{}",
            region.files,
            if walk.is_random() {
                ", and addresses are drawn from all of them together"
            } else {
                ""
            }
        );
        self.note(opt, words);
        let (service, turn) = service.split_once(':').unwrap_or((service, "1"));
        let is_one = mix.one_size().is_some();
        match (walk, service, turn) {
            (Walk::Sequential, "roundrobin", "1") if !is_one => {
                let words = "files that are used in turn need a single block size";
                let help = "give one size in bs, or file_service_type=sequential";
                self.refuse(opt, words, help);
            }
            (Walk::Sequential, "roundrobin", "1") => {
                let streams = u32::try_from(region.files).unwrap_or(u32::MAX);
                return Some(Pattern::Streams { streams });
            }
            (Walk::Random | Walk::Runs(_), "roundrobin" | "random" | "sequential", _)
            | (Walk::Sequential, "sequential", _) => {}
            _ => {
                let opt = self.opt("file_service_type").unwrap_or(opt);
                let words = "iodyno does not support this order of using several files";
                let help = "use file_service_type=roundrobin or sequential with rw=read or rw=write, or one file";
                self.refuse(opt, words, help);
            }
        }
        None
    }

    /// `percentage_random` of each issued kind. None if I/O is sequential, or if all operations have random
    /// addresses.
    fn jumps(&mut self, plan: &Plan) -> Option<Vec<u64>> {
        let opt = self.opt("percentage_random")?;
        let mut all = [100; 3];
        self.all_by_kind("percentage_random", &mut all, |text| match text.parse() {
            Ok(percent) if percent <= 100 => Ok(percent),
            _ => Err(format!("`{text}` is not a percentage from 0 to 100")),
        });
        if !plan.walk.is_random() {
            self.note(opt, "no effect on sequential I/O");
            return None;
        }
        let issued: Vec<u64> = plan.mix.0.iter().map(|issued| all[issued.at()]).collect();
        if issued.iter().all(|percent| *percent == 100) {
            return None;
        }
        if matches!(plan.walk, Walk::Runs(_)) {
            let help = "remove the count and its colon from rw, or remove percentage_random";
            self.refuse(
                opt,
                "percentage_random can't be combined with a count in rw, such as randread:8",
                help,
            );
        }
        self.note(opt, "a sequential operation follows the previous one of its kind; random addresses are independent draws, as with norandommap");
        Some(issued)
    }

    fn uniform(&mut self, mix: &Mix) -> Pattern {
        let is_one = mix.one_size().is_some();
        let is_own_align = self.opt("ba").is_some();
        // A shift register yields each block once per pass, even with `norandommap`.
        let is_once = is_one && self.section.value("random_generator") == Some("lfsr");
        if self.flag("norandommap") && !is_once {
            return Pattern::Uniform { once_per_pass: false };
        }
        if is_one && !is_own_align {
            return Pattern::Uniform { once_per_pass: true };
        }
        let place = ["bssplit", "bsrange", "bs"].iter().find_map(|name| self.opt(name));
        let place = place.map_or(&self.section.place, |opt| &opt.place);
        if is_one {
            let words = "with blockalign, addresses are independent draws, as with norandommap";
            self.notes.push(Note::new(place.at(self.files), words));
        } else {
            let words = "with several block sizes, addresses are independent draws: without norandommap, fio shortens blocks that overlap earlier ones of the pass, and issues more and smaller blocks";
            self.trap(place, words);
        }
        Pattern::Uniform { once_per_pass: false }
    }

    /// Converts `random_distribution` to an address pattern; None if it is refused.
    fn distributed(&mut self, value: &str, opt: &Opt, region: &Region) -> Option<Pattern> {
        let (name, rest) = value.split_once(':').unwrap_or((value, ""));
        if rest.contains(',') {
            self.refuse(
                opt,
                "a distribution for each kind of operation can't be honoured",
                "give one for all kinds",
            );
            return None;
        }
        let (number, center) = rest.split_once(':').unwrap_or((rest, ""));
        let number = match (number, name) {
            ("", "zipf") => Some(1.1),
            ("", "pareto") => Some(0.2),
            ("", "normal") => Some(0.0),
            _ => number.parse::<f64>().ok().filter(|number| number.is_finite()),
        };
        if !center.is_empty() && matches!(name, "zipf" | "pareto" | "normal") {
            self.note(opt, "fio scatters the popular blocks over the range, so the distribution's center has no effect");
        }
        let by_formula = "drawn by fio's formula; iodyno scatters the blocks one to one, but fio's hash maps some of them to the same address";
        let (words, help) = match (name, number) {
            ("zipf", Some(theta)) => {
                self.note(opt, "iodyno computes the distribution over the whole range, fio over the first 10 million blocks");
                return Some(Pattern::Zipf { theta });
            }
            ("pareto", Some(h)) => {
                self.note(opt, by_formula);
                return Some(Pattern::Pareto { h });
            }
            ("normal", Some(percent)) if (0.0..=100.0).contains(&percent) => {
                self.note(opt, by_formula);
                return Some(Pattern::Normal { deviation: share_of(percent) });
            }
            ("zoned", _) => match zones(rest, None, self.kb_base) {
                Ok(zones) => return Some(zones),
                Err(why) => (why, "use the form zoned:60/10:30/20:10/70"),
            },
            ("zoned_abs", _) => match region.each_bytes {
                None => (
                    "zones in bytes require a range of known size".to_owned(),
                    "give size in bytes",
                ),
                Some(bytes) => match zones(rest, Some(bytes), self.kb_base) {
                    Ok(zones) => return Some(zones),
                    Err(why) => (why, "use the form zoned_abs:60/10g:30/20g:10/70g"),
                },
            },
            _ => (
                format!("`random_distribution={value}` can't be honoured"),
                "use random, zipf:1.1, pareto:0.2, normal:10, zoned:80/20:20/80 or zoned_abs:80/1g:20/9g",
            ),
        };
        self.refuse(opt, words, help);
        None
    }
}

fn share_of(percent: f64) -> Percent {
    Percent::from_fraction(percent / 100.0)
}

/// Expands a `bsrange` to block sizes with their shares. fio draws sizes uniformly from the range and rounds
/// them down to a multiple of the smallest; values above the last multiple become the largest size.
fn range_sizes(text: &str, kb_base: u32) -> Result<Vec<Size>, String> {
    let wrong = || format!("`{text}` is not a range of sizes: use the form 4k-64k");
    let (least, most) = text.split_once('-').or(text.split_once(':')).ok_or_else(wrong)?;
    let (least, most) = (count(least, kb_base)?, count(most, kb_base)?);
    // fio swaps the ends of a descending range.
    let (least, most) = (least.min(most), least.max(most));
    if least == 0 {
        return Err(wrong());
    }
    if most.div_ceil(least) > MAX_SIZES {
        return Err(format!("`{text}` has more than {MAX_SIZES} sizes: use bssplit"));
    }
    let (whole, rest) = (most / least, most % least);
    // Divide by the greatest common divisor, for shares in small whole numbers.
    let (mut unit, mut other) = (least, rest);
    while other > 0 {
        (unit, other) = (other, unit % other);
    }
    let size = |bytes: u64, part: u64| Size { bytes, share: (part / unit) as f64 };
    let mut sizes: Vec<_> = (1..=whole).map(|n| size(n * least, least)).collect();
    if rest > 0 {
        sizes.push(size(most, rest));
    }
    Ok(sizes)
}

/// Parses the `bssplit` of one kind of operation. Sizes without a percentage divide the remainder equally. As in fio,
/// sizes are processed in ascending order: the last size gets any remainder to 100 %, and shares beyond 100 % are cut.
fn split_sizes(text: &str, kb_base: u32) -> Result<Vec<Size>, String> {
    let mut sizes: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        if let Some((first, _)) = size.split_once('-').filter(|_| count(size, kb_base).is_err()) {
            return Err(format!(
                "fio's bssplit uses only {first} of the range `{size}`: use {first}, or list the sizes"
            ));
        }
        let bytes = count(size, kb_base)?;
        let share = match share.trim() {
            "" => None,
            share => match share.parse::<u8>() {
                Ok(share) if share <= 100 => Some(f64::from(share)),
                _ => return Err(format!("`{part}` has no percentage from 0 to 100")),
            },
        };
        sizes.push((bytes, share));
    }
    let given: f64 = sizes.iter().filter_map(|(_, share)| *share).sum();
    let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100.0 && open > 0 {
        return Err(format!(
            "the shares of `{text}` add up to {given} %, which leaves nothing for sizes without a share: give every size a share"
        ));
    }
    // Whole percent, as in fio.
    let rest = ((100.0 - given) / open.max(1) as f64).floor();
    let size = |(bytes, share): (u64, Option<f64>)| Size { bytes, share: share.unwrap_or(rest) };
    let mut sizes: Vec<Size> = sizes.into_iter().map(size).collect();
    sizes.retain(|size| size.share > 0.0);
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| sizes[*a].share.total_cmp(&sizes[*b].share));
    let mut left = 100.0;
    for (number, at) in order.iter().enumerate() {
        let is_last = number + 1 == order.len();
        let share = &mut sizes[*at].share;
        *share = if is_last { left } else { share.min(left) };
        left -= *share;
    }
    let mut merged: Vec<Size> = Vec::new();
    for size in sizes.into_iter().filter(|size| size.share > 0.0) {
        match merged.iter_mut().find(|other| other.bytes == size.bytes) {
            Some(other) => other.share += size.share,
            None => merged.push(size),
        }
    }
    if merged.is_empty() {
        return Err(format!("`{text}` has no share for any size: use the form 4k/60:64k/40"));
    }
    Ok(merged)
}

/// Removes elements from index `from` on that are equal to an earlier element.
fn dedup_from<T: PartialEq>(all: &mut Vec<T>, from: usize) {
    let new = all.split_off(from.min(all.len()));
    for one in new {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// Converts fio's zones `OPERATIONS/RANGE:…`, in percent, to hot spots. If `whole_bytes` is given, ranges are
/// in bytes of this total. As in fio, each zone has a share of the operations, and a range in bytes has no default;
/// zones without a percentage of the range divide the rest equally. Space outside all zones is never used.
fn zones(text: &str, whole_bytes: Option<u64>, kb_base: u32) -> Result<Pattern, String> {
    let wrong = |part: &str| {
        format!(
            "`{part}` is not a zone: give a percentage of the operations and the size of the range"
        )
    };
    let mut parts: Vec<(f64, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        if parts.len() == MAX_ZONES {
            return Err(format!("there are more than {MAX_ZONES} zones"));
        }
        let (of_operations, of_range) = part.split_once('/').unwrap_or((part, ""));
        let percent =
            |text: &str| text.trim().parse::<u8>().map(f64::from).map_err(|_| wrong(part));
        let range = match (whole_bytes, of_range.trim()) {
            (None, "" | "0") => None,
            (None, text) => Some(percent(text)?),
            (Some(whole), text) => {
                let bytes = count(text, kb_base).ok().filter(|bytes| *bytes > 0);
                Some(bytes.ok_or_else(|| wrong(part))? as f64 / whole as f64 * 100.0)
            }
        };
        parts.push((percent(of_operations)?, range));
    }
    let operations: f64 = parts.iter().map(|(share, _)| share).sum();
    if (operations - 100.0).abs() > 1e-9 {
        return Err(format!(
            "the zones' shares of the operations add up to {operations} %, not 100 %"
        ));
    }
    let given: f64 = parts.iter().filter_map(|(_, range)| *range).sum();
    if given > 100.0 + 1e-9 {
        return Err(format!("the zones' shares of the range add up to {given} %, more than 100 %"));
    }
    let open = parts.iter().filter(|(_, range)| range.is_none()).count();
    let unused = (100.0 - given).max(0.0);
    let range = unused / open.max(1) as f64;
    // Ranges in parts of 10⁹, as workloads store them; they must add up to the whole.
    let ppb = |percent: f64| (percent * 1e7).round() as u64;
    let mut spots: Vec<(f64, u64)> = parts
        .iter()
        .map(|(share, size)| (*share, ppb(size.unwrap_or(range))))
        .filter(|(_, size)| *size > 0)
        .collect();
    if open == 0 && unused > 1e-6 {
        spots.push((0.0, ppb(unused)));
    }
    let sum: u64 = spots.iter().map(|(_, size)| size).sum();
    if let Some((_, last)) = spots.last_mut() {
        *last = (*last + 1_000_000_000).saturating_sub(sum);
    }
    let spot = |(share, ppb): (f64, u64)| Spot { share, range: share_of(ppb as f64 / 1e7) };
    let spots = spots.into_iter().map(spot).collect();
    Ok(Pattern::HotSpots { spots, scatter: false })
}
