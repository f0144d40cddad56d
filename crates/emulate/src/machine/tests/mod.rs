//! Tests of components that send requests to others: a mirror, compared with the same devices driven directly by the
//! host.

#[path = "../../../tests/common/mod.rs"]
mod common;

use crate::request::{Origin, State};
use crate::spec::{self, Device, Kind, Preconditioned, System, Volume, Written};
use crate::usage::{Phase, Resource};
use crate::{Completion, Fault, Machine, PartId};
use common::{disk, flash, host, memory};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};

/// Number of units in the range that all operations access.
const SPAN_UNITS: u64 = 4096;
const UNIT: u64 = 4096;

/// An operation of a history, and its time of submission.
type Step = (u64, Op);

/// A system of separate devices on one socket. Each worker has its own core and needs no wake-up.
fn jbod(kinds: &[Kind]) -> System {
    let mut system = System::new("test", host());
    for kind in kinds {
        let device = Device {
            name: "device".to_owned(),
            kind: kind.clone(),
            hot_swap: true,
            limits: Vec::new(),
        };
        system.add_device(device, Preconditioned { how: Written::Fresh, fill: 1.0 }, 0);
    }
    system
}

/// The same devices as one volume: each list of children becomes a mirror, and the last mirror is the root.
fn mirrored(kinds: &[Kind], mirrors: &[&[u32]]) -> System {
    let mut system = jbod(kinds);
    for children in mirrors {
        system
            .parts
            .push(spec::Part::Mirror(children.iter().map(|&child| PartId(child)).collect()));
    }
    let root = PartId(system.parts.len() as u32 - 1);
    let state = system.volumes[0].state;
    system.volumes = vec![Volume { name: "mirror".to_owned(), root, state }];
    system
}

/// `count` random operations in order of time. Times are odd, because the order of an operation and a
/// device-internal event at the same instant would be ambiguous.
fn history(seed: u64, count: u64, gap_ns: u64) -> Vec<Step> {
    let mut rng = stream(seed, "history", 0);
    let mut now_ns = 0;
    let mut step = |_| {
        now_ns += 1 + 2 * below(&mut rng, gap_ns / 2) + now_ns % 2;
        let kind = match below(&mut rng, 20) {
            0 => OpKind::Flush,
            1 => OpKind::Trim,
            2..10 => OpKind::Read,
            _ => OpKind::Write,
        };
        let units = 1 + below(&mut rng, 8);
        let offset_bytes = below(&mut rng, SPAN_UNITS - units) * UNIT;
        let fua = kind == OpKind::Write && below(&mut rng, 8) == 0;
        (now_ns, Op { offset_bytes, len_bytes: (units * UNIT) as u32, kind, fua })
    };
    (0..count).map(&mut step).collect()
}

/// Runs the steps; `to` lists the target volumes of each step, and each volume has the worker of the same number.
fn run(machine: &mut Machine, steps: &[Step], to: impl Fn(usize) -> Vec<u32>) -> Vec<Completion> {
    let mut done = Vec::new();
    for (token, (at_ns, op)) in steps.iter().enumerate() {
        done.extend(std::iter::from_fn(|| machine.next_completion(*at_ns)));
        for volume in to(token) {
            machine.submit(*at_ns, volume, volume, op, token as u64);
        }
        if token % 64 == 0 {
            assert_eq!(machine.check(), Ok(()));
        }
    }
    done.extend(std::iter::from_fn(|| machine.next_completion(u64::MAX)));
    assert_eq!(machine.check(), Ok(()));
    let left = |slot| machine.core.slab[slot].origin != Origin::Own;
    let free = |slot| machine.core.slab[slot].state == State::Free;
    assert!((0..machine.core.slab.len() as u32).all(|slot| free(slot) || !left(slot)));
    done
}

fn machine(system: &System, seed: u64, faults: &[(u64, Fault)]) -> Machine {
    let mut machine = Machine::represented(system, seed, 1).unwrap();
    machine.keep_content();
    for volume in 0..machine.volumes() {
        machine.add_worker(volume);
    }
    for (at_ns, fault) in faults {
        machine.inject(*at_ns, *fault);
    }
    machine
}

