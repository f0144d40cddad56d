//! The keys of a workload file, in one table that defines the schema, the reader ([`read`]) and the writer
//! (`keys/text.rs`). A row names a key, the form of its value, and its field of [`Spec`]. The stored form has the
//! keys in the order of the rows.
//!
//! `docs/formats/workload.md` defines the meaning of the keys, `rules.rs` their limits, and `from_file.rs` the
//! defaults that depend on other keys.

mod addresses;
mod field;
mod text;
mod value;

use addresses::{ADDRESSES, BLOCKS};
use field::Field;
use iodyno_catalog::{COUNT, Key, NUMBER, Reader, Record, SCHEMA, TIME, ValueType};
use iodyno_units::OpKind;

pub(crate) use text::text;
pub(crate) use value::Form;
use value::Value;

use crate::file_set::FileSet;
use crate::log_load::{LogDurability, LogLoad, WhenFull};
use crate::spec::{
    ActiveRange, ArrivalKind, Content, FlushBursts, MixOrder, NewFile, Percent, Process, Scope,
    Spec, Steady, SteadyFigure,
};

/// In which forms of a workload file a key appears although its value is the default: stored (kept with a run) or
/// short (for people).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// A key with its default appears only in the stored form.
    Full,
    /// A key with its default appears in neither form, because workloads stored by earlier versions lack the key.
    Sparse,
    /// A key with its default appears in both forms.
    Always,
}

/// A key of the workload file, with functions that read it into a [`Spec`] and write it from one.
#[derive(Clone, Copy)]
struct Row {
    key: Key,
    /// Returns the key's value; None if the specification has no such setting. For a table: whether it is
    /// written.
    get: fn(&Spec) -> Option<Value>,
    /// Copies the key's value, which must exist in the record, into the specification. For a table: creates the
    /// table.
    set: fn(&mut Spec, &mut Reader, &Record),
    written: Written,
    /// Keys that the table contains; empty if the key is not a table.
    rows: &'static [Row],
}

impl Row {
    const fn new(
        key: Key,
        get: fn(&Spec) -> Option<Value>,
        set: fn(&mut Spec, &mut Reader, &Record),
    ) -> Self {
        Self { key, get, set, written: Written::Full, rows: &[] }
    }

    const fn required(mut self) -> Self {
        self.key.required = true;
        self
    }

    const fn such_as(mut self, example: &'static str) -> Self {
        self.key = self.key.such_as(example);
        self
    }

    const fn only(mut self, words: &'static [&'static str]) -> Self {
        self.key = self.key.only(words);
        self
    }

    const fn sparse(mut self) -> Self {
        self.written = Written::Sparse;
        self
    }

    const fn always(mut self) -> Self {
        self.written = Written::Always;
        self
    }
}

/// Defines a key that sets one field, either of the specification (`depth`, `limits.ops`) or of an optional table
/// (`log? batch`).
macro_rules! key {
    ($path:literal, $form:expr, $table:ident $(. $of:ident)* ? $field:ident) => {
        Row::new(
            Key::optional($path, $form),
            |spec| spec.$table$(.$of)*.as_ref().and_then(|table| table.$field.value($form)),
            |spec, _, record| {
                if let (Some(table), Some(value)) =
                    (&mut spec.$table$(.$of)*, Field::read(record, $path))
                {
                    table.$field = value;
                }
            },
        )
    };
    ($path:literal, $form:expr, $($field:ident).+) => {
        Row::new(
            Key::optional($path, $form),
            |spec| spec.$($field).+.value($form),
            |spec, _, record| {
                if let Some(value) = Field::read(record, $path) {
                    spec.$($field).+ = value;
                }
            },
        )
    };
    ($path:literal, $form:expr, $get:expr, $set:expr) => {
        Row::new(Key::optional($path, $form), $get, $set)
    };
}

