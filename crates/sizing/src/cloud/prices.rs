//! Monthly prices of cloud volumes, from a file.

use iodyno_catalog::{FileError, Key, Kind, Reader, Record, ValueType, list};
use iodyno_emulate::describe::VolumeClass;
use iodyno_emulate::spec::Counted;
use iodyno_units::{VolumeOptions, nearest, parse_size};
use std::path::Path;

/// Providers of cloud volumes, as in price files and on the command line.
pub const CLOUDS: [&str; 3] = ["aws", "azure", "gcp"];

const PRICE: ValueType = ValueType::Number(0.0, 1e9);
const SCHEMA: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::required("currency", ValueType::Text).such_as("\"USD\""),
    Key::required("as_of", ValueType::Text).such_as("\"2026-11\""),
    Key::required("volumes", ValueType::Tables(VOLUME)),
    Key::optional("instances", ValueType::Tables(INSTANCE)),
];
const INSTANCE: &[Key] = &[
    Key::required("cloud", ValueType::Word(&CLOUDS)),
    Key::required("system", ValueType::Text).such_as("\"aws-m5-large\""),
    Key::required("price", PRICE),
    Key::optional("volumes_max", ValueType::Count(1, 1024)),
];
const VOLUME: &[Key] = &[
    Key::required("cloud", ValueType::Word(&CLOUDS)),
    Key::required("class", ValueType::Text).such_as("\"ebs-gp3\""),
    Key::optional("gib", PRICE),
    Key::optional("by_size", ValueType::Map(&PRICE)),
    Key::optional("iops", PRICE),
    Key::optional("iops_tiers", ValueType::Map(&PRICE)),
    Key::optional("iops_included", ValueType::Count(0, 1_000_000_000)),
    Key::optional("mbps", PRICE),
    Key::optional("mbps_included", ValueType::Count(0, 1_000_000)),
    Key::optional("on_demand", PRICE),
    Key::optional("on_demand_10k", PRICE),
];
/// Length of a month in providers' bills, s: 730 hours.
const MONTH_S: f64 = 730.0 * 3600.0;
/// File stem of the class whose volumes Azure bills by the next of some sizes: powers of two up to the GiB given here, and
/// multiples of the GiB given last ("Azure managed disk types", Ultra Disks).
const BILLED_BY_STEPS: (&str, u64, u64) = ("azure-ultra", 512, 1024);
/// Burst operations that Azure bills per MB/s beyond the rate: 256 KiB count as one operation, and 1 MB as 1024 KiB.
const BURST_OPS_PER_MB: f64 = 1024.0 / 256.0;

/// Prices of cloud volumes and instances, parsed from a price file.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudPrices {
    /// Currency, such as `USD`.
    pub currency: String,
    /// Date of the prices, as written in the file.
    pub as_of: String,
    volumes: Vec<VolumePrice>,
    instances: Vec<InstancePrice>,
}

/// Monthly price of an instance type.
#[derive(Clone, Debug, PartialEq)]
pub struct InstancePrice {
    cloud: String,
    /// Name or path of the system file with the instance's limits.
    pub system: String,
    /// Monthly price of one instance, in the file's currency.
    pub price: f64,
    /// Maximum number of attached volumes; `None`: no maximum.
    pub volumes_max: Option<u32>,
}

/// Monthly prices of the volumes of a class, by size, rates and bursting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumePrice {
    cloud: String,
    /// Name of the class in the catalog.
    pub class: String,
    /// Price per GiB and month.
    gib: f64,
    /// Size tiers: price of a volume up to each size in bytes, ascending. Empty: no price per volume.
    by_size: Vec<(u64, f64)>,
    /// Price tiers of provisioned IOPS: the upper end of each tier, ascending, and the price per IOPS in it.
    iops: Vec<(f64, f64)>,
    iops_included: f64,
    /// Price per month of one provisioned MB/s, or MiB/s if the class counts in MiB/s.
    mbps: f64,
    mbps_included: f64,
    /// Price of on-demand bursting; `None`: the class does not offer it.
    on_demand: Option<OnDemandPrice>,
}

