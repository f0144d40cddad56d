//! Tests the rules of scoring on examples computed by hand.

use crate::small;

use iodyno_catalog::File;
use iodyno_study::published::{self, Figure};
use iodyno_study::{Nearer, NullModel, Outcome, Provenance, Row, score};
use small::{HEADER, near_print, small};

/// A published value.
fn figure(relation: &str, value: &str, resolution: &str, note: &str) -> Figure {
    let text = format!("{HEADER}F,s,w,,,,,m,{relation},{value},{resolution},1/s,table,{note}");
    let file = File {
        origin: "f.csv".to_owned(),
        name: "f".to_owned(),
        text: text.into(),
        is_named_by_file: false,
    };
    published::read(&file).unwrap().remove(0)
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} where {expected} was expected");
}

#[test]
fn only_what_lies_outside_the_print_counts() {
    let printed = figure("=", "44000", "500", "");
    for (ours, error, outside) in [
        (44_000.0, 0.0, 0.0),
        (44_500.0, 500.0 / 44_000.0, 0.0),
        (43_600.0, -400.0 / 44_000.0, 0.0),
        (45_000.0, 1000.0 / 44_000.0, 500.0 / 44_000.0),
        (40_000.0, -4000.0 / 44_000.0, -3500.0 / 44_000.0),
    ] {
        let score = score(ours, &printed);
        near(score.error, error);
        near(score.outside, outside);
    }
    // Without a resolution, half of the last digit as written: 5.35 ± 0.005, 1 840 000 ± 5000.
    near(score(5.36, &figure("~", "5.35", "", "")).outside, 0.005 / 5.35);
    near(score(1_850_000.0, &figure("~", "1840000", "", "")).outside, 5000.0 / 1_840_000.0);
}

/// The part of the error outside the interval begins where the rounding ends or, on the valid side of a bound, a tenth
/// beyond the bound. The plain error is reported, too.
#[test]
fn one_sided_figures_are_scored_on_both_sides() {
    let over = figure(">=", "3000", "", "");
    for (ours, outside) in
        [(9000.0, 1.9), (3300.0, 0.0), (3000.0, 0.0), (2600.0, 0.0), (1500.0, -1000.0 / 3000.0)]
    {
        near(score(ours, &over).error, (ours - 3000.0) / 3000.0);
        near(score(ours, &over).outside, outside);
    }
    let under = figure("<=", "1100", "50", "");
    near(score(1100.0, &under).outside, 0.0);
    near(score(990.0, &under).outside, 0.0);
    near(score(1210.0, &under).outside, 60.0 / 1100.0);
    // "Just under 500 000" is missed eightfold by 61 000.
    let just_under = score(61_000.0, &figure("<=", "500000", "", ""));
    near(just_under.error, -0.878);
    near(just_under.outside, -0.778);
}

#[test]
fn flags_come_from_the_note() {
    for note in ["printed so; above RAID 0", "14 revolutions for one write: implausible"] {
        assert!(figure("=", "1", "", note).is_flagged());
    }
    assert!(!figure("=", "1", "", "best trade").is_flagged());
}

/// Finds a row by a part of its key.
fn row<'a>(
    outcome: &'a Outcome<'_>,
    figure: &str,
    workload: &str,
    devices: u32,
    metric: &str,
) -> (&'a Row, Provenance) {
    let mut found = outcome.study.rows.iter().zip(&outcome.rows).filter(|(wanted, _)| {
        let key = &wanted.key;
        key.figure == figure
            && key.workload == workload
            && key.devices.unwrap_or(devices) == devices
            && key.metric == metric
    });
    let (wanted, row) = found.next().unwrap();
    (row, wanted.basis)
}

