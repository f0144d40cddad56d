//! The FUSE protocol: turns requests of the kernel into operations on folders.
//!
//! The kernel may cache names, attributes and pages until it changes them itself, since all changes pass through it.
//! There is neither readahead nor write-back caching: each page is requested when it is first read, and each write
//! arrives when it is made.

use super::directory::Entry;
use super::node::{Folder, NewAttributes};
use super::{NODE_BITS, Shared};
use crate::change::{Made, NodeId};
use crate::tree::{PAGE_BYTES, ROOT};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Lifetime of names and attributes in the kernel's cache: a year, so effectively unlimited.
const FOREVER: Duration = Duration::from_secs(86_400 * 365);
/// Maximum size of one request, bytes.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// File system size that statfs reports, in pages: 1 TiB, all of it free.
const CAPACITY_PAGES: u64 = 1 << 28;
const FILES_MAX: u64 = 1 << 24;

/// The mounted file system; implements the operations that the FUSE library calls.
pub(super) struct Mounted {
    shared: Arc<Shared>,
    since: SystemTime,
    /// For each open directory, its list as of the last read at position 0, so that positions stay valid during
    /// further reads.
    lists: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    last_handle: AtomicU64,
}

impl Mounted {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let since = SystemTime::now();
        Self { shared, since, lists: Mutex::default(), last_handle: AtomicU64::new(0) }
    }

    fn top(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo::ROOT,
            size: 0,
            blocks: 0,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind: FileType::Directory,
            perm: 0o755,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: PAGE_BYTES as u32,
            flags: 0,
        }
    }

    /// Attributes of the top node of the folder with this name.
    fn folder(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        let number = self.shared.number(name.as_bytes()).ok_or(Errno::ENOENT)?;
        self.shared.on(inode(number, ROOT), Folder::attributes)
    }

    /// Entries of a directory, including `.` and `..`.
    fn list(&self, directory: INodeNo) -> Result<Vec<Entry>, Errno> {
        let special =
            |name: &[u8], inode| Entry { inode, kind: FileType::Directory, name: name.to_vec() };
        let mut entries = vec![special(b".", directory), special(b"..", INodeNo::ROOT)];
        if directory == INodeNo::ROOT {
            let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
            entries
                .extend(index.numbers.iter().map(|(n, number)| special(n, inode(*number, ROOT))));
        } else {
            entries.extend(self.shared.on(directory, Folder::list)?);
        }
        Ok(entries)
    }

    /// Creates a node, and remembers the node's owner for folders that are added later.
    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        made: Made,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        let owner = (request.uid(), request.gid());
        self.shared.on(parent, |folder, directory| {
            let found = folder.make(directory, name.as_bytes(), made, mode, owner)?;
            self.remember_owner(folder.recorded_owner(node(found.ino)), node(found.ino));
            Ok(found)
        })
    }

    fn remember_owner(&self, owner: Option<(u32, u32)>, node: NodeId) {
        if let Some(owner) = owner {
            let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.insert(node, owner);
        }
    }
}

fn inode(folder: u32, node: NodeId) -> INodeNo {
    INodeNo(u64::from(folder) << NODE_BITS | node)
}

fn node(inode: INodeNo) -> NodeId {
    inode.0 & ((1 << NODE_BITS) - 1)
}

