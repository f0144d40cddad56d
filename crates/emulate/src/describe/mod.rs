//! Device and system files: conversion of TOML text to checked values, with the source of every parameter.
//!
//! [`device`] and [`system`] convert a file, or return all its errors with their positions. `schema` declares the
//! tables and keys. `rules` has the rules that relate several values. [`System::populate`] places devices in a
//! server; [`DescribedSystem::error`] finds the position of a violated rule in the system's file.
//!
//! The caller finds the file and resolves the names in it (`host`, `device`); this module opens no files.
//!
//! [`System::populate`]: crate::spec::System::populate

mod bay;
mod device;
mod enlarge;
mod limit;
mod populate;
mod rules;
mod schema;
mod system;
mod volume_class;

pub use bay::{Bay, Power};
pub use device::{DescribedDevice, device};
pub use iodyno_catalog::{Parameter, Source, count_by_source};
pub use rules::RuleBroken;
pub use schema::keys;
pub use system::{DescribedSystem, VolumesOf, system};
pub use volume_class::{Provisioned, VolumeClass, start_with};

use iodyno_catalog::{FileError, Reader, Record};
use rules::Rule;

/// Checks the values of a file against rules. Each violation is reported at the key it concerns.
fn check(reader: &mut Reader, record: &Record, rules: &[Rule]) {
    for rule in rules {
        let Some(fault) = (rule.check)(record) else { continue };
        let message = format!("{} (rule `{}`)", fault.message, rule.name);
        let error = FileError::new(record.place(&fault.path), message);
        let error = error.with_help(fault.help.unwrap_or_default());
        reader.errors.push(FileError { rule: Some(rule.name), ..error });
    }
}