/// Applies all rules to the small study with known cells.
#[test]
fn the_small_study_by_hand() {
    let study = small();
    let outcome = Outcome::new(&study, &near_print(&study));

    // The largest rate over depths 1, 2, 4 is that of depth 4.
    let (reads, basis) = row(&outcome, "Table 1", "randread", 1, "iops_max");
    near(reads.ours.unwrap(), 200_400.0 * 4.0 / 4.1);
    assert_eq!(
        (basis, reads.null),
        (Provenance::Fitted, None),
        "nothing to compare one device with"
    );
    let (two, basis) = row(&outcome, "Table 1", "randread", 2, "iops_max");
    let null = two.null.unwrap();
    assert_eq!((basis, null.model), (Provenance::Predicted, NullModel::Devices));
    near(null.value, 400_000.0);
    assert_eq!(two.nearer(), Some(Nearer::Null), "ours is 2 % off, twice one device nothing");

    // Time-sharing: 1 / (0.67/200 k + 0.33/100 k).
    let (mixed, _) = row(&outcome, "Table 1", "mixed", 1, "iops_max");
    let null = mixed.null.unwrap();
    assert_eq!(null.model, NullModel::TimeSharing);
    near(null.value, 1.0 / (0.67 / 200_000.0 + 0.33 / 100_000.0));
    // 152 k for about 150 k: the digit is 10 k. The null model's 150 376 is within it too.
    assert_eq!((mixed.score.unwrap().outside, mixed.nearer()), (0.0, Some(Nearer::Equal)));
    // Over 300 k: what is printed for one device, 150 k, gives it, and so do we, 1.3 % above.
    let (over, _) = row(&outcome, "Table 1", "mixed", 2, "iops_max");
    near(over.score.unwrap().error, 4.0 / 300.0);
    assert_eq!((over.score.unwrap().outside, over.nearer()), (0.0, Some(Nearer::Equal)));
    // Nothing is printed of writes on two devices, but the null model has its say.
    let (unprinted, _) = row(&outcome, "Table 1", "randwrite", 2, "iops_max");
    assert_eq!((unprinted.score, unprinted.nearer()), (None, None));
    near(unprinted.null.unwrap().value, 200_000.0);
    assert_eq!(unprinted.null.unwrap().score, None);

    // Latencies: r·R + w·W, in µs from a row in µs and one in ms; ours in the unit of the print.
    let (mixed, _) = row(&outcome, "Table 2", "mixed", 1, "latency_mean");
    near(mixed.null.unwrap().value, 0.67 * 4.5 + 0.33 * 5.2);
    let (writes, _) = row(&outcome, "Table 2", "randwrite", 1, "latency_mean");
    near(writes.ours.unwrap(), 0.0052);
    near(writes.standard_error.unwrap(), 0.001);
    // Flagged: shown with its error, not compared.
    let (flagged, _) = row(&outcome, "Table 2", "randwrite", 2, "latency_mean");
    assert!(flagged.flagged && flagged.score.is_some());
    assert_eq!(flagged.nearer(), None);
    // Nor is it an ingredient.
    let (two, _) = row(&outcome, "Table 2", "mixed", 2, "latency_mean");
    assert_eq!(two.null, None);

    // Think time, against none: 2600 over 5200; the null model says 1 for the latency and
    // L / (L + T) for the rate.
    let thinking = "randwrite+thinktime16us";
    let (ratio, basis) = row(&outcome, "Figure 3", thinking, 1, "latency_vs_no_thinktime");
    assert_eq!(basis, Provenance::Predicted, "only one of its ingredients is fitted");
    near(ratio.ours.unwrap(), 0.5);
    near(ratio.standard_error.unwrap(), 0.001 * 2_f64.sqrt());
    near(ratio.null.unwrap().value, 1.0);
    assert_eq!(ratio.nearer(), Some(Nearer::Ours));
    let (rate, _) = row(&outcome, "Figure 3", thinking, 1, "iops_vs_no_thinktime");
    near(rate.ours.unwrap(), 4.0 / 9.0);
    // The think time's latency is not printed in this study, but the one without is, in ms.
    near(rate.null.unwrap().value, 5.2 / 21.2);
    let (one, basis) =
        row(&outcome, "Figure 3", "randwrite+thinktime0us", 1, "latency_vs_no_thinktime");
    assert_eq!((one.ours, one.standard_error, basis), (Some(1.0), Some(0.0), Provenance::Derived));

    // Little: 4.5 µs × the largest rate, both fitted.
    let (knee, basis) = row(&outcome, "Figure 4", "randread", 1, "knee_queue_depth");
    near(knee.ours.unwrap(), 4.5e-6 * 200_400.0 * 4.0 / 4.1);
    assert_eq!(basis, Provenance::Derived);
    // The latency is that of depth 1, also where the panel begins at 2; there the rate is another.
    let (knee, basis) = row(&outcome, "Figure 5", "randread", 1, "knee_queue_depth");
    near(knee.ours.unwrap(), 4.5e-6 * 200_400.0 * 4.0 / 4.1);
    assert_eq!(basis, Provenance::Predicted);
    let (input, basis) = row(&outcome, "prose", "any", 0, "unbalanced_memory_slowdown");
    assert_eq!((input.ours.is_some(), basis), (true, Provenance::Input));
    assert_eq!(outcome.rows.len(), 6 + 6 + 6 + 5 + 1 + 1);
}

/// Each row with a published value is in exactly one stratum. Flagged values are not scored.
#[test]
fn strata_add_up() {
    let study = small();
    let outcome = Outcome::new(&study, &near_print(&study));
    let sum =
        |of: &dyn Fn(&iodyno_study::Stratum) -> usize| outcome.strata.iter().map(of).sum::<usize>();
    assert_eq!((sum(&|s| s.rows), sum(&|s| s.flagged)), (12, 2));
    let with_null = outcome.rows.iter().filter(|row| row.nearer().is_some()).count();
    assert_eq!(sum(&|s| s.with_null), with_null);
    assert!(outcome.strata.iter().all(|s| s.better + s.equal <= s.with_null && s.within <= s.rows));
    let find = |workload: &str, several: bool| {
        let mut all = outcome.strata.iter();
        all.find(|s| {
            s.workload == workload && s.metric == "iops_max" && s.several_devices == several
        })
        .unwrap()
    };
    // One-sided: it counts by its part outside alone.
    let over = find("mixed", true);
    assert_eq!(
        (over.error.mean, over.outside.mean, over.within, over.equal),
        (None, Some(0.0), 1, 1)
    );
    // Writes on one device: 90 k for 100 k ± 500.
    let writes = find("randwrite", false);
    near(writes.error.max.unwrap(), 0.1);
    near(writes.outside.median.unwrap(), 0.095);
    // The flagged row stands alone in its stratum.
    let flagged = outcome.strata.iter().filter(|s| s.flagged == 1);
    assert!(flagged.clone().all(|s| (s.rows, s.error.max, s.within) == (1, None, 0)));
    assert_eq!(flagged.count(), 2);
}
