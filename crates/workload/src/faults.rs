//! Collects the rules that a specification breaks, each with its key, a message and a remedy.

use iodyno_catalog::Fault;

/// Maximum share of an operation, block size or pattern. Larger shares are probably typing errors, and would
/// make smaller ones vanish in rounding.
pub(crate) const MAX_SHARE: f64 = 1e9;

/// Collected rule violations of a specification.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>, help: &str) {
        let help = (!help.is_empty()).then(|| help.to_owned());
        self.0.push(Fault { path: path.into(), message: message.into(), help });
    }

    pub(crate) fn whole(&mut self, key: &str, what: &str, value: u64, most: u64) {
        if !(1..=most).contains(&value) {
            self.add(key, format!("{what} must be a whole number from 1 to {most}"), "");
        }
    }

    pub(crate) fn share(&mut self, key: &str, share: f64) {
        if !(share > 0.0 && share <= MAX_SHARE) {
            let help = "shares are relative to one another: 7 and 3 are 70 % and 30 %";
            self.add(key, "a share must be a number above 0 and at most 10^9", help);
        }
    }

    pub(crate) fn into_list(self) -> Vec<Fault> {
        self.0
    }
}
