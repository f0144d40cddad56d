//! Doors beside NBD. They are features of the build; a build without one says so.

use crate::args::Serve;
use crate::failure::Failure;
use iodyno_live::door::Served;
use std::sync::Arc;

/// Mounts the folder of `--fuse`, for as long as what this gives is kept.
#[cfg(feature = "fuse")]
pub(super) fn fuse(
    flags: &Serve,
    live: &Arc<Served>,
    names: &[String],
) -> Result<Option<iodyno_live::door::fuse::Mounted>, Failure> {
    let Some(folder) = &flags.fuse else { return Ok(None) };
    let mounted = iodyno_live::door::fuse::mount(live, names, folder, flags.read_only);
    mounted.map(Some).map_err(|e| {
        Failure::target(format!(
            "--fuse {}: {e}: it takes a folder that is there, /dev/fuse, and fusermount3 (package fuse3) for who is not root",
            folder.display()
        ))
    })
}

/// As above, where there is no FUSE.
#[cfg(not(feature = "fuse"))]
pub(super) fn fuse(flags: &Serve, _: &Arc<Served>, _: &[String]) -> Result<Option<()>, Failure> {
    match flags.fuse {
        None => Ok(None),
        Some(_) => Err(Failure::input(
            "--fuse: this build has no FUSE; build one by `cargo build --release --features fuse`",
        )),
    }
}
