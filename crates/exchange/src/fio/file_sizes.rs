//! Reproduces the file sizes that fio 3.33 draws from a range (`filesize=4k-1m`), with fio's generators, seeds and
//! rounding. Ignores files that exist before the run.

use super::lines::Opt;
use super::mix::{Blocks, Region, Walk, smallest};
use super::number::count;
use super::reading::Reading;
use iodyno_workload::{Pattern, Percent, Spot};

/// Maximum number of files whose sizes are drawn individually.
const MAX_DRAWN: u64 = 1 << 20;
/// Maximum number of files that each get the same number of operations. Each such file becomes a hot spot of
/// the workload.
const MAX_SPOTS: usize = iodyno_workload::MAX_ITEMS;
/// Maximum block size for which an aligned block never crosses the end of a file, bytes.
const MAX_PLACED_BYTES: u64 = 1 << 20;
/// fio's default of `randseed`.
const DEFAULT_SEED: u64 = 0x89;
/// Index of the stream for file sizes among fio's streams of random numbers (`FIO_RAND_FILE_SIZE_OFF`).
const STREAM: u64 = 7;

/// fio's Tausworthe random number generators: 32 bits, and 64 bits (`random_generator=tausworthe64`).
enum Generator {
    Taus88([u32; 3]),
    Taus258([u64; 5]),
}

impl Generator {
    fn new(seed: u64, is_64: bool) -> Self {
        // fio's `(2^31) + (2^17) + (2^7)`, where `^` is not a power.
        let first = 29 + 19 + 5;
        let at_least = |x: u64, least: u64| if x < least { x + least } else { x };
        let mut generator = if is_64 {
            let mut before: u64 = first;
            Self::Taus258([1, 7, 15, 33, 49].map(|least| {
                before = at_least(before.wrapping_mul(6_906_969_069) ^ seed, least);
                before
            }))
        } else {
            let mut before = first as u32;
            Self::Taus88([1, 7, 15].map(|least| {
                let x = before.wrapping_mul(69069) ^ seed as u32;
                before = at_least(x.into(), least) as u32;
                before
            }))
        };
        for _ in 0..6 {
            generator.fraction();
        }
        generator
    }

    /// Draws a number from 0 (inclusive) to 1 (exclusive).
    fn fraction(&mut self) -> f64 {
        match self {
            Self::Taus88(states) => {
                let steps = [(1, 12, 13, 19), (3, 4, 2, 25), (4, 17, 3, 11)];
                let mut all = 0;
                for (x, (low, shift, left, right)) in states.iter_mut().zip(steps) {
                    *x = (*x >> low << low << shift) ^ (((*x << left) ^ *x) >> right);
                    all ^= *x;
                }
                f64::from(all) / (u32::MAX as f64 + 1.0)
            }
            Self::Taus258(states) => {
                let steps = [
                    (1, 10, 1, 53),
                    (9, 5, 24, 50),
                    (12, 29, 3, 23),
                    (17, 23, 5, 24),
                    (23, 8, 3, 33),
                ];
                let mut all = 0;
                for (x, (low, shift, left, right)) in states.iter_mut().zip(steps) {
                    *x = (*x >> low << low << shift) ^ (((*x << left) ^ *x) >> right);
                    all ^= *x;
                }
                all as f64 / (u64::MAX as f64 + 1.0)
            }
        }
    }
}

/// Swaps the ends of a range such as `8k-4k`.
fn ascending(range: &str) -> String {
    let (most, least) = range.split_once(['-', ':', ',']).unwrap_or((range, range));
    format!("{least}-{most}")
}

impl<'a> Reading<'a> {
    /// Minimum and maximum of `filesize` in bytes, and the option; None if it is missing or refused. Both are
    /// equal if it is a single size.
    pub(super) fn file_size_range(&mut self) -> Option<([u64; 2], &'a Opt)> {
        let (value, opt) = self.text("filesize")?;
        let ends = value.split_once(['-', ':', ',']);
        let ends = ends.map(|(a, b)| (count(a, self.kb_base), count(b, self.kb_base)));
        if let Some((Ok(least), Ok(most))) = ends {
            if least > most {
                let help = format!("use filesize={}", ascending(value));
                self.refuse(opt, "the range is descending: fio would make empty files", help);
                return None;
            }
            return Some(([least, most], opt));
        }
        self.count("filesize").map(|bytes| ([bytes; 2], opt))
    }

