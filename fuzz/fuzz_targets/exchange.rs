//! Workloads of other programs: job files and command lines.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::exchange::workload, "exchange");
