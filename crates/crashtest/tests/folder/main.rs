//! Folders of a mounted file system. The tests need `/dev/fuse`, and root or `fusermount3`.

mod model;
mod program;

use iodyno_crashtest::{Access, Change, Event, Folders, Item, Made, NodeId, ROOT, Tree, Watch};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A mounted file system on a temporary directory.
struct Fixture {
    folders: Folders,
    _at: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let at = tempfile::tempdir().unwrap();
        Self { folders: Folders::mount(at.path()).unwrap(), _at: at }
    }

    /// Adds an empty recording folder. Returns its path.
    fn recording(&self) -> PathBuf {
        self.folders.add("recorded", Tree::default(), true, None)
    }

    /// Removes the recording folder, and checks that its events turn an empty tree into the folder's content. Returns
    /// the tree and the events.
    fn replayed(&self) -> (Tree, Vec<Event>) {
        let events = self.folders.take_events("recorded");
        let tree = self.folders.remove("recorded").unwrap();
        let mut replayed = Tree::default();
        for event in &events {
            if let Event::Change(change) = event {
                replayed.apply(change);
            }
        }
        assert_eq!(replayed.content_hash(), tree.content_hash(), "events do not lead to the tree");
        (tree, events)
    }
}

fn python(folder: &Path, script: &str) -> String {
    let output = Command::new("python3").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn content(tree: &Tree, name: &str) -> Vec<u8> {
    tree.read(tree.lookup(ROOT, name.as_bytes()).unwrap(), 0, usize::MAX >> 1)
}

fn make(name: &str, node: NodeId) -> Event {
    let (name, made) = (name.into(), Made::File);
    Event::Change(Change::Make { directory: ROOT, name, node, made, mode: 0o640 })
}

fn write(node: NodeId, offset: u64, data: &[u8]) -> Event {
    Event::Change(Change::Write { node, offset, data: data.into() })
}

fn sync(node: NodeId) -> Event {
    Event::Sync { node, data_only: false }
}

fn created(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(path).unwrap()
}

#[test]
fn operations_become_events_in_order() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let file = created(&folder.join("a"));
    file.write_all_at(b"one", 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(b"two", 5000).unwrap();
    file.sync_all().unwrap();
    File::open(&folder).unwrap().sync_all().unwrap();
    fixture.folders.note("recorded", Event::Output(b"promise".to_vec()));
    let mut through = OpenOptions::new();
    let through = through.append(true).custom_flags(libc::O_DSYNC).open(folder.join("a")).unwrap();
    (&through).write_all(b"end").unwrap();
    fs::rename(folder.join("a"), folder.join("b")).unwrap();
    file.set_len(4).unwrap();
    fs::remove_file(folder.join("b")).unwrap();
    file.write_all_at(b"gone", 0).unwrap();
    let (tree, events) = fixture.replayed();
    assert_eq!(tree.lookup(ROOT, b"b"), None);
    let name = |name: &str| (ROOT, name.into());
    let expected = [
        make("a", 2),
        write(2, 0, b"one"),
        Event::Sync { node: 2, data_only: true },
        write(2, 5000, b"two"),
        sync(2),
        sync(ROOT),
        Event::Output(b"promise".to_vec()),
        write(2, 5003, b"end"),
        Event::Sync { node: 2, data_only: true },
        Event::Change(Change::Rename {
            from: name("a"),
            to: name("b"),
            node: 2,
            replaced: None,
            exchange: false,
        }),
        Event::Change(Change::Resize { node: 2, size_bytes: 4 }),
        Event::Change(Change::Remove { directory: ROOT, name: "b".into(), node: 2 }),
        write(2, 0, b"gone"),
    ];
    assert_eq!(events, expected);
}

#[test]
fn stores_into_a_mapping_arrive_by_msync_and_at_the_end() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let script = "
import mmap, os
f = os.open('m', os.O_RDWR | os.O_CREAT, 0o640)
os.ftruncate(f, 20000)
m = mmap.mmap(f, 20000)
m[100:103] = b'abc'
m[8192:8195] = b'def'
m.flush()
os.write(1, m[100:103])
os.pwrite(f, b'direct', 4096)
assert m[4096:4102] == b'direct'
m[19999:20000] = b'z'
private = mmap.mmap(f, 20000, flags=mmap.MAP_PRIVATE)
private[0:4] = b'mine'
assert os.pread(f, 3, 0) == bytes(3)
m.close()
private.close()
assert os.pread(f, 1, 19999) == b'z'
";
    assert_eq!(python(&folder, script), "abc");
    let (tree, events) = fixture.replayed();
    let bytes = content(&tree, "m");
    let mut expected = vec![0; 20_000];
    for (at, data) in [(100, b"abc".as_slice()), (8192, b"def"), (4096, b"direct"), (19_999, b"z")]
    {
        expected[at..at + data.len()].copy_from_slice(data);
    }
    assert!(bytes == expected);
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted).unwrap();
    let store = |start: u64| move |event: &Event| matches!(event, Event::Change(Change::Write { offset, .. }) if *offset == start);
    let synced = at(&|event| matches!(event, Event::Sync { .. }));
    assert!(at(&store(0)) < synced && at(&store(8192)) < synced && synced < at(&store(4096)));
    assert!(at(&store(4096)) < at(&store(16_384)), "{events:?}");
    let is_mapped = |event: &Event| matches!(event, Event::Mapped { .. });
    let mapped: Vec<&Event> = events.iter().filter(|event| is_mapped(event)).collect();
    assert_eq!(mapped, [&Event::Mapped { node: 2 }], "once");
    assert!(at(&is_mapped) < at(&store(0)));
}

