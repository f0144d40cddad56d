//! Prices of devices, systems and drawers, from a file. With prices, systems are sorted by price.

use crate::candidate::Candidate;
use crate::search::Count;
use iodyno_catalog::{FileError, Key, Kind, NUMBER, Reader, Record, ValueType, list};
use iodyno_units::nearest;
use std::path::Path;

/// Keys that a price file may contain.
const SCHEMA: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::required("currency", ValueType::Text).such_as("\"EUR\""),
    Key::required("devices", ValueType::Map(&NUMBER)),
    Key::optional("systems", ValueType::Map(&NUMBER)),
    Key::optional("drawers", ValueType::Map(&NUMBER)),
];

/// Prices of devices, systems and drawers by name, in one currency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// Currency, such as `EUR`.
    pub currency: String,
    devices: Vec<(String, f64)>,
    systems: Vec<(String, f64)>,
    drawers: Vec<(String, f64)>,
}

impl Prices {
    /// Parses a price file.
    ///
    /// # Errors
    /// All errors, in file order.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        let record = reader.file(text, None, SCHEMA).unwrap_or_default();
        let mut of = |key: &str, kind: Kind| map(&mut reader, &record, key, kind);
        let devices = of("devices", Kind::Device);
        let (systems, drawers) = (of("systems", Kind::System), of("drawers", Kind::System));
        reader.finish()?;
        let currency = record.said("currency").to_owned();
        Ok(Self { currency, devices, systems, drawers })
    }

    /// Price of `count` systems with their arrays; `None` if the price of a component is missing.
    pub fn of(&self, candidate: &Candidate, count: Count) -> Option<f64> {
        let find = |all: &[(String, f64)], name: &str| {
            all.iter().find(|(of, _)| of == name).map(|(_, price)| *price)
        };
        let devices = f64::from(count.arrays * candidate.members);
        let drawers = match &candidate.adapters {
            Some(adapters) if !self.drawers.is_empty() => {
                let each = find(&self.drawers, &candidate.host)?;
                // Devices are spread over all drawers.
                each * f64::from(adapters.drawers.count)
            }
            _ => 0.0,
        };
        let system = match self.systems.as_slice() {
            [] => 0.0,
            all => find(all, &candidate.host)?,
        };
        let unit = devices * find(&self.devices, &candidate.device_name)? + drawers + system;
        Some(unit * f64::from(count.units))
    }
}

/// Reads one table of prices. Rejects negative prices, and names that are neither in the catalog nor paths.
fn map(reader: &mut Reader, record: &Record, key: &str, kind: Kind) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for (name, entry) in record.get(key).map_or(&[][..], |entry| entry.map()) {
        let price = entry.real().unwrap_or_default();
        if !price.is_finite() || price < 0.0 {
            let message = format!("the price of `{name}` is below 0");
            reader.refuse(entry.span.clone(), message, "use 0 for a part that costs nothing");
        }
        let is_path = name.contains('/')
            || Path::new(name).extension().is_some_and(|suffix| suffix == "toml");
        if !is_path && list(kind).all(|(known, _)| known != name) {
            let guess = nearest(name, list(kind).map(|(known, _)| known));
            let help = match guess {
                Some(guess) => format!("did you mean `{guess}`?"),
                None => {
                    format!(
                        "give a name that `iodyno catalog {}s` lists, or a path with a `/`",
                        kind.noun()
                    )
                }
            };
            reader.refuse(entry.span.clone(), format!("no {} `{name}`", kind.noun()), help);
        }
        all.push((name.clone(), price));
    }
    all
}
