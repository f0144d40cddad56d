//! Every engine on real targets: reads return what was written, failures are counted by kind and never as completed,
//! and the sums agree.

use iodyno_drive::clock::Clock;
use iodyno_drive::memory::Region;
use iodyno_drive::verify::{Known, VerifyMap};
use iodyno_drive::{
    CellPlan, DriveError, EngineKind, FileEngine, FileMedium, Medium, Observer, TargetPlan,
    TraceEvent, TraceEvents, Unobserved, Walks, drive_cell,
};
use iodyno_measure::verdict::judge;
use iodyno_measure::{Cell, Ended, ErrorKind, Finding, Interval, SpentOf};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{CellSpec, Content, Spec, TargetPart};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;

fn spec(text: &str) -> Spec {
    Spec::from_toml(&format!("schema = 1\n{text}")).unwrap_or_else(|e| panic!("{e:?}"))
}

fn medium(file: File, capacity_bytes: u64) -> Medium {
    Medium::File(FileMedium {
        fd: Arc::new(file.into()),
        capacity_bytes,
        is_block_device: false,
        memory_align_bytes: 4096,
        direct: false,
        uncached: false,
        passthrough: None,
        writable: true,
        engine: FileEngine::Psync,
    })
}

fn scratch(bytes: u64) -> File {
    let file = tempfile::tempfile().unwrap();
    let block = vec![0x5A_u8; MIB as usize];
    for i in 0..bytes / MIB {
        file.write_all_at(&block, i * MIB).unwrap();
    }
    file
}

fn plan(spec: &Spec, targets: Vec<(Medium, EngineKind)>) -> CellPlan {
    let verify = |medium: &Medium| {
        let unit_bytes = spec.verify_unit_bytes();
        let known = Known { flushes: true, ..Known::default() };
        let map = VerifyMap::new(medium.capacity_bytes(), unit_bytes, 1, known);
        (spec.content() == Content::Verifiable).then(|| Arc::new(map))
    };
    let targets = targets.into_iter().enumerate().map(|(i, (mut medium, engine))| {
        assert!(medium.set_engine(engine), "{engine:?}");
        TargetPlan {
            beside: None,
            number: i as u32,
            name: format!("target-{i}"),
            verify: verify(&medium),
            medium,
            align_bytes: 512,
        }
    });
    let interval_ns = Some(20_000_000);
    let cell = CellSpec::new("cell", spec.clone());
    let cell = CellSpec { seed: 7, interval_ns, errors_max: u64::MAX, ..cell };
    CellPlan { clock: Clock::new(), ..CellPlan::new(cell, targets.collect()) }
}

