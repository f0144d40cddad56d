//! The part of a target that a job runs on: its files, their sizes, the parts of its clones, and the alignment of
//! addresses.

use super::layout::{self, Part};
use super::lines::Opt;
use super::number::count;
use super::reading::{KINDS, Reading, Walk};
use super::{Note, Refusal};
use crate::size_text::size_text;
use std::fmt::Write as _;

/// Files of a job, and the ranges of its clones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Region {
    size: Option<Extent>,
    /// Bytes of each clone; None if unknown.
    pub(super) each_bytes: Option<u64>,
    /// Whether the clones share one file or one set of files.
    pub(super) is_shared: bool,
    pub(super) threads: u64,
    /// Number of files of each clone.
    pub(super) files: u64,
    /// Size of each file that fio draws from a range, bytes; empty: equal sizes.
    pub(super) drawn: Vec<u64>,
    /// `offset_increment`, bytes.
    step: u64,
}

/// A size or offset as an option gives it: bytes, or percent of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Bytes(u64),
    Percent(u64),
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

    /// `offset`. A percentage is converted to bytes if an earlier job defines the size of the file.
    pub(super) fn offset(&mut self) -> Extent {
        let offset = self.extent_of("offset").unwrap_or(Extent::Bytes(0));
        let (Extent::Percent(percent @ 1..), Some(file)) = (offset, self.file_bytes) else {
            return offset;
        };
        let least = self.blocks().iter().flatten().map(|(bytes, _)| *bytes).min();
        let align = self.count("offset_align").filter(|align| *align > 0).or(least).unwrap_or(1);
        let bytes = (u128::from(file) * u128::from(percent) / 100) as u64;
        Extent::Bytes(bytes.checked_next_multiple_of(align.max(1)).unwrap_or(bytes))
    }

    /// `size`, limited to the end of the files. Their total size is `filesize` or, if None, defined by an earlier job.
    fn within_file(&mut self, size: Option<Extent>, filesize: Option<u64>) -> Option<Extent> {
        if matches!((size, filesize), (Some(Extent::Bytes(_)), None)) {
            // fio extends the file if necessary.
            return size;
        }
        let (Some(file), Extent::Bytes(offset)) = (filesize.or(self.file_bytes), self.offset())
        else {
            return size;
        };
        let left = file.saturating_sub(offset);
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
                let least = self.blocks().iter().flatten().map(|(bytes, _)| *bytes).min();
                let bytes = bytes.min(left);
                Some(Extent::Bytes(bytes - bytes % least.unwrap_or(1).max(1)))
            }
            (size, None) => size,
        }
    }

    /// Total size of the files according to `filesize`, bytes; None if missing, 0 or refused. Sizes that fio draws from
    /// a range are stored in `drawn`.
    fn file_size(
        &mut self,
        files: u64,
        blocks: &[Vec<(u64, f64)>; 3],
        drawn: &mut Vec<u64>,
    ) -> Option<u64> {
        let ([least, most], opt) = self.file_size_range()?;
        let bytes = if least == most {
            least.saturating_mul(files)
        } else {
            *drawn = self.drawn_sizes([least, most], opt, files, blocks);
            drawn.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes))
        };
        Some(bytes).filter(|bytes| *bytes > 0)
    }

    /// Files of the job and the ranges of its clones, from its options.
    pub(super) fn region(&mut self, threads: u64, blocks: &[Vec<(u64, f64)>; 3]) -> Region {
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
        let size = self.within_file(size, filesize);
        let size = if whole { None } else { size };
        let size = match (size, blocks) {
            // The rest of a file after its last whole block is not used.
            (Some(Extent::Bytes(bytes)), [reads, writes, trims])
                if nrfiles > 1 && drawn.is_empty() && reads == writes && reads == trims =>
            {
                let of_all = reads[0].0.saturating_mul(nrfiles);
                let is_held = reads.len() == 1 && (1..=bytes).contains(&of_all);
                Some(Extent::Bytes(if is_held { bytes - bytes % of_all } else { bytes }))
            }
            (size, _) => size,
        };
        let size = match size {
            Some(Extent::Bytes(bytes)) if self.begins_another_block() => {
                let block = blocks[0][0].0.max(1);
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
                    let words = "this is a percentage of files whose size is not known";
                    self.refuse(opt, words, "give it in bytes, or give size in bytes");
                }
                0
            }
            (None, _) => 0,
        };
        Region { size, each_bytes, is_shared, threads, files: nrfiles, drawn, step }
    }

    /// Whether the last block of a walk may extend beyond `size`. fio issues each block that begins before `size`, if
    /// the device or file continues there. A file of exactly `size` ends with its last whole block.
    pub(super) fn begins_another_block(&self) -> bool {
        self.goes_on_behind_size()
            && self.section.value("filename").is_none_or(|name| !name.contains(':'))
            && matches!(self.section.value("rw"), None | Some("read" | "write"))
            && !["bssplit", "bsrange", "ba", "filesize"].iter().any(|name| self.opt(name).is_some())
            && self.section.value("bs").is_none_or(|bs| !bs.contains(','))
    }

    /// Whether the job's file is known to be longer than `size`: a device, or a longer file of an earlier job.
    pub(super) fn goes_on_behind_size(&self) -> bool {
        let size = self.section.value("size").and_then(|size| count(size, self.kb_base).ok());
        let offset = self.section.value("offset").map_or(Ok(0), |text| count(text, self.kb_base));
        let end = size.zip(offset.ok()).map(|(size, offset)| size.saturating_add(offset));
        layout::is_device(self.section)
            || end.is_some_and(|end| self.file_bytes.is_some_and(|file| file > end))
    }

    /// Bytes of the target, from its start, that the job needs; None if unknown.
    pub(super) fn space(&mut self) -> Option<u64> {
        let threads = self.clones();
        let blocks = self.blocks();
        let region = self.region(threads, &blocks);
        let Extent::Bytes(offset) = self.offset() else { return None };
        let each = region.each_bytes?;
        let more = if region.is_shared { region.step } else { each };
        Some(each.saturating_add(offset).saturating_add(more.saturating_mul(threads - 1)))
    }

    /// Workload keys of the active range, the step between workers and the alignments.
    pub(super) fn extent(
        &mut self,
        region: &Region,
        part: &Part,
        is_alone: bool,
        blocks: &[Vec<(u64, f64)>; 3],
        mix: &[(&str, f64)],
        walk: &Walk,
    ) -> String {
        let Region { size, each_bytes, threads, step, .. } = *region;
        let offset = self.offset();
        let size = self.with_last_hole(size, walk);
        // Number of adjacent parts, and the distance between workers if each has a part of its own.
        let (mut parts, mut worker_step) = (1, None);
        if threads > 1 {
            let is_side_by_side = !region.is_shared || step > 0 && each_bytes == Some(step);
            match each_bytes.filter(|_| is_side_by_side) {
                Some(bytes) if is_alone => worker_step = Some(bytes),
                Some(_) => parts = threads,
                None if region.is_shared && step > 0 => {
                    worker_step = Some(step);
                    if each_bytes.is_none()
                        && let Some(opt) = self.opt("offset_increment")
                    {
                        self.note(opt, "the parts of all clones are as long as that of the last one, which ends at the end of the target");
                    }
                }
                None if region.is_shared => {
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
        }
        if let (Some(each), Some(opt)) = (each_bytes, self.opt("size").or(self.opt("filesize")))
            && (parts > 1 || worker_step == each_bytes)
        {
            let words = format!(
                "size is per clone: {} in all for numjobs={threads}",
                size_text(each.saturating_mul(threads))
            );
            self.trap(&opt.place, words);
        }
        let mut steps = vec![worker_step.unwrap_or(0)];
        match walk {
            Walk::Skips(_, skip) | Walk::Holes(_, skip) => steps.push(*skip),
            Walk::Backward(stride, start) => steps.extend([*stride, *start]),
            _ => {}
        }
        let active = match (part, offset, size) {
            (Part::Share(number, count), offset, size) => {
                let percent = |of: f64| {
                    let text =
                        format!("{:.7}", (*number as f64 + of / 100.0) * 100.0 / *count as f64);
                    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
                };
                let (
                    Extent::Percent(start) | Extent::Bytes(start @ 0),
                    Some(Extent::Percent(_)) | None,
                ) = (offset, size)
                else {
                    if let Some(opt) = self.opt("offset").or(self.opt("size")) {
                        let words = "jobs run at the same time on files of unknown size, so an offset or size in bytes can't be honoured";
                        self.refuse(opt, words, "give size in bytes to all jobs of the group");
                    }
                    return String::new();
                };
                let size = if let Some(Extent::Percent(size)) = size { size } else { 100 };
                let place = self.opt("filename").map_or(&self.section.place, |opt| &opt.place);
                let at = place.at(self.files);
                let words = format!(
                    "the job's file is part {} of {count} equal parts of the target",
                    number + 1
                );
                self.notes.push(Note::new(at, words));
                (percent(start as f64), percent((start + size).min(100) as f64))
            }
            (part, Extent::Bytes(offset), Some(Extent::Bytes(size))) => {
                let from = match part {
                    Part::From(bytes) => *bytes,
                    _ => 0,
                };
                if from > 0 {
                    let at = self.section.place.at(self.files);
                    let words = format!(
                        "the job's file begins at offset {} of the target",
                        size_text(from)
                    );
                    self.notes.push(Note::new(at, words));
                }
                let start = offset.saturating_add(from);
                steps.push(start);
                let end = start.saturating_add(size.saturating_mul(parts));
                (size_text(start), size_text(end))
            }
            (_, Extent::Percent(start), Some(Extent::Percent(size))) => {
                (format!("{start}%"), format!("{}%", (start + size).min(100)))
            }
            (_, Extent::Bytes(0), Some(Extent::Percent(size))) => {
                ("0%".to_owned(), format!("{size}%"))
            }
            (_, Extent::Bytes(start), None) => {
                steps.push(start);
                (size_text(start), "100%".to_owned())
            }
            // The target is the file itself: several jobs on files without sizes were refused above.
            (_, Extent::Percent(start), Some(Extent::Bytes(size))) => {
                (format!("{start}%"), format!("+{}", size_text(size.saturating_mul(parts))))
            }
            (_, Extent::Bytes(start), Some(Extent::Percent(size))) => {
                steps.push(start);
                // fio stops at the end of the file if the size reaches beyond it.
                let end = if size >= 100 { "100%".to_owned() } else { format!("+{size}%") };
                (size_text(start), end)
            }
            (_, Extent::Percent(start), None) => (format!("{start}%"), "100%".to_owned()),
        };
        if let (Extent::Percent(1..), Some(opt)) = (offset, self.opt("offset")) {
            if self.flag("offset_align") {
                let help = "give offset in bytes, or remove offset_align";
                let words = "a percentage of a target of unknown size can only be rounded up to a whole block";
                self.refuse(opt, words, help);
            }
            self.note(opt, "a percentage of the target; fio takes it of the file as it is before the job, so it is 0 if the file does not exist yet");
        }
        let mut text = format!("active = \"{}..{}\"\n", active.0, active.1);
        if let Some(step) = worker_step {
            let _ = writeln!(text, "worker_step = \"{}\"", size_text(step));
        }
        self.aligns(blocks, mix, &steps, &mut text);
        text
    }

    /// Extends the range of a walk with holes whose last block begins before `size` and ends after it.
    fn with_last_hole(&self, size: Option<Extent>, walk: &Walk) -> Option<Extent> {
        let (Some(Extent::Bytes(bytes)), Walk::Holes(block, hole)) = (size, walk) else {
            return size;
        };
        let step = block.saturating_add(*hole);
        if !self.goes_on_behind_size() || step == 0 {
            return size;
        }
        let last = bytes.saturating_sub(1) / step * step;
        Some(Extent::Bytes(bytes.max(last.saturating_add(*block))))
    }

    /// Bytes that a walk with holes moves in one pass over `size` bytes. As in fio, the walk ends at the end of the
    /// file, or begins again if only a hole reaches beyond it.
    pub(super) fn pass_of_holes(&mut self, size: u64, (block, hole): (u64, u64)) -> u64 {
        let Extent::Bytes(offset) = self.offset() else { return size };
        let real = if self.goes_on_behind_size() {
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

    /// Appends alignment keys if the alignment of the block sizes does not suffice.
    fn aligns(
        &mut self,
        blocks: &[Vec<(u64, f64)>; 3],
        mix: &[(&str, f64)],
        steps: &[u64],
        text: &mut String,
    ) {
        let natural = Self::natural_align(blocks, mix);
        let mut align = steps.iter().fold(natural, |align, step| match step {
            0 => align,
            step => align.min(1 << step.trailing_zeros().min(30)),
        });
        if let Some((own, opt)) = self.own_align(mix) {
            if !own.is_power_of_two() {
                let words = "an alignment must be a power of two";
                self.refuse(opt, words, "give blockalign a power of two");
            } else if own > natural {
                let _ = writeln!(text, "address_align = \"{}\"", size_text(own));
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
                    "blocks at multiples of {align} bytes work only through the page cache, and can't be verified"
                );
                let help = "make block sizes, offset and steps multiples of 512, or remove direct and verify";
                self.refused.push(Refusal::new(place, words, help));
            } else {
                let words = format!(
                    "blocks at multiples of {align} bytes work only on files, through the page cache"
                );
                self.notes.push(Note::new(place.at(self.files), words));
            }
        }
        if align < natural.max(512) {
            let _ = writeln!(text, "align = \"{}\"", size_text(align));
        }
    }

    /// `blockalign` of the issued kinds, with its option. None if it is missing, 0, or refused because kinds differ.
    fn own_align(&mut self, mix: &[(&str, f64)]) -> Option<(u64, &'a Opt)> {
        let opt = self.opt("ba")?;
        let (mut all, kb_base) = ([0; 3], self.kb_base);
        self.all_by_kind("ba", &mut all, |text| count(text, kb_base));
        let mut own =
            KINDS.iter().zip(all).filter(|(kind, _)| mix.iter().any(|(issued, _)| issued == *kind));
        let (_, first) = own.next()?;
        if own.any(|(_, align)| align != first) {
            self.refuse(
                opt,
                "alignments that differ by kind can't be honoured",
                "give one for all kinds",
            );
            return None;
        }
        (first > 0).then_some((first, opt))
    }

    /// Number of clones that issue I/O. In fio, only the first of the clones that share a file by `filename_format`
    /// does.
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
