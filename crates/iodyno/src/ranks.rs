//! The group of ranks to which `iodyno-mpi` assigned this process, and the temporary notebooks of all but the first rank.

use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Notebook;
use iodyno_ranks::Ranks;
use iodyno_run::RunError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// File name of the temporary notebook of every rank but the first.
const NOTEBOOK: &str = "notebook.sqlite";

static RANKS: OnceLock<Arc<Ranks>> = OnceLock::new();

/// Sets the group of ranks that this process belongs to, before its command begins.
pub(crate) fn set(ranks: Arc<Ranks>) {
    let _ = RANKS.set(ranks);
}

/// The group of ranks that this process belongs to; only itself, unless [`set`] was called.
pub(crate) fn of_process() -> Arc<Ranks> {
    Arc::clone(RANKS.get_or_init(|| Arc::new(Ranks::alone())))
}

/// Exit code and error message of a rank, as sent to the other ranks.
type Why = (u8, String);

fn why(failure: &Failure) -> Why {
    (failure.exit_code(), failure.words())
}

/// Runs `make` on the first rank only, and returns its result on all ranks. Files that `make` reads
/// therefore need not exist on every host.
pub(crate) fn of_first<T: Clone + Serialize + DeserializeOwned>(
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let ranks = of_process();
    if ranks.is_alone() {
        return make();
    }
    let own = ranks.is_first().then(make);
    let sent = own.as_ref().map(|own| own.as_ref().map_err(why).cloned());
    let taken: Result<T, Why> = ranks.of_first(sent.as_ref()).map_err(RunError::from)?;
    own.unwrap_or_else(|| taken.map_err(|(code, words)| Failure::of_code(code, words)))
}

/// Waits for the results of all ranks. If every rank succeeded, returns this rank's value. Otherwise returns,
/// on all ranks, the failure of the lowest-numbered rank that failed.
pub(crate) fn agreed<T>(own: Result<T, Failure>) -> Result<T, Failure> {
    let ranks = of_process();
    if ranks.is_alone() {
        return own;
    }
    let failures = ranks.all(&own.as_ref().err().map(why)).map_err(RunError::from)?;
    let mut failures = failures.into_iter().zip(0_u32..);
    let first = failures.find_map(|(why, rank)| Some((rank, why?)));
    match first {
        Some((rank, (exit_code, why))) if rank != ranks.rank() => {
            let host = ranks.hosts()[rank as usize].name.clone();
            Err(RunError::OtherRank { rank, host, exit_code, why }.into())
        }
        _ => own,
    }
}

/// Folder of this rank's temporary notebook, on the host's local disk.
fn folder() -> PathBuf {
    let rank = of_process().rank();
    std::env::temp_dir().join(format!("iodyno-rank-{rank}-{}", std::process::id()))
}

/// Path of this rank's notebook. The first rank uses the user's notebook; every other rank has a temporary
/// one, which is removed when the run succeeds.
pub(crate) fn notebook(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if of_process().is_first() {
        return show::path(named);
    }
    let (folder, mode) = (folder(), 0o700);
    let made = std::fs::DirBuilder::new().mode(mode).create(&folder);
    made.map_err(|e| Failure::output(&folder.display().to_string(), &e))?;
    Ok(folder.join(NOTEBOOK))
}

/// Removes the temporary notebook of a rank. The first rank's notebook has the same content.
pub(crate) fn forget_notebook() {
    let folder = folder();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("{NOTEBOOK}{suffix}")));
    }
    let _ = std::fs::remove_dir(folder);
}

/// Error message of a failed command. The first rank states the reason. Any other rank names its temporary
/// notebook, and states the reason only if the first rank is lost.
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
            "note: rank {} on {host} keeps its measurements in {}\n",
            ranks.rank(),
            path.display()
        )
    });
    [why, kept].into_iter().flatten().collect()
}
