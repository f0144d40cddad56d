//! Maps values to positions and back, on linear, logarithmic, nines and category scales.
//!
//! A value is first transformed (to its logarithm or number of nines) and then mapped linearly to pixels. Zooming in
//! the page's script is therefore a plain scaling of pixels. Values without a position (not finite, not above 0 on a
//! logarithmic axis, a quantile of 1) map to `None` and are not drawn.

use crate::{Axis, Quantity, Scale};

use super::steps;

/// Maximum distance of a position from the end of its axis, in pixels. Positions farther away are clipped
/// anyway, and clamping keeps their coordinates short.
const BEYOND: f64 = 2000.0;
/// Largest absolute value that has a position; differences of larger values might overflow.
const HUGE: f64 = 1e300;

/// Transformation applied to values before they are mapped linearly to pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No transformation.
    Linear,
    /// Decimal logarithm of the value.
    Log,
    /// `-log10(1 - q)`: the number of nines of a quantile.
    Nines,
    /// Category index from 0, with the number of categories.
    Categories(usize),
}

impl Kind {
    /// Transformation for the scale of an axis.
    pub(super) fn of(scale: &Scale) -> Self {
        match scale {
            Scale::Linear { .. } => Self::Linear,
            Scale::Log => Self::Log,
            Scale::Nines => Self::Nines,
            Scale::Categories(names) => Self::Categories(names.len()),
        }
    }

    /// Transforms a value; `None` if it has no position on the scale, such as 0 on a logarithmic scale.
    pub(super) fn transform(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => (value.abs() < HUGE).then_some(value),
            Self::Log => (value > 0.0 && value < HUGE).then(|| value.log10()),
            Self::Nines => {
                (0.0..1.0).contains(&value).then(|| -(-value).ln_1p() / std::f64::consts::LN_10)
            }
            Self::Categories(n) => (-0.5..=n as f64 - 0.5).contains(&value).then_some(value),
        }
    }

    /// Converts a transformed value back: the inverse of `transform`.
    pub(super) fn restore(self, transformed: f64) -> f64 {
        match self {
            Self::Linear | Self::Categories(_) => transformed,
            Self::Log => 10_f64.powf(transformed),
            Self::Nines => -(-transformed * std::f64::consts::LN_10).exp_m1(),
        }
    }
}

/// Transformed minimum and maximum of the values on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    kind: Kind,
    ends: Option<(f64, f64)>,
}

impl Extent {
    /// Creates an extent that contains no values yet.
    pub(super) fn new(scale: &Scale) -> Self {
        Self { kind: Kind::of(scale), ends: None }
    }

    /// Extends the extent to a value, unless the value has no position on the scale.
    pub(super) fn add(&mut self, value: f64) {
        if let Some(t) = self.kind.transform(value) {
            let (low, high) = self.ends.unwrap_or((t, t));
            self.ends = Some((low.min(t), high.max(t)));
        }
    }

    /// Extends the extent at both ends by `by`, in transformed units.
    pub(super) fn widen(&mut self, by: f64) {
        self.ends = self.ends.map(|(low, high)| (low - by, high + by));
    }

    /// Raises the maximum by a fraction of its distance from the minimum, or from 0 if the minimum is above 0.
    pub(super) fn headroom(&mut self, share: f64) {
        self.ends = self.ends.map(|(low, high)| (low, high + share * (high - low.min(0.0)).abs()));
    }
}

/// Mapping of an axis: its pixel positions and its range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ruler {
    /// Transformation of values before the mapping to pixels.
    pub(super) kind: Kind,
    pub(super) quantity: Quantity,
    /// Transformed value at pixel `from`.
    pub(super) low: f64,
    /// Transformed value at pixel `to`; above `low`.
    pub(super) high: f64,
    /// Position of `low`, in pixels.
    pub(super) from: f64,
    /// Position of `high`, in pixels.
    pub(super) to: f64,
}

