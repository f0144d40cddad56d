//! TLS by rustls with ring: certificates from PEM files, and a stream that blocks only in `send_all`.
//!
//! The server's and the client's files may share a folder, under the names that libvirt, QEMU, libnbd and nbdkit use:
//! `ca-cert.pem`, `server-cert.pem`, `server-key.pem`, `client-cert.pem`, `client-key.pem`.
//!
//! Without the feature `tls`, the types exist but can't be constructed.

#[cfg(not(feature = "tls"))]
pub(crate) use absent::TlsStream;
#[cfg(not(feature = "tls"))]
pub use absent::{ClientTls, ServerTls};
#[cfg(feature = "tls")]
pub(crate) use present::TlsStream;
#[cfg(feature = "tls")]
pub use present::{ClientTls, ServerTls};

/// Reason why certificates could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or is not PEM of the expected kind.
    #[error("{file}: {why}")]
    File {
        /// Path of the certificate or key file.
        file: String,
        /// Description of the problem with the file, as part of an error message.
        why: String,
    },
    /// The certificate and the key do not match, or their type is not supported.
    #[error("these certificates cannot be used: {0}")]
    Unusable(String),
    /// The server's name for the certificate check is neither a host name nor an IP address.
    #[error("`{0}` is not a valid host name for a certificate")]
    Name(String),
    /// The program was built without TLS.
    #[error("this program was built without TLS (feature `tls`)")]
    Absent,
}

#[cfg(feature = "tls")]
mod present {
    use super::TlsError;
    use crate::syscalls::{self, Span};
    use rustix::fs::{FileType, Mode, OFlags};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{
        ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    };
    use std::io::{self, IoSlice, Read, Write};
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    fn file_error(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
        TlsError::File { file: path.display().to_string(), why: why.to_string() }
    }

    /// Maximum size of a certificate file, bytes.
    const PEM_BYTES_MAX: u64 = 1 << 20;

