//! The values of one row (one unit of each strip of a stripe: data, P, Q) as far as they are known, and the values
//! that follow from them. Sends no requests to members.

use iodyno_raid::{Role, Stripe, gf};

/// Function of terms (factor, value) that returns the sum of all factor × value in GF(2^8).
pub(super) type Sums<'a> = dyn FnMut(&[(u8, u64)]) -> u64 + 'a;

/// Values of a row: one per data strip, then P and Q, which are unknown on levels without them.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    values: Vec<Option<u64>>,
    /// For each data strip, the exponent e of its coefficient 2^e in Q.
    exponents: Vec<usize>,
    parities: usize,
}

impl Row {
    pub(super) fn new(stripe: &Stripe<'_>, strips: usize, parities: usize) -> Self {
        let exponents = (0..strips).map(|strip| stripe.exponent(strip)).collect();
        Self { values: vec![None; strips + 2], exponents, parities }
    }

    fn index(&self, role: Role) -> usize {
        match role {
            Role::Data(strip) => usize::from(strip),
            Role::P => self.exponents.len(),
            Role::Q => self.exponents.len() + 1,
        }
    }

    pub(super) fn get(&self, role: Role) -> Option<u64> {
        self.values[self.index(role)]
    }

    pub(super) fn set(&mut self, role: Role, value: Option<u64>) {
        let index = self.index(role);
        self.values[index] = value;
    }

    fn unknown(&self) -> Vec<usize> {
        (0..self.exponents.len()).filter(|&strip| self.values[strip].is_none()).collect()
    }

    /// Whether all data is known.
    pub(super) fn is_whole(&self) -> bool {
        self.unknown().is_empty()
    }

    fn factor(&self, parity: Role, strip: usize) -> u8 {
        if parity == Role::Q { gf::power_of_2(self.exponents[strip]) } else { 1 }
    }

    /// Returns the known data strips as terms of the sum that forms P or Q: factor and value of each.
    fn terms(&self, parity: Role) -> Vec<(u8, u64)> {
        let known = self.values[..self.exponents.len()].iter().enumerate();
        known.filter_map(|(strip, value)| Some((self.factor(parity, strip), (*value)?))).collect()
    }

    /// Recovers unknown data from parity, if possible. Returns whether all data is known afterwards.
    pub(super) fn recover(&mut self, sums: &mut Sums<'_>) -> bool {
        let unknown = self.unknown();
        let mut rest = |role| {
            let mut terms = self.terms(role);
            terms.push((1, self.get(role)?));
            Some(sums(&terms))
        };
        match &unknown[..] {
            [] => {}
            &[x] => {
                let value = if let Some(p) = rest(Role::P) {
                    p
                } else if let Some(q) = rest(Role::Q) {
                    sums(&[(gf::inverse(self.factor(Role::Q, x)), q)])
                } else {
                    return false;
                };
                self.values[x] = Some(value);
            }
            &[x, y] => {
                let (Some(p), Some(q)) = (rest(Role::P), rest(Role::Q)) else { return false };
                // Dx + Dy = p, 2^x·Dx + 2^y·Dy = q.
                let [of_x, of_y] = [x, y].map(|strip| self.factor(Role::Q, strip));
                let factor = gf::inverse(of_x ^ of_y);
                let value = sums(&[(gf::mul(of_y, factor), p), (factor, q)]);
                (self.values[x], self.values[y]) = (Some(value), Some(sums(&[(1, p), (1, value)])));
            }
            _ => return false,
        }
        true
    }

    pub(super) fn zero_unknown(&mut self) {
        for strip in self.unknown() {
            self.values[strip] = Some(0);
        }
    }

    /// Computes P and Q from all data.
    pub(super) fn compute_parity(&mut self, sums: &mut Sums<'_>) {
        debug_assert!(self.is_whole());
        for role in [Role::P, Role::Q].into_iter().take(self.parities) {
            let parity = sums(&self.terms(role));
            self.set(role, Some(parity));
        }
    }

