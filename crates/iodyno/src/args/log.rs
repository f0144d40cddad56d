//! Command-line flags of `iodyno log`.

use super::log_bench::{self, LogBench, LogDurability};
use super::{socket, target};
use clap::{Args, Subcommand};
use iodyno_targets::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Default address of a log server, for listening and for connecting.
pub(crate) const SOCKET: &str = "unix:iodyno-log.sock";

#[derive(Debug, Args)]
pub struct Log {
    #[command(subcommand)]
    pub command: LogCommand,
}

/// Commands of `log`.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Measure a log on any target: messages per second, time until persisted, and backlog of publishers
    #[command(after_help = log_bench::EXAMPLES)]
    Bench(Box<LogBench>),
    /// Create an empty log on a target
    Create(LogCreate),
    /// Find the end of a log and check it for damage; write nothing
    Check(LogCheck),
    /// Serve a log to publishers and subscribers
    ///
    /// SIGTERM and Ctrl-C end the server within 2.5 s plus the time of the last write and flush. If the target
    /// fails, the server exits with 4.
    Serve(Box<LogServe>),
    /// Publish the arguments, or the lines of standard input, and wait until all are persisted
    Publish(LogPublish),
    /// Print messages as they are persisted, until interrupted
    Subscribe(LogRead),
    /// Print the stored messages, and exit
    Replay(LogReplay),
    /// Print the current value of each key
    Query(LogQuery),
    /// Print the state of a server as JSON
    Status {
        /// Address of the log server, and credentials for it.
        #[command(flatten)]
        client: LogClient,
    },
}

#[derive(Debug, Args)]
pub struct LogCreate {
    /// Target of the log, which must be empty: a file (created with --size), block device or NBD export
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// Set the size of the log [default: all of the file or device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Set the size of a segment [default: 1/64 of the target, from 1MiB to 1GiB]
    ///
    /// When space is needed, the oldest segment is dropped as a whole.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub segment: Option<u64>,
    /// Set the maximum size of a write (a chunk), 4 KiB to 16 MiB; a message must fit into one chunk
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB")]
    pub chunk: u64,
    /// Overwrite the data on this target: NAME is its device name, path, serial number or URI
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LogCheck {
    /// Target that holds the log: a file, block device or NBD export
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LogServe {
    /// Target that holds the log; or a temporary one, `ram:SIZE` or `live:DEVICE`
    ///
    /// `live:` is an emulated device in real time. A log on `ram:` or `live:` is lost when the server ends.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// With `live:`, use only this much of the device; its content is kept in memory [default: all, at most half of the free
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Listen at this TCP address, such as `127.0.0.1:9250`; may be repeated
    ///
    /// An address that other machines can reach requires --tls or --insist-on-plain.
    #[arg(long, value_name = "ADDRESS")]
    pub tcp: Vec<SocketAddr>,
    /// Listen on this Unix socket, for its owner only; may be repeated [default: iodyno-log.sock]
    ///
    /// The default applies only without --tcp.
    #[arg(long, value_name = "PATH", value_parser = socket)]
    pub unix: Vec<PathBuf>,
    /// Choose when a message counts as persisted and is acknowledged
    #[arg(long, value_name = "WHEN", default_value = "batch")]
    pub durability: LogDurability,
    /// Keep messages for at least this long, such as 24h [default: drop the oldest when space is needed]
    ///
    /// If the log is full of younger messages, publishers get an error.
    #[arg(long, value_name = "AGE", value_parser = parse_duration_ns)]
    pub retain: Option<u64>,
    /// Disconnect clients that do not read waiting data, or leave a request unfinished, for this long
    ///
    /// A subscriber can reconnect and continue at its bookmark.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "5m")]
    pub stall: u64,
    /// Limit the memory for requests, filters, snapshots and read-ahead of all clients together
    ///
    /// Each client also has half a MiB and three chunks of its own. When the memory is used up, clients are served
    /// more slowly or get an error.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub memory: u64,
    /// Serve a damaged log, without its lost messages
    #[arg(long)]
    pub accept_damage: bool,
    /// Require clients to present the token in this file (line ends after it are ignored)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Require TLS over TCP, with these files: certificate chain, private key, CA of clients (optional)
    ///
    /// Example: `cert.pem,key.pem,ca.pem`. With a CA, clients need a certificate that it signed.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// Allow TCP without TLS on addresses that other machines can reach
    #[arg(long)]
    pub insist_on_plain: bool,
    /// Serve the log although the safety checks refuse its target: NAME is its device name, path, serial number or URI
    ///
    /// Needed, for example, if a message in the log looks like the header of a file system. Serving overwrites nothing.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
}

/// Address of a log server, and credentials for it.
#[derive(Clone, Debug, Args)]
pub struct LogClient {
    /// Connect to the server at `unix:PATH` or HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = SOCKET)]
    pub at: String,
    /// Present the token in this file to the server (line ends after it are ignored)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Connect with TLS, using these files: CA of the server, certificate chain and key of the client (optional)
    ///
    /// Example: `ca.pem,cert.pem,key.pem`. A server may require a certificate of the client.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// With --tls, expect this name in the certificate of the server [default: the host of --at]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_name: Option<String>,
    /// Allow sending the token to another machine without TLS
    #[arg(long)]
    pub insist_on_plain: bool,
}

#[derive(Debug, Args)]
pub struct LogPublish {
    /// Address of the log server, and credentials for it.
    #[command(flatten)]
    pub client: LogClient,
    /// Bodies of the messages [default: the lines of standard input]
    pub messages: Vec<String>,
    /// Publish the messages under this topic, which readers can choose
    #[arg(long, value_name = "TOPIC", default_value = "messages")]
    pub topic: String,
    /// Set the key of the messages; the last message becomes the current value of the key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Split each message at its first tab into a key and a body
    #[arg(long, conflicts_with = "key")]
    pub keyed: bool,
    /// Delete current values: each message is the key of a value to delete
    #[arg(long, conflicts_with_all = ["key", "keyed"])]
    pub delete: bool,
    /// Set the publisher's name, by which the server recognises repeated messages and stores each once
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Skip the messages that were persisted under --name
    ///
    /// After an interruption, give the same input again to continue where it ended.
    #[arg(long, requires = "name")]
    pub resume: bool,
    /// Limit the unpersisted messages to this many bytes; when the limit is reached, wait
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    pub hold: u64,
    /// When --hold is reached, drop messages and count them, instead of waiting
    #[arg(long)]
    pub drop: bool,
    /// Try to reconnect for this long when the server is unreachable
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "30s")]
    pub patience: u64,
}

