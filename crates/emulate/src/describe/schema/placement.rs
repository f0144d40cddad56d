//! Keys of the table `[placement]` in the file of a flash device.

use super::parameter;
use crate::spec::Isolation;
use iodyno_catalog::{Key, ValueType};

pub(super) const PLACEMENT: &[Key] = &[
    parameter("placement.namespaces", ValueType::List(&ValueType::Share(1.0))),
    parameter("placement.isolation", ValueType::Word(&Isolation::WORDS)),
];
