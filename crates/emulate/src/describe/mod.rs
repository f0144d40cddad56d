//! Device and system files: from TOML text to checked numbers, with the source of every parameter.
//!
//! [`device`] and [`system`] say what a parsed file means or everything that is wrong with it, each error
//! at its place. The `schema` lists tables and keys, which `catalog` reads; the `rules` are named and
//! are about several values at once. [`System::populate`] puts devices into a server; what it refuses
//! is drawn at its place in the system's file by [`DescribedSystem::error`].
//!
//! Where a file comes from, and what a name in it (`host`, `device`) refers to, is for the caller to
//! know: this module opens nothing.
//!
//! [`System::populate`]: crate::spec::System::populate

mod device;
mod populate;
mod rules;
mod schema;
mod system;

pub use device::{DescribedDevice, device};
pub use iodyno_catalog::{Parameter, Source, count_by_source};
pub use rules::RuleBroken;
pub use schema::keys;
pub use system::{DescribedSystem, VolumesOf, system};

use iodyno_catalog::{FileError, Reader, Record};
use rules::Rule;

/// Holds what was read against the rules: each that is broken is an error at its key.
fn check(reader: &mut Reader, record: &Record, rules: &[Rule]) {
    for rule in rules {
        let Some(fault) = (rule.check)(record) else { continue };
        let message = format!("{} (rule `{}`)", fault.message, rule.name);
        let error = FileError::new(record.place(&fault.path), message);
        let error = error.with_help(fault.help.unwrap_or_default());
        reader.errors.push(FileError { rule: Some(rule.name), ..error });
    }
}
