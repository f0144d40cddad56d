//! Embedded stores of crates.io: redb and fjall. The setup creates the store, so that each state has one; the program
//! under test is a test of this file, in a process of its own.

use crate::Case;
use fjall::PersistMode;
use iodyno_crashtest::{Class, Verdict};
use redb::{Durability, ReadableDatabase as _, TableDefinition};
use std::io::Write as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Environment variable that tells the child process which store, setting and task to use.
const TASK: &str = "IODYNO_TEST_STORE";
/// Number of keys. Each transaction sets all of them to one value.
const KEYS: u8 = 4;
/// Number of transactions of the program. The store is compacted after half of them.
const TRANSACTIONS: u8 = 6;
/// Size of a value, bytes.
const VALUE_BYTES: usize = 3000;

trait Store {
    /// Sets every key to `number`, repeated to [`VALUE_BYTES`], in one transaction.
    fn commit(&mut self, number: u8) -> Result<()>;
    fn compact(&mut self) -> Result<()>;
    /// Values of all keys, in the order of the keys; empty for a missing key.
    fn values(&self) -> Result<Vec<Vec<u8>>>;
}

struct Redb(redb::Database, Durability);

const TABLE: TableDefinition<'_, u8, &[u8]> = TableDefinition::new("values");

impl Store for Redb {
    fn commit(&mut self, number: u8) -> Result<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(self.1)?;
        let mut table = transaction.open_table(TABLE)?;
        for key in 0..KEYS {
            table.insert(key, &[number; VALUE_BYTES][..])?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn compact(&mut self) -> Result<()> {
        self.0.compact()?;
        Ok(())
    }

    fn values(&self) -> Result<Vec<Vec<u8>>> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let value = |key| Ok(table.get(key)?.map_or(Vec::new(), |value| value.value().to_vec()));
        (0..KEYS).map(value).collect()
    }
}

struct Fjall(fjall::Database, fjall::Keyspace, PersistMode);

impl Store for Fjall {
    fn commit(&mut self, number: u8) -> Result<()> {
        let mut batch = self.0.batch().durability(Some(self.2));
        for key in 0..KEYS {
            batch.insert(&self.1, [key], [number; VALUE_BYTES]);
        }
        Ok(batch.commit()?)
    }

    fn compact(&mut self) -> Result<()> {
        self.1.rotate_memtable_and_wait()?;
        Ok(self.1.major_compact()?)
    }

    fn values(&self) -> Result<Vec<Vec<u8>>> {
        let value = |key| Ok(self.1.get([key])?.map_or(Vec::new(), |value| value.to_vec()));
        (0..KEYS).map(value).collect()
    }
}

fn open(store: &str, setting: &str) -> Result<Box<dyn Store>> {
    if store == "redb" {
        let durability = if setting == "none" { Durability::None } else { Durability::Immediate };
        return Ok(Box::new(Redb(redb::Database::create("store.redb")?, durability)));
    }
    let persist = if setting == "buffer" { PersistMode::Buffer } else { PersistMode::SyncAll };
    let database = fjall::Database::builder("store").open()?;
    let keyspace = database.keyspace("values", fjall::KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall(database, keyspace, persist)))
}

/// The program under test and its checker. Run by the other tests, never on its own.
#[test]
#[ignore = "the child of another test"]
fn child_that_uses_a_store() {
    let task = std::env::var(TASK).expect("set by the parent");
    let [store, setting, task] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let mut store = match open(store, setting) {
        Ok(store) => store,
        Err(why) => {
            println!("\nREFUSES_TO_OPEN {why}");
            std::process::exit(1);
        }
    };
    match task {
        "create" => store.commit(0).unwrap(),
        "write" => {
            for number in 1..=TRANSACTIONS {
                store.commit(number).unwrap();
                std::io::stdout().write_all(format!("\npromise {number}\n").as_bytes()).unwrap();
                if number == TRANSACTIONS / 2 {
                    store.compact().unwrap();
                }
            }
        }
        _ => {
            let acknowledged = std::env::var("IODYNO_ACKNOWLEDGED").unwrap();
            let acknowledged = std::fs::read_to_string(acknowledged).unwrap();
            let promises = acknowledged.lines().filter_map(|line| line.strip_prefix("promise "));
            let promised = promises.map(|number| number.parse().unwrap()).max().unwrap_or(0);
            let is_expected = |values: &[Vec<u8>], least: u8| {
                let newest = values[0].first().copied().unwrap_or(0);
                newest >= least && values.iter().all(|value| *value == [newest; VALUE_BYTES])
            };
            let values = store.values().unwrap();
            assert!(is_expected(&values, promised), "promised {promised}, found {values:?}");
            // The recovered store goes on.
            store.commit(TRANSACTIONS + 1).unwrap();
            assert!(is_expected(&store.values().unwrap(), TRANSACTIONS + 1), "not written");
        }
    }
}

fn case(store: &str, setting: &str) -> Case {
    let child = |task: &str| {
        let program = std::env::current_exe().unwrap();
        let test = "embedded::child_that_uses_a_store";
        let variable = format!("{TASK}={store} {setting} {task}");
        ["env", &variable, program.to_str().unwrap(), "--exact", test, "--ignored", "--nocapture"]
            .map(ToOwned::to_owned)
            .to_vec()
    };
    Case { setup: child("create"), program: child("write"), check: child("check") }
}

#[test]
fn redb_is_safe_unless_it_does_not_sync() {
    case("redb", "immediate").is_right(&["ext4", "worst"]);
    case("redb", "none").is_wrong("ext4", &[Verdict::LostAcknowledged], Class::Prefix);
}

#[test]
fn fjall_is_safe_unless_it_does_not_sync() {
    // Not under `worst`: fjall 3.1 refuses a journal whose last record is torn.
    case("fjall", "all").is_right(&["ext4", "xfs", "btrfs"]);
    case("fjall", "buffer").is_wrong("ext4", &[Verdict::LostAcknowledged], Class::Prefix);
}
