//! A message log without I/O.
//!
//! [`Log`] is the state machine: messages are appended, it says what to write and to flush, and passes on what has become
//! durable. [`recovery`] opens one. [`State`] is the current value by key. A [`Filter`] chooses messages and values by
//! their content. What carries the operations out, and serves the log to clients, is elsewhere.

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
