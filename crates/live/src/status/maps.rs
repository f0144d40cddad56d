//! Map types of the status document: a value per kind of operation, and values by name.

use iodyno_units::OpKind;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// A value for each kind of operation. In JSON, values equal to the default are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByKind<T>(pub [T; OpKind::COUNT]);

impl<T> ByKind<T> {
    /// Iterates over the values of all kinds of operations, each with the JSON key of its kind.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &T)> {
        OpKind::ALL.into_iter().map(OpKind::name).zip(&self.0)
    }
}

impl<T: Default + PartialEq> ByKind<T> {
    /// Iterates over the values that differ from the default, each with the JSON key of its kind.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.all().filter(|(_, value)| **value != T::default())
    }
}

impl<T: Serialize + Default + PartialEq> Serialize for ByKind<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.given())
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for ByKind<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = <[T; OpKind::COUNT]>::default();
        for (key, value) in Named::<T>::deserialize(from)?.0 {
            if let Some(kind) = OpKind::ALL.iter().position(|kind| kind.name() == key) {
                all[kind] = value;
            }
        }
        Ok(Self(all))
    }
}

/// Pairs of name and value. They form a JSON object in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Vec<(String, T)>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(all)
            }
        }

        from.deserialize_map(Entries(PhantomData)).map(Self)
    }
}
