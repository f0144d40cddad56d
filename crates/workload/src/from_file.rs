//! Conversion of a file to a specification: fills in defaults, and then applies the rules. It finds all errors
//! at once: an unreadable value is replaced by one that passes all rules.

use iodyno_catalog::{Entry, FileError, Reader, Record};
use iodyno_units::OpKind;

use crate::file_set::FileSet;
use crate::group::{Group, Workload};
use crate::log_load::{LogDurability, LogLoad, WhenFull};
use crate::rules;
use crate::schema::KEYS;
use crate::spec::{
    ActiveRange, Address, ArrivalKind, Batches, Block, Content, Edge, FlushBursts, Limits,
    MixOrder, NewFile, Pattern, Percent, Process, Scope, Spec, Spot, Steady, SteadyFigure, Table,
    saturated,
};

/// Default number of addresses that a `recently-…` pattern remembers.
const DEFAULT_WINDOW: u64 = 4096;

impl Workload {
    /// Reads a workload file that may be a group.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        match reader.file(text, None, KEYS) {
            None => Err(reader.errors),
            Some(record) if record.get("group").is_some() => {
                Group::read(reader, &record).map(Self::Group)
            }
            Some(record) => read(reader, &record).map(|spec| Self::Single(Box::new(spec))),
        }
    }
}

impl Spec {
    /// Reads the file of one workload.
    ///
    /// # Errors
    /// All errors of the file, including that it is a group.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        match reader.file(text, None, KEYS) {
            None => Err(reader.errors),
            Some(record) => read(reader, &record),
        }
    }

    /// Converts a table that was read with [`KEYS`].
    ///
    /// # Errors
    /// All errors of the table, including that it is a group.
    pub fn from_record(record: &Record) -> Result<Self, Vec<FileError>> {
        read(Reader::default(), record)
    }
}

fn read(mut reader: Reader, record: &Record) -> Result<Spec, Vec<FileError>> {
    if let Some(group) = record.get("group") {
        reader.refuse(group.span.clone(), "this is a group, not one workload", "");
        return Err(reader.errors);
    }
    let spec = spec(&mut reader, record);
    for fault in rules::check(&spec) {
        reader.fault(record, fault);
    }
    reader.finish().map(|_| spec)
}

fn spec(reader: &mut Reader, record: &Record) -> Spec {
    let mut tables: [Table; Scope::COUNT] = Default::default();
    for scope in Scope::ALL {
        tables[scope as usize] = Table {
            given: scope == Scope::All || record.get(scope.key()).is_some(),
            block: blocks(reader, record, &format!("{}.block", scope.key())),
            addresses: addresses(reader, record, &format!("{}.addresses", scope.key())),
        };
    }
    let all = &mut tables[Scope::All as usize].addresses;
    if all.is_empty() {
        all.push(Address { pattern: Pattern::Uniform { once_per_pass: false }, share: 1.0 });
    }
    let mut block = blocks(reader, record, "block");
    let log = log_load(reader, record);
    if block.is_empty() {
        // The default chunk of a log is 64 KiB.
        let bytes = if log.is_some() { 64 << 10 } else { 4096 };
        block.push(Block { bytes, share: 1.0 });
    }
    let active = record.text("active").and_then(|text| {
        let read = text.parse::<ActiveRange>();
        read.map_err(|error| reader.refuse(record.place("active"), error, "")).ok()
    });
    let file_set = file_set(reader, record);
    Spec {
        about: record.text("about").unwrap_or_default().to_owned(),
        source: record.text("source").map(str::to_owned),
        threads: record
            .whole("threads")
            .map_or_else(|| log.map_or(1, |log| log.threads()), saturated),
        depth: saturated(record.whole("depth").unwrap_or(1)),
        submit_batch: record.whole("submit_batch").map(saturated),
        block,
        align_bytes: record.whole("align").map(saturated).or(log.map(|_| 4096)),
        address_align_bytes: record.whole("address_align").map(saturated),
        worker_step_bytes: record.whole("worker_step"),
        active: active.unwrap_or(ActiveRange::WHOLE),
        file_set,
        mix: match &log {
            Some(log) if record.get("mix").is_none() => log.mix(),
            _ => mix(reader, record),
        },
        log,
        mix_order: match record.word("mix_order") {
            Some("ratio") => MixOrder::Ratio,
            _ => MixOrder::Drawn,
        },
        flush_bursts: record.whole("flush.every").map(|every| FlushBursts {
            every: saturated(every),
            burst: saturated(record.whole("flush.burst").unwrap_or(1)),
        }),
        tables,
        fua: record.real("write.fua").map(Percent::from_fraction).unwrap_or_default(),
        flush_every: saturated(record.whole("write.flush_every").unwrap_or(0)),
        flush_at_end: saturated(record.whole("write.flush_at_end").unwrap_or(0)),
        flush_again: record.flag("write.flush_again").unwrap_or(false),
        read_back: saturated(record.whole("write.read_back").unwrap_or(0)),
        new_file: match record.word("new_file") {
            Some("allocated") => NewFile::Allocated,
            Some("empty") => NewFile::Empty,
            _ => NewFile::Written,
        },
        arrivals: arrivals(record),
        batches: batches(record),
        content: content(record),
        limits: limits(record),
    }
}

