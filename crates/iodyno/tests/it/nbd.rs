//! Exports of NBD servers as targets: nbdkit's, QEMU's and iodyno's. Served content is verified,
//! exports that hold data are refused without confirmation, missing features of a server are
//! reported before any data is sent, and results survive the death of a server.
//!
//! Sockets have their own folder, since their paths must be short.

#[allow(dead_code, reason = "certificates for those that show none are another crate's test")]
use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::faults::assert_failures;
use crate::place::{Place, Running, SHORT, cells, codes, whole};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A server on a socket, ended when dropped.
pub(crate) struct Server {
    running: Running,
    folder: TempDir,
}

impl Server {
    /// Starts the server with the command that `command` returns for the path of a socket and its folder.
    pub(crate) fn start(command: impl FnOnce(&str, &TempDir) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let mut command = command(socket.to_str().unwrap(), &folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::of(&mut command);
        running.wait_until("the server listens", || UnixStream::connect(&socket).is_ok());
        Self { running, folder }
    }

    /// Starts nbdkit with these arguments.
    pub(crate) fn nbdkit(words: &str) -> Self {
        Self::start(|socket, folder| {
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-U", socket]).args(words.split_whitespace());
            command.current_dir(folder.path());
            command
        })
    }

    /// Starts QEMU's server for an image with this content.
    fn qemu(words: &str, image: &[u8]) -> Self {
        Self::start(|socket, folder| {
            let file = folder.path().join("image");
            std::fs::write(&file, image).unwrap();
            let mut command = Command::new("qemu-nbd");
            command.args(["-t", "-f", "raw", "-k", socket]).args(words.split_whitespace());
            command.arg(file);
            command
        })
    }

    /// Starts iodyno's own server.
    pub(crate) fn ours(words: &str) -> Self {
        Self::start(|socket, folder| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_iodyno"));
            command.arg("serve").args(words.split_whitespace());
            command.args(["--nbd", &format!("unix:{socket}")]).current_dir(folder.path());
            command
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// URI of an export of the server.
    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    /// The present content of an image.
    fn image(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("image")).unwrap()
    }
}

/// The facts of the run's first target.
fn facts(document: &Value) -> &Value {
    &document["run"]["targets"][0]["facts"]
}

/// Mixed reads and writes, several workers and connections, all reads verified.
#[test]
fn exports_of_other_servers_are_measured_and_verified() {
    let servers = [
        ("nbdkit", Server::nbdkit("memory 16M"), ""),
        ("simple replies", Server::nbdkit("--no-sr memory 16M"), ""),
        ("qemu", Server::qemu("--shared=8", &vec![0; 16 << 20]), ""),
        ("ours", Server::ours("exflash-400g --speed native"), "--active 16MiB"),
    ];
    for (who, server, flags) in &servers {
        let place = Place::new();
        let uri = server.uri("");
        let limits = "--ops 4000 --ramp 0s --content verifiable --threads 2 --depth 16";
        let document = place.document(&format!("run oltp1 --on {uri} {flags} {limits}"));
        assert_valid(RUN_SCHEMA, &document);
        let cell = &cells(&document)[0];
        assert_eq!(cell["engine"], "nbd", "{who}");
        assert_eq!(whole(&cell["read"]["ops"]) + whole(&cell["write"]["ops"]), 4000, "{who}");
        assert_eq!(whole(&cell["read"]["errors"]) + whole(&cell["write"]["errors"]), 0, "{who}");
        assert!(!codes(cell).contains(&"LITTLES_LAW_BROKEN"), "{who}: {cell}");
        // The server's access to its storage is unknown.
        assert!(cell["evidence"]["direct"].is_null(), "{who}: {cell}");
        assert!(!codes(cell).contains(&"BUFFERED"), "{who}: {cell}");

        let facts = facts(&document);
        assert_eq!(facts["kind"], "nbd");
        let (export, size) = (&facts["nbd"], whole(&facts["size_bytes"]));
        assert_eq!(export["address"], server.socket().to_str().unwrap(), "{who}");
        assert_eq!(export["export"], "");
        assert_eq!((whole(&export["size_bytes"]), size >= 16 << 20), (size, true), "{who}");
        assert_eq!((&export["multi_conn"], &export["read_only"]), (&true.into(), &false.into()));
        assert_eq!(export["structured_replies"], *who != "simple replies", "{who}");
        assert_eq!(export["holds_data"], false, "{who}");
        // Data that an earlier run wrote are still there.
        let words = format!("run random-read --on {uri} {flags} --ops 500 --ramp 0s");
        assert_eq!(cells(&place.document(&words))[0]["read"]["ops"], 500, "{who}");
        let shown = place.iodyno("show last");
        assert!(shown.succeeds().stdout.contains("NBD export at"), "{}", shown.stdout);
    }
}

/// Every kind of operation, in closed and in open loop, arrives as its own kind.
#[test]
fn all_kinds_of_operations() {
    let server = Server::nbdkit("memory 16M");
    let place = Place::new();
    let mix = "schema = 1\nthreads = 1\ndepth = 8\n[mix]\nread = 4\nwrite = 4\ntrim = 1\n\
               write_zeroes = 1\n[write]\nfua = \"20%\"\nflush_every = 10\n";
    place.write("mix.toml", mix);
    for flags in ["--ops 3000 --ramp 0s", "--rate 20k/s --time 200ms --ramp 0s"] {
        let uri = server.uri("");
        let words = format!("run ./mix.toml --on {uri} --destroy {uri} {flags}");
        let document = place.document(&words);
        let cell = &cells(&document)[0];
        for kind in ["read", "write", "flush", "trim", "write_zeroes"] {
            assert!(whole(&cell[kind]["ops"]) > 0, "{kind}: {cell}");
            assert_eq!(cell[kind]["errors"], 0, "{kind}: {cell}");
        }
    }
}

#[test]
fn an_export_that_holds_data_is_not_written_unconfirmed() {
    let mut image = vec![0; 4 << 20];
    // Far from both ends, where no signature would be.
    image[2 << 20..][..256 << 10].fill(7);
    let server = Server::qemu("--shared=4", &image);
    let place = Place::new();
    let uri = server.uri("");
    let write = format!("run random-write --on {uri} {SHORT}");
    place
        .iodyno(&write)
        .fails(3, &["refusing to write to", "The export holds data", "--destroy nbd+unix:"]);
    for wrong in ["s", "image", "nbd+unix:///other?socket=s", "nbd://localhost/", "yes"] {
        let output = place.iodyno(&format!("{write} --destroy {wrong}"));
        output.fails(3, &[&format!("`--destroy {wrong}` names a different target")]);
    }
    place.iodyno(&format!("check {uri}")).exits(3);
    place.document(&format!("run random-read --on {uri} {SHORT}"));
    assert!(server.image() == image, "neither refusals nor reading write");
    assert!(!codes(&cells(&place.iodyno("show last --json").json())[0]).is_empty());

    // Its own name, in any spelling, confirms it.
    let encoded = uri.replace("/s", "%2Fs");
    for name in [&uri, &encoded] {
        let document = place.document(&format!("{write} --destroy {name}"));
        let lifted = &facts(&document)["opened"]["destroy_confirmed"];
        assert!(lifted[0].as_str().unwrap().contains("holds data"), "{lifted}");
    }
    assert!(server.image() != image);
}

/// An export whose ends can be read but whose middle can't is not reported as holding data.
#[test]
fn an_export_that_could_not_be_sampled_is_not_said_to_hold_data() {
    let place = Place::new();
    let pread = "pread=[ $4 -lt 6000000 ] || [ $4 -ge 9000000 ] || { echo EIO >&2; exit 1; }; \
                 head -c $3 /dev/zero";
    let server = Server::start(|socket, _| {
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", socket, "eval", "get_size=echo 16777216", pread]);
        command
    });
    let output = place.iodyno(&format!("check {}", server.uri("")));
    let said = &output.exits(3).stdout;
    assert!(said.contains("so its content is unknown"), "{said}");
    assert!(!said.contains("holds data"), "{said}");
}

/// Without block status, or if block status gives no information, samples show that an export is empty.
#[test]
fn an_export_is_empty_by_block_status_or_by_samples() {
    let place = Place::new();
    for words in ["--no-sr memory 16M", "--filter=noextents memory 16M", "memory 16M"] {
        let server = Server::nbdkit(words);
        let uri = server.uri("");
        place.iodyno(&format!("check {uri}")).succeeds();
        let words = format!("run random-write --on {uri} --ops 8000 --ramp 0s -q");
        place.iodyno(&words).succeeds();
        place.iodyno(&words).fails(3, &["The export holds data"]);
    }
}

#[test]
fn a_signature_is_named() {
    let mut image = vec![0; 4 << 20];
    image[4086..4096].copy_from_slice(b"SWAPSPACE2");
    let server = Server::qemu("--shared=4", &image);
    let output = Place::new().iodyno(&format!("run random-write --on {} {SHORT}", server.uri("")));
    output.fails(3, &["It holds swap space"]);
    assert!(server.image() == image);
}

#[test]
fn a_read_only_export_is_read() {
    let server = Server::nbdkit("-r memory 16M");
    let place = Place::new();
    let uri = server.uri("");
    for flags in ["", &format!("--destroy {uri}")] {
        let output = place.iodyno(&format!("run oltp1 --on {uri} {flags} {SHORT}"));
        output.fails(3, &["exports it read-only", "--read-only"]);
        assert!(
            !output.stderr.contains("confirm with the target's own name"),
            "no name helps: {output:?}"
        );
    }
    assert!(!place.notebook().exists(), "a run that was refused is none");
    let document = place.document(&format!("run random-read --read-only --on {uri} {SHORT}"));
    assert_eq!(facts(&document)["nbd"]["read_only"], true);
    assert!(whole(&cells(&document)[0]["read"]["ops"]) > 0);
}

/// Missing features of a server are detected before any data is sent, and reported with the remedy.
#[test]
fn a_feature_that_a_server_lacks_is_not_used() {
    let place = Place::new();
    place.write("t.toml", "schema = 1\n[mix]\ntrim = 1\n");
    place.write("f.toml", "schema = 1\n[mix]\nwrite = 1\n[write]\nfua = \"1%\"\n");
    place.write("l.toml", "schema = 1\n[mix]\nwrite = 1\n[write]\nflush_every = 4\n");
    let many = "random-write --threads 4 --depth 2";
    for (server, run, words) in [
        (
            "--filter=multi-conn memory 16M multi-conn-mode=disable",
            many,
            &["multi-conn", "--depth 8"][..],
        ),
        (
            "--filter=blocksize-policy memory 16M blocksize-maximum=64K blocksize-preferred=4K blocksize-minimum=1 blocksize-error-policy=error",
            "random-write --block 128KiB",
            &["at most 64 KiB", "--block"],
        ),
        (
            "eval get_size=echo\u{a0}16777216 pread=head\u{a0}-c\u{a0}$3\u{a0}/dev/zero pwrite=cat",
            "./f.toml",
            &["FUA"],
        ),
        (
            "eval get_size=echo\u{a0}16777216 pread=head\u{a0}-c\u{a0}$3\u{a0}/dev/zero pwrite=cat",
            "./t.toml",
            &["trims"],
        ),
        (
            "eval get_size=echo\u{a0}16777216 pread=head\u{a0}-c\u{a0}$3\u{a0}/dev/zero pwrite=cat",
            "./l.toml",
            &["flushes"],
        ),
    ] {
        // A blank inside a word is written as one that does not break.
        let server = Server::start(|socket, _| {
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-U", socket]);
            command.args(server.split(' ').map(|word| word.replace('\u{a0}', " ")));
            command
        });
        let uri = server.uri("");
        let output = place.iodyno(&format!("run {run} --on {uri} --destroy {uri} {SHORT}"));
        output.fails(2, words);
        if words.contains(&"multi-conn") {
            // Reads are consistent over any number of connections.
            let words = format!("run random-read --on {uri} --threads 4 --depth 2 {SHORT} -q");
            place.iodyno(&words).succeeds();
        }
    }
}

#[test]
fn missing_exports_and_servers() {
    let place = Place::new();
    let server = Server::ours("exflash-400g*2@x3850-x6 --speed native");
    let run = |uri: &str| place.iodyno(&format!("run random-read --on {uri} {SHORT}"));
    let output = run(&server.uri("nonesuch"));
    output.fails(2, &["is not a target", "the server exports"]);
    let gone = server.socket();
    run(&format!("nbd+unix:///?socket={}.other", gone.display()))
        .fails(2, &["not found", "socket"]);
    run("nbd://localhost/?size=1GiB").fails(2, &["size=1GiB", "not understood"]);
    run(&server.uri("").replace("nbd+", "nbds+")).fails(2, &["tls-certificates"]);
    // A stale socket that its server left.
    let left = server.folder.path().join("left");
    drop(UnixListener::bind(&left).unwrap());
    run(&format!("nbd+unix:///?socket={}", left.display())).fails(4, &["refused", "running"]);
    let two = server.uri("");
    let output = place.iodyno(&format!("run random-read --on {two} --on {two} {SHORT}"));
    output.fails(2, &["the same target"]);
    let output = place.iodyno(&format!("run random-read --on {two} --engine uring {SHORT}"));
    output.fails(2, &["uring", "leave --engine out"]);
    assert!(!place.notebook().exists());
}

/// If a server dies, earlier measurements are kept, shown and judged, and the run stops on other targets too.
#[test]
fn a_server_that_dies_under_the_run() {
    let place = Place::new();
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let server = Server::nbdkit("memory 16M");
        let words = "--threads 2 --depth 8 --ramp 0s --time 10m --max-errors 1000000000 --json -q";
        let targets = format!("--on ram:16MiB --on {}", server.uri(""));
        let mut running = place.start(&format!("run random-read {targets} {words}"));
        place.wait_for_cells(&mut running, 2);
        server.running.signal(signal);
        let document = running.finish().exits(4).json();
        assert_valid(RUN_SCHEMA, &document);
        assert_eq!(document["run"]["status"], "failed");
        let reason = document["run"]["reason"].as_str().unwrap();
        assert!(reason.contains("the nbd engine failed"), "{reason}");
        let [ram, nbd, all] = cells(&document).as_slice() else { panic!("{document}") };
        for cell in [ram, nbd, all] {
            assert_eq!(cell["ended"], "errors", "{cell}");
            assert!(codes(cell).contains(&"STOPPED_BY_ERRORS"), "{cell}");
        }
        assert!(whole(&ram["read"]["ops"]) > 0 && ram["read"]["errors"] == 0, "{ram}");
        // Both workers had eight requests in flight, except those that were answered last.
        assert_failures(nbd, "read", "gone", 1);
        assert_eq!(all["read"]["ops"], whole(&ram["read"]["ops"]) + whole(&nbd["read"]["ops"]));
        let shown = place.iodyno("show last");
        for word in ["device gone", "the nbd engine failed"] {
            assert!(shown.succeeds().stdout.contains(word), "{}", shown.stdout);
        }
    }
}

/// If the server returns an error, the operation fails with that kind of error, and the connection continues.
#[test]
fn errors_that_a_server_answers() {
    let place = Place::new();
    for (name, kind) in [("EIO", "io"), ("ENOSPC", "no_space"), ("ESHUTDOWN", "gone")] {
        let rate = "error-pwrite-rate=20%";
        let server = Server::nbdkit(&format!("--filter=error memory 16M error={name} {rate}"));
        let words = "--ops 2000 --ramp 0s --content verifiable --max-errors 10000";
        let output = place.iodyno(&format!("run oltp1 --on {} {words} --json -q", server.uri("")));
        let document = output.succeeds().json();
        assert_failures(&cells(&document)[0], "write", kind, 1);
        assert_eq!(cells(&document)[0]["read"]["errors"], 0);
    }
}

/// Over TLS, the run presents its certificate, and checks the server's.
#[test]
fn over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    let authority = crate::pki::Authority::new();
    authority.trusted_in(&pki);
    authority.server(&pki, "storage.test");
    authority.client(&pki);
    let server = Server::nbdkit(&format!(
        "--tls=require --tls-verify-peer --tls-certificates={} memory 16M",
        pki.display()
    ));
    let place = Place::new();
    let uri = format!(
        "nbds+unix:///?socket={}&tls-certificates={}&tls-hostname=storage.test",
        server.socket().display(),
        pki.display()
    );
    let limits = "--ops 1000 --ramp 0s --content verifiable";
    let document = place.document(&format!("run oltp1 --on {uri} {limits}"));
    assert_eq!(facts(&document)["nbd"]["tls"], true);
    assert_eq!(cells(&document)[0]["facts"]["nbd.agreed"], "structured replies, TLS");
    let key = pki.join("client-key.pem");
    let check = |mode| {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        place.iodyno(&format!("check {uri}")).stdout
    };
    assert!(check(0o644).contains("other users can read"));
    assert!(!check(0o600).contains("other users can read"));
    let other = uri.replace("storage.test", "other.test");
    place.iodyno(&format!("run random-read --on {other} {SHORT}")).exits(4);
    place.iodyno(&format!("run random-read --on {} {SHORT}", server.uri(""))).fails(2, &["TLS"]);
}