/// Price of on-demand bursting: a fixed fee, and a fee per operation beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnDemandPrice {
    /// Fixed monthly price, even without bursts.
    fixed: f64,
    /// Price per 10,000 operations beyond the rate of the volume's size.
    each_10k: f64,
}

impl CloudPrices {
    /// Names of the provider's classes that are in the catalog, but not in the price file.
    pub(super) fn unpriced(&self, cloud: &str) -> impl Iterator<Item = String> {
        let prefix = match cloud {
            "aws" => "ebs-",
            "azure" => "azure-",
            _ => "gcp-",
        };
        let has_price = |name: &str| self.volumes.iter().any(|price| price.class == name);
        list(Kind::Device)
            .map(|(name, _)| name)
            .filter(move |name| name.starts_with(prefix) && !has_price(name))
            .map(str::to_owned)
    }

    /// Parses a price file.
    ///
    /// # Errors
    /// All errors, in file order.
    pub fn from_toml(text: &str) -> Result<Self, Vec<FileError>> {
        let mut reader = Reader::default();
        let record = reader.file(text, None, SCHEMA).unwrap_or_default();
        let volumes = record.records("volumes").map(|v| VolumePrice::read(&mut reader, v));
        let volumes = volumes.collect();
        let instances = record.records("instances").map(|v| InstancePrice::read(&mut reader, v));
        let instances = instances.collect();
        reader.finish()?;
        let said = |key: &str| record.said(key).to_owned();
        Ok(Self { currency: said("currency"), as_of: said("as_of"), volumes, instances })
    }

    /// Prices of a provider's classes, in the order of the file.
    pub fn of_cloud(&self, cloud: &str) -> impl Iterator<Item = &VolumePrice> {
        self.volumes.iter().filter(move |volume| volume.cloud == cloud)
    }

    /// Prices of a provider's instance types, in the order of the file.
    pub fn instances_of(&self, cloud: &str) -> impl Iterator<Item = &InstancePrice> {
        self.instances.iter().filter(move |instance| instance.cloud == cloud)
    }
}

impl InstancePrice {
    fn read(reader: &mut Reader, v: &Record) -> Self {
        let system = v.said("system").to_owned();
        refuse_unknown(reader, v, "system", Kind::System);
        Self {
            cloud: v.said("cloud").to_owned(),
            system,
            price: v.real("price").unwrap_or(0.0),
            volumes_max: v.whole("volumes_max").and_then(|count| u32::try_from(count).ok()),
        }
    }
}

/// Records an error for a name that is neither in the catalog nor a path.
fn refuse_unknown(reader: &mut Reader, v: &Record, key: &str, kind: Kind) {
    let name = v.said(key);
    if name.contains(['/', '.']) || list(kind).any(|(known, _)| known == name) {
        return;
    }
    let guess = nearest(name, list(kind).map(|(known, _)| known));
    let help = guess.map(|guess| format!("did you mean `{guess}`?")).unwrap_or_default();
    reader.refuse(v.place(key), format!("no {} `{name}`", kind.noun()), help);
}

