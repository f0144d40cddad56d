//! A damaged or forged message log is opened and continued.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::log_recovery::recover, "log_recovery");