    /// Reads a file. Refuses anything but a regular file of at most [`PEM_BYTES_MAX`].
    fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
        let system = |e: rustix::io::Errno| file_error(path, &io::Error::from(e));
        // Never blocks on a pipe or a device.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(system)?;
        let stat = rustix::fs::fstat(&fd).map_err(system)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(file_error(path, &"it is not a regular file"));
        }
        let mut bytes = Vec::new();
        let mut file = std::fs::File::from(fd).take(PEM_BYTES_MAX + 1);
        file.read_to_end(&mut bytes).map_err(|e| file_error(path, &e))?;
        if bytes.len() as u64 > PEM_BYTES_MAX {
            return Err(file_error(path, &"it is larger than the limit of 1 MiB"));
        }
        Ok(bytes)
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let bytes = read(path)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        // The error may quote the file, so it is not shown.
        let found = found.map_err(|_| file_error(path, &"it is not a PEM file"))?;
        if found.is_empty() {
            Err(file_error(path, &"it contains no certificate"))
        } else {
            Ok(found)
        }
    }

    fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
        // The error may quote the file, so it is not shown.
        PrivateKeyDer::from_pem_slice(&read(path)?)
            .map_err(|_| file_error(path, &"it is not a PEM file with a private key"))
    }

    fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(path)? {
            store.add(certificate).map_err(|e| file_error(path, &e))?;
        }
        Ok(Arc::new(store))
    }

    fn provider() -> Arc<rustls::crypto::CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    fn unusable(error: &rustls::Error) -> TlsError {
        TlsError::Unusable(error.to_string())
    }

    /// Certificate chain and private key of a server. If clients need a certificate, also the authorities that may sign
    /// the clients' certificates.
    #[derive(Clone, Debug)]
    pub struct ServerTls(Arc<ServerConfig>);

    impl ServerTls {
        /// Reads PEM files: the server's certificate chain, and its private key. `client_authorities` contains the
        /// certificates of the authorities that may sign clients' certificates; `None` if clients need no certificate.
        pub fn new(
            chain: &Path,
            private_key: &Path,
            client_authorities: Option<&Path>,
        ) -> Result<Self, TlsError> {
            let builder = ServerConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map_err(|e| unusable(&e))?;
            let builder = match client_authorities {
                None => builder.with_no_client_auth(),
                Some(path) => {
                    let verifier =
                        WebPkiClientVerifier::builder_with_provider(roots(path)?, provider());
                    builder.with_client_cert_verifier(
                        verifier.build().map_err(|e| TlsError::Unusable(e.to_string()))?,
                    )
                }
            };
            let mut config = builder
                .with_single_cert(certificates(chain)?, key(private_key)?)
                .map_err(|e| unusable(&e))?;
            // NBD connections last long; session tickets would only cost time.
            config.send_tls13_tickets = 0;
            Ok(Self(Arc::new(config)))
        }

        /// Reads the files from a folder, where they have their customary names. Clients need a certificate if
        /// `ca-cert.pem` exists.
        pub fn from_folder(folder: &Path) -> Result<Self, TlsError> {
            let authorities = folder.join("ca-cert.pem");
            Self::new(
                &folder.join("server-cert.pem"),
                &folder.join("server-key.pem"),
                authorities.exists().then_some(&authorities),
            )
        }

        pub(crate) fn accept(
            &self,
            fd: BorrowedFd<'_>,
            early: &[u8],
            deadline: Instant,
        ) -> io::Result<TlsStream> {
            let connection =
                ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
            TlsStream::establish(connection.into(), fd, early, deadline)
        }
    }

    /// Certificates of the authorities that a client trusts, and the client's own certificate, if any.
    #[derive(Clone, Debug)]
    pub struct ClientTls(Arc<ClientConfig>);

    impl ClientTls {
        /// Reads PEM files. `server_authorities` contains the certificates of the authorities that may sign the
        /// server's certificate. `own` is the client's certificate chain and private key; `None` if the server requires
        /// none.
        pub fn new(
            server_authorities: &Path,
            own: Option<(&Path, &Path)>,
        ) -> Result<Self, TlsError> {
            let builder = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map_err(|e| unusable(&e))?
                .with_root_certificates(roots(server_authorities)?);
            let config = match own {
                None => builder.with_no_client_auth(),
                Some((chain, private_key)) => builder
                    .with_client_auth_cert(certificates(chain)?, key(private_key)?)
                    .map_err(|e| unusable(&e))?,
            };
            Ok(Self(Arc::new(config)))
        }

        /// Reads the files from a folder, where they have their customary names. Uses the client's own certificate if
        /// it exists.
        pub fn from_folder(folder: &Path) -> Result<Self, TlsError> {
            let (chain, private_key) =
                (folder.join("client-cert.pem"), folder.join("client-key.pem"));
            let own = chain.exists().then_some((&*chain, &*private_key));
            Self::new(&folder.join("ca-cert.pem"), own)
        }

        pub(crate) fn connect(
            &self,
            name: &str,
            fd: BorrowedFd<'_>,
            early: &[u8],
            deadline: Instant,
        ) -> io::Result<TlsStream> {
            let name = ServerName::try_from(name.to_owned()).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, TlsError::Name(name.to_owned()))
            })?;
            let connection =
                ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
            TlsStream::establish(connection.into(), fd, early, deadline)
        }
    }

    /// Non-blocking socket in the form that rustls requires.
    struct Socket<'a>(BorrowedFd<'a>);

    impl Read for Socket<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            syscalls::receive_into(self.0, buffer, false)?
                .ok_or_else(|| io::ErrorKind::WouldBlock.into())
        }
    }

    impl Write for Socket<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut spans = [Span::new(std::ptr::null(), 0); 64];
            let count = pieces.len().min(spans.len());
            for (span, piece) in spans.iter_mut().zip(pieces) {
                *span = Span::new(piece.as_ptr(), piece.len());
            }
            // SAFETY: the spans are the slices.
            unsafe { syscalls::send(self.0, &spans[..count]) }?
                .ok_or_else(|| io::ErrorKind::WouldBlock.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Describes a TLS error, for messages.
    fn words(error: &rustls::Error) -> String {
        use rustls::{CertificateError, Error, OtherError};
        match error {
            Error::InvalidMessage(_) => "the peer does not use TLS".to_owned(),
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => "the peer's certificate is signed by an authority that is not trusted here"
                .to_owned(),
            Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
                format!("the peer's certificate is not accepted: {why}")
            }
            Error::InvalidCertificate(why) => {
                format!("the peer's certificate is not accepted: {why}")
            }
            Error::AlertReceived(alert) => {
                format!("the peer refuses the TLS connection (alert {alert:?})")
            }
            other => other.to_string(),
        }
    }

    /// TLS state of a connection.
    pub(crate) struct TlsStream {
        connection: Connection,
        /// Whether the peer has closed its side, or the socket has reached its end.
        ended: bool,
        /// Error after which nothing more is decrypted; `None` if there was none.
        failure: Option<String>,
    }

    impl TlsStream {
        fn establish(
            connection: Connection,
            fd: BorrowedFd<'_>,
            mut early: &[u8],
            deadline: Instant,
        ) -> io::Result<Self> {
            let mut stream = Self { connection, ended: false, failure: None };
            while !early.is_empty() {
                stream.connection.read_tls(&mut early)?;
                stream.process(fd)?;
            }
            while stream.connection.is_handshaking() || stream.connection.wants_write() {
                if stream.connection.wants_write() {
                    stream.push(fd, Some(deadline))?;
                    continue;
                }
                if !stream.pull(fd)? {
                    if stream.ended {
                        let why = "the peer closed the connection during the TLS handshake";
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                    }
                    if syscalls::wait(fd, true, false, None, Some(deadline))?.nothing() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
            Ok(stream)
        }

        fn process(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
            if self.decrypt().is_none() {
                // An alert tells the peer the reason, if it can be sent immediately.
                let _ = self.connection.write_tls(&mut Socket(fd));
                let why = self.failure.clone().unwrap_or_default();
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            Ok(())
        }

        /// Decrypts received bytes, and returns the number of decrypted bytes available. Returns `None` after any
        /// failure, because rustls panics if it is then asked to decrypt more.
        fn decrypt(&mut self) -> Option<usize> {
            if self.failure.is_some() {
                return None;
            }
            match self.connection.process_new_packets() {
                Ok(state) => Some(state.plaintext_bytes_to_read()),
                Err(error) => {
                    self.failure = Some(words(&error));
                    None
                }
            }
        }

        /// Receives encrypted bytes. Returns false if none are available.
        fn pull(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
            match self.connection.read_tls(&mut Socket(fd)) {
                Ok(0) => {
                    self.ended = true;
                    Ok(false)
                }
                Ok(_) => self.process(fd).map(|()| true),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(e) => Err(e),
            }
        }

        /// Whether decrypted bytes are available without receiving more.
        pub(crate) fn has_more(&mut self) -> bool {
            self.decrypt().is_some_and(|bytes| bytes > 0)
        }

        /// Receives decrypted bytes. Returns `Ok(None)` if none are available, and 0 at the end of the stream.
        pub(crate) fn receive(
            &mut self,
            fd: BorrowedFd<'_>,
            buffer: &mut [u8],
        ) -> io::Result<Option<usize>> {
            loop {
                match self.connection.reader().read(buffer) {
                    Ok(n) => return Ok(Some(n)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    Err(e) => return Err(e),
                }
                if self.ended {
                    return Ok(Some(0));
                }
                if !self.pull(fd)? && !self.ended {
                    return Ok(None);
                }
            }
        }

        /// Copies bytes to the send buffer until it is full. Returns the number of bytes copied.
        pub(crate) fn give(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.connection.writer().write(bytes)
        }

        /// Sends buffered bytes until the socket is full. Returns true if everything is sent.
        pub(crate) fn push_some(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
            while self.connection.wants_write() {
                match self.connection.write_tls(&mut Socket(fd)) {
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(e) => return Err(e),
                }
            }
            Ok(true)
        }

        fn push(&mut self, fd: BorrowedFd<'_>, deadline: Option<Instant>) -> io::Result<()> {
            while !self.push_some(fd)? {
                if syscalls::wait(fd, false, true, None, deadline)?.nothing() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Ok(())
        }

        /// Sends `bytes` and everything buffered before them. Fails if the deadline, if any, passes first.
        pub(crate) fn send_all(
            &mut self,
            fd: BorrowedFd<'_>,
            mut bytes: &[u8],
            deadline: Option<Instant>,
        ) -> io::Result<()> {
            while !bytes.is_empty() {
                let n = self.give(bytes)?;
                bytes = &bytes[n..];
                self.push(fd, deadline)?;
            }
            Ok(())
        }

        /// Sends the end of the TLS stream if the socket accepts it without waiting.
        pub(crate) fn close(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
            self.connection.send_close_notify();
            self.push_some(fd).map(drop)
        }
    }
}

#[cfg(not(feature = "tls"))]
mod absent {
    use super::TlsError;
    use std::convert::Infallible;
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use std::time::Instant;

    /// Placeholder for a server's certificates; can't be constructed, because the program was built without TLS.
    #[derive(Clone, Debug)]
    pub struct ServerTls(Infallible);

    /// Placeholder for a client's certificates; can't be constructed, because the program was built without TLS.
    #[derive(Clone, Debug)]
    pub struct ClientTls(Infallible);

    pub(crate) struct TlsStream(Infallible);

    impl ServerTls {
        /// Always fails, since the program was built without TLS.
        pub fn new(_: &Path, _: &Path, _: Option<&Path>) -> Result<Self, TlsError> {
            Err(TlsError::Absent)
        }
        /// Always fails, since the program was built without TLS.
        pub fn from_folder(_: &Path) -> Result<Self, TlsError> {
            Err(TlsError::Absent)
        }
        pub(crate) fn accept(
            &self,
            _: BorrowedFd<'_>,
            _: &[u8],
            _: Instant,
        ) -> io::Result<TlsStream> {
            match self.0 {}
        }
    }

    impl ClientTls {
        /// Always fails, since the program was built without TLS.
        pub fn new(_: &Path, _: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
            Err(TlsError::Absent)
        }
        /// Always fails, since the program was built without TLS.
        pub fn from_folder(_: &Path) -> Result<Self, TlsError> {
            Err(TlsError::Absent)
        }
        pub(crate) fn connect(
            &self,
            _: &str,
            _: BorrowedFd<'_>,
            _: &[u8],
            _: Instant,
        ) -> io::Result<TlsStream> {
            match self.0 {}
        }
    }

    impl TlsStream {
        pub(crate) fn has_more(&mut self) -> bool {
            match self.0 {}
        }
        pub(crate) fn receive(
            &mut self,
            _: BorrowedFd<'_>,
            _: &mut [u8],
        ) -> io::Result<Option<usize>> {
            match self.0 {}
        }
        pub(crate) fn give(&mut self, _: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }
        pub(crate) fn push_some(&mut self, _: BorrowedFd<'_>) -> io::Result<bool> {
            match self.0 {}
        }
        pub(crate) fn send_all(
            &mut self,
            _: BorrowedFd<'_>,
            _: &[u8],
            _: Option<Instant>,
        ) -> io::Result<()> {
            match self.0 {}
        }
        pub(crate) fn close(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
            match self.0 {}
        }
    }
}
