//! Converts `zonemode=strided`: sequential I/O in zones at a fixed distance.

use super::layout::Part;
use super::mix::{Extent, Mix, Plan, Walk};
use super::reading::Reading;

impl Reading<'_> {
    /// Whether the job has zones at a fixed distance.
    fn is_strided(&self) -> bool {
        self.section.value("zonemode") == Some("strided") && self.flag("zonesize")
    }

    /// Refuses combinations with `zonemode=strided` whose addresses iodyno can't reproduce. `has_hole`: `rw` has a
    /// number after a colon.
    pub(super) fn check_strided(&mut self, mix: &Mix, is_random: bool, has_hole: bool) {
        let Some(opt) = self.opt("zonesize").filter(|_| self.is_strided()) else { return };
        let words = if is_random {
            "random I/O within zones is not supported"
        } else if has_hole {
            "holes after blocks within zones are not supported"
        } else if mix.0.len() > 1 {
            "reads and writes within the same zones are not supported"
        } else {
            return;
        };
        self.refuse(opt, words, "remove the line, or use rw=read, rw=write or rw=trim");
    }

    /// Order of addresses for sequential I/O, with the zones of `zonemode=strided`.
    pub(super) fn zones(&mut self, mix: &Mix) -> Option<Walk> {
        let Some(opt) = self.opt("zonesize") else { return Some(Walk::Sequential) };
        let is_strided = self.is_strided();
        let size = self.count("zonesize").filter(|size| *size > 0 && is_strided);
        let Some(size) = size else { return Some(Walk::Sequential) };
        let block = self.one_size(mix, opt)?;
        let range = self.count("zonerange").filter(|range| *range > 0).unwrap_or(size);
        let skip = self.count("zoneskip").unwrap_or(0).saturating_add(range.saturating_sub(size));
        if size % block != 0 || range < size {
            let words =
                "`zonesize` must be a whole number of blocks, and `zonerange` at least `zonesize`";
            let help = "make zonesize a multiple of bs, and zonerange at least zonesize";
            self.refuse(opt, words, help);
            return None;
        }
        Some(if skip == 0 { Walk::Sequential } else { Walk::Skips(size / block, skip) })
    }

    /// Bytes from the job's offset to the end of its file; None if unknown. `size` is that of the job.
    fn bytes_to_end(&mut self, size: Option<u64>) -> Option<u64> {
        if !self.is_longer_than_size() {
            return size;
        }
        let Extent::Bytes(offset) = self.offset() else { return None };
        self.file_bytes.map(|file| file.saturating_sub(offset))
    }

    /// Bytes of one lap through the zones if the end of the file cuts off the last one. fio then ends the pass there.
    /// None if no zone is cut off, or if the end is unknown.
    fn lap_cut_off(&mut self, size: Option<u64>, [block, run, skip]: [u64; 3]) -> Option<u64> {
        let left = self.bytes_to_end(size)?;
        let zone = run.saturating_mul(block);
        let stride = zone.saturating_add(skip).max(1);
        let rest = left % stride;
        let is_cut = (1..zone).contains(&rest);
        is_cut.then(|| (left / stride).saturating_mul(zone) + rest / block.max(1) * block)
    }

    /// Bytes of a pass over `size` bytes that ends early, because the end of the file cuts off a zone; None for any
    /// other pass.
    pub(super) fn pass_of_zones(&mut self, size: u64, plan: &Plan) -> Option<u64> {
        let Walk::Skips(run, skip) = plan.walk else { return None };
        let block = plan.mix.one_size()?;
        self.lap_cut_off(Some(size), [block, run, skip])
    }

    /// Length of the range in which the zones lie. They continue to the end of a file that is longer than `size`. Notes
    /// where fio's zones differ.
    pub(super) fn extent_of_zones(&mut self, plan: &Plan, part: &Part) -> Option<Extent> {
        let size = plan.region.size;
        let (Walk::Skips(..), Some(opt)) = (&plan.walk, self.opt("zonesize")) else {
            return size;
        };
        let is_alone_in_file = matches!(part, Part::Whole) && plan.region.threads == 1;
        let size = match size {
            Some(Extent::Bytes(bytes)) if is_alone_in_file && self.is_longer_than_size() => {
                self.bytes_to_end(Some(bytes)).map(Extent::Bytes)
            }
            size => size,
        };
        let Some(Extent::Bytes(bytes)) = size else {
            self.note(opt, "if the target ends within a zone, fio ends the job there, and iodyno goes on from the start");
            return size;
        };
        let is_longer = self.is_longer_than_size() && !is_alone_in_file;
        if self.file_bytes.is_none() || is_longer {
            self.note(opt, "after `size` bytes the zones begin again from the start; fio's continue to the end of the file, if it is longer");
        }
        if self.flag("time_based") && self.pass_of_zones(bytes, plan).is_some() {
            self.note(opt, "the end of the file cuts off the last zone: fio may issue the rest of it twice, because the job is time_based");
        }
        size
    }
}
