//! Recorded I/O of other programs.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::exchange::trace, "trace");
