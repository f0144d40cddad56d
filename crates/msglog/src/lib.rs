//! A message log without I/O.
//!
//! [`Log`] is the state machine for writing: it accepts messages, requests writes and flushes, and reports durable
//! chunks. [`recovery`] opens a log. [`State`] holds the current values by key. A [`Filter`] selects messages and
//! values by content. The crate `logserver` performs the I/O and serves clients.

#![forbid(unsafe_code)]

pub mod chunk;
pub mod client;
pub mod commit;
pub mod filter;
pub mod layout;
pub mod lines;
pub mod load;
pub mod log;
pub mod message;
pub mod protocol;
pub mod recovery;
pub mod segment_reader;
pub mod state;
pub mod storage;

pub use chunk::{Chunk, ChunkHeader};
pub use commit::{Commit, CommitRule, Durability};
pub use filter::{Effort, Filter, FilterError, TooCostly};
pub use layout::Layout;
pub use load::{LoadOfTarget, LoadShape, LogSource};
pub use log::{Action, AppendError, Log, LogOptions, Persisted};
pub use message::{Message, MessageKind};
pub use recovery::{Damage, OpenError, Recovered};
pub use segment_reader::SegmentReader;
pub use state::State;
pub use storage::{ReadAhead, Storage};