impl Ruler {
    /// Creates an axis between two pixel positions. With `is_tight` it ends at the data's extremes, not at
    /// rounded values.
    pub(super) fn new(axis: &Axis, extent: Extent, from: f64, to: f64, is_tight: bool) -> Self {
        let kind = Kind::of(&axis.scale);
        // Horizontal axes run to the right, vertical ones upwards; labels side by side need more space.
        let wanted = steps::wanted((to - from).abs(), from < to);
        let (low, high) = ends(axis, kind, extent, wanted, from < to, is_tight);
        let mut ruler = Self { kind, quantity: axis.quantity, low, high, from, to };
        // On a vertical axis, categories run from top to bottom, but the axis from bottom to top.
        if matches!(kind, Kind::Categories(_)) && to < from {
            (ruler.from, ruler.to) = (to, from);
        }
        ruler
    }

    /// Position of a value in pixels, at most [`BEYOND`] outside the axis; `None` if the value has no position.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let t = self.kind.transform(value)?;
        // Halved, so that differences of large values stay finite.
        let share = (t / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        let place = self.from + share * (self.to - self.from);
        let (a, b) = (self.from.min(self.to), self.from.max(self.to));
        Some(place.clamp(a - BEYOND, b + BEYOND))
    }

    /// Position of a value in pixels, clamped to the axis; `None` if the value has no position.
    pub(super) fn place_within(&self, value: f64) -> Option<f64> {
        let (a, b) = (self.from.min(self.to), self.from.max(self.to));
        Some(self.place(value)?.clamp(a, b))
    }

    /// Whether a pixel position lies on the axis, to within a tenth of a pixel.
    pub(super) fn holds(&self, place: f64) -> bool {
        let (a, b) = (self.from.min(self.to), self.from.max(self.to));
        (a - 0.05..=b + 0.05).contains(&place)
    }

    /// Value at a pixel position.
    #[cfg(test)]
    pub(super) fn value(&self, place: f64) -> f64 {
        let share = (place - self.from) / (self.to - self.from);
        self.kind.restore(self.low + share * (self.high - self.low))
    }

    /// Values at the low and the high end of the axis.
    pub(super) fn values(&self) -> (f64, f64) {
        (self.kind.restore(self.low), self.kind.restore(self.high))
    }

    pub(super) fn pixels_per_unit(&self) -> f64 {
        ((self.to - self.from) / (self.high - self.low)).abs()
    }
}

