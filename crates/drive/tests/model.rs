//! Cells in virtual time compared with closed forms, through the whole path: sources, machine,
//! recorders, assembly. The device is the simplest possible: every I/O takes the same time, one at
//! a time. The tests measure this time first, and calculate the rest from it.

use iodyno_drive::{
    CellPlan, DriveError, Medium, Modelled, Observer, Progress, TargetPlan, Unobserved, Walks,
    drive_cell, drive_model,
};
use iodyno_emulate::System;
use iodyno_emulate::spec::{
    Device, Host, Kind, Memory, MemoryKind, MemoryMode, Preconditioned, Slots, Written,
};
use iodyno_measure::verdict::{Level, Verdict, judge};
use iodyno_measure::{Cell, Ended, Interval};
use iodyno_units::OpKind;
use iodyno_workload::{CellSpec, Settle, Spec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn host() -> Host {
    Host {
        sockets: 4,
        cores_per_socket: 16,
        generator_ns: 1000,
        wake_ns: 0,
        memory_bytes_per_s: 1e12,
        memory_channel_bytes_per_s: 1e12,
        memory_balanced: true,
        unbalanced_share: 1.0,
        remote_copy_factor: 1.0,
        workers_near: true,
        driver_write_ns: 0,
        slots: Slots {
            flash_dimms_per_socket: 0,
            channels_per_socket: 4,
            rdimms_per_channel: 1,
            memory_kind: MemoryKind::Rdimm,
            memory_mode: MemoryMode::Independent,
        },
    }
}

/// A host with `volumes` memory devices of 64 MiB each.
fn system(volumes: u32) -> Arc<System> {
    let memory = Memory {
        capacity_bytes: 64 << 20,
        io_ns: 1000,
        read_bytes_per_s: 1e12,
        write_bytes_per_s: 1e12,
        read_passes: 1.0,
        write_passes: 1.0,
        flush_ns: 0,
        varying_share: 0.0,
        queues: false,
        protected: false,
    };
    let device = Device {
        name: "plain".to_owned(),
        kind: Kind::Memory(Box::new(memory)),
        hot_swap: true,
        limits: Vec::new(),
    };
    let state = Preconditioned { how: Written::Sequential, fill: 1.0 };
    let mut system = System::new("plain", host());
    for number in 0..volumes {
        system.add_device(device.clone(), state, number % 4);
    }
    Arc::new(system)
}

fn spec(text: &str) -> Spec {
    Spec::from_toml(&format!("schema = 1\n{text}")).unwrap_or_else(|e| panic!("{e:?}"))
}

fn plan(spec: &Spec, system: &Arc<System>) -> CellPlan {
    let target = |volume| TargetPlan::model(format!("model:plain#{volume}"), system, volume);
    let interval_ns = Some(20_000_000);
    let cell = CellSpec { seed: 7, interval_ns, ..CellSpec::new("cell", spec.clone()) };
    CellPlan::new(cell, (0..system.volumes.len() as u32).map(target).collect())
}

fn modelled(text: &str, volumes: u32) -> Modelled {
    let spec = spec(text);
    let plan = plan(&spec, &system(volumes));
    drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap()
}

fn run(text: &str) -> Cell {
    modelled(text, 1).cells.remove(0)
}

/// Duration of one read that is alone, from submission to completion, and time from one submission
/// to the next, ns.
fn alone() -> (f64, f64) {
    let cell = run("[mix]\nread = 1\n[limits]\ntime = \"1s\"\nramp = \"10ms\"");
    let latency = cell.total().class(OpKind::Read).unwrap().service.mean_ns().unwrap();
    (latency, 1e9 / cell.per_second(cell.total().ops() as f64))
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} where {expected} was expected");
}