/// Reads or writes all of an export with qemu-io. Returns whether each byte is `byte`.
fn qemu_io(server: &Server, verb: &str, byte: u8) -> bool {
    let uri = server.uri("");
    let size = Command::new("qemu-img").args(["info", "--output=json", &uri]).output().unwrap();
    let size: Value = serde_json::from_slice(&size.stdout).unwrap();
    let words = format!("{verb} -P {byte} 0 {}", size["virtual-size"]);
    let output = Command::new("qemu-io").args(["-f", "raw", "-c", &words, &uri]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("bytes at offset 0"), "{output:?}");
    output.status.success()
}

const OLD: u8 = 0xAB;

#[test]
fn a_purge_trims_an_export() {
    let place = Place::new();
    let unmap = "--shared=4 --discard=unmap";
    let policy = "blocksize-minimum=4K blocksize-preferred=4K blocksize-maximum=64K";
    for server in [
        Server::nbdkit("memory 16M"),
        // A trim has no payload, so the largest block does not limit it.
        Server::nbdkit(&format!(
            "--no-sr --filter=blocksize-policy memory 32M {policy} blocksize-error-policy=error"
        )),
        Server::qemu(unmap, &vec![0; 5 << 20]),
    ] {
        assert!(qemu_io(&server, "write", OLD));
        let uri = server.uri("");
        for wrong in ["", "--destroy s", "--destroy nbd://localhost/"] {
            place.iodyno(&format!("purge {uri} {wrong}")).exits(3).says(&["--destroy nbd+unix:"]);
        }
        assert!(qemu_io(&server, "read", OLD), "refusals change nothing");
        let output = place.iodyno(&format!("purge {uri} --destroy {uri} --json")).succeeds().json();
        let record = &output["record"];
        assert_eq!((&output["purged"], &record["method"]), (&true.into(), &"discard".into()));
        assert_eq!(
            (&record["verified"], &record["outcome"]["state"]),
            (&"yes".into(), &"purged".into())
        );
        assert!(qemu_io(&server, "read", 0), "{record}");
    }
}

