//! Whole units, written at random to every kind of device: at any time a store returns the machine's content, unit by
//! unit and untorn, before and after power cuts, in memory and in a file alike.

use crate::rig::{begin, devices, is_cut};
use iodyno_emulate::Fault;
use iodyno_live::store::Store;
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

const UNITS: u64 = 24;

/// Content of a write: in each sector of 512 B the sector's byte of the token and the unit, repeated every 8 bytes.
fn content(token: u64, unit: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    for byte in token.to_le_bytes() {
        let word = if byte == 0 { 0 } else { u64::from(byte) << 20 | unit };
        bytes.extend(word.to_le_bytes().repeat(64));
    }
    bytes
}

#[test]
fn a_store_reads_what_the_machine_holds() {
    for device in devices() {
        let name = device.name;
        let mut random = stream(1, name, 0);
        let (mut cuts, mut lost) = (0, 0);
        for history in 0..20 {
            let mut m = device.machine(history);
            let capacity = m.capacity_bytes(0);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("image");
            let mut stores = [
                Store::in_memory(capacity, 1 << 30, device.options()),
                Store::in_file(&path, capacity, device.options()).unwrap(),
            ];
            let worker = m.add_worker(0);
            for cut in 1..=2 {
                let at_ns = cut * device.pace * (20_000 + below(&mut random, 1_000_000));
                m.inject(at_ns, Fault::PowerCut);
            }
            let mut open = Vec::new();
            let mut changes = Vec::new();
            let mut now = 0;
            for number in 1..120 {
                let token = number * 0x0101_0101_0101_0101;
                let kind = match below(&mut random, 20) {
                    0 => OpKind::Flush,
                    1 => OpKind::Trim,
                    2 => OpKind::WriteZeroes,
                    _ => OpKind::Write,
                };
                let op = Op {
                    offset_bytes: below(&mut random, UNITS) * 4096,
                    len_bytes: 4096 * (1 + below(&mut random, 3) as u32),
                    kind,
                    fua: below(&mut random, 10) == 0,
                };
                let op = if kind == OpKind::Flush { Op::FLUSH } else { op };
                let first = op.offset_bytes / 4096;
                let units = first..first + u64::from(op.len_bytes) / 4096;
                let data: Vec<u8> = units.flat_map(|unit| content(token, unit)).collect();
                for store in &mut stores {
                    begin(store, token, &op, &data);
                }
                open.push(token);
                m.submit(now, worker, 0, &op, token);
                now += device.pace * below(&mut random, 40_000);
                loop {
                    let done = m.next_completion(now);
                    m.changes(&mut changes);
                    let before = stores[0].volatile_units();
                    for store in &mut stores {
                        // Both forms of the call.
                        if number % 2 == 0 {
                            store.changes(&changes);
                        } else {
                            for change in &changes {
                                store.change(change);
                            }
                        }
                    }
                    if changes.drain(..).any(|change| is_cut(&change)) {
                        cuts += 1;
                        lost += usize::from(before > 0);
                        for token in open.drain(..) {
                            for store in &mut stores {
                                store.cancel_write(token);
                            }
                        }
                    }
                    if let Some(done) = done
                        && let Some(at) = open.iter().position(|&t| t == done.token)
                    {
                        open.remove(at);
                        for store in &mut stores {
                            assert_eq!(store.end_write(done.token), Ok(()));
                        }
                    }
                    for store in &stores {
                        let mut all = vec![0; (UNITS as usize + 3) * 4096];
                        store.read(0, &mut all).unwrap();
                        for (unit, found) in (0..).zip(all.chunks(4096)) {
                            let token = m.content(0, unit * 4096);
                            let wanted = token.map_or(vec![0; 4096], |t| content(t, unit));
                            assert!(found == wanted, "{name}, {history}, {unit}: {token:?}");
                        }
                    }
                    if done.is_none() {
                        break;
                    }
                }
            }
            // The file alone is what survives a power cut.
            let volatile = stores[1].volatile_units();
            let [_, file] = stores;
            assert_eq!(file.trouble(), None);
            drop(file);
            let file = Store::in_file(&path, capacity, device.options()).unwrap();
            assert_eq!(file.scrub(|_| {}).unwrap().corrupt_units, 0);
            m.inject(now, Fault::PowerCut);
            while m.next_completion(now + 1).is_some() {}
            for unit in 0..UNITS + 3 {
                let mut found = vec![0; 4096];
                file.read(unit * 4096, &mut found).unwrap();
                let token = m.content(0, unit * 4096);
                let wanted = token.map_or(vec![0; 4096], |t| content(t, unit));
                assert!(
                    device.forgets || device.tears() || found == wanted,
                    "{name}, {history}, {unit}: {token:?}, {volatile} volatile"
                );
            }
        }
        // Protected memory reports nothing of a power cut.
        assert!(name == "protected memory" || cuts > 20, "{name}: cut {cuts} times");
        let volatile = !device.keeps && !device.forgets;
        assert_eq!(lost > 5, volatile, "{name}: {lost} cuts took something");
    }
}
