//! The program as its users meet it: the real binary, in a folder of its own, with a notebook of
//! its own, judged by what it prints, how it exits and what it leaves behind.
//!
//! Every module opens with what it holds. One crate, so that the tests are linked once. What needs
//! root and loop devices is ignored unless asked for (`--include-ignored`, as `./test` does).
//! Nothing here asserts how fast anything is: a busy machine must not fail a test.

#[path = "../../../page/tests/browser/mod.rs"]
mod browser;
mod compare;
mod contract;
mod devices;
mod disks;
mod emulated;
mod explained;
mod faults;
mod figures;
mod flags;
mod folder;
mod foreign;
mod forms;
mod input;
mod interruption;
mod limits;
mod live;
mod measuring;
mod methods;
mod mutate;
mod mutations;
mod nbd;
mod outputs;
#[path = "../../../nbd/tests/common/pki.rs"]
mod pki;
mod place;
mod reports;
mod reuse;
mod safety;
mod serve;
mod serve_accept;
mod serve_cuts;
mod serve_faults;
mod serve_figures;
mod serve_frontends;
mod serve_replay;
mod serve_stamps;
mod streams;
mod study;
mod traps;
mod verdicts;
mod verification;