/// Output format of printed messages.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogOutput {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Print only the bodies, unchanged, each followed by a newline
    #[arg(long, conflicts_with = "json")]
    pub bodies: bool,
}

/// Flags of `log subscribe` and `log replay`.
#[derive(Debug, Args)]
pub struct LogRead {
    /// Address of the log server, and credentials for it.
    #[command(flatten)]
    pub client: LogClient,
    /// Start here: `now`, `oldest`, a message number, or a time such as `2026-11-23T08:00:00Z`
    ///
    /// [default: now for subscribe, oldest for replay]
    #[arg(long, value_name = "WHERE")]
    pub from: Option<String>,
    /// Stop before this message number [default: subscribe never stops, replay stops after the last message]
    #[arg(long, value_name = "NUMBER")]
    pub until: Option<u64>,
    /// Print only messages of this topic
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Print only messages that match this filter, such as '/price > 10'
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Stop after N messages
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Output format of the messages.
    #[command(flatten)]
    pub output: LogOutput,
}

#[derive(Debug, Args)]
pub struct LogReplay {
    /// Read the log on this target directly, without a server
    #[arg(long, value_name = "TARGET", value_parser = target, conflicts_with_all = ["at", "token_file", "tls", "tls_name", "insist_on_plain"])]
    pub on: Option<TargetName>,
    /// Selection of the messages to print.
    #[command(flatten)]
    pub read: LogRead,
}

#[derive(Debug, Args)]
pub struct LogQuery {
    /// Address of the log server, and credentials for it.
    #[command(flatten)]
    pub client: LogClient,
    /// Print only values of this topic
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Print only values that match this filter, such as '/price > 10'
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Output format of the values.
    #[command(flatten)]
    pub output: LogOutput,
}
