//! Converts the address options of a diskspd command line: random (`-r`), distributed (`-rdpct`), sequential or
//! strided (`-s`).

use super::Reading;
use iodyno_workload::{Pattern, Percent, Spot};

impl Reading<'_, '_> {
    /// Address pattern, and alignment of addresses in bytes; None: aligned to the block size.
    pub(super) fn addresses(
        &mut self,
        threads: u64,
        start: u64,
        end: Option<u64>,
        write_percent: u64,
    ) -> (Pattern, Option<u64>) {
        let mut align = None;
        let mut distribution = None;
        let mut jumps = None;
        let mut is_random = false;
        let random = self.options.iter().filter(|opt| opt.name == 'r');
        let random = random.map(|opt| (opt.value.clone().unwrap_or_default(), opt.span.clone()));
        let random: Vec<_> = random.collect();
        for (value, span) in random {
            is_random = true;
            if let Some(percent) = value.strip_prefix('s') {
                let read = percent.parse::<u8>().ok().filter(|percent| (1..=100).contains(percent));
                if let Some(percent) = read {
                    jumps = Some((percent, span));
                } else {
                    let words = format!("`-rs{percent}` is not a percentage from 1 to 100");
                    self.found.refuse(&span, words, "use the form -rs80");
                }
            } else if let Some(ranges) = value.strip_prefix("dpct") {
                match hot_spots(ranges) {
                    Ok(spots) => distribution = Some(spots),
                    Err(why) => {
                        self.found.refuse(&span, why, "use the form -rdpct90/10:5/20");
                    }
                }
            } else if value.starts_with('d') {
                let words = "a distribution in bytes can't be honoured: the size of the target is not known yet";
                self.found.refuse(&span, words, "give shares of the target with -rdpct");
            } else if !value.is_empty() {
                align = self.bytes('r', &value).filter(|align| *align != self.more.block_bytes);
            }
        }
        if is_random {
            if self.is_given('s') {
                self.note('s', "-s has no effect on random I/O");
            }
            if let Some((percent @ 1..100, span)) = jumps {
                let (words, help) = if distribution.is_some() {
                    ("a distribution can't have a sequential part", "remove -rdpct or -rs")
                } else if align.is_some() {
                    ("sequential runs can only begin at whole blocks", "remove the alignment of -r")
                } else if !matches!(write_percent, 0 | 100) {
                    let words = "in diskspd a sequential run has only reads or only writes, but in iodyno each operation is a read or a write at random";
                    (words, "give -w0 or -w100, or -rs100")
                } else {
                    return (Pattern::Jumps { share: percent_of(percent.into()) }, None);
                };
                let words = format!("`-rs{percent}` can't be honoured: {words}");
                self.found.refuse(&span, words, help);
            }
            let uniform = Pattern::Uniform { once_per_pass: false };
            return (distribution.unwrap_or(uniform), align);
        }
        (self.sequential(threads, start, end), None)
    }

    fn sequential(&mut self, threads: u64, start: u64, end: Option<u64>) -> Pattern {
        let (mut is_shared, mut stride) = (false, None);
        if let Some(value) = self.value('s') {
            let text = value.strip_prefix('i').unwrap_or(&value);
            is_shared = text.len() < value.len();
            if !text.is_empty() {
                stride = self.bytes('s', text).filter(|stride| *stride != self.more.block_bytes);
            }
        }
        if threads > 1 && !is_shared {
            let apart = self.size('T').unwrap_or(0);
            let len = end.map(|end| end.saturating_sub(start));
            let is_even = apart > 0 && len == apart.checked_mul(threads) && stride.is_none();
            if !is_even {
                let words = "sequential threads that begin at the same offset, or overlap, can't be honoured: iodyno's workers begin at different offsets";
                let help = "give -si for one sequence that all threads share, or give -B0:SIZE together with -T, set to SIZE divided by the number of threads";
                let letter = if self.is_given('T') { 'T' } else { 't' };
                self.refuse(letter, words, help);
            }
        }
        match stride {
            Some(stride_bytes) => {
                self.note('s', "strided addresses that pass the end wrap around, modulo the length of the range; in diskspd they restart at its beginning");
                Pattern::Strided { stride_bytes, start_bytes: 0, backward: false }
            }
            None => Pattern::Sequential { shared: is_shared, run: None },
        }
    }
}

/// Parses hot spots from pairs of percentages, of the I/O and of the target, such as `90/10:0/10:5/20`. The
/// remaining I/O goes to the remaining part of the target.
fn hot_spots(text: &str) -> Result<Pattern, String> {
    let spot = |io: u32, range: u32| Spot { share: io.into(), range: percent_of(range) };
    let mut spots = Vec::new();
    let (mut all_io, mut all_range) = (0, 0);
    for part in text.split(':') {
        let numbers = part.split_once('/');
        let percent = |text: &str| text.parse::<u32>().ok().filter(|percent| *percent <= 100);
        let (Some(io), Some(range)) =
            (numbers.and_then(|(io, _)| percent(io)), numbers.and_then(|(_, r)| percent(r)))
        else {
            return Err(format!(
                "`{part}` does not give a share of the I/O and a share of the target"
            ));
        };
        all_io += io;
        all_range += range;
        if all_io > 100 || all_range > 100 || spots.len() > 100 {
            return Err("the shares add up to more than 100 %".to_owned());
        }
        spots.push(spot(io, range));
    }
    if all_range < 100 {
        spots.push(spot(100 - all_io, 100 - all_range));
    } else if all_io < 100 {
        return Err("the shares cover the whole target, but less than 100 % of the I/O".to_owned());
    }
    Ok(Pattern::HotSpots { spots, scatter: false })
}

fn percent_of(percent: u32) -> Percent {
    Percent::from_fraction(f64::from(percent) / 100.0)
}
