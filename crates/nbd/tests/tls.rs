//! TLS: required or absent, and certificates checked on both sides.

use crate::common;
use crate::pki;

use common::{Delayed, Lab, Manner, pattern_at};
use iodyno_nbd::client::{self, Blocking, Config, Connection, Uri, Wait};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::tls::ServerTls;
use iodyno_nbd::{CmdFlags, Endpoint, Export, Kind, Server, ServerConfig};
use pki::Authority;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Secure {
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Secure {
    /// A server at `localhost`, whose clients need certificates of the same authority, and folders
    /// for several kinds of client.
    fn new(export: impl Export + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (ours, other) = (Authority::new(), Authority::new());
        ours.trusted_in(&at("server"));
        ours.server(&at("server"), "localhost");
        ours.trusted_in(&at("good"));
        ours.client(&at("good"));
        ours.trusted_in(&at("no certificate"));
        ours.trusted_in(&at("signed by another"));
        other.client(&at("signed by another"));
        other.trusted_in(&at("trusts another"));
        ours.client(&at("trusts another"));
        let tls = Some(ServerTls::from_folder(&at("server")).unwrap());
        let lab = Lab::with(export, ServerConfig { tls, ..ServerConfig::default() });
        Self { lab, folder }
    }

    fn uri(&self, client: &str) -> Uri {
        let tls_certificates = Some(self.folder.path().join(client));
        Uri { tls: true, tls_certificates, ..self.lab.uri() }
    }
}

#[test]
fn bytes_go_both_ways() {
    let secure = Secure::new(Ram::new(64 << 20).unwrap());
    let uri = secure.uri("good");
    let mut client = Blocking::connect(&uri).unwrap();
    assert!(client.connection().found().secure);
    for (at, len) in [(0, 1), (4096, 4096), (12_345, 70_000), (1 << 20, 32 << 20)] {
        let bytes = pattern_at(at, len);
        client.write(at, &bytes, CmdFlags::NONE).unwrap();
        let mut back = vec![0; len];
        client.read(at, &mut back).unwrap();
        assert!(bytes == back, "{len} bytes at {at}");
    }
    assert!(!client.block_status(0, 4096, CmdFlags::NONE).unwrap().is_empty());
    assert_eq!(client::list(&uri, &Config::default()).unwrap().len(), 1);
}

#[test]
fn later_answers_are_protected_too() {
    for manner in [Manner::Each, Manner::Together] {
        let secure = Secure::new(Delayed::new(manner));
        let config = Config { depth: 40, ..Config::default() };
        let mut connection = Connection::connect(&secure.uri("good"), &config).unwrap();
        let mut buffers = vec![vec![0u8; 50_000]; 40];
        for round in 0..10 {
            for slot in 0..40u32 {
                let offset = u64::from(slot * 4096 + round);
                let to = buffers[slot as usize].as_mut_ptr();
                // SAFETY: each slot has a buffer of its own that outlives the connection's use.
                unsafe { connection.queue(slot, Kind::Read, CmdFlags::NONE, offset, 50_000, to) };
            }
            let mut left = 40;
            while left > 0 {
                connection.turn(Wait::One).unwrap();
                connection.drain(|slot, result| {
                    result.unwrap();
                    let offset = u64::from(slot * 4096 + round);
                    assert!(buffers[slot as usize] == pattern_at(offset, 50_000));
                    left -= 1;
                });
            }
        }
    }
}

/// CVE-2024-7383: a wrong certificate was accepted.
#[test]
fn wrong_certificates_are_refused_on_both_sides() {
    let secure = Secure::new(Ram::new(1 << 20).unwrap());
    // A client may learn of its refusal only when it reads.
    let attempt = |uri: &Uri| -> Result<(), String> {
        let mut client = Blocking::connect(uri).map_err(|e| e.to_string())?;
        client.read(0, &mut [0; 16]).map_err(|e| e.to_string())
    };
    attempt(&secure.uri("good")).unwrap();
    for client in ["no certificate", "signed by another", "trusts another"] {
        let said = attempt(&secure.uri(client)).unwrap_err();
        // By the server's alert, by its end, or by the client's own check.
        let reasons = ["alert", "closed", "certificate"];
        assert!(reasons.iter().any(|r| said.contains(r)), "{client}: {said}");
    }
    let wrong_name = Uri { tls_hostname: Some("elsewhere".into()), ..secure.uri("good") };
    let said = attempt(&wrong_name).unwrap_err();
    assert!(said.contains("not valid for name"), "{said}");
    let nothing = Uri { tls_certificates: None, ..secure.uri("good") };
    assert!(attempt(&nothing).unwrap_err().contains("tls-certificates"));
    attempt(&secure.uri("good")).unwrap();
    secure.lab.eventually("four refused", |s| s.counters().handshakes_failed >= 4);
}

#[test]
fn nothing_is_served_in_the_clear() {
    let secure = Secure::new(Ram::new(1 << 20).unwrap());
    let plain = Uri { tls: false, ..secure.uri("good") };
    let said = Blocking::connect(&plain).unwrap_err().to_string();
    assert!(said.contains("requires TLS"), "{said}");
    assert!(client::list(&plain, &Config::default()).is_err());
    // And a client that requires TLS does not continue without.
    let lab = Lab::new(Ram::new(1 << 20).unwrap());
    let wants = Uri { address: lab.uri().address, ..secure.uri("good") };
    let said = Blocking::connect(&wants).unwrap_err().to_string();
    assert!(said.contains("no TLS"), "{said}");
}

/// CVE-2021-3716: plain options directly after STARTTLS must not be read as protected ones.
#[test]
fn options_behind_starttls_end_the_connection() {
    let secure = Secure::new(Ram::new(1 << 20).unwrap());
    let mut raw = secure.lab.raw();
    let start = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 5, 0, 0, 0, 0]].concat();
    let smuggled = [b"IHAVEOPT", &[0, 0, 0, 8, 0, 0, 0, 0][..]].concat();
    raw.send(&[start.clone(), smuggled].concat());
    assert!(raw.is_closed());
    // Half a handshake, then a disconnect.
    let mut raw = secure.lab.raw();
    raw.send(&[start, vec![0x16, 3, 1, 2, 0, 1]].concat());
    drop(raw);
    Blocking::connect(&secure.uri("good")).unwrap();
}

