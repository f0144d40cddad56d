//! Determines the part of a target that a job uses: its files with their sizes, the ranges of its clones (`numjobs`),
//! and the alignment of addresses.

use super::layout::{self, Part};
use super::lines::Opt;
use super::mix::{Backward, Blocks, Extent, Plan, Region, Walk, common_align, smallest};
use super::number::count;
use super::reading::Reading;
use super::{Note, Refusal};
use iodyno_workload::{ActiveRange, Draft, Edge, Percent, size_text};

impl Extent {
    fn edge(self) -> Edge {
        match self {
            Self::Bytes(bytes) => Edge::Bytes(bytes),
            Self::Percent(percent) => share(percent as f64 / 100.0),
        }
    }
}

/// Converts a fraction of the target to an edge of the active range, at most 100 %.
fn share(fraction: f64) -> Edge {
    Edge::Share(Percent::from_fraction(fraction))
}

/// Division of the target among the clones of a job.
struct Clones {
    /// Number of adjacent parts that the clones use together as one range.
    parts: u64,
    /// Distance between the parts of consecutive clones, bytes; None if the clones use one range together.
    worker_step: Option<u64>,
}

impl<'a> Reading<'a> {
    pub(super) fn extent_of(&mut self, name: &str) -> Option<Extent> {
        let (value, opt) = self.text(name)?;
        if let Some(percent) = value.strip_suffix('%') {
            return match percent.trim().parse() {
                Ok(percent) if percent <= 100 => Some(Extent::Percent(percent)),
                _ => {
                    self.refuse(opt, format!("`{value}` is not a percentage from 0 to 100"), "");
                    None
                }
            };
        }
        self.count(name).map(Extent::Bytes)
    }

    /// Reads the option `offset`. A percentage is converted to bytes if an earlier job or `filesize` defines the size
    /// of the file.
    pub(super) fn offset(&mut self) -> Extent {
        let offset = self.extent_of("offset").unwrap_or(Extent::Bytes(0));
        let Extent::Percent(percent @ 1..) = offset else { return offset };
        let Some(file) = self.file_bytes.or_else(|| self.fixed_file_size()) else { return offset };
        let least = smallest(&self.blocks());
        let align = self.count("offset_align").filter(|align| *align > 0).unwrap_or(least);
        let bytes = (u128::from(file) * u128::from(percent) / 100) as u64;
        Extent::Bytes(bytes.checked_next_multiple_of(align.max(1)).unwrap_or(bytes))
    }

    /// Size of each of the job's files according to `filesize`, bytes; None if it is missing, 0 or a range.
    fn fixed_file_size(&mut self) -> Option<u64> {
        // A device has a size of its own.
        let is_file = !layout::is_device(self.section);
        let ([least, most], _) = self.file_size_range().filter(|_| is_file)?;
        Some(least).filter(|bytes| *bytes > 0 && *bytes == most)
    }

    /// Limits `size` to the end of the job's files. Their total size is `filesize`; if that is None, an earlier job may
    /// define it. Each of the `files` begins at `offset`.
    fn within_file(
        &mut self,
        size: Option<Extent>,
        filesize: Option<u64>,
        files: u64,
    ) -> Option<Extent> {
        if matches!((size, filesize), (Some(Extent::Bytes(_)), None)) {
            // fio extends the file if necessary.
            return size;
        }
        let (Some(file), Extent::Bytes(offset)) = (filesize.or(self.file_bytes), self.offset())
        else {
            return size;
        };
        let skipped = if filesize.is_some() { offset.saturating_mul(files) } else { offset };
        let left = file.saturating_sub(skipped);
        if left == 0 {
            if let Some(opt) = self.opt("offset") {
                let words = format!("`offset` is beyond the end of the file, {}", size_text(file));
                self.refuse(opt, words, "give a smaller offset, or a larger file");
            }
            return size;
        }
        match (size, filesize) {
            (None, _) | (Some(Extent::Bytes(_)), Some(_)) => Some(Extent::Bytes(left)),
            (Some(Extent::Percent(percent)), _) => {
                let bytes = (u128::from(file) * u128::from(percent) / 100) as u64;
                let bytes = bytes.min(left);
                Some(Extent::Bytes(bytes - bytes % smallest(&self.blocks())))
            }
            (size, None) => size,
        }
    }

