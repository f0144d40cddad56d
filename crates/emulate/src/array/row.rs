//! The values of one row of a stripe: of each data strip, P and Q, where they are known; what follows from what. It
//! ends where members are asked.

use crate::values::combine;
use iodyno_raid::{Role, Stripe, gf};

/// See the module. Data strips first, then P and Q, if the level has them or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    values: Vec<Option<u64>>,
    /// By data strip: the exponent of 2 with which it counts in Q.
    exponents: Vec<usize>,
}

impl Row {
    pub(super) fn new(stripe: &Stripe<'_>, strips: usize) -> Self {
        let exponents = (0..strips).map(|strip| stripe.exponent(strip)).collect();
        Self { values: vec![None; strips + 2], exponents }
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

    /// P, or Q, of the data that is known.
    fn sum(&self, parity: Role) -> u64 {
        combine(self.exponents.iter().enumerate().filter_map(|(strip, &exponent)| {
            let factor = if parity == Role::Q { gf::power_of_2(exponent) } else { 1 };
            Some((factor, self.values[strip]?))
        }))
    }

    /// Recovers the data that is not known, if what is known is enough. Gives whether all data is known then.
    pub(super) fn recover(&mut self) -> bool {
        let (p, q) = (self.get(Role::P), self.get(Role::Q));
        let rest = |parity: Option<u64>, role| Some(parity? ^ self.sum(role));
        let unknown = self.unknown();
        match (&unknown[..], rest(p, Role::P), rest(q, Role::Q)) {
            ([], ..) => {}
            (&[x], Some(p), _) => self.values[x] = Some(p),
            (&[x], None, Some(q)) => {
                let factor = gf::inverse(gf::power_of_2(self.exponents[x]));
                self.values[x] = Some(combine([(factor, q)]));
            }
            (&[x, y], Some(p), Some(q)) => {
                // Dx + Dy = p, 2^x·Dx + 2^y·Dy = q.
                let [of_x, of_y] = [x, y].map(|strip| gf::power_of_2(self.exponents[strip]));
                let factor = gf::inverse(of_x ^ of_y);
                let value = combine([(gf::mul(of_y, factor), p), (factor, q)]);
                (self.values[x], self.values[y]) = (Some(value), Some(p ^ value));
            }
            _ => return false,
        }
        true
    }

    /// Data that is not known becomes zeroes.
    pub(super) fn zero_unknown(&mut self) {
        for strip in self.unknown() {
            self.values[strip] = Some(0);
        }
    }

    /// Computes P and Q from all data.
    pub(super) fn compute_parity(&mut self) {
        debug_assert!(self.is_whole());
        let (p, q) = (self.sum(Role::P), self.sum(Role::Q));
        self.set(Role::P, Some(p));
        self.set(Role::Q, Some(q));
    }

    /// Whether a known P or Q contradicts the data.
    pub(super) fn contradicts(&self) -> bool {
        let wrong = |role| self.get(role).is_some_and(|parity| parity != self.sum(role));
        self.is_whole() && (wrong(Role::P) || wrong(Role::Q))
    }

    /// The row after a write of `new`, where this is what was read before it. Parity that can't be known stays
    /// unknown.
    pub(super) fn written(mut self, new: &[Option<u64>]) -> Self {
        let is_known =
            |(strip, value): (usize, &Option<u64>)| value.is_some() || self.values[strip].is_some();
        let changes = || new.iter().enumerate().filter(|(_, value)| value.is_some());
        let modifies = changes().all(|(strip, _)| self.values[strip].is_some());
        if !new.iter().enumerate().all(is_known) && modifies {
            // Parity changes by the difference.
            for role in [Role::P, Role::Q] {
                let Some(old) = self.get(role) else { continue };
                let before = self.sum(role);
                let mut after = self.clone();
                changes().for_each(|(strip, value)| after.values[strip] = *value);
                let difference = before ^ after.sum(role);
                self.set(role, Some(old ^ difference));
            }
            changes().for_each(|(strip, value)| self.values[strip] = *value);
            return self;
        }
        let is_whole = new.iter().enumerate().all(is_known) || self.recover();
        changes().for_each(|(strip, value)| self.values[strip] = *value);
        if is_whole {
            self.compute_parity();
        } else {
            (self.values[new.len()], self.values[new.len() + 1]) = (None, None);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_raid::{Layout, Level, Rotation};
    use iodyno_units::rng::{Generator, below, stream};

    fn any(random: &mut Generator) -> u64 {
        below(random, u64::MAX)
    }

    /// What is written one way can be read the other: all levels, all rotations, any strips missing.
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
            let mut row = Row::new(&stripe, strips);
            row.zero_unknown();
            let mut data: Vec<u64> = (0..strips).map(|_| any(&mut random)).collect();
            (0..strips).for_each(|strip| row.values[strip] = Some(data[strip]));
            row.compute_parity();
            for _ in 0..4 {
                // Without the data that is not written, the write modifies; without other data, it recovers.
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
                let after = before.written(&new);
                let parity = (after.get(Role::P), after.get(Role::Q));
                (0..strips).for_each(|strip| row.values[strip] = Some(data[strip]));
                row.compute_parity();
                assert_eq!(parity, (row.get(Role::P), row.get(Role::Q)), "{level}");
                assert!(!row.contradicts());
                let mut lost = row.clone();
                for _ in 0..level.parities() {
                    let any = below(&mut random, (strips + level.parities()) as u64) as usize;
                    lost.values[any] = None;
                }
                if level == Level::Raid5 {
                    lost.set(Role::Q, None);
                }
                assert!(lost.recover());
                assert_eq!(lost.values[..strips], row.values[..strips]);
            }
        }
    }
}