/// The sums of a cell that ran to its end without a failure agree to the nanosecond, and no verdict
/// questions them.
#[track_caller]
fn assert_balanced(cell: &Cell) {
    let total = cell.total();
    let summed: u128 = total.iter().map(|(_, c)| c.service.sum_ns()).sum();
    let r = &cell.resources;
    assert_eq!(
        summed as i128 + r.carried_out_ns - r.carried_in_ns,
        r.outstanding_area_ns as i128,
        "throughput times latency is what was in flight"
    );
    assert!(cell.evidence.virtual_time && !cell.evidence.in_process);
    assert!(r.cpu_user_ns.is_empty() && cell.evidence.clock_error_ppm.is_none());
    let verdicts = judge(cell);
    let doubts = |v: &Verdict| v.level >= Level::Warning && v.code != "FEW_OPERATIONS";
    assert!(!verdicts.iter().any(doubts), "{verdicts:?}");
}

/// A worker that has one I/O in flight is bound by latency and by the generator's time: its rate is
/// 1 / (L + g).
#[test]
fn one_at_a_time_takes_latency_and_generator() {
    let cell = run("[mix]\nread = 1\n[limits]\ntime = \"1s\"\nramp = \"10ms\"");
    assert_eq!((cell.window_ns, cell.ended), (1_000_000_000, Ended::Time));
    assert_balanced(&cell);
    let (latency, period) = alone();
    let service = cell.total().class(OpKind::Read).unwrap().service.clone();
    assert_eq!(service.min_ns(), service.max_ns(), "nothing disturbs it");
    // Exact to one operation more or less in the window.
    near(period - latency, 1000.0, 0.02);
    near(cell.oio_mean(), latency / period, 1e-3);
    // Intervals are of virtual time: each holds its share.
    assert_eq!(cell.series.len(), 50);
    for interval in &cell.series {
        near(interval.ops() as f64, 20e6 / period, 0.01);
    }
}

/// A window may begin or end while the generator is still at work on an operation, which is in
/// flight only from its hand-over on.
#[test]
fn a_window_may_begin_and_end_in_the_generator() {
    let (_, period) = alone();
    // Half-way through the generator's work after this many completions, and just before one.
    let within = |completions: f64| (completions * period) as u64 + 500;
    let before = |completion: f64| (completion * period) as u64 - 2000;
    for (ramp, end, ops) in [
        (within(3.0), before(13.0), 9),
        (before(3.0), within(13.0), 11),
        (within(3.0), within(13.0), 10),
    ] {
        let time = end - ramp;
        let cell =
            run(&format!("[mix]\nread = 1\n[limits]\ntime = \"{time}ns\"\nramp = \"{ramp}ns\""));
        assert_eq!(cell.total().ops(), ops);
        assert_balanced(&cell);
    }
}

/// As on real storage, a second cell continues where the first one ended, separately for each worker.
#[test]
fn sequential_cells_continue_where_the_previous_one_ended() {
    let spec = spec(
        "threads = 2\nblock = \"4KiB\"\n[mix]\nread = 1\n[read]\naddresses = { pattern = \"sequential\" }\n[limits]\nops = 200\nramp = \"0s\"",
    );
    let (system, walks) = (system(2), Arc::new(Walks::default()));
    let run = |walks| {
        let plan = CellPlan { walks, ..plan(&spec, &system) };
        drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap();
    };
    let came = |target, worker| walks.of(target, worker)[0];
    run(Some(Arc::clone(&walks)));
    // Half of the range is the second worker's: 64 MiB are 16384 blocks.
    let first = [came(0, 0), came(0, 1), came(1, 0), came(1, 1)];
    assert_eq!(first, [100, 8292, 100, 8292]);
    run(None);
    run(Some(Arc::clone(&walks)));
    assert_eq!([came(0, 0), came(0, 1), came(1, 0), came(1, 1)], [200, 8392, 200, 8392]);
}

/// Workers that submit many operations at one instant do not delay each other. From the first operation on, each core
/// has the rate that it has alone, even with few operations.
#[test]
fn workers_that_submit_ahead_do_not_wait_for_one_another() {
    let (_, apart) = alone();
    for (threads, depth) in [(1, 32), (16, 1), (16, 32)] {
        let cell = run(&format!(
            "threads = {threads}\ndepth = {depth}\n[mix]\nread = 1\n[limits]\nops = 3200\nramp = \"0s\""
        ));
        assert_eq!(cell.ended, Ended::Ops);
        near(cell.per_second(3200.0), f64::from(threads) * 1e9 / apart, 0.02);
    }
}

