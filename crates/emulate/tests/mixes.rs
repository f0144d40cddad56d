//! Mixes of reads and writes on one flash drive: the formula that follows from the controller, and its accuracy for
//! published mixes (`mixes.csv`; no device of the catalog is fitted to them).
//!
//! A controller that limits both reads and writes divides its time between them, and loses time on each switch from
//! one to the other. With r reads or w writes per second alone, a fraction s of reads, and a switch that takes the
//! fraction t of the mean of 1/r and 1/w, a mix has 1 / (s/r + (1-s)/w + 2 s (1-s) t (1/r + 1/w) / 2) I/Os per
//! second.

use crate::common;

use common::{Loop, RANDOM, flash, run};
use iodyno_catalog::{Kind, list};
use iodyno_emulate::describe;
use iodyno_emulate::spec::{self, Flash};

const PUBLISHED: &str = include_str!("mixes.csv");

/// The turn (loss per switch) that the catalog assumes of server drives and of client drives, in
/// mean times of a read and a write.
const ASSUMED: [(&str, f64); 2] = [("server", 0.25), ("client", 1.0)];

/// Rates of pure reads and of pure writes, I/Os per second.
#[derive(Clone, Copy, Debug)]
struct Alone {
    reads: f64,
    writes: f64,
}

impl Alone {
    fn mean_s(self) -> f64 {
        f64::midpoint(1.0 / self.reads, 1.0 / self.writes)
    }

    /// Rate of a mix with the fraction `share` of reads by the formula of this file, I/Os per
    /// second.
    fn mix(self, share: f64, turn: f64) -> f64 {
        let shared_s = share / self.reads + (1.0 - share) / self.writes;
        1.0 / (shared_s + 2.0 * share * (1.0 - share) * turn * self.mean_s())
    }

    /// The turn that follows from the measured rate of a mix.
    fn turn(self, share: f64, mix: f64) -> f64 {
        (1.0 / mix - 1.0 / self.mix(share, 0.0)) / (2.0 * share * (1.0 - share) * self.mean_s())
    }
}

struct Row {
    drive: &'static str,
    kind: &'static str,
    alone: Alone,
    share: f64,
    mix: f64,
}

fn rows() -> Vec<Row> {
    let lines = PUBLISHED.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    lines
        .map(|f| {
            let number = |i: usize| f[i].parse().unwrap();
            let alone = Alone { reads: number(2), writes: number(3) };
            Row { drive: f[0], kind: f[1], alone, share: number(4), mix: number(5) }
        })
        .collect()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    f64::midpoint(of[(of.len() - 1) / 2], of[of.len() / 2])
}

/// A drive whose rate is limited only by its controller. A copied page takes as much controller time as a command.
fn bound_by_controller() -> Flash {
    let mut flash = flash();
    flash.controller.read_command_ns = 5_000;
    flash.controller.write_command_ns = 8_000;
    flash.controller.copy_ns = 8_000;
    (flash.nand.program_fast_ns, flash.nand.program_slow_ns) = (20_000, 20_000);
    (flash.nand.read_ns, flash.nand.erase_ns) = (2_000, 20_000);
    flash
}

#[test]
fn reads_writes_copies_and_turns_share_the_controller() {
    for turn in [0.0, 0.25, 1.0] {
        let mut flash = bound_by_controller();
        let load = |read_share| Loop {
            read_share,
            ramp_ns: 100_000_000,
            time_ns: 1_000_000_000,
            ..Loop::reads(32)
        };
        let reads = run(&flash, RANDOM, &load(1.0)).iops;
        let writes = run(&flash, RANDOM, &load(0.0)).iops;
        assert!((reads / 200e3 - 1.0).abs() < 0.01, "{reads}");
        assert!(writes < 0.6 * 125e3, "copies take the controller's time: {writes}");
        let alone = Alone { reads, writes };
        flash.controller.turn_ns = (turn * alone.mean_s() * 1e9) as u64;
        for share in [0.1, 0.35, 0.65, 0.95] {
            let (ours, law) = (run(&flash, RANDOM, &load(share)).iops, alone.mix(share, turn));
            assert!((ours / law - 1.0).abs() < 0.02, "{turn} {share}: {ours} for {law}");
        }
    }
}

