//! Prologue of a method: the stages before its first measurement. An earlier run may have done them already.

use crate::next_step::Method;
use crate::stage::{Act, Fill};

/// Summary of a method's preparatory stages, which are those before the first measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prologue<'a> {
    /// Number of stages before the first measurement.
    pub stages: u32,
    /// Whether one of the preparatory stages is a purge.
    pub purges: bool,
    /// The only fill, if there is exactly one and no purge follows it. Otherwise `None`: other combinations cannot be
    /// recognised as the work of an earlier run.
    pub fill: Option<&'a Fill>,
}

impl Method {
    /// Summarises the stages before the first measurement.
    pub fn prologue(&self) -> Prologue<'_> {
        let is_preparation =
            |act: &Act| matches!(act, Act::Purge | Act::Fill(_) | Act::Wait { .. });
        let acts = || self.stages.iter().map(|s| &s.act).take_while(|act| is_preparation(act));
        let mut fills = acts().filter_map(|act| match act {
            Act::Fill(fill) => Some(fill),
            _ => None,
        });
        let fill = fills.next().filter(|_| fills.next().is_none());
        // A purge after the fill removes its content.
        let fill = fill.filter(|_| {
            acts().skip_while(|act| !matches!(act, Act::Fill(_))).all(|act| *act != Act::Purge)
        });
        Prologue {
            stages: acts().count() as u32,
            purges: acts().any(|act| *act == Act::Purge),
            fill,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Method, MethodSource};
    use std::fmt::Write as _;

    fn method(acts: &[&str]) -> Method {
        let mut text = "schema = 1\n".to_owned();
        for (i, act) in acts.iter().enumerate() {
            let more = match *act {
                "cells" => "time = \"1s\"\nblock = \"4KiB\"",
                "wait" => "time = \"1s\"",
                _ => "",
            };
            let _ = write!(text, "[[stages]]\nname = \"s{i}\"\ndo = \"{act}\"\n{more}\n");
        }
        let source = MethodSource { name: "m".to_owned(), text, ..MethodSource::default() };
        Method::new(source).unwrap()
    }

    #[test]
    fn only_one_fill_that_lasts_until_the_first_measurement() {
        for (acts, stages, purges, fills) in [
            (vec!["purge", "fill", "cells"], 2, true, true),
            (vec!["fill", "wait", "cells", "purge"], 2, false, true),
            (vec!["cells", "purge", "fill", "cells"], 0, false, false),
            (vec!["purge", "cells", "fill"], 1, true, false),
            (vec!["fill", "fill", "cells"], 2, false, false),
            (vec!["fill", "purge", "cells"], 2, true, false),
            (vec!["purge", "fill"], 2, true, true),
        ] {
            let method = method(&acts);
            let prologue = method.prologue();
            assert_eq!(
                (prologue.stages, prologue.purges, prologue.fill.is_some()),
                (stages, purges, fills),
                "{acts:?}"
            );
        }
    }
}
