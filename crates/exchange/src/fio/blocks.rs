//! Block sizes and addresses of a job.

use super::Note;
use super::extent::Region;
use super::lines::Opt;
use super::number::count;
use super::reading::{KINDS, Reading, Walk};
use crate::size_text::size_text;

/// Maximum number of block sizes to which a range expands.
const MAX_SIZES: u64 = 2048;

/// Maximum number of zones of a distribution. The unused rest of the range may need one more hot spot.
const MAX_ZONES: usize = 63;

impl Reading<'_> {
    /// Block sizes of reads, writes and trims, each size with its share.
    pub(super) fn blocks(&mut self) -> [Vec<(u64, f64)>; 3] {
        let one = |bytes: u64| vec![(bytes, 1.0)];
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
                        "`{text}` is two values: fio reads blocks of {reads} and writes blocks of {writes}; write bs={reads},{writes} for that, or bsrange={reads}-{writes} for a range of sizes"
                    ))
                }
                _ => count(text, kb_base).map(one),
            }
        });
        self.all_by_kind("bsrange", &mut all, |text| range_sizes(text, kb_base));
        self.all_by_kind("bssplit", &mut all, |text| split_sizes(text, kb_base));
        all
    }

    /// Largest power of two that divides all issued block sizes, at most 1 GiB.
    pub(super) fn natural_align(blocks: &[Vec<(u64, f64)>; 3], mix: &[(&str, f64)]) -> u64 {
        let issued = mix.iter().filter_map(|(kind, _)| KINDS.iter().position(|k| k == kind));
        let sizes = issued.flat_map(|at| &blocks[at]).map(|(bytes, _)| *bytes);
        1 << sizes.map(u64::trailing_zeros).min().unwrap_or(9).min(30)
    }

    /// The block size, if all issued blocks have the same.
    pub(super) fn one_of(mix: &[(&str, f64)], blocks: &[Vec<(u64, f64)>; 3]) -> Option<u64> {
        let issued = mix.iter().filter_map(|(kind, _)| KINDS.iter().position(|k| k == kind));
        let mut sizes = issued.flat_map(|at| &blocks[at]).map(|(bytes, _)| *bytes);
        let first = sizes.next();
        first.filter(|first| sizes.all(|bytes| bytes == *first))
    }

    /// Address patterns of reads, writes and trims, and whether they require a separate range for each clone.
    pub(super) fn addresses(
        &mut self,
        walk: &Walk,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        region: &Region,
    ) -> ([String; 3], bool) {
        let of_all = |(addresses, is_alone): (String, bool)| {
            ([addresses.clone(), addresses.clone(), addresses], is_alone)
        };
        let Some(percents) = self.jumps(walk, mix) else {
            return of_all(self.addresses_of(walk, mix, blocks, region, 100));
        };
        let mut is_any_alone = false;
        let by_kind = percents.map(|percent| {
            // Don't repeat the refusals and notes of one kind for the others.
            let (notes, traps, refused) = (self.notes.len(), self.traps.len(), self.refused.len());
            let (addresses, is_alone) = self.addresses_of(walk, mix, blocks, region, percent);
            is_any_alone |= is_alone;
            dedup_from(&mut self.notes, notes);
            dedup_from(&mut self.traps, traps);
            dedup_from(&mut self.refused, refused);
            addresses
        });
        (by_kind, is_any_alone)
    }

    /// Address pattern of one kind, and whether it requires a separate range for each clone. `percent`: percentage of
    /// random operations that jump.
    fn addresses_of(
        &mut self,
        walk: &Walk,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        region: &Region,
        percent: u64,
    ) -> (String, bool) {
        let distribution = match self.text("random_distribution") {
            Some((value, opt)) if value != "random" && walk.is_random() => Some((value, opt)),
            Some((value, opt)) if value != "random" => {
                self.note(opt, "no effect on sequential I/O");
                None
            }
            _ => None,
        };
        let is_distributed = distribution.is_some();
        let block = Self::one_of(mix, blocks);
        let spots = self.addresses_of_drawn(walk, region, percent, block, is_distributed);
        if let Some(spots) = spots {
            return (spots, false);
        }
        if let Some(streams) = self.files_in_turn(walk, mix, blocks, region) {
            return (streams, true);
        }
        match (walk, distribution) {
            (Walk::Sequential, _) if Self::one_of(mix, blocks).is_none() => {
                // fio redraws a size that does not fit before the end of the file, and each clone has its own end.
                let is_alone = region.each_bytes.is_some();
                ("{ pattern = \"sequential\", to_end = true }".to_owned(), is_alone)
            }
            (Walk::Sequential, _) => ("\"sequential\"".to_owned(), false),
            (Walk::Skips(run, skip), _) => {
                let skip = size_text(*skip);
                (format!("{{ pattern = \"sequential\", run = {run}, skip = \"{skip}\" }}"), true)
            }
            (Walk::Holes(_, skip), _) => {
                let skip = size_text(*skip);
                (format!("{{ pattern = \"sequential\", run = 1, skip = \"{skip}\" }}"), true)
            }
            (Walk::Zones(zone, open), _) => {
                let zone = size_text(*zone);
                (format!("{{ pattern = \"zones\", zone = \"{zone}\", open = {open} }}"), false)
            }
            (Walk::Backward(stride, start), _) => {
                let (stride, start) = (size_text(*stride), size_text(*start));
                let text = format!(
                    "{{ pattern = \"strided\", stride = \"{stride}\", start = \"{start}\", backward = true }}"
                );
                (text, true)
            }
            (Walk::Runs(run), None) => {
                (format!("{{ pattern = \"sequential\", run = {run} }}"), false)
            }
            (Walk::Random, _) if percent == 0 => ("\"sequential\"".to_owned(), false),
            (Walk::Random, None) if percent < 100 => {
                (format!("{{ pattern = \"sequential\", jump = \"{percent}%\" }}"), false)
            }
            (Walk::Random, None) => (self.uniform(mix, blocks), false),
            (Walk::Runs(_), Some((_, opt))) => {
                let help = "remove what follows the colon of rw";
                self.refuse(opt, "runs of blocks can't follow a distribution", help);
                (String::new(), false)
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
                (self.distributed(value, opt, region), true)
            }
        }
    }

    /// Notes or refuses the order of several files. Returns the pattern of sequential blocks of each file in turn; None
    /// if the files are used as one range.
    fn files_in_turn(
        &mut self,
        walk: &Walk,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        region: &Region,
    ) -> Option<String> {
        let opt = self.opt("filename").or(self.opt("nrfiles")).filter(|_| region.files > 1)?;
        let service = self.section.value("file_service_type").unwrap_or("roundrobin");
        let words = format!(
            "the job's {} files lie side by side on the target{}",
            region.files,
            if walk.is_random() {
                ", and addresses are drawn from all of them at once"
            } else {
                ""
            }
        );
        self.note(opt, words);
        let (service, turn) = service.split_once(':').unwrap_or((service, "1"));
        let is_one = Self::one_of(mix, blocks).is_some();
        match (walk, service, turn) {
            (Walk::Sequential, "roundrobin", "1") if !is_one => {
                let words = "files that are used in turn need a single block size";
                let help = "give one size in bs, or file_service_type=sequential";
                self.refuse(opt, words, help);
            }
            (Walk::Sequential, "roundrobin", "1") => {
                return Some(format!("{{ pattern = \"sequential\", streams = {} }}", region.files));
            }
            (Walk::Random | Walk::Runs(_), "roundrobin" | "random" | "sequential", _)
            | (Walk::Sequential, "sequential", _) => {}
            _ => {
                let opt = self.opt("file_service_type").unwrap_or(opt);
                let words = "this order of several files can't be honoured";
                let help = "use file_service_type=roundrobin or sequential with rw=read or rw=write, or one file";
                self.refuse(opt, words, help);
            }
        }
        None
    }

    /// `percentage_random`, by kind. None for sequential I/O, or if all issued operations jump.
    fn jumps(&mut self, walk: &Walk, mix: &[(&str, f64)]) -> Option<[u64; 3]> {
        let opt = self.opt("percentage_random")?;
        let mut all = [100; 3];
        self.all_by_kind("percentage_random", &mut all, |text| match text.parse() {
            Ok(percent) if percent <= 100 => Ok(percent),
            _ => Err(format!("`{text}` is not a percentage from 0 to 100")),
        });
        if !walk.is_random() {
            self.note(opt, "sequential I/O stays sequential");
            return None;
        }
        let is_issued = |at: usize| mix.iter().any(|(kind, _)| *kind == KINDS[at]);
        let issued: Vec<u64> = (0..3).filter(|at| is_issued(*at)).map(|at| all[at]).collect();
        if issued.iter().all(|percent| *percent == 100) {
            return None;
        }
        if matches!(walk, Walk::Runs(_)) {
            let help = "remove what follows the colon of rw, or percentage_random";
            self.refuse(opt, "percentage_random can't be combined with runs of blocks", help);
        }
        self.note(opt, "an operation that does not jump follows the previous one of its kind; jumps are independent draws, as with norandommap");
        // Kinds that are not issued get the percentage of the first issued one, so that one pattern may serve all.
        let first = issued.first().copied().unwrap_or(100);
        Some([0, 1, 2].map(|at| if is_issued(at) { all[at] } else { first }))
    }

    fn uniform(&mut self, mix: &[(&str, f64)], blocks: &[Vec<(u64, f64)>; 3]) -> String {
        let is_one = Self::one_of(mix, blocks).is_some();
        let is_own_align = self.opt("ba").is_some();
        // A shift register yields each block once per pass, even with `norandommap`.
        let is_once = is_one && self.section.value("random_generator") == Some("lfsr");
        if self.flag("norandommap") && !is_once {
            return "\"uniform\"".to_owned();
        }
        if is_one && !is_own_align {
            return "{ pattern = \"uniform\", once_per_pass = true }".to_owned();
        }
        let place = ["bssplit", "bsrange", "bs"].iter().find_map(|name| self.opt(name));
        let place = place.map_or(&self.section.place, |opt| &opt.place);
        if is_one {
            let words = "with blockalign, addresses are independent draws, as with norandommap";
            self.notes.push(Note::new(place.at(self.files), words));
        } else {
            let words = "with several block sizes, addresses are independent draws: without norandommap, fio cuts blocks that overlap others of the pass, and issues more and smaller ones";
            self.trap(place, words);
        }
        "\"uniform\"".to_owned()
    }

    /// Addresses of `random_distribution`.
    fn distributed(&mut self, value: &str, opt: &Opt, region: &Region) -> String {
        let (name, rest) = value.split_once(':').unwrap_or((value, ""));
        if rest.contains(',') {
            self.refuse(opt, "distributions by kind can't be honoured", "give one for all kinds");
            return String::new();
        }
        let (number, center) = rest.split_once(':').unwrap_or((rest, ""));
        let number = match (number, name) {
            ("", "zipf") => Some(1.1),
            ("", "pareto") => Some(0.2),
            ("", "normal") => Some(0.0),
            _ => number.parse::<f64>().ok().filter(|number| number.is_finite()),
        };
        let wrong = |reading: &mut Self| {
            let words = format!("`random_distribution={value}` can't be honoured");
            let help = "use random, zipf:1.1, pareto:0.2, normal:10, zoned:80/20:20/80 or zoned_abs:80/1g:20/9g";
            reading.refuse(opt, words, help);
            String::new()
        };
        if !center.is_empty() && matches!(name, "zipf" | "pareto" | "normal") {
            self.note(opt, "fio scatters the blocks, so the center has no effect");
        }
        match (name, number) {
            ("zipf", Some(theta)) => {
                self.note(opt, "the distribution is computed over the whole range; fio's over its first 10 million blocks");
                format!("{{ pattern = \"zipf\", theta = {theta:?} }}")
            }
            ("pareto", Some(h)) => {
                self.note(opt, "by fio's formula; iodyno scatters the blocks by a bijection, but fio's hash maps some of them to the same address");
                format!("{{ pattern = \"pareto\", h = {h:?} }}")
            }
            ("normal", Some(percent)) if (0.0..=100.0).contains(&percent) => {
                self.note(opt, "by fio's formula; iodyno scatters the blocks by a bijection, but fio's hash maps some of them to the same address");
                format!("{{ pattern = \"normal\", deviation = \"{percent}%\" }}")
            }
            ("zoned", _) => match zones(rest, None, self.kb_base) {
                Ok(zones) => zones,
                Err(why) => {
                    self.refuse(opt, why, "write it as zoned:60/10:30/20:10/70");
                    String::new()
                }
            },
            ("zoned_abs", _) => {
                let Some(bytes) = region.each_bytes else {
                    let words = "zones in bytes need the size of the whole range";
                    self.refuse(opt, words, "give size in bytes");
                    return String::new();
                };
                match zones(rest, Some(bytes), self.kb_base) {
                    Ok(zones) => zones,
                    Err(why) => {
                        self.refuse(opt, why, "write it as zoned_abs:60/10g:30/20g:10/70g");
                        String::new()
                    }
                }
            }
            _ => wrong(self),
        }
    }
}

