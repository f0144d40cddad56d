//! Identity of a file on a network or cluster file system, comparable across hosts. Hosts may mount the file system at
//! different places, and know its server under different names.

use super::file_system::FileSystem;
use super::{Inspection, Kind};
use crate::sysroot::{DevNo, SysRoot};
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// File systems that several hosts can mount simultaneously, by the kernel's names. Names of FUSE file
/// systems begin with `fuse.`.
const OF_SEVERAL_HOSTS: [&str; 23] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "virtiofs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "afs",
    "kafs",
    "coda",
    "orangefs",
    "pvfs2",
    "panfs",
    "wekafs",
    "gfs2",
    "ocfs2",
    "vboxsf",
    "daos",
    "glusterfs",
    "quobyte",
];
/// File systems of [`OF_SEVERAL_HOSTS`] on a shared block device. The device's name may differ between hosts.
const ON_SHARED_DEVICES: [&str; 2] = ["gfs2", "ocfs2"];

impl FileSystem {
    /// True if another host may have mounted the same file system.
    fn is_of_several_hosts(&self) -> bool {
        OF_SEVERAL_HOSTS.contains(&self.fs_type.as_str()) || self.is_fuse()
    }

    fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }
}

impl Inspection {
    /// Location of the target's file. For an existing file: its path, and `None`. For a file yet to be created: the
    /// path of its folder, and the file's name. `None` for a target without a path.
    pub fn place(&self) -> Option<(&Path, Option<&str>)> {
        let path = Path::new(self.canonical_path.as_ref().or(self.path.as_ref())?);
        if self.exists {
            return Some((path, None));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some((folder.unwrap_or(Path::new(".")), Some(path.file_name()?.to_str()?)))
    }
}

/// Identity of a file as one host sees it, on a file system that several hosts can mount. If the file is yet to be
/// created, the identity of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAcrossHosts {
    fs_type: String,
    /// File system id from the server or the volume, the same on all hosts; `None` if this host generated it.
    fs_id: Option<String>,
    /// Mounted source, such as a server's path; `None` for FUSE, whose programs report arbitrary names.
    source: Option<String>,
    inode: u64,
    size_bytes: u64,
    /// Time of the inode's last change (ctime), ns.
    changed_ns: i128,
    /// Creation time of the inode, ns; `None` if the file system does not record it.
    created_ns: Option<i128>,
    /// Name of a file yet to be created; `None` for an existing file.
    new: Option<String>,
}

impl FileAcrossHosts {
    /// Reads the identity of the target's file. `None` if no other host can see the file.
    pub fn of(root: &SysRoot, inspection: &Inspection) -> Option<Self> {
        let file_system = inspection.file_system.as_ref().filter(|fs| fs.is_of_several_hosts())?;
        if inspection.kind != Kind::File {
            return None;
        }
        let (at, new) = inspection.place()?;
        let meta = std::fs::metadata(at).ok()?;
        let is_on_device = ON_SHARED_DEVICES.contains(&file_system.fs_type.as_str());
        let source = if is_on_device {
            inspection.device.as_ref().and_then(|device| device.lasting_id.clone())
        } else {
            file_system.source.clone().filter(|_| !file_system.is_fuse())
        };
        let created = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Some(Self {
            fs_id: fs_id(root, at, &meta, &file_system.fs_type),
            fs_type: file_system.fs_type.clone(),
            source,
            new: new.map(str::to_owned),
            inode: meta.ino(),
            size_bytes: meta.size(),
            changed_ns: i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec()),
            created_ns: created.map(|since| since.as_nanos() as i128),
        })
    }

    /// True if two hosts see the same file. Inode numbers alone are not unique across file systems, so one of
    /// these must also agree: mounted source, creation time, or size and change time (in ns).
    pub fn is_same_as(&self, other: &Self) -> bool {
        let family = |file: &Self| match file.fs_type.as_str() {
            "nfs4" => "nfs".to_owned(),
            "smb3" => "cifs".to_owned(),
            own => own.to_owned(),
        };
        if (family(self), self.inode, &self.new) != (family(other), other.inode, &other.new) {
            return false;
        }
        // Each protocol version has its own form of ids.
        let differ = self.fs_type == other.fs_type
            && self.fs_id.is_some()
            && other.fs_id.is_some()
            && self.fs_id != other.fs_id;
        if differ {
            return false;
        }
        let same_source = self.source.is_some() && self.source == other.source;
        let same_birth = self.created_ns.is_some() && self.created_ns == other.created_ns;
        let same_change =
            (self.size_bytes, self.changed_ns) == (other.size_bytes, other.changed_ns);
        same_source || same_birth || same_change
    }
}

