//! Stalls: stretches of a series with almost no completed operations.

use core::ops::Range;

/// Maximum rate of a stall, as a fraction of the usual rate. The fraction is low because users notice hangs, not slow
/// seconds.
pub const STALL_SHARE: f64 = 0.1;

/// Returns the index ranges of consecutive rates below [`STALL_SHARE`] of the usual rate. Empty if that is 0.
pub fn stalls(rates: &[f64], usual: f64) -> Vec<Range<usize>> {
    let limit = usual * STALL_SHARE;
    let mut found: Vec<Range<usize>> = Vec::new();
    for (i, _) in rates.iter().enumerate().filter(|(_, rate)| **rate < limit) {
        match found.last_mut() {
            Some(last) if last.end == i => last.end = i + 1,
            _ => found.push(i..i + 1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_stall() {
        let rates = [0.0, 10.0, 10.0, 0.9, 0.0, 10.0, 1.0, 10.0, 10.0, 10.0, 0.5];
        assert_eq!(stalls(&rates, 10.0), [0..1, 3..5, 10..11], "a tenth is no stall, less is");
        assert!(stalls(&[], 1.0).is_empty() && stalls(&[0.0, 0.0, 5.0], 0.0).is_empty());
    }
}
