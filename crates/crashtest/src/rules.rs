//! Rules by which file systems make changes durable.
//!
//! Each set of rules is a model with a documented origin, not the file system itself. A finding is a claim about the
//! model; a test on the real file system, in a virtual machine, can confirm it.

/// Guarantees of a file system about changes that are not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Name of the set in the command line and in output, such as `ext4`.
    pub name: &'static str,
    /// One-line description of the set, shown with a result.
    pub about: &'static str,
    /// Whether changes of names, permissions and sizes, and punched holes, become durable in order, as in a journal.
    pub metadata_in_order: bool,
    /// Names that an fsync makes durable.
    pub commit: Commit,
    /// Writes that keep a file's size consistent with its data: a power cut can't leave the new size without the
    /// written data.
    pub growth_with_data: Growth,
    /// Part of a file (size, data) that is guaranteed to survive if its rename over another file survives.
    pub replace: Replace,
    /// Unit of atomic writes, bytes. A longer write can be torn at multiples of it.
    pub atomic_bytes: u32,
}

/// Writes that extend a file and after which a power cut can't leave the new size without the written data. After other
/// writes it can, and the data then reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// No writes: after a power cut, a file can have its new size without the data.
    Never,
    /// Writes that extend the file into a new block. If a write only extends the file within its last block, ext4 sets
    /// the size at once, provided that the block is allocated. Otherwise, it sets the size when it allocates the
    /// block, with all data of the block up to then.
    NewBlocks,
    /// All writes.
    Always,
}

/// Part of a file (size, data) that is guaranteed to survive if its rename over another file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Neither size nor data: the new name may refer to an empty file.
    Nothing,
    /// The file's size: the rename allocates the blocks, but does not wait for the data, which may read as zeros.
    Size,
    /// The file's size and data.
    Data,
}

/// Names that become durable with an fsync of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Names in a directory, by an fsync of that directory only, as in POSIX.
    Directory,
    /// The names of the file and of its parent directories. Each fsync writes them to a log (btrfs).
    OwnNames,
    /// All metadata up to the file's last metadata change, because all metadata share a journal (ext4, XFS).
    Journal,
}

const PAGE: u32 = 4096;

/// All rule sets: `ext4` (the default), `ext4-writeback`, `xfs`, `btrfs` and `worst`.
pub const ALL: [Rules; 5] = [
    Rules {
        name: "ext4",
        about: "ext4 with data=ordered and delayed allocation: the journal keeps metadata in order, a file grows into \
                new blocks only once their data is written, and a rename over a file first writes data whose blocks are not allocated yet",
        metadata_in_order: true,
        commit: Commit::Journal,
        growth_with_data: Growth::NewBlocks,
        replace: Replace::Data,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "ext4-writeback",
        about: "ext4 with data=writeback: the journal keeps metadata in order, and a file may grow before its data is written",
        metadata_in_order: true,
        commit: Commit::Journal,
        growth_with_data: Growth::Never,
        replace: Replace::Size,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "xfs",
        about: "XFS: the log keeps metadata in order, a file grows only once its data is written, and a rename does not wait for data",
        metadata_in_order: true,
        commit: Commit::Journal,
        growth_with_data: Growth::Always,
        replace: Replace::Nothing,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "btrfs",
        about: "btrfs: an fsync makes only the file and its names durable, other metadata follows in order with the \
                next transaction, and a file grows only once its data is written",
        metadata_in_order: true,
        commit: Commit::OwnNames,
        growth_with_data: Growth::Always,
        replace: Replace::Nothing,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "worst",
        about: "the least that POSIX guarantees: without an fsync any effect can be lost independently, names need an \
                fsync of their directory, and writes are torn at 512 bytes",
        metadata_in_order: false,
        commit: Commit::Directory,
        growth_with_data: Growth::Never,
        replace: Replace::Nothing,
        atomic_bytes: 512,
    },
];

impl Rules {
    /// Finds the set of rules with this name; `None` if unknown.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|rules| rules.name == name)
    }
}
