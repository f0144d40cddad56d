//! Linux md as the oracle of `iodyno-raid`: md writes known content to arrays of RAM disks. Our
//! layout then reads the bytes of their members back, and our parity must equal md's.

use crate::machine::Guest;
use iodyno_raid::{Layout, Level, Place, Role, Rotation, Simd};
use std::fmt::Write as _;
use std::fs;

const SECTOR: usize = 512;
const CHUNK_SECTORS: u64 = 8;
/// Bytes of each member that are written and compared.
const MEMBER_BYTES: usize = 256 << 10;

/// A level, its members, and `mdadm`'s name of the layout.
fn arrays() -> Vec<(Level, usize, Rotation, String)> {
    let plain =
        |level, members, flags: &str| (level, members, Rotation::default(), flags.to_owned());
    let mut all = vec![
        plain(Level::Raid0, 3, "--level=0"),
        plain(Level::Raid1, 3, "--level=1"),
        plain(Level::Raid10, 4, "--level=10 --layout=n2"),
        plain(Level::Raid10, 5, "--level=10 --layout=n2"),
    ];
    for (level, number) in [(Level::Raid5, 5), (Level::Raid6, 6)] {
        let of = |rotation| (level, 5, rotation, format!("--level={number} --layout={rotation}"));
        all.extend(Rotation::ALL.map(of));
    }
    all
}

/// Bytes without a pattern: no two sectors are equal.
fn content(len: usize) -> Vec<u8> {
    let word =
        |n: u64| (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(n | 1);
    (0..len as u64 / 8).flat_map(|n| word(n).to_le_bytes()).collect()
}

#[test]
#[ignore = "needs QEMU and a guest kernel"]
fn arrays_of_md_are_read_back_from_their_members() {
    let folder = tempfile::tempdir().unwrap();
    let disk = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        format!("driver=file,filename={}", path.display())
    };
    let content = content(5 * MEMBER_BYTES);
    let images = vec![0; arrays().len() * 5 * MEMBER_BYTES];
    let mut guest = Guest::with(&[disk("content", &content), disk("members", &images)]);
    let mut sizes = Vec::new();
    for (number, (level, members, _, flags)) in arrays().iter().enumerate() {
        let chunk = if level.has_strips() { "--chunk=4" } else { "" };
        // RAID 0 has no size of its own. All else is consistent: of zeros, as are P and Q.
        let size = if *level == Level::Raid0 { "" } else { "--size=256 --assume-clean" };
        let mut script = String::new();
        for member in 0..*members {
            let _ =
                write!(script, "dd if=/dev/zero of=/dev/ram{member} bs=64K count=4 2>/dev/null; ");
        }
        let devices: Vec<_> = (0..*members).map(|n| format!("/dev/ram{n}")).collect();
        let devices = devices.join(" ");
        let _ = write!(
            script,
            "mdadm --create /dev/md0 --run --metadata=1.0 {flags} {chunk} {size} \
             --raid-devices={members} {devices} 2>&1 && \
             dd if=/dev/vdb of=/dev/md0 bs=4K count={} conv=fsync 2>/dev/null && \
             echo sizes $(cat /sys/block/md0/size /sys/block/md0/md/component_size \
             /sys/block/md0/md/dev-ram0/size) && mdadm --stop /dev/md0 2>&1",
            written(*level, *members) / 4096
        );
        for member in 0..*members {
            let seek = (number * 5 + member) * MEMBER_BYTES / 4096;
            let _ = write!(
                script,
                " && dd if=/dev/ram{member} of=/dev/vdc bs=4K count=64 seek={seek} conv=fsync 2>/dev/null"
            );
        }
        let output = guest.good(&script);
        println!("{output}");
        let line = output.lines().find_map(|line| line.strip_prefix("sizes ")).unwrap();
        sizes.push(line.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u64>>());
    }
    drop(guest);
    let images = fs::read(folder.path().join("members")).unwrap();
    for (array, (images, sizes)) in arrays().iter().zip(images.chunks(5 * MEMBER_BYTES).zip(sizes))
    {
        let (level, members, rotation, flags) = array;
        // In RAID 0, md uses whole members.
        let member_sectors = sizes[if *level == Level::Raid0 { 2 } else { 1 }] * 2;
        let layout = Layout::new(*level, &vec![member_sectors; *members], CHUNK_SECTORS).unwrap();
        let layout = layout.rotated(*rotation);
        assert_eq!(layout.sectors(), sizes[0], "{flags} of {members}: {sizes:?}");
        let images: Vec<&[u8]> = images.chunks(MEMBER_BYTES).take(*members).collect();
        let content = &content[..written(*level, *members)];
        is_read_back(&layout, &images, content);
    }
}

/// Number of bytes of the array that are written, so that the first [`MEMBER_BYTES`] of each member are full.
fn written(level: Level, members: usize) -> usize {
    let rows = vec![(MEMBER_BYTES / SECTOR) as u64; members];
    Layout::new(level, &rows, CHUNK_SECTORS).unwrap().sectors() as usize * SECTOR
}

fn is_read_back(layout: &Layout, members: &[&[u8]], content: &[u8]) {
    let strip_bytes = layout.strip_sectors().min((MEMBER_BYTES / SECTOR) as u64) as usize * SECTOR;
    let strip = |place: Place| {
        let from = place.sector as usize * SECTOR;
        &members[place.member][from..from + strip_bytes]
    };
    let stripes = content.chunks(strip_bytes * layout.data_strips());
    for (number, content) in stripes.enumerate() {
        let stripe = layout.stripe(number as u64);
        // By the exponent of each strip in Q.
        let mut data: Vec<&[u8]> = vec![&[]; layout.data_strips()];
        for (n, content) in content.chunks(strip_bytes).enumerate() {
            for copy in 0..layout.copies() {
                assert!(
                    strip(stripe.data(n, copy)) == content,
                    "{layout:?}, {number}, {n}, {copy}"
                );
            }
            data[stripe.exponent(n)] = content;
        }
        let (Some(p), q) = (stripe.p(), stripe.q()) else { continue };
        let mut parity = [vec![0; strip_bytes], vec![0; strip_bytes]];
        let [new_p, new_q] = &mut parity;
        Simd::best().p_and_q(&data, new_p, new_q);
        assert!(new_p == strip(p), "P of {layout:?}, {number}");
        assert!(q.is_none_or(|q| new_q == strip(q)), "Q of {layout:?}, {number}");
        // md's own parity gives back any data strip, and any two with Q.
        for x in 0..data.len() {
            for y in (0..data.len()).filter(|&y| if q.is_some() { y != x } else { y == x }) {
                let mut lost: Vec<Vec<u8>> = data.iter().map(|strip| strip.to_vec()).collect();
                lost[x].fill(0);
                lost[y].fill(0);
                let mut strips: Vec<&mut [u8]> = lost.iter_mut().map(Vec::as_mut_slice).collect();
                let (mut old_p, mut old_q) = (strip(p).to_vec(), q.map(|q| strip(q).to_vec()));
                let missing = [Role::Data(x as u8), Role::Data(y as u8)];
                let missing = if x == y { &missing[..1] } else { &missing };
                Simd::best().recover(&mut strips, &mut old_p, old_q.as_deref_mut(), missing);
                assert!(lost == data, "{layout:?}, {number} without {missing:?}");
            }
        }
    }
}
