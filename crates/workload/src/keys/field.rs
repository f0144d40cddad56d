//! Converts between the fields of a specification and the values of keys in a workload file.

use super::value::Value;
use crate::file_set::FileSet;
use crate::log_load::{LogDurability, LogLoad, WhenFull};
use crate::range::size_text;
use crate::spec::{
    Edge, FlushBursts, MixOrder, NewFile, Percent, Process, Steady, SteadyFigure, saturated,
};
use iodyno_catalog::{Record, ValueType};

/// A type of field that a key of a workload file can set.
pub(crate) trait Field: Sized {
    /// Reads the value of the key at `path`; None if it is missing or unreadable.
    fn read(record: &Record, path: &str) -> Option<Self>;

    /// Converts the field into a value to write; None: the key is not written.
    fn value(&self, form: ValueType) -> Option<Value>;
}

impl Field for u64 {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.whole(path)
    }

    fn value(&self, form: ValueType) -> Option<Value> {
        Some(match form {
            ValueType::Bytes => Value::quoted(size_text(*self)),
            ValueType::Time(..) => Value::Time(*self),
            _ => Value::Text(self.to_string()),
        })
    }
}

/// Values above `u32::MAX` become `u32::MAX`, which the rules refuse.
impl Field for u32 {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.whole(path).map(saturated)
    }

    fn value(&self, form: ValueType) -> Option<Value> {
        u64::from(*self).value(form)
    }
}

impl Field for f64 {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.real(path)
    }

    fn value(&self, form: ValueType) -> Option<Value> {
        let is_rate = matches!(form, ValueType::Rate);
        Some(if is_rate {
            Value::quoted(format_args!("{self}/s"))
        } else {
            Value::Text(self.to_string())
        })
    }
}

impl Field for Percent {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.real(path).map(Self::from_fraction)
    }

    fn value(&self, _form: ValueType) -> Option<Value> {
        Some(Value::quoted(self))
    }
}

impl Field for bool {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.flag(path)
    }

    fn value(&self, _form: ValueType) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }
}

impl Field for String {
    fn read(record: &Record, path: &str) -> Option<Self> {
        record.text(path).map(str::to_owned)
    }

    fn value(&self, _form: ValueType) -> Option<Value> {
        Some(Value::Text(toml::Value::String(self.clone()).to_string()))
    }
}

impl<T: Field> Field for Option<T> {
    fn read(record: &Record, path: &str) -> Option<Self> {
        T::read(record, path).map(Some)
    }

    fn value(&self, form: ValueType) -> Option<Value> {
        self.as_ref().and_then(|value| value.value(form))
    }
}

/// Maps the variants of an enum to their spelling in workload files.
macro_rules! words {
    ($($of:ident { $($variant:ident = $word:literal),* })*) => {$(
        impl $of {
            /// Spellings of all variants, in the order of the enum.
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),*];

            /// Spelling of this variant in workload files.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl Field for $of {
            fn read(record: &Record, path: &str) -> Option<Self> {
                match record.word(path)? {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn value(&self, _form: ValueType) -> Option<Value> {
                Some(Value::quoted(self.word()))
            }
        }
    )*};
}

words! {
    NewFile { Written = "written", Allocated = "allocated", Empty = "empty" }
    MixOrder { Drawn = "drawn", Ratio = "ratio" }
    Process { Poisson = "poisson", Constant = "constant" }
    WhenFull { Block = "block", Drop = "drop" }
    LogDurability { None = "none", Batch = "batch", Each = "each" }
    SteadyFigure { Iops = "iops", Bandwidth = "bandwidth", Latency = "latency" }
}

impl FileSet {
    /// Initial value of `[file_set]`, before its keys are read.
    pub(super) const EMPTY: Self =
        Self { files: 1, size: Edge::Share(Percent::ALL), extent_bytes: None };
}

impl FlushBursts {
    /// Initial value of `[flush]`, before its keys are read.
    pub(super) const ONE: Self = Self { every: 1, burst: 1 };
}

impl LogLoad {
    /// Initial value of `[log]`, before its keys are read.
    pub(super) const DEFAULT: Self = Self {
        message_bytes: Self::DEFAULT_MESSAGE_BYTES,
        rate_per_s: None,
        publishers: 1,
        backlog: None,
        when_full: WhenFull::Block,
        durability: LogDurability::Batch,
        fua: false,
        batch: None,
        commit_chunks: 16,
        readers: 0,
        replay_chunks: Self::DEFAULT_REPLAY_CHUNKS,
    };
}

impl Steady {
    /// Initial value of `[limits.steady]`, before its keys are read.
    pub(super) const DEFAULT: Self = Self {
        figure: SteadyFigure::Iops,
        by_slope: false,
        within: Percent::ALL,
        window_ns: 2_000_000_000,
        after_ns: 0,
    };
}
