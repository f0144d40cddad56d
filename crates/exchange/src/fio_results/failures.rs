//! Counts failed operations of fio jobs, and finds errors that ended jobs.

use super::group::Group;
use super::output::{Job, Options};
use iodyno_measure::errors::errno_text;
use iodyno_measure::{Cell, ErrorKind};
use iodyno_units::OpKind;

/// Error that ended a job of the group; None if there is none or if the job continued after errors
/// (`continue_on_error`).
pub(super) fn error_that_ended(group: &Group<'_>, options: &Options) -> Option<String> {
    // fio reports the first error of a job that went on in the same field.
    let goes_on = options.get("continue_on_error").is_some_and(|kinds| kinds != "none");
    let error = group.jobs.iter().find(|job| job.error != 0 && !(goes_on && job.total_err > 0))?;
    Some(errno_text(i32::try_from(error.error.unsigned_abs()).unwrap_or(i32::MAX)))
}

/// Whether fio recorded the latency of any operation.
pub(super) fn has_latencies(group: &Group<'_>) -> bool {
    let of = |job: &&Job| {
        job.directions()
            .any(|(_, of)| [&of.clat_ns, &of.lat_ns].into_iter().flatten().any(|of| of.max > 0))
    };
    group.jobs.iter().any(of)
}

/// Assigns all failed operations to the last interval and to the errno of the first failure, because fio records
/// neither the times nor the other errors. `known`: for each kind of operation, the number of successes and failures,
/// as far as known. Failures of an unknown kind count as the first kind that was issued.
pub(super) fn count_failures(
    cell: &mut Cell,
    group: &Group<'_>,
    known: &[(OpKind, u64, u64)],
    say: &mut dyn FnMut(String),
) {
    let errors: u64 = group.jobs.iter().map(|job| job.total_err).sum();
    // fio gives the first error in this field, whether the job went on or not.
    let first = group.jobs.iter().map(|job| job.error).find(|error| *error != 0);
    let (Some(first), Some(last)) = (first, cell.series.last_mut()) else { return };
    let errno = i32::try_from(first.unsigned_abs()).unwrap_or(i32::MAX);
    let told: u64 = known.iter().map(|(.., failed)| failed).sum();
    let mut untold = errors.saturating_sub(told);
    let mut issued = known.iter().filter(|(_, ops, failed)| ops + failed > 0);
    if let (1.., Some((kind, ..)), Some(_)) = (untold, issued.next(), issued.next()) {
        say(format!(
            "fio does not tell which kind of operation failed {untold} times: counted as {}s",
            kind.name()
        ));
    }
    for (kind, _, failed) in known.iter().filter(|(_, ops, failed)| ops + failed > 0) {
        let ops = failed + std::mem::take(&mut untold);
        if ops > 0 {
            let stats = last.classes[kind.index()].get_or_insert_default();
            stats.errors.add_many(ErrorKind::from_errno(errno), errno, ops);
        }
    }
    if errors > 1 {
        say(format!(
            "{errors} operations failed; fio records only the first error, so all are counted as {}, in the last interval",
            errno_text(errno)
        ));
    }
}
