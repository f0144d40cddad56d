//! Files, harmless devices and scratch space, as an ordinary user may use them. Tests with loop devices and full file
//! systems need root: `tests/real`.

use super::*;
use crate::lay_out;
use core::ops::ControlFlow;
use rustix::io::{pread, pwrite};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

const MIB: u64 = 1 << 20;

fn name(path: &Path, rest: &str) -> TargetName {
    TargetName::parse(&format!("{}{rest}", path.display())).unwrap()
}

/// Fills a buffer with content that depends on the offset, so that misplaced pieces show, and marks it as a run does.
fn fill(buf: &mut [u8], offset: u64) {
    for (i, piece) in buf.chunks_mut(4096).enumerate() {
        let number = offset / 4096 + i as u64;
        piece.fill((number % 251) as u8 + 1);
        for sector in piece.chunks_mut(512) {
            sector[..16].copy_from_slice(&iodyno_units::mark::mark(number));
        }
    }
}

fn laid_out(opened: &mut Opened) -> Vec<u64> {
    let mut steps = Vec::new();
    lay_out(opened, &mut fill, &mut |done, total| {
        assert!(done <= total);
        steps.push(done);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(opened.lay_out, LayOut::Complete);
    steps
}

fn make(name: &TargetName) -> Opened {
    let mut opened = open(name, &OpenOptions::read_write()).unwrap();
    laid_out(&mut opened);
    opened
}

/// Access mode and flags of the descriptor, from the kernel.
fn kernel_flags(opened: &Opened) -> u32 {
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.fd.as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap()
}

fn is_refused(result: Result<Opened, TargetError>, code: RefusalCode) {
    match result {
        Err(TargetError::Refused(refused)) => {
            assert!(refused.refusals.iter().any(|refusal| refusal.code == code), "{refused}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_file_is_written_whole_and_then_reused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let name = name(&path, "?size=9MiB");
    let mut opened = open(&name, &OpenOptions::read_write()).unwrap();
    assert!(opened.made_here);
    assert_eq!(opened.lay_out_bytes(), 9 * MIB);
    assert_eq!(laid_out(&mut opened), [4 * MIB, 8 * MIB, 9 * MIB]);
    assert_eq!(opened.capacity_bytes, 9 * MIB);
    assert!(opened.inspection.extents.is_none_or(|e| (e.written_share - 1.0).abs() < 1e-9));
    assert_eq!(kernel_flags(&opened) & libc::O_DIRECT as u32 != 0, opened.direct);
    assert_eq!(opened.direct, opened.why_not_direct.is_none());
    assert_eq!(opened.page_cache, !opened.direct);
    drop(opened);
    let mut expected = vec![0; 9 << 20];
    fill(&mut expected, 0);
    assert!(std::fs::read(&path).unwrap() == expected);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    // A complete file of iodyno's opens unchanged.
    let again = open(&name, &OpenOptions::read_write()).unwrap();
    assert_eq!((again.made_here, &again.lay_out), (false, &LayOut::Complete));
    assert_eq!(again.capacity_bytes, 9 * MIB);
    // While it is open, a second open for writing fails.
    is_refused(open(&name, &OpenOptions::read_write()), RefusalCode::Locked);
    drop(again);

    // A smaller size uses a part, a larger one grows it by the difference.
    let part = open(&super::tests::name(&path, "?size=4MiB"), &OpenOptions::read_write()).unwrap();
    assert_eq!((part.capacity_bytes, &part.lay_out), (4 * MIB, &LayOut::Complete));
    drop(part);
    let mut grown =
        open(&super::tests::name(&path, "?size=11MiB"), &OpenOptions::read_write()).unwrap();
    assert_eq!(grown.lay_out, LayOut::Needed { from_bytes: 9 * MIB, to_bytes: 11 * MIB });
    assert_eq!(laid_out(&mut grown), [2 * MIB]);
    drop(grown);
    let mut expected = vec![0; 11 << 20];
    fill(&mut expected, 0);
    assert!(std::fs::read(&path).unwrap() == expected);
}

#[test]
fn a_file_of_ours_with_holes_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    drop(make(&name(&path, "?size=1MiB")));
    let file = File::options().write(true).open(&path).unwrap();
    let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    if rustix::fs::fallocate(&file, mode, 65_536, 65_536).is_err() {
        println!("skipped: the file system of the temporary folder can't punch holes");
        return;
    }
    drop(file);
    let opened = open(&name(&path, ""), &OpenOptions::read_write()).unwrap();
    assert_eq!(opened.lay_out, LayOut::Needed { from_bytes: 0, to_bytes: MIB });
    // Reading leaves the file unchanged and reports its written share.
    drop(opened);
    let read = open(&name(&path, ""), &OpenOptions::read_only()).unwrap();
    assert_eq!(read.lay_out, LayOut::NotNeeded);
    assert!(read.inspection.extents.unwrap().written_share < 0.95);
}

#[test]
fn a_lay_out_that_is_stopped_leaves_nothing_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let stop_after = |opened: &mut Opened, bytes: u64| {
        let mut progress = |done, _| {
            if done >= bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        lay_out(opened, &mut fill, &mut progress).unwrap_err()
    };
    let mut opened = open(&name(&path, "?size=12MiB"), &OpenOptions::read_write()).unwrap();
    let error = stop_after(&mut opened, 8 * MIB);
    assert_eq!(
        error,
        TargetError::Interrupted {
            path: path.display().to_string(),
            done_bytes: 8 * MIB,
            total_bytes: 12 * MIB
        }
    );
    assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);

    // Dropped before its lay-out, as after a panic.
    drop(open(&name(&path, "?size=12MiB"), &OpenOptions::read_write()).unwrap());
    assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);

    // An existing file of iodyno's gets its length back and stays iodyno's.
    drop(make(&name(&path, "?size=1MiB")));
    let mut grown = open(&name(&path, "?size=12MiB"), &OpenOptions::read_write()).unwrap();
    stop_after(&mut grown, 4 * MIB);
    drop(grown);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    assert_eq!(
        open(&name(&path, ""), &OpenOptions::read_write()).unwrap().lay_out,
        LayOut::Complete
    );
}

/// The undo removes only the file that was created, not another file that has taken its name.
#[test]
fn a_foreign_file_that_took_the_name_in_the_lay_out_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut opened = open(&name(&path, "?size=12MiB"), &OpenOptions::read_write()).unwrap();
    let mut swap = |done, _| {
        if done < 8 * MIB {
            return ControlFlow::Continue(());
        }
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        std::fs::write(&path, b"precious").unwrap();
        ControlFlow::Break(())
    };
    lay_out(&mut opened, &mut fill, &mut swap).unwrap_err();
    drop(opened);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(crate::sysroot::list(dir.path()), ["moved", "t"]);
}

/// Refuses a file that another process has open or mapped for writing, as databases and virtual machines do.
#[test]
fn a_file_that_another_process_writes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    drop(make(&name(&path, "?size=1MiB")));
    let mut writer = std::process::Command::new("sh")
        .args(["-c", "exec 9<>\"$1\" && echo open && read line", "sh"])
        .arg(&path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
    let result = open(&name(&path, ""), &OpenOptions::read_write());
    let message = result.as_ref().map_or_else(ToString::to_string, |_| String::new());
    assert!(message.contains("open for writing") && message.contains("sh (process"), "{message}");
    is_refused(result, RefusalCode::OpenElsewhere);
    assert!(open(&name(&path, ""), &OpenOptions::read_only()).is_ok());
    drop(writer.stdin.take());
    writer.wait().unwrap();
    assert!(open(&name(&path, ""), &OpenOptions::read_write()).is_ok());
}

#[test]
fn a_run_killed_in_the_lay_out_leaves_a_file_that_is_finished_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    // The state after a kill: the mark, and some of the bytes.
    let file = File::create_new(&path).unwrap();
    marker::write(&file, &path, Marker::Making(2 * MIB)).unwrap();
    let mut begun = vec![0; 1 << 20];
    fill(&mut begun, 0);
    file.write_all_at(&begun, 0).unwrap();
    drop(file);
    let opened = open(&name(&path, "?size=2MiB"), &OpenOptions::read_write()).unwrap();
    assert_eq!(opened.lay_out, LayOut::Needed { from_bytes: 0, to_bytes: 2 * MIB });
}

