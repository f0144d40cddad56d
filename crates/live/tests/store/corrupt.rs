//! Writes to parts of corrupt units: only the operation or the next flush fails.

use iodyno_emulate::ContentEvent::{Accepted, Landed, Written};
use iodyno_emulate::PartId;
use iodyno_live::store::{Image, Options, ReadError, Store, WriteError};
use std::fs;
use std::os::unix::fs::FileExt as _;

const CAPACITY: u64 = 8 << 20;
const CORRUPT: Result<(), WriteError> = Err(WriteError::Corrupt { unit: 2 });

/// Creates a store of each kind in which unit 2 is damaged and is filled with ones, written or from an image. Also
/// returns the folder of the files.
fn both() -> ([Store; 3], tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = Store::in_file(&folder.path().join("image"), CAPACITY, Options::default());
    let beneath = folder.path().join("beneath");
    fs::write(&beneath, [1; 4096].repeat(8)).unwrap();
    let image = Image::file(&beneath).unwrap();
    let stores = [
        Store::in_memory(CAPACITY, 1 << 30, Options::default()),
        file.unwrap(),
        Store::over_image(image, CAPACITY, 1 << 30, Options::default()),
    ];
    for (store, number) in stores.iter().zip(0..) {
        if number < 2 {
            store.write_now(0, &[1; 4096].repeat(8)).unwrap();
        }
        store.corrupt(&(2 * 4096..2 * 4096 + 1), 5);
    }
    (stores, folder)
}

/// Bytes of unit 2 after its damage is lifted: those that the machine has written.
fn beneath(store: &Store) -> Vec<u8> {
    let mut into = vec![0; 4096];
    assert_eq!(store.read(2 * 4096, &mut into), Err(ReadError::Corrupt { unit: 2 }));
    store.heal(2);
    store.read(2 * 4096, &mut into).unwrap();
    into
}

#[test]
fn writes_to_a_corrupt_unit_are_not_stranded() {
    for past_the_buffer in [false, true] {
        let (stores, _folder) = both();
        for mut store in stores {
            let part = PartId(0);
            // From within the corrupt unit to within another: that and what lies between is written.
            store.begin_write(1, 2 * 4096 + 512, &[7; 2 * 4096]).unwrap();
            for unit in 2..5 {
                store.change(&if past_the_buffer {
                    Written { part, unit, token: 1, overtaken: false }
                } else {
                    Accepted { part, unit, token: 1, kept: true }
                });
            }
            assert_eq!(store.end_write(1), CORRUPT);
            assert_eq!((store.stranded_bytes(), store.trouble()), (0, None));
            assert_eq!(store.settle(), Ok(()), "the client knows already");
            let mut into = [0; 2 * 4096];
            store.read(3 * 4096, &mut into).unwrap();
            assert!(into[..4096 + 512] == [7; 4096 + 512] && into[4096 + 512..] == [1; 4096 - 512]);
            let unit = beneath(&store);
            assert!(unit[..512] == [1; 512] && unit[512..] == [7; 4096 - 512]);
        }
    }
}

#[test]
fn writes_that_land_on_a_corrupt_unit_fail_one_flush() {
    let (stores, _folder) = both();
    for mut store in stores {
        let (part, unit) = (PartId(0), 2);
        for (token, byte) in [(1, 7), (2, 8)] {
            store.begin_write(token, 2 * 4096 + 512 * token, &[byte; 512]).unwrap();
            store.change(&Accepted { part, unit, token, kept: false });
            assert_eq!(store.end_write(token), Ok(()));
        }
        store.change(&Landed { part, unit, token: 2 });
        assert_eq!((store.stranded_bytes(), store.trouble()), (0, None));
        assert_eq!((store.settle(), store.settle()), (CORRUPT, Ok(())));
        assert!(store.take_refusals() > 0);

        // One that is still in flight, a forced write say, reports the error itself.
        store.begin_write(3, 2 * 4096 + 5 * 512, &[9; 512]).unwrap();
        store.change(&Accepted { part, unit, token: 3, kept: false });
        store.change(&Landed { part, unit, token: 3 });
        assert_eq!((store.end_write(3), store.settle()), (CORRUPT, Ok(())));
        // So does one that carries an acknowledged one with it; the flush does, too.
        store.begin_write(4, 2 * 4096, &[4; 100]).unwrap();
        store.change(&Accepted { part, unit, token: 4, kept: false });
        assert_eq!(store.end_write(4), Ok(()));
        store.begin_write(5, 2 * 4096 + 50, &[5; 100]).unwrap();
        store.change(&Written { part, unit, token: 5, overtaken: false });
        assert_eq!(
            (store.end_write(5), store.settle(), store.settle()),
            (CORRUPT, CORRUPT, Ok(()))
        );

        let unit = beneath(&store);
        let at = [49, 50, 149, 150, 512, 1024, 1536, 5 * 512, 6 * 512].map(|at| unit[at]);
        assert_eq!(at, [4, 5, 5, 1, 7, 8, 1, 9, 1]);
    }
}

/// A unit that was corrupted in the file stays corrupt until it is written whole, also for later servers.
#[test]
fn rot_stays_corrupt_beneath_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let open = || Store::in_file(&path, CAPACITY, Options::default()).unwrap();
    open().write_now(0, &[1; 4096].repeat(8)).unwrap();
    let image = fs::File::options().read(true).write(true).open(&path).unwrap();
    image.write_all_at(&[9], 2 * 4096 + 3000).unwrap();
    let mut store = open();
    let (part, unit) = (PartId(0), 2);
    // The part that is rewritten is the same as before: the unit is corrupt all the same.
    for (token, byte) in [(1, 7), (2, 1)] {
        store.begin_write(token, 2 * 4096, &[byte; 512]).unwrap();
        store.change(&Accepted { part, unit, token, kept: true });
        assert_eq!((store.end_write(token), store.settle()), (CORRUPT, Ok(())));
        assert_eq!(store.read(2 * 4096, &mut [0; 512]), Err(ReadError::Corrupt { unit: 2 }));
    }
    store.end().unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.read(2 * 4096, &mut [0; 512]), Err(ReadError::Corrupt { unit: 2 }));
    store.write_now(2 * 4096, &[3; 4096]).unwrap();
    assert_eq!(store.read(2 * 4096, &mut [0; 512]), Ok(()));
}
