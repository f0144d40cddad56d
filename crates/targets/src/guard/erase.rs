//! Additional checks before a purge.
//!
//! A write may go to a device that looks empty; a purge also erases data of unknown kinds, and on some devices data
//! outside the named range. So a device or an export must be named for a purge, whatever it holds. A target that is
//! mounted or held open is never erased: the user must unmount or close it first, since `--destroy` does not lift this
//! refusal.

use crate::error::{Refusal, RefusalCode, RefusedTarget, TargetError};
use crate::guard::{Confirm, confirm, shown};
use crate::inspect::{Inspection, Kind};

/// Refusals to purge that `--destroy` can't lift, because the target is in use.
const IN_USE: [RefusalCode; 6] = [
    RefusalCode::Mounted,
    RefusalCode::Swap,
    RefusalCode::Held,
    RefusalCode::Locked,
    RefusalCode::Member,
    RefusalCode::OpenElsewhere,
];

/// Refusals because of existing data. For a purge their advice, to choose another target, is replaced.
const CONTENT: [RefusalCode; 4] = [
    RefusalCode::PartitionTable,
    RefusalCode::Signature,
    RefusalCode::ForeignFile,
    RefusalCode::HoldsData,
];

/// Adds the refusals specific to a purge, then lifts those that the `--destroy` names in `given` permit.
///
/// # Errors
/// [`TargetError::Refused`] if the target is in use, or if the given names do not lift all refusals.
pub(crate) fn allow_purge(
    inspection: &Inspection,
    mut refusals: Vec<Refusal>,
    given: &Confirm,
) -> Result<Vec<Refusal>, TargetError> {
    for refusal in &mut refusals {
        if CONTENT.contains(&refusal.code) {
            "The purge would erase this data.".clone_into(&mut refusal.mend);
        }
    }
    if refusals.iter().any(|refusal| IN_USE.contains(&refusal.code)) {
        return Err(TargetError::Refused(Box::new(RefusedTarget {
            target: shown(inspection),
            refusals,
            confirmed_by: Vec::new(),
            given: given.0.clone(),
        })));
    }
    if matches!(inspection.kind, Kind::Block | Kind::Nbd) {
        refusals.push(Refusal {
            code: RefusalCode::Purge,
            found: "A purge erases all data on the target, including data of unknown kinds."
                .to_owned(),
            mend: "Make sure that this is the right target.".to_owned(),
        });
    }
    confirm(inspection, refusals, given)
}
