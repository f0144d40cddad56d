//! Injected bugs, to test the tests of power cuts: each is a mistake that a storage system could
//! make. When off, each costs a comparison where programs begin or end.

/// One bug, of every flash device in a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedBug {
    /// None.
    #[default]
    Nothing,
    /// A flush does not wait for the content of the buffer.
    HastyFlush,
    /// A flush waits for the number of programs in progress at its start, not for those very ones.
    CountingFlush,
    /// The map changes when a program begins, and no journal reverts it.
    HastyMap,
    /// A block is erased before its copies are committed.
    HastyErase,
    /// A copy counts although its source was overwritten meanwhile.
    StaleCopy,
    /// Of two programs of one unit the one that ends last counts.
    LastProgramWins,
    /// A protected buffer loses its content when the power fails.
    ForgetfulBuffer,
    /// A protected buffer loses the data being programmed when the power fails.
    ForgetfulProgram,
}
