//! Names of emulated arrays: the part of a `model:` name before any `*`, `@` or `?` outside of parentheses. Examples: `raid5(DEVICE*N)`,
//! `raid5(DEVICE*N,strip=64KiB)`, and the nested `raid1(raid0(DEVICE*N)*2)`. The emulator decides whether such an array
//! is possible.

use iodyno_raid::{Level, MAX_MEMBERS, Rotation};
use iodyno_units::human::exact_size;
use iodyno_units::parse_size;

use super::{MODEL_COUNT_MAX, TargetError, bad};

const FORMS: &str = "use raid5(exflash-400g*8), or raid6(exflash-400g*8,strip=64KiB): the levels \
                     are raid0, raid1, raid5, raid6, raid10 and jbod. (Quote the name in a shell.)";

/// Maximum depth of nested arrays.
pub const ARRAY_DEPTH_MAX: usize = 4;

/// Description of an array whose members are equal devices or equal arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayName {
    /// RAID level, which determines the number of members for parity or copies.
    pub level: Level,
    /// Total number of members, including those for parity or copies.
    pub members: u32,
    /// Strip size, bytes; `None`: the default of Linux md or of the RAID adapter.
    pub strip_bytes: Option<u64>,
    /// Rotation of parity over the members.
    pub rotation: Rotation,
}

/// Result of parsing the arrays in a target's name.
pub(super) struct Taken<'a> {
    /// Nested arrays, innermost first.
    pub arrays: Vec<ArrayName>,
    /// Name of the device type in the innermost array.
    pub device: &'a str,
    /// Text after the last parenthesis.
    pub after: &'a str,
}

impl ArrayName {
    /// Parses arrays at the beginning of a name's body. `None` if the body does not begin with an array.
    pub(super) fn take<'a>(name: &str, body: &'a str) -> Result<Option<Taken<'a>>, TargetError> {
        Self::take_below(name, body, ARRAY_DEPTH_MAX)
    }

    fn take_below<'a>(
        name: &str,
        body: &'a str,
        depth_max: usize,
    ) -> Result<Option<Taken<'a>>, TargetError> {
        let Some((word, rest)) = body.split_once('(') else { return Ok(None) };
        if !word.chars().all(|c| c.is_ascii_alphanumeric()) {
            // A path with a parenthesis.
            return Ok(None);
        }
        let Some(level) = Level::ALL.into_iter().find(|level| level.word() == word) else {
            return bad(name, format!("`{word}` is not a level of an array."), FORMS);
        };
        if depth_max == 0 {
            let problem = format!("arrays are nested more than {ARRAY_DEPTH_MAX} deep.");
            return bad(name, problem, FORMS);
        }
        let Some((inside, after)) = rest.rsplit_once(')') else {
            return bad(name, format!("no `)` follows `{word}(`."), FORMS);
        };
        let below = Self::take_below(name, inside, depth_max - 1)?.unwrap_or_else(|| {
            let (device, after) = inside.split_at(inside.find(['*', ',']).unwrap_or(inside.len()));
            Taken { arrays: Vec::new(), device, after }
        });
        let Taken { mut arrays, device, after: options } = below;
        let mut words = options.split(',');
        let Some(members) = words.next().and_then(|word| word.strip_prefix('*')) else {
            return bad(name, format!("`{inside}` lacks the number of devices."), FORMS);
        };
        let members = match members.parse() {
            Ok(members) if (1..=MAX_MEMBERS).contains(&(members as usize)) => members,
            _ => {
                let problem = format!("`*{members}` is not a number of devices.");
                return bad(
                    name,
                    problem,
                    format!("an array has at most {MAX_MEMBERS} devices: {FORMS}"),
                );
            }
        };
        let (strip_bytes, rotation) = (None, Rotation::default());
        let mut array = Self { level, members, strip_bytes, rotation };
        for word in words {
            array.set(name, word.trim())?;
        }
        arrays.push(array);
        let devices = Self::devices(&arrays);
        if devices > MODEL_COUNT_MAX {
            let problem = format!("the array would have {devices} devices, which is too many.");
            return bad(
                name,
                problem,
                format!("a system can have at most {MODEL_COUNT_MAX} devices."),
            );
        }
        Ok(Some(Taken { arrays, device, after }))
    }

    /// Total number of devices in nested arrays.
    pub fn devices(arrays: &[Self]) -> u32 {
        arrays.iter().map(|array| array.members).product()
    }

    /// Sets one option of the array; `word` is its text, such as `strip=64KiB`.
    fn set(&mut self, name: &str, word: &str) -> Result<(), TargetError> {
        match word.split_once('=') {
            Some(("strip", size)) => match parse_size(size) {
                Ok(bytes) if bytes > 0 && bytes.is_multiple_of(4096) && self.level.has_strips() => {
                    self.strip_bytes = Some(bytes);
                }
                Ok(_) if !self.level.has_strips() => {
                    return bad(
                        name,
                        format!("{} has no strips.", self.level),
                        "leave strip= out.",
                    );
                }
                _ => {
                    let problem = format!("`{word}` is not a strip size.");
                    return bad(name, problem, "use a multiple of 4KiB, such as strip=64KiB.");
                }
            },
            Some(("layout", layout)) => {
                let known = Rotation::ALL.into_iter().find(|r| r.to_string() == layout);
                let Some(rotation) = known.filter(|_| self.level.parities() > 0) else {
                    return bad(
                        name,
                        format!("`{word}` is not a layout of a {}.", self.level),
                        "RAID 5 and 6 support left-symmetric, left-asymmetric, right-symmetric and \
                         right-asymmetric, as mdadm calls them.",
                    );
                };
                self.rotation = rotation;
            }
            _ => {
                let problem = format!("`{word}` is not an option of an array.");
                return bad(name, problem, "after the devices, use strip= or layout=.");
            }
        }
        Ok(())
    }

    /// Formats the array as `raid5(MEMBER*8)`, followed by options that differ from the default. `member` is a
    /// device or a nested array.
    pub fn text(&self, member: &str) -> String {
        let strip = self.strip_bytes.map(|bytes| format!(",strip={}", exact_size(bytes)));
        let layout =
            (self.rotation != Rotation::default()).then(|| format!(",layout={}", self.rotation));
        let (strip, layout) = (strip.unwrap_or_default(), layout.unwrap_or_default());
        format!("{}({member}*{}{strip}{layout})", self.level.word(), self.members)
    }
}
