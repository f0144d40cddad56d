//! FTL.
