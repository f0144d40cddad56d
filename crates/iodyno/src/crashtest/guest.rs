//! The guest of `crashtest`: a virtual machine in which the program and the checkers run. Its disk is a file in the
//! recorded folder, with a real file system. The guest sees the host's files, but can't change them.

mod machine;

pub(crate) use machine::run_in_guest;

use crate::failure::Failure;
use iodyno_catalog::input::read_text;
use iodyno_units::text::{clean_lines, for_shell};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Hidden command that runs a script in a guest.
const IN_GUEST: &str = "in-guest";
/// Folder in the guest, on the recorded disk, in which programs run.
const FOLDER: &str = "/iodyno";
/// Name of the disk's file in the recorded folder.
const DISK: &str = "disk";
/// Timeout for the start of a guest, in addition to the time limit of its script.
pub(super) const START_TIME: Duration = Duration::from_secs(60);
/// Maximum length of the file with the kernel's version, bytes.
const VERSION_BYTES_MAX: u64 = 256;
/// Exit code of `make-guest` for errors that the user can fix.
const REFUSED: i32 = 2;
/// Exit code of a shell that could not execute its program. Here it means that the guest failed, not the program.
const NOT_EXECUTED: u8 = 126;

/// A file system that the guest can use, and the rules for which it is used.
#[derive(Debug)]
struct FileSystem {
    rules: &'static str,
    /// Name of the file system in the kernel, and its mount options.
    mount: (&'static str, &'static str),
    /// Program on the host that makes the file system.
    maker: &'static str,
    /// Shell command that makes the file system on [`DISK`], without lazy initialisation after the mount.
    make: &'static str,
}

/// File systems of guests. The first is also used for the rules `worst`, which are not those of a real file system.
const FILE_SYSTEMS: [FileSystem; 4] = [
    FileSystem { rules: "ext4", mount: ("ext4", "data=ordered"), maker: "mke2fs", make: EXT4 },
    FileSystem {
        rules: "ext4-writeback",
        mount: ("ext4", "data=writeback"),
        maker: "mke2fs",
        make: EXT4,
    },
    FileSystem {
        rules: "xfs",
        mount: ("xfs", "nodiscard"),
        maker: "mkfs.xfs",
        make: "truncate -s 512M disk && mkfs.xfs -q disk",
    },
    FileSystem {
        rules: "btrfs",
        mount: ("btrfs", "nodiscard"),
        maker: "mkfs.btrfs",
        make: "truncate -s 256M disk && mkfs.btrfs -q disk",
    },
];
const EXT4: &str = "truncate -s 128M disk && mke2fs -q -t ext4 -N 4096 -E lazy_itable_init=0,lazy_journal_init=0 disk && debugfs -w -R 'rmdir lost+found' disk 2>/dev/null";

/// A guest, kept in a folder, with a file system for its recorded disk.
#[derive(Debug)]
pub(super) struct Guest {
    folder: PathBuf,
    file_system: &'static FileSystem,
    /// The file system and the kernel in words.
    pub(super) name: String,
    program: PathBuf,
}

impl Guest {
    /// Creates the guest in a folder, unless the folder has one. `rules` selects its file system.
    ///
    /// # Errors
    /// A tool is missing, the kernel can't be downloaded, or the guest does not boot.
    pub(super) fn prepare(folder: &Path, rules: &str, is_quiet: bool) -> Result<Self, Failure> {
        let file_system =
            FILE_SYSTEMS.iter().find(|known| known.rules == rules).unwrap_or(&FILE_SYSTEMS[0]);
        has_maker(file_system)?;
        make(folder, is_quiet)?;
        let version = read_text(&folder.join("version"), VERSION_BYTES_MAX);
        let version = version.map_err(|e| broken(folder, &e.to_string()))?;
        let (kind, options) = file_system.mount;
        let release = version.trim().split('+').next().unwrap_or_default();
        let name = format!("{kind} ({options}) of Linux {release}");
        let folder = std::path::absolute(folder).map_err(|e| broken(folder, &e.to_string()))?;
        Ok(Self { folder, file_system, name, program: super::own_program()? })
    }

    /// Command line that makes the file system. It runs on the host, in the recorded folder.
    pub(super) fn make_disk(&self) -> Vec<OsString> {
        let line = format!("PATH=$PATH:/usr/sbin:/sbin; {}", self.file_system.make);
        ["sh".into(), "-c".into(), line.into()].into()
    }

    /// Command line that runs a program in the guest. Unmounts the disk afterwards, so that it has the complete result.
    pub(super) fn program(&self, words: &[OsString]) -> Vec<OsString> {
        const UNMOUNTED: &str = "echo 'the file system was not mounted' >/dev/ttyS0";
        // Makes the kernel write dirty data back after 10 ms instead of 30 s. Otherwise the run of a short program
        // would have only two states: nothing written, and everything written.
        const OFTEN: &str = "echo 1 >/proc/sys/vm/dirty_writeback_centisecs; echo 1 >/proc/sys/vm/dirty_expire_centisecs\n";
        // The first process and the caller are spared.
        let after = format!(
            "kill -9 -1; sleep 0.1\n\
             umount /all{FOLDER} || {{ echo 'the disk is still in use' >/dev/ttyS0; code={NOT_EXECUTED}; }}"
        );
        self.script(OFTEN, UNMOUNTED, words, "2>/dev/ttyS0", &after)
    }

