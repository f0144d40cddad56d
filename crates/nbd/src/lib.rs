//! NBD, the network block device protocol, by its public document.
pub mod wire;