fn file_set(reader: &mut Reader, record: &Record) -> Option<FileSet> {
    record.get("file_set")?;
    let size = record.text("file_set.size").unwrap_or("50%").parse::<ActiveRange>();
    let size = size.map_err(|error| reader.refuse(record.place("file_set.size"), error, ""));
    Some(FileSet {
        files: saturated(record.whole("file_set.files").unwrap_or(1)),
        size: size.map_or(Edge::Share(Percent::ALL), |range| range.end),
        extent_bytes: record.whole("file_set.extent"),
    })
}

fn log_load(reader: &mut Reader, record: &Record) -> Option<LogLoad> {
    record.get("log")?;
    let rate_per_s = record.real("log.rate");
    let of = |path: &str| record.whole(path).map(saturated);
    let durability = match record.word("log.durability") {
        Some("none") => LogDurability::None,
        Some("each") => LogDurability::Each,
        _ => LogDurability::Batch,
    };
    let fua = record.flag("log.fua") == Some(true);
    if fua && durability == LogDurability::None {
        let help = "leave `fua` out, or write `durability = \"batch\"`";
        let message = "writes with FUA are durable, and the log is not to be";
        reader.refuse(record.place("log.fua"), message, help);
    }
    Some(LogLoad {
        message_bytes: saturated(
            record.whole("log.message").unwrap_or(LogLoad::DEFAULT_MESSAGE_BYTES),
        ),
        rate_per_s,
        publishers: of("log.publishers").unwrap_or(1),
        backlog: record.whole("log.backlog").or(rate_per_s.map(|_| LogLoad::DEFAULT_BACKLOG)),
        when_full: match record.word("log.when_full") {
            Some("drop") => WhenFull::Drop,
            _ => WhenFull::Block,
        },
        durability,
        fua,
        batch: of("log.batch"),
        commit_chunks: of("log.commit").unwrap_or(16),
        readers: of("log.readers").unwrap_or(0),
        replay_chunks: of("log.replay").unwrap_or(LogLoad::DEFAULT_REPLAY_CHUNKS),
    })
}

fn blocks(reader: &mut Reader, record: &Record, path: &str) -> Vec<Block> {
    if record.get(path).is_some_and(|list| list.is_array() && list.items().is_empty()) {
        reader.refuse(
            record.place(path),
            "no block size is given",
            "write a size such as `\"4KiB\"`",
        );
    }
    let one = |block: &Record| Block {
        bytes: block.whole("size").map_or(4096, saturated),
        share: block.real("share").unwrap_or(1.0),
    };
    record.records(path).map(one).collect()
}

