//! Keys of the table `[zones]` in the file of a zoned flash device.

use super::{GIB, KIB, MIB, MS, S, count, size, time};
use iodyno_catalog::Key;

pub(super) const ZONES: &[Key] = &[
    size("zones.size", MIB..=2 * GIB),
    size("zones.capacity", 4 * KIB..=2 * GIB),
    count("zones.open_max", 1..=65_536),
    count("zones.active_max", 1..=65_536),
    time("zones.append_command", 0..=10 * MS),
    time("zones.reset", 0..=100 * S),
];
