//! The steady state of SNIA's performance test specification (PTS 2.0.2, definition 2.1.24). Over the last five
//! rounds, the largest and the smallest value of the tracking variable must differ by at most 20 % of the mean. The
//! least squares line must rise or fall by at most 10 % of the mean from the first to the last of these rounds. If
//! this is not so after 25 rounds, the answer is NOT REACHED, and the last window is reported all the same.
//!
//! The steady state is judged only at the end of a round, for all tracking variables together. The criterion is weak: a
//! device that slows down by 2.4 % per round passes at its first window, and noise of 10 % passes sooner or later,
//! since there are up to 21 windows. So a report states the number of windows tried, and [`super::drift`] gives our own
//! verdict in addition.

use super::{BadInput, all_finite, describe};
use serde::{Deserialize, Serialize};

/// Steady-state criterion. Limits other than [`SteadyLimits::PTS`] may suit a noisy target, but the report
/// must state them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyLimits {
    /// Number of rounds in the measurement window, 2 or more.
    pub window_rounds: u32,
    /// Maximum number of rounds of the search; at least `window_rounds`.
    pub rounds_max: u32,
    /// Maximum range (largest minus smallest value) within the window, as a fraction of the mean; above 0.
    pub range_share_max: f64,
    /// Maximum rise or fall of the fitted line over the window, as a fraction of the mean; above 0.
    pub slope_share_max: f64,
}

impl SteadyLimits {
    /// Limits of the SNIA Performance Test Specification (PTS).
    pub const PTS: Self =
        Self { window_rounds: 5, rounds_max: 25, range_share_max: 0.20, slope_share_max: 0.10 };

    /// Whether the limits comply with the PTS. The PTS permits a maximum of more than 25 rounds.
    pub fn is_pts(&self) -> bool {
        *self == Self { rounds_max: self.rounds_max, ..Self::PTS } && self.rounds_max >= 25
    }
}

/// Formats the limits for the report.
impl std::fmt::Display for SteadyLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "range ≤ {} % and slope ≤ {} % of the mean over {} rounds, at most {} rounds ({})",
            self.range_share_max * 100.0,
            self.slope_share_max * 100.0,
            self.window_rounds,
            self.rounds_max,
            if self.is_pts() { "SNIA PTS" } else { "not SNIA's limits" }
        )
    }
}

/// Judgement of one tracking variable (a measured figure that must be steady, such as IOPS) over one window of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Number of the window's first round, counted from 1.
    pub first_round: u32,
    /// Value of the tracking variable in each round of the window, in its own unit.
    pub values: Vec<f64>,
    /// Mean of `values`, in their unit.
    pub mean: f64,
    /// Line fitted to the values as a function of the round number: slope × round + intercept.
    pub fit: describe::Line,
    /// Largest minus smallest value.
    pub range: f64,
    /// Absolute rise or fall of the fitted line from the first to the last round of the window.
    pub slope_excursion: f64,
    /// Whether `range` is at most [`SteadyLimits::range_share_max`] of the mean.
    pub range_ok: bool,
    /// Whether `slope_excursion` is at most [`SteadyLimits::slope_share_max`] of the mean.
    pub slope_ok: bool,
}

impl Window {
    /// Judges the `values` of consecutive rounds, beginning with round `first_round`. A mean of 0 or less is
    /// never steady, because the limits are fractions of the mean.
    pub fn judge(limits: &SteadyLimits, first_round: u32, values: &[f64]) -> Self {
        let mean = describe::mean(values);
        let fit = describe::least_squares(f64::from(first_round), values);
        let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let range = highest - lowest;
        let slope_excursion = fit.slope.abs() * (values.len() as f64 - 1.0);
        let positive = mean > 0.0;
        Self {
            first_round,
            values: values.to_vec(),
            mean,
            fit,
            range,
            slope_excursion,
            range_ok: positive && range <= limits.range_share_max * mean,
            slope_ok: positive && slope_excursion <= limits.slope_share_max * mean,
        }
    }