/// Closed loops with think time: each of D slots issues an operation every L + g + Z (latency, generator time and think
/// time). If think time drains the queue, all D slots wait for the last operation of the batch.
#[test]
fn thinking_users_come_round_in_their_time() {
    let (_, period) = alone();
    for drains in [false, true] {
        let cell = run(&format!(
            "threads = 3\ndepth = 4\n[mix]\nread = 1\n\
             [arrivals]\nkind = \"closed\"\nthink_time = \"5ms\"\nthink_drains = {drains}\n\
             [limits]\ntime = \"2s\"\nramp = \"50ms\""
        ));
        assert_balanced(&cell);
        let users = 3.0 * 4.0;
        near(cell.per_second(cell.total().ops() as f64), users * 1e9 / (period + 5e6), 0.01);
    }
}

/// An open loop keeps its rate whatever the device does, and its schedule is absolute.
#[test]
fn an_open_loop_keeps_its_rate() {
    let (latency, _) = alone();
    for process in ["poisson", "constant"] {
        let text = format!(
            "threads = 2\ndepth = 64\n[mix]\nread = 70\nwrite = 30\n\
             [arrivals]\nkind = \"open\"\nrate = \"20k/s\"\nprocess = \"{process}\"\n\
             [limits]\ntime = \"5s\"\nramp = \"100ms\""
        );
        let cell = run(&text);
        assert_balanced(&cell);
        // 100 000 arrivals: a Poisson count is within 4 sigma of that, a comb exact.
        let tolerance = if process == "poisson" { 4.0 / 100_000_f64.sqrt() } else { 1e-4 };
        near(cell.total().ops() as f64, 100_000.0, tolerance);
        // In flight: rate times latency.
        near(cell.oio_mean(), 20e3 * latency / 1e9, 0.05);
        let lateness = cell.lateness.as_ref().unwrap();
        assert!(lateness.min_ns().unwrap() >= 1000, "the generator's own time is in it");
        let response = cell.total().class(OpKind::Read).unwrap().response.clone().unwrap();
        assert!(response.mean_ns().unwrap() > latency);
        assert!(judge(&cell).iter().any(|v| v.code == "RATE_MET"));
    }
}

/// If more is offered than the device can do, operations are late, and those that were due but never submitted are
/// counted.
#[test]
fn an_overload_is_a_backlog() {
    let (latency, period) = alone();
    let possible = 256.0 / (period.max(latency) / 1e9);
    let cell = run(&format!(
        "depth = 1\n[mix]\nread = 1\n\
         [arrivals]\nkind = \"open\"\nrate = {}\nprocess = \"constant\"\n\
         [limits]\ntime = \"100ms\"\nramp = \"10ms\"",
        (4.0 * possible) as u64
    ));
    let done = cell.total().ops() as f64;
    assert!(cell.backlog_ops > 0, "{done}");
    // Each operation that was due before the end was completed, is in flight, or is in the backlog.
    let due = 4.0 * possible * 0.11;
    let in_ramp = cell.resources.moved_bytes as f64 / 4096.0 - done;
    near(done + in_ramp + cell.backlog_ops as f64, due, 256.0 / due + 1e-3);
    assert!(judge(&cell).iter().any(|v| v.code == "RATE_MISSED"));
}

/// Operations and bytes are limits that are met exactly, over all workers of a target.
#[test]
fn limits_are_exact() {
    for (limit, ops, ended) in [
        ("ops = 10001", 10_001, Ended::Ops),
        ("ops = 2", 2, Ended::Ops),
        ("bytes = \"39996KiB\"", 9999, Ended::Bytes),
    ] {
        let cell = run(&format!(
            "threads = 3\ndepth = 8\nblock = \"4KiB\"\n[mix]\nread = 50\nwrite = 50\n\
             [limits]\n{limit}\nramp = \"0s\""
        ));
        assert_eq!((cell.total().ops(), cell.ended), (ops, ended), "{limit}");
        assert_eq!(cell.resources.moved_bytes, ops * 4096);
        assert_eq!(cell.resources.carried_out_ns, 0, "no excess operation was issued");
        assert_balanced(&cell);
    }
    // Completions of a ramp do not count towards the limit.
    let cell =
        run("depth = 8\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\nops = 5000\nramp = \"100ms\"");
    assert_eq!(cell.total().ops(), 5000);
    assert!(cell.resources.moved_bytes > 5000 * 4096);
    assert_balanced(&cell);
}

