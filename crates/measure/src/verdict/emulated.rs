//! Judges whether real storage was measured, and whether a target emulated in real time completed operations on time.

use super::{Level, Say};
use crate::cell::Cell;

/// Fraction of late completions above which the timing of a target emulated in real time is unreliable.
const LATE_SHARE_MAX: f64 = 0.02;

/// Utilisation of a driver thread from which the thread, not the flash DIMMs that it drives, limits the rate.
const DRIVER_THREAD_BUSY: f64 = 0.9;

/// Reports that a target is emulated, and late completions of the emulation.
pub(super) fn emulated(cell: &Cell, say: &mut Say) {
    if cell.evidence.virtual_time {
        say(
            "EMULATED",
            Level::Note,
            "emulated, in virtual time: the result of a storage model, not a measurement; VALID means that the run was sound, not that the model is accurate".to_owned(),
        );
    }
    if cell.evidence.emulated_live {
        say(
            "EMULATED",
            Level::Note,
            "emulated, in real time: the result of a storage model driven by this machine's clock; VALID means that the run was sound, not that the model is accurate".to_owned(),
        );
    }
    driver_threads(cell, say);
    if let Some(late) = cell.evidence.late_share
        && late > LATE_SHARE_MAX
    {
        let away = cell.evidence.late_away_share.map_or(String::new(), |away| {
            format!(
                ", {:.0} % of these because the thread that waited for them had lost its core to the kernel, another program or the hypervisor",
                away / late * 100.0
            )
        });
        say(
            "LATE",
            Level::Warning,
            format!(
                "{:.1} % of completions were more than 10 µs later than the model's time{away}: this machine is too busy or too small to emulate in real time; stop other programs, or use model:",
                late * 100.0
            ),
        );
    }
}

/// Reports flash DIMMs whose rate is limited by a driver thread that several of them share, as is the vendor's default.
fn driver_threads(cell: &Cell, say: &mut Say) {
    let Some(modules) = cell.evidence.modules_per_driver_thread else { return };
    let thread = cell.evidence.busy.iter().find(|busy| busy.resource == "driver thread");
    let Some(busy) = thread.filter(|busy| busy.share >= DRIVER_THREAD_BUSY) else { return };
    say(
        "DRIVER_THREAD",
        Level::Note,
        format!(
            "the driver thread is {:.0} % busy and limits the rate: {modules} modules share one thread, the vendor's default; ?occupancy=max gives each module its own",
            busy.share * 100.0
        ),
    );
}
