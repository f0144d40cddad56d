//! Files that iodyno writes beside targets: reports, pictures, records, manual pages.
//!
//! An [`Output`] is checked before the work that it is for begins, and written after it. The output is a
//! regular file: never a device, and never a file of another kind that has the name. The bytes go to a
//! temporary file in the same folder, which takes the name once it is whole: a failure leaves no file and keeps
//! the former one. The folder is held open, so that the check applies to the folder that is written. An
//! existing file is replaced only if it is text, as all outputs are: an image, a notebook or an archive under
//! that name is kept. Symbolic links are followed to the file that they name, which is checked; not those of other
//! users in a folder that others may write to.
//!
//! Pipes, terminals and `/dev/null` have nothing to lose and are written as they are; a pipe that
//! nothing reads is an error, not a wait.
//!
//! A file that was created through a descriptor ([`NewFile`]) is removed through it: only while the name still
//! leads to that very file.

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

/// How much of an existing file is read to see whether it is text.
const TEXT_BYTES: u64 = 64 << 10;
/// How many names are tried for a temporary file.
const TRIES: u32 = 100;

/// A folder that files can be created in, held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder in which this user may make files.
    ///
    /// # Errors
    /// [`TargetError::NotFound`], [`TargetError::Permission`], [`TargetError::Io`].
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let failed = |errno| TargetError::from_errno("make files in it", path, errno);
        let fd = open_folder(&resolve(path)?).map_err(failed)?;
        accessat(&fd, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(failed)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// As [`Self::open`]; creates the folder, and those above it, where there is none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn make(path: &Path) -> Result<Self, TargetError> {
        std::fs::create_dir_all(resolve(path)?)
            .map_err(|error| TargetError::from_errno("make this folder", path, errno_of(&error)))?;
        Self::open(path)
    }

    /// A file in this folder; the name has no slash.
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

/// The checked destination of an output.
#[derive(Debug)]
pub struct Output {
    shown: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A name in a folder.
    Name(Folder, OsString),
    /// A pipe, a terminal or `/dev/null`, open.
    Stream(File),
}

impl Output {
    /// Checks that a file can be written at a path. Nothing is created or changed.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] for a folder, a device, a socket, a pipe that nothing reads, and an existing
    /// file that holds something else than text; [`TargetError::NotFound`] where there is no such folder,
    /// [`TargetError::Permission`], [`TargetError::Io`].
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        let failed = |errno| TargetError::from_errno("write to it", path, errno);
        match rustix::fs::stat(path) {
            Err(Errno::NOENT) => {
                if path.symlink_metadata().is_ok() {
                    return Err(bad(path, "it is a symbolic link to a file that is not there"));
                }
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                    return Err(bad(path, "it names no file"));
                };
                Self::within(Folder::open(parent)?, name.to_owned())
            }
            Err(errno) => Err(failed(errno)),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    let real = resolve(path)?;
                    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
                        return Err(bad(path, "it names no file"));
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
            Err(errno) => return Err(TargetError::from_errno("replace it", &shown, errno)),
            Ok(fd) => {
                let failed = |errno| TargetError::from_errno("inspect it", &shown, errno);
                check_owner(&folder.fd, &fstat(&fd).map_err(failed)?, &shown)?;
                check_text(fd, &shown)?;
            }
        }
        Ok(Self { shown, place: Place::Name(folder, name) })
    }

    /// An output that is no regular file, but can be written without harm.
    fn stream(path: &Path, kind: FileType) -> Result<Self, TargetError> {
        let what = match kind {
            FileType::Directory => "it is a directory",
            FileType::BlockDevice => "it is a block device, and what it holds would be overwritten",
            FileType::Socket => "it is a socket",
            _ => "",
        };
        if !what.is_empty() {
            return Err(bad(path, what));
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) => return Err(bad(path, "it is a pipe that nothing reads")),
            result => result.map_err(|e| TargetError::from_errno("write to it", path, e))?,
        };
        let failed = |errno| TargetError::from_errno("inspect it", path, errno);
        // By the descriptor: the name may lead to something else by now.
        let stat = fstat(&fd).map_err(failed)?;
        let real = resolve(path)?;
        if let Some(folder) = real.parent().and_then(|parent| open_folder(parent).ok()) {
            check_owner(folder, &stat, path)?;
        }
        let is_null = rustix::fs::major(stat.st_rdev) == 1 && rustix::fs::minor(stat.st_rdev) == 3;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => {}
            FileType::CharacterDevice if is_null || fd.is_terminal() => {}
            _ => return Err(bad(path, "it is a device, and only files and pipes are written to")),
        }
        // A slow reader is waited for.
        let now = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
        rustix::fs::fcntl_setfl(&fd, now - OFlags::NONBLOCK).map_err(failed)?;
        Ok(Self { shown: path.to_owned(), place: Place::Stream(File::from(fd)) })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Writes the file: all of it, or nothing.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] where something else took the name since the check,
    /// [`TargetError::Io`] where the system can't write.
    pub fn write(self, bytes: &[u8]) -> Result<(), TargetError> {
        let shown = self.shown.clone();
        let failed =
            |error: &io::Error| TargetError::from_errno("write to it", &shown, errno_of(error));
        let (folder, name) = match self.place {
            Place::Stream(mut file) => {
                return match file.write_all(bytes) {
                    // The reader may have seen enough.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    result => result.map_err(|e| failed(&e)),
                };
            }
            Place::Name(folder, name) => (folder, name),
        };
        // The check again, at the time of writing.
        Self::within(
            Folder {
                fd: folder.fd.try_clone().map_err(|e| failed(&e))?,
                path: folder.path.clone(),
            },
            name.clone(),
        )?;
        let former = statat(&folder.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let temporary = NewFile::beside(&folder, &name)
            .map_err(|errno| TargetError::from_errno("make a file beside it", &shown, errno))?;
        let wrote = (|| {
            (&temporary.file).write_all(bytes)?;
            if let Some(former) = former {
                // The mode of the file that it replaces. A failure to set it is ignored.
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
        help: "name a file that is not there yet, or a text file that may be replaced.".to_owned(),
    }
}

/// A file that is replaced must be regular, and text.
fn check_text(fd: OwnedFd, shown: &Path) -> Result<(), TargetError> {
    let failed = |error: io::Error| TargetError::from_errno("look at it", shown, errno_of(&error));
    let file = File::from(fd);
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(bad(shown, "it is not a regular file"));
    }
    let mut start = Vec::new();
    file.take(TEXT_BYTES).read_to_end(&mut start).map_err(failed)?;
    if start.contains(&0) {
        return Err(bad(shown, "it is there already and is not a text file, so it is kept"));
    }
    Ok(())
}

/// A file that was just created under a name that nothing had.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: OwnedFd,
    name: OsString,
    is_kept: bool,
}

impl NewFile {
    /// Creates a file, readable and writable according to the umask. Until [`Self::keep`] it is removed when it
    /// is dropped.
    ///
    /// # Errors
    /// [`TargetError::BadOutput`] where something has the name, and those of [`Folder::open`].
    pub fn create(path: &Path) -> Result<Self, TargetError> {
        let Some(name) = path.file_name() else { return Err(bad(path, "it names no file")) };
        let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
        match Self::within(folder.fd, name.to_owned(), Mode::from_raw_mode(0o666)) {
            Err(Errno::EXIST) => Err(TargetError::BadOutput {
                path: path.display().to_string(),
                problem: "it is there already".to_owned(),
                help: "remove it, or choose another name.".to_owned(),
            }),
            result => result.map_err(|errno| TargetError::from_errno("make it", path, errno)),
        }
    }

    fn within(folder: OwnedFd, name: OsString, mode: Mode) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, &name, flags, mode)?);
        Ok(Self { file, folder, name, is_kept: false })
    }

    /// A temporary file in the folder of an output.
    fn beside(folder: &Folder, name: &OsString) -> Result<Self, Errno> {
        let mut tried = 0;
        loop {
            let mut temporary = OsString::from(".");
            // Space for the suffix, within the 255 bytes that a name may have.
            let short: String = name.to_string_lossy().chars().take(50).collect();
            temporary.push(format!("{short}.{}-{tried}.iodyno", std::process::id()));
            let fd = folder.fd.try_clone().map_err(|error| errno_of(&error))?;
            match Self::within(fd, temporary, Mode::from_raw_mode(0o666)) {
                Err(Errno::EXIST) if tried < TRIES => tried += 1,
                result => return result,
            }
        }
    }

    /// The file, for writing.
    ///
    /// # Errors
    /// The system's, out of descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// It stays from now on.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    /// Removes it.
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

