use super::*;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

fn names(dir: &Path) -> Vec<String> {
    crate::sysroot::list(dir)
}

fn problem(path: &Path) -> String {
    let error = Output::at(path).expect_err("it must not be written");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn an_output_is_whole_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    let output = Output::at(&path).unwrap();
    assert_eq!(names(dir.path()), [""; 0], "a check makes nothing");
    output.write(b"first").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    Output::at(&path).unwrap().write(b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(dir.path()), ["report.html"], "no temporary file is left");

    // A link's target is replaced, not the link.
    let link = dir.path().join("link");
    symlink("report.html", &link).unwrap();
    Output::at(&link).unwrap().write(b"third").unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read(&path).unwrap(), b"third");

    // A failure keeps the old file and leaves no other.
    let output = Output::at(&path).unwrap();
    fs::write(&path, b"\0 an image by now").unwrap();
    assert!(output.write(b"fourth").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"\0 an image by now");
    assert_eq!(names(dir.path()), ["link", "report.html"]);
}

#[test]
fn non_text_files_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(problem(&at("none/x.html")).contains("not found"));
    assert!(problem(dir.path()).contains("directory"));
    symlink("nothing", at("dangling")).unwrap();
    assert!(problem(&at("dangling")).contains("symbolic link"));
    fs::write(at("image"), b"SQLite format 3\0").unwrap();
    symlink("image", at("to-image")).unwrap();
    fs::write(at("late"), [vec![b' '; 60 << 10], vec![0]].concat()).unwrap();
    for name in ["image", "to-image", "late"] {
        assert!(problem(&at(name)).contains("not a text file"));
    }
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(problem(&at("socket")).contains("socket"));
    for device in ["/dev/zero", "/dev/full"] {
        assert!(problem(Path::new(device)).contains("device"));
    }
    // A file cannot be a folder, nor a link to itself a file.
    symlink("loop", at("loop")).unwrap();
    let long = at(&"n".repeat(300));
    for path in [at("late/x.html"), at("loop"), at("loop/x.html"), long] {
        problem(&path);
    }
    for path in [at("late"), at("late/x"), at("loop")] {
        let error = Folder::make(&path).expect_err("it must not be made");
        assert_eq!(error.exit_code(), 2, "{error}");
    }
    Output::at(Path::new("/dev/null")).unwrap().write(b"gone").unwrap();
    assert_eq!(fs::read(at("image")).unwrap(), b"SQLite format 3\0");
}

#[test]
fn a_pipe_is_written_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
    assert!(problem(&path).contains("without a reader"));
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::read(path).unwrap())
    };
    let output = loop {
        match Output::at(&path) {
            Ok(output) => break output,
            Err(_) => std::thread::yield_now(),
        }
    };
    let page = vec![b'x'; 1 << 20];
    output.write(&page).unwrap();
    assert!(reader.join().unwrap() == page);
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

#[test]
fn only_the_very_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    drop(NewFile::create(&path).unwrap());
    assert_eq!(names(dir.path()), [""; 0]);
    let new = NewFile::create(&path).unwrap();
    assert!(NewFile::create(&path).is_err(), "nothing is overwritten");
    fs::rename(&path, dir.path().join("moved")).unwrap();
    fs::write(&path, b"precious").unwrap();
    drop(new);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["moved", "new"]);
    let kept = NewFile::create(&dir.path().join("kept")).unwrap();
    kept.keep();
    assert_eq!(names(dir.path()), ["kept", "moved", "new"]);
}

#[test]
fn only_begun_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    for (content, stays) in
        [("iodyno record 2\n{}", false), ("", false), ("iodyno notes", true), ("precious", true)]
    {
        fs::write(&path, content).unwrap();
        remove_begun(&path, b"iodyno record 2");
        assert_eq!(path.exists(), stays, "{content}");
    }
    let link = dir.path().join("link");
    symlink("record", &link).unwrap();
    remove_begun(&link, b"precious");
    assert!(link.symlink_metadata().is_ok() && path.exists());
}

#[test]
fn a_notebook_is_a_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert_eq!(notebook_path(&at("none/yet")).unwrap(), at("none/yet"));
    fs::write(at("book"), b"").unwrap();
    symlink("book", at("link")).unwrap();
    assert_eq!(notebook_path(&at("link")).unwrap(), at("book").canonicalize().unwrap());
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    symlink("pipe", at("to-pipe")).unwrap();
    for (path, what) in [
        (at("pipe"), "a pipe"),
        (at("to-pipe"), "a pipe"),
        (at(""), "a directory"),
        ("/dev/null".into(), "a character device"),
    ] {
        let error = notebook_path(&path).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// In a folder like `/tmp`, another user's files are not written, and another user's links are not followed.
#[test]
#[ignore = "needs root"]
fn nothing_of_another_user_is_written_in_a_shared_folder() {
    use std::os::unix::fs::{chown, lchown};
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.txt");
    fs::write(&own, "precious").unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let nobody = Some(65_534);
    let at = |name: &str| shared.join(name);
    symlink(&own, at("link")).unwrap();
    symlink(dir.path(), at("folder")).unwrap();
    symlink(dir.path().join("new.txt"), at("dangling")).unwrap();
    for link in ["link", "folder", "dangling"] {
        lchown(at(link), nobody, nobody).unwrap();
    }
    fs::write(at("file"), "text").unwrap();
    chown(at("file"), nobody, nobody).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o666)).unwrap();
    chown(at("pipe"), nobody, nobody).unwrap();
    let reader = fs::OpenOptions::new().read(true).write(true).open(at("pipe")).unwrap();
    for (mode, refused) in [
        (
            0o1777,
            ["link", "folder/new.txt", "folder/own.txt", "dangling", "file", "pipe"].as_slice(),
        ),
        (0o777, &["link", "folder/new.txt", "folder/own.txt", "dangling"]),
    ] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        for name in refused {
            assert!(Output::at(&at(name)).is_err(), "{mode:o} {name}");
        }
        for name in ["link", "folder/new.txt"] {
            assert!(problem(&at(name)).contains("another user"), "{mode:o} {name}");
            assert!(notebook_path(&at(name)).is_err(), "{mode:o} {name}");
        }
        assert!(Folder::make(&at("folder/deeper")).is_err());
        assert!(NewFile::create(&at("folder/new.txt")).is_err());
    }
    // Allowed: a folder that nobody else writes to, and the user's own link.
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    Output::at(&at("link")).unwrap().write(b"new").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink(&own, at("link")).unwrap();
    Output::at(&at("link")).unwrap().write(b"newer").unwrap();
    assert_eq!(fs::read(&own).unwrap(), b"newer");
    assert_eq!(names(dir.path()), ["own.txt", "shared"]);
    drop(reader);
}
