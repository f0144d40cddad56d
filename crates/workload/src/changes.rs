//! Describes in a few words, for the heading of a result, how command-line flags changed a workload.

use crate::flags::OfferedRate;
use crate::spec::{Address, ArrivalKind, Block, Content, NewFile, Pattern, Percent, Spec};
use iodyno_units::{OpKind, human};

impl Spec {
    /// Describes how this workload differs from `named`, the unchanged catalog workload: `sequential`, `70 %
    /// reads`, `fsync every 8`. `rate` is the offered rate as given on the command line. Without `shape`, the
    /// list omits threads, depth, block sizes and a rate in operations per second, which each cell of a result
    /// shows anyway.
    pub fn changes_from(
        &self,
        named: &Self,
        rate: Option<&OfferedRate>,
        shape: bool,
    ) -> Vec<String> {
        let mut all = Vec::new();
        if shape {
            let count = |n: u32, name: &str| format!("{name} {n}");
            all.extend((self.threads != named.threads).then(|| count(self.threads, "threads")));
            all.extend((self.depth != named.depth).then(|| count(self.depth, "depth")));
            all.extend((self.block != named.block).then(|| block_words(&self.block)));
        }
        let kinds = || self.kinds().map(|(kind, _)| kind);
        if kinds().any(|kind| self.addresses(kind) != named.addresses(kind)) {
            let mut patterns: Vec<String> =
                kinds().flat_map(|kind| self.addresses(kind)).map(Address::words).collect();
            patterns.dedup();
            all.push(patterns.join(" and "));
        }
        let by_kind = rate.is_some_and(OfferedRate::is_by_kind);
        let reads = self.reads();
        if reads != named.reads() && !by_kind {
            all.push(format!("{} reads", percent(reads)));
        }
        if self.flush_every != named.flush_every {
            all.push(match self.flush_every {
                0 => "no fsync".to_owned(),
                1 => "fsync after each write".to_owned(),
                n => format!("fsync every {n}"),
            });
        }
        if self.flush_waits != named.flush_waits && self.flush_every > 0 {
            let words = if self.flush_waits { "workers wait" } else { "workers do not wait" };
            all.push(format!("{words} for fsync"));
        }
        if self.flush_bursts != named.flush_bursts && self.flush_every == named.flush_every {
            all.push(match self.flush_bursts {
                None => "no bursts of fsync".to_owned(),
                Some(bursts) => {
                    let fsyncs = human::counted(bursts.burst.into(), "fsync");
                    format!("{fsyncs} every {}", bursts.every)
                }
            });
        }
        if self.flush_at_end != named.flush_at_end {
            let fsyncs = human::counted(self.flush_at_end.into(), "fsync");
            all.push(format!("{fsyncs} at the end"));
        }
        if self.new_file != named.new_file {
            all.push(match self.new_file {
                NewFile::Written => "a file that was written before".to_owned(),
                NewFile::Allocated => "a file with reserved space".to_owned(),
                NewFile::Empty => "a file that grows".to_owned(),
            });
        }
        if self.fua != named.fua {
            all.push(match self.fua {
                Percent::ALL => "dsync".to_owned(),
                share => format!("dsync for {} of writes", percent(share)),
            });
        }
        if self.active != named.active {
            all.push(format!("range {}", self.active));
        }
        if self.log != named.log {
            all.push("another log".to_owned());
        }
        if self.file_set != named.file_set {
            all.push("another file set".to_owned());
        }
        if self.content != named.content {
            all.push(content_words(self.content));
        }
        all.extend(rate.filter(|rate| shape || !rate.is_in_ops()).map(|rate| rate.words(self)));
        all
    }

    /// Reads as a percentage of all operations.
    fn reads(&self) -> Percent {
        Percent::from_fraction(self.mix[OpKind::Read.index()] / self.mix.iter().sum::<f64>())
    }
}

