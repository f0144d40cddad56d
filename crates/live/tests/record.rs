//! The record of a server killed at any byte of it.

use crate::common;

use common::{flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Kind, Written};
use iodyno_live::record::{Ended, Record};

const HEAD: &str = "iodyno record 3\n{\"device\":\"a device\"}\n";

fn machine() -> Machine {
    let mut machine =
        Machine::new(&system(Kind::Flash(Box::new(flash())), Written::Fresh, 1), 1).unwrap();
    machine.add_worker(0);
    machine
}

fn replay(record: &str) -> Result<Ended, String> {
    Record::open(record.as_bytes())?.check(&machine())?;
    Record::open(record.as_bytes())?.replay(&mut machine(), &mut |_, _| {})
}

/// A record that was cut off at any byte replays up to its last complete line.
#[test]
fn a_record_that_was_cut_off_replays_as_far_as_it_goes() {
    let inputs = "o 1200 0 0 w 4096 4096 0\nf 5000 slow x10\nf 6000 lost at 0..+4096 next 1 0\no 70000 0 0 r 8192 16384 0\n\
        f 80000 latent 1MiB..+64KiB\no 90000 0 0 f 0 0 0\nend 9000000 0123456789abcdef\n";
    let whole = format!("{HEAD}{inputs}");
    for cut in HEAD.len()..=whole.len() {
        let replayed = replay(&whole[..cut]);
        let lines = whole[..cut].rfind('\n').map_or(0, |end| end + 1);
        let mut replayed = replayed.unwrap();
        assert_eq!(replayed.is_torn, cut != lines, "{:?}", &whole[lines..cut]);
        replayed.is_torn = false;
        assert_eq!(Ok(replayed.clone()), replay(&whole[..lines]), "{:?}", &whole[lines..cut]);
        let inputs = whole[HEAD.len()..lines].lines();
        let of = |what: &str| inputs.clone().filter(|line| line.starts_with(what)).count() as u64;
        let faults = replayed.faults + replayed.interface_faults.len() as u64;
        assert_eq!((replayed.operations, faults), (of("o "), of("f ")));
        assert_eq!(replayed.is_same().is_some(), cut == whole.len());
    }
    // Without the machine's description there is nothing to replay; a whole line must be valid.
    for cut in 0..HEAD.len() {
        assert!(replay(&HEAD[..cut]).is_err());
    }
    assert!(replay(&format!("{HEAD}o 1200 0\n")).unwrap_err().contains("line 3 is not valid"));
}
