//! Acceptance tests of the NBD server by independent programs, with a device at the model's speed and
//! one at native speed with a backing file.

use crate::place::Place;
use crate::serve::{MIB, SIZE, Served, URI, flash, judge};
use serde_json::Value;

/// Runs a script of nbdsh, in which `h` is a connected handle.
#[track_caller]
fn nbdsh(place: &Place, script: &str) {
    judge(place, "nbdsh", &["-u", URI, "-c", script]);
}

/// Runs commands of qemu-io, without its cache.
#[track_caller]
fn qemu_io(place: &Place, commands: &[&str]) {
    let mut args = vec!["-f", "raw", "-t", "none", URI];
    args.extend(commands.iter().flat_map(|c| ["-c", c]));
    judge(place, "qemu-io", &args);
}

/// The server's description of itself, and its content before anything was written.
fn it_describes_itself(place: &Place) {
    let output: Value =
        serde_json::from_str(&judge(place, "nbdinfo", &["--json", URI])).expect("a document");
    assert!(output["protocol"].as_str().unwrap().starts_with("newstyle-fixed"), "{output}");
    assert_eq!(output["structured"], true);
    let export = &output["exports"][0];
    assert_eq!(export["export-size"], SIZE);
    for can in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_df"] {
        assert_eq!(export[can], true, "{can}: {output}");
    }
    assert_eq!(export["is_read_only"], false);

    let list = judge(place, "nbdinfo", &["--list", URI]);
    assert!(list.contains("export=\"device\""), "{list}");

    let map: Value =
        serde_json::from_str(&judge(place, "nbdinfo", &["--map", "--json", URI])).unwrap();
    let lengths = map.as_array().unwrap().iter().map(|e| e["length"].as_u64().unwrap());
    assert!(lengths.clone().all(|l| l > 0));
    assert_eq!(lengths.sum::<u64>(), SIZE, "{map}");

    let last = format!("read -P 0 {} 512", SIZE - 512);
    qemu_io(place, &["read -P 0 0 1M", &last]);
}

/// Bytes are stored at their place, whichever command wrote them.
fn bytes_are_kept(place: &Place) {
    qemu_io(
        place,
        &[
            "write -P 0xab 4k 64k",
            "flush",
            "read -P 0xab 4k 64k",
            "read -P 0 0 4k",
            "read -P 0 68k 4k",
        ],
    );
    // Another connection.
    qemu_io(place, &["read -P 0xab 4k 64k"]);
    qemu_io(
        place,
        &[
            "write -f -P 0x11 1M 128k",
            "write -z 1M 64k",
            "read -P 0 1M 64k",
            "read -P 0x11 1088k 64k",
            "write -z -u 1088k 64k",
            "read -P 0 1M 128k",
            "write -P 0x22 1M 64k",
            "discard 1M 1M",
            "read -P 0 1M 64k",
        ],
    );
    let last = SIZE - 512;
    qemu_io(place, &[&format!("write -P 0x5a {last} 512"), &format!("read -P 0x5a {last} 512")]);
    nbdsh(
        place,
        "b = bytes(range(256)) * 131072
h.pwrite(b, 512)
assert h.pread(len(b), 512) == b
h.zero(len(b), 512)
assert h.pread(len(b), 512) == bytes(len(b))",
    );
}

/// Requests beyond the end of an export, and connections to a missing export, are refused.
fn missing_ranges_and_exports_are_refused(place: &Place) {
    nbdsh(
        place,
        &format!(
            "import errno
h.set_strict_mode(0)
def fails(f):
    try: f()
    except nbd.Error as e: return e.errnum
read, write = (errno.EINVAL,), (errno.ENOSPC, errno.EINVAL)
assert fails(lambda: h.pread(512, {SIZE})) in read
assert fails(lambda: h.pread(4096, {SIZE} - 512)) in read
assert fails(lambda: h.pwrite(bytes(512), {SIZE})) in write
assert fails(lambda: h.pwrite(bytes(4096), {SIZE} - 512)) in write
assert fails(lambda: h.trim(512, {SIZE})) in write
assert fails(lambda: h.zero(512, {SIZE})) in write
assert len(h.pread(512, 0)) == 512
g = nbd.NBD()
g.set_opt_mode(True)
g.connect_uri('{URI}')
g.set_export_name('nobody')
assert fails(g.opt_go) is not None
g.set_export_name('')
g.opt_go()
assert g.get_size() == {SIZE}"
        ),
    );
}