/// Sizes of a `bsrange` with their shares, in steps of the smallest. fio rounds draws between both ends down to a
/// multiple of the smallest size; draws above the last multiple become the largest size.
fn range_sizes(text: &str, kb_base: u32) -> Result<Vec<(u64, f64)>, String> {
    let wrong = || format!("`{text}` is not a range of sizes: write 4k-64k");
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
    let share = |bytes: u64| (bytes / unit) as f64;
    let mut sizes: Vec<_> = (1..=whole).map(|n| (n * least, share(least))).collect();
    if rest > 0 {
        sizes.push((most, share(rest)));
    }
    Ok(sizes)
}

/// Sizes of `bssplit` for one kind. Sizes without a share divide the rest of 100 % equally. As in fio, shares count in
/// ascending order: the last one takes what is missing, and shares beyond 100 % are cut.
fn split_sizes(text: &str, kb_base: u32) -> Result<Vec<(u64, f64)>, String> {
    let mut sizes: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        if let Some((first, _)) = size.split_once('-').filter(|_| count(size, kb_base).is_err()) {
            return Err(format!(
                "`{size}` is a range, of which fio's bssplit uses only {first}: write {first}, or list the sizes"
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
            "the shares of `{text}` add up to {given}, which leaves nothing for sizes without a share: give every size a share"
        ));
    }
    // Whole percent, as in fio.
    let rest = ((100.0 - given) / open.max(1) as f64).floor();
    let mut shares: Vec<(u64, f64)> =
        sizes.into_iter().map(|(bytes, share)| (bytes, share.unwrap_or(rest))).collect();
    shares.retain(|(_, share)| *share > 0.0);
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|a, b| shares[*a].1.total_cmp(&shares[*b].1));
    let mut left = 100.0;
    for (number, at) in order.iter().enumerate() {
        let is_last = number + 1 == order.len();
        let share = &mut shares[*at].1;
        *share = if is_last { left } else { share.min(left) };
        left -= *share;
    }
    let mut merged: Vec<(u64, f64)> = Vec::new();
    for (bytes, share) in shares.into_iter().filter(|(_, share)| *share > 0.0) {
        match merged.iter_mut().find(|(other, _)| *other == bytes) {
            Some((_, all)) => *all += share,
            None => merged.push((bytes, share)),
        }
    }
    if merged.is_empty() {
        return Err(format!("`{text}` gives no size a share: write it as 4k/60:64k/40"));
    }
    Ok(merged)
}