/// Transformed values at both ends of an axis: its fixed range, or the data's extent rounded to ticks.
fn ends(
    axis: &Axis,
    kind: Kind,
    extent: Extent,
    wanted: f64,
    is_wide: bool,
    is_tight: bool,
) -> (f64, f64) {
    if let Kind::Categories(n) = kind {
        return (-0.5, n.max(1) as f64 - 0.5);
    }
    let from_zero = matches!(axis.scale, Scale::Linear { zero: true });
    let given = axis.range.and_then(|(a, b)| Some((kind.transform(a)?, kind.transform(b)?)));
    let is_given = given.is_some_and(|(a, b)| a < b);
    let data = if is_given { given } else { extent.ends };
    let (mut low, mut high) = data.unwrap_or(match kind {
        Kind::Log | Kind::Nines => (0.0, 3.0),
        _ => (0.0, 1.0),
    });
    if from_zero {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    // If the ends differ by less than doubles resolve, the axis has no ticks, so widen it.
    let least = match kind {
        Kind::Linear => (1e-9 * low.abs().max(high.abs())).max(1e-290),
        _ => 1e-6,
    };
    if high - low < least {
        (low, high) = match kind {
            Kind::Linear if from_zero && low < 0.0 => (low, low.abs().max(1e-280) * 1e-6),
            Kind::Linear if from_zero => (0.0, high.max(1.0)),
            Kind::Linear if low == 0.0 => (-1.0, 1.0),
            Kind::Linear => (low - low.abs() * 0.1, high + high.abs() * 0.1),
            _ => (low - 0.15, high + 0.15),
        };
    }
    if is_given {
        return (low, high);
    }
    match kind {
        Kind::Linear if is_tight => (low, high),
        Kind::Linear => {
            let step = steps::linear_step(axis.quantity, high - low, wanted);
            let (a, b) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
            if a.abs() < HUGE && b.abs() < HUGE && a < b { (a, b) } else { (low, high) }
        }
        Kind::Log if steps::is_binary(axis.quantity, is_wide, high - low) => {
            let two = 2_f64.log10();
            let (a, b) = ((low / two + 1e-9).floor(), (high / two - 1e-9).ceil());
            (a * two, b * two)
        }
        Kind::Log => (steps::round_log(low, false), steps::round_log(high, true)),
        // Begin at 0 % unless all values are in the tail.
        Kind::Nines => (if low < 1.0 { 0.0 } else { low.floor() }, high.max(low.floor() + 1.0)),
        Kind::Categories(_) => (low, high),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: String::new(), quantity: Quantity::LatencyNs, scale, range: None }
    }

    proptest! {
        #[test]
        fn a_place_leads_back_to_its_value(
            a in 1e-6_f64..1e12, factor in 1.01_f64..1e6, share in 0.0_f64..=1.0, kind in 0..4
        ) {
            let (scale, low, high) = match kind {
                0 => (Scale::Linear { zero: false }, a, a * factor),
                1 => (Scale::Linear { zero: true }, a, a * factor),
                2 => (Scale::Log, a, a * factor),
                _ => (Scale::Nines, 0.0, 1.0 - 1.0 / (factor + 1.0)),
            };
            let mut extent = Extent::new(&scale);
            extent.add(low);
            extent.add(high);
            let ruler = Ruler::new(&axis(scale), extent, 300.0, 20.0, false);
            let value = low + share * (high - low);
            let place = ruler.place(value).unwrap();
            prop_assert!(ruler.holds(place), "{ruler:?} {value} {place}");
            let (first, last) = ruler.values();
            prop_assert!((ruler.value(place) - value).abs() <= 1e-9 * (last - first).max(value));
        }

        #[test]
        fn places_are_finite_for_any_number(
            low in any::<f64>(), high in any::<f64>(), value in any::<f64>(), kind in 0..4
        ) {
            let scale = match kind {
                0 => Scale::Linear { zero: false },
                1 => Scale::Linear { zero: true },
                2 => Scale::Log,
                _ => Scale::Nines,
            };
            let mut extent = Extent::new(&scale);
            extent.add(low);
            extent.add(high);
            let mut axis = axis(scale);
            for range in [None, Some((low, high)), Some((high, low))] {
                axis.range = range;
                let ruler = Ruler::new(&axis, extent, 0.0, 100.0, false);
                prop_assert!(ruler.low < ruler.high, "{ruler:?}");
                if let Some(place) = ruler.place(value) {
                    prop_assert!(place.is_finite());
                }
            }
        }
    }

    #[test]
    fn values_without_a_position_have_none() {
        for (kind, value) in [
            (Kind::Log, 0.0),
            (Kind::Log, -1.0),
            (Kind::Nines, 1.0),
            (Kind::Linear, f64::NAN),
            (Kind::Linear, f64::INFINITY),
            (Kind::Categories(3), 3.0),
        ] {
            assert_eq!(kind.transform(value), None, "{kind:?} {value}");
        }
    }

    #[test]
    fn an_axis_from_zero_begins_there() {
        let mut extent = Extent::new(&Scale::Linear { zero: true });
        extent.add(900.0);
        extent.add(950.0);
        let ruler = Ruler::new(&axis(Scale::Linear { zero: true }), extent, 0.0, 200.0, false);
        assert_eq!(ruler.values(), (0.0, 1000.0));
    }
}
