//! What a checker reads of a state. Two states that agree in everything that a checker read in one of them are one
//! state to it, so it runs once for both.

use crate::tree::{Kind, NodeId, Tree};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// A part of a tree that a program reads or replaces as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A page of a file.
    Page {
        /// The file.
        node: NodeId,
        /// Number of the page.
        number: u64,
    },
    /// Size of a file.
    Size(NodeId),
    /// Permissions of a node.
    Mode(NodeId),
    /// A name in a directory: the node that has it, or none.
    Name {
        /// The directory.
        directory: NodeId,
        /// The name.
        name: Vec<u8>,
    },
    /// All names of a directory.
    Names(NodeId),
}

impl Item {
    /// Value of the item in a tree, as a hash; equal for equal content.
    #[must_use]
    pub fn value(&self, tree: &Tree) -> u64 {
        match self {
            Self::Page { node, number } => {
                tree.page(*node, *number).map_or(0, |page| page.content_hash())
            }
            Self::Size(node) => tree.size_bytes(*node),
            Self::Mode(node) => tree.node(*node).map_or(u64::MAX, |node| u64::from(node.mode)),
            Self::Name { directory, name } => tree.lookup(*directory, name).unwrap_or(u64::MAX),
            Self::Names(directory) => match tree.node(*directory).map(|node| &node.kind) {
                Some(Kind::Directory(names)) => {
                    let mut hasher = DefaultHasher::new();
                    names.hash(&mut hasher);
                    hasher.finish()
                }
                _ => u64::MAX,
            },
        }
    }
}

/// How a program uses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its value matters, also for a change that keeps a part of it.
    Read,
    /// It is replaced, and its old value does not matter.
    Overwrite,
}

/// Is told of each use of an item before the use, and may change the tree then.
pub trait Watch: Send {
    /// Called before a program uses an item of the watched folder.
    fn before(&mut self, tree: &mut Tree, item: &Item, access: Access);
}

/// Items that a checker read before it changed them, with their values, in order of the first read.
pub type Trace = Vec<(Item, u64)>;

/// Records a trace.
#[derive(Debug, Default)]
pub struct Tracer {
    touched: BTreeSet<Item>,
    trace: Arc<Mutex<Trace>>,
}

impl Tracer {
    /// A tracer, and the trace that it fills.
    #[must_use]
    pub fn new() -> (Self, Arc<Mutex<Trace>>) {
        let tracer = Self::default();
        let trace = Arc::clone(&tracer.trace);
        (tracer, trace)
    }
}

impl Watch for Tracer {
    fn before(&mut self, tree: &mut Tree, item: &Item, access: Access) {
        if self.touched.contains(item) {
            return;
        }
        self.touched.insert(item.clone());
        if access == Access::Read {
            let value = item.value(tree);
            self.trace.lock().unwrap_or_else(PoisonError::into_inner).push((item.clone(), value));
        }
    }
}
