//! `iodyno-mpi` as its users run it, with a real MPI: on this machine, and on hosts that are network namespaces with
//! their own names (`in_namespaces`, which needs root).
//!
//! Nothing here asserts speed: skews and rates are printed, and documents cite them.

mod in_namespaces;
mod killed;
mod on_one_host;
mod program;
