//! Explores the states that a power cut can leave of a program's files, and checks each.
//!
//! A program runs in a folder of our own file system, which records every operation (`history`). Rules of a file
//! system (`rules`) say which recorded effects are durable at a cut and in which combinations the others may survive
//! (`effects`). Each combination is a state; `states` enumerates them by class. A checker then runs in a folder
//! that holds such a state.

mod folder;
mod history;
mod program;
mod tree;

pub use folder::{Access, Folders, Item, Watch};
pub use history::{Event, History};
pub use program::{Checked, Ended, Program};
pub use tree::{Change, Kind, Made, Node, NodeId, PAGE_BYTES, Page, ROOT, Tree};
