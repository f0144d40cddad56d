//! Explores the states in which a power cut can leave a program's files, and checks each.
//!
//! A program runs in a folder of a FUSE file system, which records every operation (`history`). Rules that model a real
//! file system (`rules`) determine which recorded changes are durable at a cut, and in which combinations the others
//! may survive (`effects`). Each combination is a state; `states` enumerates them by class. A checker then runs in a
//! folder with the content of the state.

#![forbid(unsafe_code)]

pub mod answer;
mod blocks;
mod change;
mod check;
mod checker;
mod describe;
mod device;
mod effects;
mod explore;
mod folder;
mod hex;
mod history;
mod job;
mod judge;
mod leftover;
pub mod log_writes;
mod minimise;
mod name;
mod program;
pub mod record;
mod replay;
mod rules;
mod sqlite;
mod states;
mod trace;
mod tree;

pub use change::{Change, Made, NodeId};
pub use check::{Check, CheckRun, Verdict};
pub use checker::{Checker, PROMISE, promise};
pub use describe::{Described, Loss};
pub use device::carry_out;
pub use effects::{Act, Effect, Effects};
pub use explore::{ClassCount, Explored, FINDINGS_MAX, Plan, classes_named, explore};
pub use folder::{Access, Folders, Item, Watch};
pub use history::{Event, History};
pub use minimise::Finding;
pub use name::{CutName, StateName};
pub use program::{Checked, Ended, Program, Ran};
pub use replay::{Replayed, judge_once, replay};
pub use rules::{ALL as RULES, Commit, Rules};
pub use sqlite::{Rejected, judge_sqlite};
pub use states::{CLASSES, Choice, Class, Epoch, StateId, States, Torn};
pub use tree::{Kind, Node, PAGE_BYTES, Page, ROOT, Tree};
