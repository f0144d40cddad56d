//! Injected bugs, to test the power-cut tests: each is a mistake that a storage system could
//! make. When off, each costs one comparison where programs begin or end.

/// A bug in every flash device of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedBug {
    /// No bug.
    #[default]
    Nothing,
    /// A flush does not wait for the content of the buffer.
    HastyFlush,
    /// A flush waits for as many programs as were in progress at its start, instead of for those programs.
    CountingFlush,
    /// The map changes when a program begins, and no journal reverts it.
    HastyMap,
    /// A block is erased before its copies are committed.
    HastyErase,
    /// A copy takes effect although its source was overwritten during the copy.
    StaleCopy,
    /// Of two concurrent programs of a unit, the last to end takes effect, rather than the newer.
    LastProgramWins,
    /// A protected buffer loses its content in a power failure.
    ForgetfulBuffer,
    /// A protected buffer loses the data being programmed in a power failure.
    ForgetfulProgram,
}
