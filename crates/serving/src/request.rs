//! A request to serve storage: the storage, its timing, and the addresses of the servers.

use iodyno_nbd::tls::ServerTls;
use iodyno_nbd::{Endpoint, ServerConfig};
use iodyno_targets::TargetName;
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

/// Whether requests to the served storage complete at the model's times, or as fast as this machine can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Each request completes at the time that the model predicts.
    Model,
    /// Requests complete as fast as this machine can.
    Native,
}

/// The storage to serve, its timing, and the addresses.
#[allow(clippy::struct_excessive_bools)]
pub struct ServeRequest {
    /// Name of the storage: emulated, or plain memory.
    pub device: TargetName,
    /// Addresses of the NBD server.
    pub endpoints: Vec<Endpoint>,
    /// TLS settings of NBD; `None`: no TLS.
    pub tls: Option<ServerTls>,
    /// Whether NBD may listen without TLS on addresses that other machines can reach.
    pub insist_on_plain: bool,
    /// Folder to mount by FUSE, with one file per volume; `None`: no FUSE.
    pub fuse: Option<PathBuf>,
    /// Whether to create a block device for each volume through ublk.
    pub ublk: bool,
    pub speed: Speed,
    /// Files or folders that store the data, one per volume; empty: the data is stored in memory.
    pub backing: Vec<PathBuf>,
    /// Existing disk images with the volumes' initial content, one per volume: paths or URIs of NBD exports. Empty: all
    /// volumes begin with zeroes.
    pub image: Vec<String>,
    /// Whether the writes of clients change the image files; if false, the images stay unchanged.
    pub write_image: bool,
    /// Size of each volume, bytes; `None`: the size of its image or device.
    pub size: Option<u64>,
    /// Memory limit for the data of all volumes, bytes; `None`: half of the free memory.
    pub memory: Option<u64>,
    /// Path of the control socket; `None`: no control socket.
    pub control: Option<PathBuf>,
    /// Path of the scenario file, which lists faults and the times at which to inject them; `None`: no scenario.
    pub scenario: Option<PathBuf>,
    /// File in which to record all requests and faults; `None`: no record.
    pub record: Option<PathBuf>,
    /// File in which to log all writes with their data, possible only for a system with one volume; `None`: no log.
    pub record_data: Option<PathBuf>,
    /// Address at which to serve metrics over HTTP; `None`: no metrics.
    pub metrics: Option<SocketAddr>,
    /// Factor by which the model's latencies are multiplied; `None`: 1, unless [`Self::steady_ns`] is set.
    pub dilate: Option<f64>,
    /// Target latency of a flushed write of 4 KiB, ns; all latencies of the model are stretched by the factor that this
    /// requires. `None`: [`Self::dilate`] sets the factor.
    pub steady_ns: Option<u64>,
    /// Whether writes from clients are refused.
    pub read_only: bool,
    /// Whether to leave transport latency uncompensated. By default it is subtracted from the model's latencies.
    pub no_floor: bool,
    /// Seed of the device's random numbers.
    pub seed: u64,
    /// File that receives a line once clients can connect, and is then closed; `None`: no such file.
    pub ready: Mutex<Option<File>>,
    /// Program and arguments of a command that runs while storage is served; the server ends when the command ends.
    /// Empty: no command; a signal or the control socket ends the server.
    pub command: Vec<OsString>,
}

impl ServeRequest {
    /// Builds the configuration of the NBD server.
    pub(crate) fn config(&self) -> ServerConfig {
        let (tls, insist_on_plain) = (self.tls.clone(), self.insist_on_plain);
        ServerConfig { tls, insist_on_plain, ..ServerConfig::default() }
    }
}

/// Functions that print the output of a server.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// Prints a text. The function adds no newline.
    pub say: fn(&str),
    /// Prints a line: a label such as `warning`, and a text that may quote a file, a server or a device.
    pub remark: fn(&str, &str),
}
