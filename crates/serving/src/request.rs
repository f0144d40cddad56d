//! The request to serve storage: what, how fast and at which addresses.

use iodyno_nbd::tls::ServerTls;
use iodyno_nbd::{Endpoint, ServerConfig};
use iodyno_targets::TargetName;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Timing of served storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Each request completes at the time that the model predicts.
    Model,
    /// Requests complete as fast as this machine can.
    Native,
}

/// A request to serve storage.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)]
pub struct ServeRequest {
    /// The storage: emulated, or plain memory.
    pub device: TargetName,
    /// Addresses of NBD.
    pub endpoints: Vec<Endpoint>,
    /// Certificates of NBD; `None`: no TLS.
    pub tls: Option<ServerTls>,
    /// Whether NBD may listen without TLS on addresses that other machines can reach.
    pub insist_on_plain: bool,
    /// Folder for a file per volume, by FUSE.
    pub fuse: Option<PathBuf>,
    /// Whether each volume is a block device, by ublk.
    pub ublk: bool,
    /// Timing of completions.
    pub speed: Speed,
    /// Files or folders that keep the data, one per volume; empty: memory.
    pub backing: Vec<PathBuf>,
    /// Existing images, one per volume: paths or URIs of NBD exports.
    pub image: Vec<String>,
    /// Whether clients write into the image files.
    pub write_image: bool,
    /// Size of each volume, bytes; `None`: that of its image or its device.
    pub size: Option<u64>,
    /// Memory for all volumes, bytes; `None`: half of the free memory.
    pub memory: Option<u64>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// File of faults at given times.
    pub scenario: Option<PathBuf>,
    /// File for a record of all requests and faults.
    pub record: Option<PathBuf>,
    /// Address of metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Factor on the model's times.
    pub dilate: Option<f64>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the transport's latency is not compensated.
    pub no_floor: bool,
    /// Seed of all random behaviour.
    pub seed: u64,
}

impl ServeRequest {
    /// The configuration of the NBD server.
    pub(crate) fn config(&self) -> ServerConfig {
        let (tls, insist_on_plain) = (self.tls.clone(), self.insist_on_plain);
        ServerConfig { tls, insist_on_plain, ..ServerConfig::default() }
    }
}

/// Output of a server for people.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// Prints a text with line ends.
    pub say: fn(&str),
    /// Prints a line: its kind, and words that may quote a file, a server or a device.
    pub remark: fn(&str, &str),
}