/// Defines a TOML table of a workload file: its keys, when to write the table, and how a specification changes if its
/// file has the table.
macro_rules! table {
    ($path:literal, $rows:ident, $is_written:expr, $set:expr) => {
        Row {
            rows: &$rows,
            ..Row::new(
                Key::optional($path, ValueType::Table(const { &keys_of(&$rows) })),
                |spec| $is_written(spec).then(|| Value::Text(String::new())),
                $set,
            )
        }
    };
    // A table that the specification always has.
    ($path:literal, $rows:ident) => {
        table!($path, $rows, |_: &Spec| true, |_, _, _| {})
    };
    // A table that the specification may have, made with this default.
    ($path:literal, $rows:ident, $($field:ident).+ = $default:expr) => {
        table!(
            $path,
            $rows,
            |spec: &Spec| spec.$($field).+.is_some(),
            |spec, _, _| spec.$($field).+ = Some($default)
        )
    };
    // A table of a kind of operation.
    ($path:literal, $rows:ident, $scope:expr) => {
        table!(
            $path,
            $rows,
            |spec: &Spec| spec.tables[$scope as usize].given,
            |spec, _, _| spec.tables[$scope as usize].given = true
        )
    };
}

/// Defines a key whose value is a list of block sizes.
macro_rules! block {
    ($path:literal, $($place:tt)+) => {
        key!(
            $path,
            ValueType::TablesOrFirst(BLOCKS),
            |spec| addresses::blocks_value(&spec.$($place)+),
            |spec, reader, record| spec.$($place)+ = addresses::blocks(reader, record, $path)
        )
        .such_as("\"4KiB\"")
    };
}

/// Defines a key whose value is a list of address patterns.
macro_rules! addresses {
    ($path:literal, $scope:expr) => {
        key!(
            $path,
            ValueType::TablesOrFirst(ADDRESSES),
            |spec| addresses::addresses_value(&spec.tables[$scope as usize].addresses),
            |spec, reader, record| {
                let read = addresses::addresses(reader, record, $path);
                spec.tables[$scope as usize].addresses = read;
            }
        )
        .such_as("\"uniform\"")
    };
}

/// Defines a key for the share of one kind of operation in the mix. Refuses a share of 0 when it is read,
/// because the specification stores a missing share as 0, too.
macro_rules! share {
    ($path:literal, $kind:expr) => {
        key!(
            $path,
            NUMBER,
            |spec| Some(spec.mix[$kind.index()]).filter(|share| *share != 0.0).value(NUMBER),
            |spec, reader, record| {
                let share = record.real($path).unwrap_or(1.0);
                if share == 0.0 {
                    let help = format!("leave `{}` out of the mix", $kind.name());
                    reader.refuse(record.place($path), "a share of 0 issues nothing", help);
                }
                spec.mix[$kind.index()] = share;
            }
        )
        .such_as("70")
    };
}

/// Defines a key for a percentage of the content of writes. An unreadable value counts as 100 %, which causes
/// no further errors.
macro_rules! content_share {
    ($path:literal, $field:ident) => {
        key!(
            $path,
            ValueType::Percent,
            |spec| match spec.content {
                Content::Compressible { $field, .. } => $field.value(ValueType::Percent),
                _ => None,
            },
            |spec, _, record| {
                if let Content::Compressible { $field, .. } = &mut spec.content {
                    *$field = Field::read(record, $path).unwrap_or(Percent::ALL);
                }
            }
        )
        .only(&["compressible"])
    };
}

const fn keys_of<const N: usize>(rows: &[Row; N]) -> [Key; N] {
    let mut keys = [rows[0].key; N];
    let mut at = 1;
    while at < N {
        keys[at] = rows[at].key;
        at += 1;
    }
    keys
}

/// Keys of a workload file. In a method's file, the table `io` of a stage has the same keys, except for the file header
/// `schema`.
pub const KEYS: &[Key] = &keys_of(&ROWS);

