//! NBD URIs, as in the NBD project's `doc/uri.md` and in libnbd:
//!
//! ```text
//! nbd://host[:port]/export          nbds://…           TCP, and with TLS
//! nbd+unix:///export?socket=PATH    nbds+unix://…      a unix socket, and with TLS
//! ```
//!
//! An export's name may be empty and may contain slashes; `%20` and the like are decoded. Of libnbd's parameters,
//! `socket`, `tls-certificates` and `tls-hostname` are accepted. All others are errors, because an ignored parameter
//! could remove a protection that the user requested.

use crate::wire::NAME_MAX;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Port assigned to NBD by IANA.
const PORT: u16 = 10809;

/// Address of a server to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// A host name or address, and a port.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// NBD URI: address of a server, name of an export, and TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    /// Address at which the server listens.
    pub address: Address,
    /// Whether TLS is required. A connection without this flag never uses TLS.
    pub tls: bool,
    /// Name of the export; empty for the default export.
    pub export: String,
    /// Folder with `ca-cert.pem` and, if the server requires them, `client-cert.pem` and `client-key.pem`. `None` if
    /// the URI names no folder.
    pub tls_certificates: Option<PathBuf>,
    /// Name that the server's certificate must contain; `None` for the host name.
    pub tls_hostname: Option<String>,
}

/// Reason why a text is not a valid NBD URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The scheme is not one of the NBD schemes.
    #[error("`{0}` does not begin with nbd://, nbds://, nbd+unix:// or nbds+unix://")]
    Scheme(String),
    /// The URI of a Unix socket lacks the socket's path.
    #[error("`{0}` lacks the socket's path; add ?socket=PATH")]
    NoSocket(String),
    /// The URI of a TCP server lacks the host.
    #[error("`{0}` names no host")]
    NoHost(String),
    /// The port is not a number from 1 to 65,535.
    #[error("`{0}` is not a port; a port is a number from 1 to 65,535")]
    Port(String),
    /// A percent sign is not followed by two hexadecimal digits, or the decoded bytes are not UTF-8.
    #[error("`{0}` is not percent-encoded UTF-8; use %25 for a percent sign")]
    Encoding(String),
    /// The URI has an unknown parameter.
    #[error(
        "the option `{0}` is not understood; the options are socket, tls-certificates and tls-hostname"
    )]
    Parameter(String),
    /// The name of the export is too long or contains NUL.
    #[error("an export's name can have at most 4,096 bytes, and no NUL")]
    Name,
    /// A TLS parameter is given, but the scheme does not use TLS.
    #[error("`{0}` requires TLS; use nbds:// or nbds+unix://")]
    NotTls(String),
}

fn decode(text: &str) -> Result<String, UriError> {
    let fault = || UriError::Encoding(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(fault()) };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| fault())
}