    /// Computes the sizes that fio would draw for the job's files, bytes. If they can't be honoured, refuses the
    /// option and returns an empty list.
    pub(super) fn drawn_sizes(
        &mut self,
        [least, most]: [u64; 2],
        opt: &Opt,
        files: u64,
        blocks: &Blocks,
    ) -> Vec<u64> {
        let block = smallest(blocks);
        let is_percent = |name: &str| self.section.value(name).is_some_and(|v| v.ends_with('%'));
        let is_one = blocks.iter().flatten().all(|size| size.bytes == block);
        let has_offset = self.section.value("offset").is_some_and(|value| value != "0");
        let (words, help) = if files > MAX_DRAWN {
            ("at most 1048576 files can have different sizes", "give one size, or fewer files")
        } else if !is_one {
            ("files with sizes from a range need a single block size", "give one size in bs")
        } else if least < block {
            (
                "the smallest file is smaller than one block",
                "begin the range at the block size, or above it",
            )
        } else if has_offset || is_percent("size") {
            (
                "files with sizes from a range are always used whole: an offset, or a size in percent, can't be honoured",
                "remove offset, and give size in bytes or not at all",
            )
        } else if self.file_bytes.is_some() {
            (
                "an earlier job uses these files, and fio keeps their existing sizes",
                "name other files, or give one size to both jobs",
            )
        } else {
            return self.draw([least, most], files, block);
        };
        self.refuse(opt, words, help);
        Vec::new()
    }

    fn draw(&mut self, [least, most]: [u64; 2], files: u64, block: u64) -> Vec<u64> {
        let number = self.clones_before + 1;
        let seed = if self.flag("allrandrepeat") {
            0xb189_9bed_u64.wrapping_mul(number).wrapping_add(STREAM)
        } else {
            let given = self.opt("randseed").and_then(|_| self.count("randseed"));
            // fio multiplies the seed 4 times, and once more for each stream before this one.
            let seed = (0..4 + STREAM)
                .fold(given.unwrap_or(DEFAULT_SEED), |seed, _| seed.wrapping_mul(0x9e37_0001));
            seed.wrapping_mul(number).wrapping_add(STREAM)
        };
        let is_64 = self.section.value("random_generator") == Some("tausworthe64");
        let mut generator = Generator::new(seed, is_64);
        let size = |_| {
            let bytes = ((most - least) as f64 * generator.fraction()) as u64 + least;
            bytes - bytes % block
        };
        (0..files).map(size).collect()
    }

    /// Checks a job whose files have different sizes. Refuses clones with their own files, and address orders
    /// that depend on where each file ends. Returns a pattern if each file must get the same number of
    /// operations; None if the job's own order is sufficient.
    pub(super) fn addresses_of_drawn(
        &mut self,
        walk: &Walk,
        region: &Region,
        percent: u64,
        block: Option<u64>,
        is_distributed: bool,
    ) -> Option<Pattern> {
        if region.drawn.is_empty() {
            return None;
        }
        let opt = self.opt("filesize")?;
        if region.threads > 1 && !region.is_shared {
            let words = "fio draws the file sizes of each clone separately, but iodyno divides the target equally among the clones";
            self.refuse(opt, words, "use a section for each clone, with numjobs=1");
            return None;
        }
        let service = self.section.value("file_service_type").unwrap_or("roundrobin");
        let service = service.split(':').next().unwrap_or_default();
        let is_plain = percent == 100 && !is_distributed && matches!(walk, Walk::Random);
        match (walk, service) {
            _ if region.files == 1 => None,
            (Walk::Sequential, "sequential") => None,
            (Walk::Random, "roundrobin" | "random") if is_plain && self.repeats_files() => {
                let is_placed = |block: u64| block.is_power_of_two() && block <= MAX_PLACED_BYTES;
                if !block.is_some_and(is_placed) {
                    let words = "block sizes other than powers of two up to 1 MiB would put blocks across the ends of files";
                    self.refuse(
                        opt,
                        words,
                        "give another bs, or remove time_based and norandommap",
                    );
                }
                self.spots(region, opt)
            }
            (Walk::Random, _) if is_plain && !self.repeats_files() => {
                self.note(opt, "blocks are drawn from all files together until each block has been used once; fio finishes small files earlier");
                None
            }
            _ => {
                let words = "iodyno does not support this order of using files of different sizes";
                let help = "use file_service_type=sequential, random I/O without a distribution, or one size";
                self.refuse(opt, words, help);
                None
            }
        }
    }

    /// Whether fio starts a file again before all other files are complete.
    fn repeats_files(&self) -> bool {
        self.flag("norandommap") || self.flag("time_based")
    }

    fn spots(&mut self, region: &Region, opt: &Opt) -> Option<Pattern> {
        if region.drawn.len() > MAX_SPOTS {
            let words = format!(
                "fio gives each file the same number of operations here; iodyno can do that for at most {MAX_SPOTS} files"
            );
            let help = "remove time_based and norandommap, or give one size, or fewer files";
            self.refuse(opt, words, help);
            return None;
        }
        self.note(opt, "each file gets the same share of the operations, as in fio; addresses within a file are independent draws");
        let whole: u64 = region.drawn.iter().sum();
        let (mut sum, mut before) = (0, 0);
        let spots = (region.drawn.iter())
            .map(|bytes| {
                sum += bytes;
                // Rounded up, so that the end of a file is a whole block.
                let parts = (u128::from(sum) * 1_000_000_000).div_ceil(u128::from(whole)) as u64;
                let own = parts - before;
                before = parts;
                Spot { share: 1.0, range: Percent::from_fraction(own as f64 / 1e9) }
            })
            .collect();
        Some(Pattern::HotSpots { spots, scatter: false })
    }
}
