//! Access to a server: sockets with owner-only access, TLS with certificates, loopback; and the
//! files that it leaves or finds.

use crate::place::Place;
use crate::serve::{Served, URI, flash, judge, try_judge};
use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use crate::pki::Authority;

const NATIVE: &str = "./device.toml --speed native";

fn place() -> Place {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    place
}

#[test]
fn sockets_belong_to_their_owner_and_stale_ones_are_replaced() {
    let place = place();
    for round in 0..3 {
        let server = Served::start(&place, NATIVE);
        for socket in ["nbd.sock", "ctl.sock"] {
            let found = std::fs::symlink_metadata(place.path(socket)).unwrap();
            assert!(found.file_type().is_socket());
            assert_eq!(found.permissions().mode() & 0o777, 0o600, "{socket}");
        }
        judge(&place, "nbdinfo", &["--size", URI]);
        // Another server does not remove them.
        for (socket, other) in
            [("nbd.sock", "--nbd unix:nbd.sock"), ("ctl.sock", "--control ctl.sock --nbd unix:2")]
        {
            let output = place.iodyno(&format!("serve {NATIVE} {other}"));
            output.fails(4, &[socket, "another server already listens"]);
        }
        assert!(server.status()["volumes"].is_array());
        judge(&place, "nbdinfo", &["--size", URI]);
        if round == 2 {
            server.stop();
        } else {
            server.kill();
            assert!(place.path("nbd.sock").exists(), "a killed server removes nothing");
        }
    }
    assert_eq!(place.names(), ["device.toml", "serve.log"]);
}

/// A file that is not a socket belongs to another program, and is not removed.
#[test]
fn files_are_not_mistaken_for_stale_sockets() {
    let place = place();
    place.write("mine", "precious");
    for words in ["--nbd unix:mine", "--control mine --nbd unix:nbd.sock"] {
        let output = place.iodyno(&format!("serve {NATIVE} {words}"));
        output.fails(4, &["mine", "is a file, not a socket"]);
        assert_eq!(std::fs::read_to_string(place.path("mine")).unwrap(), "precious");
    }
    // A server that can't start leaves no file that it made.
    for speed in ["--speed native", "--no-floor --record r"] {
        let words = format!("./device.toml {speed} --backing image --nbd unix:mine");
        place.iodyno(&format!("serve {words}")).exits(4);
    }
    assert_eq!(place.names(), ["device.toml", "mine"]);
    // A socket that only seems dead: its owner accepts no connection.
    let alive = UnixListener::bind(place.path("theirs")).unwrap();
    std::fs::set_permissions(place.path("theirs"), Permissions::from_mode(0o000)).unwrap();
    place.iodyno(&format!("serve {NATIVE} --control theirs --nbd unix:nbd.sock")).exits(4);
    assert!(place.path("theirs").exists());
    drop(alive);
    for (words, says) in [
        ("--nbd unix:", "lacks the path of a socket"),
        ("--nbd nbd.sock", "use unix:/run/flash.sock, or an address with a port"),
        ("--nbd localhost", "use unix:"),
        ("--tls one.pem", "cert.pem,key.pem,ca.pem"),
        ("--tls a,b,c", "No such file"),
        ("--dilate 2", "not available with --speed native"),
        ("--record r", "not available with --speed native"),
        ("--metrics 127.0.0.1:0", "not available with --speed native"),
        ("--backing a --backing b", "name one file for each volume"),
    ] {
        place.iodyno(&format!("serve {NATIVE} {words}")).fails(2, &[says]);
    }
    place.iodyno("serve null:").exits(2);
    assert_eq!(place.names(), ["device.toml", "mine", "theirs"]);
}

#[test]
fn a_backing_file_has_one_server_and_one_size() {
    let place = place();
    let server = Served::start(&place, &format!("{NATIVE} --backing image"));
    judge(&place, "nbdsh", &["-u", URI, "-c", "h.pwrite(b'x' * 4096, 8192)"]);
    for speed in ["native", "model"] {
        let words = format!("./device.toml --speed {speed} --no-floor --backing image");
        let output = place.iodyno(&format!("serve {words} --nbd unix:2"));
        output.fails(4, &["image", "another server has this file open"]);
    }
    server.stop();
    // The file is the volume, byte for byte, for every reader.
    let map = judge(&place, "qemu-img", &["map", "-f", "raw", "image"]);
    assert!(map.contains("0x2000"), "{map}");
    let read = ["-f", "raw", "-r", "-c", "read -P 120 8k 4k", "-c", "read -P 0 0 8k", "image"];
    judge(&place, "qemu-io", &read);
    let output = place.iodyno("serve nvdimm-n-32g --backing image --no-floor --nbd unix:2");
    output.fails(4, &["image", "100663296 bytes", "the file belongs to another device"]);
    std::os::unix::fs::symlink("image", place.path("link")).unwrap();
    for (name, what) in [("link", "a symbolic link"), (".", "a folder"), ("/dev/null", "a device")]
    {
        let output = place.iodyno(&format!("serve {NATIVE} --backing {name} --nbd unix:2"));
        output.fails(4, &[name, what]);
    }
    // The other speed accepts the same file.
    let server = Served::start(&place, "./device.toml --no-floor --backing image");
    judge(&place, "nbdsh", &["-u", URI, "-c", "assert h.pread(4096, 8192) == b'x' * 4096"]);
    server.stop();
}