/// Displays a text with percent-encoding for characters that a URI must not contain.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                write!(f, "{}", char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let whole = || text.to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::Scheme(whole()))?;
        let (tls, unix) = match scheme {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(UriError::Scheme(whole())),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode(export)?;
        if export.len() > NAME_MAX || export.contains('\0') {
            return Err(UriError::Name);
        }
        let (mut socket, mut certificates, mut hostname) = (None, None, None);
        for parameter in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decode(value)?;
            match name {
                "socket" if unix && !value.contains('\0') => socket = Some(value),
                "tls-certificates" if tls => certificates = Some(value),
                "tls-hostname" if tls => hostname = Some(value),
                "tls-certificates" | "tls-hostname" => {
                    return Err(UriError::NotTls(parameter.to_owned()));
                }
                _ => return Err(UriError::Parameter(parameter.to_owned())),
            }
        }
        // User names are for pre-shared keys, which are not supported.
        if authority.contains('@') && authority != "@" {
            return Err(UriError::Parameter(authority.to_owned()));
        }
        let authority = authority.trim_start_matches('@');
        let address = if unix {
            if !authority.is_empty() {
                return Err(UriError::Parameter(authority.to_owned()));
            }
            Address::Unix(socket.ok_or_else(|| UriError::NoSocket(whole()))?.into())
        } else {
            let bracketed = authority.strip_prefix('[').and_then(|a| a.split_once(']'));
            let (host, port) = match bracketed {
                Some((host, port)) => {
                    (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
                }
                None => match authority.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (authority, Some("")),
                },
            };
            let bad_port = || UriError::Port(port.unwrap_or(authority).to_owned());
            let number = match port {
                Some("") => PORT,
                Some(port) => port.parse().ok().filter(|n| *n > 0).ok_or_else(bad_port)?,
                None => return Err(bad_port()),
            };
            if host.is_empty() {
                return Err(UriError::NoHost(whole()));
            }
            Address::Tcp(decode(host)?, number)
        };
        Ok(Self {
            address,
            tls,
            export,
            tls_certificates: certificates.map(PathBuf::from),
            tls_hostname: hostname,
        })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls { "s" } else { "" };
        let mut separator = '?';
        match &self.address {
            Address::Tcp(..) => write!(f, "nbd{s}://{}/{}", self.address, Encoded(&self.export))?,
            Address::Unix(path) => {
                let path = path.to_string_lossy();
                write!(f, "nbd{s}+unix:///{}?socket={}", Encoded(&self.export), Encoded(&path))?;
                separator = '&';
            }
        }
        let folder = self.tls_certificates.as_ref().map(|p| p.to_string_lossy().into_owned());
        for (name, value) in
            [("tls-certificates", folder), ("tls-hostname", self.tls_hostname.clone())]
        {
            if let Some(value) = value {
                write!(f, "{separator}{name}={}", Encoded(&value))?;
                separator = '&';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Uri, UriError> {
        text.parse()
    }

    #[test]
    fn uris_of_all_kinds() {
        let tcp = parse("nbd://example.org").unwrap();
        assert_eq!((tcp.address, tcp.tls), (Address::Tcp("example.org".into(), 10809), false));
        let v6 = parse("nbds://[::1]:99/a%20b/c?tls-certificates=/pki&tls-hostname=lab").unwrap();
        assert_eq!((v6.address, &*v6.export), (Address::Tcp("::1".into(), 99), "a b/c"));
        assert_eq!(v6.tls_certificates, Some("/pki".into()));
        let unix = parse("nbd+unix:///?socket=/run/x.sock").unwrap();
        assert_eq!((unix.address, &*unix.export), (Address::Unix("/run/x.sock".into()), ""));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("http://x", "begin"),
            ("nbd", "begin"),
            ("nbd+unix:///x", "?socket="),
            ("nbd:///x", "host"),
            ("nbd://h:0/", "port"),
            ("nbd://h:99999/", "port"),
            ("nbd://[::1]x/", "port"),
            ("nbd://h/%zz", "percent"),
            ("nbd://h/%f", "percent"),
            ("nbd://h/%ff", "percent"),
            ("nbd://h/x?sockets=1", "not understood"),
            ("nbds+unix://alice@/?socket=/s&tls-psk-file=k", "not understood"),
            ("nbd://h/?tls-certificates=/pki", "nbds"),
            ("nbd://h/%00", "NUL"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(
            export in "\\PC{0,20}", path in "/\\PC{1,20}", host in "[a-z0-9.]{1,9}|[0-9a-f:]{2,9}:",
            port in 1u16.., tls in any::<bool>(), unix in any::<bool>(), pki in any::<bool>(),
        ) {
            let uri = Uri {
                address: if unix { Address::Unix(path.into()) } else { Address::Tcp(host, port) },
                tls,
                export,
                tls_certificates: (tls && pki).then(|| "/p k/i".into()),
                tls_hostname: (tls && !pki).then(|| "some.name".into()),
            };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }

        #[test]
        fn any_text_is_survived(text in "(nbd|nbds|nbd\\+unix)?(://)?\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
