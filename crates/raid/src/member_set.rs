//! Sets of array members, such as the missing ones.

use std::fmt;

/// A set of members of an array, given by their indices. Each index is below [`MAX_MEMBERS`](crate::MAX_MEMBERS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberSet(u64);

impl MemberSet {
    pub const NONE: Self = Self(0);

    /// Returns the set with `member` added.
    #[must_use]
    pub const fn with(self, member: usize) -> Self {
        Self(self.0 | 1 << member)
    }

    /// Returns the set with `member` removed.
    #[must_use]
    pub const fn without(self, member: usize) -> Self {
        Self(self.0 & !(1 << member))
    }

    pub const fn contains(self, member: usize) -> bool {
        self.0 >> member & 1 == 1
    }

    /// Returns the number of members in the set, at most [`MAX_MEMBERS`](crate::MAX_MEMBERS).
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set equals [`Self::NONE`].
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the indices of the members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let member = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(member)
        })
    }
}

impl FromIterator<usize> for MemberSet {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Self {
        members.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Formats the set as member numbers separated by commas: `1, 4`.
impl fmt::Display for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, member) in self.iter().enumerate() {
            write!(f, "{}{member}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