/// Removes a name from a folder if it leads to this very file, and leaves any other file that has the name.
/// False: another one has it, or none.
///
/// Between check and removal another program could put its file there. So the name is first moved aside,
/// checked again, and put back if it is not the file.
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
        // Some file systems can't; there, nothing is between the check and this.
        Err(_) => return unlinkat(&folder, name, AtFlags::empty()).map(|()| true),
    }
    if leads_to_it(&aside) {
        return unlinkat(&folder, &aside, AtFlags::empty()).map(|()| true);
    }
    // If the name was taken once more, the file stays under the other name: nothing is lost.
    renameat_with(&folder, &aside, &folder, name, RenameFlags::NOREPLACE).map(|()| false)
}

/// As [`remove_same`], by a path.
pub(crate) fn remove_same_path(path: &Path, file: impl AsFd) -> Result<bool, Errno> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    remove_same(&folder, path.file_name().ok_or(Errno::INVAL)?, file)
}

/// Removes a file that this process created under a path, if a regular file is still there that begins so.
pub fn remove_begun(path: &Path, beginning: &[u8]) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let file = File::from(fd);
    let mut found = Vec::new();
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let read = (&file).take(beginning.len() as u64).read_to_end(&mut found);
    // An empty one was created and could not be written.
    if is_file && read.is_ok() && (found.is_empty() || found == beginning) {
        let _ = remove_same_path(path, &file);
    }
}

/// Checks that a notebook can be at a path, before SQLite opens it: nothing is there yet, or a regular file,
/// perhaps through a symbolic link. Gives the path without links. The notebook checks the file's bytes.
///
/// # Errors
/// [`TargetError::BadOutput`] for everything else.
pub fn notebook_path(path: &Path) -> Result<PathBuf, TargetError> {
    let refuse = |what: &str| {
        Err(TargetError::BadOutput {
            path: path.display().to_string(),
            problem: format!("it is {what}, and a notebook is a regular file"),
            help: "name another file with --notebook.".to_owned(),
        })
    };
    let failed = |errno| TargetError::from_errno("inspect it", path, errno);
    match rustix::fs::stat(path) {
        Err(Errno::NOENT) if path.symlink_metadata().is_ok() => {
            refuse("a symbolic link to a file that is not there")
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
