//! Replays a record of served storage in virtual time, on an emulated system built from the record's header.

use crate::console::{print, print_json, remark};
use crate::failure::{Failure, OPEN};
use iodyno_catalog::input::Input;
use iodyno_emulate::{Completion, Machine};
use iodyno_live::fault_command::described;
use iodyno_live::record::{Ended, Record, RecordedFault};
use iodyno_serving::{Access, enlarge, system};
use iodyno_targets::TargetName;
use iodyno_units::human;
use serde_json::{Value, json};
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

/// Exit code if the events differ from the recorded ones.
const DIFFERS: u8 = 4;
/// Maximum number of workers per volume in a record.
const WORKERS_MAX: u64 = 4096;

/// Replays a record of `serve`. The exit code is 4 if the events differ, and 8 if the record was truncated.
pub(super) fn replay(path: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let named = path.display().to_string();
    let wrong = |why: String| Failure::input(format!("{named}: {why}"));
    let open = || -> Result<Record<BufReader<Input>>, Failure> {
        let file = Input::open(path).map_err(|e| wrong(e.to_string()))?;
        // The record is read twice.
        if !file.is_regular() {
            return Err(wrong(
                "a record must be a regular file: copy the record to one".to_owned(),
            ));
        }
        Record::open(BufReader::new(file)).map_err(wrong)
    };
    let record = open()?;
    let mut machine = machine(&record.machine, &wrong)?;
    open()?.check(&machine).map_err(wrong)?;
    machine.follow_content();
    let (mut changes, mut done, mut failed) = (Vec::new(), 0_u64, 0_u64);
    let ended = record
        .replay(&mut machine, &mut |_, completion: &Completion| {
            done += 1;
            failed += u64::from(completion.failure.is_some());
        })
        .map_err(wrong)?;
    machine.changes(&mut changes);
    let same = ended.is_same();
    if ended.operations == 0 {
        remark("note", &format!("{named}: the record contains no operations"));
    }
    if as_json {
        print_json(&json!({
            "operations": ended.operations,
            "faults": ended.faults,
            "interface_faults": ended.interface_faults.iter().map(interface_fault).collect::<Vec<_>>(),
            "completed": done,
            "failed": failed,
            "machine_ns": machine.now_ns(),
            "events": machine.events(),
            "hash": format!("{:016x}", ended.hashes.0),
            "same": same,
            "cut_off": same.is_none(),
        }))?;
    } else {
        for RecordedFault { at_ns, volume, fault } in &ended.interface_faults {
            let at = human::duration_ns(*at_ns);
            print(&format!(
                "fault at {at}, not repeated: volume {volume}: {}\n",
                described(fault)
            ))?;
        }
        let verdict = verdict(&ended);
        print(&format!(
            "{}, {}, {} ({failed} failed) in {} of virtual time\n{}, hash {:016x}: {verdict}\n",
            human::counted(ended.operations, "operation"),
            human::counted(ended.faults, "fault"),
            human::counted(done, "completion"),
            human::duration_ns(machine.now_ns()),
            human::counted(machine.events(), "event"),
            ended.hashes.0,
        ))?;
    }
    Ok(match same {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::from(DIFFERS),
        None => ExitCode::from(OPEN),
    })
}

/// Converts a recorded fault of the storage interface to JSON.
fn interface_fault(of: &RecordedFault) -> Value {
    json!({ "at_ns": of.at_ns, "volume": of.volume, "fault": described(&of.fault) })
}

/// Creates the emulated machine that a record's header describes, including its workers.
fn machine(head: &Value, wrong: &dyn Fn(String) -> Failure) -> Result<Machine, Failure> {
    let field = |key: &str| wrong(format!("line 2 lacks `{key}`"));
    let device = head["device"].as_str().ok_or_else(|| field("device"))?;
    let device = TargetName::parse(device).map_err(|e| wrong(format!("line 2: {e}")))?;
    let seed = head["seed"].as_u64().ok_or_else(|| field("seed"))?;
    let workers = head["workers"].as_u64().ok_or_else(|| field("workers"))?;
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(wrong(format!(
            "line 2: `workers` is {workers}, but a server has 1 to {WORKERS_MAX}"
        )));
    }
    let mut system = system(&device, Access::Any)?;
    // Records of earlier versions have no sizes; those of the devices apply.
    let sizes = head["sizes_bytes"].as_array().into_iter().flatten().map(Value::as_u64);
    let sizes: Option<Vec<u64>> = sizes.collect();
    enlarge(&mut system, &sizes.ok_or_else(|| field("sizes_bytes"))?)
        .map_err(|e| wrong(format!("line 2: {e}")))?;
    let mut machine = Machine::new(&system, seed).map_err(Failure::input)?;
    for volume in 0..machine.volumes() {
        for _ in 0..workers {
            machine.add_worker(volume);
        }
    }
    Ok(machine)
}

/// States whether the events of the replay equal the recorded ones.
fn verdict(ended: &Ended) -> &'static str {
    match ended.is_same() {
        Some(true) => "the same events as recorded",
        Some(false) => {
            "NOT the recorded events: the device's files or this program have changed since"
        }
        None if ended.is_torn => {
            "the record was cut off within a line, as if its server was killed, so the events can't be compared"
        }
        None => {
            "the record was cut off, as if its server was killed, so the events can't be compared"
        }
    }
}
