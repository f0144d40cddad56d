//! The stored form of a specification: a workload file in which every key is written out (`mix_order` and `[flush]`
//! only if used: stored forms of earlier versions lack them). This version and later ones can read it, and apply the
//! rules again.
//!
//! With serde, a [`Spec`] is the same file as a structure of its keys. A format that rounds numbers (JSON, read by
//! serde_json without its `float_roundtrip`) would change shares.

use core::fmt::{self, Write as _};

use iodyno_catalog::{FileError, SCHEMA};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::file_set::FileSet;
use crate::range::size_text;
use crate::spec::{
    Address, ArrivalKind, Batches, Block, Content, MixOrder, NewFile, Pattern, Process, Scope,
    Spec, Steady, SteadyFigure,
};

impl Spec {
    /// The specification as a workload file with every key written out.
    pub fn to_toml(&self) -> String {
        Canonical(self).to_string()
    }
}

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table: toml::Table = self.to_toml().parse().map_err(serde::ser::Error::custom)?;
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = toml::Table::deserialize(deserializer)?.to_string();
        Self::from_toml(&text).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(FileError::to_string).collect();
            D::Error::custom(all.join("\n"))
        })
    }
}

/// Writes a specification. Shares and rates have the fewest digits that read back as the same number, times are in
/// ns, sizes in the largest unit that is exact.
struct Canonical<'a>(&'a Spec);

impl fmt::Display for Canonical<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.0;
        writeln!(f, "schema = {SCHEMA}")?;
        if !spec.about.is_empty() {
            writeln!(f, "about = {}", quoted(&spec.about))?;
        }
        if let Some(source) = &spec.source {
            writeln!(f, "source = {}", quoted(source))?;
        }
        writeln!(f, "threads = {}\ndepth = {}", spec.threads, spec.depth)?;
        if let Some(batch) = spec.submit_batch {
            writeln!(f, "submit_batch = {batch}")?;
        }
        writeln!(f, "block = {}", blocks(&spec.block))?;
        if let Some(align) = spec.align_bytes {
            writeln!(f, "align = \"{}\"", size_text(align.into()))?;
        }
        if let Some(align) = spec.address_align_bytes {
            writeln!(f, "address_align = \"{}\"", size_text(align.into()))?;
        }
        writeln!(f, "active = \"{}\"", spec.active)?;
        match spec.new_file {
            NewFile::Written => {}
            NewFile::Allocated => writeln!(f, "new_file = \"allocated\"")?,
            NewFile::Empty => writeln!(f, "new_file = \"empty\"")?,
        }
        if spec.mix_order == MixOrder::Ratio {
            writeln!(f, "mix_order = \"ratio\"")?;
        }
        if let Some(step) = spec.worker_step_bytes {
            writeln!(f, "worker_step = \"{}\"", size_text(step))?;
        }
        if let Some(log) = &spec.log {
            write!(f, "\n{log}")?;
        }
        if let Some(FileSet { files, size, extent_bytes }) = &spec.file_set {
            writeln!(f, "\n[file_set]\nfiles = {files}\nsize = \"{size}\"")?;
            if let Some(bytes) = extent_bytes {
                writeln!(f, "extent = \"{}\"", size_text(*bytes))?;
            }
        }
        writeln!(f, "\n[mix]")?;
        for (kind, share) in spec.kinds() {
            writeln!(f, "{} = {share}", kind.name())?;
        }
        for scope in Scope::ALL {
            let table = &spec.tables[scope as usize];
            if !table.given {
                continue;
            }
            writeln!(f, "\n[{}]", scope.key())?;
            if !table.block.is_empty() {
                writeln!(f, "block = {}", blocks(&table.block))?;
            }
            if !table.addresses.is_empty() {
                writeln!(f, "addresses = {}", addresses(&table.addresses)?)?;
            }
            if scope == Scope::Write {
                writeln!(f, "fua = \"{}\"\nflush_every = {}", spec.fua, spec.flush_every)?;
                if spec.flush_at_end > 0 {
                    writeln!(f, "flush_at_end = {}", spec.flush_at_end)?;
                }
                if spec.flush_again {
                    writeln!(f, "flush_again = true")?;
                }
                if spec.read_back > 0 {
                    writeln!(f, "read_back = {}", spec.read_back)?;
                }
            }
        }
        if let Some(bursts) = spec.flush_bursts {
            writeln!(f, "\n[flush]\nevery = {}\nburst = {}", bursts.every, bursts.burst)?;
        }
        writeln!(f, "\n[arrivals]")?;
        match spec.arrivals {
            ArrivalKind::Closed { think_time_ns, think_drains } => writeln!(
                f,
                "kind = \"closed\"\nthink_time = \"{think_time_ns}ns\"\nthink_drains = {think_drains}"
            )?,
            ArrivalKind::Open { rate_iops, process } => {
                let process = match process {
                    Process::Poisson => "poisson",
                    Process::Constant => "constant",
                };
                writeln!(f, "kind = \"open\"\nrate = \"{rate_iops}/s\"\nprocess = \"{process}\"")?;
            }
        }
        let Batches { think_after, think_after_ns, pause_ns, think_shifts, refill_at, flow } =
            spec.batches;
        if pause_ns > 0 {
            writeln!(f, "think_time = \"{pause_ns}ns\"")?;
        }
        if think_shifts {
            writeln!(f, "think_shifts = true")?;
        }
        if let Some(ns) = think_after_ns {
            writeln!(f, "think_after_time = \"{ns}ns\"")?;
        }
        for (key, value) in [("think_after", think_after), ("refill_at", refill_at), ("flow", flow)]
        {
            if let Some(value) = value {
                writeln!(f, "{key} = {value}")?;
            }
        }
        writeln!(f, "\n[content]")?;
        let kind = match spec.content {
            Content::Incompressible => "incompressible",
            Content::Compressible { .. } => "compressible",
            Content::Verifiable => "verifiable",
            Content::Zeroes => "zeroes",
        };
        writeln!(f, "kind = \"{kind}\"")?;
        if let Content::Compressible { compressible, dedupable } = spec.content {
            writeln!(f, "compressible = \"{compressible}\"\ndedupable = \"{dedupable}\"")?;
        }
        writeln!(f, "\n[limits]")?;
        if let Some(time_ns) = spec.limits.time_ns {
            writeln!(f, "time = \"{time_ns}ns\"")?;
        }
        if let Some(ops) = spec.limits.ops {
            writeln!(f, "ops = {ops}")?;
        }
        if let Some(bytes) = spec.limits.bytes {
            writeln!(f, "bytes = \"{}\"", size_text(bytes))?;
        }
        writeln!(f, "ramp = \"{}ns\"", spec.limits.ramp_ns)?;
        if let Some(passes) = spec.limits.passes {
            writeln!(f, "passes = {passes}")?;
        }
        if spec.limits.start_after_ns > 0 {
            writeln!(f, "start_after = \"{}ns\"", spec.limits.start_after_ns)?;
        }
        if spec.limits.ends_others {
            writeln!(f, "ends_others = true")?;
        }
        if let Some(Steady { figure, by_slope, within, window_ns, after_ns }) = spec.limits.steady {
            let figure = match figure {
                SteadyFigure::Iops => "iops",
                SteadyFigure::Bandwidth => "bandwidth",
                SteadyFigure::Latency => "latency",
            };
            let by = if by_slope { "slope" } else { "deviation" };
            writeln!(
                f,
                "\n[limits.steady]\nof = \"{figure}\"\nby = \"{by}\"\nwithin = \"{within}\"\nwindow = \"{window_ns}ns\"\nafter = \"{after_ns}ns\""
            )?;
        }
        Ok(())
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn blocks(blocks: &[Block]) -> String {
    if let [Block { bytes, .. }] = blocks {
        return format!("\"{}\"", size_text((*bytes).into()));
    }
    let items: Vec<String> = blocks
        .iter()
        .map(|b| format!("{{ size = \"{}\", share = {} }}", size_text(b.bytes.into()), b.share))
        .collect();
    format!("[{}]", items.join(", "))
}

