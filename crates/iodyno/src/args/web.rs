use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Default address of the page.
const DEFAULT_ADDRESS: &str = "127.0.0.1:9470";

#[derive(Debug, Args)]
pub struct Web {
    /// Listen on this address: a port of 127.0.0.1, or HOST:PORT; 0 for any free port
    ///
    /// An address that other machines can reach needs a token. The page has no TLS: prefer a tunnel
    /// (`ssh -L 9470:127.0.0.1:9470 HOST`).
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_ADDRESS,
        value_parser = super::metrics_address)]
    pub listen: SocketAddr,
    /// Also show the storage of a running `iodyno serve --control SOCKET`; may be repeated
    #[arg(long, value_name = "SOCKET", value_parser = super::socket)]
    pub control: Vec<PathBuf>,
    /// Require a token, and print an address that contains it
    #[arg(long)]
    pub token: bool,
    /// Require the token in this file: 16 to 256 letters, digits, `-` and `_`
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Allow the page to stop and rename runs in progress, to annotate runs, and to inject faults; implies --token
    #[arg(long)]
    pub allow_run: bool,
}