const ROWS: [Row; 26] = [
    key!("schema", ValueType::Header, |_| SCHEMA.value(COUNT), |_, _, _| {}).always(),
    key!("about", ValueType::Text, about).sparse(),
    key!("source", ValueType::Text, source),
    key!("group", ValueType::List(&ValueType::Text), |_| None, |_, _, _| {})
        .such_as("[\"random-read\"]"),
    key!("threads", COUNT, threads).always(),
    key!("depth", COUNT, depth).always(),
    key!("submit_batch", COUNT, submit_batch),
    block!("block", block),
    key!("align", ValueType::Bytes, align_bytes),
    key!("address_align", ValueType::Bytes, address_align_bytes),
    key!("active", ValueType::Text, |spec| Some(Value::quoted(spec.active)), read_active)
        .such_as("\"0%..100%\"")
        .always(),
    key!("new_file", ValueType::Word(NewFile::WORDS), new_file).sparse(),
    key!("mix_order", ValueType::Word(MixOrder::WORDS), mix_order).sparse(),
    key!("worker_step", ValueType::Bytes, worker_step_bytes),
    table!("log", LOG, log = LogLoad::DEFAULT),
    table!("file_set", FILE_SET, file_set = FileSet::EMPTY),
    table!("mix", MIX),
    table!("all", ALL, Scope::All),
    table!("read", READ, Scope::Read),
    table!("write", WRITE, Scope::Write),
    table!("trim", TRIM, Scope::Trim),
    table!("write_zeroes", WRITE_ZEROES, Scope::WriteZeroes),
    table!("flush", FLUSH, flush_bursts = FlushBursts::ONE),
    table!("arrivals", ARRIVALS),
    table!("content", CONTENT),
    table!("limits", LIMITS),
];

const LOG: [Row; 11] = [
    key!(
        "log.message",
        ValueType::Bytes,
        // Stored as a number, without a unit.
        |spec| spec.log.and_then(|log| log.message_bytes.value(COUNT)),
        |spec, _, record| {
            if let (Some(log), Some(bytes)) = (&mut spec.log, Field::read(record, "log.message")) {
                log.message_bytes = bytes;
            }
        }
    )
    .such_as("\"512B\""),
    key!("log.rate", ValueType::Rate, log? rate_per_s).such_as("\"1M/s\""),
    key!("log.publishers", COUNT, log? publishers),
    key!("log.backlog", COUNT, log? backlog),
    key!("log.when_full", ValueType::Word(WhenFull::WORDS), log? when_full),
    key!("log.durability", ValueType::Word(LogDurability::WORDS), log? durability),
    key!("log.fua", ValueType::Flag, log? fua),
    key!("log.batch", COUNT, log? batch),
    key!("log.commit", COUNT, log? commit_chunks),
    key!("log.readers", COUNT, log? readers),
    key!("log.replay", COUNT, log? replay_chunks),
];

const FILE_SET: [Row; 3] = [
    key!("file_set.files", COUNT, file_set? files).required().such_as("64"),
    key!(
        "file_set.size",
        ValueType::Text,
        |spec| spec.file_set.map(|set| Value::quoted(set.size)),
        |spec, reader, record| {
            let size = range(reader, record, "file_set.size");
            if let (Some(set), Some(size)) = (&mut spec.file_set, size) {
                set.size = size.end;
            }
        }
    )
    .required()
    .such_as("\"50%\""),
    key!("file_set.extent", ValueType::Bytes, file_set? extent_bytes),
];

const MIX: [Row; 5] = [
    share!("mix.read", OpKind::Read),
    share!("mix.write", OpKind::Write),
    share!("mix.flush", OpKind::Flush),
    share!("mix.trim", OpKind::Trim),
    share!("mix.write_zeroes", OpKind::WriteZeroes),
];

const ALL: [Row; 1] = [addresses!("all.addresses", Scope::All)];

const READ: [Row; 2] = [
    block!("read.block", tables[Scope::Read as usize].block),
    addresses!("read.addresses", Scope::Read),
];