fn addresses(addresses: &[Address]) -> Result<String, fmt::Error> {
    let mut text = String::from("[");
    for Address { pattern, share } in addresses {
        if text.len() > 1 {
            text.push_str(", ");
        }
        let name = match pattern {
            Pattern::Uniform { .. } => "uniform",
            Pattern::Sequential { .. }
            | Pattern::ToEnd
            | Pattern::Skips { .. }
            | Pattern::Jumps { .. }
            | Pattern::Streams { .. } => "sequential",
            Pattern::Zipf { .. } => "zipf",
            Pattern::Pareto { .. } => "pareto",
            Pattern::Normal { .. } => "normal",
            Pattern::Zones { .. } => "zones",
            Pattern::HotSpots { .. } => "hot-spots",
            Pattern::RecentlyRead { .. } => "recently-read",
            Pattern::RecentlyWritten { .. } => "recently-written",
            Pattern::Strided { .. } => "strided",
        };
        write!(text, "{{ pattern = \"{name}\", share = {share}")?;
        match pattern {
            Pattern::Uniform { once_per_pass } => {
                write!(text, ", once_per_pass = {once_per_pass}")?;
            }
            Pattern::Sequential { shared, run } => {
                write!(text, ", shared = {shared}")?;
                if let Some(run) = run {
                    write!(text, ", run = {run}")?;
                }
            }
            Pattern::ToEnd => text.push_str(", to_end = true"),
            Pattern::Zipf { theta } => write!(text, ", theta = {theta}")?,
            Pattern::Pareto { h } => write!(text, ", h = {h}")?,
            Pattern::Zones { zone_bytes, open } => {
                write!(text, ", zone = \"{}\", open = {open}", size_text(*zone_bytes))?;
            }
            Pattern::Normal { deviation } => write!(text, ", deviation = \"{deviation}\"")?,
            Pattern::Skips { run, skip_bytes } => {
                write!(text, ", run = {run}, skip = \"{}\"", size_text(*skip_bytes))?;
            }
            Pattern::Jumps { share } => write!(text, ", jump = \"{share}\"")?,
            Pattern::Streams { streams } => write!(text, ", streams = {streams}")?,
            Pattern::HotSpots { spots, scatter } => {
                let spots: Vec<String> = spots
                    .iter()
                    .map(|s| format!("{{ share = {}, range = \"{}\" }}", s.share, s.range))
                    .collect();
                write!(text, ", scatter = {scatter}, spots = [{}]", spots.join(", "))?;
            }
            Pattern::RecentlyRead { window } | Pattern::RecentlyWritten { window } => {
                write!(text, ", window = {window}")?;
            }
            Pattern::Strided { stride_bytes, start_bytes, backward } => {
                let (stride, start) = (size_text(*stride_bytes), size_text(*start_bytes));
                write!(text, ", stride = \"{stride}\", start = \"{start}\"")?;
                if *backward {
                    text.push_str(", backward = true");
                }
            }
        }
        text.push_str(" }");
    }
    text.push(']');
    Ok(text)
}
