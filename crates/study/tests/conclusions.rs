//! Tests conclusions of a paper on known cells: each verdict, and errors in study files.

use crate::small;

use iodyno_page::terminal::Style;
use iodyno_page::{Block, html};
use iodyno_study::{Outcome, Study, Verdict, json, page, terminal};
use small::{FIGURES, HEADER, STUDY, near_print, study};

fn with(conclusions: &str) -> Result<Study, String> {
    let text = STUDY.replace("[[inputs]]", &format!("{conclusions}\n[[inputs]]"));
    study(&text, &format!("{HEADER}{FIGURES}")).map_err(|problem| problem.to_string())
}

/// A conclusion with one comparison.
fn conclusion(test: &str) -> String {
    format!("[[conclusions]]\nsays = \"so it is\"\n[[conclusions.tests]]\n{test}\n")
}

/// Verdict and evidence of one comparison.
#[track_caller]
fn found(test: &str) -> (Verdict, String) {
    let study = with(&conclusion(test)).unwrap();
    let outcome = Outcome::new(&study, &near_print(&study));
    (outcome.conclusions[0].verdict, outcome.conclusions[0].evidence.clone())
}

/// Keys that select the compared rows. Reads have 195.5 k/s with a standard error of 0.2 %, the mix has 152 k/s, and
/// writes have 90 k/s.
const RATES: &str = "figure = \"Table 1\"\nmetric = \"iops_max\"\ndevices = 1\n";

#[test]
fn comparisons_hold_or_do_not() {
    let reads = "{ workload = \"randread\" }";
    let (mixed, writes) = ("{ workload = \"mixed\" }", "{ workload = \"randwrite\" }");
    for (test, verdict) in [
        (format!("descending = [{reads}, {mixed}, {writes}]"), Verdict::Holds),
        (format!("descending = [{reads}, {writes}, {mixed}]"), Verdict::DoesNotHold),
        (format!("factor = 2\ndescending = [{reads}, {writes}]"), Verdict::Holds),
        (format!("factor = 2.3\ndescending = [{reads}, {writes}]"), Verdict::DoesNotHold),
        // 195.5 / 90 = 2.172: nearer than twice 0.28 %.
        (format!("factor = 2.17\ndescending = [{reads}, {writes}]"), Verdict::Untestable),
        (format!("share = \"30%\"\nalike = [{mixed}, {reads}]"), Verdict::Holds),
        (format!("share = \"10%\"\nalike = [{reads}, {mixed}]"), Verdict::DoesNotHold),
        // A figure is never larger than itself.
        (format!("descending = [{reads}, {reads}]"), Verdict::Untestable),
        // Two devices over one are 2 in each workload.
        (
            "over = { devices = 1 }\nshare = \"1%\"\nalike = [{ workload = \"randread\", devices = 2 }, { workload = \"mixed\", devices = 2 }]".to_owned(),
            Verdict::Holds,
        ),
    ] {
        let (is, evidence) = found(&format!("{RATES}{test}"));
        assert_eq!(is, verdict, "{test}: {evidence}");
    }
    let (_, evidence) = found(&format!("{RATES}factor = 2\ndescending = [{reads}, {writes}]"));
    assert_eq!(evidence, "iops max 1 device: randread 196 k, randwrite 90.0 k, at least 2 ×");
}

/// All comparisons of a conclusion must hold. A violated comparison takes precedence over an undecided one.
#[test]
fn one_comparison_decides_against_the_others() {
    let of = |order: &str| format!("[[conclusions.tests]]\n{RATES}descending = [{order}]\n");
    let right = of("{ workload = \"randread\" }, { workload = \"mixed\" }");
    let wrong = of("{ workload = \"mixed\" }, { workload = \"randread\" }");
    let even = of("{ workload = \"mixed\" }, { workload = \"mixed\" }");
    for (tests, verdict) in [
        ([&right, &right], Verdict::Holds),
        ([&right, &even], Verdict::Untestable),
        ([&wrong, &even], Verdict::DoesNotHold),
        ([&right, &wrong], Verdict::DoesNotHold),
    ] {
        let study =
            with(&format!("[[conclusions]]\nsays = \"both\"\n{}{}", tests[0], tests[1])).unwrap();
        let outcome = Outcome::new(&study, &near_print(&study));
        assert_eq!(outcome.conclusions[0].verdict, verdict);
    }
}

