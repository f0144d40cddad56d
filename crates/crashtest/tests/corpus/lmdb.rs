//! LMDB by its module for Python, where that is installed.

use crate::{Case, python};
use iodyno_crashtest::{Class, Verdict};
use std::process::Command;

/// Case of a program with six transactions. Each sets four keys, which are on separate pages, to the transaction's
/// number. `flags` are options for opening the database.
fn case(python_with_lmdb: &str, flags: &str) -> Case {
    let script = |script: &str| {
        let mut words = python(&format!("import lmdb, os, sys{script}"));
        python_with_lmdb.clone_into(&mut words[0]);
        words.retain(|word| word != "-S");
        words
    };
    let put = |values: &str| {
        script(&format!(
            "
d = lmdb.open('d', subdir=False, lock=False, map_size=1 << 20{flags})
for i in {values}:
    with d.begin(write=True) as t:
        for k in range(4): t.put(b'%d' % k, b'%d' % i * 3000)
    os.write(1, b'%d\\n' % i)
os._exit(0)"
        ))
    };
    Case {
        setup: put("0,"),
        program: put("range(1, 7)"),
        check: script(
            "
promised = (open(os.environ['IODYNO_ACKNOWLEDGED']).read().split() or ['0'])[-1]
with lmdb.open('d', subdir=False, lock=False, readonly=True, map_size=1 << 20).begin() as t:
    values = [t.get(b'%d' % k) for k in range(4)]
    if len(set(values)) != 1: sys.exit('keys differ')
    value = values[0]
    if value != value[:1] * 3000: sys.exit('a value is mixed')
    if int(value[:1]) < int(promised): sys.exit('promised %s, found %r' % (promised, value[:1]))",
        ),
    }
}

#[test]
fn lmdb_is_safe_as_long_as_it_syncs() {
    let has_lmdb = |python: &&str| {
        let found = Command::new(python).args(["-c", "import lmdb"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_lmdb) else { return };
    let (wrong, lost) = (Verdict::WrongContent, Verdict::LostAcknowledged);
    case(python, "").is_right(&["ext4", "worst"]);
    case(python, ", metasync=False").is_wrong("ext4", &[lost], Class::Prefix);
    // A page past the end of the mapped file ends the checker with SIGBUS.
    let unsynced = [wrong, lost, Verdict::CheckerFailed];
    case(python, ", sync=False").is_wrong("ext4", &unsynced, Class::OneMissing);
}
