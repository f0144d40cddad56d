//! A run that a report of a stranger carries.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::notebook::import, "notebook");