/// A conclusion whose cells were not simulated is untestable, with this reason.
#[test]
fn figures_that_are_left_out_can_not_be_tested() {
    let test = "figure = \"Table 1\"\nmetric = \"iops_max\"\ndevices = 1\ndescending = [{ workload = \"randread\" }, { workload = \"mixed\" }]";
    let mut study = with(&conclusion(test)).unwrap();
    study.only(&["Table 2".to_owned()]).unwrap();
    let outcome = Outcome::new(&study, &near_print(&study));
    let finding = &outcome.conclusions[0];
    assert_eq!(finding.verdict, Verdict::Untestable);
    assert_eq!(finding.evidence, "no simulated figure for ram randread iops_max (Table 1)");
}

#[test]
fn what_means_no_row_or_several_is_refused() {
    let refused = |test: &str| with(&conclusion(test)).unwrap_err();
    let reads = "{ workload = \"randread\" }";
    let none = refused(&format!("{RATES}descending = [{reads}, {{ workload = \"randred\" }}]"));
    assert!(
        none.contains("this figure matches 0 rows of the study, but must match exactly one"),
        "{none}"
    );
    let two = refused(&format!(
        "figure = \"Table 1\"\nmetric = \"iops_max\"\ndescending = [{reads}, {reads}]"
    ));
    assert!(two.contains("this figure matches 2 rows of the study"), "{two}");
    for (test, why) in [
        (format!("{RATES}descending = [{reads}]"), "at least two figures"),
        (RATES.to_owned(), "either `descending` or `alike`"),
        (format!("{RATES}alike = [{reads}, {reads}]"), "`alike` requires a `share`"),
        (
            format!("{RATES}factor = 2\nshare = \"10%\"\nalike = [{reads}, {reads}]"),
            "`factor` belongs",
        ),
    ] {
        let said = refused(&test);
        assert!(said.contains(why), "{said}");
    }
    let neither = with("[[conclusions]]\nsays = \"so it is\"\n").unwrap_err();
    assert!(neither.contains("either `tests` or `untestable`"), "{neither}");
}

/// The terminal shows the conclusions before the systems; page and JSON document contain them, too.
#[test]
fn conclusions_come_first() {
    let rates =
        format!("{RATES}descending = [{{ workload = \"randread\" }}, {{ workload = \"mixed\" }}]");
    let none =
        "[[conclusions]]\nsays = \"users are happy\"\nuntestable = \"they were not asked\"\n";
    let study = with(&format!("{}{none}", conclusion(&rates))).unwrap();
    let outcome = Outcome::new(&study, &near_print(&study));
    let text = terminal::show(&outcome, Style { color: false, width: 80, unicode: true });
    let lines: Vec<&str> = text.lines().skip(3).take(6).collect();
    assert_eq!(
        lines,
        [
            "The paper's conclusions: 1 holds, 0 do not hold, 1 can't be tested",
            "  holds            so it is",
            "                   iops max 1 device: randread 196 k, mixed 152 k",
            "  can't be tested  users are happy",
            "                   they were not asked",
            "",
        ],
        "{text}"
    );
    let drawn = page::document(&outcome, &[], "iodyno");
    let Some(Block::Table(table)) = drawn.sections[0].blocks.first() else { panic!() };
    assert_eq!((table.rows.len(), &*table.caption), (2, lines[0]));
    assert!(html::page(&drawn).contains("users are happy"));
    let document = json::document(&outcome);
    let schema = serde_json::from_str(json::SCHEMA_STUDY).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    assert_eq!(document["conclusions"][0]["verdict"], "holds");
    assert_eq!(document["conclusions"][1]["verdict"], "untestable");
}
