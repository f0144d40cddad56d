//! Injected bugs, to test the power-cut tests: each is a mistake that a storage system could
//! make. When off, each costs one comparison where program operations begin or end.

/// A bug that is injected into every flash device of a machine, to test the detection of data loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedBug {
    /// No bug.
    #[default]
    Nothing,
    /// A flush completes without waiting for the buffered data to be programmed.
    HastyFlush,
    /// A flush waits for N program operations to end, where N were in progress at its start, but not for the same
    /// N program operations.
    CountingFlush,
    /// The map changes when a program operation begins rather than ends, and no journal reverts it.
    HastyMap,
    /// A block is erased before the relocated copies of its data are committed.
    HastyErase,
    /// A relocated copy takes effect although its source was overwritten during the relocation.
    StaleCopy,
    /// Of two concurrent program operations of the same unit, the last to end takes effect, even if it has the
    /// older data.
    LastProgramWins,
    /// A buffer with power-loss protection loses its content in a power failure.
    ForgetfulBuffer,
    /// A buffer with power-loss protection loses the data that is being programmed at a power failure.
    ForgetfulProgram,
}
