//! The ranks of this process, where `iodyno-mpi` started it, and where those beside the first keep what they measure.

use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Notebook;
use iodyno_ranks::Ranks;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The name of the notebook of a rank beside the first.
const NOTEBOOK: &str = "notebook.sqlite";

static RANKS: OnceLock<Arc<Ranks>> = OnceLock::new();

/// Sets the ranks of this process, before its command begins.
pub(crate) fn set(ranks: Arc<Ranks>) {
    let _ = RANKS.set(ranks);
}

/// The ranks of this process: itself alone, unless others were set.
pub(crate) fn of_process() -> Arc<Ranks> {
    Arc::clone(RANKS.get_or_init(|| Arc::new(Ranks::alone())))
}

/// The folder of this rank's own notebook, on its host's disk.
fn folder() -> PathBuf {
    let rank = of_process().rank();
    std::env::temp_dir().join(format!("iodyno-rank-{rank}-{}", std::process::id()))
}

/// The notebook of this rank: the first one's is the user's, every other has one of its own, which is there until the run
/// has ended well.
pub(crate) fn notebook(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if of_process().is_first() {
        return show::path(named);
    }
    let (folder, mode) = (folder(), 0o700);
    let made = std::fs::DirBuilder::new().mode(mode).create(&folder);
    made.map_err(|e| Failure::output(&folder.display().to_string(), &e))?;
    Ok(folder.join(NOTEBOOK))
}

/// Removes the notebook of a rank beside the first: what it holds is in the first one's.
pub(crate) fn forget_notebook() {
    let folder = folder();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("{NOTEBOOK}{suffix}")));
    }
    let _ = std::fs::remove_dir(folder);
}

/// What a rank says when its command fails: the first why; any other where it keeps what it measured, and why only if it is
/// the first that is lost.
pub(crate) fn failed(failure: &Failure) -> String {
    let ranks = of_process();
    if ranks.is_first() {
        return failure.render(false);
    }
    let path = folder().join(NOTEBOOK);
    let has_cells = Notebook::open_existing(&path)
        .and_then(|notebook| notebook.list())
        .is_ok_and(|runs| runs.iter().any(|run| !run.cells.is_empty()));
    if !has_cells {
        forget_notebook();
    }
    let why = ranks.lost().filter(|lost| lost.rank == 0).map(|_| failure.render(false));
    let host = &ranks.hosts()[ranks.rank() as usize].name;
    let kept = has_cells.then(|| {
        format!(
            "note: rank {} on {host} keeps what it measured in {}\n",
            ranks.rank(),
            path.display()
        )
    });
    [why, kept].into_iter().flatten().collect()
}
