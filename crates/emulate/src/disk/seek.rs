//! Seek time of the arm by distance: `a + b √x + c x`, where x is the fraction of the full stroke. Short
//! seeks are dominated by acceleration and braking (the root), long ones by coasting (the linear term):
//! Ruemmler and Wilkes, 1994. The three seek times of a data sheet determine the coefficients.

use super::spec::DiskSpec;

/// The seek time of a disk as a function of distance.
#[derive(Clone, Debug)]
pub(super) struct SeekCurve {
    a: f64,
    b: f64,
    c: f64,
    /// 1 divided by the full stroke in cylinders.
    per_cylinder: f64,
}

impl SeekCurve {
    /// Fits `a + b √x + c x`, where x is the distance in full strokes, to the track-to-track, average and
    /// full-stroke times. Over all pairs of positions x has density 2(1 - x), so E[√x] = 8/15 and E[x] =
    /// 1/3: `a + b √x1 + c x1 = first`, `a + 8/15 b + 1/3 c = average`, `a + b + c = full`, where x1 is one
    /// cylinder.
    pub(super) fn new(spec: &DiskSpec, cylinders: u64) -> Self {
        let per_cylinder = 1.0 / cylinders.saturating_sub(1).max(1) as f64;
        let root = libm::sqrt(per_cylinder);
        let (first, full) = (spec.track_to_track_ns as f64, spec.full_stroke_ns as f64);
        let average = spec.average_seek_ns as f64;
        // The third equation less the first, and less the second.
        let (b1, c1, d1) = (1.0 - root, 1.0 - per_cylinder, full - first);
        let (b2, c2, d2) = (7.0 / 15.0, 2.0 / 3.0, full - average);
        let determinant = b1 * c2 - b2 * c1;
        let (b, c) = if determinant.abs() < 1e-9 {
            // A disk of two cylinders has only one distance.
            (0.0, d1)
        } else {
            ((d1 * c2 - d2 * c1) / determinant, (b1 * d2 - b2 * d1) / determinant)
        };
        Self { a: full - b - c, b, c, per_cylinder }
    }

    /// Returns the time of a seek over `distance` cylinders, including settling for a read, ns; 0 for
    /// distance 0.
    #[inline]
    pub(super) fn seek_ns(&self, distance: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let x = distance as f64 * self.per_cylinder;
        (self.a + self.b * libm::sqrt(x) + self.c * x + 0.5) as u64
    }
}