/// Trims and zeroes move no data, but count towards a limit of bytes.
#[test]
fn what_trims_cover_has_not_moved() {
    let cell = run(
        "depth = 8\nblock = \"4KiB\"\n[mix]\nread = 2\nwrite = 1\ntrim = 1\nwrite_zeroes = 1\n\
         [limits]\nbytes = \"40000KiB\"\nramp = \"0s\"",
    );
    let total = cell.total();
    assert_eq!((total.ops(), cell.ended), (10_000, Ended::Bytes));
    assert!(total.class(OpKind::Trim).is_some() && total.class(OpKind::WriteZeroes).is_some());
    assert_eq!(cell.resources.moved_bytes, total.bytes());
}

/// Every kind of operation is counted separately, also if windows begin and end with operations in flight.
#[test]
fn every_kind_is_counted_apart() {
    let cell = run(
        "threads = 5\ndepth = 7\nblock = [{ size = \"4KiB\", share = 1 }, { size = \"64KiB\", share = 1 }]\n\
         [mix]\nread = 40\nwrite = 30\nflush = 10\ntrim = 10\nwrite_zeroes = 10\n\
         [write]\nfua = \"10%\"\nflush_every = 10\n\
         [limits]\ntime = \"777777ns\"\nramp = \"33333ns\"",
    );
    assert_eq!(cell.total().iter().count(), 5);
    assert!(cell.resources.carried_out_ns > 0);
    assert_balanced(&cell);
}

/// Emulated storage has no content to verify: the cell records that, and nothing else differs.
#[test]
fn verified_content_is_not_claimed() {
    let text = |content| {
        format!(
            "depth = 8\n[mix]\nread = 50\nwrite = 50\n[content]\nkind = \"{content}\"\n\
             [limits]\nops = 1000\nramp = \"0s\""
        )
    };
    let mut cell = run(&text("verifiable"));
    assert!(cell.facts.remove("content").unwrap().contains("not verified"));
    assert_eq!(cell, run(&text("incompressible")));
}

/// Equal seeds give equal cells, and different seeds different ones.
#[test]
fn equal_plans_give_equal_cells() {
    let text = "threads = 4\ndepth = 8\n[mix]\nread = 70\nwrite = 30\n\
                [arrivals]\nkind = \"open\"\nrate = \"50k/s\"\n\
                [limits]\ntime = \"300ms\"\nramp = \"20ms\"";
    let [a, b] = [modelled(text, 3), modelled(text, 3)];
    assert_eq!((&a.cells, a.completions), (&b.cells, b.completions));
    let spec = spec(text);
    let mut other = plan(&spec, &system(3));
    other.cell.seed = 8;
    let c = drive_model(&other, &AtomicBool::new(false), &mut Unobserved).unwrap();
    assert_ne!(a.cells, c.cells);
    // Targets have different streams.
    assert_ne!(a.cells[0].total(), a.cells[1].total());
    // Concurrent runs, each in a thread, give the same results.
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| modelled(text, 3).cells)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), a.cells);
        }
    });
}

/// 32 targets run on one machine; each has a cell, and the merged cell is their sum.
#[test]
fn many_targets_are_one_machine_and_merge_to_their_sum() {
    let text = "threads = 2\ndepth = 4\n[mix]\nread = 1\n[limits]\ntime = \"50ms\"\nramp = \"5ms\"";
    let modelled = modelled(text, 32);
    assert_eq!((modelled.cells.len(), modelled.machine.volumes()), (32, 32));
    let mut all = modelled.cells[0].clone();
    for cell in &modelled.cells[1..] {
        assert!(cell.total().ops() > 0);
        all.merge(cell);
    }
    let sum = |f: &dyn Fn(&Cell) -> u64| modelled.cells.iter().map(f).sum::<u64>();
    assert_eq!(all.total().ops(), sum(&|c| c.total().ops()));
    assert_eq!(all.window_ns, 50_000_000);
    assert_balanced(&all);
    near(all.oio_mean(), modelled.cells.iter().map(Cell::oio_mean).sum(), 1e-9);
}