/// Resources and phases of each of the first `devices` components.
fn usage(machine: &Machine, devices: usize) -> Vec<(Vec<Resource>, Vec<Phase>)> {
    let of = |part: &super::Part| (part.resources(&machine.core), part.phases());
    machine.parts[..devices].iter().map(of).collect()
}

fn value(machine: &Machine, part: usize, unit: u64) -> Option<u64> {
    machine.parts[part].unit_value(unit, &machine.parts, &machine.core)
}

/// Runs a history on a tree of mirrors, and on separate devices to which `to` sends the mirrors' requests,
/// and compares each operation and each device.
fn compare(
    kinds: &[Kind],
    mirrors: &[&[u32]],
    steps: &[Step],
    faults: &[(u64, Fault)],
    to: impl Fn(usize) -> Vec<u32>,
) {
    let mut alone = machine(&jbod(kinds), 5, faults);
    let of_devices = run(&mut alone, steps, &to);
    let mut whole = machine(&mirrored(kinds, mirrors), 5, faults);
    let of_volume = run(&mut whole, steps, |_| vec![0]);
    assert_eq!(of_volume.len(), steps.len(), "each operation ends once");
    assert!(of_volume.is_sorted_by_key(|done| done.at_ns));
    for done in &of_volume {
        let token = done.token;
        let parts: Vec<_> = of_devices.iter().filter(|part| part.token == token).collect();
        assert_eq!(parts.len(), to(token as usize).len());
        let step = (token, &steps[token as usize], done);
        assert_eq!(Some(done.at_ns), parts.iter().map(|part| part.at_ns).max(), "{step:?}");
        let fails = parts.iter().any(|part| part.failure.is_some());
        assert_eq!(done.failure.is_some(), fails, "{step:?}");
    }
    assert_eq!(usage(&alone, kinds.len()), usage(&whole, kinds.len()));
    let contents = |machine: &Machine| -> Vec<_> {
        let units = 0..SPAN_UNITS;
        let of = |part| units.clone().map(move |unit| value(machine, part, unit));
        (0..kinds.len()).flat_map(of).collect()
    };
    assert!(contents(&alone) == contents(&whole));
}

/// The targets of a mirror: reads go to each device in turn, everything else to all.
fn turns(steps: &[Step], count: u32) -> impl Fn(usize) -> Vec<u32> {
    let mut reads = 0;
    let mut all = Vec::new();
    for (_, op) in steps {
        if op.kind == OpKind::Read {
            all.push(vec![reads % count]);
            reads += 1;
        } else {
            all.push((0..count).collect());
        }
    }
    move |token| all[token].clone()
}

fn volatile_flash() -> Kind {
    let mut flash = flash();
    flash.buffer.protected = false;
    Kind::Flash(Box::new(flash))
}

/// A request ends with its last child, and each child behaves as the same device does under a host:
/// the same operations end at the same ns, with the same errors, and leave the same content.
#[test]
fn a_mirror_is_as_late_as_its_last_child_and_changes_none() {
    let flash = || Kind::Flash(Box::new(flash()));
    for (kinds, gap_ns, count) in [
        ([flash(), flash()], 60_000, 2000),
        ([flash(), volatile_flash()], 200_000, 1000),
        ([flash(), disk(true)], 8_000_000, 300),
        ([disk(false), disk(true)], 8_000_000, 300),
    ] {
        let steps = history(1, count, gap_ns);
        let end_ns = steps[steps.len() - 1].0;
        let part = PartId(1);
        let at = |share: u64| end_ns / 100 * share;
        let faults = [
            (at(10), Fault::Slow { part, factor: 3.0 }),
            (at(20), Fault::Clear { part }),
            (at(30), Fault::Hang { part }),
            (at(35), Fault::Clear { part }),
            (at(50), Fault::Lose { part }),
            (at(60), Fault::Clear { part }),
            (at(70), Fault::Latent { part, offset_bytes: 0, len_bytes: SPAN_UNITS / 4 * UNIT }),
        ];
        for faults in [&[][..], &faults] {
            compare(&kinds, &[&[0, 1]], &steps, faults, turns(&steps, 2));
        }
    }
}

