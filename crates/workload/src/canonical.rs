//! Writes a specification as a workload file, in two forms. The stored form has every key, except a sparse key (see
//! `keys.rs`) that has its default value. Later versions read the stored form, and apply the rules again. The short
//! form is for people.
//!
//! With serde, a [`Spec`] is serialised as the keys of the stored form. The serialisation format must not round
//! numbers, because that would change shares: JSON read by serde_json needs `float_roundtrip`.

use iodyno_catalog::FileError;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::keys::{self, Form};
use crate::spec::Spec;

impl Spec {
    /// Formats the specification as a workload file, in the form stored with runs. It has every key, except a sparse
    /// key (see `keys.rs`) that has its default value.
    pub fn to_toml(&self) -> String {
        keys::text(self, Form::Stored)
    }

    /// Formats the specification as a workload file for people. Omits keys whose value is the default, except a few
    /// that are always of interest.
    pub fn to_short_toml(&self) -> String {
        keys::text(self, Form::Short)
    }
}

impl Serialize for Spec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table: toml::Table = self.to_toml().parse().map_err(serde::ser::Error::custom)?;
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = toml::Table::deserialize(deserializer)?.to_string();
        Self::from_toml(&text).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(FileError::to_string).collect();
            D::Error::custom(all.join("\n"))
        })
    }
}