/// The intervals that the observer receives add up to the cells.
#[test]
fn the_observer_receives_every_interval_once() {
    #[derive(Default)]
    struct CountingObserver {
        cells: Vec<Cell>,
        ops: u64,
        last_index: usize,
        elapsed: Vec<u64>,
    }
    impl Observer for CountingObserver {
        fn ready(&mut self, cells: &[Cell]) {
            self.cells = cells.to_vec();
        }
        fn interval(&mut self, _: usize, index: usize, interval: &Interval) {
            self.ops += interval.ops();
            self.last_index = self.last_index.max(index);
        }
        fn tick(&mut self, progress: &Progress<'_>) {
            self.elapsed.push(progress.elapsed_ns);
        }
    }
    let spec = spec("depth = 4\n[mix]\nread = 1\n[limits]\ntime = \"500ms\"\nramp = \"50ms\"");
    let plan = plan(&spec, &system(2));
    let mut observer = CountingObserver::default();
    let stop = Arc::new(AtomicBool::new(false));
    let cells = drive_cell(&plan, &stop, &mut observer).unwrap();
    assert!(observer.cells.len() == 2 && observer.cells.iter().all(|c| c.evidence.virtual_time));
    assert_eq!(observer.ops, cells.iter().map(|c| c.total().ops()).sum::<u64>());
    assert_eq!(observer.last_index, 24);
    assert!(observer.elapsed.is_sorted());
    assert!(cells.iter().all(|c| c.series.len() == 25 && c.facts["time"] == "virtual"));
}

/// Stopped by a signal: what was counted is kept, and the cell records the stop.
#[test]
fn a_stop_keeps_what_was_counted() {
    struct Stopper<'a>(&'a AtomicBool);
    impl Observer for Stopper<'_> {
        fn tick(&mut self, progress: &Progress<'_>) {
            self.0.store(progress.elapsed_ns > 1_000_000_000, Ordering::Relaxed);
        }
    }
    let spec = spec("depth = 4\n[mix]\nread = 1\n[limits]\ntime = \"1000h\"\nramp = \"10ms\"");
    let plan = plan(&spec, &system(1));
    let stop = AtomicBool::new(false);
    let cell = drive_model(&plan, &stop, &mut Stopper(&stop)).unwrap().cells.remove(0);
    assert_eq!(cell.ended, Ended::Interrupted);
    assert!(cell.window_ns > 900_000_000 && cell.total().ops() > 0);
    assert_eq!(cell.series.len() as u64, cell.window_ns.div_ceil(20_000_000));
}

/// Reads of units that were never written are detected.
#[test]
fn a_fresh_device_is_not_taken_for_a_full_one() {
    let mut fresh = (*system(1)).clone();
    for (how, fill, active, written) in [
        (Written::Fresh, 1.0, "", 0.0),
        (Written::Sequential, 0.5, "", 0.5),
        (Written::Sequential, 0.5, "active = \"0..32MiB\"\n", 1.0),
        (Written::Random { block_bytes: 4096 }, 0.5, "active = \"16MiB..48MiB\"\n", 0.5),
    ] {
        fresh.volumes[0].state = Preconditioned { how, fill };
        let system = Arc::new(fresh.clone());
        let spec = spec(&format!("{active}[mix]\nread = 1\n[limits]\nops = 10\nramp = \"0s\""));
        let plan = plan(&spec, &system);
        let cell = drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap().cells;
        assert_eq!(cell[0].evidence.written_share, Some(written), "{how:?} {active}");
        let said = judge(&cell[0]).iter().any(|v| v.code == "NEVER_WRITTEN");
        assert_eq!(said, written < 1.0);
    }
}