fn are_in_one_folder(a: INodeNo, b: INodeNo) -> bool {
    a.0 >> NODE_BITS == b.0 >> NODE_BITS
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn answer_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
        Err(e) => reply.error(e),
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without these features works too. Locks, of both kinds, stay with the kernel.
        let wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS;
        let _ = config.add_capabilities(wanted & config.capabilities());
        // In bytes; less than a page turns readahead off.
        let _ = config.set_max_readahead(1);
        if let Err(most) = config.set_max_write(REQUEST_BYTES_MAX) {
            let _ = config.set_max_write(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT {
            return answer_entry(reply, self.folder(name));
        }
        let found = self.shared.on(parent, |folder, node| folder.look_up(node, name.as_bytes()));
        // Inode 0 lets the kernel remember that the name is free.
        let free = || FileAttr { ino: INodeNo(0), ..self.top() };
        answer_entry(reply, found.map(|found| found.unwrap_or_else(free)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if ino == INodeNo::ROOT {
            return reply.attr(&FOREVER, &self.top());
        }
        match self.shared.on(ino, Folder::attributes) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size_bytes: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (accessed, modified) = (accessed.map(time), modified.map(time));
        let new = NewAttributes { mode, user, group, size_bytes, accessed, modified };
        let result = self.shared.on(ino, |folder, node| {
            let found = folder.set_attributes(node, new)?;
            self.remember_owner(folder.recorded_owner(node), node);
            Ok(found)
        });
        match result {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.shared.on(ino, |folder, node| folder.read_link(node)) {
            Ok(path) => reply.data(&path),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        // Sockets, FIFOs and devices are refused.
        if !matches!(mode & libc::S_IFMT, 0 | libc::S_IFREG) {
            return reply.error(Errno::EPERM);
        }
        answer_entry(reply, self.make(request, parent, name, Made::File, mode));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.make(request, parent, name, Made::Directory, mode));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        path: &Path,
        reply: ReplyEntry,
    ) {
        let made = Made::Symlink(path.as_os_str().as_bytes().to_vec());
        answer_entry(reply, self.make(request, parent, name, made, 0o777));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, parent, name, Made::File, mode) {
            Ok(found) => {
                let (handle, flags) = (FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
                reply.created(&FOREVER, &found, Generation(0), handle, flags);
            }
            Err(e) => reply.error(e),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let unlink =
            |folder: &mut Folder, directory| folder.unlink(directory, name.as_bytes(), false);
        answer(reply, self.shared.on(parent, unlink));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let unlink =
            |folder: &mut Folder, directory| folder.unlink(directory, name.as_bytes(), true);
        answer(reply, self.shared.on(parent, unlink));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !are_in_one_folder(parent, new_parent) {
            return reply.error(Errno::EXDEV);
        }
        let result = self.shared.on(parent, |folder, directory| {
            let to = (node(new_parent), new_name.as_bytes());
            folder.rename((directory, name.as_bytes()), to, flags)
        });
        answer(reply, result);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        if !are_in_one_folder(ino, new_parent) {
            return reply.error(Errno::EXDEV);
        }
        let directory = node(new_parent);
        let link = |folder: &mut Folder, node| folder.link(node, directory, new_name.as_bytes());
        answer_entry(reply, self.shared.on(ino, link));
    }

    /// Answers ENOSYS, so that the kernel opens files without asking and keeps their pages.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.shared.on(ino, |folder, node| folder.read(node, offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = self.shared.on(ino, |folder, node| {
            // Without write-back caching, only stores into shared mappings arrive from the page cache.
            if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
                folder.note_mapped(node);
            }
            folder.write(node, offset, data)
        });
        match result {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    /// Answers ENOSYS, so that the kernel stops reporting `close`.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        answer(reply, self.shared.on(ino, |folder, node| folder.sync(node, data_only)));
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        if ino == INodeNo::ROOT {
            return reply.ok();
        }
        answer(reply, self.shared.on(ino, |folder, node| folder.sync(node, data_only)));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.last_handle.fetch_add(1, Relaxed) + 1;
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let lists = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let known = if offset == 0 { None } else { lists().get(&handle.0).map(Arc::clone) };
        let entries = match known.map_or_else(|| self.list(ino).map(Arc::new), Ok) {
            Ok(entries) => entries,
            Err(e) => return reply.error(e),
        };
        for (next, entry) in (1..).zip(entries.iter()).skip(offset as usize) {
            if reply.add(entry.inode, next, entry.kind, OsStr::from_bytes(&entry.name)) {
                break;
            }
        }
        lists().insert(handle.0, entries);
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (pages, files) = (CAPACITY_PAGES, FILES_MAX);
        let size = PAGE_BYTES as u32;
        reply.statfs(pages, pages, pages, files, files, size, 255, size);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocate = |folder: &mut Folder, node| folder.allocate(node, offset, length, mode);
        answer(reply, self.shared.on(ino, allocate));
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
        let result = match (whence, u64::try_from(offset)) {
            (_, Err(_)) => Err(Errno::ENXIO),
            (libc::SEEK_DATA | libc::SEEK_HOLE, Ok(offset)) => {
                let wants_data = whence == libc::SEEK_DATA;
                self.shared.on(ino, |folder, node| folder.seek(node, offset, wants_data))
            }
            _ => Err(Errno::EINVAL),
        };
        match result {
            Ok(position) => reply.offset(position as i64),
            Err(e) => reply.error(e),
        }
    }
}
