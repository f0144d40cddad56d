//! Four emulated flash modules as one disk of the guest: md RAID 0, ext4, sysbench and fio, which
//! checks its reads; then the power is cut, and another kernel finds all data. Also checks that a guest
//! measures the model's ratio of times, if times are dilated beyond the transport's own.

use crate::machine::Guest;
use crate::served::Served;
use serde_json::Value;

const MODULES: &str = "/dev/vdb /dev/vdc /dev/vdd /dev/vde";
/// The data that fio writes and later reads again: checksums in each block, flushed at the end.
const VERIFIED: &str = "fio --name=v --directory=/tmp/fs --size=8M --rw=randwrite --bs=4k --ioengine=libaio \
     --iodepth=8 --direct=1 --verify=crc32c --verify_fatal=1 --end_fsync=1 --group_reporting";

/// Successful operations of a kind on a volume, their mean latency in simulated time, and the number of errors.
fn done(status: &Value, volume: usize, kind: &str) -> (f64, f64, u64) {
    let of = &status["volumes"][volume]["operations"][kind];
    let number = |key: &str| of[key].as_f64().unwrap_or(0.0);
    (number("operations"), number("latency_mean_ns"), of["errors"].as_u64().unwrap_or(0))
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn four_modules_in_one_raid_0() {
    let served = Served::start("exflash-400g*4", "");
    assert_eq!(served.exports().len(), 4);
    let mut guest = Guest::start(&served);
    guest.good(&format!(
        "mdadm --create /dev/md0 --run --metadata=1.2 --level=0 --raid-devices=4 --chunk=64K {MODULES}"
    ));
    // Small, so that it is checked quickly; 64 KiB on each module in turn.
    guest.good("/bin/mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 /dev/md0 512M");
    guest.good("mount -t ext4 /dev/md0 /tmp/fs");
    let files = "--file-total-size=32M --file-num=8";
    guest.good(&format!("cd /tmp/fs && sysbench fileio {files} --validate prepare"));
    let ran = guest.good(&format!(
        "cd /tmp/fs && sysbench fileio {files} --file-test-mode=rndrw --file-block-size=16384 \
         --file-extra-flags=direct --threads=4 --events=1000 --time=0 --validate run"
    ));
    let rates: Vec<&str> = ran
        .lines()
        .filter(|l| ["reads/s", "writes/s", "fsyncs/s"].iter().any(|w| l.contains(w)))
        .collect();
    println!("sysbench: {rates:?}");
    assert_eq!(rates.len(), 3, "{ran}");
    guest.good(VERIFIED);
    // The operations of the four so far; none has failed, and each has a fair share.
    let status = served.status();
    for kind in ["read", "write", "flush"] {
        let each: Vec<_> = (0..4).map(|volume| done(&status, volume, kind)).collect();
        println!("{kind}: {each:?}");
        let of_all: f64 = each.iter().map(|e| e.0).sum();
        for (operations, _, errors) in &each {
            assert_eq!(*errors, 0, "{status}");
            // Equal, if the stripes are spread; the first module also has the superblock of ext4.
            assert!(*operations >= of_all / 16.0 && *operations > 0.0, "{kind}: {each:?}");
        }
    }
    // fio has flushed all its writes, so this loses none of them.
    guest.cut_power(&served);
    let mut guest = Guest::start(&served);
    guest.good(&format!("mdadm --assemble /dev/md0 {MODULES}"));
    guest.good("mount -t ext4 /dev/md0 /tmp/fs");
    guest.good(&format!("{VERIFIED} --verify_only"));
    guest.good("umount /tmp/fs");
    guest.good("/bin/e2fsck -fn /dev/md0");
    guest.good("mdadm --stop /dev/md0");
    for volume in &served.status()["volumes"].as_array().unwrap()[..] {
        assert_eq!(volume["corruptions_found"], 0, "{volume}");
        assert_eq!(volume["backing_errors"], 0, "{volume}");
    }
}

/// A write to this module takes 5 µs and a read 130 µs, both less than the guest's transport alone. With times dilated
/// by 5000, the transport's time is negligible.
#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn a_ratio_survives_dilation() {
    const DILATION: f64 = 5000.0;
    let served = Served::start("exflash-400g", &format!("--dilate {DILATION}"));
    let mut guest = Guest::start(&served);
    // The latency that the guest sees, and the model's mean of the very same operations.
    let mut both = |mode: &str, kind: &str, count: u32| {
        let (n_before, mean_before, _) = done(&served.status(), 0, kind);
        let output = guest.good(&format!(
            "fio --name=m --filename=/dev/vdb --size=1G --rw={mode} --bs=4k --ioengine=psync --direct=1 \
             --number_ios={count} --output-format=json"
        ));
        let json: Value = serde_json::from_str(&output[output.find('{').unwrap()..]).unwrap();
        let of = &json["jobs"][0][kind];
        assert_eq!(of["total_ios"], count, "{output}");
        // The median, because a busy machine delays some.
        let seen_ns = of["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap() / DILATION;
        let (n, mean, _) = done(&served.status(), 0, kind);
        assert!((n - n_before - f64::from(count)).abs() < 0.5, "others were at it");
        (seen_ns, (n * mean - n_before * mean_before) / f64::from(count))
    };
    let (read_seen, read_said) = both("randread", "read", 10);
    let (write_seen, write_said) = both("randwrite", "write", 40);
    println!(
        "read {read_seen:.0} ns, model {read_said:.0}; write {write_seen:.0}, {write_said:.0}"
    );
    let (seen, said) = (read_seen / write_seen, read_said / write_said);
    println!(
        "reads take {seen:.2} times as long as writes in the guest, {said:.2} times in the model"
    );
    // A device is never faster than its model, by more than fio's histogram rounds.
    assert!(read_seen >= read_said * 0.98 && write_seen >= write_said * 0.98);
    assert!((seen / said - 1.0).abs() < 0.25, "{seen} in the guest, {said} in the model");
}
