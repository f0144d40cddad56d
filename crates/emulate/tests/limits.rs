//! Limits of devices as the host sees them: rates with and without burst credits, order, faults, and no effect on
//! devices without limits.

use crate::common::{self, Loop, RANDOM};

use iodyno_emulate::spec::{
    ArrayShape, CloudVolume, Counted, Credits, Device, Kind, Limit, LimitOf, Preconditioned,
    Written,
};
use iodyno_emulate::{Fault, Machine, PartId, System};
use iodyno_raid::{Level, Rotation};
use iodyno_units::rng::{Generator, below, stream};
use iodyno_units::{IoError, Op, OpKind};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const FRESH: Preconditioned = Preconditioned { how: Written::Fresh, fill: 0.0 };

/// A limit without credits.
fn plain(counts: Counted, rate: u64, window_ns: u64) -> Limit {
    Limit {
        of: LimitOf::All,
        counts,
        rate,
        window_ns,
        account_bytes: None,
        merges: false,
        credits: None,
    }
}

/// A cloud volume whose latency does not vary.
fn volume() -> CloudVolume {
    CloudVolume { varying_share: 0.0, ..common::volume() }
}

/// Memory that takes no time.
fn instant() -> Kind {
    let Kind::Memory(mut memory) = common::memory(true) else { unreachable!() };
    (memory.io_ns, memory.flush_ns) = (0, 0);
    (memory.read_bytes_per_s, memory.write_bytes_per_s) = (1e18, 1e18);
    (memory.read_passes, memory.write_passes) = (0.0, 0.0);
    Kind::Memory(memory)
}

fn device(kind: Kind, limits: Vec<Limit>) -> Device {
    Device { name: "device".to_owned(), kind, hot_swap: true, limits }
}

fn system(devices: &[Device]) -> System {
    let mut system = System::new("limits", common::host());
    for device in devices {
        system.add_device(device.clone(), FRESH, 0);
    }
    system
}

fn machine(kind: Kind, limits: Vec<Limit>) -> Machine {
    Machine::new(&system(&[device(kind, limits)]), 1).unwrap()
}

fn io(kind: OpKind, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { offset_bytes, len_bytes, kind, fua: false }
}

/// Number of completions in each of the first intervals of a closed loop of random 4 KiB reads.
fn rates(machine: &mut Machine, depth: u64, interval_ns: u64, intervals: usize) -> Vec<u64> {
    let worker = machine.add_worker(0);
    let mut random = stream(1, "limits", 0);
    let blocks = machine.capacity_bytes(0) / 4096;
    let mut op = || io(OpKind::Read, below(&mut random, blocks) * 4096, 4096);
    (0..depth).for_each(|token| {
        machine.submit(0, worker, 0, &op(), token);
    });
    let mut counts = vec![0; intervals];
    while let Some(done) = machine.next_completion(interval_ns * intervals as u64 - 1) {
        counts[(done.at_ns / interval_ns) as usize] += 1;
        machine.submit(done.at_ns, worker, 0, &op(), done.token);
    }
    assert_eq!(machine.check(), Ok(()));
    counts
}

/// The catalog's gp2 volume with few credits: serves the burst rate, then the base rate. The binding limit is the
/// busy resource.
#[test]
fn a_volume_bursts_until_its_credits_are_spent() {
    let files = crate::load::Files::new("ebs-gp2", "cloud-instance")
        .with(("iops_limit.credits", "5400"))
        .with(("iops_limit.start", "5400"));
    let (device, host) = files.read();
    let mut system = System::new("gp2", host);
    system.add_device(device, FRESH, 0);
    let mut machine = Machine::new(&system, 1).unwrap();
    let credits = |machine: &Machine| machine.stores().first().copied().unwrap();
    assert_eq!((credits(&machine).held_bytes, credits(&machine).capacity_bytes), (5400, 5400));
    let before = machine.snapshot();
    // 5400 credits last for 2 s at 3000 - 300; the window allows 300 more at once.
    let counts = rates(&mut machine, 64, S, 4);
    assert!((2900..=3300).contains(&counts[0]), "{counts:?}");
    assert!((2400..=3000).contains(&counts[1]), "{counts:?}");
    assert!((299..=365).contains(&counts[2]) && counts[3].abs_diff(300) <= 1, "{counts:?}");
    assert!(credits(&machine).held_bytes < 5);
    let usage = machine.snapshot().since(&before);
    let busy = |name: &str| {
        let of = usage.volumes[0].resources.iter().find(|resource| resource.name == name);
        of.unwrap_or_else(|| panic!("{name}: {usage:?}")).share(usage.at_ns)
    };
    let (base, burst) = (busy("IOPS limit"), busy("IOPS limit while credits last"));
    assert!(base > 0.45 && burst > 0.4 && base + burst > 0.97, "{base}, {burst}");
    // About 1,600 operations of 4 KiB a second.
    let throughput = busy("throughput limit");
    assert!((0.03..0.07).contains(&throughput), "{throughput}");
}

