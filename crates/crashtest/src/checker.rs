//! A checker that is an external program, run in a folder that contains the state.

use crate::change::{Change, Made};
use crate::check::{Check, CheckRun};
use crate::folder::{Access, Folders, Item, Watch};
use crate::program::Program;
use crate::tree::{ROOT, Tree};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Name of a file for the checker to read. It contains what the program under test had printed when the power was cut.
/// The file is in a folder separate from the state under test.
pub const PROMISE: &str = "acknowledged";

/// A checker that runs an external program on each state.
#[derive(Debug)]
pub struct Checker<'a> {
    folders: &'a Folders,
    program: Program,
    next: AtomicU64,
    has_read_promise: Arc<AtomicBool>,
}

/// Observer that sets its flag when the content or the size of a file is read.
struct Reading(Arc<AtomicBool>);

impl Watch for Reading {
    fn before(&mut self, _: &mut Tree, item: &Item, access: Access) {
        // `test -s` reads no content, but the size.
        if matches!((item, access), (Item::Size(_) | Item::Page { .. }, Access::Read)) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a> Checker<'a> {
    /// Creates a checker that runs `program` on each state. The state is presented as a folder of the FUSE mount
    /// `folders`.
    #[must_use]
    pub fn new(folders: &'a Folders, program: Program) -> Self {
        Self { folders, program, next: AtomicU64::new(0), has_read_promise: Arc::default() }
    }

    /// Whether the checker has read the file [`PROMISE`] in any state.
    pub fn has_read_promise(&self) -> bool {
        self.has_read_promise.load(Ordering::Relaxed)
    }
}

/// Creates the tree of a folder whose file [`PROMISE`] contains the program's output before the cut.
#[must_use]
pub fn promise(acknowledged: &[u8]) -> Tree {
    let mut tree = Tree::default();
    let name = PROMISE.into();
    tree.apply(&Change::Make { directory: ROOT, name, node: 2, made: Made::File, mode: 0o444 });
    tree.apply(&Change::Write { node: 2, offset: 0, data: Arc::from(acknowledged) });
    tree
}

impl Check for Checker<'_> {
    fn check(
        &self,
        tree: &Tree,
        acknowledged: &[u8],
        watch: Box<dyn Watch>,
    ) -> io::Result<CheckRun> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (state, promise) = (format!("state-{number}"), format!("promise-{number}"));
        let folder = self.folders.add(&state, tree.clone(), true, Some(watch));
        let reading = Box::new(Reading(Arc::clone(&self.has_read_promise)));
        let promised =
            self.folders.add(&promise, self::promise(acknowledged), false, Some(reading));
        let acknowledged = promised.join(PROMISE);
        let run = self.program.check(&folder, &acknowledged);
        let events = self.folders.take_events(&state);
        self.folders.remove(&state);
        self.folders.remove(&promise);
        let run = run?;
        let mut output = run.output;
        output.extend(run.errors);
        Ok(CheckRun { ended: run.ended, output, events })
    }
}
