//! Frontends beside NBD. They are features of the build; a build without one says so.

use crate::args::Serve;
use crate::failure::Failure;
use iodyno_emulate::System;
use iodyno_live::frontend::Served;
use std::sync::Arc;

/// Frontends that are open; they close when this is dropped.
#[derive(Default)]
pub(super) struct Frontends {
    #[cfg(feature = "fuse")]
    folder: Option<iodyno_live::frontend::fuse::Mounted>,
    #[cfg(feature = "ublk")]
    blocks: Vec<iodyno_live::frontend::ublk::Block>,
    /// Where they are, a line each.
    pub(super) words: String,
}

impl Frontends {
    /// Opens what `flags` ask for.
    #[cfg_attr(
        not(all(feature = "fuse", feature = "ublk")),
        allow(unused_variables, unused_mut, reason = "what only frontends need that are not here")
    )]
    pub(super) fn open(
        flags: &Serve,
        live: &Arc<Served>,
        names: &[String],
        system: &System,
    ) -> Result<Self, Failure> {
        let mut frontends = Self::default();
        if flags.fuse.is_some() {
            #[cfg(feature = "fuse")]
            frontends.open_folder(flags, live, names)?;
            #[cfg(not(feature = "fuse"))]
            return Err(without("fuse"));
        }
        if flags.ublk {
            #[cfg(feature = "ublk")]
            frontends.open_blocks(flags, live, system)?;
            #[cfg(not(feature = "ublk"))]
            return Err(without("ublk"));
        }
        Ok(frontends)
    }

    #[cfg(feature = "fuse")]
    fn open_folder(
        &mut self,
        flags: &Serve,
        live: &Arc<Served>,
        names: &[String],
    ) -> Result<(), Failure> {
        use std::fmt::Write as _;
        let Some(folder) = &flags.fuse else { return Ok(()) };
        let mounted = iodyno_live::frontend::fuse::mount(live, names, folder, flags.read_only);
        self.folder = Some(mounted.map_err(|e| {
            Failure::target(format!(
                "--fuse {}: {e}: it takes a folder that is there, /dev/fuse, and fusermount3 (package fuse3) for who is not root",
                folder.display()
            ))
        })?);
        for name in names {
            let _ = writeln!(self.words, "file    {}", folder.join(name).display());
        }
        Ok(())
    }

    #[cfg(feature = "ublk")]
    fn open_blocks(
        &mut self,
        flags: &Serve,
        live: &Arc<Served>,
        system: &System,
    ) -> Result<(), Failure> {
        use iodyno_live::frontend::ublk::{Block, Told};
        use std::fmt::Write as _;
        for number in 0..live.volumes() {
            let rotational = system.is_rotational(number);
            let told = Told { rotational, read_only: flags.read_only };
            let block = Block::of(live, number, told).map_err(|e| {
                Failure::target(format!(
                    "--ublk: {e}: it takes Linux 6.5 or newer, `modprobe ublk_drv`, and who may open /dev/ublk-control (root)"
                ))
            })?;
            let _ = writeln!(self.words, "block   {}", block.node().display());
            self.blocks.push(block);
        }
        Ok(())
    }
}

/// What a build says that has not got a frontend.
#[cfg(not(all(feature = "fuse", feature = "ublk")))]
fn without(feature: &str) -> Failure {
    Failure::input(format!(
        "--{feature}: this build is without it: `cargo build --release --features {feature}` makes one that has it"
    ))
}
