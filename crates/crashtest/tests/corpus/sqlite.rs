//! SQLite in its journal modes. The bugs are settings that SQLite documents as unsafe.

use crate::{Case, python, shell};
use iodyno_crashtest::{Class, Verdict};

/// Number of rows, each on a page of its own.
const ROWS: u32 = 4;

/// Case of a program with two transactions. Each sets all rows to the transaction's number.
fn case(journal: &str, synchronous: &str) -> Case {
    let open = format!(
        "
import os, sqlite3
d = sqlite3.connect('d.db', isolation_level=None)
d.execute('PRAGMA journal_mode={journal}')
d.execute('PRAGMA synchronous={synchronous}')
"
    );
    Case {
        setup: python(&format!(
            "{open}
d.execute('CREATE TABLE t(k INTEGER PRIMARY KEY, v INT, filler BLOB)')
d.execute('BEGIN')
for k in range({ROWS}): d.execute('INSERT INTO t VALUES (?, 0, zeroblob(3000))', (k,))
d.execute('COMMIT')"
        )),
        program: python(&format!(
            "{open}
for i in 1, 2:
    d.execute('UPDATE t SET v = ?', (i,))
    os.write(1, b'%d\\n' % i)"
        )),
        check: shell(&format!(
            "
promised=$(tail -n 1 $IODYNO_ACKNOWLEDGED)
found=$(sqlite3 d.db 'PRAGMA integrity_check; SELECT count(*), count(DISTINCT v), min(v) FROM t' 2>&1)
case $found in
'ok
{ROWS}|1|'*) [ ${{found##*|}} -ge ${{promised:-0}} ] ;;
*) echo \"$found\"; exit 1 ;;
esac"
        )),
    }
}

#[test]
fn unsafe_settings_of_sqlite_are_found() {
    let (wrong, lost) = (Verdict::WrongContent, Verdict::LostAcknowledged);
    case("DELETE", "OFF").is_wrong("ext4", &[wrong, lost], Class::OneMissing);
    case("MEMORY", "FULL").is_wrong("ext4", &[wrong], Class::Prefix);
    case("OFF", "FULL").is_wrong("ext4", &[wrong], Class::Prefix);
    // Documented: durability is given up, consistency is not. FULL does not sync the directory after it removes the
    // journal, which is the commit; EXTRA does.
    case("WAL", "NORMAL").is_wrong("ext4", &[lost], Class::Prefix);
    case("DELETE", "FULL").is_wrong("ext4", &[lost], Class::Prefix);
}

#[test]
fn safe_settings_of_sqlite_have_no_wrong_state() {
    for journal in ["WAL", "TRUNCATE", "PERSIST"] {
        case(journal, "FULL").is_right(&["ext4", "worst"]);
    }
    case("DELETE", "EXTRA").is_right(&["ext4", "xfs", "worst"]);
}
