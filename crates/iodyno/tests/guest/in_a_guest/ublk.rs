//! `serve --ublk` in the guest, whose kernel has ublk: its block devices store written data, hold a
//! file system, fail on an injected fault, and disappear when the server ends.

use crate::machine::{Guest, program};

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn volumes_are_block_devices_of_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::with(&[program(folder.path())]);
    guest.good("mkdir /tmp/program && mount -t ext4 -o ro /dev/vdb /tmp/program");
    let control = "--control /tmp/control";
    let serve = "/tmp/program/iodyno serve exflash-200g*2 --ublk --no-floor";
    guest.good(&format!("{serve} {control} >/tmp/log 2>&1 & echo $! >/tmp/server"));
    guest.good("while ! grep -q '^time ' /tmp/log; do kill -0 $(cat /tmp/server) && sleep 0.1 || break; done");
    let log = guest.good("cat /tmp/log");
    assert!(log.contains("block   /dev/ublkb0\nblock   /dev/ublkb1\n"), "{log}");

    // As configured in the kernel.
    let queue = "/sys/block/ublkb0/queue";
    let output = guest.good(&format!(
        "cat /sys/block/ublkb0/size {queue}/write_cache {queue}/fua {queue}/rotational {queue}/discard_granularity"
    ));
    assert_eq!(output.lines().collect::<Vec<_>>(), ["390625000", "write back", "1", "0", "4096"]);

    // Written data are there, in any order and depth.
    let what = "--filename=/dev/ublkb0 --size=8M --rw=randwrite --bs=4k --iodepth=8 --direct=1";
    let check = "--ioengine=libaio --verify=crc32c --verify_fatal=1 --do_verify=1";
    guest.good(&format!("fio --name=verify {what} {check}"));
    let data = guest.good("cat /bin/fio | md5sum");
    guest.good("/bin/mke2fs -q -F -t ext4 /dev/ublkb1 256M");
    guest.good("mount -t ext4 -o discard /dev/ublkb1 /tmp/fs && cat /bin/fio >/tmp/fs/fio");
    guest.good("umount /tmp/fs && mount -t ext4 -o discard /dev/ublkb1 /tmp/fs");
    assert_eq!(guest.good("cat /tmp/fs/fio | md5sum"), data);
    guest.good("rm /tmp/fs/fio && umount /tmp/fs && /bin/e2fsck -fn /dev/ublkb1");
    let status = guest.good(&format!("/tmp/program/iodyno status --json {control}"));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    for kind in ["read", "write", "flush", "trim"] {
        let of = &status["volumes"][1]["operations"][kind];
        assert!(of["operations"].as_u64() > Some(0), "{kind}: {status:#}");
        assert_eq!(of["errors"], 0, "{kind}: {status:#}");
    }

    // A fault is the kernel's error, and the devices end with the server.
    guest.good(&format!("/tmp/program/iodyno fault lose {control}"));
    let (said, code) =
        guest.run("dd if=/dev/ublkb0 of=/dev/null bs=4k count=1 skip=5000 iflag=direct");
    assert_ne!(code, 0, "{said}");
    guest.good(&format!("/tmp/program/iodyno fault stop {control}"));
    guest.good("while kill -0 $(cat /tmp/server) 2>/dev/null; do sleep 0.1; done");
    assert_eq!(guest.good("ls /dev/ublk*"), "/dev/ublk-control\n");
}
