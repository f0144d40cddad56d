//! The server's negotiation on a socket: blocking steps under a deadline, until the client has opened an export.

use super::{Connection, End, Pipe};
use crate::server::export::{Peer, Session};
use crate::syscalls;
use crate::wire::{Handshake, Negotiated, Refusal, Step, TlsPolicy, WINDOW_BYTES};
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl Connection<'_> {
    pub(super) fn serve(mut self) -> Result<End, End> {
        let deadline = Instant::now() + self.start.limits.handshake;
        let policy = if self.start.tls.is_some() { TlsPolicy::Required } else { TlsPolicy::Absent };
        let mut machine = Handshake::new(policy);
        let mut out = Vec::with_capacity(256);
        Handshake::greeting(&mut out);
        let (agreed, session) = loop {
            let exports = &*self.start.exports;
            let (taken, step) = machine.step(self.input.bytes(), exports, &mut out);
            self.input.start += taken;
            match step {
                Step::More if taken > 0 && out.len() < WINDOW_BYTES => {}
                Step::More => {
                    self.send_handshake(&mut out, deadline)?;
                    if taken == 0 {
                        self.receive_handshake(deadline)?;
                    }
                }
                Step::Open(name) => match self.open(&name, &mut machine, &mut out) {
                    Ok(opened) => break opened,
                    Err(Step::Drop(violation)) => return Ok(End::Violation(violation)),
                    Err(_) => {}
                },
                Step::StartTls => {
                    self.send_handshake(&mut out, deadline)?;
                    self.begin_tls(deadline)?;
                    machine.secured();
                }
                Step::Leave => {
                    // The client may have disconnected without waiting for the last reply.
                    let _ = self.send_handshake(&mut out, deadline);
                    return Ok(End::Left);
                }
                Step::Drop(violation) => return Ok(End::Violation(violation)),
            }
        };
        // Set before the client knows: from here on the connection is not ended to admit others.
        self.start.phase.agreed();
        self.send_handshake(&mut out, deadline)?;
        self.transmit(agreed, session)
    }

    fn open(
        &mut self,
        name: &str,
        machine: &mut Handshake,
        out: &mut Vec<u8>,
    ) -> Result<(Negotiated, Box<dyn Session>), Step> {
        let peer = Peer {
            address: self.start.address.clone(),
            secure: machine.is_secure(),
            link: Arc::downgrade(&self.start.link),
        };
        let why = if self.stopping() {
            Refusal::Shutdown
        } else if let Some(export) = self.start.exports.get(name) {
            let info = export.info();
            match (info.check(), export.open(&peer)) {
                (Ok(()), Ok(session)) => return Ok((machine.opened(&info, out), session)),
                _ => Refusal::Policy,
            }
        } else {
            Refusal::Unknown
        };
        Err(machine.refused(why, out))
    }

    fn send_handshake(&mut self, out: &mut Vec<u8>, deadline: Instant) -> Result<(), End> {
        self.send_bytes(out, Some(deadline))?;
        out.clear();
        Ok(())
    }

    fn receive_handshake(&mut self, deadline: Instant) -> Result<(), End> {
        let fd = self.fd();
        loop {
            let space = self.input.free_space();
            let received = match &mut self.pipe {
                Pipe::Plain => syscalls::receive_into(fd, space, false)?,
                Pipe::Tls(tls) => tls.receive(fd, space)?,
            };
            match received {
                Some(0) => return Err(End::Gone),
                Some(n) => {
                    self.input.end += n;
                    return Ok(());
                }
                None if syscalls::wait(fd, true, false, None, Some(deadline))?.nothing() => {
                    return Err(End::Failed(io::ErrorKind::TimedOut.into()));
                }
                None => {}
            }
        }
    }

    /// Starts TLS, with the remaining input as its first records. If an attacker has appended plain options to
    /// STARTTLS, they are invalid as TLS records and end the connection.
    fn begin_tls(&mut self, deadline: Instant) -> Result<(), End> {
        let Some(tls) = &self.start.tls else { return Err(End::Gone) };
        let early = self.input.bytes().to_vec();
        (self.input.start, self.input.end) = (0, 0);
        self.pipe = Pipe::Tls(Box::new(tls.accept(self.fd(), &early, deadline)?));
        Ok(())
    }
}