/// Shares by kind. An explicit share of 0 differs from a missing one: the rules can't express this, so it is
/// refused here.
fn mix(reader: &mut Reader, record: &Record) -> [f64; OpKind::COUNT] {
    let mut shares = [0.0; OpKind::COUNT];
    for kind in OpKind::ALL {
        let path = format!("mix.{}", kind.name());
        let Some(entry) = record.get(&path) else { continue };
        let share = entry.real().unwrap_or(1.0);
        if share == 0.0 {
            let help = format!("leave `{}` out of the mix", kind.name());
            reader.refuse(entry.span.clone(), "a share of 0 issues nothing", help);
        }
        shares[kind.index()] = share;
    }
    shares
}

fn addresses(reader: &mut Reader, record: &Record, path: &str) -> Vec<Address> {
    let Some(list) = record.get(path) else { return Vec::new() };
    if list.is_array() && list.items().is_empty() {
        let help = "write one such as `\"uniform\"`, or leave the key out";
        reader.refuse(list.span.clone(), "no pattern of addresses is given", help);
    }
    for item in list.items().iter().filter(|_| list.items().len() > 1) {
        if item.record().is_some_and(|address| address.get("share").is_none()) {
            let help = "each of several patterns needs one";
            reader.refuse(item.span.clone(), "this pattern has no `share`", help);
        }
    }
    for address in list.items().iter().filter_map(Entry::record) {
        let of = |names: &[&str]| names.iter().filter_map(|name| address.get(name)).count();
        let alone = of(&["skip", "jump", "streams", "shared", "to_end"]) + of(&["run"]);
        let is_skip = alone == 2 && of(&["skip", "run"]) == 2;
        let is_shared_run = of(&["skip", "jump", "streams", "to_end"]) == 0;
        if alone > 1 && !is_skip && !is_shared_run {
            let help = "`run` combines with `skip` only; `jump`, `streams`, `shared` and `to_end` with nothing";
            let at =
                ["streams", "jump", "skip", "to_end"].iter().find_map(|name| address.get(name));
            let span = at.map_or_else(|| list.span.clone(), |entry| entry.span.clone());
            reader.refuse(span, "keys that don't go together", help);
        }
    }
    let one = |address: &Record| Address {
        pattern: pattern(address),
        share: address.real("share").unwrap_or(1.0),
    };
    record.records(path).map(one).collect()
}

fn pattern(address: &Record) -> Pattern {
    let window = saturated(address.whole("window").unwrap_or(DEFAULT_WINDOW));
    let is = |path: &str| address.flag(path) == Some(true);
    match address.word("pattern") {
        Some("sequential") => {
            let run = address.whole("run");
            if let Some(skip_bytes) = address.whole("skip") {
                Pattern::Skips { run: run.unwrap_or(1), skip_bytes }
            } else if let Some(share) = address.real("jump") {
                Pattern::Jumps { share: Percent::from_fraction(share) }
            } else if let Some(streams) = address.whole("streams") {
                Pattern::Streams { streams: saturated(streams) }
            } else if is("to_end") {
                Pattern::ToEnd
            } else {
                Pattern::Sequential { shared: is("shared"), run }
            }
        }
        Some("zipf") => Pattern::Zipf { theta: address.real("theta").unwrap_or(1.0) },
        Some("pareto") => Pattern::Pareto { h: address.real("h").unwrap_or(0.2) },
        Some("normal") => Pattern::Normal {
            deviation: Percent::from_fraction(address.real("deviation").unwrap_or(0.0)),
        },
        Some("zones") => Pattern::Zones {
            zone_bytes: address.whole("zone").unwrap_or(1 << 30),
            open: saturated(address.whole("open").unwrap_or(1)),
        },
        Some("hot-spots") => {
            let spot = |spot: &Record| {
                let range = Percent::from_fraction(spot.real("range")?);
                Some(Spot { share: spot.real("share")?, range })
            };
            let spots =
                address.get("spots").and_then(|_| address.records("spots").map(spot).collect());
            let spots = spots.unwrap_or_else(|| vec![Spot { share: 1.0, range: Percent::ALL }]);
            Pattern::HotSpots { spots, scatter: is("scatter") }
        }
        Some("recently-read") => Pattern::RecentlyRead { window },
        Some("recently-written") => Pattern::RecentlyWritten { window },
        Some("strided") => Pattern::Strided {
            stride_bytes: address.whole("stride").unwrap_or(1 << 30),
            start_bytes: address.whole("start").unwrap_or(0),
            backward: is("backward"),
        },
        _ => Pattern::Uniform { once_per_pass: is("once_per_pass") },
    }
}