#[test]
fn sqlite_works_in_each_journal_mode() {
    let fixture = Fixture::new();
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let folder = fixture.recording();
        let script = format!(
            "
import sqlite3
a = sqlite3.connect('d.db', isolation_level=None)
assert a.execute('PRAGMA journal_mode={mode}').fetchone()[0] == '{mode}'.lower()
a.execute('CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)')
b = sqlite3.connect('d.db', isolation_level=None)
for i in range(50):
    c = (a, b)[i % 2]
    c.execute('BEGIN')
    c.execute('INSERT INTO t VALUES(?, randomblob(3000))', (i,))
    c.execute('ROLLBACK' if i % 10 == 9 else 'COMMIT')
assert b.execute('PRAGMA integrity_check').fetchone()[0] == 'ok'
print(a.execute('SELECT count(*) FROM t').fetchone()[0])
"
        );
        assert_eq!(python(&folder, &script).trim(), "45", "{mode}");
        let shell = Command::new("sqlite3")
            .args(["d.db", "PRAGMA integrity_check; SELECT count(*) FROM t;"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&shell.stdout), "ok\n45\n", "{mode}");
        let (tree, _) = fixture.replayed();
        // The content is the same in another folder.
        let other = fixture.folders.add("other", tree.clone(), false, None);
        let script = "
import sqlite3
a = sqlite3.connect('d.db')
print(a.execute('PRAGMA integrity_check').fetchone()[0], a.execute('SELECT count(*) FROM t').fetchone()[0])
";
        assert_eq!(python(&other, script).trim(), "ok 45", "{mode}");
        assert!(fixture.folders.remove("other").is_some());
    }
}

/// Observer that records its calls, and sets the size of each file when the size is first read.
struct Recorder(Arc<Mutex<Vec<(Item, Access)>>>);

impl Watch for Recorder {
    fn before(&mut self, tree: &mut Tree, item: &Item, access: Access) {
        if let Item::Size(node) = item {
            tree.grow(*node, 5000);
        }
        self.0.lock().unwrap().push((item.clone(), access));
    }
}