    /// Command line that runs a checker in the guest. `time_limit` counts from the start of the guest. The checker's
    /// standard error is part of its standard output.
    pub(super) fn checker(&self, words: &[OsString], time_limit: Duration) -> Vec<OsString> {
        // The state of a file system that is not mounted says nothing about the program: the checker does not run.
        const UNMOUNTED: &str = "echo 'the kernel does not mount the file system:'; dmesg | grep -iE 'ext4|xfs|btrfs' | tail -n 2";
        let mut words = self.script("", UNMOUNTED, words, "", "");
        words.push(format!("{}", time_limit.as_nanos()).into());
        words
    }

    /// Command line that runs a program in the mounted folder of the guest. Shell code: `before` runs first, `after` at
    /// the end, `unmounted` if the disk can't be mounted. `errors` redirects standard error.
    fn script(
        &self,
        before: &str,
        unmounted: &str,
        words: &[OsString],
        errors: &str,
        after: &str,
    ) -> Vec<OsString> {
        let (kind, options) = self.file_system.mount;
        let mut inner = OsString::from(format!("cd {FOLDER} && exec"));
        for word in words {
            inner.push(" ");
            inner.push(quoted(word));
        }
        let mut text = OsString::from(format!(
            "code={NOT_EXECUTED}\n{before}\
             if ! host || ! mkdir /all{FOLDER}; then echo 'the guest has no access to the files of the host' >/dev/ttyS0\n\
             elif ! mount -t {kind} -o {options} /dev/vdb /all{FOLDER}; then {unmounted}\n\
             else (\n"
        ));
        text.push(exports());
        text.push(format!("export IODYNO_DIR={FOLDER}\nexec chroot /all /bin/sh -c "));
        text.push(quoted(&inner));
        text.push(format!(" {errors}\n)\ncode=$?\n{after}\nfi\n"));
        [
            self.program.clone().into_os_string(),
            IN_GUEST.into(),
            self.folder.clone().into_os_string(),
            DISK.into(),
            text,
        ]
        .into()
    }
}

/// Fails if the host lacks the program that makes a file system.
fn has_maker(file_system: &FileSystem) -> Result<(), Failure> {
    let FileSystem { rules, maker, .. } = file_system;
    let there = format!("PATH=$PATH:/usr/sbin:/sbin; command -v {maker} >/dev/null");
    let has = Command::new("sh").args(["-c", &there]).status();
    if has.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Failure::input(format!("--guest with --rules {rules}: `{maker}` is missing: install it")))
}

/// Shell code that sets the environment variables of this process.
fn exports() -> OsString {
    let is_name = |name: &[u8]| name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let mut text = OsString::new();
    for (name, value) in std::env::vars_os() {
        let is_own = name == super::ACKNOWLEDGED || name == "IODYNO_DIR";
        if is_name(name.as_bytes()) && !is_own && !name.as_bytes()[0].is_ascii_digit() {
            text.push("export ");
            text.push(name);
            text.push("=");
            text.push(quoted(&value));
            text.push("\n");
        }
    }
    text
}

/// Quotes a word for the shell, even if it is not valid UTF-8.
fn quoted(word: &std::ffi::OsStr) -> OsString {
    if let Some(text) = word.to_str() {
        return for_shell(text).into();
    }
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => bytes.extend(b"'\\''"),
            other => bytes.push(*other),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

fn broken(folder: &Path, why: &str) -> Failure {
    Failure::target(format!(
        "--guest {}: {why}. Remove the folder: the next run makes it again",
        folder.display()
    ))
}

/// Runs the script `make-guest`, which creates the guest unless it exists.
fn make(folder: &Path, is_quiet: bool) -> Result<(), Failure> {
    if !is_quiet && !folder.join("stamp").exists() {
        eprintln!("making a virtual machine in {}, which takes a minute", folder.display());
    }
    let said = |why: &str| format!("--guest {}: no guest could be made: {why}", folder.display());
    let failed = |why: &str| Failure::target(said(why));
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::input(said("it is not a folder")));
    }
    let output = Command::new("bash")
        .args(["-c", include_str!("guest/make-guest"), "make-guest"])
        .env("IODYNO_GUEST_INIT", include_str!("guest/init").trim_end())
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|e| failed(&format!("bash: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = clean_lines(String::from_utf8_lossy(&output.stderr).trim()).into_owned();
    Err(if output.status.code() == Some(REFUSED) {
        Failure::input(said(&why))
    } else {
        failed(&why)
    })
}
