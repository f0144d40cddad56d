//! All tests of this crate that use its public interface, in one program: it is linked once.

mod adapter_content;
mod adapter_failover;
mod adapter_histories;
mod adapters;
mod aging;
mod any_device;
mod array_content;
mod array_histories;
mod arrays;
mod arrays_of_arrays;
mod bad_files;
mod bursts;
mod calypso;
mod catalog;
#[path = "common/catalog.rs"]
mod catalog_devices;
mod common;
#[path = "common/effects.rs"]
mod common_effects;
mod content;
mod data_sheets;
mod disk_files;
mod effects;
mod enlarge;
mod faults;
mod fields;
mod follow;
mod io_thread;
mod laws;
mod limits;
#[path = "common/load.rs"]
mod load;
mod memory;
mod mixes;
mod pinned;
mod placement;
mod power_cut;
mod read_cache;
mod read_frames;
mod replay;
mod represent;
mod slc_cliffs;
mod stalls;
mod stores;
mod translation_unit;
mod variation;
mod volume_classes;
mod zones;