impl VolumePrice {
    fn read(reader: &mut Reader, v: &Record) -> Self {
        let class = v.said("class").to_owned();
        refuse_unknown(reader, v, "class", Kind::Device);
        if v.get("gib").is_none() && v.get("by_size").is_none() {
            let help = "give `gib` (price per GiB) or `by_size` (a table of volume prices up to given sizes)";
            reader.refuse(v.place("class"), format!("`{class}` has no price for its size"), help);
        }
        let mut by_size: Vec<(u64, f64)> = Vec::new();
        for (size, entry) in v.get("by_size").map_or(&[][..], |entry| entry.map()) {
            match parse_size(size) {
                Ok(bytes) => by_size.push((bytes, entry.real().unwrap_or_default())),
                Err(why) => reader.refuse(entry.span.clone(), why.to_string(), ""),
            }
        }
        by_size.sort_by_key(|row| row.0);
        let mut iops: Vec<(f64, f64)> = Vec::new();
        for (most, entry) in v.get("iops_tiers").map_or(&[][..], |entry| entry.map()) {
            let Ok(most) = most.parse::<u64>() else {
                let message = format!("`{most}` is not a number of IOPS");
                reader.refuse(entry.span.clone(), message, "use for example `\"32000\" = 0.065`");
                continue;
            };
            iops.push((most as f64, entry.real().unwrap_or_default()));
        }
        iops.sort_by(|a, b| a.0.total_cmp(&b.0));
        iops.push((f64::INFINITY, v.real("iops").or(iops.last().map(|of| of.1)).unwrap_or(0.0)));
        let count = |key: &str| v.whole(key).unwrap_or(0) as f64;
        if v.get("on_demand").is_some() != v.get("on_demand_10k").is_some() {
            let help = "give both, or leave both out for a class without bursting on demand";
            let message = "`on_demand` requires `on_demand_10k`, and vice versa";
            reader.refuse(v.place("class"), message.to_owned(), help);
        }
        Self {
            cloud: v.said("cloud").to_owned(),
            class,
            gib: v.real("gib").unwrap_or(0.0),
            by_size,
            iops,
            iops_included: count("iops_included"),
            mbps: v.real("mbps").unwrap_or(0.0),
            mbps_included: count("mbps_included"),
            on_demand: v
                .real("on_demand")
                .zip(v.real("on_demand_10k"))
                .map(|(fixed, each_10k)| OnDemandPrice { fixed, each_10k }),
        }
    }

    /// Size as which the provider bills a volume of a given size, GiB.
    pub fn billed_gib(&self, gib: u64) -> u64 {
        let (class, powers_gib, step_gib) = BILLED_BY_STEPS;
        match Path::new(&self.class).file_stem() {
            Some(stem) if stem != class => gib,
            None => gib,
            _ if gib <= powers_gib => gib.next_power_of_two(),
            _ => gib.next_multiple_of(step_gib),
        }
    }

    /// Whether the price file has a price of on-demand bursting for the class.
    pub fn has_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// Monthly price of on-demand bursting at a constant load; `None` if the price file has none. `over_iops` and
    /// `over_bytes_per_s` are the load beyond the volume's rates without bursting. Azure counts bytes in operations of
    /// 256 KiB, and bills the larger of the two numbers of operations ("Managed disk bursting", billing).
    pub fn of_on_demand(&self, over_iops: f64, over_bytes_per_s: f64) -> Option<f64> {
        let of = self.on_demand?;
        let ops_per_s = over_iops.max(over_bytes_per_s / 1e6 * BURST_OPS_PER_MB).max(0.0);
        Some(of.fixed + of.each_10k * ops_per_s * MONTH_S / 10_000.0)
    }

    /// Monthly price of a volume without on-demand bursting; `None` if the price file has no price for a volume of its
    /// size.
    pub fn of(&self, class: &VolumeClass, size_bytes: u64, options: &VolumeOptions) -> Option<f64> {
        let by_size = match self.by_size.as_slice() {
            [] => 0.0,
            rows => rows.iter().find(|row| size_bytes <= row.0)?.1,
        };
        let size = by_size + self.gib * (size_bytes as f64 / f64::from(1 << 30));
        // Rates that nobody chose are the class's default, and those of the size cost nothing.
        let default =
            |counts, iops| class.provisioned(counts, size_bytes, iops).map(|of| of.default);
        let iops = options.iops.or_else(|| default(Counted::Operations, 0)).unwrap_or(0);
        let mbps = options.mbps.or_else(|| default(Counted::Bytes, iops)).unwrap_or(0);
        let (mut of_iops, mut from) = (0.0, self.iops_included);
        for &(most, each) in &self.iops {
            let in_tier = (iops as f64).min(most) - from;
            of_iops += each * in_tier.max(0.0);
            from = from.max(most);
        }
        Some(size + of_iops + self.mbps * (mbps as f64 - self.mbps_included).max(0.0))
    }
}