/// Components of any type can be nested: a mirror of mirrors.
#[test]
fn trees_may_be_deep() {
    let kinds = [(); 4].map(|()| Kind::Flash(Box::new(flash())));
    let steps = history(2, 800, 80_000);
    // Reads alternate between the two mirrors below the root, and within each of these.
    let order = [0, 2, 1, 3];
    let flat = turns(&steps, 4);
    let to = |token: usize| match flat(token)[..] {
        [turn] => vec![order[turn as usize]],
        _ => vec![0, 1, 2, 3],
    };
    compare(&kinds, &[&[0, 1], &[2, 3], &[4, 5]], &steps, &[], to);
}

/// The core of the host's worker does the work of memory anywhere in a tree: below a mirror, it makes both copies, one
/// after the other.
#[test]
fn memory_below_a_mirror_works_in_the_submitter() {
    let kinds = [memory(true), memory(true)];
    let op = |kind| Op { offset_bytes: 0, len_bytes: 4096, kind, fua: false };
    let steps = [(1, op(OpKind::Write)), (1_000_001, op(OpKind::Read))];
    let mut alone = machine(&jbod(&kinds), 5, &[]);
    let one = run(&mut alone, &steps, |_| vec![0]);
    let mut whole = machine(&mirrored(&kinds, &[&[0, 1]]), 5, &[]);
    let both = run(&mut whole, &steps, |_| vec![0]);
    assert_eq!((one.len(), both.len()), (2, 2));
    let took_ns = |done: &[Completion], step: usize| done[step].at_ns - steps[step].0;
    assert!(took_ns(&both, 0).abs_diff(2 * took_ns(&one, 0)) <= 1);
    assert_eq!(took_ns(&both, 1), took_ns(&one, 1));
}

/// A power cut at any event leaves nothing in flight anywhere in the tree, and leaves the acknowledged content on
/// each of two protected devices.
#[test]
fn a_power_cut_takes_children_and_parents() {
    let kinds = [(); 2].map(|()| Kind::Flash(Box::new(flash())));
    let write = |unit: u64| Op {
        offset_bytes: unit * UNIT,
        len_bytes: UNIT as u32,
        kind: OpKind::Write,
        fua: false,
    };
    let begun = || {
        let mut machine = machine(&mirrored(&kinds, &[&[0, 1]]), 5, &[]);
        for unit in 0..8 {
            machine.submit(1 + 1000 * unit, 0, 0, &write(unit), unit);
        }
        machine
    };
    let mut machine = begun();
    while machine.step(u64::MAX) {}
    let events = machine.events();
    assert!(events > 60);
    for cut in 0..events {
        let mut machine = begun();
        let mut acknowledged = Vec::new();
        for _ in 0..cut {
            assert!(machine.step(u64::MAX));
            acknowledged.extend(std::iter::from_fn(|| machine.completed()));
        }
        machine.apply_fault(&Fault::PowerCut);
        assert_eq!(machine.check(), Ok(()));
        for done in &acknowledged {
            for part in [0, 1] {
                assert_eq!(value(&machine, part, done.token), Some(done.token), "cut {cut}");
            }
        }
        machine.submit(machine.now_ns(), 0, 0, &write(7), 77);
        let done = machine.next_completion(u64::MAX).unwrap();
        assert_eq!((done.token, done.failure), (77, None));
        while machine.step(u64::MAX) {}
        assert_eq!([0, 1].map(|part| value(&machine, part, 7)), [Some(77); 2]);
        assert_eq!(machine.check(), Ok(()));
    }
}

/// Trees that name a missing part, or contain a cycle, are refused.
#[test]
fn wrong_trees_are_refused() {
    let kinds = [memory(true), memory(true)];
    let refused = |system: &System| Machine::new(system, 1).err();
    for (children, why) in [
        (&[0, 2][..], "part 2 must come after part 2, its child"),
        (&[7], "part 2 must come after part 7, its child"),
    ] {
        assert_eq!(refused(&mirrored(&kinds, &[children])).as_deref(), Some(why));
    }
    let mut rootless = jbod(&kinds);
    rootless.volumes[1].root = PartId(2);
    assert_eq!(refused(&rootless).as_deref(), Some("device: there is no part 2"));
}
