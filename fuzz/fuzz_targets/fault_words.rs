//! Words of `iodyno fault`.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::fault_words::parse, "fault_words");
