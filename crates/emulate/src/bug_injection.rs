//! Deliberate bugs, so that the checks of power cuts can be checked: each is a mistake that a
//! storage system could make. Off, each costs a comparison where programs begin or end.

/// One bug, of every flash device in a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedBug {
    /// None.
    #[default]
    Nothing,
    /// A flush does not wait for what is in the buffer.
    HastyFlush,
    /// A flush waits for as many programs as it found under way, not for those very ones.
    CountingFlush,
    /// The map changes when a program begins, and no journal takes it back.
    HastyMap,
    /// A block is erased before its copies are committed.
    HastyErase,
    /// A copy counts although what it copied was overwritten meanwhile.
    StaleCopy,
    /// Of two programs of one unit the one that ends last counts.
    LastProgramWins,
    /// A protected buffer forgets what it holds when the power fails.
    ForgetfulBuffer,
    /// A protected buffer forgets what was on its way to the flash when the power failed.
    ForgetfulProgram,
}