/// Each family of device serves exactly the rate of its limit, in operations or in bytes.
#[test]
fn every_family_serves_the_rate_of_its_limit() {
    let kinds = [
        Kind::Flash(Box::new(common::flash())),
        common::disk(true),
        common::memory(true),
        Kind::Volume(Box::new(volume())),
    ];
    for kind in kinds {
        for limit in [plain(Counted::Operations, 50, MS), plain(Counted::Bytes, 50 * 4096, 20 * MS)]
        {
            let limits = vec![limit, plain(Counted::Operations, 1_000_000, MS)];
            let counts = rates(&mut machine(kind.clone(), limits), 4, S, 4);
            assert!(counts[1..].iter().all(|&count| count == 50), "{kind:?}: {counts:?}");
        }
    }
}

/// A limit that never binds changes no event of any device.
#[test]
fn a_limit_that_never_binds_changes_no_event() {
    let load = Loop { read_share: 0.5, ..Loop::reads(8) };
    let kinds = [Kind::Flash(Box::new(common::flash())), common::disk(true), common::memory(true)];
    for kind in kinds.into_iter().chain([Kind::Volume(Box::new(volume()))]) {
        let is_memory = matches!(kind, Kind::Memory(_));
        let run = |limits: Vec<Limit>| {
            let mut system = System::new("test", common::host());
            let state = Preconditioned { how: RANDOM, fill: 1.0 };
            system.add_device(device(kind.clone(), limits), state, 0);
            load.run(&mut Machine::new(&system, 1).unwrap())
        };
        let without = run(Vec::new());
        let with = run(vec![plain(Counted::Operations, 100_000_000, S)]);
        // Memory starts with an event behind a limit, and at once without one.
        if !is_memory {
            assert_eq!(without, with);
        }
        assert!((without.iops - with.iops).abs() / without.iops < 1e-3);
    }
}

/// A random limit with small numbers, so that its buckets run empty and fill often.
fn random_limit(random: &mut Generator) -> Limit {
    let mut draw = |from: u64, to: u64| from + below(random, to - from);
    let counts = if draw(0, 2) == 0 { Counted::Operations } else { Counted::Bytes };
    let scale = if counts == Counted::Bytes { 4096 } else { 1 };
    let rate = draw(10, 5000) * scale;
    let account_bytes = [None, Some(4096), Some(64 << 10)][draw(0, 3) as usize];
    let credits = (draw(0, 2) == 0).then(|| Credits {
        most: draw(1, 500) * scale,
        start: draw(0, 600) * scale,
        burst: rate + draw(1, 9000) * scale,
    });
    let merges = account_bytes.is_some() && draw(0, 2) == 0;
    Limit {
        of: [LimitOf::All, LimitOf::All, LimitOf::Reads, LimitOf::Writes][draw(0, 4) as usize],
        counts,
        rate,
        window_ns: draw(1, 200) * MS,
        account_bytes,
        merges,
        credits,
    }
}

/// The least size of a bucket and the rate at which it fills, for each bucket of a limit.
fn buckets(limit: &Limit) -> Vec<(u64, u64)> {
    let window = |rate: u64| {
        ((u128::from(rate) * u128::from(limit.window_ns) / 1_000_000_000) as u64).max(1)
    };
    match &limit.credits {
        None => vec![(window(limit.rate), limit.rate)],
        Some(c) => vec![(c.most.max(c.start), limit.rate), (window(c.burst), c.burst)],
    }
}

