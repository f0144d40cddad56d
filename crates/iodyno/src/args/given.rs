//! Records which flags a command line sets.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// Long names of the flags that a command line sets to a value other than the default.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Collects the flags that were set on a subcommand's command line.
    pub(super) fn of(matches: &ArgMatches, command: &Command) -> Self {
        let is_given = |id: &str, default: &[clap::builder::OsStr]| {
            let values = || matches.get_raw(id).into_iter().flatten();
            matches.value_source(id) == Some(ValueSource::CommandLine)
                && (default.is_empty() || !values().eq(default.iter().map(AsRef::<OsStr>::as_ref)))
        };
        let flags = matches.ids().filter_map(|id| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id)?;
            let long = arg.get_long()?;
            is_given(id.as_str(), arg.get_default_values()).then(|| long.to_owned())
        });
        Self(flags.collect())
    }

    /// Whether the command line sets a flag.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }

    /// Returns the first of `flags` that is set on the command line.
    pub(crate) fn first_of<'a>(&self, flags: &[&'a str]) -> Option<&'a str> {
        flags.iter().copied().find(|flag| self.has(flag))
    }

    /// Long names of all given flags.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
