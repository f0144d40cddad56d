//! Flags of the commands that serve storage, and of those that talk to a server.

use super::{emulated, socket};
use clap::{Args, ValueEnum};
use iodyno_target::TargetName;
use iodyno_units::parse_size;
use std::path::PathBuf;

/// How fast served storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Speed {
    /// Each completion comes at the model's time.
    Model,
    /// As fast as this machine can; what was acknowledged survives the server.
    Native,
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Emulated storage as `run --on` takes it, with or without `model:`: a device of the catalog,
    /// the path of a file, several in a server: `exflash-400g*4@x3850-x6`. Each volume is an export.
    /// Or plain memory: `ram:4GiB`.
    #[arg(value_parser = emulated)]
    pub device: TargetName,
    /// Where to listen; may be given again: `unix:/run/flash.sock`, `127.0.0.1:10809`. Without any
    /// frontend: `unix:iodyno.sock`. Limits: 1024 connections, and 256 MiB for what all of them have in
    /// flight, beside 256 KiB of each; requests beyond it wait.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<String>,
    /// Mount a folder with a file for each volume, which `losetup --direct-io=on` makes a block device
    /// of (builds with the feature `fuse`).
    #[arg(long, value_name = "FOLDER")]
    pub fuse: Option<PathBuf>,
    /// Make each volume a block device of this kernel (builds with the feature `ublk`).
    #[arg(long)]
    pub ublk: bool,
    /// `model` (the default) or `native`.
    #[arg(long, value_name = "SPEED")]
    pub speed: Option<Speed>,
    /// Keep the bytes in this file, sparse, made if it is not there; one for each volume. Of an array, in this
    /// folder, with a file for each member. Without, they are in memory.
    #[arg(long, value_name = "FILE")]
    pub backing: Vec<PathBuf>,
    /// Begin with an existing image, one for each volume: a raw file, or an export that another NBD server has
    /// (qemu-nbd, for other formats): `nbd+unix:///?socket=/run/q.sock`. Its size is the volume's. It is only
    /// read: what clients write is in memory, and gone with the server.
    #[arg(long, value_name = "FILE", conflicts_with = "backing")]
    pub image: Vec<String>,
    /// With --image: clients write into the file itself.
    #[arg(long, requires = "image", conflicts_with_all = ["size", "memory"])]
    pub write_image: bool,
    /// Size of each volume. Less than the device has is its beginning; more is possible for memory, and for
    /// flash at the cost of its spare area. Default: the image's, or the device's.
    #[arg(long, value_name = "SIZE", value_parser = volume_size)]
    pub size: Option<u64>,
    /// Memory for the bytes, of all volumes: 1 MiB for each or more. Default: half of what is free.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "backing")]
    pub memory: Option<u64>,
    /// Take faults and questions on this socket: `unix:/run/ctl.sock`.
    #[arg(long, value_name = "SOCKET", value_parser = socket)]
    pub control: Option<PathBuf>,
    /// Faults at times: a file of lines such as `2s slow x10`.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Record what comes in, for `iodyno replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Answer Prometheus at this address, or port of 127.0.0.1: `9469`. An address that other machines reach requires
    /// --insist-on-plain.
    #[arg(long, value_name = "ADDRESS", value_parser = super::metrics_address)]
    pub metrics: Option<std::net::SocketAddr>,
    /// Multiply the model's times, for guests and clients whose transport is slower than the device.
    #[arg(long, value_name = "K", value_parser = dilation)]
    pub dilate: Option<f64>,
    /// Require TLS: the server's chain and key, and the authority that signed the clients'
    /// certificates: `cert.pem,key.pem,ca.pem`.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// Listen without TLS (--nbd, --metrics) on addresses that other machines reach.
    #[arg(long)]
    pub insist_on_plain: bool,
    /// Clients may not write.
    #[arg(long)]
    pub read_only: bool,
    /// Do not compensate for transport latency.
    #[arg(long)]
    pub no_floor: bool,
    /// Seed of everything random in the device.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Flags of `fault`.
#[derive(Debug, Args)]
pub struct FaultFlags {
    /// power-off, power-on, power-cut, lose, replace, hang, `slow x10`, `delay 5ms`, `error 1% reads`, `latent
    /// 1GiB..+64KiB`, `corrupt 1GiB..+64KiB`, `page 1GiB`, `block 1GiB`, full, `resize 1GiB`, clear; with a
    /// volume's number behind it where it is not 0. Prints what is in effect from then on, or
    /// why it has no effect. `status` tells what the server did so far; `stop` has it flush and end, and waits for that.
    #[arg(required = true)]
    pub fault: Vec<String>,
    /// The server's control socket.
    #[arg(long, value_name = "SOCKET")]
    pub control: String,
}

/// Flags of `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The server's control socket.
    #[arg(long, value_name = "SOCKET")]
    pub control: String,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
    /// Prometheus' text form.
    #[arg(long, conflicts_with = "json")]
    pub metrics: bool,
}

fn volume_size(text: &str) -> Result<u64, String> {
    iodyno_live::fault_command::volume_size(text)
}

fn dilation(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(k) if k.is_finite() && (0.001..=1e6).contains(&k) => Ok(k),
        _ => Err("take a factor from 0.001 to 1000000".to_owned()),
    }
}
