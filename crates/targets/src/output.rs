//! Files that iodyno writes besides targets: reports, pictures, records, manual pages.
//!
//! An [`Output`] is checked before the work begins, and written afterwards. The bytes go to a temporary file in the
//! same folder, which is renamed once complete. A failure therefore leaves no new file and keeps the old one. The
//! folder is held open between check and writing, so that it can't be exchanged.
//!
//! An output must be a regular file. All outputs are text, so an existing file is replaced only if it is text; an
//! image, a notebook or an archive is kept. Symbolic links are followed, except another user's link in a shared folder.
//!
//! Pipes, terminals and `/dev/null` can lose nothing, so they are written directly. Opening a pipe without a reader
//! fails at once.
//!
//! A file created here ([`NewFile`]) is removed only if its name still leads to the same file.

mod shared_folders;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, RenameFlags, accessat, fchmod, fstat, fsync, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::error::TargetError;
use crate::error::errno_of;
use shared_folders::{check_owner, open_folder, resolve};

/// Bytes at the start of an existing file that are checked to be text before it is replaced.
const TEXT_BYTES: u64 = 64 << 10;
/// Maximum number of attempts to find an unused name for a temporary file.
const TRIES: u32 = 100;

/// An open folder in which files can be created.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder in which this user may create files.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] for a path that is not such a folder, [`TargetError::NotFound`],
    /// [`TargetError::Io`].
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let failed = |errno| bad_path("make files in it", path, errno);
        let fd = open_folder(&resolve(path)?).map_err(failed)?;
        accessat(&fd, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(failed)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Like [`Self::open`], but creates the folder and its parents if missing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn make(path: &Path) -> Result<Self, TargetError> {
        std::fs::create_dir_all(resolve(path)?)
            .map_err(|error| bad_path("make this folder", path, errno_of(&error)))?;
        Self::open(path)
    }

    /// Checks that a file in this folder can be written as an output. `name` must not contain a slash.
    ///
    /// # Errors
    /// As [`Output::at`].
    pub fn output(&self, name: &str) -> Result<Output, TargetError> {
        let failed = |error: io::Error| {
            TargetError::from_errno("make files in it", &self.path, errno_of(&error))
        };
        let fd = self.fd.try_clone().map_err(failed)?;
        Output::within(Self { fd, path: self.path.clone() }, OsString::from(name))
    }
}

/// Destination of an output file, checked to be writable.
#[derive(Debug)]
pub struct Output {
    shown: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A folder and the name of a file in it.
    Name(Folder, OsString),
    /// A pipe, a terminal or `/dev/null`, already open.
    Stream(File),
}