/// In every interval, the admitted units are at most the bucket's size plus its refill in the interval (or one
/// operation, if it is larger than the bucket). Requests start in the order of their arrival; if a limit counts only
/// reads or only writes, this holds for reads and for other requests separately. All requests start.
#[test]
fn no_interval_admits_more_than_the_limit_and_order_is_kept() {
    for seed in 0..60 {
        let mut random = stream(seed, "limits", 0);
        let limits: Vec<Limit> =
            (0..=below(&mut random, 2)).map(|_| random_limit(&mut random)).collect();
        let mut machine = machine(instant(), limits.clone());
        let worker = machine.add_worker(0);
        let (mut at_ns, mut ops) = (0, Vec::new());
        for token in 0..300 {
            if below(&mut random, 4) == 0 {
                at_ns += below(&mut random, 300 * MS);
            }
            let len = 4096 << below(&mut random, 7);
            let kind = [OpKind::Read, OpKind::Write, OpKind::Trim][below(&mut random, 3) as usize];
            let op = io(kind, below(&mut random, 1 << 10) * (1 << 19), len);
            while machine.next_event().is_some_and(|next| next < at_ns) {
                machine.step(at_ns);
            }
            machine.submit(at_ns, worker, 0, &op, token);
            ops.push((op, at_ns));
        }
        // Reads and others are in lines of their own if a limit counts only one of the two.
        let has_lines = limits.iter().any(|limit| limit.of != LimitOf::All);
        let line = |token: u64| has_lines && ops[token as usize].0.kind != OpKind::Read;
        let (mut starts, mut last) = (vec![None; ops.len()], [None; 2]);
        while let Some(done) = machine.next_completion(u64::MAX) {
            let last = &mut last[usize::from(line(done.token))];
            assert!(done.failure.is_none() && *last < Some(done.token), "seed {seed}: {done:?}");
            *last = Some(done.token);
            assert!(done.at_ns >= ops[done.token as usize].1, "seed {seed}");
            starts[done.token as usize] = Some(done.at_ns);
        }
        let starts: Option<Vec<u64>> = starts.into_iter().collect();
        let starts = starts.unwrap_or_else(|| panic!("seed {seed}: some never started"));
        for limit in &limits {
            // Without merging a cost is known; with it, this is an upper bound, so only the length is certain.
            let cost = |op: &Op| {
                let len = u64::from(op.len_bytes);
                let unit = limit.account_bytes.filter(|_| !limit.merges);
                match limit.counts {
                    Counted::Operations if limit.merges => 0,
                    Counted::Operations => unit.map_or(1, |unit| len.div_ceil(unit)),
                    Counted::Bytes => unit.map_or(len, |unit| len.next_multiple_of(unit)),
                }
            };
            let counts = |op: &Op| match limit.of {
                LimitOf::All => true,
                LimitOf::Reads => op.kind == OpKind::Read,
                LimitOf::Writes => op.kind != OpKind::Read,
            };
            let counted = ops.iter().zip(&starts).filter(|((op, _), _)| counts(op));
            let mut counted: Vec<(u64, u64)> =
                counted.map(|((op, _), start)| (*start, cost(op))).collect();
            counted.sort_unstable();
            for (size, rate) in buckets(limit) {
                let most = size.max(counted.iter().map(|of| of.1).max().unwrap());
                let slack = limit.account_bytes.filter(|_| limit.merges).unwrap_or(0);
                for first in 0..counted.len() {
                    let mut admitted = 0_u128;
                    for last in first..counted.len() {
                        admitted += u128::from(counted[last].1);
                        let elapsed_ns = u128::from(counted[last].0 - counted[first].0);
                        let gained = elapsed_ns * u128::from(rate) / 1_000_000_000;
                        let allowed = u128::from(most + slack) + gained + 1;
                        assert!(
                            admitted <= allowed,
                            "seed {seed}: {admitted} of {allowed} from {first} to {last}, {limit:?}"
                        );
                    }
                }
            }
        }
    }
}

/// A power cut drops waiting requests and keeps the level of the credits; a fork continues as the original.
#[test]
fn a_power_cut_drops_what_waits_and_keeps_the_credits() {
    let credits = Some(Credits { most: 1000, start: 1000, burst: 10_000 });
    let limits = vec![Limit { credits, ..plain(Counted::Operations, 10, 100 * MS) }];
    let mut machine = machine(Kind::Volume(Box::new(volume())), limits);
    machine.keep_content();
    let worker = machine.add_worker(0);
    for token in 0..1500 {
        machine.submit(0, worker, 0, &io(OpKind::Write, token * 4096, 4096), token);
    }
    let mut acknowledged = Vec::new();
    while let Some(done) = machine.next_completion(S) {
        acknowledged.push(done.token);
    }
    // 1000 credits, and 10 that accrued.
    assert!((1008..=1010).contains(&acknowledged.len()), "{}", acknowledged.len());
    let mut fork = machine.fork();
    let later = |machine: &mut Machine| {
        let done: Vec<_> = std::iter::from_fn(|| machine.next_completion(2 * S)).collect();
        (done, machine.event_hash())
    };
    let continued = later(&mut machine);
    assert_eq!(continued.0.len(), 10);
    assert_eq!(later(&mut fork), continued);
    machine.inject(2 * S, Fault::PowerCut);
    assert!(machine.next_completion(3 * S).is_none());
    acknowledged.extend(continued.0.iter().map(|done| done.token));
    let kept = |token: &u64| machine.content(0, token * 4096) == Some(*token);
    assert!(acknowledged.iter().all(kept));
    // The bucket is as empty as before: what accrued in the second since then, and no more.
    for token in 0..100 {
        machine.submit(3 * S, worker, 0, &io(OpKind::Read, token * 4096, 4096), token);
    }
    let after = std::iter::from_fn(|| machine.next_completion(4 * S)).count();
    assert!((18..=21).contains(&after), "{after}");
    assert_eq!(machine.check(), Ok(()));
}