#[test]
fn a_foreign_file_is_refused_until_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("precious.db");
    std::fs::write(&path, vec![9; 1 << 20]).unwrap();
    let plain = name(&path, "");
    is_refused(open(&plain, &OpenOptions::read_write()), RefusalCode::ForeignFile);
    let confirmed = |by: &str| OpenOptions {
        confirm: Confirm(vec![by.to_owned()]),
        ..OpenOptions::read_write()
    };
    is_refused(open(&plain, &confirmed("precious")), RefusalCode::ForeignFile);
    for by in ["precious.db", path.to_str().unwrap()] {
        let opened = open(&plain, &confirmed(by)).unwrap();
        assert_eq!(opened.lifted[0].code, RefusalCode::ForeignFile);
        assert_eq!(pwrite(&opened.fd, &direct_buf(&opened), 0), Ok(4096));
    }
    // The file was not adopted: the next run refuses it again.
    is_refused(open(&plain, &OpenOptions::read_write()), RefusalCode::ForeignFile);

    // A file of iodyno's that a user replaced in place keeps its mark, but not its length.
    let ours = dir.path().join("ours");
    drop(make(&name(&ours, "?size=1MiB")));
    File::options().write(true).open(&ours).unwrap().set_len(MIB + 1).unwrap();
    is_refused(open(&name(&ours, ""), &OpenOptions::read_write()), RefusalCode::ForeignFile);

    // A file that also keeps its length, as after `cp image ours`, no longer holds iodyno's data.
    for at in [0, 512, 700_000, MIB - 512] {
        let refilled = dir.path().join("refilled");
        drop(make(&name(&refilled, "?size=1MiB")));
        drop(open(&name(&refilled, ""), &OpenOptions::read_write()).unwrap());
        let file = File::options().write(true).open(&refilled).unwrap();
        file.write_all_at(&[9; 512], at).unwrap();
        drop(file);
        let result = open(&name(&refilled, ""), &OpenOptions::read_write());
        let message = result.as_ref().map_or_else(ToString::to_string, |_| String::new());
        assert!(message.contains("another program has written to it since"), "{at}: {message}");
        is_refused(result, RefusalCode::ForeignFile);
        std::fs::remove_file(&refilled).unwrap();
    }

    // A file that a user formatted is reported as such.
    let disk = dir.path().join("disk");
    drop(make(&name(&disk, "?size=1MiB")));
    File::options().write(true).open(&disk).unwrap().write_all_at(b"XFSB", 0).unwrap();
    is_refused(open(&name(&disk, ""), &OpenOptions::read_write()), RefusalCode::Signature);
}

