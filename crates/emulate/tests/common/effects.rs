//! Effects of a parameter in a file: the possible effects of changing its value, and checks whether
//! a small machine shows them.

use iodyno_emulate::endurance::outlook;
use iodyno_emulate::spec::{Kind, Written};
use iodyno_emulate::{Fault, PartId, describe};
use iodyno_units::{Op, OpKind};

use super::load::{Files, Load, populated, small};

/// Name of the first rule that the files break with `devices` devices in the server; `None` if they break none.
fn broken(files: &Files, devices: usize) -> Option<&'static str> {
    let device = describe::device("any", &files.device);
    let system = describe::system("any", &files.system, &mut |_| Err(String::new()));
    if let Some(errors) = device.as_ref().err().or(system.as_ref().err()) {
        return Some(errors[0].rule.unwrap_or_else(|| panic!("no rule: {errors:?}")));
    }
    let (device, host) = files.read();
    populated(&device, &host, Written::Fresh, devices).err()
}

/// Number of acknowledged writes, out of 64, that are lost if the power fails at once.
fn lost(files: &Files) -> usize {
    let mut m = small(files, Written::Fresh, 1);
    m.keep_content();
    let worker = m.add_worker(0);
    let at = |token: u64| token * (1 << 20);
    for token in 0..64 {
        let write =
            Op { offset_bytes: at(token), len_bytes: 4096, kind: OpKind::Write, fua: false };
        m.submit(m.now_ns(), worker, 0, &write, token);
        m.next_completion(u64::MAX).expect("one is outstanding");
    }
    let now_ns = m.now_ns();
    m.inject(now_ns, Fault::PowerCut);
    while m.next_completion(now_ns + 1).is_some() {}
    (0..64).filter(|&token| m.content(0, at(token)) != Some(token)).count()
}

/// Reads a damaged page. Returns the duration in ns, and whether the read returned data.
fn damaged(files: &Files) -> (u64, bool) {
    let mut m = small(files, Written::Sequential, 1);
    let worker = m.add_worker(0);
    m.inject(0, Fault::Page { part: PartId(0), offset_bytes: 0 });
    let read = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };
    m.submit(1, worker, 0, &read, 0);
    let done = m.next_completion(u64::MAX).expect("one is outstanding");
    (done.at_ns, done.failure.is_none())
}

/// The visible effect of a changed value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// This load takes longer on average, by at least 1 %.
    Slower(Load),
    /// This load takes less time on average, by at least 1 %.
    Faster(Load),
    /// A machine with this number of devices is refused by this rule; before the change, it was accepted.
    Refused(&'static str, usize),
    /// The capacity that the host sees changes.
    Capacity,
    /// The predicted endurance changes.
    Endurance,
    /// A value that other crates use changes: the bay, hot-swapping, the power draw, or shared limits.
    Service,
    /// Acknowledged writes are lost in a power cut; before the change, none were.
    Lost,
    /// All acknowledged writes survive a power cut; before the change, some were lost.
    Kept,
    /// A damaged page is lost; before the change, it was recovered.
    Unrecovered,
    /// A damaged page is recovered later than before the change.
    RecoveredLater,
}

impl Effect {
    /// Checks that the change has this effect. `Err` describes the observed effect.
    pub(crate) fn check(&self, before: &Files, after: &Files) -> Result<(), String> {
        let seen = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        match self {
            Self::Slower(load) | Self::Faster(load) => {
                let of = |files: &Files| load.run(&mut load.machine(files));
                let ratio = of(after) / of(before);
                let slower = matches!(self, Self::Slower(_));
                let holds = if slower { ratio >= 1.01 } else { ratio <= 1.0 / 1.01 };
                seen(holds, format!("{ratio:.4} times as long"))
            }
            Self::Refused(rule, devices) => {
                let (was, is) = (broken(before, *devices), broken(after, *devices));
                seen((was, is) == (None, Some(rule)), format!("{was:?}, then {is:?}"))
            }
            Self::Capacity => {
                let of = |files: &Files| files.read().0.capacity_bytes();
                seen(of(before) != of(after), format!("{} bytes", of(after)))
            }
            Self::Endurance => {
                let of = |files: &Files| match files.read().0.kind {
                    Kind::Flash(flash) => outlook(&flash),
                    other => panic!("{other:?}"),
                };
                seen(of(before) != of(after), format!("{:?}", of(after)))
            }
            Self::Service => {
                let of = |files: &Files| {
                    let of = describe::device("any", &files.device).unwrap();
                    let is_pooled = of.class.is_some_and(|class| class.is_pooled);
                    (of.bay, of.power, of.device.hot_swap, is_pooled)
                };
                seen(of(before) != of(after), format!("{:?}", of(after)))
            }
            Self::Lost | Self::Kept => {
                let (was, is) = (lost(before), lost(after));
                let (less, more) = if matches!(self, Self::Lost) { (was, is) } else { (is, was) };
                seen(less == 0 && more > 0, format!("{was} lost, then {is}"))
            }
            Self::Unrecovered => {
                let (was, is) = (damaged(before), damaged(after));
                seen(was.1 && !is.1, format!("{was:?}, then {is:?}"))
            }
            Self::RecoveredLater => {
                let (was, is) = (damaged(before), damaged(after));
                seen(was.1 && is.1 && is.0 > was.0, format!("{was:?}, then {is:?}"))
            }
        }
    }
}

/// A key, its changed value, other changes that both sides of the comparison have, and the effect.
pub(crate) type Case =
    (&'static str, &'static str, &'static [(&'static str, &'static str)], Effect);

/// Describes the failure of each case whose effect is missing.
pub(crate) fn failures(files: &Files, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, value, around, effect) in cases {
        let before = around.iter().fold(files.clone(), |files, change| files.with(*change));
        let after = before.with((key, value));
        if let Err(seen) = effect.check(&before, &after) {
            wrong.push(format!("{key} = {value}: {seen}, where {effect:?} was expected"));
        }
    }
    wrong
}