fn arrivals(record: &Record) -> ArrivalKind {
    if record.word("arrivals.kind") != Some("open") {
        return ArrivalKind::Closed {
            think_time_ns: record.whole("arrivals.think_time").unwrap_or(0),
            think_drains: record.flag("arrivals.think_drains") == Some(true),
        };
    }
    let process = match record.word("arrivals.process") {
        Some("constant") => Process::Constant,
        _ => Process::Poisson,
    };
    ArrivalKind::Open { rate_iops: record.real("arrivals.rate").unwrap_or(1.0), process }
}

fn batches(record: &Record) -> Batches {
    let of = |path: &str| record.whole(path).map(saturated);
    Batches {
        think_after: of("arrivals.think_after"),
        think_after_ns: record.whole("arrivals.think_after_time"),
        pause_ns: match record.word("arrivals.kind") {
            Some("open") => record.whole("arrivals.think_time").unwrap_or(0),
            _ => 0,
        },
        think_shifts: record.flag("arrivals.think_shifts") == Some(true),
        refill_at: of("arrivals.refill_at"),
        flow: of("arrivals.flow"),
    }
}

fn content(record: &Record) -> Content {
    let share = |path: &str| {
        let read = |entry: &Entry| entry.real().map_or(Percent::ALL, Percent::from_fraction);
        record.get(path).map_or(Percent::ZERO, read)
    };
    match record.word("content.kind") {
        Some("verifiable") => Content::Verifiable,
        Some("zeroes") => Content::Zeroes,
        Some("compressible") => Content::Compressible {
            compressible: share("content.compressible"),
            dedupable: share("content.dedupable"),
        },
        _ => Content::Incompressible,
    }
}

fn limits(record: &Record) -> Limits {
    let of = |path: &str| record.whole(path);
    let (mut time_ns, ops, bytes) = (of("limits.time"), of("limits.ops"), of("limits.bytes"));
    let passes = record.real("limits.passes");
    if (time_ns, ops, bytes, passes) == (None, None, None, None) {
        time_ns = Some(Limits::DEFAULT_TIME_NS);
    }
    let ramp_ns = of("limits.ramp").unwrap_or(Limits::DEFAULT_RAMP_NS);
    Limits {
        time_ns,
        ops,
        bytes,
        ramp_ns,
        passes,
        start_after_ns: of("limits.start_after").unwrap_or(0),
        ends_others: record.flag("limits.ends_others") == Some(true),
        steady: record.get("limits.steady").map(|_| steady(record)),
    }
}

fn steady(record: &Record) -> Steady {
    Steady {
        figure: match record.word("limits.steady.of") {
            Some("bandwidth") => SteadyFigure::Bandwidth,
            Some("latency") => SteadyFigure::Latency,
            _ => SteadyFigure::Iops,
        },
        by_slope: record.word("limits.steady.by") == Some("slope"),
        within: record.real("limits.steady.within").map_or(Percent::ALL, Percent::from_fraction),
        window_ns: record.whole("limits.steady.window").unwrap_or(2_000_000_000),
        after_ns: record.whole("limits.steady.after").unwrap_or(0),
    }
}