/// An aligned buffer of 4 KiB.
fn direct_buf(opened: &Opened) -> crate::aligned::AlignedBuf {
    assert!(opened.mem_align_bytes <= crate::aligned::BUFFER_ALIGN_BYTES as u64);
    crate::aligned::AlignedBuf::zeroed(4096)
}

#[test]
fn read_only_never_opens_for_writing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    std::fs::write(&path, vec![9; 1 << 20]).unwrap();
    // A file that iodyno did not create may be read without confirmation.
    let opened = open(&name(&path, ""), &OpenOptions::read_only()).unwrap();
    assert_eq!(kernel_flags(&opened) & libc::O_ACCMODE as u32, libc::O_RDONLY as u32);
    assert_eq!(pwrite(&opened.fd, &direct_buf(&opened), 0), Err(Errno::BADF));
    assert_eq!(pread(&opened.fd, &mut direct_buf(&opened)[..], 0), Ok(4096));
    let opened =
        open(&TargetName::parse("/dev/zero?size=1MiB").unwrap(), &OpenOptions::read_only())
            .unwrap();
    assert_eq!(kernel_flags(&opened) & libc::O_ACCMODE as u32, libc::O_RDONLY as u32);
    // Opening for reading neither creates nor grows a file.
    for rest in ["2?size=1MiB", "?size=2MiB"] {
        let result = open(&name(&path, rest), &OpenOptions::read_only());
        assert!(matches!(result, Err(TargetError::Unsupported { .. })), "{result:?}");
    }
    assert!(open(&TargetName::parse("scratch:").unwrap(), &OpenOptions::read_only()).is_err());
    assert_eq!(crate::sysroot::list(dir.path()), ["t"]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
}

