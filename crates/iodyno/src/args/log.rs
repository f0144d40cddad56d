//! Flags of `log`.

use super::log_bench::{self, LogBench, LogDurability};
use super::{socket, target};
use clap::{Args, Subcommand};
use iodyno_target::TargetName;
use iodyno_units::{parse_duration_ns, parse_size};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server listens, and clients look for it, without a flag.
pub(crate) const SOCKET: &str = "unix:iodyno-log.sock";

/// Flags of `log`.
#[derive(Debug, Args)]
pub struct Log {
    /// What to do.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// Commands of `log`.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Measure a log on any target: messages a second, how long they take to be persisted, and what publishers hold.
    #[command(after_help = log_bench::EXAMPLES)]
    Bench(Box<LogBench>),
    /// Make a log on a target.
    Create(LogCreate),
    /// Read a log, and say what is there: where it ends, and what is damaged. Writes nothing.
    Check(LogCheck),
    /// Serve a log to publishers and subscribers. SIGTERM or Ctrl-C end it within 2 s and the time of the last write; it ends by
    /// itself, with exit code 4, when its target fails.
    Serve(Box<LogServe>),
    /// Publish messages: the arguments, or the lines of standard input. Ends when all of them are persisted.
    Publish(LogPublish),
    /// Print messages as they are persisted, until interrupted.
    Subscribe(LogRead),
    /// Print the messages that are there.
    Replay(LogReplay),
    /// Print the current value of each key.
    Query(LogQuery),
    /// Print the state of a server, as JSON.
    Status {
        /// The server.
        #[command(flatten)]
        client: LogClient,
    },
}

/// Flags of `log create`.
#[derive(Debug, Args)]
pub struct LogCreate {
    /// A file, which is made with --size; a block device; or an NBD export. It must be empty.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// Size of the file. Default: all of what is there.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Size of a segment, the unit in which old messages are dropped. Default: a 64th of the target, 1 MiB to 1 GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub segment: Option<u64>,
    /// Size of a chunk, the largest write, and space for the largest message: 4 KiB to 16 MiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64KiB")]
    pub chunk: u64,
    /// Overwrite what the target of this name holds.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
}

