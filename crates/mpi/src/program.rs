//! Checks that all ranks execute the same build of the program. Results of two builds can't be combined, and their
//! messages may differ.

use iodyno_ranks::{Lost, Ranks};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Number of blocks, spread over the executable, that are compared between ranks.
const BLOCKS: u64 = 256;
/// Length of a compared block of the executable, bytes.
const BLOCK_BYTES: usize = 4096;

/// Checks that all ranks run the same build. Returns an error message about the first rank that differs from
/// rank 0; `None` if all agree. All ranks must call this.
pub(crate) fn differs(ranks: &Ranks) -> Result<Option<String>, Lost> {
    let all = ranks.all(&fingerprint(env!("CARGO_PKG_VERSION")))?;
    let other = all.iter().position(|program| *program != all[0]);
    Ok(other.map(|rank| {
        format!(
            "rank {rank} on {} executes a different build of iodyno-mpi than rank 0 on {}: install the same file on all hosts",
            ranks.hosts()[rank].name,
            ranks.hosts()[0].name
        )
    }))
}

/// Fingerprint of the executable, equal for the same build. If the executable can't be read, the program's
/// version.
fn fingerprint(version: &str) -> String {
    let of = File::open("/proc/self/exe").and_then(|file| of_file(&file));
    of.map_or_else(|_| version.to_owned(), |hash| format!("{version} {hash:x}"))
}

fn of_file(file: &File) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(bytes);
    let mut block = [0; BLOCK_BYTES];
    for number in 0..BLOCKS {
        let read = file.read_at(&mut block, bytes / BLOCKS * number)?;
        hasher.write(&block[..read]);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn builds_are_told_apart() {
        let of = |len: usize, last: u8| {
            let mut file = tempfile::tempfile().unwrap();
            let mut bytes = vec![7; len];
            bytes[len - 1] = last;
            file.write_all(&bytes).unwrap();
            of_file(&file).unwrap()
        };
        assert_eq!(of(100_000, 7), of(100_000, 7));
        assert_ne!(of(100_000, 7), of(100_001, 7));
        assert_ne!(of(100_000, 7), of(100_000, 8));
        assert!(fingerprint("1").starts_with("1 "), "this program can be read");
    }
}