/// A lost device fails the requests that wait for its limit, and a replacement starts with a new bucket.
#[test]
fn a_lost_device_fails_what_waits_for_its_limit() {
    for kind in [Kind::Volume(Box::new(volume())), common::memory(true)] {
        let mut machine = machine(kind, vec![plain(Counted::Operations, 10, S)]);
        let worker = machine.add_worker(0);
        for token in 0..50 {
            machine.submit(0, worker, 0, &io(OpKind::Read, token * 4096, 4096), token);
        }
        machine.inject(150 * MS, Fault::Lose { part: PartId(0) });
        let done: Vec<_> = std::iter::from_fn(|| machine.next_completion(S)).collect();
        let failed = done.iter().filter(|done| done.failure == Some(IoError::Gone)).count();
        assert_eq!((done.len(), failed), (50, 39));
        machine.inject(S, Fault::Replace { part: PartId(0) });
        machine.next_completion(S + 1);
        for token in 0..11 {
            machine.submit(2 * S, worker, 0, &io(OpKind::Read, token * 4096, 4096), token);
        }
        let done: Vec<_> =
            std::iter::from_fn(|| machine.next_completion(2 * S + 50 * MS)).collect();
        assert_eq!((done.len(), done[0].failure), (10, None));
        assert_eq!(machine.check(), Ok(()));
    }
}

/// Each member of an array has its own limit, and the array survives the loss and the rebuild of a member.
#[test]
fn every_member_of_an_array_has_its_own_limit() {
    let limit = plain(Counted::Operations, 1000, MS);
    let mut kind = volume();
    kind.capacity_bytes = 16 << 20;
    let members = vec![device(Kind::Volume(Box::new(kind)), vec![limit]); 4];
    let mut system = system(&members);
    let shape = ArrayShape {
        level: Level::Raid5,
        members: 4,
        strip_bytes: 64 << 10,
        rotation: Rotation::LeftSymmetric,
    };
    system.group(vec![(0..4, Some((shape, "array".to_owned())))]).unwrap();
    let mut machine = Machine::new(&system, 1).unwrap();
    machine.keep_content();
    let counts = rates(&mut machine, 256, S, 3);
    assert!((3600..=4000).contains(&counts[2]), "{counts:?}");
    let worker = 0;
    while machine.next_completion(u64::MAX).is_some() {}
    let now_ns = machine.now_ns();
    for token in 1..=64 {
        machine.submit(now_ns, worker, 0, &io(OpKind::Write, token * 4096, 4096), token);
    }
    while machine.next_completion(u64::MAX).is_some() {}
    machine.apply_fault(&Fault::Replace { part: PartId(1) });
    while machine.next_completion(u64::MAX).is_some() {}
    assert!(
        machine.array_state(0).is_some_and(|state| !state.lost),
        "{:?}",
        machine.array_state(0)
    );
    for token in 1..=64 {
        assert_eq!(machine.content(0, token * 4096), Some(token));
    }
}

/// Limits of reads and of writes, each of which binds alone. Waiting writes don't delay reads, and reads and writes
/// each have their rate. With a third limit that counts both, the earlier of the first waiting read and the first
/// waiting write starts next, so neither starves.
#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let of = |of, rate| Limit { of, ..plain(Counted::Operations, rate, 10 * MS) };
    let both = vec![of(LimitOf::Reads, 1000), of(LimitOf::Writes, 100)];
    let served = |limits: &[Limit], ms: u64| {
        let mut machine = machine(instant(), limits.to_vec());
        let worker = machine.add_worker(0);
        // All writes arrive first.
        for token in 0..4000 {
            let kind = if token < 2000 { OpKind::Write } else { OpKind::Read };
            machine.submit(0, worker, 0, &io(kind, token * 4096, 4096), token);
        }
        let mut done = [0, 0];
        while let Some(completion) = machine.next_completion(ms * MS) {
            // In order of arrival in each line.
            let line = usize::from(completion.token >= 2000);
            assert_eq!(completion.token, done[line] + 2000 * line as u64);
            done[line] += 1;
        }
        assert_eq!(machine.check(), Ok(()));
        done
    };
    // The window is 10 reads, and 1 write.
    assert_eq!(served(&both, 1000), [101, 1010]);
    // A write waits for its own limit, then for its turn at that of both, and its own bucket holds one write.
    let all = vec![plain(Counted::Operations, 550, MS)];
    let [writes, reads] = served(&[all, both].concat(), 1000);
    assert!((84..=101).contains(&writes), "{writes} writes");
    assert!((550..=551).contains(&(writes + reads)), "{writes} writes, {reads} reads");
}