impl Address {
    fn words(&self) -> String {
        match &self.pattern {
            Pattern::Uniform { once_per_pass: false } => "random".to_owned(),
            Pattern::Uniform { once_per_pass: true } => {
                "random, each block once per pass".to_owned()
            }
            Pattern::Sequential { shared: false, .. } | Pattern::ToEnd => "sequential".to_owned(),
            Pattern::Sequential { shared: true, .. } => {
                "sequential, shared by all workers".to_owned()
            }
            Pattern::Skips { skip_bytes, .. } => {
                format!("sequential, with gaps of {}", human::size(*skip_bytes))
            }
            Pattern::Streams { streams } => format!("{streams} sequential streams"),
            Pattern::Jumps { share } => format!("sequential, {} random", percent(*share)),
            Pattern::Zipf { theta } => format!("zipf {theta}"),
            Pattern::Pareto { h } => format!("pareto {h}"),
            Pattern::Zones { open, .. } => format!("{open} open zones"),
            Pattern::Normal { deviation } => format!("normal {deviation}"),
            Pattern::HotSpots { spots, .. } => {
                let all: f64 = spots.iter().map(|spot| spot.share).sum();
                let first = spots.first().map(|spot| {
                    let ops = percent(Percent::from_fraction(spot.share / all));
                    format!("{ops} in {}", percent(spot.range))
                });
                format!("hot spots, {}", first.unwrap_or_default())
            }
            Pattern::RecentlyRead { .. } => "recently read".to_owned(),
            Pattern::RecentlyWritten { .. } => "recently written".to_owned(),
            Pattern::Strided { stride_bytes, .. } => {
                format!("stride {}", human::size(*stride_bytes))
            }
        }
    }
}

impl OfferedRate {
    /// Formats the rate in its original unit. A rate in bytes is followed by the rate in operations per second.
    fn words(&self, spec: &Spec) -> String {
        let words = self.amounts().join(", ");
        match spec.arrivals() {
            ArrivalKind::Open { rate_iops, .. } if !self.is_in_ops() => {
                format!("{words} ({}/s)", human::count(rate_iops))
            }
            _ => words,
        }
    }
}

/// Formats a share as a percentage: `80 %`.
fn percent(share: Percent) -> String {
    share.to_string().replace('%', " %")
}

fn block_words(blocks: &[Block]) -> String {
    let sizes = blocks.iter().map(|block| human::size(u64::from(block.bytes)));
    sizes.collect::<Vec<_>>().join(" and ")
}

fn content_words(content: Content) -> String {
    match content {
        Content::Incompressible => "incompressible".to_owned(),
        Content::Verifiable => "verifiable".to_owned(),
        Content::Zeroes => "zeroes".to_owned(),
        Content::Compressible { compressible, dedupable } => {
            let (compressible, dedupable) = (percent(compressible), percent(dedupable));
            format!("{compressible} compressible, {dedupable} dedupable")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_nothing_else() {
        let named = Spec::from_toml("schema = 1\n[mix]\nread = 1\nwrite = 1").unwrap();
        let words = |spec: &Spec| spec.changes_from(&named, None, false).join(", ");
        assert_eq!(words(&named), "");
        // No change, and changes that each cell of a result shows anyway.
        let same = named.clone().with_pattern("random".parse().unwrap()).unwrap();
        assert_eq!(words(&same.with_depth(7).unwrap().with_threads(3).unwrap()), "");
        for (pattern, expected) in [
            ("sequential", "sequential"),
            ("stride=64KiB", "stride 64 KiB"),
            ("zipf=1.1", "zipf 1.1"),
            ("hot=80/20", "hot spots, 80 % in 20 %"),
        ] {
            let spec = named.clone().with_pattern(pattern.parse().unwrap()).unwrap();
            assert_eq!(words(&spec), expected);
        }
        let spec = named.clone().with_pattern("sequential".parse().unwrap()).unwrap();
        let spec = spec.with_read_share(Percent::from_fraction(0.7)).unwrap();
        let spec = spec.with_flush_every(8).unwrap();
        assert_eq!(words(&spec), "sequential, 70 % reads, fsync every 8");
        let spec = named.clone().with_fua(Percent::ALL).unwrap().with_content(Content::Zeroes);
        assert_eq!(words(&spec.unwrap()), "dsync, zeroes");
        let shaped = named.clone().with_depth(7).unwrap();
        assert_eq!(shaped.changes_from(&named, None, true), ["depth 7"]);
    }

    /// A rate is shown in its original unit.
    #[test]
    fn a_rate_keeps_its_unit() {
        let named = Spec::from_toml("schema = 1\n[mix]\nread = 1\nwrite = 1").unwrap();
        for (flag, listed, alone) in [
            ("200MB/s", "200 MB/s (48.8 k/s)", "200 MB/s (48.8 k/s)"),
            ("5k/s", "", "5.00 k/s"),
            (
                "read=2k/s,write=4096kB/s",
                "read 2.00 k/s, write 4.10 MB/s (3.00 k/s)",
                "read 2.00 k/s, write 4.10 MB/s (3.00 k/s)",
            ),
        ] {
            let rate: OfferedRate = flag.parse().unwrap();
            let spec = named.clone().with_offered(&rate, None).unwrap();
            assert_eq!(spec.changes_from(&named, Some(&rate), false).join(", "), listed);
            assert_eq!(spec.changes_from(&named, Some(&rate), true).join(", "), alone);
        }
    }
}
