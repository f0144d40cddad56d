//! Names of states, as printed in results and accepted by `--state`: epoch, lost effects of file operations, and the
//! torn write.
//!
//! An epoch is the time between two syncs. An effect is given by its position among the effects that the power cut can
//! lose. A unit is a part of a write that is written atomically, such as a page.
//!
//! - `12:` loses nothing in epoch 12.
//! - `12:3,7-9` loses four effects.
//! - `12:5~0-2` keeps only units 0 and 1 of write 5.
//! - `12:5~!0-2` loses only these units.
//! - `12:3/4:` has a second cut, during recovery. The part after `/` describes the second cut in the same form.

use crate::states::{Choice, States, Torn};
use std::fmt::Write as _;
use std::str::FromStr;

/// Name of a state: for each power cut, the epoch (time between two syncs) and the lost effects of file operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateName(pub Vec<CutName>);

/// The part of a state's name that describes one power cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CutName {
    /// Index of the epoch (time between two syncs) in which power is cut.
    pub epoch: usize,
    /// Positions of the lost effects in [`Epoch::open`](crate::Epoch::open), ascending. Excludes the torn write.
    pub lost: Vec<usize>,
    /// The torn write; `None` if no write is torn.
    pub torn: Option<Torn>,
}

impl CutName {
    /// Names the state that a power cut in an epoch leaves if the effects in `choice` survive.
    #[must_use]
    pub fn of_choice(epoch: usize, choice: &Choice) -> Self {
        let torn = choice.torn.map(|torn| torn.position);
        let is_lost = |position: &usize| !choice.survives[*position] && torn != Some(*position);
        let lost = (0..choice.survives.len()).filter(is_lost).collect();
        Self { epoch, lost, torn: choice.torn }
    }

    /// Effects of file operations that survive in the named state; `None` if the run has no such epoch or effects.
    #[must_use]
    pub fn choice(&self, states: &States) -> Option<Choice> {
        let mut survives = vec![true; states.epochs.get(self.epoch)?.open.len()];
        for position in self.lost.iter().chain(self.torn.as_ref().map(|torn| &torn.position)) {
            *survives.get_mut(*position)? = false;
        }
        Some(Choice { survives, torn: self.torn })
    }
}

impl std::fmt::Display for StateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cuts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&cuts.join("/"))
    }
}

impl std::fmt::Display for CutName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.epoch)?;
        let mut text = String::new();
        let mut rest = self.lost.as_slice();
        while let [first, ..] = rest {
            let run = rest.iter().enumerate().take_while(|(i, p)| **p == first + i).count();
            if !text.is_empty() {
                text.push(',');
            }
            match run {
                1 => write!(text, "{first}")?,
                _ => write!(text, "{first}-{}", first + run - 1)?,
            }
            rest = &rest[run..];
        }
        if let Some(Torn { position, units, is_lost }) = self.torn {
            let separator = if text.is_empty() { "" } else { "," };
            let lost = if is_lost { "!" } else { "" };
            write!(text, "{separator}{position}~{lost}{}-{}", units.0, units.1)?;
        }
        f.write_str(&text)
    }
}

impl FromStr for StateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cuts: Option<Vec<CutName>> = text.split('/').map(parse).collect();
        cuts.map(Self)
            .ok_or_else(|| format!("`{text}` is not a state: give it as printed, such as 12:3,7-9"))
    }
}

/// Maximum position that a name may contain.
const POSITION_MAX: usize = 1 << 24;

fn parse(text: &str) -> Option<CutName> {
    let (epoch, parts) = text.split_once(':')?;
    let mut name = CutName { epoch: epoch.parse().ok()?, lost: Vec::new(), torn: None };
    for part in parts.split(',').filter(|part| !part.is_empty()) {
        if let Some((position, units)) = part.split_once('~') {
            let is_lost = units.starts_with('!');
            let (first, last) = range(units.trim_start_matches('!'))?;
            name.torn =
                Some(Torn { position: position.parse().ok()?, units: (first, last), is_lost });
        } else {
            let (first, last) = range(part).or_else(|| {
                let position = part.parse().ok()?;
                Some((position, position))
            })?;
            if last > POSITION_MAX || name.lost.last().is_some_and(|before| *before >= first) {
                return None;
            }
            name.lost.extend(first..=last);
        }
    }
    Some(name)
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_it_is_written() {
        for text in ["0:", "12:3,7-9", "12:5~0-2", "1:0-3,9~!2-3/4:1"] {
            assert_eq!(text.parse::<StateName>().unwrap().to_string(), text);
        }
        for text in ["", "3", "x:1", "1:3,2", "1:2-", "1:9-99999999999", "1:2~3", "1:1//"] {
            assert!(text.parse::<StateName>().is_err(), "{text}");
        }
    }
}