/// A closed loop of random reads on each volume. Returns the completions of each volume in each second.
fn rates_of_volumes(machine: &mut Machine, depth: u64, seconds: u64) -> Vec<Vec<u64>> {
    let workers: Vec<u32> = (0..machine.volumes()).map(|v| machine.add_worker(v)).collect();
    let mut random = stream(1, "instance", 0);
    let mut op = || io(OpKind::Read, below(&mut random, 1 << 10) * 4096, 4096);
    for token in 0..depth {
        for (volume, &worker) in (0..).zip(&workers) {
            machine.submit(0, worker, volume, &op(), token);
        }
    }
    let mut counts = vec![vec![0; seconds as usize]; workers.len()];
    while let Some(done) = machine.next_completion(seconds * S - 1) {
        if done.failure.is_some() {
            continue;
        }
        counts[done.volume as usize][(done.at_ns / S) as usize] += 1;
        machine.submit(done.at_ns, done.worker, done.volume, &op(), done.token);
    }
    assert_eq!(machine.check(), Ok(()));
    counts
}

/// The volumes of an instance share its limit. Together they have the limit's rate, equal volumes get equal parts, a
/// volume with a lower limit of its own keeps to it, a lost volume leaves its part to the others, and credits are
/// shared. A limit that does not bind changes no event.
#[test]
fn volumes_share_the_limit_of_their_instance() {
    let of = |rates: &[u64], instance: Vec<Limit>| {
        let volume = |rate| {
            let limit = plain(Counted::Operations, rate, MS);
            device(Kind::Volume(Box::new(volume())), vec![limit])
        };
        let mut system = system(&rates.iter().map(|&rate| volume(rate)).collect::<Vec<_>>());
        system.limits = instance;
        Machine::new(&system, 1).unwrap()
    };
    let sum = |counts: &[Vec<u64>], second: usize| counts.iter().map(|of| of[second]).sum::<u64>();
    let instance = |rate| vec![plain(Counted::Operations, rate, MS)];
    let mut machine = of(&[1000; 4], instance(2500));
    let counts = rates_of_volumes(&mut machine, 64, 3);
    assert!((1..3).all(|second| sum(&counts, second).abs_diff(2500) <= 2), "{counts:?}");
    assert!(counts.iter().all(|of| of[2].abs_diff(625) <= 3), "{counts:?}");
    let usage = machine.snapshot();
    let binds = |of: &str| usage.volumes[0].resources.iter().find(|r| r.name == of).unwrap();
    assert!(binds("IOPS limit of the instance").share(usage.at_ns) > 0.98);

    let counts = rates_of_volumes(&mut of(&[100, 1000, 1000], instance(1500)), 64, 3);
    assert!(counts[0][2].abs_diff(100) <= 1 && sum(&counts, 2).abs_diff(1500) <= 2, "{counts:?}");

    let mut machine = of(&[1000; 4], instance(2500));
    machine.inject(S + 3, Fault::Lose { part: PartId(1) });
    machine.inject(2 * S + 500 * MS, Fault::PowerCut);
    let counts = rates_of_volumes(&mut machine, 64, 4);
    assert_eq!(counts[1][2], 0);
    assert!((1200..=1260).contains(&sum(&counts, 2)) && sum(&counts, 3) == 0, "{counts:?}");

    let credits = Some(Credits { most: 3000, start: 3000, burst: 2500 });
    let bursts = vec![Limit { credits, ..plain(Counted::Operations, 1000, MS) }];
    let counts = rates_of_volumes(&mut of(&[1000; 4], bursts), 64, 4);
    // 3000 credits last for 2 s at 2500 - 1000.
    assert!(
        [2500, 2500, 1000, 1000]
            .into_iter()
            .zip(0..)
            .all(|(rate, second)| sum(&counts, second).abs_diff(rate) <= 5),
        "{counts:?}"
    );

    let hash = |limits| {
        let mut machine = of(&[1000; 4], limits);
        let counts = rates_of_volumes(&mut machine, 64, 2);
        (counts, machine.event_hash())
    };
    assert_eq!(hash(Vec::new()), hash(instance(1_000_000)));
}
