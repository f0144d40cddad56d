//! All tests of this crate that use its public interface, in one program: it is linked once.

mod amps;
mod diskspd;
mod fio;
mod fio_mutations;
mod fio_options;
mod fio_peer;
mod fio_results;
mod mutated;
mod mutation_budget;
mod other_tools;
mod sysbench;
mod sysbench_peer;
mod trace;
mod trace_formats;
mod trace_samples;
mod vdbench;