/// Reads the file system's id, if all hosts see the same one.
fn fs_id(root: &SysRoot, at: &Path, meta: &Metadata, fs_type: &str) -> Option<String> {
    let dev = DevNo::from_packed(meta.dev());
    if fs_type.starts_with("nfs") {
        return nfs_id(&root.read("proc/fs/nfsfs/volumes")?, dev);
    }
    let id = statvfs(at).ok()?.f_fsid;
    // Without an id of the file system's own, the kernel makes one from the device number.
    let own = (u64::from(dev.minor) & 0xff)
        | (u64::from(dev.major) << 8)
        | ((u64::from(dev.minor) & !0xff) << 12);
    (id != 0 && id != own).then(|| format!("{id:x}"))
}

/// The server's id of the NFS file system with device number `dev`, from `/proc/fs/nfsfs/volumes`.
fn nfs_id(volumes: &str, dev: DevNo) -> Option<String> {
    let of_line = |line: &str| {
        let mut fields = line.split_whitespace().skip(3);
        (fields.next()?.parse::<DevNo>().ok()? == dev).then(|| fields.next().map(str::to_owned))?
    };
    // The root of an NFSv4 server's name space has no id of its own.
    volumes.lines().find_map(of_line).filter(|id| id != "0:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> FileAcrossHosts {
        FileAcrossHosts {
            fs_type: "nfs4".to_owned(),
            fs_id: Some("7b1:0".to_owned()),
            source: Some("server:/export".to_owned()),
            inode: 77,
            size_bytes: 4096,
            changed_ns: 1_700_000_000_123_456_789,
            created_ns: None,
            new: None,
        }
    }

    #[test]
    fn one_file_is_recognised_by_other_names_of_its_server() {
        let by_address = FileAcrossHosts { source: Some("10.0.0.7:/export".to_owned()), ..file() };
        assert!(file().is_same_as(&by_address) && by_address.is_same_as(&file()));
        // A client may show older times for a while, but then the name counts.
        let stale = FileAcrossHosts { changed_ns: 1, ..file() };
        assert!(file().is_same_as(&stale));
        assert!(!by_address.is_same_as(&stale), "nothing but the inode agrees");
        // Each protocol version has its own ids.
        let by_v3 = FileAcrossHosts {
            fs_type: "nfs".to_owned(),
            fs_id: Some("9:0".to_owned()),
            ..by_address.clone()
        };
        assert!(file().is_same_as(&by_v3));
        let born =
            |ns| FileAcrossHosts { created_ns: Some(ns), changed_ns: ns, ..by_address.clone() };
        let later = FileAcrossHosts { changed_ns: 9, source: None, ..born(5) };
        assert!(
            born(5).is_same_as(&later),
            "the equal creation time shows that it is the same file, changed since"
        );
    }

    #[test]
    fn other_files_are_not_taken_for_it() {
        let others = [
            FileAcrossHosts { inode: 78, ..file() },
            // A clone of the file system on the same server: all else may be equal.
            FileAcrossHosts { fs_id: Some("7b2:0".to_owned()), ..file() },
            FileAcrossHosts { new: Some("f".to_owned()), ..file() },
            FileAcrossHosts { fs_type: "ceph".to_owned(), ..file() },
            FileAcrossHosts { source: None, changed_ns: 0, ..file() },
        ];
        for other in others {
            assert!(!file().is_same_as(&other) && !other.is_same_as(&file()), "{other:?}");
        }
    }

    /// Parses `/proc/fs/nfsfs/volumes` in the format of Linux 6.1.
    #[test]
    fn the_servers_id_is_read_from_the_list_of_volumes() {
        let volumes = "NV SERVER   PORT DEV          FSID                              FSC\n\
            v4 0a4d000a  801 0:45         5f2e4a1c9d3b7a60:8b1c2d3e4f5a6b7c no \n\
            v4 0a4d000a  801 0:46         0:0                               no \n\
            v3 0a4d000b  801 0:300        7b1:0                             no \n";
        let of = |major, minor| nfs_id(volumes, DevNo { major, minor });
        assert_eq!(of(0, 45).as_deref(), Some("5f2e4a1c9d3b7a60:8b1c2d3e4f5a6b7c"));
        assert_eq!(of(0, 300).as_deref(), Some("7b1:0"));
        assert_eq!((of(0, 46), of(0, 47)), (None, None));
    }

    #[test]
    fn only_file_systems_of_several_hosts_count() {
        let of = |fs_type: &str| {
            let mount = crate::inspect::mounts::Mount {
                id: 1,
                dev: DevNo { major: 0, minor: 45 },
                point: "/x".to_owned(),
                options: "rw".to_owned(),
                fs_type: fs_type.to_owned(),
                source: "x".to_owned(),
                super_options: "rw".to_owned(),
            };
            super::super::file_system::of_mount(&SysRoot::real(), mount).is_of_several_hosts()
        };
        for fs_type in ["nfs4", "lustre", "ceph", "fuse.glusterfs", "gfs2", "9p"] {
            assert!(of(fs_type), "{fs_type}");
        }
        // These have no device either, and their source reads the same on every host.
        for fs_type in ["overlay", "zfs", "btrfs", "tmpfs", "ext4", "fuseblk"] {
            assert!(!of(fs_type), "{fs_type}");
        }
    }
}