#[test]
fn tls_admits_only_clients_with_a_certificate() {
    let place = place();
    let authority = Authority::new();
    authority.server(&place.path("server"), "localhost");
    authority.trusted_in(&place.path("server"));
    for folder in ["good", "bare", "alien"] {
        authority.trusted_in(&place.path(folder));
    }
    authority.client(&place.path("good"));
    Authority::new().client(&place.path("alien"));
    let tls = "--tls server/server-cert.pem,server/server-key.pem,server/ca-cert.pem";
    for speed in ["model", "native"] {
        let words = format!(
            "./device.toml --no-floor --speed {speed} {tls} --nbd unix:nbd.sock --nbd 127.0.0.1:0"
        );
        let server = Served::at(&place, &words);
        let said = server.said();
        let tcp =
            said.lines().find_map(|l| l.split_once("nbds://127.0.0.1:")).unwrap().1.to_owned();
        let (tcp, _) = tcp.split_once('/').unwrap_or((&tcp, ""));
        for (folder, is_let_in) in [("good", true), ("bare", false), ("alien", false)] {
            let unix = format!(
                "nbds+unix:///?socket=nbd.sock&tls-certificates={folder}&tls-hostname=localhost"
            );
            let tcp = format!("nbds://localhost:{tcp}/?tls-certificates={folder}");
            for uri in [unix, tcp] {
                let script = format!(
                    "h.set_uri_allow_local_file(True); h.connect_uri('{uri}')
h.pwrite(b'x' * 100000, 0)
assert h.pread(100000, 0) == b'x' * 100000"
                );
                let (well, said) = try_judge(&place, "nbdsh", &["-c", &script]);
                assert_eq!(well, is_let_in, "{uri}: {said}");
                let (well, said) = try_judge(&place, "nbdinfo", &["--json", &uri]);
                assert_eq!(well, is_let_in, "{uri}: {said}");
                assert!(!is_let_in || said.contains("\"TLS\": true"), "{said}");
            }
        }
        // Without TLS, nothing is disclosed, not even the names of the exports.
        for uri in [URI.to_owned(), format!("nbd://localhost:{tcp}")] {
            for args in [&["--json", &uri][..], &["--list", &uri]] {
                let (well, said) = try_judge(&place, "nbdinfo", args);
                assert!(!well && !said.contains("device"), "{uri}: {said}");
            }
        }
        drop(server);
    }
    // Invalid certificates.
    place.write("empty.pem", "");
    let output = place.iodyno(&format!("serve {NATIVE} --tls empty.pem,server/server-key.pem"));
    output.fails(2, &["empty.pem"]);
}

#[test]
fn without_tls_only_this_machine_is_served() {
    let place = place();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = place.iodyno(&format!("serve {NATIVE} --nbd {address}"));
        output.fails(4, &["open to other machines", "use --tls"]);
    }
    for (address, insist) in [("127.0.0.1:0", ""), ("0.0.0.0:0", "--insist-on-plain")] {
        let server = Served::at(&place, &format!("{NATIVE} --nbd {address} {insist}"));
        let uri = server.announced("at");
        let (_, port) = uri.rsplit_once(':').unwrap();
        judge(
            &place,
            "nbdinfo",
            &["--size", &format!("nbd://127.0.0.1:{}", port.trim_end_matches('/'))],
        );
    }
}

/// The announced address can be copied into other programs, whatever the name of the socket.
#[test]
fn other_programs_accept_the_announced_address() {
    let place = place();
    let mut command = place.command(&format!("serve {NATIVE} --nbd"));
    command.arg("unix:a & b?#%.sock");
    let log = place.path("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut running = crate::place::Running::of(&mut command);
    let said = || std::fs::read_to_string(&log).unwrap();
    running.wait_until("it is announced", || said().ends_with("ready\n"));
    let said = said();
    let uri = said.lines().find_map(|l| l.strip_prefix("at")).unwrap().trim();
    judge(&place, "nbdinfo", &["--size", uri]);
    assert!(said.starts_with("serving device  96 MiB in rtp\n"), "{said}");
}