    /// Total size of the job's files according to `filesize`, bytes; None if it is missing, 0 or refused. If
    /// `filesize` is a range, stores the sizes that fio would draw in `drawn`.
    fn file_size(&mut self, files: u64, blocks: &Blocks, drawn: &mut Vec<u64>) -> Option<u64> {
        let ([least, most], opt) = self.file_size_range()?;
        let bytes = if least == most {
            least.saturating_mul(files)
        } else {
            *drawn = self.drawn_sizes([least, most], opt, files, blocks);
            drawn.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes))
        };
        Some(bytes).filter(|bytes| *bytes > 0)
    }

    /// Determines the job's files and the ranges of its clones from its options.
    pub(super) fn region(&mut self, threads: u64, blocks: &Blocks) -> Region {
        let names = self.section.value("filename").map(layout::file_names);
        let listed = names.as_ref().map_or(1, Vec::len) as u64;
        let nrfiles = match names {
            None => self.count("nrfiles").unwrap_or(1).max(1),
            Some(_) => listed,
        };
        let mut drawn = Vec::new();
        let filesize = self.file_size(nrfiles, blocks, &mut drawn);
        let size = self.extent_of("size").filter(|size| *size != Extent::Bytes(0));
        // `fill_device` has no effect on a job with a size, in fio too.
        let whole = self.flag("fill_device") && size.is_none();
        let size = self.within_file(size, filesize, nrfiles);
        let size = if whole { None } else { size };
        let size = match (size, blocks) {
            // The rest of a file after its last whole block is not used.
            (Some(Extent::Bytes(bytes)), [reads, writes, trims])
                if nrfiles > 1 && drawn.is_empty() && reads == writes && reads == trims =>
            {
                let of_all = reads[0].bytes.saturating_mul(nrfiles);
                let is_held = reads.len() == 1 && (1..=bytes).contains(&of_all);
                Some(Extent::Bytes(if is_held { bytes - bytes % of_all } else { bytes }))
            }
            (size, _) => size,
        };
        let size = match size {
            Some(Extent::Bytes(bytes)) if self.begins_another_block() => {
                let block = blocks[0][0].bytes.max(1);
                Some(Extent::Bytes(bytes.checked_next_multiple_of(block).unwrap_or(bytes)))
            }
            size => size,
        };
        let is_shared = layout::files_of(self.section).is_some();
        let each_bytes = match size {
            Some(Extent::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let step = match (self.extent_of("offset_increment"), each_bytes) {
            (Some(Extent::Bytes(step)), _) => step,
            // fio begins a clone at a whole block.
            (Some(Extent::Percent(percent)), Some(bytes)) => {
                let step = (u128::from(bytes) * u128::from(percent)).div_ceil(100) as u64;
                step.checked_next_multiple_of(4096).unwrap_or(u64::MAX)
            }
            (Some(Extent::Percent(_)), None) => {
                if let Some(opt) = self.opt("offset_increment") {
                    let words = "a percentage needs files of known size";
                    self.refuse(
                        opt,
                        words,
                        "give offset_increment in bytes, or give size in bytes",
                    );
                }
                0
            }
            (None, _) => 0,
        };
        Region { size, each_bytes, is_shared, threads, files: nrfiles, drawn, step }
    }

    /// Whether the last block of a sequential pass may extend beyond `size`. fio issues each block that begins before
    /// `size`, if the device or file continues after `size`. If the file ends at `size`, fio issues only whole blocks.
    pub(super) fn begins_another_block(&self) -> bool {
        self.is_longer_than_size()
            && self.section.value("filename").is_none_or(|name| !name.contains(':'))
            && matches!(
                self.section.value("rw"),
                None | Some("read" | "write" | "trim" | "rw" | "readwrite")
            )
            && !["bssplit", "bsrange", "ba", "filesize"].iter().any(|name| self.opt(name).is_some())
            && self.section.value("bs").is_none_or(|bs| !bs.contains(','))
    }

    /// Whether the job's file is known to be longer than `size`: a device, or a longer file of an earlier job.
    pub(super) fn is_longer_than_size(&self) -> bool {
        let size = self.section.value("size").and_then(|size| count(size, self.kb_base).ok());
        let offset = self.section.value("offset").map_or(Ok(0), |text| count(text, self.kb_base));
        let end = size.zip(offset.ok()).map(|(size, offset)| size.saturating_add(offset));
        layout::is_device(self.section)
            || end.is_some_and(|end| self.file_bytes.is_some_and(|file| file > end))
    }

    /// Number of bytes that the job needs, from the start of its file; None if unknown.
    pub(super) fn space(&mut self) -> Option<u64> {
        let threads = self.clones();
        let blocks = self.blocks();
        let region = self.region(threads, &blocks);
        let Extent::Bytes(offset) = self.offset() else { return None };
        let each = region.each_bytes?;
        let more = if region.is_shared { region.step } else { each };
        Some(each.saturating_add(offset).saturating_add(more.saturating_mul(threads - 1)))
    }

    /// Sets the active range, the distance between workers' ranges, and the alignments.
    pub(super) fn extent(
        &mut self,
        plan: &Plan,
        part: &Part,
        is_alone: bool,
        workload: &mut Draft,
    ) {
        let size = match plan.walk {
            Walk::Skips(..) => self.extent_of_zones(plan, part),
            _ => self.with_last_hole(plan.region.size, &plan.walk),
        };
        let clones = self.parts_of_clones(plan, is_alone);
        self.trap_of_size(&plan.region, &clones);
        let active = match part {
            Part::Share(number, count) => self.share_of_target(*number, *count, size),
            Part::Whole => Some(self.active(0, clones.parts, size)),
            Part::From(bytes) => Some(self.active(*bytes, clones.parts, size)),
        };
        let Some(mut active) = active else { return };
        if let (Walk::Backward(Backward { lap: Some((from, bytes)), .. }), Edge::Bytes(start)) =
            (&plan.walk, active.start)
        {
            let start = start.saturating_add(*from);
            let end = start.saturating_add(*bytes);
            active = ActiveRange::between(Edge::Bytes(start), Edge::Bytes(end));
        }
        self.remark_on_offset();
        workload.active(active);
        workload.worker_step(clones.worker_step);
        let mut steps = vec![clones.worker_step.unwrap_or(0)];
        match plan.walk {
            Walk::Skips(_, skip) | Walk::Holes(_, skip) => steps.push(skip),
            Walk::Backward(back) => steps.extend([back.stride, back.start]),
            _ => {}
        }
        if let Edge::Bytes(start) = active.start {
            steps.push(start);
        }
        self.aligns(plan, &steps, workload);
    }

    /// Notes which size a percentage in `offset` refers to. Refuses `offset_align` if that size is unknown.
    fn remark_on_offset(&mut self) {
        let (Some(Extent::Percent(1..)), Some(opt)) =
            (self.extent_of("offset"), self.opt("offset"))
        else {
            return;
        };
        let of = match self.offset() {
            Extent::Bytes(_) if self.file_bytes.is_some() => return,
            Extent::Bytes(_) => "`filesize`",
            Extent::Percent(_) => "the target",
        };
        if of == "the target" && self.flag("offset_align") {
            let help = "give offset in bytes, or remove offset_align";
            let words = "`offset_align` can't be honoured: the size of the target is not known yet, so iodyno always rounds a percentage up to a whole block";
            self.refuse(opt, words, help);
        }
        self.note(opt, format_args!("a percentage of {of}; fio uses the size that the file has before the job, which is 0 if the file does not exist yet"));
    }

    fn parts_of_clones(&mut self, plan: &Plan, is_alone: bool) -> Clones {
        let Plan { walk, region, .. } = plan;
        let Region { is_shared, each_bytes, threads, step, .. } = *region;
        let (mut parts, mut worker_step) = (1, None);
        if threads == 1 {
            return Clones { parts, worker_step };
        }
        let is_side_by_side = !is_shared || step > 0 && each_bytes == Some(step);
        match each_bytes.filter(|_| is_side_by_side) {
            Some(bytes) if is_alone => worker_step = Some(bytes),
            Some(_) => parts = threads,
            None if is_shared && step > 0 => {
                worker_step = Some(step);
                if each_bytes.is_none()
                    && let Some(opt) = self.opt("offset_increment")
                {
                    self.note(opt, "the last clone's part ends at the end of the target; the parts of all other clones have the same length");
                }
            }
            None if is_shared => {
                let is_walk = !walk.is_random() && !matches!(walk, Walk::Zones(..))
                    || self.flag("percentage_random");
                worker_step = (is_walk || is_alone && region.files > 1).then_some(0);
            }
            None if is_alone => {
                let place = self.opt("numjobs").map_or(&self.section.place, |opt| &opt.place);
                let words = "each clone would have a file of its own, whose size is not known";
                let help = "give size in bytes, or a filename that the clones share";
                self.refused.push(Refusal::new(place.clone(), words, help));
            }
            None => {}
        }
        Clones { parts, worker_step }
    }

    /// Warns that `size` applies to each clone, so that the job uses a multiple of it.
    fn trap_of_size(&mut self, region: &Region, clones: &Clones) {
        let opt = self.opt("size").or(self.opt("filesize"));
        let (Some(each), Some(opt)) = (region.each_bytes, opt) else { return };
        if clones.parts > 1 || clones.worker_step == Some(each) {
            let words = format!(
                "size applies to each clone: {} in all for numjobs={}",
                size_text(each.saturating_mul(region.threads)),
                region.threads
            );
            self.trap(&opt.place, words);
        }
    }

    /// Active range of a job whose file is part `number` (from 0) of `count` equal parts of the target; None if it is
    /// refused.
    fn share_of_target(
        &mut self,
        number: u64,
        count: u64,
        size: Option<Extent>,
    ) -> Option<ActiveRange> {
        let (start, size) = match (self.offset(), size) {
            (Extent::Percent(start) | Extent::Bytes(start @ 0), None) => (start, 100),
            (Extent::Percent(start) | Extent::Bytes(start @ 0), Some(Extent::Percent(size))) => {
                (start, size)
            }
            _ => {
                if let Some(opt) = self.opt("offset").or(self.opt("size")) {
                    let words = "jobs run at the same time on files of unknown size, so an offset or size in bytes can't be honoured";
                    self.refuse(opt, words, "give size in bytes to all jobs of the group");
                }
                return None;
            }
        };
        let place = self.opt("filename").map_or(&self.section.place, |opt| &opt.place);
        let words =
            format!("the job's file is part {} of {count} equal parts of the target", number + 1);
        self.notes.push(Note::new(place.at(self.files), words));
        let at = |percent: u64| share((number as f64 + percent as f64 / 100.0) / count as f64);
        Some(ActiveRange::between(at(start), at((start + size).min(100))))
    }

    /// Active range of a job whose file begins at byte `from` of the target and consists of `parts` adjacent
    /// parts.
    fn active(&mut self, from: u64, parts: u64, size: Option<Extent>) -> ActiveRange {
        match (self.offset(), size) {
            (Extent::Bytes(offset), Some(Extent::Bytes(size))) => {
                if from > 0 {
                    let at = self.section.place.at(self.files);
                    let words = format!(
                        "the job's file begins at offset {} of the target",
                        size_text(from)
                    );
                    self.notes.push(Note::new(at, words));
                }
                let start = offset.saturating_add(from);
                let end = start.saturating_add(size.saturating_mul(parts));
                ActiveRange::between(Edge::Bytes(start), Edge::Bytes(end))
            }
            (Extent::Percent(start) | Extent::Bytes(start @ 0), Some(Extent::Percent(size))) => {
                let end = Extent::Percent((start + size).min(100));
                ActiveRange::between(Extent::Percent(start).edge(), end.edge())
            }
            // The target is the file itself: several jobs on files without sizes were refused above.
            (offset @ Extent::Percent(_), Some(Extent::Bytes(size))) => {
                let end = Edge::Bytes(size.saturating_mul(parts));
                ActiveRange { start: offset.edge(), end, is_length: true }
            }
            // fio stops at the end of the file if the size reaches beyond it.
            (offset, Some(size @ Extent::Percent(..100))) => {
                ActiveRange { start: offset.edge(), end: size.edge(), is_length: true }
            }
            (offset, _) => ActiveRange::between(offset.edge(), share(1.0)),
        }
    }

    /// Extends the range if each block is followed by a hole and the last block begins before `size` but ends
    /// after it.
    fn with_last_hole(&self, size: Option<Extent>, walk: &Walk) -> Option<Extent> {
        let (Some(Extent::Bytes(bytes)), Walk::Holes(block, hole)) = (size, walk) else {
            return size;
        };
        let step = block.saturating_add(*hole);
        if !self.is_longer_than_size() || step == 0 {
            return size;
        }
        let last = bytes.saturating_sub(1) / step * step;
        Some(Extent::Bytes(bytes.max(last.saturating_add(*block))))
    }

    /// Bytes that one pass over `size` bytes transfers if each block is followed by a hole. As in fio, the pass
    /// ends at the end of the file, or starts again if only a hole extends beyond it.
    pub(super) fn pass_of_holes(&mut self, size: u64, block: u64, hole: u64) -> u64 {
        let Extent::Bytes(offset) = self.offset() else { return size };
        let real = if self.is_longer_than_size() {
            self.file_bytes.unwrap_or(u64::MAX)
        } else {
            offset.saturating_add(size)
        };
        let step = block.saturating_add(hole).max(1);
        let left = real.saturating_sub(offset);
        if left < block {
            return size;
        }
        let blocks = size.div_ceil(step).min((left - block) / step + 1);
        let next = blocks.saturating_mul(step);
        let end = (next - step).saturating_add(block);
        let begins_again = offset == 0 && end < real && next >= real;
        let whole = size.checked_next_multiple_of(block.max(1)).unwrap_or(size);
        if begins_again { whole } else { blocks.saturating_mul(block) }
    }

    /// Sets explicit alignments if the default, the alignment of the block sizes, is too coarse or too fine.
    fn aligns(&mut self, plan: &Plan, steps: &[u64], workload: &mut Draft) {
        let natural = plan.mix.natural_align();
        let mut align = common_align(natural, steps);
        if let Some((own, opt)) = self.own_align(plan) {
            if !own.is_power_of_two() {
                let words = "an alignment must be a power of two";
                self.refuse(opt, words, "give blockalign a power of two");
            } else if own > natural {
                workload.address_align(Some(own));
            } else {
                align = align.min(own);
            }
        }
        if align < 512 {
            let names = ["bs", "bssplit", "bsrange", "ba", "offset", "offset_increment", "rw"];
            let opt = names.iter().find_map(|name| self.opt(name));
            let place = opt.map_or(&self.section.place, |opt| &opt.place).clone();
            if self.direct() || self.verifies() {
                let words = format!(
                    "blocks that begin at multiples of {align} bytes work only through the page cache, and can't be verified"
                );
                let help = "make block sizes, offset and steps multiples of 512, or remove direct and verify";
                self.refused.push(Refusal::new(place, words, help));
            } else {
                let words = format!(
                    "blocks that begin at multiples of {align} bytes work only on files, through the page cache"
                );
                self.notes.push(Note::new(place.at(self.files), words));
            }
        }
        workload.align(Some(align).filter(|align| *align < natural.max(512)));
    }

    /// Reads `blockalign` of the issued kinds, and returns it with its option. None if it is missing or 0, or
    /// refused because kinds have different values.
    fn own_align(&mut self, plan: &Plan) -> Option<(u64, &'a Opt)> {
        let opt = self.opt("ba")?;
        let (mut all, kb_base) = ([0; 3], self.kb_base);
        self.all_by_kind("ba", &mut all, |text| count(text, kb_base));
        let mut own = plan.mix.0.iter().map(|issued| all[issued.at()]);
        let first = own.next()?;
        if own.any(|align| align != first) {
            self.refuse(
                opt,
                "alignments that differ by kind can't be honoured",
                "give one for all kinds",
            );
            return None;
        }
        (first > 0).then_some((first, opt))
    }

    /// Number of clones that issue I/O. If clones share a file through `filename_format`, only the first one
    /// does, as in fio.
    pub(super) fn clones(&mut self) -> u64 {
        let clones = self.count("numjobs").unwrap_or(1).max(1);
        let is_by_format = self.opt("filename").or(self.opt("uri")).is_none();
        if let (Some(opt), true) = (self.opt("filename_format"), clones > 1 && is_by_format)
            && layout::files_of(self.section).is_some()
        {
            let words = format!(
                "filename_format without $jobnum names one file for all {clones} clones: fio gives it to the first one, and the others do nothing; use filename to let them share it"
            );
            self.trap(&opt.place, words);
            return 1;
        }
        clones
    }
}