impl Output {
    /// Checks that an output file can be written at this path, without creating or changing anything.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] for a folder, a device, a socket, a pipe without a reader, and an existing file
    /// that is not text, and a path that this user can't write; [`TargetError::NotFound`] if the folder does not
    /// exist, [`TargetError::Io`].
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        let failed = |errno| bad_path("write to it", path, errno);
        match rustix::fs::stat(path) {
            Err(Errno::NOENT) => {
                if path.symlink_metadata().is_ok() {
                    return Err(bad(path, "it is a symbolic link to a file that does not exist"));
                }
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                    return Err(bad(path, "the path does not end with a file name"));
                };
                Self::within(Folder::open(parent)?, name.to_owned())
            }
            Err(errno) => Err(failed(errno)),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    let real = resolve(path)?;
                    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
                        return Err(bad(path, "the path does not end with a file name"));
                    };
                    let mut output = Self::within(Folder::open(parent)?, name.to_owned())?;
                    path.clone_into(&mut output.shown);
                    Ok(output)
                }
                kind => Self::stream(path, kind),
            },
        }
    }

    fn within(folder: Folder, name: OsString) -> Result<Self, TargetError> {
        let shown = match folder.path.as_os_str() {
            here if here == "." => PathBuf::from(&name),
            _ => folder.path.join(&name),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&folder.fd, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            Err(Errno::LOOP) => return Err(bad(&shown, "it is a symbolic link")),
            Err(errno) => return Err(bad_path("replace it", &shown, errno)),
            Ok(fd) => {
                let failed = |errno| TargetError::from_errno("inspect it", &shown, errno);
                check_owner(&folder.fd, &fstat(&fd).map_err(failed)?, &shown)?;
                check_text(fd, &shown)?;
            }
        }
        Ok(Self { shown, place: Place::Name(folder, name) })
    }

    /// Opens an output that is not a regular file but is safe to write: a pipe, a terminal or `/dev/null`.
    fn stream(path: &Path, kind: FileType) -> Result<Self, TargetError> {
        let what = match kind {
            FileType::Directory => "it is a directory",
            FileType::BlockDevice => "it is a block device, and its content would be overwritten",
            FileType::Socket => "it is a socket",
            _ => "",
        };
        if !what.is_empty() {
            return Err(bad(path, what));
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) => return Err(bad(path, "it is a pipe without a reader")),
            result => result.map_err(|e| bad_path("write to it", path, e))?,
        };
        let failed = |errno| TargetError::from_errno("inspect it", path, errno);
        // Use the descriptor: the name may lead elsewhere by now.
        let stat = fstat(&fd).map_err(failed)?;
        let real = resolve(path)?;
        if let Some(folder) = real.parent().and_then(|parent| open_folder(parent).ok()) {
            check_owner(folder, &stat, path)?;
        }
        let is_null = rustix::fs::major(stat.st_rdev) == 1 && rustix::fs::minor(stat.st_rdev) == 3;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => {}
            FileType::CharacterDevice if is_null || fd.is_terminal() => {}
            _ => return Err(bad(path, "it is a device, but the output must be a file or a pipe")),
        }
        // Block if the reader is slow.
        let now = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
        rustix::fs::fcntl_setfl(&fd, now - OFlags::NONBLOCK).map_err(failed)?;
        Ok(Self { shown: path.to_owned(), place: Place::Stream(File::from(fd)) })
    }

    /// Path of the output, as the user gave it.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Writes the whole file or nothing.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] if another file has taken the name since the check, [`TargetError::Io`] if
    /// writing fails.
    pub fn write(self, bytes: &[u8]) -> Result<(), TargetError> {
        let shown = self.shown.clone();
        let failed =
            |error: &io::Error| TargetError::from_errno("write to it", &shown, errno_of(error));
        let (folder, name) = match self.place {
            Place::Stream(mut file) => {
                return match file.write_all(bytes) {
                    // The reader may have closed the pipe early, like `head`.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    result => result.map_err(|e| failed(&e)),
                };
            }
            Place::Name(folder, name) => (folder, name),
        };
        // Repeat the check at the time of writing.
        Self::within(
            Folder {
                fd: folder.fd.try_clone().map_err(|e| failed(&e))?,
                path: folder.path.clone(),
            },
            name.clone(),
        )?;
        let former = statat(&folder.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let temporary = NewFile::beside(&folder, &name).map_err(|errno| {
            TargetError::from_errno("make a temporary file in its folder", &shown, errno)
        })?;
        let wrote = (|| {
            (&temporary.file).write_all(bytes)?;
            if let Some(former) = former {
                // Keep the mode of the replaced file; ignore a failure.
                let _ = fchmod(&temporary.file, Mode::from_raw_mode(former.st_mode & 0o777));
            }
            fsync(&temporary.file)?;
            renameat(&folder.fd, &temporary.name, &folder.fd, &name)?;
            Ok(())
        })();
        match wrote {
            Ok(()) => {
                temporary.keep();
                Ok(())
            }
            Err(error) => {
                temporary.remove();
                Err(failed(&error))
            }
        }
    }
}

fn bad(path: &Path, problem: &str) -> TargetError {
    TargetError::BadOutput {
        path: path.display().to_string(),
        problem: problem.to_owned(),
        help: "name a new file, or a text file that may be replaced.".to_owned(),
    }
}

/// Error of a check of an output's path: [`TargetError::BadOutput`] if the path can't be used, otherwise the system's
/// failure.
fn bad_path(op: &str, path: &Path, errno: Errno) -> TargetError {
    match errno {
        Errno::EXIST
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::ROFS
        | Errno::ACCESS
        | Errno::PERM => TargetError::BadOutput {
            path: path.display().to_string(),
            problem: format!("could not {op}: {}", io::Error::from(errno)),
            help: "choose another path, or run as a user who may write there.".to_owned(),
        },
        _ => TargetError::from_errno(op, path, errno),
    }
}

/// Fails if the file to be replaced is not a regular text file.
fn check_text(fd: OwnedFd, shown: &Path) -> Result<(), TargetError> {
    let failed = |error: io::Error| TargetError::from_errno("look at it", shown, errno_of(&error));
    let file = File::from(fd);
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(bad(shown, "it is not a regular file"));
    }
    let mut start = Vec::new();
    file.take(TEXT_BYTES).read_to_end(&mut start).map_err(failed)?;
    if start.contains(&0) {
        return Err(bad(
            shown,
            "it already exists and is not a text file, so iodyno does not replace it",
        ));
    }
    Ok(())
}

/// A newly created file, removed on drop unless it is kept.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: OwnedFd,
    name: OsString,
    is_kept: bool,
}

impl NewFile {
    /// Creates a file, readable and writable as the umask allows. It is removed on drop unless [`Self::keep`] is
    /// called.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] if the name exists, and the errors of [`Folder::open`].
    pub fn create(path: &Path) -> Result<Self, TargetError> {
        let Some(name) = path.file_name() else {
            return Err(bad(path, "the path does not end with a file name"));
        };
        let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
        match Self::within(folder.fd, name.to_owned(), Mode::from_raw_mode(0o666)) {
            Err(Errno::EXIST) => Err(TargetError::BadOutput {
                path: path.display().to_string(),
                problem: "it already exists".to_owned(),
                help: "remove it, or choose another name.".to_owned(),
            }),
            result => result.map_err(|errno| bad_path("make it", path, errno)),
        }
    }

