//! Disks.
