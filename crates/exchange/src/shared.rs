//! Notes, warnings and helper functions shared by the converters of all job formats.

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Note added to jobs that open files with `O_SYNC` or `O_DSYNC`.
pub(crate) const DURABLE: &str =
    "each write is durable when it completes (RWF_DSYNC, FUA), as with O_DSYNC";

/// Warning added to jobs that read.
pub(crate) const UNWRITTEN: &str = "reads of blocks that were never written might not reach the medium: write the target first, or give --fill";

/// Finds the entry of a workload key in a table. `path` may point into the key's value: `write.block[0].size`
/// finds the entry of `block`.
pub(crate) fn of_key<'t, T>(table: &'t [(&str, T)], path: &str) -> Option<&'t T> {
    let is_of_index = |c: char| c.is_ascii_digit() || matches!(c, '[' | ']');
    let path = format!(".{}.", path.replace(is_of_index, ""));
    table.iter().find(|(key, _)| path.contains(&format!(".{key}."))).map(|(_, entry)| entry)
}

/// Makes a description of a workload from a text: at most 100 characters, with control characters replaced by
/// `_`.
pub(crate) fn about(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '_' } else { c }).take(100).collect()
}

/// Makes a job name from a text: at most 100 characters, with control characters and commas replaced by `_`.
pub(crate) fn name(text: &str) -> String {
    about(text).replace(',', "_")
}

#[cfg(test)]
mod tests {
    use super::of_key;

    #[test]
    fn a_path_belongs_to_its_key() {
        let table = [("block", 1), ("arrivals.think_after", 2), ("arrivals.think_after_time", 3)];
        for (path, entry) in [
            ("block", Some(1)),
            ("write.block[12].size", Some(1)),
            ("arrivals.think_after", Some(2)),
            ("arrivals.think_after_time", Some(3)),
            ("arrivals.think_time", None),
            ("limits.blocks", None),
        ] {
            assert_eq!(of_key(&table, path).copied(), entry, "{path}");
        }
    }
}
