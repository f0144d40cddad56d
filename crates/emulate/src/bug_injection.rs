//! Deliberate bugs that check whether the power-cut tests detect data loss. Real storage systems could have each of
//! these bugs. A disabled bug costs one comparison where program operations begin or end.

/// A bug that is injected into every flash device of a machine, to test the detection of data loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedBug {
    /// No bug is injected; the default.
    #[default]
    Nothing,
    /// A flush completes without waiting for the buffered data to be programmed.
    HastyFlush,
    /// A flush that begins with N program operations in progress completes after any N program operations have ended,
    /// even ones that began later.
    CountingFlush,
    /// The map is updated when a program operation begins instead of when it ends, and a power cut in between does
    /// not revert the update.
    HastyMap,
    /// A block is erased while copies of its valid data are still being programmed.
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
