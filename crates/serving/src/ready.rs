//! Notifies other programs that the server is ready.

use std::env;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Writes a line to `to`, the file of `--ready-fd`, and closes the file. If systemd started the server (`Type=notify`),
/// notifies systemd.
pub(crate) fn notify(to: Option<File>) -> io::Result<()> {
    tell_systemd()?;
    to.map_or(Ok(()), |mut file| file.write_all(b"ready\n"))
}

/// Sends `READY=1` to the socket in `NOTIFY_SOCKET`, as in sd_notify(3). A name that begins with `@` is an abstract
/// socket.
fn tell_systemd() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)?;
    Ok(())
}
