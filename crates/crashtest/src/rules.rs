//! Rules by which file systems make effects durable.
//!
//! Each set is a model with a documented origin, not the file system itself. A finding under a set is a claim about
//! the set; a guest with the real file system confirms it.

/// What a file system promises about effects that were not yet made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Name in the command line and in output.
    pub name: &'static str,
    /// One line for the reader of a result.
    pub about: &'static str,
    /// Whether names, permissions, truncations and punched holes survive in their order, as in a journal.
    pub metadata_in_order: bool,
    /// How much of the journal an fsync makes durable.
    pub commit: Commit,
    /// Whether a file's new size survives only with the data up to it.
    pub size_follows_data: bool,
    /// Whether renaming a file over another writes the file's data first.
    pub replace_flushes: bool,
    /// Unit in which data survive whole, in bytes: a longer write can be torn at its multiples.
    pub atomic_bytes: u32,
}

/// Names that become durable with an fsync of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Names in a directory by an fsync of that directory alone, as in POSIX.
    Directory,
    /// The names of the file itself and of the directories above it, by a log for each fsync (btrfs).
    OwnNames,
    /// All metadata that precede a change of the file, since they share a journal (ext4, XFS).
    Journal,
}

const PAGE: u32 = 4096;

/// All sets. The first is the default.
pub const ALL: [Rules; 5] = [
    Rules {
        name: "ext4",
        about: "ext4 with data=ordered and delayed allocation: the journal keeps the order of names, a file grows with \
                its data, a rename over a file writes the new file's data first",
        metadata_in_order: true,
        commit: Commit::Journal,
        size_follows_data: true,
        replace_flushes: true,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "ext4-writeback",
        about: "ext4 with data=writeback: the journal keeps the order of names, and a file may grow before its data are \
                written",
        metadata_in_order: true,
        commit: Commit::Journal,
        size_follows_data: false,
        replace_flushes: false,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "xfs",
        about: "XFS: the log keeps the order of names, a file grows with its data, a rename waits for no data",
        metadata_in_order: true,
        commit: Commit::Journal,
        size_follows_data: true,
        replace_flushes: false,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "btrfs",
        about: "btrfs: an fsync makes the file and its own names durable, other names follow in order with the next \
                transaction, a file grows with its data",
        metadata_in_order: true,
        commit: Commit::OwnNames,
        size_follows_data: true,
        replace_flushes: true,
        atomic_bytes: PAGE,
    },
    Rules {
        name: "worst",
        about: "the least that POSIX allows: without an fsync every effect survives or is lost by itself, names need an \
                fsync of their directory, writes are torn at 512 bytes",
        metadata_in_order: false,
        commit: Commit::Directory,
        size_follows_data: false,
        replace_flushes: false,
        atomic_bytes: 512,
    },
];

impl Rules {
    /// The set with this name; `None`: unknown.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|rules| rules.name == name)
    }
}