    fn within(folder: OwnedFd, name: OsString, mode: Mode) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, &name, flags, mode)?);
        Ok(Self { file, folder, name, is_kept: false })
    }

    /// Creates a temporary file in the folder where an output will be written.
    fn beside(folder: &Folder, name: &OsString) -> Result<Self, Errno> {
        let mut tried = 0;
        loop {
            let mut temporary = OsString::from(".");
            // Leave room for the suffix within the 255 bytes of a name.
            let short: String = name.to_string_lossy().chars().take(50).collect();
            temporary.push(format!("{short}.{}-{tried}.iodyno", std::process::id()));
            let fd = folder.fd.try_clone().map_err(|error| errno_of(&error))?;
            match Self::within(fd, temporary, Mode::from_raw_mode(0o666)) {
                Err(Errno::EXIST) if tried < TRIES => tried += 1,
                result => return result,
            }
        }
    }

    /// Duplicates the descriptor of the new file, for writing.
    ///
    /// # Errors
    /// The system's error if no descriptor is available.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Keeps the file instead of removing it on drop.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    fn remove(self) {
        drop(self);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = remove_same(&self.folder, &self.name, &self.file);
        }
    }
}

/// Removes a name from a folder if it leads to the open file `file`. Returns false if it leads elsewhere or
/// nowhere.
///
/// Another program could replace the file between check and removal. The name is therefore first moved aside,
/// checked again, and put back if it leads to another file.
pub(crate) fn remove_same(
    folder: impl AsFd,
    name: impl rustix::path::Arg + Copy,
    file: impl AsFd,
) -> Result<bool, Errno> {
    let own = fstat(&file)?;
    let leads_to_it = |name: &Path| {
        statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino))
    };
    let name = name.into_c_str()?;
    let name = Path::new(std::ffi::OsStr::new(name.to_str().map_err(|_| Errno::INVAL)?));
    if !leads_to_it(name) {
        return Ok(false);
    }
    let aside = PathBuf::from(format!(".iodyno-removed-{}-{}", std::process::id(), own.st_ino));
    match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        // Some file systems lack this rename; the gap between check and removal remains.
        Err(_) => return unlinkat(&folder, name, AtFlags::empty()).map(|()| true),
    }
    if leads_to_it(&aside) {
        return unlinkat(&folder, &aside, AtFlags::empty()).map(|()| true);
    }
    // If the name was taken again, the file keeps the other name: nothing is lost.
    renameat_with(&folder, &aside, &folder, name, RenameFlags::NOREPLACE).map(|()| false)
}

/// Like [`remove_same`], but for a path.
pub(crate) fn remove_same_path(path: &Path, file: impl AsFd) -> Result<bool, Errno> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    remove_same(&folder, path.file_name().ok_or(Errno::INVAL)?, file)
}

/// Removes a file that this process created, if the path leads to a regular file that is empty or begins with
/// `beginning`.
pub fn remove_begun(path: &Path, beginning: &[u8]) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let file = File::from(fd);
    let mut found = Vec::new();
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let read = (&file).take(beginning.len() as u64).read_to_end(&mut found);
    // An empty file was created but could not be written.
    if is_file && read.is_ok() && (found.is_empty() || found == beginning) {
        let _ = remove_same_path(path, &file);
    }
}

/// Checks, before SQLite opens a notebook, that its path leads to a regular file or to no file. Does not check the
/// file's content. Returns the path, with symbolic links resolved if the file exists.
///
/// # Errors
/// [`TargetError::BadOutput`] if the path leads to anything else, or to another user's file in a shared folder.
pub fn notebook_path(path: &Path) -> Result<PathBuf, TargetError> {
    let refuse = |what: &str| {
        Err(TargetError::BadOutput {
            path: path.display().to_string(),
            problem: format!("it is {what}, but a notebook must be a regular file"),
            help: "name another file with --notebook.".to_owned(),
        })
    };
    let failed = |errno| TargetError::from_errno("inspect it", path, errno);
    match rustix::fs::stat(path) {
        Err(Errno::NOENT) if path.symlink_metadata().is_ok() => {
            refuse("a symbolic link to a file that does not exist")
        }
        Err(Errno::NOENT | Errno::NOTDIR) => resolve(path).map(|_| path.to_owned()),
        Err(errno) => Err(failed(errno)),
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let real = resolve(path)?;
                let parent = real.parent().unwrap_or(Path::new("/"));
                check_owner(open_folder(parent).map_err(failed)?, &stat, path)?;
                Ok(real)
            }
            FileType::Directory => refuse("a directory"),
            FileType::BlockDevice => refuse("a block device"),
            FileType::CharacterDevice => refuse("a character device"),
            FileType::Fifo => refuse("a pipe"),
            _ => refuse("a socket"),
        },
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
