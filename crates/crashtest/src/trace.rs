//! Records what a checker reads of a state. If two states agree in everything that a checker read in one of them, the
//! checker can't tell them apart, so it runs only once.

use crate::change::NodeId;
use crate::folder::{Access, Item, Watch};
use crate::tree::{Kind, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Items that a checker read before it changed them, with their values, in order of the first read.
pub(crate) type Trace = Vec<(Item, u64)>;

/// Value of an item in a tree, as a hash; equal for equal content.
pub(crate) fn value(item: &Item, tree: &Tree) -> u64 {
    match item {
        Item::Page { node, number } => {
            tree.page(*node, *number).map_or(0, |page| page.content_hash())
        }
        // Only overwritten.
        Item::PagesFrom { .. } => 0,
        Item::Size(node) => tree.size_bytes(*node),
        Item::Mode(node) => tree.node(*node).map_or(u64::MAX, |node| u64::from(node.mode)),
        Item::Name { directory, name } => tree.lookup(*directory, name).unwrap_or(u64::MAX),
        Item::Names(directory) => match tree.node(*directory).map(|node| &node.kind) {
            Some(Kind::Directory(names)) => {
                let mut hasher = DefaultHasher::new();
                names.hash(&mut hasher);
                hasher.finish()
            }
            _ => u64::MAX,
        },
    }
}

/// Observer of a folder that records a checker's trace.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    touched: BTreeSet<Item>,
    /// For each file that was truncated, the first page that was cut off.
    cut_from: BTreeMap<NodeId, u64>,
    trace: Arc<Mutex<Trace>>,
}

impl Tracer {
    /// Creates a tracer, and the trace that it fills.
    pub(crate) fn new() -> (Self, Arc<Mutex<Trace>>) {
        let tracer = Self::default();
        let trace = Arc::clone(&tracer.trace);
        (tracer, trace)
    }
}

impl Watch for Tracer {
    fn before(&mut self, tree: &mut Tree, item: &Item, access: Access) {
        if let Item::PagesFrom { node, number } = item {
            let from = self.cut_from.entry(*node).or_insert(*number);
            *from = (*from).min(*number);
            return;
        }
        let is_cut = matches!(item, Item::Page { node, number }
            if self.cut_from.get(node).is_some_and(|from| number >= from));
        if is_cut || !self.touched.insert(item.clone()) || access == Access::Overwrite {
            return;
        }
        let value = value(item, tree);
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).push((item.clone(), value));
    }
}