const WRITE: [Row; 8] = [
    block!("write.block", tables[Scope::Write as usize].block),
    addresses!("write.addresses", Scope::Write),
    key!("write.fua", ValueType::Percent, fua),
    key!("write.flush_every", COUNT, flush_every),
    key!("write.flush_at_end", COUNT, flush_at_end).sparse(),
    key!("write.flush_again", ValueType::Flag, flush_again).sparse(),
    key!("write.flush_waits", ValueType::Flag, flush_waits).sparse(),
    key!("write.read_back", COUNT, read_back).sparse(),
];

const TRIM: [Row; 2] = [
    block!("trim.block", tables[Scope::Trim as usize].block),
    addresses!("trim.addresses", Scope::Trim),
];

const WRITE_ZEROES: [Row; 2] = [
    block!("write_zeroes.block", tables[Scope::WriteZeroes as usize].block),
    addresses!("write_zeroes.addresses", Scope::WriteZeroes),
];

const FLUSH: [Row; 2] = [
    key!("flush.every", COUNT, flush_bursts? every).required().such_as("100"),
    key!("flush.burst", COUNT, flush_bursts? burst),
];

/// Keys of `[arrivals]`. `kind` must be read first, because it selects the variant that the other keys
/// modify.
const ARRIVALS: [Row; 10] = [
    key!(
        "arrivals.kind",
        ValueType::Kind(&["closed", "open"], "a loop that is"),
        |spec| Some(Value::quoted(if spec.is_open() { "open" } else { "closed" })),
        |spec, _, record| {
            if record.word("arrivals.kind") == Some("open") {
                spec.arrivals = ArrivalKind::Open { rate_iops: 1.0, process: Process::Poisson };
            }
        }
    )
    .required(),
    key!(
        "arrivals.rate",
        ValueType::Rate,
        |spec| match spec.arrivals {
            ArrivalKind::Open { rate_iops, .. } => rate_iops.value(ValueType::Rate),
            ArrivalKind::Closed { .. } => None,
        },
        |spec, _, record| {
            if let (ArrivalKind::Open { rate_iops, .. }, Some(rate)) =
                (&mut spec.arrivals, record.real("arrivals.rate"))
            {
                *rate_iops = rate;
            }
        }
    )
    .required()
    .only(&["open"]),
    key!(
        "arrivals.process",
        ValueType::Word(Process::WORDS),
        |spec| match spec.arrivals {
            ArrivalKind::Open { process, .. } => process.value(TIME),
            ArrivalKind::Closed { .. } => None,
        },
        |spec, _, record| {
            if let (ArrivalKind::Open { process, .. }, Some(read)) =
                (&mut spec.arrivals, Field::read(record, "arrivals.process"))
            {
                *process = read;
            }
        }
    )
    .only(&["open"]),
    key!(
        "arrivals.think_time",
        TIME,
        |spec| match spec.arrivals {
            ArrivalKind::Closed { think_time_ns, .. } => think_time_ns.value(TIME),
            ArrivalKind::Open { .. } => {
                Some(spec.batches.pause_ns).filter(|ns| *ns > 0).value(TIME)
            }
        },
        |spec, _, record| {
            let ns = record.whole("arrivals.think_time").unwrap_or(0);
            match &mut spec.arrivals {
                ArrivalKind::Closed { think_time_ns, .. } => *think_time_ns = ns,
                ArrivalKind::Open { .. } => spec.batches.pause_ns = ns,
            }
        }
    ),
    key!(
        "arrivals.think_drains",
        ValueType::Flag,
        |spec| match spec.arrivals {
            ArrivalKind::Closed { think_drains, .. } => think_drains.value(ValueType::Flag),
            ArrivalKind::Open { .. } => None,
        },
        |spec, _, record| {
            if let ArrivalKind::Closed { think_drains, .. } = &mut spec.arrivals {
                *think_drains = record.flag("arrivals.think_drains") == Some(true);
            }
        }
    )
    .only(&["closed"]),
    key!("arrivals.think_shifts", ValueType::Flag, batches.think_shifts).only(&["open"]).sparse(),
    key!("arrivals.think_after_time", TIME, batches.think_after_ns),
    key!("arrivals.think_after", COUNT, batches.think_after),
    key!("arrivals.refill_at", COUNT, batches.refill_at).only(&["closed"]),
    key!("arrivals.flow", COUNT, batches.flow),
];

