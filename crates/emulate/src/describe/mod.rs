//! Device and system files: from TOML text to checked numbers, with the source of every parameter.
//!
//! A file is parsed into a [`RawFile`] (by serde, so that the caller's parser reports bad TOML), and
//! [`device`] or [`system`] says what it means or everything that is wrong with it, each error at its
//! place. The form (`form`) lists tables and keys, the reader holds the file against it, the rules
//! (`rules`) are named and speak about several values at once. [`System::populate`] puts devices
//! into a server; what it refuses is drawn at its place in the system's file by
//! [`DescribedSystem::error`].
//!
//! Where a file comes from, and what a name in it (`host`, `device`) refers to, is for the caller to
//! know: this module opens nothing.
//!
//! [`System::populate`]: crate::spec::System::populate

mod device;
mod error;
mod populate;
mod raw;
mod reader;
mod rules;
mod schema;
mod source;
mod system;
mod values;

pub use device::{DescribedDevice, device};
pub use error::FormError;
pub use raw::RawFile;
pub use reader::SCHEMA;
pub use rules::RuleBroken;
pub use schema::keys;
pub use source::{Parameter, Source, count_by_source};
pub use system::{DescribedSystem, VolumesOf, system};

use reader::Reader;
use rules::Rule;

/// Holds what was read against the rules: each that is broken is an error at its key.
fn check(reader: &mut Reader, rules: &[Rule]) {
    for rule in rules {
        if let Some(fault) = (rule.check)(&reader.values) {
            reader.errors.push(FormError {
                span: reader.place(fault.path),
                rule: Some(rule.name),
                message: format!("{} (rule `{}`)", fault.message, rule.name),
                help: fault.help,
            });
        }
    }
}

/// The errors in the order of the file, if there are any.
fn finish(reader: &mut Reader) -> Result<(), Vec<FormError>> {
    if reader.errors.is_empty() {
        return Ok(());
    }
    reader.errors.sort_by_key(|error| error.span.start);
    Err(std::mem::take(&mut reader.errors))
}
