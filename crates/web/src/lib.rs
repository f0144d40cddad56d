//! A web page that shows a notebook (the database of runs), served on this machine: the list of runs, their reports,
//! comparisons, runs in progress, served storage, and forms for commands that simulate.
//!
//! Pages of runs and comparisons come from `report`. The page needs no other host and no build step: its scripts and
//! styles are plain files in `assets/`, which this crate embeds.
//!
//! **Invariant:** without permission ([`Site::allow_run`]) a request changes nothing. No page has an inline script of
//! this crate, every text from a notebook is escaped, and a request has limits in size and time.

#![forbid(unsafe_code)]

mod access;
mod forms;
mod http;
mod live;
mod pages;
mod reports;
mod routes;
mod runs;
mod served;
mod stop;
mod studies;

pub use access::Token;

use access::Access;
use iodyno_live::admin_socket;
use routes::Server;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

/// Settings of the web page: its content, and the permissions of clients.
#[derive(Clone, Debug)]
pub struct Site {
    /// Path of the notebook, which need not exist yet.
    pub notebook: PathBuf,
    /// Paths of the control sockets of emulated storage servers. The page shows the status of these servers.
    pub controls: Vec<PathBuf>,
    /// Path of the iodyno program, which answers the forms `explain` and `size`.
    pub program: PathBuf,
    /// Names of emulated devices in the catalog.
    pub devices: Vec<String>,
    /// Names of workloads in the catalog.
    pub workloads: Vec<String>,
    /// Names of studies in the catalog.
    pub studies: Vec<String>,
    /// Name and version of the program, for the footer of pages.
    pub made_by: String,
    /// Secret that clients must present; `None`: every client that reaches the address may read.
    pub token: Option<Token>,
    /// Whether clients may stop runs, name and annotate them, and inject faults. Otherwise the page is read-only.
    pub allow_run: bool,
}

/// Serves HTTP on a listener in background threads, until the process ends.
///
/// # Errors
/// The listener has no address, or no thread can be created.
pub fn serve(listener: TcpListener, site: &Site) -> io::Result<()> {
    let access = Access::new(site.token.clone(), listener.local_addr()?);
    let server = Server::new(site, access)?;
    let accept = move || listener.accept().map(|(stream, _)| stream);
    admin_socket::serve("web", accept, move |stream: &TcpStream| server.answer(stream))
}