fn run(spec: &Spec, medium: Medium, engine: EngineKind) -> Cell {
    let plan = plan(spec, vec![(medium, engine)]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut cells = drive_cell(&plan, &stop, &mut Unobserved).unwrap();
    cells.remove(0)
}

const FILE_ENGINES: [EngineKind; 4] =
    [EngineKind::Uring, EngineKind::Libaio, EngineKind::Psync, EngineKind::Mmap];

fn depth(engine: EngineKind) -> u32 {
    if engine.queues() { 16 } else { 1 }
}

/// A medium other than a file has one engine; a file allows all engines of files.
#[test]
fn a_medium_takes_no_engine_of_another() {
    let region = Arc::new(Region::new(MIB as usize).unwrap());
    for mut medium in [medium(scratch(MIB), MIB), Medium::Ram(region), Medium::Null(MIB)] {
        for engine in EngineKind::ALL {
            let before = medium.engine();
            let takes = match medium {
                Medium::File(_) => FILE_ENGINES.contains(&engine),
                _ => engine == before,
            };
            assert_eq!(medium.takes(engine), takes, "{medium:?} {engine:?}");
            assert_eq!(medium.set_engine(engine), takes, "{medium:?} {engine:?}");
            assert_eq!(medium.engine(), if takes { engine } else { before }, "{medium:?}");
        }
    }
    for (text, engine) in [("io_uring", EngineKind::Uring), ("sync", EngineKind::Psync)] {
        assert_eq!(text.parse(), Ok(engine));
    }
    for engine in EngineKind::ALL {
        assert_eq!(engine.name().parse(), Ok(engine));
        // The stored name.
        assert_eq!(format!("{engine:?}").to_lowercase(), engine.name());
    }
    let why = "x".parse::<EngineKind>().unwrap_err();
    assert_eq!(
        why,
        "there is no engine `x`: use uring, libaio, psync or mmap (`ram:`, `null:`, `model:`, `live:` and `nbd:` targets have their own)"
    );
}

/// Samples of a series form one sequential pass: two cells of half the range each write every block once, whether
/// workers share a cursor or each have a part.
#[test]
fn sequential_cells_continue_where_the_previous_one_ended() {
    for (addresses, threads) in
        [("{ pattern = \"sequential\", shared = true }", 3), ("{ pattern = \"sequential\" }", 1)]
    {
        let spec = spec(&format!(
            "threads = {threads}\ndepth = 4\nblock = \"4KiB\"\n[mix]\nwrite = 1\n[write]\naddresses = {addresses}\n\
             [limits]\nops = 120\nramp = \"0s\""
        ));
        let region = Arc::new(Region::new(240 * 4096).unwrap());
        let walks = Arc::new(Walks::default());
        let written = || {
            // SAFETY: no worker is left.
            let bytes = unsafe { std::slice::from_raw_parts(region.start(), region.len()) };
            bytes.chunks(4096).filter(|block| block.iter().any(|&b| b != 0)).count()
        };
        for (walked, total) in [(Some(&walks), 120), (Some(&walks), 240), (None, 240)] {
            let mut plan = plan(&spec, vec![(Medium::Ram(Arc::clone(&region)), EngineKind::Ram)]);
            plan.walks = walked.map(Arc::clone);
            let stop = Arc::new(AtomicBool::new(false));
            drive_cell(&plan, &stop, &mut Unobserved).unwrap();
            assert_eq!(written(), total, "{addresses}");
        }
        let furthest = (0..threads).map(|worker| walks.of(0, worker)[0]).max();
        // A cursor counts draws, a worker the units of its alignment.
        assert!(furthest >= Some(240), "{furthest:?}");
    }
}

/// A read from the page cache is complete when the submitting call returns, so submission is nearly all of its latency.
/// If one call submits and executes, the phases can't be separated.
#[test]
fn submission_and_reaping_are_separated_from_the_rest() {
    let spec = |engine| {
        spec(&format!(
            "depth = {}\nblock = \"16KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"300ms\"\nramp = \"20ms\"",
            depth(engine)
        ))
    };
    for engine in FILE_ENGINES {
        // A stall of this machine may fall into the stamped part or beside it: one of some tries has none.
        let shares: Vec<f64> = (0..8)
            .map(|_| {
                let cell = run(&spec(engine), medium(scratch(8 * MIB), 8 * MIB), engine);
                let spent = &cell.evidence.spent;
                if !matches!(engine, EngineKind::Uring | EngineKind::Libaio) {
                    assert_eq!(spent, &[], "{engine:?}");
                    return 1.0;
                }
                // A worker that hardly got a processor stamped no turn.
                let [submission, reaping] = &spent[..] else { return f64::NAN };
                assert_eq!((&*submission.phase, submission.of), ("submission", SpentOf::Operation));
                assert_eq!((&*reaping.phase, reaping.of), ("reaping", SpentOf::Operation));
                let all = cell.total().ops();
                assert!((1..=all).contains(&submission.count), "of {all}: {spent:?}");
                assert!(reaping.count > 0, "{spent:?}");
                let mean_ns = submission.total_ns as f64 / submission.count as f64;
                mean_ns / cell.total().response_time().mean_ns().unwrap()
            })
            .scan(false, |found, share| {
                (!std::mem::replace(found, (0.6..1.3).contains(&share))).then_some(share)
            })
            .collect();
        let last = *shares.last().unwrap();
        assert!((0.6..1.3).contains(&last), "{engine:?}: submission is {shares:?} of the latency");
    }
}

/// Verifiable content through every engine: each read is checked against the generation that was
/// acknowledged last, over several workers, mixed sizes, flushes and FUA.
#[test]
fn every_engine_reads_what_was_written() {
    for engine in FILE_ENGINES.into_iter().chain([EngineKind::Ram]) {
        let spec = spec(&format!(
            "threads = 3\ndepth = {}\nblock = [{{ size = \"4KiB\", share = 2 }}, {{ size = \"16KiB\", share = 1 }}]\n\
             align = \"4KiB\"\n\
             [mix]\nread = 50\nwrite = 50\n\
             [write]\nfua = \"1%\"\nflush_every = 500\n\
             [content]\nkind = \"verifiable\"\n\
             [limits]\nops = 9000\nramp = \"0s\"",
            depth(engine)
        ));
        let medium = if engine == EngineKind::Ram {
            Medium::Ram(Arc::new(Region::new(4 * MIB as usize).unwrap()))
        } else {
            medium(scratch(4 * MIB), 4 * MIB)
        };
        let cell = run(&spec, medium, engine);
        let total = cell.total();
        assert_eq!(total.errors().total(), 0, "{engine:?}: {:?}", cell.evidence.first_corruption);
        assert!(total.class(OpKind::Read).unwrap().ops() > 3000, "{engine:?}");
        assert!(total.class(OpKind::Flush).unwrap().ops() >= 3, "{engine:?}");
        // Half was written by this cell by the time that it was read, the rest held something else.
        let v = cell.evidence.verification.unwrap();
        assert_eq!((v.checked, v.whole), (v.current + v.unverified, 0), "{engine:?}: {v:?}");
        assert!(v.current > 0 && v.writers[0].stamp == 1, "{engine:?}: {v:?}");
    }
}

/// A ring without any of its optional parts gives the same results.
#[test]
fn a_plain_ring_reads_what_was_written() {
    let spec = spec(
        "threads = 2\ndepth = 8\nblock = \"4KiB\"\n[mix]\nread = 50\nwrite = 50\n\
         [content]\nkind = \"verifiable\"\n[limits]\nops = 4000\nramp = \"0s\"",
    );
    let mut plan = plan(&spec, vec![(medium(scratch(MIB), MIB), EngineKind::Uring)]);
    plan.options.plain = true;
    let stop = Arc::new(AtomicBool::new(false));
    let cell = drive_cell(&plan, &stop, &mut Unobserved).unwrap().remove(0);
    assert_eq!(cell.total().errors().total(), 0, "{:?}", cell.evidence.first_corruption);
    assert_eq!(cell.facts["uring.flags"], "none");
    assert_eq!(cell.facts["uring.registered_buffers"], "no");
}

/// Trim and write-zeroes leave zeroes in their ranges and change nothing else, or report that the
/// file system can't.
#[test]
fn trim_and_write_zeroes_leave_zeroes() {
    for kind in ["trim", "write_zeroes"] {
        for engine in FILE_ENGINES {
            let spec = spec(&format!(
                "depth = {}\nblock = \"8KiB\"\nactive = \"0..2MiB\"\n[mix]\n{kind} = 1\n\
                 [all]\naddresses = [{{ pattern = \"sequential\" }}]\n\
                 [limits]\nops = 256\nramp = \"0s\"",
                depth(engine)
            ));
            let file = scratch(4 * MIB);
            let copy = file.try_clone().unwrap();
            let total = run(&spec, medium(file, 4 * MIB), engine).total();
            if total.errors().total() > 0 {
                assert_eq!(total.errors().of(ErrorKind::Unsupported), 256, "{kind} {engine:?}");
                continue;
            }
            let mut image = vec![1; 4 * MIB as usize];
            copy.read_exact_at(&mut image, 0).unwrap();
            let (zeroed, kept) = image.split_at(2 * MIB as usize);
            assert!(zeroed.iter().all(|&b| b == 0), "{kind} {engine:?}");
            assert!(kept.iter().all(|&b| b == 0x5A), "{kind} {engine:?}");
        }
    }
}

/// Content that is damaged behind the engine is detected.
#[test]
fn damage_is_found_on_every_engine() {
    for engine in FILE_ENGINES {
        let spec = spec(&format!(
            "depth = {}\nblock = \"4KiB\"\n[mix]\nread = 60\nwrite = 40\n\
             [content]\nkind = \"verifiable\"\n[limits]\ntime = \"400ms\"\nramp = \"0s\"",
            depth(engine)
        ));
        let file = scratch(MIB);
        let vandal = file.try_clone().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                // One bit of each unit in turn, in the middle of it.
                let mut byte = [0];
                vandal.read_exact_at(&mut byte, at + 2000).unwrap();
                vandal.write_all_at(&[byte[0] ^ 1], at + 2000).unwrap();
                at = (at + 4096) % MIB;
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let cell = run(&spec, medium(file, MIB), engine);
        done.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(cell.total().errors().of(ErrorKind::Corrupt) > 0, "{engine:?}");
        assert!(cell.evidence.first_corruption.is_some(), "{engine:?}");
        let damaged = cell.evidence.verification.unwrap().found[&Finding::Damaged].clone();
        assert!(damaged.units > 0 && damaged.units <= 256.min(damaged.reads), "{engine:?}");
    }
}

/// A limit on operations is exact, and the counters agree.
#[test]
fn limits_are_exact_and_the_counters_agree() {
    for engine in FILE_ENGINES.into_iter().chain([EngineKind::Ram, EngineKind::Null]) {
        let text =
            format!("threads = 3\ndepth = {}\nblock = \"8KiB\"\n[mix]\nread = 1", depth(engine));
        let new_medium = || match engine {
            EngineKind::Ram => Medium::Ram(Arc::new(Region::new(8 * MIB as usize).unwrap())),
            EngineKind::Null => Medium::Null(8 * MIB),
            _ => medium(scratch(8 * MIB), 8 * MIB),
        };
        let by_ops = spec(&format!("{text}\n[limits]\nops = 10001\nramp = \"0s\""));
        let cell = run(&by_ops, new_medium(), engine);
        assert_eq!(cell.total().ops(), 10_001, "{engine:?}");
        assert_eq!(cell.ended, Ended::Ops);
        let by_bytes = spec(&format!("{text}\n[limits]\nbytes = \"24MiB\"\nramp = \"0s\""));
        let cell = run(&by_bytes, new_medium(), engine);
        assert_eq!(cell.total().bytes(), 24 * MIB, "{engine:?}");
        // Blocks that the workers can't divide evenly, and fewer bytes than a block for each: less than a block over.
        for (bytes, blocks) in [("25604KiB", 3_201), ("12KiB", 2), ("1B", 1)] {
            let by_bytes = spec(&format!("{text}\n[limits]\nbytes = \"{bytes}\"\nramp = \"0s\""));
            let cell = run(&by_bytes, new_medium(), engine);
            assert_eq!(cell.total().ops(), blocks, "{engine:?}: {bytes}");
        }
        let pass = "[all]\naddresses = { pattern = \"uniform\", once_per_pass = true }";
        let by_passes = spec(&format!("{text}\n{pass}\n[limits]\npasses = 1\nramp = \"0s\""));
        assert_eq!(run(&by_passes, new_medium(), engine).total().ops(), 1024, "{engine:?}");
        let by_time = spec(&format!("{text}\n[limits]\ntime = \"300ms\"\nramp = \"50ms\""));
        let cell = run(&by_time, new_medium(), engine);
        assert_eq!(cell.window_ns, 300_000_000, "{engine:?}");
        assert_eq!(cell.series.len(), 15, "{engine:?}: an interval is missing");
        assert!(cell.oio_mean() <= 3.0 * f64::from(depth(engine)) + 1e-9, "{engine:?}");
        let codes: Vec<String> = judge(&cell).into_iter().map(|v| v.code).collect();
        assert!(!codes.contains(&"LITTLES_LAW_BROKEN".to_owned()), "{engine:?}: {codes:?}");
    }
}

/// A file is truncated before the run: reads past its end fail with the right kind of error, the process survives, and
/// all other reads succeed.
#[test]
fn a_file_cut_short_is_counted_and_survived() {
    for engine in FILE_ENGINES {
        let spec = spec(&format!(
            "depth = {}\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\nops = 4000\nramp = \"0s\"",
            depth(engine)
        ));
        let file = scratch(4 * MIB);
        file.set_len(2 * MIB).unwrap();
        let cell = run(&spec, medium(file, 4 * MIB), engine);
        let total = cell.total();
        let kind = if engine == EngineKind::Mmap { ErrorKind::Io } else { ErrorKind::Short };
        let failed = total.errors().of(kind);
        assert_eq!(failed, total.errors().total(), "{engine:?}: {:?}", total.errors());
        assert_eq!(total.ops() + failed, 4000, "{engine:?}");
        // Half of the range is gone; 4000 fair draws miss 2000 by more than 190 once in 10^9.
        assert!((1810..2190).contains(&failed), "{engine:?}: {failed}");
    }
}

/// Writes to /dev/full fail because the device never has space. They are counted as such, and the run stops at its
/// limit of failures.
#[test]
fn no_space_is_counted_by_kind_and_stops_the_run() {
    // The device has no asynchronous form that libaio could use.
    for engine in [EngineKind::Uring, EngineKind::Psync] {
        let spec = spec(&format!(
            "depth = {}\nblock = \"4KiB\"\n[mix]\nwrite = 1\n[limits]\ntime = \"20s\"\nramp = \"0s\"",
            depth(engine)
        ));
        let file = File::options().read(true).write(true).open("/dev/full").unwrap();
        let mut plan = plan(&spec, vec![(medium(file, MIB), engine)]);
        plan.cell.errors_max = 50;
        let stop = Arc::new(AtomicBool::new(false));
        let cells = drive_cell(&plan, &stop, &mut Unobserved).unwrap();
        assert_eq!(cells[0].ended, Ended::Errors, "{engine:?}");
        let errors = cells[0].total().errors();
        assert!(errors.of(ErrorKind::NoSpace) > 50, "{engine:?}: {errors:?}");
        assert_eq!((cells[0].total().ops(), errors.last_errno), (0, 28), "{engine:?}");
    }
}

/// Each of several simultaneous targets has its own cell and workers.
#[test]
fn targets_run_side_by_side() {
    let spec = spec(
        "threads = 2\ndepth = 4\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\nops = 5000\nramp = \"0s\"",
    );
    let targets = vec![
        (medium(scratch(MIB), MIB), EngineKind::Libaio),
        (Medium::Null(MIB), EngineKind::Null),
        (Medium::Ram(Arc::new(Region::new(MIB as usize).unwrap())), EngineKind::Ram),
    ];
    let plan = plan(&spec, targets);
    let stop = Arc::new(AtomicBool::new(false));
    let cells = drive_cell(&plan, &stop, &mut Unobserved).unwrap();
    for cell in &cells {
        assert_eq!(cell.total().ops(), 5000, "{}", cell.key.target);
        assert_eq!(cell.resources.cpu_user_ns.len(), 2);
    }
}

/// In open loop the schedule continues whatever the target does: response times count from when an
/// operation was due, so they are never shorter than the service times, and the rate is met.
#[test]
fn an_open_loop_keeps_its_schedule() {
    let spec = spec(
        "threads = 2\ndepth = 8\nblock = \"4KiB\"\n[mix]\nread = 1\n\
         [arrivals]\nkind = \"open\"\nrate = \"4k/s\"\n[limits]\ntime = \"1s\"\nramp = \"0s\"",
    );
    for engine in [EngineKind::Uring, EngineKind::Psync, EngineKind::Null] {
        let medium =
            if engine == EngineKind::Null { Medium::Null(MIB) } else { medium(scratch(MIB), MIB) };
        let cell = run(&spec, medium, engine);
        let total = cell.total();
        let reads = total.class(OpKind::Read).unwrap();
        let response = reads.response.as_ref().unwrap();
        // Poisson: 4000 expected, standard deviation 63.
        assert!(
            (3600..4400).contains(&(reads.ops() + cell.backlog_ops)),
            "{engine:?}: {}",
            reads.ops()
        );
        assert_eq!(response.count(), reads.ops());
        assert!(response.sum_ns() >= reads.service.sum_ns(), "{engine:?}");
        let lateness = cell.lateness.as_ref().unwrap();
        assert_eq!(
            response.sum_ns() - reads.service.sum_ns(),
            lateness.sum_ns(),
            "{engine:?}: response = lateness + service"
        );
    }
}

struct StopAfter {
    intervals: usize,
    stop: Arc<AtomicBool>,
}

impl Observer for StopAfter {
    fn interval(&mut self, _: usize, _: usize, _: &Interval) {
        self.intervals += 1;
        if self.intervals == 3 {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// A stop ends the cell soon, keeps what was counted and reports it.
#[test]
fn a_stop_keeps_what_was_counted() {
    let spec = spec(
        "depth = 4\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"1h\"\nramp = \"0s\"",
    );
    let stop = Arc::new(AtomicBool::new(false));
    let mut observer = StopAfter { intervals: 0, stop: Arc::clone(&stop) };
    let plan = plan(&spec, vec![(Medium::Null(MIB), EngineKind::Null)]);
    let cells = drive_cell(&plan, &stop, &mut observer).unwrap();
    assert_eq!(cells[0].ended, Ended::Interrupted);
    assert!(cells[0].total().ops() > 0);
    assert!(cells[0].window_ns >= 3 * 20_000_000 && cells[0].window_ns < 3_600_000_000_000);
}

/// One seed gives the same operations whatever the engine: the same bytes at the same places.
#[test]
fn the_stream_does_not_depend_on_the_engine() {
    let text =
        "block = \"4KiB\"\n[mix]\nread = 30\nwrite = 70\n[limits]\nops = 3000\nramp = \"0s\"";
    let mut images = Vec::new();
    for engine in FILE_ENGINES {
        let spec = spec(&format!("depth = 1\n{text}"));
        let file = scratch(MIB);
        let copy = file.try_clone().unwrap();
        run(&spec, medium(file, MIB), engine);
        let mut image = vec![0; MIB as usize];
        copy.read_exact_at(&mut image, 0).unwrap();
        images.push(image);
    }
    assert!(images.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A workload that does not fit is refused with the target's name, before anything runs.
#[test]
fn a_workload_that_does_not_fit_is_refused() {
    let spec = spec("block = \"4MiB\"\n[mix]\nread = 1");
    let plan = plan(&spec, vec![(Medium::Null(MIB), EngineKind::Null)]);
    let stop = Arc::new(AtomicBool::new(false));
    let error = drive_cell(&plan, &stop, &mut Unobserved).unwrap_err();
    assert!(matches!(error, DriveError::DoesNotFit { .. }), "{error}");
    assert!(error.to_string().starts_with("target-0: "), "{error}");
}

/// A target that stops answering is abandoned after the cell's end. The result keeps what completed before. An empty
/// pipe is such a target: io_uring's reads of it never complete.
#[test]
fn a_target_that_stops_answering_is_given_up() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let text = "threads = 2\ndepth = 4\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"300ms\"\nramp = \"0s\"";
    let spec = spec(text);
    std::io::Write::write_all(&mut writer, &[7; 3 * 4096]).unwrap();
    let fd: std::os::fd::OwnedFd = reader.into();
    let plan = plan(&spec, vec![(medium(File::from(fd), MIB), EngineKind::Uring)]);
    let stop = Arc::new(AtomicBool::new(false));
    let cells = match drive_cell(&plan, &stop, &mut Unobserved) {
        Ok(cells) => cells,
        // io_uring is switched off here.
        Err(DriveError::SetUp { .. }) => return,
        Err(e) => panic!("{e}"),
    };
    let cell = &cells[0];
    assert_eq!((cell.ended, cell.window_ns), (Ended::Hung, 300_000_000));
    assert_eq!(cell.total().ops(), 3);
    let hung = cell.evidence.hung.unwrap();
    assert_eq!((hung.ops, hung.stuck_workers), (8, 0));
    assert!(hung.oldest_ns > 300_000_000);
    let verdicts = judge(cell);
    assert!(verdicts.iter().any(|v| v.code == "TARGET_HUNG" && v.text.contains("8 operations")));
}

/// A target that answers slowly after the end is not given up, because each answer extends its timeout.
#[test]
fn a_target_that_answers_slowly_is_not_given_up() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let spec = spec(
        "depth = 2\nblock = \"4KiB\"\n[mix]\nread = 1\n[limits]\ntime = \"300ms\"\nramp = \"0s\"",
    );
    let slow = std::thread::spawn(move || {
        for seconds in [3.0, 2.5] {
            std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
            std::io::Write::write_all(&mut writer, &[7; 4096]).unwrap();
        }
        writer
    });
    let fd: std::os::fd::OwnedFd = reader.into();
    let plan = plan(&spec, vec![(medium(File::from(fd), MIB), EngineKind::Uring)]);
    let stop = Arc::new(AtomicBool::new(false));
    let cells = match drive_cell(&plan, &stop, &mut Unobserved) {
        Ok(cells) => cells,
        // io_uring is switched off here.
        Err(DriveError::SetUp { .. }) => return,
        Err(e) => panic!("{e}"),
    };
    assert_eq!((cells[0].ended, cells[0].evidence.hung), (Ended::Time, None));
    assert_eq!((cells[0].total().ops(), cells[0].resources.moved_bytes), (0, 2 * 4096));
    drop(slow.join().unwrap());
}

/// Writes in flight when a target was given up may have been executed: their units are uncertain, and are not claimed
/// again. A full pipe accepts no write.
#[test]
fn units_of_hanging_writes_are_uncertain() {
    let (reader, writer) = std::io::pipe().unwrap();
    let spec = spec(
        "depth = 4\nblock = \"4KiB\"\n[mix]\nwrite = 1\n[content]\nkind = \"verifiable\"\n\
         [limits]\ntime = \"300ms\"\nramp = \"0s\"",
    );
    let fd: std::os::fd::OwnedFd = writer.into();
    let plan = plan(&spec, vec![(medium(File::from(fd), MIB), EngineKind::Uring)]);
    let stop = Arc::new(AtomicBool::new(false));
    let cells = match drive_cell(&plan, &stop, &mut Unobserved) {
        Ok(cells) => cells,
        // io_uring is switched off here.
        Err(DriveError::SetUp { .. }) => return,
        Err(e) => panic!("{e}"),
    };
    assert_eq!((cells[0].ended, cells[0].evidence.hung.unwrap().ops), (Ended::Hung, 4));
    let map = plan.targets[0].verify.as_ref().unwrap();
    let block =
        |n: u64| Op { offset_bytes: n * 4096, len_bytes: 4096, kind: OpKind::Write, fua: false };
    assert!((0..MIB / 4096).all(|n| map.claim(&block(n))), "nothing is claimed");
    drop(reader);
}

/// A panic in a worker ends the cell and is reported. Otherwise the coordinator would wait for the worker forever. (The
/// panic is caused by an interval of length zero, which `iodyno_run` refuses.)
#[test]
fn a_worker_that_panics_ends_the_cell() {
    let spec = spec("mix = { read = 1 }\nthreads = 2\n[limits]\ntime = \"10s\"\n");
    let mut plan = plan(&spec, vec![(Medium::Null(MIB), EngineKind::Null)]);
    plan.cell.interval_ns = Some(0);
    let cells = drive_cell(&plan, &Arc::new(AtomicBool::new(false)), &mut Unobserved).unwrap();
    assert_eq!(cells[0].ended, Ended::Errors);
    let why = cells[0].evidence.failure.as_ref().unwrap();
    assert_eq!(&cells[0].facts["failure"], why);
    assert!(why.contains("panicked") && why.contains("bug in iodyno"), "{why}");
}

/// The operations that a cell issues, sorted.
fn issued(plan: &CellPlan) -> Vec<(OpKind, u64, u32)> {
    let (events, received) = std::sync::mpsc::sync_channel(1024);
    let collect = std::thread::spawn(move || {
        let all: Vec<TraceEvent> = received.iter().flatten().collect();
        all.iter()
            .filter_map(|event| event.op.map(|op| (op.kind, op.offset_bytes, op.len_bytes)))
            .collect()
    });
    let CellPlan { cell, targets, options, clock, .. } = plan;
    let new = CellPlan::new(cell.clone(), targets.clone());
    let recorded = CellPlan {
        events: Some(TraceEvents::new(events)),
        options: *options,
        clock: *clock,
        ..new
    };
    drive_cell(&recorded, &Arc::new(AtomicBool::new(false)), &mut Unobserved).unwrap();
    drop(recorded);
    let mut ops: Vec<_> = collect.join().unwrap();
    ops.sort_unstable();
    ops
}

/// Four processes with one worker each issue the same operations as one process with four workers, if they all use the
/// whole target; processes with their own regions stay within them.
#[test]
fn processes_that_share_a_target_issue_its_operations() {
    for pattern in ["uniform", "sequential", "zipf"] {
        let addresses = match pattern {
            "zipf" => "{ pattern = \"zipf\", theta = 1.1 }".to_owned(),
            name => format!("{{ pattern = \"{name}\" }}"),
        };
        let text = |threads: u32| {
            format!(
                "threads = {threads}\ndepth = 4\nblock = \"4KiB\"\n[mix]\nread = 2\nwrite = 1\n[all]\naddresses = {addresses}\n[limits]\nops = 4002\nramp = \"0s\""
            )
        };
        let whole = plan(&spec(&text(4)), vec![(Medium::Null(64 * MIB), EngineKind::Null)]);
        let mut of_parts = Vec::new();
        for index in 0..4 {
            let mut part = plan(&spec(&text(1)), vec![(Medium::Null(64 * MIB), EngineKind::Null)]);
            part.cell.part = TargetPart { index, of: 4, own_region: false };
            of_parts.extend(issued(&part));
        }
        of_parts.sort_unstable();
        assert_eq!(of_parts.len(), 4002, "{pattern}");
        assert_eq!(of_parts, issued(&whole), "{pattern}");
        for index in 0..3 {
            let part = TargetPart { index, of: 3, own_region: true };
            let mut own = plan(&spec(&text(2)), vec![(Medium::Null(63 * MIB), EngineKind::Null)]);
            let active = part.region_of(own.cell.spec.active());
            own.cell.spec = own.cell.spec.clone().with_active(active).unwrap();
            own.cell.part = part;
            let ops = issued(&own);
            assert_eq!(ops.len(), 1334, "a third of the operations");
            let region = u64::from(index) * 21 * MIB..u64::from(index + 1) * 21 * MIB;
            let within = |(_, at, len): &(OpKind, u64, u32)| {
                region.contains(at) && at + u64::from(*len) <= region.end
            };
            assert!(ops.iter().all(within), "{pattern}: {region:?}");
        }
    }
}

/// Trims and zeroes of files are blocking system calls, also on engines with a queue. Their latency is the duration of
/// the call.
#[test]
fn what_blocks_is_timed() {
    for kind in ["trim", "write_zeroes"] {
        for engine in [EngineKind::Psync, EngineKind::Libaio, EngineKind::Uring] {
            let depth = if engine.queues() { 8 } else { 1 };
            let text = |mix: &str| {
                format!(
                    "depth = {depth}\nblock = \"256KiB\"\n[mix]\n{mix}\n[limits]\ntime = \"200ms\"\nramp = \"0s\""
                )
            };
            let drive = |mix: &str| {
                let spec = spec(&text(mix));
                let plan = plan(&spec, vec![(medium(scratch(8 * MIB), 8 * MIB), engine)]);
                drive_cell(&plan, &Arc::new(AtomicBool::new(false)), &mut Unobserved)
            };
            let cell = match drive(&format!("{kind} = 1")) {
                Ok(cells) => cells.into_iter().next().unwrap(),
                // io_uring is switched off here.
                Err(DriveError::SetUp { .. }) => continue,
                Err(e) => panic!("{e}"),
            };
            let total = cell.total();
            if total.ops() == 0 {
                // This file system has no such call.
                continue;
            }
            // One at a time, nearly all of the time.
            let oio = cell.oio_mean();
            assert!((0.5..1.01).contains(&oio), "{engine:?} {kind}: {oio}");
        }
    }
}