    /// Whether a known P or Q contradicts the data.
    pub(super) fn contradicts(&self, sums: &mut Sums<'_>) -> bool {
        let mut wrong =
            |role| self.get(role).is_some_and(|parity| parity != sums(&self.terms(role)));
        self.is_whole() && (wrong(Role::P) || wrong(Role::Q))
    }

    /// Returns the row after a write of the values in `new`. `self` contains the values read before the
    /// write. Parity that can't be computed from them becomes unknown.
    pub(super) fn written(mut self, new: &[Option<u64>], sums: &mut Sums<'_>) -> Self {
        let is_known =
            |(strip, value): (usize, &Option<u64>)| value.is_some() || self.values[strip].is_some();
        let changes = || new.iter().enumerate().filter(|(_, value)| value.is_some());
        let modifies = changes().all(|(strip, _)| self.values[strip].is_some());
        if !new.iter().enumerate().all(is_known) && modifies {
            // Parity changes by the difference of the data.
            for role in [Role::P, Role::Q] {
                let Some(old) = self.get(role) else { continue };
                let mut terms = vec![(1, old)];
                for (strip, value) in changes() {
                    let factor = self.factor(role, strip);
                    let values = [self.values[strip], *value].into_iter().flatten();
                    terms.extend(values.map(|value| (factor, value)));
                }
                self.set(role, Some(sums(&terms)));
            }
            changes().for_each(|(strip, value)| self.values[strip] = *value);
            return self;
        }
        let is_whole = new.iter().enumerate().all(is_known) || self.recover(sums);
        changes().for_each(|(strip, value)| self.values[strip] = *value);
        if is_whole {
            self.compute_parity(sums);
        } else {
            (self.values[new.len()], self.values[new.len() + 1]) = (None, None);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::combine;
    use iodyno_raid::{Layout, Level, Rotation};
    use iodyno_units::rng::{Generator, below, stream};

    fn any(random: &mut Generator) -> u64 {
        below(random, u64::MAX)
    }

    /// Checks that written data is recovered with random levels and rotations, and random missing strips.
    #[test]
    fn recovers_what_was_written() {
        let mut random = stream(1, "row", 0);
        for seed in 0..4000 {
            let level = [Level::Raid5, Level::Raid6][seed % 2];
            let members = level.least_members() + below(&mut random, 4) as usize;
            let layout = Layout::new(level, &vec![64; members], 8).unwrap();
            let layout = layout.rotated(Rotation::ALL[below(&mut random, 4) as usize]);
            let stripe = layout.stripe(below(&mut random, layout.stripes()));
            let strips = layout.data_strips();
            let mut row = Row::new(&stripe, strips, level.parities());
            row.zero_unknown();
            let mut data: Vec<u64> = (0..strips).map(|_| any(&mut random)).collect();
            (0..strips).for_each(|strip| row.values[strip] = Some(data[strip]));
            row.compute_parity(&mut combine);
            for _ in 0..4 {
                // If unwritten data is unknown, the write must modify parity.
                let mut new = vec![None; strips];
                for _ in 0..=below(&mut random, strips as u64) {
                    let strip = below(&mut random, strips as u64) as usize;
                    data[strip] = any(&mut random);
                    new[strip] = Some(data[strip]);
                }
                let mut before = row.clone();
                for strip in (0..strips).filter(|&strip| new[strip].is_none()) {
                    if below(&mut random, 2) == 0 {
                        before.values[strip] = None;
                    }
                }
                let after = before.written(&new, &mut combine);
                let parity = (after.get(Role::P), after.get(Role::Q));
                (0..strips).for_each(|strip| row.values[strip] = Some(data[strip]));
                row.compute_parity(&mut combine);
                assert_eq!(parity, (row.get(Role::P), row.get(Role::Q)), "{level}");
                assert!(!row.contradicts(&mut combine));
                let mut lost = row.clone();
                for _ in 0..level.parities() {
                    let any = below(&mut random, (strips + level.parities()) as u64) as usize;
                    lost.values[any] = None;
                }
                if level == Level::Raid5 {
                    lost.set(Role::Q, None);
                }
                assert!(lost.recover(&mut combine));
                assert_eq!(lost.values[..strips], row.values[..strips]);
            }
        }
    }
}
