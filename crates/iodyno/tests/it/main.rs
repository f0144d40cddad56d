//! The program as its users run it: the real binary, in its own folder and with its own notebook,
//! tested by its output, its exit code and the files that it leaves.
//!
//! Every module states its content at the top. All are in one crate, so that the tests are linked
//! once. Tests that require root and loop devices are ignored by default (`--include-ignored`, as
//! in `./test`). The tests do not assert speed: a busy machine must not fail a test.

#[path = "../../../page/tests/browser/mod.rs"]
mod browser;
mod compare;
mod completions;
mod contract;
mod crash_folder;
mod dashboard;
mod devices;
mod disks;
mod disturbed;
mod emulated;
mod explained;
mod exposition;
mod faults;
mod figures;
mod fio_exports;
mod fio_import;
mod fio_jobs;
mod fio_regression;
mod fio_targets;
mod fit;
mod flags;
mod folder;
mod foreign;
mod forms;
mod history;
mod input;
mod interruption;
mod limits;
mod live;
mod log_bench;
mod log_budgets;
mod log_clients;
mod log_kills;
mod log_server;
mod log_service;
mod log_strangers;
mod log_ways;
mod long_run;
mod measuring;
mod methods;
mod mutate;
mod mutations;
mod named_files;
mod nbd;
mod other_tools;
mod outputs;
#[path = "../../../nbd/tests/common/pki.rs"]
mod pki;
mod place;
mod reports;
mod reuse;
mod run_metrics;
mod safety;
mod serve;
mod serve_accept;
mod serve_adapters;
mod serve_arrays;
mod serve_command;
mod serve_composed;
mod serve_control;
mod serve_cuts;
mod serve_effects;
mod serve_ends;
mod serve_faults;
mod serve_figures;
mod serve_frontends;
mod serve_images;
mod serve_interface;
mod serve_recipes;
mod serve_replay;
mod serve_stamps;
mod shards;
mod size;
mod size_like;
mod streams;
mod study;
mod traces;
mod traps;
mod verdicts;
mod verification;
mod web;
