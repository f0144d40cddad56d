//! Loads the certificates and private keys of servers from the files of `--tls`.

use crate::failure::Failure;
use crate::secrets;
use iodyno_nbd::tls::ServerTls;
use std::path::{Path, PathBuf};

/// Loads the files of `--tls`: certificate chain, private key, and optionally the CA of clients; `None`
/// without the flag.
pub(crate) fn of_flag(files: &[PathBuf]) -> Result<Option<ServerTls>, Failure> {
    match files {
        [] => Ok(None),
        [chain, key] => server_tls(chain, key, None).map(Some),
        [chain, key, authority] => server_tls(chain, key, Some(authority)).map(Some),
        _ => Err(Failure::input(
            "--tls takes certificate chain and key of the server, and optionally the CA of clients: cert.pem,key.pem,ca.pem",
        )),
    }
}

/// Loads a server's certificates. Warns if other users can read the private key.
fn server_tls(chain: &Path, key: &Path, authority: Option<&Path>) -> Result<ServerTls, Failure> {
    secrets::warn_if_shared("--tls", key);
    ServerTls::new(chain, key, authority).map_err(|e| Failure::input(format!("--tls {e}")))
}