/// Whole images in and out, over several connections, and a file system's image on top.
fn images_pass_through(place: &Place) {
    let mut image = vec![0; SIZE as usize];
    let mut random = iodyno_units::rng::stream(1, "image", 0);
    for word in image[..(64 * MIB) as usize].chunks_mut(8) {
        word.copy_from_slice(&iodyno_units::rng::below(&mut random, u64::MAX).to_le_bytes());
    }
    let a = place.write("a", &image);
    judge(place, "nbdcopy", &["--connections=4", "--requests=16", "--flush", "a", URI]);
    judge(place, "nbdcopy", &["--connections=4", URI, "b"]);
    assert!(std::fs::read(place.path("b")).unwrap() == image, "nbdcopy brought other bytes");
    judge(place, "qemu-img", &["compare", "-f", "raw", "-F", "raw", "a", URI]);
    // Other bytes than before, so that the comparison can't pass with the former ones.
    image.rotate_left(4096);
    std::fs::write(&a, &image).unwrap();
    judge(place, "qemu-img", &["convert", "-n", "-W", "-f", "raw", "-O", "raw", "a", URI]);
    judge(place, "qemu-img", &["compare", "-f", "raw", "-F", "raw", "a", URI]);

    judge(place, "qemu-img", &["create", "-f", "qcow2", URI, "16M"]);
    let write = ["-f", "qcow2", "-c", "write -P 7 0 8M", "-c", "read -P 7 0 8M", URI];
    judge(place, "qemu-io", &write);
    judge(place, "qemu-img", &["check", "-f", "qcow2", URI]);
    for name in ["a", "b"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
}

/// Many requests at once and several connections: nothing is mixed up, and no write is lost.
fn many_at_once(place: &Place) {
    let uri = format!("--uri={URI}");
    judge(
        place,
        "fio",
        &[
            "--name=v",
            "--ioengine=nbd",
            &uri,
            "--size=16M",
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=16",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--verify_backlog=256",
            "--randseed=1",
        ],
    );
    nbdsh(
        place,
        &format!(
            "import nbd
g = nbd.NBD()
g.connect_uri('{URI}')
assert h.can_multi_conn()
for i in range(64):
    h.pwrite(bytes([i + 1]) * 4096, i * 4096)
    h.flush()
    assert g.pread(4096, i * 4096) == bytes([i + 1]) * 4096
assert h.get_structured_replies_negotiated()
pieces = []
h.pread_structured(131072, 0, lambda d, o, s, e: pieces.append((o, len(d))), nbd.CMD_FLAG_DF)
assert pieces == [(0, 131072)], pieces
s = nbd.NBD()
s.set_request_structured_replies(False)
s.connect_uri('{URI}')
assert not s.get_structured_replies_negotiated()
s.pwrite(b'x' * 512, 512)
assert s.pread(512, 512) == b'x' * 512
# The byte that a block is full of.
full = [0 if i == 0 else i + 1 for i in range(64)]
h.pwrite(bytes(4096), 0)
order = []
blocks = [i * 7919 % 64 for i in range(200)]
buffers = [nbd.Buffer(4096) for _ in blocks]
cookies = [h.aio_pread(b, i * 4096, lambda e, n=n: order.append(n) or 1)
           for n, (b, i) in enumerate(zip(buffers, blocks))]
while len(order) < len(blocks):
    h.poll(1000)
assert sorted(order) == list(range(200))
for b, i in zip(buffers, blocks):
    assert b.to_bytearray() == bytes([full[i]]) * 4096, i"
        ),
    );
    let bench = ["bench", "-f", "raw", "-t", "none", "-c", "10000", "-d", "16", "-s", "4k", URI];
    judge(place, "qemu-img", &bench);
}

/// A read-only server announces itself as such, and does not write for a client that tries nevertheless.
fn read_only(words: &str) {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, &format!("./device.toml --no-floor --read-only {words}"));
    judge(&place, "nbdinfo", &["--is", "readonly", URI]);
    nbdsh(
        &place,
        "import errno
h.set_strict_mode(0)
for f in (lambda: h.pwrite(bytes(512), 0), lambda: h.trim(4096, 0), lambda: h.zero(4096, 0)):
    try:
        f()
        raise SystemExit(1)
    except nbd.Error as e: assert e.errnum in (errno.EPERM, errno.EROFS), e.errnum
h.pread(512, 0)",
    );
    server.stop();
}

fn accepted(words: &str) {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, &format!("./device.toml --no-floor {words}"));
    it_describes_itself(&place);
    bytes_are_kept(&place);
    missing_ranges_and_exports_are_refused(&place);
    images_pass_through(&place);
    many_at_once(&place);
    server.stop();
}

#[test]
fn others_accept_it_at_the_models_speed() {
    accepted("--speed model");
    read_only("--speed model");
}

#[test]
fn others_accept_it_at_native_speed() {
    accepted("--speed native --backing image");
    read_only("--speed native --backing image");
}
