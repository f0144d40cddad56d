//! Sparklines: the throughput of a measurement over its intervals, in a few characters.

use iodyno_measure::{Cell, Interval};

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a sparkline of the cell's rate with at most `columns` characters, each the mean of an equal part of
/// the window. Heights are relative to the maximum; parts without completions are blank. None for fewer than
/// three intervals.
pub(super) fn line(cell: &Cell, columns: usize) -> Option<String> {
    if cell.series.len() < 3 || columns == 0 {
        return None;
    }
    // Flushes and trims move no bytes, so count their operations.
    let bytes: u64 = cell.series.iter().map(Interval::bytes).sum();
    let amounts: Vec<f64> =
        cell.series.iter().map(|i| if bytes > 0 { i.bytes() } else { i.ops() } as f64).collect();
    let lengths: Vec<f64> = cell.interval_lengths_ns().map(|ns| ns.max(1) as f64).collect();
    let count = columns.min(amounts.len());
    let rates: Vec<f64> = (0..count)
        .map(|i| {
            let part = i * amounts.len() / count..(i + 1) * amounts.len() / count;
            amounts[part.clone()].iter().sum::<f64>() / lengths[part].iter().sum::<f64>()
        })
        .collect();
    bars(&rates)
}

/// Draws a sparkline of non-negative rates with at most `columns` characters, and returns it with the
/// smallest and largest value drawn. None if all rates are 0.
pub(super) fn of(rates: &[f64], columns: usize) -> Option<(String, f64, f64)> {
    let count = columns.min(rates.len());
    let means: Vec<f64> = (0..count)
        .map(|i| {
            let part = &rates[i * rates.len() / count..(i + 1) * rates.len() / count];
            part.iter().sum::<f64>() / part.len() as f64
        })
        .collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = means.iter().copied().fold(0.0, f64::max);
    Some((bars(&means)?, least, largest))
}

fn bars(rates: &[f64]) -> Option<String> {
    let largest = rates.iter().copied().fold(0.0, f64::max);
    let character = |&rate: &f64| {
        if rate <= 0.0 {
            return ' ';
        }
        LEVELS[((rate / largest * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    (largest > 0.0).then(|| rates.iter().map(character).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a character averages several samples, a dip of one sample is drawn and labelled as that average.
    #[test]
    fn the_range_is_that_of_the_bars() {
        let mut rates = vec![50.0; 100];
        rates[3] = 10.0;
        let (bars, least, largest) = of(&rates, 10).unwrap();
        assert_eq!((bars.chars().count(), least, largest), (10, 46.0, 50.0));
        assert_eq!(of(&rates[..5], 10).map(|drawn| (drawn.1, drawn.2)), Some((10.0, 50.0)));
        assert_eq!(of(&[0.0, 0.0], 10), None);
    }
}
