//! Connects the client commands of `log` to a log server.

use crate::args::LogClient;
use crate::failure::Failure;
use crate::secrets;
use iodyno_msglog::client::{ClientError, Connection};
use iodyno_msglog::protocol::ErrorCode;
use iodyno_nbd::Endpoint;
use iodyno_nbd::stream::Stream;
use iodyno_nbd::tls::ClientTls;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

/// Timeout of an attempt to connect to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Address of a log server, and the credentials for connections to it.
#[derive(Debug)]
pub(super) struct Dialer {
    at: String,
    tls: Option<(ClientTls, String)>,
    /// Whether the token may be sent to other machines without TLS.
    insist_on_plain: bool,
    pub(super) token: Vec<u8>,
}

impl Dialer {
    pub(super) fn new(flags: &LogClient) -> Result<Self, Failure> {
        let tls = match flags.tls.as_slice() {
            [] => None,
            [authority] => Some(ClientTls::new(authority, None)),
            [authority, chain, key] => {
                secrets::warn_if_shared("--tls", key);
                Some(ClientTls::new(authority, Some((chain, key))))
            }
            _ => {
                return Err(Failure::input(
                    "--tls takes the CA of the server, and optionally certificate chain and key of the client: ca.pem,cert.pem,key.pem",
                ));
            }
        };
        let tls = tls.transpose().map_err(|e| Failure::input(e.to_string()))?;
        let host = flags.at.rsplit_once(':').map_or(&*flags.at, |(host, _)| host);
        let name =
            flags.tls_name.clone().unwrap_or_else(|| host.trim_matches(['[', ']']).to_owned());
        let token = super::token(flags.token_file.as_deref())?;
        let tls = tls.map(|tls| (tls, name));
        let insist_on_plain = flags.insist_on_plain;
        let dialer = Self { at: flags.at.clone(), tls, insist_on_plain, token };
        if !flags.at.starts_with("unix:") && !flags.at.contains(':') {
            return Err(Failure::input(format!("--at {}: use unix:PATH, or HOST:PORT", flags.at)));
        }
        // A name that can't be resolved now may be resolvable when the client connects.
        if let Ok(addresses) = dialer.addresses()
            && addresses.iter().any(|address| !dialer.may_send_token_to(*address))
        {
            return Err(Failure::input(format!("--token-file: {}", dialer.exposed())));
        }
        Ok(dialer)
    }

    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if self.at.starts_with("unix:") {
            return Ok(Vec::new());
        }
        Ok(self.at.to_socket_addrs()?.collect())
    }

    fn may_send_token_to(&self, address: SocketAddr) -> bool {
        self.token.is_empty()
            || self.tls.is_some()
            || self.insist_on_plain
            || address.ip().to_canonical().is_loopback()
    }

    fn exposed(&self) -> String {
        format!(
            "the token would be sent to {} in the clear: give the server's CA with --tls, or add --insist-on-plain",
            self.at
        )
    }

    pub(super) fn dial(&self) -> io::Result<Stream> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", self.at));
        let tls = self.tls.as_ref().map(|(tls, name)| (tls, &**name));
        if let Some(path) = self.at.strip_prefix("unix:") {
            let endpoint = Endpoint::Unix(PathBuf::from(path));
            return Stream::connect(&endpoint, tls, CONNECT_TIMEOUT).map_err(named);
        }
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in self.addresses().map_err(named)? {
            if !self.may_send_token_to(address) {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, self.exposed()));
            }
            match Stream::connect(&Endpoint::Tcp(address), tls, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e,
            }
        }
        Err(named(last))
    }
}

/// Connects to a log server, and performs the handshake.
pub(super) fn connect(flags: &LogClient) -> Result<Connection<Stream>, Failure> {
    let dialer = Dialer::new(flags)?;
    let stream = dialer.dial().map_err(|e| failure(e.into()))?;
    Connection::begin(stream, &dialer.token).map_err(failure)
}

pub(super) fn failure(error: ClientError) -> Failure {
    let text = error.to_string();
    match error {
        ClientError::Server(error)
            if matches!(
                error.code,
                ErrorCode::Filter | ErrorCode::Message | ErrorCode::Ahead | ErrorCode::Token
            ) =>
        {
            Failure::input(error.text)
        }
        ClientError::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Failure::target(format!("{text}; is the server running (`iodyno log serve`)?"))
        }
        ClientError::Length { .. } | ClientError::TooLong(_) => Failure::input(text),
        ClientError::IsTls => Failure::target(format!("{text}: give the server's CA with --tls")),
        _ => Failure::target(text),
    }
}
