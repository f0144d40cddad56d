//! Programs that keep their data in files of their own.

use crate::{Case, all_rules, python};
use iodyno_crashtest::{Class, Verdict};

/// Python functions for programs and checkers.
const PRELUDE: &str = "
import os, struct, sys
def put(name, data, flags=0, sync=True, at=0):
    f = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    os.pwrite(f, data, at) if not flags & os.O_APPEND else os.write(f, data)
    if sync: os.fsync(f)
    os.close(f)
def sync(name):
    f = os.open(name, os.O_RDONLY)
    os.fsync(f)
    os.close(f)
def get(name):
    try: return open(name, 'rb').read()
    except FileNotFoundError: return None
def promise(i): os.write(1, b'%d\\n' % i)
def promised():
    lines = open(os.environ['IODYNO_ACKNOWLEDGED']).read().split()
    return int(lines[-1]) if lines else 0
def body(i): return b'%d' % i * 5000
";

fn case(setup: &str, program: &str, check: &str) -> Case {
    let script = |script: &str| python(&format!("{PRELUDE}{script}"));
    Case { setup: script(setup), program: script(program), check: script(check) }
}

/// Case of a program that replaces a file by a new version three times. `steps` is the Python code of one replacement.
fn replacement(steps: &str) -> Case {
    case(
        "put('data', body(0)); sync('.')",
        &format!(
            "
for i in range(1, 4):
{steps}
    promise(i)"
        ),
        "
data = get('data')
if data not in [body(i) for i in range(promised(), 4)]: sys.exit('promised %d, %r' % (promised(), data and data[:9]))",
    )
}

#[test]
fn a_new_version_by_rename_needs_fsync_of_file_and_directory() {
    let unsynced = replacement(
        "    put('new', body(i), sync=False)
    os.rename('new', 'data')
    sync('.')",
    );
    // XFS and ext4 with data=writeback rename before the data are there; ext4 writes them first.
    unsynced.is_wrong("xfs", &[Verdict::WrongContent], Class::Prefix);
    unsynced.is_wrong("ext4-writeback", &[Verdict::WrongContent], Class::OneMissing);
    unsynced.is_right(&["ext4"]);
    let directory_unsynced = replacement(
        "    put('new', body(i))
    os.rename('new', 'data')",
    );
    for rules in ["ext4", "xfs", "btrfs", "worst"] {
        directory_unsynced.is_wrong(rules, &[Verdict::LostAcknowledged], Class::Prefix);
    }
    let right = replacement(
        "    put('new', body(i))
    os.rename('new', 'data')
    sync('.')",
    );
    right.is_right(&all_rules());
}

#[test]
fn truncation_before_a_write_loses_the_old_version() {
    let truncated = replacement("    put('data', body(i), os.O_TRUNC)");
    truncated.is_wrong("ext4", &[Verdict::WrongContent], Class::Prefix);
}

/// Case of a program that appends records to a log. Recovery stops at the first record that `is_whole` rejects. Both
/// arguments are Python expressions.
fn log(record: &str, is_whole: &str) -> Case {
    case(
        "put('log', b''); sync('.')",
        &format!(
            "
import zlib
for i in range(1, 4):
    put('log', {record}, os.O_APPEND)
    promise(i)"
        ),
        &format!(
            "
import zlib
log, at, last = get('log'), 0, 0
while at + 8 <= len(log):
    i, check = struct.unpack_from('<II', log, at)
    data = log[at + 8:at + 8 + 5000]
    if not ({is_whole}): break
    if data != body(i): sys.exit('record %d has wrong content' % i)
    last, at = i, at + 5008
if last < promised(): sys.exit('promised %d, found %d' % (promised(), last))"
        ),
    )
}

#[test]
fn a_log_needs_checksums_where_a_file_may_grow_before_its_data() {
    let by_length = log("struct.pack('<II', i, 5000) + body(i)", "i and len(data) == 5000");
    by_length.is_wrong("worst", &[Verdict::WrongContent], Class::Torn);
    by_length.is_wrong("ext4-writeback", &[Verdict::WrongContent], Class::Torn);
    by_length.is_right(&["ext4", "xfs", "btrfs"]);
    let with_checksum = log(
        "struct.pack('<II', i, zlib.crc32(body(i))) + body(i)",
        "i and len(data) == 5000 and check == zlib.crc32(data)",
    );
    with_checksum.is_right(&all_rules());
}

#[test]
fn a_record_in_place_is_torn_at_pages() {
    let in_place = replacement("    put('data', body(i))");
    in_place.is_wrong("ext4", &[Verdict::WrongContent], Class::Torn);
    let fits = case(
        "put('data', b'0' * 4096); sync('.')",
        "
for i in range(1, 4):
    put('data', b'%d' % i * 4096)
    promise(i)",
        "
data = get('data')
if data not in [b'%d' % i * 4096 for i in range(promised(), 4)]: sys.exit(1)",
    );
    fits.is_right(&["ext4", "xfs", "btrfs"]);
    fits.is_wrong("worst", &[Verdict::WrongContent], Class::Torn);
}

/// Case of a program that appends values to one file, and writes their number to another. `steps` is the Python code
/// for one value.
fn two_files(steps: &str) -> Case {
    case(
        "put('values', b''); put('count', b'0'); sync('.')",
        &format!(
            "
for i in range(1, 4):
{steps}
    promise(i)"
        ),
        "
values, count = get('values'), int(get('count'))
if values[:count * 4096] != b''.join(b'%d' % i * 4096 for i in range(1, count + 1)): sys.exit('a value is missing')
if count < promised(): sys.exit('promised %d, found %d' % (promised(), count))",
    )
}

#[test]
fn two_files_need_an_fsync_between_them() {
    let unordered = two_files(
        "    put('values', b'%d' % i * 4096, os.O_APPEND, sync=False)
    put('count', b'%d' % i, sync=False)
    sync('values')
    sync('count')",
    );
    for rules in all_rules() {
        unordered.is_wrong(rules, &[Verdict::WrongContent], Class::OneMissing);
    }
    let ordered = two_files(
        "    put('values', b'%d' % i * 4096, os.O_APPEND)
    put('count', b'%d' % i)",
    );
    ordered.is_right(&all_rules());
}