/// Runs a cell that ends before its time limit once the relative half width of its confidence intervals is at most
/// `half_width_share_max`.
fn settled(text: &str, half_width_share_max: f64) -> Cell {
    let spec = spec(text);
    let settle = Settle {
        half_width_share_max,
        time_min_ns: 64_000_000,
        batches_min: Settle::BATCHES,
        ops_min: 1000,
    };
    let mut plan = plan(&spec, &system(1));
    plan.cell.emulation.settle = Some(settle);
    drive_model(&plan, &AtomicBool::new(false), &mut Unobserved).unwrap().cells.remove(0)
}

/// A closed loop on a device with a constant service time settles at the first check. The cell equals one with that
/// time limit, down to the last operation in flight.
#[test]
fn a_constant_ends_at_the_shortest_window() {
    let text = |time| {
        format!(
            "threads = 3\ndepth = 4\n[mix]\nread = 1\n[limits]\ntime = \"{time}\"\nramp = \"7ms\""
        )
    };
    let mut early = settled(&text("1h"), 0.01);
    assert_eq!((early.window_ns, early.ended), (64_000_000, Ended::Settled));
    assert_eq!(early.series.len(), 4, "of 20 ms");
    assert_balanced(&early);
    let words = early.evidence.settled.take().unwrap();
    assert_eq!(early.facts.remove("ended early").as_ref(), Some(&words));
    assert!(words.starts_with("steady after 64 ms of 60 min"), "{words}");
    early.ended = Ended::Time;
    assert_eq!(early, run(&text("64ms")));
    // A cell that can't become precise enough runs to its limit and has no such fact.
    let text = text("100ms").replace("read = 1", "read = 1\nwrite = 1");
    let mut long = settled(&text, 1e-9);
    assert_eq!((long.window_ns, long.ended), (100_000_000, Ended::Time));
    long.ended = Ended::Time;
    assert_eq!(long, run(&text));
}

/// An open loop of Poisson arrivals at a memory whose worker does one I/O after the other: response
/// times are those of M/D/1, whose queue is correlated. Early ends agree with that and with cells
/// of full length, within their stated precision.
#[test]
fn early_ends_agree_with_a_queue_of_known_length() {
    let text = |seed: u64, rate: f64| {
        format!(
            "depth = 512\n[mix]\nread = 1\n\
             [arrivals]\nkind = \"open\"\nrate = {}\nprocess = \"poisson\"\n\
             [limits]\ntime = \"2s\"\nramp = \"{}us\"",
            rate as u64,
            10_000 + seed
        )
    };
    let mean_ns = |cell: &Cell| {
        cell.total().class(OpKind::Read).unwrap().response.as_ref().unwrap().mean_ns().unwrap()
    };
    let (_, period) = alone();
    for load in [0.3, 0.6] {
        let rate = load / period * 1e9;
        let expected_ns = period + load * period / (2.0 * (1.0 - load));
        let full = mean_ns(&run(&text(0, rate)));
        near(full, expected_ns, 0.01);
        let mut window_ns = 0;
        for seed in 1..=6 {
            let early = settled(&text(seed, rate), 0.02);
            assert_eq!(early.ended, Ended::Settled);
            assert_balanced(&early);
            near(mean_ns(&early), full, 0.03);
            near(early.per_second(early.total().ops() as f64), rate, 0.03);
            window_ns += early.window_ns;
        }
        assert!(window_ns < 6 * 500_000_000, "{window_ns}");
    }
}

/// Targets of different systems can't share a cell.
#[test]
fn targets_of_different_systems_are_refused() {
    let spec = spec("[mix]\nread = 1");
    let (one, other) = (system(2), system(1));
    for medium in [
        Medium::Null(1 << 20),
        Medium::Model { system: other, volume: 0 },
        Medium::Model { system: Arc::clone(&one), volume: 2 },
    ] {
        let mut plan = plan(&spec, &one);
        plan.targets[1].medium = medium;
        let refused = drive_model(&plan, &AtomicBool::new(false), &mut Unobserved);
        assert!(matches!(refused, Err(DriveError::DoesNotFit { .. })));
    }
}
