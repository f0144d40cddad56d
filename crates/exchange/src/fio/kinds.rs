//! Converts the operation mix of a job (`rw`, `rwmixread`) and its address order (`zonemode`, or a hole after each
//! block as in `rw=write:8k`).

use super::layout::Part;
use super::lines::Opt;
use super::mix::{Backward, Blocks, Extent, Issued, KINDS, Mix, Region, Walk, common_align};
use super::number::count;
use super::reading::Reading;
use iodyno_units::OpKind;

impl Reading<'_> {
    /// Mix of operations, and order of their addresses; None if an option was refused.
    pub(super) fn kinds(&mut self, blocks: &Blocks) -> Option<(Mix, Walk)> {
        let (value, opt) = match self.opt("rw") {
            None => ("read", None),
            Some(_) => self.text("rw").map(|(value, opt)| (value, Some(opt)))?,
        };
        let (word, run) = value.split_once(':').map_or((value, None), |(w, run)| (w, Some(run)));
        let is_random = word.starts_with("rand");
        let shares = match word {
            "read" | "randread" => vec![(OpKind::Read, 1.0)],
            "write" | "randwrite" => vec![(OpKind::Write, 1.0)],
            "trim" | "randtrim" => vec![(OpKind::Trim, 1.0)],
            "rw" | "readwrite" | "randrw" => {
                let reads = self.read_share();
                vec![(OpKind::Read, reads), (OpKind::Write, 100.0 - reads)]
            }
            _ => {
                let (words, help) = if matches!(word, "trimwrite" | "randtrimwrite") {
                    let random = if is_random { "rand" } else { "" };
                    (
                        ": in fio each block is trimmed, and then written, but in iodyno trims and writes have separate addresses",
                        format!(
                            "use a job with rw={random}trim, followed by one with rw={random}write and stonewall"
                        ),
                    )
                } else {
                    (
                        "",
                        "use read, write, randread, randwrite, rw, randrw, trim or randtrim"
                            .to_owned(),
                    )
                };
                self.refuse(opt?, format!("`rw={value}` can't be honoured{words}"), help);
                return None;
            }
        };
        let issued = |(kind, share)| {
            let sizes = KINDS.into_iter().zip(blocks).find(|(of, _)| *of == kind);
            Issued { kind, share, sizes: sizes.map_or_else(Vec::new, |(_, sizes)| sizes.clone()) }
        };
        let mix = Mix(shares.into_iter().map(issued).collect());
        self.check_zone_mode();
        if let Some(("zbd", opt)) = self.text("zonemode") {
            let walk = self.open_zones(&mix, is_random, run.is_none(), opt)?;
            return Some((mix, walk));
        }
        let has_hole = run.is_some_and(|run| run.trim_start_matches('-') != "0");
        self.check_strided(&mix, is_random, has_hole);
        let walk = match (is_random, run, opt) {
            (true, None, _) => Walk::Random,
            (false, None | Some("0"), _) => self.zones(&mix)?,
            (true, Some(run), Some(opt)) => match run.parse::<u64>() {
                Ok(0 | 1) => Walk::Random,
                Ok(run) => Walk::Runs(run),
                Err(_) => {
                    self.refuse(opt, format!("`:{run}` is not a number of I/Os"), "");
                    return None;
                }
            },
            (false, Some(hole), Some(opt)) => self.holes(hole, &mix, opt)?,
            (_, Some(_), None) => return None,
        };
        if let (Some(("identical", opt)), true) = (self.text("rw_sequencer"), run.is_some()) {
            self.refuse(
                opt,
                "repeated I/O to the same address is not supported",
                "remove the line",
            );
        }
        Some((mix, walk))
    }

    /// Refuses a `zonesize` without a mode, and `zonemode=strided` without a `zonesize`, as fio 3.33 does.
    fn check_zone_mode(&mut self) {
        let has_size = self.flag("zonesize");
        match (self.text("zonemode"), self.opt("zonesize")) {
            (None | Some(("none", _)), Some(opt)) if has_size => {
                let words = "`zonesize` requires a `zonemode`: fio 3.33 refuses it without one";
                self.refuse(opt, words, "add zonemode=strided, or remove zonesize");
            }
            (Some(("strided", opt)), _) if !has_size => {
                self.refuse(opt, "`zonemode=strided` requires `zonesize`", "give zonesize");
            }
            (Some((value, opt)), _) if !matches!(value, "none" | "strided" | "zbd") => {
                let words = format!("`zonemode={value}` is not known");
                self.refuse(opt, words, "use none, strided or zbd");
            }
            _ => {}
        }
    }

    /// Converts `zonemode=zbd`. fio then writes zones from their start, and emulates the zones on a device that has
    /// none. `is_plain`: `rw` has no number after a colon. None if the option is refused.
    fn open_zones(
        &mut self,
        mix: &Mix,
        is_random: bool,
        is_plain: bool,
        opt: &Opt,
    ) -> Option<Walk> {
        let is_write = mix.is_only(OpKind::Write);
        let zone = self.count("zonesize").unwrap_or(0);
        let fits = mix.sizes().all(|bytes| zone.is_multiple_of(bytes.max(1)));
        if !is_random && is_plain && is_write && fits && self.count("numjobs").unwrap_or(1) <= 1 {
            self.note(opt, "sequential writes pass through the emulated zones in order, as through any range; a full zone is written again without a reset");
            return Some(Walk::Sequential);
        }
        if !(is_random && is_plain && is_write) {
            let words = "`zonemode=zbd` can't be honoured here: iodyno does not support zoned devices, and emulates zones for writes only";
            self.refuse(opt, words, "remove the line, and use a device without zones");
            return None;
        }
        let (zone, open) = (self.count("zonesize"), self.count("max_open_zones"));
        let (Some(zone), Some(open)) = (zone.filter(|n| *n > 0), open.filter(|n| *n > 0)) else {
            let words =
                "`zonemode=zbd` needs the size of the emulated zones and the number of open ones";
            self.refuse(opt, words, "give zonesize and max_open_zones");
            return None;
        };
        self.note(opt, "zones are emulated, as in fio on a device without zones: a full zone is written again without a reset; the clones divide the zones among themselves");
        Some(Walk::Zones(zone, open))
    }

    /// The single block size of all issued kinds. Refuses several sizes, and a size of 0.
    pub(super) fn one_size(&mut self, mix: &Mix, opt: &Opt) -> Option<u64> {
        if mix.sizes().next() == Some(0) {
            self.refuse(opt, "addresses at a fixed distance need a block size above 0", "");
            return None;
        }
        let one = mix.one_size();
        if one.is_none() {
            let words = "addresses at a fixed distance need a single block size";
            self.refuse(opt, words, "give one size in bs");
        }
        one
    }

    /// Order of addresses for a number after the colon of `rw`, as in `rw=write:8k`: a hole of this size follows
    /// each block; if negative, addresses descend from the end.
    fn holes(&mut self, hole: &str, mix: &Mix, opt: &Opt) -> Option<Walk> {
        let block = self.one_size(mix, opt)?;
        let (is_negative, digits) =
            hole.strip_prefix('-').map_or((false, hole), |rest| (true, rest));
        let bytes = match count(digits, self.kb_base) {
            Ok(bytes) if bytes < 1 << 50 => bytes,
            Ok(_) => {
                self.refuse(opt, format!("`:{hole}` is too large"), "");
                return None;
            }
            Err(why) => {
                self.refuse(opt, why, "");
                return None;
            }
        };
        match (is_negative, bytes) {
            (_, 0) => Some(Walk::Sequential),
            (false, bytes) => Some(Walk::Holes(block, bytes)),
            (true, bytes) if bytes > block => {
                let stride = bytes - block;
                Some(Walk::Backward(Backward { stride, start: stride, lap: None }))
            }
            (true, _) => {
                let words = "blocks that overlap the previous one are not supported";
                let help = format!(
                    "go back by more than a block, such as `:-{}`",
                    block.saturating_mul(2)
                );
                self.refuse(opt, words, help);
                None
            }
        }
    }

    /// Determines the part of the range in which all laps of a backward walk have the same addresses, as in fio: from
    /// `size` minus the hole down by the stride to the last address at or above 0.
    pub(super) fn with_laps(
        &mut self,
        walk: Walk,
        mix: &Mix,
        region: &Region,
        part: &Part,
    ) -> Walk {
        let (Walk::Backward(back), Some(opt)) = (&walk, self.opt("rw")) else { return walk };
        let stride = back.stride;
        let block = mix.one_size().unwrap_or(1);
        let (Some(size), Extent::Bytes(offset), None) =
            (region.each_bytes, self.offset(), self.opt("ba"))
        else {
            self.note(opt, "each pass begins further down than the one before; in fio each begins at the same address");
            return walk;
        };
        let Some(last) = size.checked_sub(stride.saturating_add(block)) else {
            self.refuse(
                opt,
                "the hole is larger than `size`",
                "give a smaller hole in rw, or a larger size",
            );
            return walk;
        };
        let first = last % stride;
        let from = if let Part::From(bytes) = part { *bytes } else { 0 };
        let start = offset.saturating_add(from).saturating_add(first);
        let align = common_align(mix.natural_align(), &[stride, start, size, region.step]);
        // The number of aligned addresses in the range is a multiple of the stride, so laps repeat.
        Walk::Backward(Backward {
            stride,
            start: last - first + stride - align,
            lap: Some((first, size - first - align)),
        })
    }

    /// Percentage of reads. Of the options `rwmixread` and `rwmixwrite`, the later one counts.
    fn read_share(&mut self) -> f64 {
        let (read, write) = (self.find("rwmixread"), self.find("rwmixwrite"));
        let name = match (read, write) {
            (Some((r, _)), Some((w, _))) if w > r => "rwmixwrite",
            (None, Some(_)) => "rwmixwrite",
            (Some(_), _) => "rwmixread",
            (None, None) => return 50.0,
        };
        let share = self.count(name).unwrap_or(50);
        if share > 100 {
            if let Some(opt) = self.opt(name) {
                self.refuse(opt, format!("`{name}` must be a percentage from 0 to 100"), "");
            }
            return 50.0;
        }
        let share = share as f64;
        if name == "rwmixread" { share } else { 100.0 - share }
    }
}
