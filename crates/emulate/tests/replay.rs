//! Replay of a machine from its seed and inputs: a replayed journal of operations and faults with their
//! times gives the same events.

use crate::common;

use common::{add, disk, flash, host, memory, system};
use iodyno_emulate::spec::{Attach, Kind, Written};
use iodyno_emulate::{Completion, Fault, Machine, PartId, System};
use iodyno_units::{Op, OpKind};
use proptest::prelude::*;

const VOLUMES: u32 = 5;

/// An input of the machine.
#[derive(Clone, Copy, Debug)]
enum Input {
    Submit { at_ns: u64, volume: u32, op: Op },
    Inject { at_ns: u64, fault: Fault },
    Strike(Fault),
}

/// An input with its position: after `steps` steps of the machine, at this time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    steps: u64,
    now_ns: u64,
    input: Input,
}

/// An action of the machine's caller.
#[derive(Clone, Copy, Debug)]
enum Action {
    Input(Input),
    Steps(u64),
    Wait(u64),
}

/// Result of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    hash: u64,
    events: u64,
    done: Vec<Completion>,
    content: Vec<Option<u64>>,
}

fn five() -> System {
    let mut in_a_slot = flash();
    in_a_slot.buffer.protected = false;
    in_a_slot.attach = Attach::MemoryChannel {
        devices_per_thread: 2,
        command_ns: 1000,
        read_copy_bytes_per_s: 4e9,
        write_copy_bytes_per_s: 4e9,
        poll_ns: 2000,
        poll_crowded_ns: 4000,
    };
    let kinds =
        [Kind::Flash(Box::new(flash())), Kind::Flash(Box::new(in_a_slot)), disk(true), disk(false)];
    let mut all = system(memory(true), Written::Fresh, 1);
    for kind in kinds {
        let how = Written::Random { block_bytes: 4096 };
        add(&mut all, kind, how);
    }
    // Work of the host's cores, which are fewer than the workers.
    all.host = iodyno_emulate::spec::Host {
        generator_ns: 700,
        wake_ns: 900,
        cores_per_socket: 4,
        ..host()
    };
    all
}

fn machine(seed: u64) -> Machine {
    let mut machine = Machine::represented(&five(), seed, 16).unwrap();
    machine.keep_content();
    for volume in 0..VOLUMES {
        machine.add_worker(volume);
    }
    machine
}

fn give(machine: &mut Machine, input: &Input, token: u64) {
    match input {
        Input::Submit { at_ns, volume, op } => {
            machine.submit(*at_ns, *volume, *volume, op, token);
        }
        Input::Inject { at_ns, fault } => machine.inject(*at_ns, *fault),
        Input::Strike(fault) => machine.apply_fault(fault),
    }
}

fn collect(machine: &mut Machine, done: &mut Vec<Completion>) {
    done.extend(std::iter::from_fn(|| machine.completed()));
}

fn outcome(machine: &mut Machine, mut done: Vec<Completion>) -> Outcome {
    done.extend(std::iter::from_fn(|| machine.next_completion(u64::MAX)));
    assert_eq!(machine.check(), Ok(()));
    let units = (0..VOLUMES).flat_map(|v| (0..64).map(move |unit| (v, unit)));
    Outcome {
        hash: machine.event_hash(),
        events: machine.events(),
        done,
        content: units.map(|(v, unit)| machine.content(v, unit * 4096)).collect(),
    }
}

/// Executes the actions, and records the journal. Times of actions are relative to the present
/// time.
fn run(seed: u64, actions: &[Action]) -> (Outcome, Vec<Entry>) {
    let mut machine = machine(seed);
    let (mut journal, mut steps) = (Vec::new(), 0);
    // (Completions that were not collected before a power cut are lost.)
    let mut done = Vec::new();
    for action in actions {
        match *action {
            Action::Input(mut input) => {
                let now_ns = machine.now_ns();
                if let Input::Submit { at_ns, .. } | Input::Inject { at_ns, .. } = &mut input {
                    *at_ns += now_ns;
                }
                give(&mut machine, &input, journal.len() as u64);
                journal.push(Entry { steps, now_ns, input });
            }
            Action::Steps(count) => {
                for _ in 0..count {
                    steps += u64::from(machine.step(u64::MAX));
                    collect(&mut machine, &mut done);
                }
            }
            Action::Wait(ns) => {
                let until_ns = machine.now_ns() + ns;
                while machine.step(until_ns) {
                    steps += 1;
                    collect(&mut machine, &mut done);
                }
            }
        }
        collect(&mut machine, &mut done);
    }
    (outcome(&mut machine, done), journal)
}