#[test]
fn harmless_devices_only() {
    let zero = TargetName::parse("/dev/zero?size=1MiB").unwrap();
    let opened = open(&zero, &OpenOptions::read_write()).unwrap();
    assert_eq!((opened.capacity_bytes, opened.align_bytes, opened.direct), (MIB, 1, false));
    assert!(!opened.page_cache && opened.why_not_direct.is_some());
    assert_eq!(pread(&opened.fd, &mut [1; 16][..], 0), Ok(16));
    let sizeless = open(&TargetName::parse("/dev/zero").unwrap(), &OpenOptions::read_write());
    assert!(matches!(sizeless, Err(TargetError::BadName { .. })), "{sizeless:?}");
    let tty = TargetName::parse("/dev/tty?size=1MiB").unwrap();
    let named =
        OpenOptions { confirm: Confirm(vec!["/dev/tty".to_owned()]), ..OpenOptions::read_write() };
    for options in [OpenOptions::read_only(), OpenOptions::read_write(), named] {
        is_refused(open(&tty, &options), RefusalCode::CharDevice);
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = open(&name(dir.path(), ""), &OpenOptions::read_only());
    let message = folder.as_ref().expect_err("a folder is no storage").to_string();
    assert!(message.contains("can't be measured") && !message.contains("written"), "{message}");
    is_refused(folder, RefusalCode::NotStorage);
    assert!(matches!(
        open(&TargetName::parse("null:").unwrap(), &OpenOptions::read_only()),
        Err(TargetError::Unsupported { .. })
    ));
}

#[test]
fn the_page_cache_is_used_when_asked_and_only_then() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    drop(make(&name(&path, "?size=1MiB")));
    let buffered = open(&name(&path, "?direct=no"), &OpenOptions::read_write()).unwrap();
    assert!(!buffered.direct && buffered.page_cache);
    assert_eq!(kernel_flags(&buffered) & libc::O_DIRECT as u32, 0);
    assert_eq!(buffered.align_bytes, 1);
    assert_eq!(buffered.why_not_direct.as_deref(), Some("the page cache was requested"));
    drop(buffered);
    let off = OpenOptions { direct: Direct::Off, ..OpenOptions::read_write() };
    assert!(!open(&name(&path, ""), &off).unwrap().direct);
    // The name takes precedence over the option.
    match open(&name(&path, "?direct=yes"), &off) {
        Ok(opened) => assert!(opened.direct),
        Err(error) => assert!(matches!(error, TargetError::Unsupported { .. }), "{error}"),
    }
    let zero = open(
        &TargetName::parse("/dev/zero?size=1MiB&direct=yes").unwrap(),
        &OpenOptions::read_only(),
    );
    assert!(matches!(zero, Err(TargetError::Unsupported { .. })));
}

#[test]
fn the_stated_alignment_works_and_half_of_it_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let opened = make(&name(&dir.path().join("t"), "?size=1MiB"));
    let align = opened.align_bytes as usize;
    if !opened.direct {
        println!("skipped: {}", opened.why_not_direct.as_deref().unwrap_or_default());
        return;
    }
    let mut buf = crate::aligned::AlignedBuf::zeroed(2 * align);
    let mem = opened.mem_align_bytes as usize;
    assert!(mem <= align);
    assert_eq!(pread(&opened.fd, &mut buf[mem..][..align], align as u64), Ok(align));
    assert_eq!(pwrite(&opened.fd, &buf[mem..][..align], align as u64), Ok(align));
    // Some file systems accept any alignment (tmpfs copies); one whose `statx` states 512 means it.
    if opened.inspection.alignment.source.as_deref() == Some("statx") {
        assert_eq!(pread(&opened.fd, &mut buf[..align / 2], 0), Err(Errno::INVAL));
    }
}

#[test]
fn a_file_that_took_the_name_since_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    drop(make(&name(&path, "?size=1MiB")));
    let inspection = inspect::inspect(&name(&path, "")).unwrap();
    std::fs::rename(&path, dir.path().join("old")).unwrap();
    // The replacing file even carries the mark.
    drop(make(&name(&path, "?size=1MiB")));
    let result = open_inspected(inspection.clone(), &OpenOptions::read_write());
    assert!(matches!(result, Err(TargetError::Changed { .. })), "{result:?}");
    // A link to a user's file is not followed.
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(dir.path().join("old"), &path).unwrap();
    assert!(open_inspected(inspection, &OpenOptions::read_write()).is_err());

    // Another file took the name of a file that was to be created.
    let fresh = inspect::inspect(&name(&dir.path().join("new"), "?size=1MiB")).unwrap();
    std::fs::write(dir.path().join("new"), b"mine").unwrap();
    let result = open_inspected(fresh, &OpenOptions::read_write());
    assert!(matches!(result, Err(TargetError::Changed { .. })), "{result:?}");
    assert_eq!(std::fs::read(dir.path().join("new")).unwrap(), b"mine");

    // A file inspected as iodyno's, replaced in place before it was opened.
    let ours = dir.path().join("ours");
    drop(make(&name(&ours, "?size=1MiB")));
    let inspection = inspect::inspect(&name(&ours, "")).unwrap();
    std::fs::write(&ours, b"somebody's text").unwrap();
    is_refused(open_inspected(inspection, &OpenOptions::read_write()), RefusalCode::ForeignFile);
    assert_eq!(std::fs::read(&ours).unwrap(), b"somebody's text");
}

#[test]
fn scratch_space_has_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let name = TargetName::parse(&format!("scratch:3MiB@{}", dir.path().display())).unwrap();
    let mut opened = open(&name, &OpenOptions::read_write()).unwrap();
    assert!(opened.made_here);
    assert_eq!(laid_out(&mut opened), [3 * MIB]);
    assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);
    let mut buf = crate::aligned::AlignedBuf::zeroed(4096);
    assert_eq!(pread(&opened.fd, &mut buf[..], MIB), Ok(4096));
    assert_eq!(buf[16], (MIB / 4096 % 251) as u8 + 1);
}