/// The rate of each mix is predicted with the median turn of the other drives of its kind: the
/// drive's own mix is not an input.
#[test]
fn published_mixes_are_predicted_from_other_drives() {
    let rows = rows();
    let mut off = Vec::new();
    for row in &rows {
        let alike = rows.iter().filter(|r| r.kind == row.kind && r.drive != row.drive);
        let turns: Vec<f64> = alike.map(|r| r.alone.turn(r.share, r.mix)).collect();
        let turn = if turns.is_empty() { ASSUMED[1].1 } else { median(turns) };
        let off_by = |rate: f64| (rate / row.mix - 1.0) * 100.0;
        let (ours, shared) = (row.alone.mix(row.share, turn), row.alone.mix(row.share, 0.0));
        let bound = (row.alone.reads / row.share).min(row.alone.writes / (1.0 - row.share));
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.0} % | {:.0} | {:+.0} % | {:+.0} % | {:+.0} % | {:.2} |",
            row.drive,
            row.kind,
            row.alone.reads,
            row.alone.writes,
            row.share * 100.0,
            row.mix,
            off_by(bound),
            off_by(shared),
            off_by(ours),
            row.alone.turn(row.share, row.mix),
        );
        if row.kind == "server" {
            off.push([off_by(bound).abs(), off_by(shared).abs(), off_by(ours).abs()]);
        }
    }
    let of = |i: usize| off.iter().map(|o| o[i]).collect::<Vec<f64>>();
    let mean = |v: Vec<f64>| v.iter().sum::<f64>() / v.len() as f64;
    for (i, what) in ["the bound", "time-sharing", "with turns"].into_iter().enumerate() {
        println!("server drives, {what}: mean {:.0} %, median {:.0} %", mean(of(i)), median(of(i)));
    }
    assert!(mean(of(2)) < 20.0 && median(of(2)) < 15.0);
    for (kind, assumed) in ASSUMED {
        let of_kind = rows.iter().filter(|r| r.kind == kind);
        let shown = median(of_kind.map(|r| r.alone.turn(r.share, r.mix)).collect());
        assert!(
            (0.7..1.4).contains(&(assumed / shown)),
            "{kind}: {assumed} assumed, {shown} shown"
        );
    }
}

/// The catalog's flash drives on a link have the turn of their kind.
#[test]
fn the_catalog_s_turns_are_those_of_its_kinds() {
    let mut found = 0;
    for (name, text) in list(Kind::Device) {
        let spec::Kind::Flash(mut flash) = describe::device(name, text).unwrap().device.kind else {
            continue;
        };
        // A burst of garbage collection is longer than the loop, and has no effect on the mean rate.
        flash.translation.freed_per_write = 1.0;
        // Zones take no random writes.
        if !matches!(flash.attach, spec::Attach::Link { .. }) || flash.zones.is_some() {
            continue;
        }
        let client = !flash.buffer.protected;
        let load = |read_share, s: f64| Loop {
            read_share,
            ramp_ns: (s * 5e8) as u64,
            time_ns: (s * 1e9) as u64,
            ..Loop::reads(128)
        };
        let reads = run(&flash, RANDOM, &load(1.0, 0.02)).iops;
        let writes = run(&flash, RANDOM, &load(0.0, 1.0)).iops;
        let turn = flash.controller.turn_ns as f64 / 1e9 / Alone { reads, writes }.mean_s();
        println!("{name}: {turn:.2} of {reads:.0} reads and {writes:.0} writes a second");
        let assumed = ASSUMED[usize::from(client)].1;
        // Drives with single-level cells write slowly only once these are full. No mix of a drive whose map has large
        // units is published.
        let exempt = flash.nand.slc.is_some() || flash.translation.unit_bytes > 4096;
        assert!(exempt || (turn / assumed - 1.0).abs() < 0.1, "{name}: {turn}");
        found += 1;
    }
    assert!(found >= 9);
}