/// If a purge is impossible, no success is claimed, and nothing is written.
#[test]
fn an_export_that_can_not_be_purged() {
    let place = Place::new();
    let purge = |server: &Server, flags: &str| {
        assert!(qemu_io(server, "write", OLD));
        let uri = server.uri("");
        place.iodyno(&format!("purge {uri} --destroy {uri} {flags}"))
    };
    let not_purged = |server: &Server, flags: &str, words: &[&str]| {
        let output = purge(server, flags);
        let stdout = &output.exits(4).stdout;
        for word in words {
            assert!(stdout.contains(word), "`{word}` is missing: {stdout}");
        }
    };
    // It offers no TRIM.
    let server = Server::start(|socket, folder| {
        let file = folder.path().join("image");
        std::fs::write(&file, vec![0; 4 << 20]).unwrap();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", socket, "split"]).arg(file);
        command
    });
    not_purged(&server, "", &["not possible", "does not offer TRIM", "--discard=unmap"]);
    assert!(server.image().iter().all(|&byte| byte == OLD));
    not_purged(&server, "--method nvme-format", &["not possible"]);
    assert!(server.image().iter().all(|&byte| byte == OLD));

    // It acknowledges, and does nothing.
    let server = Server::qemu("--shared=4 --discard=ignore", &vec![0; 4 << 20]);
    let output = purge(&server, "--json").exits(4).json();
    assert_eq!((&output["purged"], &output["record"]["verified"]), (&false.into(), &"no".into()));
    not_purged(&server, "", &["old data is still readable", "--discard=unmap"]);

    // It fails them.
    let server = Server::nbdkit("--filter=error memory 4M error=EIO error-trim-rate=100%");
    let output = purge(&server, "--json").exits(4).json();
    assert_eq!(output["purged"], false);
    assert_eq!(output["record"]["outcome"]["state"], "failed");
    not_purged(&server, "", &["trim at byte 0 failed", "the server's log"]);
}