    /// Whether the tracking variable is steady over this window.
    pub fn steady(&self) -> bool {
        self.range_ok && self.slope_ok
    }

    /// Number of the window's last round, counted from 1.
    pub fn last_round(&self) -> u32 {
        self.first_round + self.values.len() as u32 - 1
    }

    /// Largest minus smallest value, as a fraction of the mean.
    pub fn range_share(&self) -> f64 {
        self.range / self.mean
    }

    /// Slope excursion as a fraction of the mean.
    pub fn slope_share(&self) -> f64 {
        self.slope_excursion / self.mean
    }
}

/// State of the search for a steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Another round is needed.
    Running,
    /// All tracking variables were steady over the last window.
    Reached,
    /// The maximum number of rounds is used up; the last window must be reported as NOT REACHED.
    NotReached,
}

/// Search for a steady state of one or more tracking variables (the measured figures that must be steady, such as
/// IOPS). The search can be stored and resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    limits: SteadyLimits,
    variables: Vec<String>,
    /// Values of all rounds so far: one list per round, with one value per tracking variable.
    rounds: Vec<Vec<f64>>,
    progress: Progress,
}

impl SteadyState {
    /// Creates a search that has no rounds yet. Contradictory limits and an empty list of variables are errors.
    pub fn new(limits: SteadyLimits, variables: Vec<String>) -> Result<Self, BadInput> {
        let refuse = |text: String| Err(BadInput(text));
        if variables.is_empty() {
            return refuse("a steady state needs at least one tracking variable".to_owned());
        }
        if limits.window_rounds < 2 || limits.rounds_max < limits.window_rounds {
            return refuse(format!(
                "a window of {} rounds with a maximum of {} rounds is not valid: use a window of 2 rounds or more, and a maximum of at least the window",
                limits.window_rounds, limits.rounds_max
            ));
        }
        for share in [limits.range_share_max, limits.slope_share_max] {
            if !(share > 0.0 && share.is_finite()) {
                return refuse(format!(
                    "a steady-state limit of {share} can't be met: use a share above 0"
                ));
            }
        }
        Ok(Self { limits, variables, rounds: Vec::new(), progress: Progress::Running })
    }

    /// Adds the results of a finished round, one value per tracking variable, and returns the new state. Missing
    /// or infinite values, and rounds after the end of the search, are errors.
    pub fn push_round(&mut self, values: &[f64]) -> Result<Progress, BadInput> {
        if self.progress != Progress::Running {
            return Err(BadInput(format!(
                "the search for a steady state ended after round {}; start a new search to add rounds",
                self.rounds.len()
            )));
        }
        if values.len() != self.variables.len() {
            return Err(BadInput(format!(
                "a round needs one value for each of {} tracking variables, but has {}: add a round when all its cells are finished",
                self.variables.len(),
                values.len()
            )));
        }
        all_finite("a round", values)?;
        self.rounds.push(values.to_vec());
        let windows = self.last_windows();
        if !windows.is_empty() && windows.iter().all(Window::steady) {
            self.progress = Progress::Reached;
        } else if self.rounds.len() >= self.limits.rounds_max as usize {
            self.progress = Progress::NotReached;
        }
        Ok(self.progress)
    }

    /// Latest measurement window of each variable; empty while there are too few rounds.
    fn last_windows(&self) -> Vec<Window> {
        let length = self.limits.window_rounds as usize;
        let Some(start) = self.rounds.len().checked_sub(length) else {
            return Vec::new();
        };
        (0..self.variables.len())
            .map(|v| {
                let values: Vec<f64> = self.rounds[start..].iter().map(|r| r[v]).collect();
                Window::judge(&self.limits, start as u32 + 1, &values)
            })
            .collect()
    }

