//! The request to serve storage: which storage, how fast, and at which addresses.

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

/// What to serve, how fast and at which addresses.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)]
pub struct ServeRequest {
    /// The storage: emulated, or plain memory.
    pub device: TargetName,
    /// Addresses at which NBD listens.
    pub endpoints: Vec<Endpoint>,
    /// TLS settings of NBD; `None`: no TLS.
    pub tls: Option<ServerTls>,
    /// Whether NBD may listen without TLS on addresses that other machines can reach.
    pub insist_on_plain: bool,
    /// Folder in which FUSE provides a file for each volume.
    pub fuse: Option<PathBuf>,
    /// Whether each volume is also a block device, through ublk.
    pub ublk: bool,
    /// Timing of completions.
    pub speed: Speed,
    /// Files or folders that keep the data, one per volume; empty: memory.
    pub backing: Vec<PathBuf>,
    /// Existing disk images, one per volume: paths or URIs of NBD exports.
    pub image: Vec<String>,
    /// Whether clients write into the image files.
    pub write_image: bool,
    /// Size of each volume, bytes; `None`: that of its image or its device.
    pub size: Option<u64>,
    /// Memory for all volumes, bytes; `None`: half of the free memory.
    pub memory: Option<u64>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Path of the scenario file, which lists faults and their times.
    pub scenario: Option<PathBuf>,
    /// Path of the record of all requests and faults.
    pub record: Option<PathBuf>,
    /// Address at which metrics are served over HTTP.
    pub metrics: Option<SocketAddr>,
    /// Factor by which the model's times are multiplied.
    pub dilate: Option<f64>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the transport's latency is not compensated.
    pub no_floor: bool,
    /// Seed of all random behaviour.
    pub seed: u64,
}

impl ServeRequest {
    /// Builds the configuration of the NBD server.
    pub(crate) fn config(&self) -> ServerConfig {
        let (tls, insist_on_plain) = (self.tls.clone(), self.insist_on_plain);
        ServerConfig { tls, insist_on_plain, ..ServerConfig::default() }
    }
}

/// Functions that print a server's output for people.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// Prints a text, which has its own line ends.
    pub say: fn(&str),
    /// Prints a line, given its kind, such as `warning`, and words that may quote a file, a server or a device.
    pub remark: fn(&str, &str),
}