/// Keys of `[content]`. The kind must be read first, because only compressible content has percentages.
const CONTENT: [Row; 3] = [
    key!(
        "content.kind",
        ValueType::Kind(
            &["incompressible", "compressible", "verifiable", "zeroes"],
            "content of the kind",
        ),
        |spec| {
            Some(Value::quoted(match spec.content {
                Content::Incompressible => "incompressible",
                Content::Compressible { .. } => "compressible",
                Content::Verifiable => "verifiable",
                Content::Zeroes => "zeroes",
            }))
        },
        |spec, _, record| {
            let (compressible, dedupable) = (Percent::ZERO, Percent::ZERO);
            spec.content = match record.word("content.kind") {
                Some("verifiable") => Content::Verifiable,
                Some("zeroes") => Content::Zeroes,
                Some("compressible") => Content::Compressible { compressible, dedupable },
                _ => Content::Incompressible,
            };
        }
    )
    .required(),
    content_share!("content.compressible", compressible),
    content_share!("content.dedupable", dedupable),
];

const LIMITS: [Row; 9] = [
    key!("limits.time", TIME, limits.time_ns).such_as("\"10s\""),
    key!("limits.ops", COUNT, limits.ops),
    key!("limits.bytes", ValueType::Bytes, limits.bytes),
    key!("limits.ramp", TIME, limits.ramp_ns).such_as("\"1s\"").always(),
    key!("limits.passes", NUMBER, limits.passes).such_as("1"),
    key!("limits.ramp_counts", ValueType::Flag, limits.ramp_counts).sparse(),
    key!("limits.start_after", TIME, limits.start_after_ns).such_as("\"5s\"").sparse(),
    key!("limits.ends_others", ValueType::Flag, limits.ends_others).sparse(),
    table!("limits.steady", STEADY, limits.steady = Steady::DEFAULT),
];

const STEADY: [Row; 5] = [
    key!("limits.steady.of", ValueType::Word(SteadyFigure::WORDS), limits.steady? figure)
        .required(),
    key!(
        "limits.steady.by",
        ValueType::Word(&["deviation", "slope"]),
        |spec| {
            let by_slope = spec.limits.steady?.by_slope;
            Some(Value::quoted(if by_slope { "slope" } else { "deviation" }))
        },
        |spec, _, record| {
            if let Some(steady) = &mut spec.limits.steady {
                steady.by_slope = record.word("limits.steady.by") == Some("slope");
            }
        }
    ),
    key!("limits.steady.within", ValueType::Percent, limits.steady? within)
        .required()
        .such_as("\"5%\""),
    key!("limits.steady.window", TIME, limits.steady? window_ns).required().such_as("\"30s\""),
    key!("limits.steady.after", TIME, limits.steady? after_ns),
];

/// Parses an active range such as `10%..20GiB` from the key at `path`. On failure, reports an error and
/// returns None.
fn range(reader: &mut Reader, record: &Record, path: &str) -> Option<ActiveRange> {
    let read = record.text(path)?.parse::<ActiveRange>();
    read.map_err(|error| reader.refuse(record.place(path), error, "")).ok()
}

fn read_active(spec: &mut Spec, reader: &mut Reader, record: &Record) {
    if let Some(active) = range(reader, record, "active") {
        spec.active = active;
    }
}

/// Copies each key of `record` into its field of `spec`.
pub(crate) fn read(spec: &mut Spec, reader: &mut Reader, record: &Record) {
    read_rows(&ROWS, spec, reader, record);
}

fn read_rows(rows: &[Row], spec: &mut Spec, reader: &mut Reader, record: &Record) {
    for row in rows.iter().filter(|row| record.get(row.key.path).is_some()) {
        (row.set)(spec, reader, record);
        read_rows(row.rows, spec, reader, record);
    }
}