    /// Summarises the search so far.
    pub fn report(&self) -> SteadyReport {
        let rounds = self.rounds.len() as u32;
        SteadyReport {
            limits: self.limits,
            progress: self.progress,
            rounds,
            windows_tried: (rounds + 1).saturating_sub(self.limits.window_rounds),
            windows: self.variables.iter().cloned().zip(self.last_windows()).collect(),
        }
    }
}

/// Summary of a search for a steady state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyReport {
    /// Limits by which the rounds were judged.
    pub limits: SteadyLimits,
    /// Whether the search for the steady state goes on, or how it ended.
    pub progress: Progress,
    /// Number of completed rounds.
    pub rounds: u32,
    /// Number of windows judged. If it exceeds ten, success may be due to chance.
    pub windows_tried: u32,
    /// Name and latest window of each tracking variable; empty with too few rounds.
    pub windows: Vec<(String, Window)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise;
    use proptest::prelude::*;

    fn judge(values: &[f64]) -> Window {
        Window::judge(&SteadyLimits::PTS, 1, values)
    }

    fn search(rounds: impl IntoIterator<Item = f64>) -> SteadyReport {
        let mut s = SteadyState::new(SteadyLimits::PTS, vec!["IOPS".to_owned()]).unwrap();
        for y in rounds {
            if s.push_round(&[y]).unwrap() != Progress::Running {
                break;
            }
        }
        s.report()
    }

    /// Worked examples, repeated in units of seconds and nanoseconds, because an implementation that rounds to
    /// fixed decimals would accept any small values.
    #[test]
    fn worked_examples() {
        type Case = (&'static [f64], f64, f64, bool, bool);
        let cases: [Case; 6] = [
            (&[1.0; 5], 0.0, 0.0, true, true),
            (&[1.0, 1.025, 1.05, 1.075, 1.1], 0.095_238, 0.095_238, true, true),
            (&[1.0, 1.03, 1.06, 1.09, 1.12], 0.113_207, 0.113_207, true, false),
            (&[1.16, 1.0, 1.0, 1.0, 0.97], 0.185_185, 0.148_148, true, false),
            // No change from first to last, nor by the fit; only the range shows it.
            (&[1.0, 1.0, 1.3, 1.0, 1.0], 0.283_019, 0.0, false, true),
            // The end points alone would say 11.3 %.
            (&[1.0, 1.06, 1.06, 1.06, 1.12], 0.113_207, 0.090_566, true, true),
        ];
        for (y, range_share, slope_share, range_ok, slope_ok) in cases {
            for scale in [1.0, 1e-9, 1e9, 2e-2] {
                let y: Vec<f64> = y.iter().map(|v| v * scale).collect();
                let w = judge(&y);
                assert!((w.range_share() - range_share).abs() < 1e-6, "{w:?}");
                assert!((w.slope_share() - slope_share).abs() < 1e-6, "{w:?}");
                assert_eq!((w.range_ok, w.slope_ok), (range_ok, slope_ok), "{w:?}");
                assert_eq!(w.steady(), range_ok && slope_ok);
            }
        }
        // Values exactly at the limits pass; the sums of these values are exact.
        assert!(judge(&[9.0, 11.0, 10.0, 11.0, 9.0]).steady());
        assert!(!judge(&[0.0; 5]).steady() && !judge(&[-1.0; 5]).steady());
    }

    #[test]
    fn the_fit_is_over_the_number_of_the_round() {
        let mut s = SteadyState::new(SteadyLimits::PTS, vec!["a".into(), "b".into()]).unwrap();
        for round in 1..=8_u32 {
            // The second variable settles from round 4 on.
            let b = 500.0 + 2.0 * f64::from(round);
            let b = if round < 4 { b * 2.0 } else { b };
            let progress = s.push_round(&[100.0, b]).unwrap();
            assert_eq!(progress == Progress::Reached, round == 8, "round {round}");
        }
        let report = s.report();
        assert_eq!((report.rounds, report.windows_tried), (8, 4));
        let (name, w) = &report.windows[1];
        assert_eq!((name.as_str(), w.first_round, w.last_round()), ("b", 4, 8));
        assert!((w.fit.slope - 2.0).abs() < 1e-9 && (w.fit.intercept - 500.0).abs() < 1e-9);
        assert!((w.fit.correlation.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(report.windows[0].1.fit.correlation, None);
        assert!(s.push_round(&[100.0, 516.0]).is_err(), "it has ended");
        let kept = serde_json::to_string(&s).unwrap();
        assert_eq!(serde_json::from_str::<SteadyState>(&kept).unwrap(), s);
    }

    #[test]
    fn it_is_given_up_after_25_rounds_and_never_in_the_middle_of_one() {
        let report = search((0..40).map(|i| if i % 2 == 0 { 1.0 } else { 1.5 }));
        assert_eq!(report.progress, Progress::NotReached);
        assert_eq!((report.rounds, report.windows_tried), (25, 21));
        assert_eq!(report.windows[0].1.first_round, 21);
        let mut s = SteadyState::new(SteadyLimits::PTS, vec!["a".into(), "b".into()]).unwrap();
        assert!(
            s.push_round(&[1.0])
                .unwrap_err()
                .to_string()
                .contains("2 tracking variables, but has 1")
        );
        assert!(s.push_round(&[1.0, f64::NAN]).is_err());
        assert_eq!(s.report().rounds, 0, "what is refused is not kept");
        assert!(search([1.0; 4]).windows.is_empty());
    }

    #[test]
    fn limits_are_printed_and_checked() {
        let cloud = SteadyLimits { range_share_max: 0.3, ..SteadyLimits::PTS };
        assert!(SteadyLimits::PTS.to_string().ends_with("(SNIA PTS)"));
        assert!(cloud.to_string().contains("range ≤ 30 %"));
        assert!(cloud.to_string().ends_with("(not SNIA's limits)"));
        let name = || vec!["x".to_owned()];
        assert!(SteadyState::new(SteadyLimits { rounds_max: 4, ..cloud }, name()).is_err());
        assert!(SteadyState::new(SteadyLimits { slope_share_max: 0.0, ..cloud }, name()).is_err());
        assert!(SteadyState::new(cloud, Vec::new()).is_err());
    }

    /// The criterion is known to be weak: it accepts declining, alternating and noisy series, as often as
    /// simulated.
    #[test]
    fn the_criterion_is_as_weak_as_known() {
        assert_eq!(search((0..25).map(|i| 0.976_f64.powi(i))).windows_tried, 1);
        assert_eq!(search([1.1, 0.9, 1.1, 0.9, 1.1]).progress, Progress::Reached);
        let passes = |name: &str, cv, rounds| {
            noise::share(2_000, |i| {
                let y = noise::ar1(&mut noise::trial(name, i), rounds, 1e4, cv, 0.0);
                search(y).progress == Progress::Reached
            })
        };
        for (cv, rounds, known) in
            [(0.05, 5, 0.87), (0.10, 5, 0.30), (0.10, 25, 0.98), (0.15, 25, 0.69)]
        {
            let share = passes("steady", cv, rounds);
            assert!((share - known).abs() < 0.03, "CV {cv}, {rounds} rounds: {share}");
        }
    }

    proptest! {
        /// Changing the unit (here by powers of two, which scale exactly) or reversing time does not change the
        /// verdict.
        #[test]
        fn scale_and_reversal_leave_the_verdict(
            y in prop::collection::vec(0.8_f64..1.2, 5), power in -60_i32..60,
        ) {
            let w = judge(&y);
            let scaled: Vec<f64> = y.iter().map(|v| v * 2_f64.powi(power)).collect();
            prop_assert_eq!(judge(&scaled).steady(), w.steady());
            let back = judge(&y.iter().rev().copied().collect::<Vec<_>>());
            prop_assert!((back.fit.slope + w.fit.slope).abs() < 1e-12);
            prop_assert_eq!(back.range.to_bits(), w.range.to_bits());
        }
    }
}
