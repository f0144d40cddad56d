//! Frontends besides NBD: FUSE and ublk. Each is a Cargo feature; requesting one that is not compiled in is an error.

use crate::error::ServeError;
use crate::request::ServeRequest;
use iodyno_emulate::System;
use iodyno_live::frontend::Served;
use std::path::PathBuf;
use std::sync::Arc;

/// Open frontends (FUSE, ublk). They close when dropped.
#[derive(Default)]
pub(crate) struct Frontends {
    #[cfg(feature = "fuse")]
    folder: Option<iodyno_live::frontend::fuse::Mounted>,
    #[cfg(feature = "ublk")]
    blocks: Vec<iodyno_live::frontend::ublk::Block>,
    /// Paths of the volumes' files and block devices, one line each.
    pub(crate) words: String,
}

impl Frontends {
    /// Opens the frontends that a request asks for.
    #[cfg_attr(
        not(all(feature = "fuse", feature = "ublk")),
        allow(unused_variables, unused_mut, reason = "used by optional frontends only")
    )]
    pub(crate) fn open(
        request: &ServeRequest,
        live: &Arc<Served>,
        names: &[String],
        system: &System,
    ) -> Result<Self, ServeError> {
        let mut frontends = Self::default();
        if request.fuse.is_some() {
            #[cfg(feature = "fuse")]
            frontends.open_folder(request, live, names)?;
            #[cfg(not(feature = "fuse"))]
            return Err(without("fuse"));
        }
        if request.ublk {
            #[cfg(feature = "ublk")]
            frontends.open_blocks(request, live, system)?;
            #[cfg(not(feature = "ublk"))]
            return Err(without("ublk"));
        }
        Ok(frontends)
    }

    /// Block device of the first volume; `None`: the request does not ask for block devices.
    pub(crate) fn block(&self) -> Option<PathBuf> {
        #[cfg(feature = "ublk")]
        return self.blocks.first().map(|block| block.node().to_owned());
        #[cfg(not(feature = "ublk"))]
        None
    }

    #[cfg(feature = "fuse")]
    fn open_folder(
        &mut self,
        request: &ServeRequest,
        live: &Arc<Served>,
        names: &[String],
    ) -> Result<(), ServeError> {
        use std::fmt::Write as _;
        use std::io::ErrorKind;
        let Some(folder) = &request.fuse else { return Ok(()) };
        let mounted = iodyno_live::frontend::fuse::mount(live, names, folder, request.read_only);
        self.folder = Some(mounted.map_err(|e| {
            let at = folder.display();
            // If a server already has a mount there, no further remedy is needed.
            let help = match e.kind() {
                ErrorKind::NotConnected | ErrorKind::ResourceBusy => "",
                _ => ": it requires an existing folder, /dev/fuse, and fusermount3 (package fuse3) for users other than root",
            };
            ServeError::target(format!("--fuse {at}: {e}{help}"))
        })?);
        for name in names {
            let _ = writeln!(
                self.words,
                "file    {}",
                iodyno_units::text::clean(&folder.join(name).to_string_lossy())
            );
        }
        Ok(())
    }

    #[cfg(feature = "ublk")]
    fn open_blocks(
        &mut self,
        request: &ServeRequest,
        live: &Arc<Served>,
        system: &System,
    ) -> Result<(), ServeError> {
        use iodyno_live::frontend::ublk::{Block, DeviceFlags};
        use std::fmt::Write as _;
        for number in 0..live.volumes() {
            let rotational = system.is_rotational(number);
            let advertised = DeviceFlags { rotational, read_only: request.read_only };
            let block = Block::of(live, number, advertised).map_err(|e| {
                ServeError::target(format!(
                    "--ublk: {e}: it requires Linux 6.5 or newer, `modprobe ublk_drv`, and access to /dev/ublk-control (root)"
                ))
            })?;
            let _ = writeln!(self.words, "block   {}", block.node().display());
            self.blocks.push(block);
        }
        Ok(())
    }
}

/// Creates the error for a frontend that is not compiled into this build.
#[cfg(not(all(feature = "fuse", feature = "ublk")))]
fn without(feature: &str) -> ServeError {
    ServeError::input(format!(
        "--{feature}: this build does not include it: build with `cargo build --release --features {feature}`"
    ))
}
