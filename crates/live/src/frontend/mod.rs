//! The frontends of a served machine, and their pending replies.
//!
//! | module | what it is |
//! |---|---|
//! | `nbd` | exports of an NBD server; always compiled |
//! | `fuse` | files in a folder (feature `fuse`) |
//! | `ublk` | block devices of this kernel (feature `ublk`) |

#[cfg(feature = "fuse")]
pub mod fuse;
pub mod nbd;
mod pieces;
#[cfg(feature = "ublk")]
pub mod ublk;

use crate::served::{Live, Sink};
use iodyno_units::IoError;

/// An emulated machine that sends its completions to clients of the NBD, FUSE and ublk frontends.
pub type Served = Live<Waiter>;

/// A frontend's pending reply to an operation.
#[derive(Debug)]
pub enum Waiter {
    Nbd(nbd::Reply),
    #[cfg(feature = "fuse")]
    Fuse(fuse::Reply),
    #[cfg(feature = "ublk")]
    Ublk(ublk::Reply),
}

impl Sink for Waiter {
    fn done(self, result: Result<(), IoError>) {
        match self {
            Self::Nbd(reply) => reply.done(result),
            #[cfg(feature = "fuse")]
            Self::Fuse(reply) => reply.done(result),
            #[cfg(feature = "ublk")]
            Self::Ublk(reply) => reply.done(result),
        }
    }

    /// Completes several operations. Replies on the same NBD connection are sent together.
    fn all_done(completed: Vec<(Self, Result<(), IoError>)>) {
        let mut batch = iodyno_nbd::Batch::new();
        for (waiter, result) in completed {
            match waiter {
                Self::Nbd(reply) => reply.done_with(result, &mut batch),
                #[cfg(any(feature = "fuse", feature = "ublk"))]
                other => other.done(result),
            }
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        match self {
            Self::Nbd(reply) => reply.buffer(),
            #[cfg(feature = "fuse")]
            Self::Fuse(reply) => reply.buffer(),
            #[cfg(feature = "ublk")]
            Self::Ublk(reply) => reply.buffer(),
        }
    }
}