#[test]
fn a_watcher_is_called_before_each_use_and_decides_what_is_there() {
    let mut tree = Tree::default();
    let file = Made::File;
    tree.apply(&Change::Make {
        directory: ROOT,
        name: b"a".to_vec(),
        node: 2,
        made: file,
        mode: 0o640,
    });
    tree.put(2, 0, &[7; 8000]);
    let calls = Arc::new(Mutex::default());
    let fixture = Fixture::new();
    let watch = Box::new(Recorder(Arc::clone(&calls)));
    let folder = fixture.folders.add("watched", tree, false, Some(watch));
    let taken = || std::mem::take(&mut *calls.lock().unwrap());
    let name = |name: &str| Item::Name { directory: ROOT, name: name.into() };
    let page = |number| Item::Page { node: 2, number };
    let pages_from = |number| Item::PagesFrom { node: 2, number };
    let (read, overwrite) = (Access::Read, Access::Overwrite);
    let (size, mode) = ((Item::Size(2), read), (Item::Mode(2), read));

    let mut opened = OpenOptions::new();
    let file = opened.read(true).write(true).open(folder.join("a")).unwrap();
    assert_eq!(taken(), [(Item::Mode(ROOT), read), (name("a"), read), size.clone(), mode.clone()]);
    let mut bytes = Vec::new();
    (&file).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7; 5000]);
    let seen: Vec<_> = taken().into_iter().filter(|(item, _)| *item != Item::Size(2)).collect();
    assert_eq!(seen, [(page(0), read), (page(1), read)]);
    file.read_exact_at(&mut bytes[..100], 4000).unwrap();
    assert_eq!(taken(), [], "the kernel keeps pages");

    // A whole page, and the visible part of the last one; then a part.
    file.write_all_at(&[1; 5000], 0).unwrap();
    assert_eq!(taken(), [size.clone(), (page(0), overwrite), (page(1), overwrite)]);
    file.write_all_at(&[1; 10], 50).unwrap();
    assert_eq!(taken(), [size.clone(), (page(0), read)]);
    // Extension discards bytes past the end. A page of the gap is not written.
    file.write_all_at(&[2; 10], 9000).unwrap();
    assert_eq!(taken(), [size.clone(), (page(1), read), (pages_from(2), overwrite)]);
    file.read_exact_at(&mut bytes[..100], 8100).unwrap();
    assert_eq!(taken(), [size.clone(), (page(2), read)], "page 1 is in the kernel's cache");
    assert!(bytes[..100].iter().all(|byte| *byte == 0));

    file.set_len(4100).unwrap();
    assert!(taken().starts_with(&[size.clone(), (page(1), read), (pages_from(2), overwrite)]));
    file.set_len(0).unwrap();
    assert!(taken().starts_with(&[(Item::Size(2), overwrite), (pages_from(0), overwrite)]));

    assert!(fs::metadata(folder.join("b")).is_err());
    assert_eq!(taken(), [(name("b"), read)]);
    fs::rename(folder.join("a"), folder.join("b")).unwrap();
    let renamed = [(name("b"), read), (name("a"), overwrite), (name("b"), overwrite)];
    assert_eq!(taken(), renamed);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert!(taken().contains(&(Item::Names(ROOT), read)));
    fs::remove_file(folder.join("b")).unwrap();
    assert!(taken().contains(&(name("b"), overwrite)));
    drop(created(&folder.join("b")));
    let made = taken();
    for item in [Item::Size(3), Item::Mode(3), Item::PagesFrom { node: 3, number: 0 }] {
        let first = made.iter().find(|(called, _)| *called == item);
        assert_eq!(first, Some(&(item, overwrite)), "nothing of a new node is read");
    }
}

#[test]
fn a_removed_folder_fails_open_files_and_leaves_the_others() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let other = fixture.folders.add("other", Tree::default(), false, None);
    let file = created(&folder.join("a"));
    assert!(fixture.folders.remove("recorded").is_some());
    assert!(fixture.folders.remove("recorded").is_none());
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(fs::metadata(&folder).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(other.join("a"), "other").unwrap();
    // The name can be used again, with nothing of the old folder.
    let folder = fixture.recording();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(fs::read(other.join("a")).unwrap(), b"other");
    assert_eq!(
        fs::rename(other.join("a"), folder.join("a")).unwrap_err().kind(),
        ErrorKind::CrossesDevices
    );
}

#[test]
fn the_file_system_is_unmounted_though_a_file_is_open() {
    let at = tempfile::tempdir().unwrap();
    let folders = Folders::mount(at.path()).unwrap();
    let folder = folders.add("a", Tree::default(), false, None);
    let file = created(&folder.join("f"));
    drop(folders);
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
    assert!(file.write_all_at(b"x", 0).is_err());
}