/// Removes elements from index `from` on that occur earlier in the list.
fn dedup_from<T: PartialEq>(all: &mut Vec<T>, from: usize) {
    let new = all.split_off(from.min(all.len()));
    for one in new {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// Converts fio's zones `OPERATIONS/RANGE:…` to hot spots. Both are percentages; if `whole_bytes` gives the size of the
/// whole, ranges are in bytes. Zones without a number divide the rest equally; space outside all ranges is never used.
fn zones(text: &str, whole_bytes: Option<u64>, kb_base: u32) -> Result<String, String> {
    let wrong = |part: &str| {
        format!(
            "`{part}` is not a zone: write a percentage of the operations and the size of the range"
        )
    };
    let mut parts: Vec<(Option<f64>, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        if parts.len() == MAX_ZONES {
            return Err(format!("there are more than {MAX_ZONES} zones"));
        }
        let (of_operations, of_range) = part.split_once('/').unwrap_or((part, ""));
        let percent = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse::<u8>().map(|n| Some(f64::from(n))).map_err(|_| wrong(part)),
        };
        let range = match (whole_bytes, of_range.trim()) {
            (None, text) => percent(text)?,
            (Some(_), "") => None,
            (Some(whole), text) => {
                Some(count(text, kb_base).map_err(|_| wrong(part))? as f64 / whole as f64 * 100.0)
            }
        };
        parts.push((percent(of_operations)?, range));
    }
    let rest = |given: Vec<Option<f64>>, what: &str| {
        let sum: f64 = given.iter().flatten().sum();
        let open = given.iter().filter(|share| share.is_none()).count();
        if sum > 100.0 + 1e-9 {
            return Err(format!("the zones have {sum} % of the {what}, more than 100 %"));
        }
        Ok(((100.0 - sum).max(0.0), (100.0 - sum).max(0.0) / open.max(1) as f64, open))
    };
    let (missing, share, open) =
        rest(parts.iter().map(|(share, _)| *share).collect(), "operations")?;
    if open == 0 && missing > 0.0 {
        return Err(format!("the zones have {} % of the operations, not 100 %", 100.0 - missing));
    }
    let (unused, range, open) = rest(parts.iter().map(|(_, range)| *range).collect(), "range")?;
    // Ranges in parts of 10⁹, as workloads store them; they must add up to the whole.
    let ppb = |percent: f64| (percent * 1e7).round() as u64;
    let mut spots: Vec<(f64, u64)> = parts
        .iter()
        .map(|(own, size)| (own.unwrap_or(share), ppb(size.unwrap_or(range))))
        .filter(|(_, size)| *size > 0)
        .collect();
    if open == 0 && unused > 1e-6 {
        spots.push((0.0, ppb(unused)));
    }
    let sum: u64 = spots.iter().map(|(_, size)| size).sum();
    if let Some((_, last)) = spots.last_mut() {
        *last = (*last + 1_000_000_000).saturating_sub(sum);
    }
    let one = |(share, size): &(f64, u64)| {
        let digits = format!("{}.{:07}", size / 10_000_000, size % 10_000_000);
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{{ share = {share}, range = \"{digits}%\" }}")
    };
    let spots: Vec<String> = spots.iter().map(one).collect();
    Ok(format!("{{ pattern = \"hot-spots\", spots = [{}] }}", spots.join(", ")))
}

/// Formats block sizes in the syntax of workload files.
pub(super) fn sizes(blocks: &[(u64, f64)]) -> String {
    if let [(bytes, _)] = blocks {
        format!("\"{}\"", size_text(*bytes))
    } else {
        let one = |(bytes, share): &(u64, f64)| {
            format!("{{ size = \"{}\", share = {share} }}", size_text(*bytes))
        };
        format!("[{}]", blocks.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}
