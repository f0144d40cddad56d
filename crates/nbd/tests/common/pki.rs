//! Certificates for tests, in folders with the customary names.
#![allow(unreachable_pub, reason = "each test is a crate")]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::fs;
use std::path::Path;

/// A certificate authority that signs any request.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, folder: &Path, whose: &str, name: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join(format!("{whose}-cert.pem")), certificate.pem()).unwrap();
        let path = folder.join(format!("{whose}-key.pem"));
        fs::write(&path, key.serialize_pem()).unwrap();
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, only_owner).unwrap();
    }

    /// Makes this authority the one that the folder's owner trusts.
    pub fn trusted_in(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("ca-cert.pem"), &self.pem).unwrap();
    }

    pub fn server(&self, folder: &Path, name: &str) {
        fs::create_dir_all(folder).unwrap();
        self.sign(folder, "server", name);
    }

    pub fn client(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        self.sign(folder, "client", "client");
    }
}
