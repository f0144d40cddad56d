//! Reads files named by the user or by another file: regular files and pipes, up to a size limit. Reading fails on a
//! pipe that no program writes, because it might wait forever. It also fails on most devices, whose content might never
//! end.

use core::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use iodyno_units::human;
use rustix::fs::{FileType, Mode, OFlags};

/// Maximum time to wait for another program to open a pipe for writing.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Reason why an input file was not read. Its `Display` text continues a sentence that begins with the path.
#[derive(Debug)]
pub enum InputError {
    /// The operating system failed to open or read the file.
    Io(io::Error),
    /// The path is not a file or pipe. The field says what the path is, such as `a folder`.
    Kind(&'static str),
    /// The path is a pipe that no program opened for writing.
    NoWriter,
    /// The file is larger than this limit, in bytes.
    TooLarge(u64),
    /// The file is not UTF-8 text.
    NotText {
        /// Offset of the first invalid byte in the file.
        byte: usize,
        /// Line of the first invalid byte, counted from 1.
        line: usize,
    },
}

impl InputError {
    /// Whether the error means that the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) if self.is_missing() => f.write_str("there is no such file"),
            Self::Io(error) => write!(f, "the file can't be read: {error}"),
            Self::Kind(what) => write!(f, "this is {what}, not a file"),
            Self::NoWriter => {
                write!(f, "this is a pipe, and no data arrived for {} s", WRITER_TIMEOUT.as_secs())
            }
            Self::TooLarge(most) => {
                write!(f, "the file is larger than the limit of {}", human::size(*most))
            }
            Self::NotText { byte, line } => write!(
                f,
                "the file is not UTF-8 text: byte {byte} (line {line}) is not the start of a valid character"
            ),
        }
    }
}

impl core::error::Error for InputError {}

impl From<rustix::io::Errno> for InputError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// An open input file or pipe, which can be read once from start to end.
#[derive(Debug)]
pub struct Input {
    /// First bytes, which were read while waiting for a writer of a pipe.
    begun: io::Cursor<Vec<u8>>,
    file: File,
    is_regular: bool,
}

impl Input {
    /// Opens a regular file, a pipe, a terminal or `/dev/null` for reading.
    ///
    /// # Errors
    /// Any [`InputError`] except [`InputError::TooLarge`] and [`InputError::NotText`].
    pub fn open(path: &Path) -> Result<Self, InputError> {
        // Opening a pipe must not block, and opening a device must not affect it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // Opening some devices has side effects, or fails with a misleading reason.
        check_kind(FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode))?;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        check_kind(kind)?;
        let is_null = rustix::fs::major(stat.st_rdev) == 1 && rustix::fs::minor(stat.st_rdev) == 3;
        if kind == FileType::CharacterDevice && !is_null && !file.is_terminal() {
            return Err(InputError::Kind("a device"));
        }
        let begun = if kind == FileType::Fifo { wait_for_writer(&file)? } else { Vec::new() };
        rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        let is_regular = kind == FileType::RegularFile;
        Ok(Self { begun: io::Cursor::new(begun), file, is_regular })
    }

    /// Whether the input is a regular file, which can be opened and read again.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.begun.read(into)? {
            0 => self.file.read(into),
            count => Ok(count),
        }
    }
}

fn check_kind(kind: FileType) -> Result<(), InputError> {
    Err(InputError::Kind(match kind {
        FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Socket => "a socket",
        _ => "a device",
    }))
}

/// Waits until another program opens the pipe for writing. Returns the bytes read while waiting. Waiting for data
/// has no limit, since the writer may ask for a password first.
fn wait_for_writer(mut pipe: &File) -> Result<Vec<u8>, InputError> {
    let until = Instant::now() + WRITER_TIMEOUT;
    let mut byte = [0];
    loop {
        match pipe.read(&mut byte) {
            Ok(0) if Instant::now() >= until => return Err(InputError::NoWriter),
            Ok(0) => sleep(BETWEEN_TRIES),
            Ok(_) => return Ok(byte.to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(InputError::Io(error)),
        }
    }
}

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
/// See [`InputError`].
pub fn read_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let read = Input::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(InputError::Io)?;
    if bytes.len() as u64 > bytes_max {
        return Err(InputError::TooLarge(bytes_max));
    }
    Ok(bytes)
}

/// Reads a UTF-8 file of at most `bytes_max` bytes.
///
/// # Errors
/// See [`InputError`].
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, InputError> {
    String::from_utf8(read_bytes(path, bytes_max)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..byte].split(|&byte| byte == b'\n').count();
        InputError::NotText { byte, line }
    })
}

/// Like [`read_text`], but rejects pipes. For files that are read more than once.
///
/// # Errors
/// See [`InputError`].
pub fn read_regular_text(path: &Path, bytes_max: u64) -> Result<String, InputError> {
    if FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode) == FileType::Fifo {
        return Err(InputError::Kind("a pipe"));
    }
    read_text(path, bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    #[test]
    fn what_is_read_and_what_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let why = |path: &Path| read_text(path, 8).unwrap_err().to_string();
        fs::write(at("whole"), "12345678").unwrap();
        assert_eq!(read_text(&at("whole"), 8).unwrap(), "12345678");
        fs::write(at("larger"), "123456789").unwrap();
        assert!(why(&at("larger")).contains("larger than the limit of 8"));
        fs::write(at("binary"), b"a\nb\xFF").unwrap();
        assert!(why(&at("binary")).contains("byte 3 (line 2)"));
        assert!(why(&at("none")).contains("no such file"));
        assert!(why(dir.path()).contains("a folder"));
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(why(&at("socket")).contains("a socket"));
        for device in ["/dev/zero", "/dev/full", "/dev/urandom"] {
            assert!(why(Path::new(device)).contains("a device"), "{device}");
        }
        assert_eq!(read_text(Path::new("/dev/null"), 8).unwrap(), "");
    }

    /// A pipe is read if a program writes to it, however late; otherwise reading fails.
    #[test]
    fn a_pipe_needs_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut pipe = fs::OpenOptions::new().write(true).open(path).unwrap();
                sleep(Duration::from_millis(30));
                pipe.write_all(b"late").unwrap();
                sleep(Duration::from_millis(30));
                pipe.write_all(b" words").unwrap();
            })
        };
        assert_eq!(read_text(&path, 100).unwrap(), "late words");
        writer.join().unwrap();
        assert!(matches!(Input::open(&path), Err(InputError::NoWriter)));
        assert!(matches!(read_regular_text(&path, 8), Err(InputError::Kind("a pipe"))));
    }
}
