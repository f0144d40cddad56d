//! File format of a recorded run: JSON lines. The first line has the format and version. The next lines create the
//! folder's initial content, the others are the events in order.

use crate::change::{Change, Made};
use crate::history::{Event, History};
use crate::tree::{Kind, ROOT, Tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum size of a file that is read, bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 30;
const FORMAT: &str = "iodyno-crashtest";
/// Version that is written. Version 2 added [`Event::Allocated`], version 3 [`Event::Mapped`].
const VERSION: u32 = 3;
const VERSIONS_READ: std::ops::RangeInclusive<u32> = 1..=VERSION;

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    /// Number of changes at the beginning of the file that create the folder's initial content.
    start: usize,
}

/// Formats a run as the text of a recording file.
#[must_use]
pub fn to_text(history: &History) -> String {
    let start = changes_of(&history.start);
    let head = Head { format: FORMAT.to_owned(), version: VERSION, start: start.len() };
    let mut text = serde_json::to_string(&head).unwrap_or_default();
    let events = start.into_iter().map(Event::Change).chain(history.events.iter().cloned());
    for event in events {
        text.push('\n');
        text.push_str(&serde_json::to_string(&event).unwrap_or_default());
    }
    text.push('\n');
    text
}

/// Parses the text of a recording file.
///
/// # Errors
///
/// The text is not a recording, or a line can't be read; the message names the line.
pub fn of_text(text: &str) -> Result<History, String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let head: Head = serde_json::from_str(head)
        .map_err(|_| "not a file that `crashtest --record` wrote".to_owned())?;
    if head.format != FORMAT || !VERSIONS_READ.contains(&head.version) {
        return Err(format!(
            "has format {} {}, but this version reads {FORMAT} 1 to {VERSION}",
            iodyno_units::text::clean(&head.format),
            head.version
        ));
    }
    let mut history = History::default();
    for (number, line) in lines.enumerate() {
        let wrong = |why: String| format!("line {}: {why}", number + 2);
        let event: Event = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        if let Event::Change(Change::Write { offset, data, .. }) = &event
            && offset.checked_add(data.len() as u64).is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(wrong("the write ends past the largest offset".to_owned()));
        }
        match (event, number < head.start) {
            (Event::Change(change), true) => history.start.apply(&change),
            (_, true) => {
                return Err(wrong("each line of the initial folder must be a change".to_owned()));
            }
            (event, false) => history.events.push(event),
        }
    }
    Ok(history)
}

fn changes_of(tree: &Tree) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut known = BTreeSet::from([ROOT]);
    let mut open = vec![ROOT];
    while let Some(directory) = open.pop() {
        let Some(Kind::Directory(names)) = tree.node(directory).map(|node| &node.kind) else {
            continue;
        };
        for (name, number) in names {
            let (name, number) = (name.clone(), *number);
            let Some(node) = tree.node(number) else { continue };
            if !known.insert(number) {
                changes.push(Change::Link { directory, name, node: number });
                continue;
            }
            let made = match &node.kind {
                Kind::File { .. } => Made::File,
                Kind::Directory(_) => Made::Directory,
                Kind::Symlink(path) => Made::Symlink(path.clone()),
            };
            changes.push(Change::Make { directory, name, node: number, made, mode: node.mode });
            match &node.kind {
                Kind::File { size_bytes, pages } => {
                    let write = |(page, content): (&u64, &Arc<crate::tree::Page>)| Change::Write {
                        node: number,
                        offset: page * crate::tree::PAGE_BYTES as u64,
                        data: Arc::from(content.bytes().as_slice()),
                    };
                    changes.extend(pages.iter().map(write));
                    changes.push(Change::Resize { node: number, size_bytes: *size_bytes });
                }
                Kind::Directory(_) => open.push(number),
                Kind::Symlink(_) => {}
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_reads_as_it_was_written() {
        let name = |name: &[u8]| name.to_vec();
        let make = |node, made, text: &[u8]| Change::Make {
            directory: ROOT,
            name: name(text),
            node,
            mode: if matches!(made, Made::Symlink(_)) { 0o777 } else { 0o640 },
            made,
        };
        let mut start = Tree::default();
        let changes = [
            make(2, Made::File, b"a"),
            make(3, Made::Directory, b"d"),
            make(4, Made::Symlink(name(b"a")), b"s\xff"),
            Change::Link { directory: 3, name: name(b"b"), node: 2 },
            Change::Write { node: 2, offset: 5000, data: Arc::from(vec![7; 5000]) },
        ];
        for change in &changes {
            start.apply(change);
        }
        let rename = Change::Rename {
            from: (ROOT, name(b"a")),
            to: (3, name(b"c")),
            node: 2,
            replaced: None,
            exchange: false,
        };
        let mut events: Vec<Event> =
            changes.into_iter().chain([rename]).map(Event::Change).collect();
        events.extend([
            Event::Change(Change::Zero { node: 2, offset: 1, len_bytes: 2 }),
            Event::Allocated { node: 2, offset: 4096, len_bytes: 8192 },
            Event::Mapped { node: 2 },
            Event::Change(Change::Mode { node: 2, mode: 0o600 }),
            Event::Change(Change::Remove { directory: 3, name: name(b"c"), node: 2 }),
            Event::Sync { node: 2, data_only: true },
            Event::SyncFailed { node: 3 },
            Event::SyncAll,
            Event::Output(b"done\n".to_vec()),
        ]);
        let history = History { start, events };
        let text = to_text(&history);
        let again = of_text(&text).unwrap();
        assert!(again.events == history.events);
        assert_eq!(again.start.content_hash(), history.start.content_hash());
        assert_eq!(again.start.read(2, 0, 10_000), history.start.read(2, 0, 10_000));
        for (version, is_readable) in [(1, true), (2, true), (VERSION + 1, false)] {
            let other = text.replacen(
                &format!("\"version\":{VERSION}"),
                &format!("\"version\":{version}"),
                1,
            );
            assert_ne!(other, text);
            assert_eq!(of_text(&other).is_ok(), is_readable, "version {version}");
        }
        assert!(of_text("{}").unwrap_err().contains("--record"));
        let torn = &text[..text.len() - 20];
        let last = text.lines().count();
        assert!(of_text(torn).unwrap_err().starts_with(&format!("line {last}:")));
    }
}
