//! Checks that the search finds the same price as an exhaustive trial of all sizes, rates and instances.

use super::load::{Conditions, Load, Striped};
use super::prices::{CloudPrices, VolumePrice};
use super::search::{VOLUMES_MAX, cheapest};
use super::{Instance, Offer, Unfit};
use crate::Demand;
use iodyno_emulate::describe::{self, DescribedDevice, VolumeClass};
use iodyno_emulate::spec::{Counted, Credits, Limit, LimitOf};
use iodyno_units::VolumeOptions;
use iodyno_units::rng::{Generator, below, stream};
use iodyno_workload::Spec;

/// A class of the catalog whose file is changed. `changes`: texts in the file, and their replacements.
fn class(name: &str, changes: &[(&str, &str)]) -> DescribedDevice {
    let file = iodyno_catalog::find(iodyno_catalog::Kind::Device, name).unwrap();
    let text = changes.iter().fold(file.text.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    describe::device(name, &text).unwrap()
}

fn spec(block: &str) -> Spec {
    let text = format!(
        "schema = 1\nblock = \"{block}\"\n[mix]\nread = 50\nwrite = 50\n[all]\naddresses = \"uniform\"\n"
    );
    Spec::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Two classes with few sizes and rates. The first has provisioned rates. The size of the second determines its rates,
/// burst credits and on-demand bursting.
fn classes() -> [DescribedDevice; 2] {
    let gp3 = [
        (r#"at_least = "1GiB", at_most = "64TiB""#, r#"at_least = "1GiB", at_most = "6GiB""#),
        (r#"is = "500GiB""#, r#"is = "2GiB""#),
        (
            "is = 3000, at_least = 3000, at_most = 80000, at_most_per_gib = 500",
            "is = 30, at_least = 30, at_most = 50, at_most_per_gib = 10",
        ),
        (
            r#"is = "125 MiB/s", at_least = "125 MiB/s", at_most = "2000 MiB/s""#,
            r#"is = "2 MiB/s", at_least = "1 MiB/s", at_most = "11 MiB/s""#,
        ),
    ];
    [
        class("ebs-gp3", &gp3),
        class("azure-premium", &[(r#"at_most = "32767GiB""#, r#"at_most = "1100GiB""#)]),
    ]
}

fn prices(random: &mut Generator) -> CloudPrices {
    let mut size_price = 0.0;
    // The price of the largest size may be missing.
    let sizes = 3 + below(random, 2) as usize;
    let mut price = |most: u64| below(random, most) as f64 / 100.0;
    let by_size: Vec<String> = ["128GiB", "512GiB", "1024GiB", "2048GiB"][..sizes]
        .iter()
        .map(|size| {
            size_price += price(20_000);
            format!("\"{size}\" = {size_price}")
        })
        .collect();
    let text = format!(
        "schema = 1\ncurrency = \"USD\"\nas_of = \"2026-11\"\n\
         [[volumes]]\ncloud = \"aws\"\nclass = \"ebs-gp3\"\ngib = {}\niops = {}\niops_included = 35\nmbps = {}\nmbps_included = 3\n\
         [[volumes]]\ncloud = \"azure\"\nclass = \"azure-premium\"\nby_size = {{ {} }}\non_demand = {}\non_demand_10k = {}\n",
        price(500),
        price(50),
        price(10),
        by_size.join(", "),
        price(3000),
        price(30) / 1000.0,
    );
    CloudPrices::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}: {text}"))
}

fn instances(random: &mut Generator, load: &Load, iops: f64) -> Option<Vec<Instance>> {
    let count = below(random, 4);
    let mut instance = |number: u64| {
        let mut share = || 0.5 + below(random, 100) as f64 / 50.0;
        let limit = |counts, rate: f64| Limit {
            of: LimitOf::All,
            counts,
            rate: rate as u64 + 1,
            window_ns: 1_000_000,
            account_bytes: None,
            merges: false,
            credits: None,
        };
        let mut ops = limit(Counted::Operations, iops * share());
        let burst = (f64::from(ops.rate as u32) * (1.0 + share())) as u64;
        ops.credits = Some(Credits { most: burst, start: burst, burst });
        let limits = vec![ops, limit(Counted::Bytes, load.bytes_per_s() * share())];
        let volumes_max = Some(1 + below(random, u64::from(VOLUMES_MAX)) as u32);
        let price = below(random, 20_000) as f64 / 100.0;
        Instance { system: number.to_string(), limits, volumes_max, price }
    };
    (count > 0).then(|| (0..count).map(&mut instance).collect())
}

/// Price of each of `count` volumes with these options; `None`: they have no price, or do not meet the conditions.
fn price_of_each(
    class: &VolumeClass,
    price: &VolumePrice,
    of: Conditions<'_>,
    options: &VolumeOptions,
    count: u32,
) -> Option<f64> {
    if options.size_bytes? * u64::from(count) < of.capacity_bytes {
        return None;
    }
    let (bytes, limits) = class.volume("", options).ok()?;
    let plain = VolumeOptions { on_demand: false, ..*options };
    let mut each = price.of(class, bytes, &plain)?;
    if !of.hold(&limits, Striped { volumes: count, is_shared: false }) {
        return None;
    }
    if options.on_demand {
        // One operation of 4 KiB counts as one, so bytes never exceed the operations.
        let (_, limits) = class.volume("", &plain).unwrap();
        let over = of.load.bytes_per_s() / 4096.0 / f64::from(count) - limits[0].rate as f64;
        each += price.of_on_demand(over, 0.0).unwrap();
    }
    Some(each)
}

/// The least price of an instance that meets the conditions with `count` volumes; 0 if none is considered.
fn least_instance_price(
    instances: Option<&[Instance]>,
    of: Conditions<'_>,
    count: u32,
) -> Option<f64> {
    let Some(all) = instances else { return Some(0.0) };
    let fits = |one: &&Instance| {
        of.hold(&one.limits, Striped::shared(count))
            && one.volumes_max.is_none_or(|most| count <= most)
    };
    all.iter().filter(fits).map(|one| one.price).min_by(f64::total_cmp)
}

/// The least price over every size in GiB, provisioned rate, kind of bursting, number of volumes and instance.
fn least_price(
    device: &DescribedDevice,
    prices: &CloudPrices,
    of: Conditions<'_>,
    instances: Option<&[Instance]>,
) -> Result<f64, Unfit> {
    let class = device.class.as_ref().unwrap();
    let name = &device.device.name;
    let mut price = ["aws", "azure"].iter().flat_map(|cloud| prices.of_cloud(cloud));
    let price = price.find(|price| price.class == *name).unwrap();
    let [from, _, to] = class.sizes_bytes.map(|bytes| bytes >> 30);
    let mut rates = Vec::new();
    let range = |counts| class.provisioned(counts, class.sizes_bytes[2], u64::MAX >> 20);
    match (range(Counted::Operations), range(Counted::Bytes)) {
        (Some(iops), Some(mbps)) => {
            for iops in iops.least..=iops.most {
                rates.extend((mbps.least..=mbps.most).map(|mbps| (Some(iops), Some(mbps))));
            }
        }
        _ => rates.push((None, None)),
    }
    let options = |on_demand: bool| {
        let sizes = (from..=to).flat_map(|gib| rates.iter().map(move |rates| (gib, *rates)));
        sizes.map(move |(gib, (iops, mbps))| VolumeOptions {
            size_bytes: Some(gib << 30),
            iops,
            mbps,
            on_demand,
            ..VolumeOptions::default()
        })
    };
    if of.capacity_bytes > class.sizes_bytes[2] * u64::from(of.volumes_max) {
        return Err(Unfit::Capacity(of.capacity_bytes.div_ceil(class.sizes_bytes[2])));
    }
    let (mut best, mut is_sufficient) = (None::<f64>, false);
    for on_demand in [false, true] {
        for count in 1..=of.volumes_max {
            let prices = options(on_demand).filter_map(|of_each| {
                Some(price_of_each(class, price, of, &of_each, count)? * f64::from(count))
            });
            let Some(least) = prices.min_by(f64::total_cmp) else { continue };
            is_sufficient = true;
            if let Some(price) = least_instance_price(instances, of, count) {
                best = Some(best.map_or(least + price, |best| best.min(least + price)));
            }
        }
    }
    best.ok_or(if is_sufficient { Unfit::Instance } else { Unfit::Limits })
}

#[test]
fn the_search_is_exact() {
    let classes = classes();
    let specs = ["128KiB", "4KiB"].map(spec);
    let (mut met, mut bursts, mut refused) = (0, 0, 0);
    for seed in 0..120 {
        let mut random = stream(seed, "cloud", 0);
        let prices = prices(&mut random);
        let at = below(&mut random, 2) as usize;
        let (device, most) = (&classes[at], [900, 60_000][at]);
        let iops = 1.0 + below(&mut random, most) as f64;
        let demand = Demand::new("t".to_owned(), specs[at].clone(), iops, 10_000_000);
        let load = Load::of(&demand, VOLUMES_MAX);
        let capacity_bytes = below(&mut random, 2 * device.class.as_ref().unwrap().sizes_bytes[2]);
        let instances = instances(&mut random, &load, iops);
        let at_burst_rates = below(&mut random, 4) == 0;
        let volumes_max = 1 + below(&mut random, u64::from(VOLUMES_MAX)) as u32;
        let headroom = 0.02;
        let of = Conditions { load: &load, capacity_bytes, volumes_max, headroom, at_burst_rates };
        let cloud = ["aws", "azure"][at];
        let price = prices.of_cloud(cloud).next().unwrap();
        let found = cheapest(device, price, of, instances.as_deref());
        let least = least_price(device, &prices, of, instances.as_deref());
        match (&found, least) {
            (Ok(offer), Ok(least)) => {
                let Offer { volumes, .. } = offer;
                assert!(
                    (offer.price() - least).abs() < 1e-6,
                    "seed {seed}: {offer:?}, least {least}"
                );
                met += 1;
                bursts += usize::from(volumes.options.on_demand);
            }
            (Err(why), Err(other)) => {
                assert_eq!(*why, other, "seed {seed}");
                refused += 1;
            }
            (found, least) => panic!("seed {seed}: {found:?}, {least:?}"),
        }
    }
    assert!(
        met > 50 && bursts > 5 && refused > 5,
        "{met} met, {bursts} on demand, {refused} refused"
    );
}
