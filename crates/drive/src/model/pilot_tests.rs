//! A cell that continues from its pilot equals one that starts afresh.

use super::drive_model;
use super::pilot::after_pilot;
use super::test_system::{plan, system};
use crate::plan::{CellPlan, TargetPlan, Unobserved};
use iodyno_emulate::System;
use iodyno_workload::Spec;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A host with two memory devices.
fn two() -> Arc<System> {
    let mut two = system();
    let placed = two.devices().next().unwrap().clone();
    two.add_device(placed.device, two.volumes[0].state, 0);
    Arc::new(two)
}

fn planned(spec: &Spec, system: &Arc<System>) -> CellPlan {
    let targets = (0..2).map(|volume| TargetPlan::model(format!("#{volume}"), system, volume));
    let mut plan = plan(spec, 100_000, 1);
    (plan.targets, plan.cell.seed) = (targets.collect(), 7);
    plan
}

/// Checks that a cell planned after a pilot equals the same cell without a pilot. Each worker of the pilot ends after
/// `ops` operations. `forks`: whether the cell must continue from the pilot.
#[track_caller]
fn compare(workload: &str, ops: u64, forks: bool) {
    let spec = |limits: &str| {
        let text = format!("schema = 1\ndepth = 4\n{workload}\n[limits]\n{limits}\n");
        Spec::from_toml(&text).unwrap_or_else(|e| panic!("{e:?}"))
    };
    let (system, stop) = (two(), AtomicBool::new(false));
    let pilot = spec(&format!("ops = {ops}\nramp = \"100us\""));
    let pilot = planned(&pilot.without_time().unwrap(), &system);
    let cell = || planned(&spec("ramp = \"500us\"\ntime = \"3ms\""), &system);
    let (rate, found) = after_pilot(&pilot, 500_000, &stop, |cells| {
        (cells.iter().map(|cell| cell.total().ops()).sum::<u64>(), Some(cell()))
    })
    .unwrap();
    let (found, has_forked) = found.unwrap();
    assert_eq!(has_forked, forks, "{workload}");
    assert_eq!(rate, 2 * ops, "the pilot ends as it would alone");
    let anew = drive_model(&cell(), &stop, &mut Unobserved).unwrap();
    assert!(found.cells == anew.cells, "{workload}");
    assert_eq!(found.completions, anew.completions, "{workload}");
    assert_eq!(found.machine.event_hash(), anew.machine.event_hash(), "{workload}");
    assert!(anew.cells.iter().all(|cell| cell.total().ops() > 100));
}

#[test]
fn a_cell_goes_on_where_its_pilot_was() {
    let mixed = "[mix]\nread = 60\nwrite = 40";
    let in_order = "[mix]\nread = 1\n[all]\naddresses = \"sequential\"";
    let zipf = "[mix]\nread = 1\n[all]\naddresses = { pattern = \"zipf\", theta = 0.9 }";
    let thinking = "[mix]\nread = 1\n[arrivals]\nkind = \"closed\"\nthink_time = \"3us\"";
    for workload in [mixed, in_order, zipf, thinking] {
        // The fork is made when a worker is near its end, and when the cell's window may begin.
        for ops in [40, 10_000] {
            compare(workload, ops, true);
        }
        // The workers may end with the first operations that they issue.
        compare(workload, 5, false);
    }
}

#[test]
fn workers_that_depend_on_one_another_begin_anew() {
    compare("threads = 2\n[mix]\nread = 1\n[all]\naddresses = \"sequential\"", 40, false);
    compare("mix_order = \"ratio\"\n[mix]\nread = 60\nwrite = 40", 40, false);
}