#[test]
fn with_tls_other_machines_may_come() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.server(folder.path(), "127.0.0.1");
    // Without an authority in the server's folder, clients need no certificate.
    let tls = Some(ServerTls::from_folder(folder.path()).unwrap());
    authority.trusted_in(folder.path());
    let exports = Arc::new(iodyno_nbd::Exports::default());
    exports.insert("a disk", Arc::new(Ram::new(1 << 20).unwrap()));
    let endpoint = Endpoint::Tcp("0.0.0.0:0".parse().unwrap());
    let server =
        Server::start(exports, &[endpoint], ServerConfig { tls, ..ServerConfig::default() });
    let server = server.unwrap();
    let Endpoint::Tcp(address) = server.endpoints()[0] else { panic!() };
    let pki = folder.path().display();
    let uri = format!("nbds://127.0.0.1:{}/a%20disk?tls-certificates={pki}", address.port());
    let mut client = Blocking::connect(&uri.parse().unwrap()).unwrap();
    client.write(0, b"far away", CmdFlags::NONE).unwrap();
}

#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = ServerTls::from_folder(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("server-cert.pem"), "{missing}");
    let authority = Authority::new();
    authority.server(folder.path(), "a");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let (chain, key) = (path("server-cert.pem"), path("server-key.pem"));
    let swapped = ServerTls::new(&key, &chain, None).unwrap_err().to_string();
    assert!(swapped.contains("server-key.pem"), "{swapped}");
    std::fs::write(path("ca-cert.pem"), "nothing of use").unwrap();
    let empty = ServerTls::from_folder(folder.path()).unwrap_err().to_string();
    assert!(empty.contains("ca-cert.pem"), "{empty}");
    // A key that is another's.
    std::fs::rename(&chain, path("first.pem")).unwrap();
    authority.server(folder.path(), "b");
    assert!(ServerTls::new(Path::new(&path("first.pem")), &key, None).is_err());
}
