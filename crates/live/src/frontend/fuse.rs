//! The FUSE frontend: a folder that contains one file per volume, as large as the volume, and `status.json` with the
//! machine's state. `losetup --direct-io=on` turns a volume's file into a block device, on any kernel.
//!
//! A volume's file behaves like a device. Its size can't change (opening it with truncation has no effect), fsync is a
//! flush, punching a hole is a trim, and the page cache is bypassed. The thread that advances the machine answers the
//! requests, so up to 1024 requests can be in flight. After a power cut, operations on open files fail with EIO until
//! the file is reopened.
//!
//! Each client thread uses a separate worker of the emulated host, as long as there are enough workers.

mod handles;
mod mount_point;

use super::nbd::WORKERS;
use super::pieces::Pieces;
use super::{Served, Waiter};
use crate::served::{Client, Payload, Sink, store_of};
use crate::status::{Status, observe};
use crate::store::UNIT_BYTES;
use fuser::{
    BackgroundSession, Config, Errno as Code, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenAccMode,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use handles::Handles;
use iodyno_units::{IoError, Op, OpKind};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Lifetime of file names and volumes' attributes in the kernel's cache. Neither changes, so the lifetime is a day.
const FOREVER: Duration = Duration::from_secs(86_400);
const STATUS_NAME: &str = "status.json";
/// Inode of the status file. The folder has inode 1, and volumes have inodes from [`FIRST`] on.
const STATUS: u64 = 2;
const FIRST: u64 = 3;
/// Maximum size of one request from the kernel, bytes. [`REQUESTS_MAX`] limits the number of requests in flight.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const REQUESTS_MAX: u16 = 1024;
/// Maximum length of one operation, bytes: longer zeroing and trimming requests are split.
const PIECE_BYTES: u64 = 1 << 30;
/// Maximum number of extents read per step when searching for the next data or hole.
const EXTENTS_MAX: usize = 64;

/// A pending reply to the kernel.
#[derive(Debug)]
pub enum Reply {
    /// Reply to a read, and the data to send.
    Read(ReplyData, Vec<u8>),
    /// Reply to a write, with the number of bytes written.
    Written(ReplyWrite, u32),
    /// Reply without data.
    Done(ReplyEmpty),
    /// Completion of one of the operations into which a request was split.
    Piece(Arc<Pieces>),
}

fn code(error: IoError) -> Code {
    Code::from_i32(error.errno())
}

impl Sink for Reply {
    fn done(self, result: Result<(), IoError>) {
        match (self, result) {
            (Self::Read(reply, bytes), Ok(())) => reply.data(&bytes),
            (Self::Read(reply, _), Err(error)) => reply.error(code(error)),
            (Self::Written(reply, len_bytes), Ok(())) => reply.written(len_bytes),
            (Self::Written(reply, _), Err(error)) => reply.error(code(error)),
            (Self::Done(reply), Ok(())) => reply.ok(),
            (Self::Done(reply), Err(error)) => reply.error(code(error)),
            (Self::Piece(pieces), result) => {
                pieces.done(result);
            }
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        match self {
            Self::Read(_, bytes) => bytes,
            _ => &mut [],
        }
    }
}

/// A mounted folder, unmounted when dropped. After that, processes with an open file in it get errors.
#[derive(Debug)]
pub struct Mounted {
    session: Option<BackgroundSession>,
    folder: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if session.umount_and_join().is_err() {
            // If one of its files is open, this detaches the mount point now; the rest follows when the file is closed.
            let folder = self.folder.as_os_str();
            let lazily = |program: &str, flags: &[&str]| {
                let done = Command::new(program).args(flags).arg(folder).output();
                done.is_ok_and(|output| output.status.success())
            };
            let _ = lazily("umount", &["-l"]) || lazily("fusermount3", &["-u", "-z"]);
        }
    }
}

/// Mounts a FUSE file system on a folder, with one file per volume, named as in `names`.
///
/// # Errors
/// Mounting fails: the folder does not exist, a server has mounted something on it, the kernel lacks FUSE, or
/// `fusermount3` is missing for a user other than root.
pub fn mount(
    live: &Arc<Served>,
    names: &[String],
    folder: &Path,
    read_only: bool,
) -> io::Result<Mounted> {
    mount_point::check(folder)?;
    let mut config = Config::default();
    let access = if read_only { MountOption::RO } else { MountOption::RW };
    config.mount_options = vec![
        MountOption::FSName("iodyno".to_owned()),
        MountOption::Subtype("iodyno".to_owned()),
        MountOption::NoAtime,
        access,
    ];
    let files = Files {
        live: Arc::clone(live),
        names: names.to_vec(),
        since: SystemTime::now(),
        owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        read_only,
        open: Handles::default(),
    };
    let session = fuser::spawn_mount(files, folder, &config)?;
    Ok(Mounted { session: Some(session), folder: folder.to_owned() })
}

/// The FUSE file system of the mounted folder: answers requests of the kernel.
struct Files {
    live: Arc<Served>,
    names: Vec<String>,
    since: SystemTime,
    owner: (u32, u32),
    read_only: bool,
    open: Handles,
}

impl Files {
    /// Number of the volume with this inode; `None` if the inode is the folder or the status file.
    fn volume(&self, ino: INodeNo) -> Option<u32> {
        let number = ino.0.checked_sub(FIRST)?;
        (number < self.names.len() as u64).then_some(number as u32)
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let volume = self.volume(ino);
        let (kind, perm, size) = match (ino, volume) {
            (INodeNo::ROOT, _) => (FileType::Directory, 0o500, 0),
            (INodeNo(STATUS), _) => (FileType::RegularFile, 0o400, self.status().len() as u64),
            (_, Some(volume)) => {
                let perm = if self.read_only { 0o400 } else { 0o600 };
                (FileType::RegularFile, perm, self.live.size_bytes(volume))
            }
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm,
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            flags: 0,
            blksize: UNIT_BYTES as u32,
        })
    }

    /// Lifetime of an inode's attributes in the kernel's cache. Attributes of volumes never change. Attributes of the
    /// status file must not be cached.
    fn lifetime(&self, ino: INodeNo) -> Duration {
        if self.volume(ino).is_some() { FOREVER } else { Duration::ZERO }
    }

    fn status(&self) -> String {
        format!("{:#}\n", Status::Model(observe(&self.live)).to_json())
    }

    fn start(
        &self,
        from: &Request,
        handle: FileHandle,
        volume: u32,
        op: &Op,
        payload: Payload<'_>,
        reply: Reply,
    ) {
        let worker = volume * WORKERS + from.pid() % WORKERS;
        let attached = self.open.get(handle);
        let client = Client { attached: attached.as_deref(), waited_ns: 0 };
        self.live.submit_of(client, worker, volume, op, payload, Waiter::Fuse(reply));
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without these features works too.
        let wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS;
        let _ = config.add_capabilities(wanted & config.capabilities());
        if let Err(most) = config.set_max_write(REQUEST_BYTES_MAX) {
            let _ = config.set_max_write(most);
        }
        let _ = config.set_max_background(REQUESTS_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let place = self.names.iter().position(|n| OsStr::new(n) == name);
        let ino = match place {
            Some(place) => INodeNo(FIRST + place as u64),
            None if name == STATUS_NAME => INodeNo(STATUS),
            None => return reply.error(Code::ENOENT),
        };
        match self.attributes(ino) {
            Some(attributes) if parent == INodeNo::ROOT => {
                reply.entry(&self.lifetime(ino), &attributes, Generation(0));
            }
            _ => reply.error(Code::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&self.lifetime(ino), &attributes),
            None => reply.error(Code::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(attributes) = self.attributes(ino) else { return reply.error(Code::ENOENT) };
        match size {
            // Devices ignore truncation when they are opened with O_TRUNC.
            None | Some(0) => reply.attr(&self.lifetime(ino), &attributes),
            Some(size) if size == attributes.size => reply.attr(&self.lifetime(ino), &attributes),
            Some(_) => reply.error(Code::EINVAL),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        if self.volume(ino).is_none() && writes {
            return reply.error(Code::EACCES);
        }
        if self.read_only && writes {
            return reply.error(Code::EROFS);
        }
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        let attached = self.volume(ino).map(|volume| self.live.attach(volume, None));
        reply.opened(attached.map_or(FileHandle(0), |attached| self.open.add(attached)), flags);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.remove(handle);
        reply.ok();
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(volume) = self.volume(ino) else {
            let status = self.status();
            let start = (offset as usize).min(status.len());
            let end = (start + size as usize).min(status.len());
            return reply.data(&status.as_bytes()[start..end]);
        };
        let left = self.live.size_bytes(volume).saturating_sub(offset);
        let len_bytes = u64::from(size).min(left) as u32;
        if len_bytes == 0 {
            return reply.data(&[]);
        }
        let op = Op { offset_bytes: offset, len_bytes, kind: OpKind::Read, fua: false };
        let reply = Reply::Read(reply, vec![0; len_bytes as usize]);
        self.start(request, handle, volume, &op, Payload::ReadIntoSink, reply);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(volume) = self.volume(ino) else { return reply.error(Code::EACCES) };
        let left = self.live.size_bytes(volume).saturating_sub(offset);
        let len_bytes = (data.len() as u64).min(left) as u32;
        match len_bytes {
            0 if data.is_empty() => reply.written(0),
            // Devices report writes beyond their end like this.
            0 => reply.error(Code::ENOSPC),
            _ => {
                let op = Op { offset_bytes: offset, len_bytes, kind: OpKind::Write, fua: false };
                let payload = Payload::Write(&data[..len_bytes as usize]);
                let reply = Reply::Written(reply, len_bytes);
                self.start(request, handle, volume, &op, payload, reply);
            }
        }
    }

    /// Called for each `close` of a file descriptor. A no-op, as on a block device.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, from: &Request, ino: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.volume(ino) {
            Some(volume) => {
                let reply = Reply::Done(reply);
                self.start(from, handle, volume, &Op::FLUSH, Payload::None, reply);
            }
            None => reply.ok(),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};
        let Some(volume) = self.volume(ino) else { return reply.error(Code::EACCES) };
        let capacity = self.live.size_bytes(volume);
        if offset.checked_add(length).is_none_or(|end| end > capacity) {
            return reply.error(Code::ENOSPC);
        }
        let whole = offset.is_multiple_of(UNIT_BYTES) && length.is_multiple_of(UNIT_BYTES);
        let mode = mode & !FALLOC_FL_KEEP_SIZE;
        if mode & !FALLOC_FL_ZERO_RANGE == 0 && !self.live.has_space(volume, offset, length) {
            return reply.error(Code::ENOSPC);
        }
        let kind = match mode {
            // A punched hole must read as zeroes; a trim guarantees that for whole units.
            FALLOC_FL_PUNCH_HOLE if whole => OpKind::Trim,
            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE => OpKind::WriteZeroes,
            // Reserves nothing: if the volume becomes full, writes to unallocated space fail.
            0 => return reply.ok(),
            _ => return reply.error(Code::EOPNOTSUPP),
        };
        let pieces = Arc::new(Pieces::new(|result| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(code(error)),
        }));
        let mut at = offset;
        while at < offset + length {
            let len_bytes = (offset + length - at).min(PIECE_BYTES) as u32;
            let op = Op { offset_bytes: at, len_bytes, kind, fua: false };
            let piece = Reply::Piece(Arc::clone(&pieces));
            self.start(request, handle, volume, &op, Payload::None, piece);
            at += u64::from(len_bytes);
        }
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Some(volume) = self.volume(ino) else { return reply.error(Code::EINVAL) };
        let wants_data = match whence {
            libc::SEEK_DATA => true,
            libc::SEEK_HOLE => false,
            _ => return reply.error(Code::EINVAL),
        };
        let end = self.live.size_bytes(volume);
        let Some(mut at) = u64::try_from(offset).ok().filter(|&at| at < end) else {
            return reply.error(Code::ENXIO);
        };
        while at < end {
            let extents =
                self.live.look(|machine, stores, _| match store_of(machine, stores, volume) {
                    Some(store) => store.extents(at, end - at, EXTENTS_MAX).unwrap_or_default(),
                    None => Vec::new(),
                });
            if extents.is_empty() {
                break;
            }
            for extent in extents {
                if extent.data == wants_data {
                    return reply.offset(at as i64);
                }
                at += extent.len_bytes;
            }
        }
        // A file ends with an implicit hole after the last data.
        if wants_data { reply.error(Code::ENXIO) } else { reply.offset(end as i64) }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Code::ENOTDIR);
        }
        let folders = [(1, FileType::Directory, "."), (1, FileType::Directory, "..")];
        let status = [(STATUS, FileType::RegularFile, STATUS_NAME)];
        let volumes = (FIRST..).zip(&self.names);
        let volumes = volumes.map(|(ino, name)| (ino, FileType::RegularFile, name.as_str()));
        let all = folders.into_iter().chain(status).chain(volumes);
        for (next, (ino, kind, name)) in (1..).zip(all).skip(offset as usize) {
            if reply.add(INodeNo(ino), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