fn replay(seed: u64, journal: &[Entry]) -> Outcome {
    let mut machine = machine(seed);
    let (mut steps, mut done) = (0, Vec::new());
    for (token, entry) in (0..).zip(journal) {
        while steps < entry.steps {
            assert!(machine.step(entry.now_ns), "step {steps} of {}", entry.steps);
            steps += 1;
            collect(&mut machine, &mut done);
        }
        if machine.now_ns() < entry.now_ns {
            assert!(!machine.step(entry.now_ns), "an event that was not there");
        }
        collect(&mut machine, &mut done);
        give(&mut machine, &entry.input, token);
        // A device that is lost fails its requests at once; a power cut that follows at the same
        // instant would remove these completions uncollected.
        collect(&mut machine, &mut done);
    }
    outcome(&mut machine, done)
}

/// Replays from the times alone. This is sufficient if every input comes after all events up to its time.
fn replay_by_time(seed: u64, journal: &[Entry]) -> Outcome {
    let mut machine = machine(seed);
    let mut done = Vec::new();
    for (token, entry) in (0..).zip(journal) {
        done.extend(std::iter::from_fn(|| machine.next_completion(entry.now_ns)));
        give(&mut machine, &entry.input, token);
    }
    outcome(&mut machine, done)
}

fn ops() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        8 => Just(OpKind::Write),
        6 => Just(OpKind::Read),
        1 => Just(OpKind::Flush),
        1 => Just(OpKind::Trim),
        1 => Just(OpKind::WriteZeroes),
    ];
    (kind, 0..60_u64, 1..5_u32, prop::bool::weighted(0.1)).prop_map(|(kind, unit, count, fua)| {
        let op = Op { offset_bytes: unit * 4096, len_bytes: count * 4096, kind, fua };
        if kind == OpKind::Flush { Op::FLUSH } else { op }
    })
}

fn faults() -> impl Strategy<Value = Fault> {
    let volume = 0..VOLUMES;
    prop_oneof![
        Just(Fault::PowerCut),
        (volume.clone(), 1.0..9.0_f64)
            .prop_map(|(volume, factor)| Fault::Slow { part: PartId(volume), factor }),
        volume.clone().prop_map(|volume| Fault::Hang { part: PartId(volume) }),
        volume.clone().prop_map(|volume| Fault::Lose { part: PartId(volume) }),
        (volume.clone(), 0..60_u64).prop_map(|(volume, unit)| Fault::Latent {
            part: PartId(volume),
            offset_bytes: unit * 4096,
            len_bytes: 8192
        }),
        (volume.clone(), 0..60_u64).prop_map(|(volume, unit)| Fault::Block {
            part: PartId(volume),
            offset_bytes: unit * 4096
        }),
        volume.prop_map(|volume| Fault::Clear { part: PartId(volume) }),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    // Most at once, some later.
    let ahead_ns = || prop_oneof![3 => Just(0_u64), 1 => 0..3_000_000_u64];
    let action = prop_oneof![
        8 => (ahead_ns(), 0..VOLUMES, ops())
            .prop_map(|(at_ns, volume, op)| Action::Input(Input::Submit { at_ns, volume, op })),
        1 => (ahead_ns(), faults())
            .prop_map(|(at_ns, fault)| Action::Input(Input::Inject { at_ns, fault })),
        1 => faults().prop_map(|fault| Action::Input(Input::Strike(fault))),
        4 => (0..20_u64).prop_map(Action::Steps),
        4 => (0..2_000_000_u64).prop_map(Action::Wait),
    ];
    prop::collection::vec(action, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_replays(seed in 0..4_u64, actions in actions()) {
        let (first, journal) = run(seed, &actions);
        prop_assert_eq!(&replay(seed, &journal), &first);

        // A caller that only waits for the clock needs to record only times.
        let live: Vec<Action> = actions
            .iter()
            .flat_map(|&action| match action {
                Action::Steps(count) => [Action::Wait(count * 1000), Action::Wait(0)],
                action => [Action::Wait(0), action],
            })
            .collect();
        let (first, journal) = run(seed, &live);
        prop_assert_eq!(&replay_by_time(seed, &journal), &first);
    }
}

/// A regression: a volume is lost at the instant of a power cut that has not taken effect yet.
#[test]
fn a_loss_before_a_cut_of_the_same_instant_replays() {
    let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Write, fua: false };
    let submit = |volume| Action::Input(Input::Submit { at_ns: 0, volume, op });
    let actions = [
        submit(4),
        Action::Wait(700),
        Action::Input(Input::Inject { at_ns: 0, fault: Fault::PowerCut }),
        Action::Input(Input::Strike(Fault::Lose { part: PartId(4) })),
        Action::Steps(1),
        submit(0),
    ];
    let (first, journal) = run(0, &actions);
    assert_eq!(replay(0, &journal), first);
    assert_eq!(first.done.len(), 2);
}
