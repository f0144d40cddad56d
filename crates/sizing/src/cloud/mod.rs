//! The cheapest cloud volumes that meet a demand: found by the closed form of their limits, and confirmed by simulation.
//!
//! | module | contents |
//! |---|---|
//! | `prices` | prices of volumes |
//! | `search` | the cheapest volumes of a class |
//! | `answer` | the answer as text and as a document |

mod answer;
mod prices;
mod search;

pub use answer::{document, show};
pub use prices::{CLOUDS, CloudPrices, VolumePrice};
pub use search::{Load, VOLUMES_MAX, Volumes};

use crate::demand::Demand;
use crate::simulate::{Measured, State, run, volume_length};
use iodyno_emulate::describe::DescribedDevice;
use iodyno_emulate::spec::Kind;
use iodyno_run::{Files, RunError, described_device};
use search::cheapest;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Headroom of the limits over the demand that is tried first, and the step by which it grows until the simulation holds.
/// Operations that arrive at random need some, or they wait without end.
const HEADROOM: (f64, f64) = (0.02, 0.03);
/// Greatest headroom that is tried.
const HEADROOM_MAX: f64 = 0.5;

/// A class of volumes: its file, and its prices.
struct Class<'a> {
    device: DescribedDevice,
    price: &'a VolumePrice,
}

/// Volumes that meet a demand for ever.
#[derive(Debug)]
pub struct Found {
    /// The volumes, with their price.
    pub volumes: Volumes,
    /// Simulation at the demanded rate without burst credits; `None`: not simulated, because the volumes cost more than
    /// the recommended ones.
    pub measured: Option<Measured>,
}

/// Why no volumes of a class meet a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// An idle volume is too slow for a latency limit.
    Latency,
    /// The limits, the sizes or the prices of up to [`VOLUMES_MAX`] volumes do not suffice.
    Limits,
}

/// The answer: volumes of a provider that meet a demand.
#[derive(Debug)]
pub struct CloudSizing {
    /// The demand.
    pub demand: Demand,
    /// The provider, one of [`CLOUDS`].
    pub cloud: String,
    /// Currency and date of the prices.
    pub currency: String,
    /// Date of the prices.
    pub as_of: String,
    /// The load that limits count.
    pub load: Load,
    /// The cheapest volumes of each class that meet the demand, cheapest first. The first is confirmed by simulation.
    pub found: Vec<Found>,
    /// Cheaper volumes that meet the demand only while their credits last, each with that time in s.
    pub in_burst: Vec<(Volumes, f64)>,
    /// Classes that do not meet the demand.
    pub unfit: Vec<(String, Unfit)>,
    /// Number of simulated cells.
    pub cells: usize,
}

/// Finds the cheapest volumes of a provider that meet a demand.
///
/// # Errors
/// A class that has no rules, a workload that does not fit, a provider without prices, or an interruption.
pub fn size_cloud(
    demand: Demand,
    cloud: &str,
    prices: &CloudPrices,
    stop: &Arc<AtomicBool>,
) -> Result<CloudSizing, RunError> {
    let classes = classes(cloud, prices)?;
    let load = Load::of(&demand);
    let capacity_bytes = demand.capacity_bytes.max(demand.active_bytes.unwrap_or(0));
    let mut answer = CloudSizing {
        cloud: cloud.to_owned(),
        currency: prices.currency.clone(),
        as_of: prices.as_of.clone(),
        found: Vec::new(),
        in_burst: Vec::new(),
        unfit: Vec::new(),
        cells: 0,
        load,
        demand,
    };
    // Classes whose cheapest volumes are not confirmed, with their headroom.
    let mut open: Vec<(Class<'_>, f64, Volumes)> = Vec::new();
    for class in classes {
        let of = (&answer.load, capacity_bytes);
        let name = class.price.class.clone();
        let Kind::Volume(volume) = &class.device.device.kind else { continue };
        if !answer.load.is_in_time(volume, &answer.demand) {
            answer.unfit.push((name, Unfit::Latency));
            continue;
        }
        if let Some(volumes) = cheapest(&class.device, class.price, of, HEADROOM.0, true) {
            let lasts_s = answer.load.burst_s(&volumes.limits, volumes.count);
            if lasts_s.is_finite() {
                answer.in_burst.push((volumes, lasts_s));
            }
        }
        match cheapest(&class.device, class.price, of, HEADROOM.0, false) {
            Some(volumes) => open.push((class, HEADROOM.0, volumes)),
            None => answer.unfit.push((name, Unfit::Limits)),
        }
    }
    while let Some(best) =
        (0..open.len()).min_by(|a, b| open[*a].2.price.total_cmp(&open[*b].2.price))
    {
        let (class, headroom, volumes) = open.swap_remove(best);
        let measured = measure(&answer.demand, &volumes, stop)?;
        answer.cells += 1;
        if measured.holds(answer.demand.rate_iops, &answer.demand) {
            answer.found.push(Found { volumes, measured: Some(measured) });
            break;
        }
        let (of, headroom) = ((&answer.load, capacity_bytes), headroom + HEADROOM.1);
        let more = (headroom <= HEADROOM_MAX)
            .then(|| cheapest(&class.device, class.price, of, headroom, false))
            .flatten();
        match more {
            Some(volumes) => open.push((class, headroom, volumes)),
            None => answer.unfit.push((class.price.class.clone(), Unfit::Limits)),
        }
    }
    open.sort_by(|a, b| a.2.price.total_cmp(&b.2.price));
    let others = open.into_iter().map(|(_, _, volumes)| Found { volumes, measured: None });
    answer.found.extend(others);
    let most = answer.found.first().map_or(f64::INFINITY, |found| found.volumes.price);
    answer.in_burst.retain(|(volumes, _)| volumes.price < most);
    Ok(answer)
}

/// The priced classes of a provider.
fn classes<'a>(cloud: &str, prices: &'a CloudPrices) -> Result<Vec<Class<'a>>, RunError> {
    let mut files = Files::default();
    let mut classes = Vec::new();
    for price in prices.of_cloud(cloud) {
        let device = described_device(&price.class, &mut files)?;
        if device.class.is_none() {
            return Err(RunError::Impossible(format!(
                "`{}` is not a class of cloud volumes: its file has no rules for sizes or rates",
                price.class
            )));
        }
        classes.push(Class { device, price });
    }
    if classes.is_empty() {
        return Err(RunError::Impossible(format!(
            "the price file has no volumes of {cloud}: add `[[volumes]]` with cloud = \"{cloud}\""
        )));
    }
    Ok(classes)
}

/// Simulates the demand on volumes without burst credits.
fn measure(
    demand: &Demand,
    volumes: &Volumes,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let bytes = volumes.size_bytes * u64::from(volumes.count);
    let spec = demand
        .on_array(demand.rate_iops, 1, 1, bytes)
        .map_err(|why| RunError::Impossible(format!("{}: {why}", demand.name)))?;
    run(&volumes.target(true), spec, volume_length(demand), State::WHOLE, stop)
}
