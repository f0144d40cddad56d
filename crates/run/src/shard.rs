//! Shard K of N of a sweep, as requested by `--shard`. `shards` executes and merges shards.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// Maximum number of shards into which a run can be divided.
const SHARDS_MAX: u32 = 100_000;

/// Shard K of N of a run, written `K/N`: `3/64` is the third of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Shard {
    /// K, the number of this shard, from 1.
    pub number: u32,
    /// N, the number of shards.
    pub of: u32,
}

/// A shard as stored, before validation.
#[derive(Deserialize)]
struct Stored {
    number: u32,
    of: u32,
}

impl TryFrom<Stored> for Shard {
    type Error = String;

    fn try_from(Stored { number, of }: Stored) -> Result<Self, String> {
        format!("{number}/{of}").parse()
    }
}

impl Shard {
    /// Whether step number `index` of the run, from 0, belongs to this shard.
    pub(crate) fn has(self, index: usize) -> bool {
        index % self.of as usize + 1 == self.number as usize
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            let shard = Self { number: number.parse().ok()?, of: of.parse().ok()? };
            (1..=SHARDS_MAX).contains(&shard.of).then_some(shard)
        });
        parts.filter(|s| (1..=s.of).contains(&s.number)).ok_or_else(|| {
            format!(
                "`{text}` is not a shard: use K/N, such as 3/64, with K from 1 to N, and N at most {SHARDS_MAX}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_as_number_of_all() {
        let parsed = |text: &str| text.parse::<Shard>().map(|s| s.to_string());
        assert_eq!(parsed("3/64").unwrap(), "3/64");
        for wrong in ["0/4", "5/4", "1/0", "1", "a/b", "1/2/3", "-1/2", "1/100001"] {
            assert!(parsed(wrong).unwrap_err().contains("3/64"), "{wrong}");
        }
        let all: Vec<Shard> = (1..=3).map(|number| Shard { number, of: 3 }).collect();
        for index in 0..10 {
            assert_eq!(all.iter().filter(|shard| shard.has(index)).count(), 1);
        }
    }
}