/// Flags of `log check`.
#[derive(Debug, Args)]
pub struct LogCheck {
    /// The target of the log.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// One JSON document on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `log serve`.
#[derive(Debug, Args)]
pub struct LogServe {
    /// The target of the log; or `ram:SIZE`, or an emulated device in real time, `live:DEVICE`: a log that is gone with its
    /// server.
    #[arg(value_parser = target)]
    pub target: TargetName,
    /// With `live:`: bytes of the device to use, which are kept in memory. Default: all of them, or half of the free
    /// memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Listen at this address: `127.0.0.1:9250`. May be given again. One that other machines reach needs --tls, or
    /// --insist-on-plain. Without --tcp and --unix: `--unix iodyno-log.sock`.
    #[arg(long, value_name = "ADDRESS")]
    pub tcp: Vec<SocketAddr>,
    /// Listen on this Unix socket, which only its owner may use; may be given again.
    #[arg(long, value_name = "PATH", value_parser = socket)]
    pub unix: Vec<PathBuf>,
    /// When messages count as persisted, and publishers are told so.
    #[arg(long, value_name = "WHEN", default_value = "batch")]
    pub durability: LogDurability,
    /// Keep messages for this long at least, such as 24h: where all of the target holds younger ones, publishers are
    /// refused. Default: the oldest are dropped when space is needed.
    #[arg(long, value_name = "AGE", value_parser = parse_duration_ns)]
    pub retain: Option<u64>,
    /// Disconnect clients that take nothing of what waits for them for this time, or that leave a request unfinished. A
    /// subscriber goes on by its bookmark.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "5m")]
    pub stall: u64,
    /// Memory that clients may hold together, beyond half a MiB and three chunks for each: large requests, filters, values that
    /// snapshots keep, and what is read ahead. A client for which there is none is served slower, or told so.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub memory: u64,
    /// Serve a log of which parts are damaged: what they held is left out.
    #[arg(long)]
    pub accept_damage: bool,
    /// Clients must show what this file holds, without the end of its line.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Require TLS over TCP: the server's chain and key, and the authority that signed the clients' certificates:
    /// `cert.pem,key.pem,ca.pem`.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// Listen without TLS on addresses that other machines reach.
    #[arg(long)]
    pub insist_on_plain: bool,
    /// Serve the log although the target of this name is refused, such as where a message looks like a file system.
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
}

/// How a client finds its server.
#[derive(Clone, Debug, Args)]
pub struct LogClient {
    /// The server: `unix:PATH`, or HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value = SOCKET)]
    pub at: String,
    /// Show the server what this file holds, without the end of its line.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Use TLS: the authority that signed the server's certificate, and this client's chain and key where the server
    /// requires them: `ca.pem,cert.pem,key.pem`.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub tls: Vec<PathBuf>,
    /// With --tls: the name in the server's certificate. Default: the host of --at.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_name: Option<String>,
    /// Send the token to another machine without TLS.
    #[arg(long)]
    pub insist_on_plain: bool,
}

/// Flags of `log publish`.
#[derive(Debug, Args)]
pub struct LogPublish {
    /// The server.
    #[command(flatten)]
    pub client: LogClient,
    /// Bodies of messages. Without any, each line of standard input is one.
    pub messages: Vec<String>,
    /// Their topic.
    #[arg(long, value_name = "TOPIC", default_value = "messages")]
    pub topic: String,
    /// Their key: the last of them is the key's current value.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Each message is a key, a tab, and its body.
    #[arg(long, conflicts_with = "key")]
    pub keyed: bool,
    /// Each message is a key, whose current value is removed.
    #[arg(long, conflicts_with_all = ["key", "keyed"])]
    pub delete: bool,
    /// The publisher's name: the server knows which of its messages it has, and none is stored twice.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Leave out as many messages as were persisted by this name: the same input again, after an interruption, goes on where
    /// that one ended.
    #[arg(long, requires = "name")]
    pub resume: bool,
    /// Hold up to this many bytes of messages that are not persisted yet; then wait.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    pub hold: u64,
    /// Beyond --hold drop messages, and count them, instead of waiting.
    #[arg(long)]
    pub drop: bool,
    /// Retry to connect for this time when the server is gone.
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, default_value = "30s")]
    pub patience: u64,
}

/// What is printed of messages.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogOutput {
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Bodies only, as they are, each with a line end.
    #[arg(long, conflicts_with = "json")]
    pub bodies: bool,
}

/// Flags of `log subscribe` and `log replay`.
#[derive(Debug, Args)]
pub struct LogRead {
    /// The server.
    #[command(flatten)]
    pub client: LogClient,
    /// Begin `now`, with the `oldest` message, with a number, or at a time: `2026-11-23T08:00:00Z`. Default: now for
    /// subscribe, oldest for replay.
    #[arg(long, value_name = "WHERE")]
    pub from: Option<String>,
    /// End before this number. Default: never for subscribe, and what is there for replay.
    #[arg(long, value_name = "NUMBER")]
    pub until: Option<u64>,
    /// Only messages of this topic.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Only messages that match.
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// End after N messages.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// The form.
    #[command(flatten)]
    pub output: LogOutput,
}

/// Flags of `log replay`.
#[derive(Debug, Args)]
pub struct LogReplay {
    /// Read this target's log itself, without a server.
    #[arg(long, value_name = "TARGET", value_parser = target, conflicts_with_all = ["at", "token_file", "tls"])]
    pub on: Option<TargetName>,
    /// What is read.
    #[command(flatten)]
    pub read: LogRead,
}

/// Flags of `log query`.
#[derive(Debug, Args)]
pub struct LogQuery {
    /// The server.
    #[command(flatten)]
    pub client: LogClient,
    /// Only values of this topic.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Only values that match.
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// The form.
    #[command(flatten)]
    pub output: LogOutput,
}
