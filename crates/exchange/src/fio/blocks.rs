//! Block sizes and addresses of a job.

use super::Note;
use super::number::{count, size_text};
use super::reading::{KINDS, Reading, Walk};

/// Block sizes of a range that become a list.
const MAX_SIZES: u64 = 64;

impl Reading<'_> {
    /// The sizes of reads, writes and trims, each with its share.
    pub(super) fn blocks(&mut self) -> [Vec<(u64, f64)>; 3] {
        let one = |bytes: u64| vec![(bytes, 1.0)];
        let mut all = [one(4096), one(4096), one(4096)];
        if let Some((value, opt)) = self.text("bs") {
            self.trap_of_suffix(value, opt);
            let kb_base = self.kb_base;
            self.by_kind(value, opt, &mut all, |text| count(text, kb_base).map(one));
        }
        if let Some((value, opt)) = self.text("bsrange") {
            let kb_base = self.kb_base;
            self.by_kind(value, opt, &mut all, |text| range_sizes(text, kb_base));
        }
        if let Some((value, opt)) = self.text("bssplit") {
            let kb_base = self.kb_base;
            self.by_kind(value, opt, &mut all, |text| split_sizes(text, kb_base));
        }
        if let (Some(align), Some(opt)) = (self.count("ba"), self.opt("ba")) {
            let sizes = || all.iter().flatten().map(|(bytes, _)| *bytes);
            if sizes().any(|bytes| bytes != align) {
                let words = "addresses are multiples of the largest power of two that divides the block sizes";
                self.refuse(opt, words, "remove the line, or use `align` in a workload file");
            }
        }
        all
    }

    pub(super) fn addresses(
        &mut self,
        walk: &Walk,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
    ) -> String {
        if let (Some(percent), Some(opt)) =
            (self.count("percentage_random"), self.opt("percentage_random"))
            && percent != 100
            && !matches!(walk, Walk::Sequential)
        {
            let help = "use a workload file with two patterns in `addresses`";
            self.refuse(opt, "a part of random I/O that is sequential can't be honoured", help);
        }
        let distribution = match self.text("random_distribution") {
            Some((value, opt)) if value != "random" => Some((value, opt)),
            _ => None,
        };
        match (walk, distribution) {
            (Walk::Sequential, _) => "\"sequential\"".to_owned(),
            (Walk::Runs(run), None) => format!("{{ pattern = \"sequential\", run = {run} }}"),
            (Walk::Random, None) => {
                let issued = mix.iter().map(|(kind, _)| KINDS.iter().position(|k| k == kind));
                let mut sizes = issued.flatten().flat_map(|at| &blocks[at]).map(|(bytes, _)| bytes);
                let first = sizes.next();
                let is_one = sizes.all(|bytes| Some(bytes) == first);
                if self.flag("norandommap") {
                    return "\"uniform\"".to_owned();
                }
                if is_one {
                    return "{ pattern = \"uniform\", once_per_pass = true }".to_owned();
                }
                self.notes.push(Note {
                    at: self.section.place.at(self.files),
                    words: "with several block sizes addresses are independent draws, as with norandommap".to_owned(),
                });
                "\"uniform\"".to_owned()
            }
            (walk, Some((value, opt))) => {
                let (name, rest) = value.split_once(':').unwrap_or((value, ""));
                if matches!(walk, Walk::Runs(_)) {
                    let help = "remove what follows the colon of rw";
                    self.refuse(opt, "runs of blocks can't be distributed otherwise", help);
                }
                match (name, rest.parse::<f64>()) {
                    ("zipf", Ok(theta)) if theta.is_finite() => {
                        if self.opt("filename").is_none() && self.count("numjobs").unwrap_or(1) > 1
                        {
                            let words = "each clone would have a file, and hot blocks, of its own";
                            self.refuse(opt, words, "give filename, so that the clones share one");
                        }
                        self.note(opt, "the law is exact over the whole range; fio's is over its first 10 million blocks");
                        format!("{{ pattern = \"zipf\", theta = {theta:?} }}")
                    }
                    ("zoned", _) => match zones(rest) {
                        Ok(zones) => zones,
                        Err(why) => {
                            self.refuse(opt, why, "write it as zoned:60/10:30/20:10/70");
                            String::new()
                        }
                    },
                    _ => {
                        let words = format!("`random_distribution={value}` can't be honoured");
                        self.refuse(opt, words, "use random, zipf:1.1 or zoned:80/20:20/80");
                        "\"uniform\"".to_owned()
                    }
                }
            }
        }
    }
}

/// The sizes from one to another, in steps of the first, as fio draws them.
fn range_sizes(text: &str, kb_base: u32) -> Result<Vec<(u64, f64)>, String> {
    let wrong = || format!("`{text}` is no range of sizes: write 4k-64k");
    let (least, most) = text.split_once('-').or(text.split_once(':')).ok_or_else(wrong)?;
    let (least, most) = (count(least, kb_base)?, count(most, kb_base)?);
    if least == 0 || most < least {
        return Err(wrong());
    }
    if most / least > MAX_SIZES {
        return Err(format!("`{text}` has more than {MAX_SIZES} sizes: use bssplit"));
    }
    Ok((1..=most / least).map(|n| (n * least, 1.0)).collect())
}

/// The sizes of `bssplit` for one kind: sizes without a share take equal parts of what is left of 100 %.
fn split_sizes(text: &str, kb_base: u32) -> Result<Vec<(u64, f64)>, String> {
    let mut sizes: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
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
    if given > 100.0 || open == 0 && given < 100.0 {
        return Err(format!("the shares of `{text}` add up to {given}, not 100"));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    let shares = sizes.into_iter().map(|(bytes, share)| (bytes, share.unwrap_or(rest)));
    let mut merged: Vec<(u64, f64)> = Vec::new();
    for (bytes, share) in shares.filter(|(_, share)| *share > 0.0) {
        match merged.iter_mut().find(|(other, _)| *other == bytes) {
            Some((_, all)) => *all += share,
            None => merged.push((bytes, share)),
        }
    }
    Ok(merged)
}

/// fio's zones, `OPERATIONS/RANGE:…` in percent, as hot spots.
fn zones(text: &str) -> Result<String, String> {
    let mut spots = Vec::new();
    let (mut operations, mut range) = (0, 0);
    for part in text.split(':') {
        let wrong =
            || format!("`{part}` is no zone: two percentages, of the operations and the range");
        let (of_operations, of_range) = part.split_once('/').ok_or_else(wrong)?;
        let share: u32 = of_operations.trim().parse::<u8>().map_err(|_| wrong())?.into();
        let size: u32 = of_range.trim().parse::<u8>().map_err(|_| wrong())?.into();
        operations += share;
        range += size;
        spots.push(format!("{{ share = {share}, range = \"{size}%\" }}"));
    }
    if operations != 100 || range != 100 {
        return Err(format!(
            "the zones have {operations} % of the operations and {range} % of the range, not 100 % of both"
        ));
    }
    Ok(format!("{{ pattern = \"hot-spots\", spots = [{}] }}", spots.join(", ")))
}

/// Block sizes as a workload file has them.
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
