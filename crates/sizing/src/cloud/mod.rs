//! Finds the cheapest cloud volumes that meet a demand: compares the demand with the volumes' rate limits, then
//! confirms the result by simulation.
//!
//! | module | task |
//! |---|---|
//! | `load` | computes the load on rate limits |
//! | `parts` | computes into which I/Os striping splits an operation |
//! | `prices` | reads the prices of volumes |
//! | `instance` | holds the limits that an instance sets on its volumes |
//! | `search` | finds the cheapest volumes of a class |
//! | `answer` | formats the answer as text and JSON |

mod answer;
#[cfg(test)]
mod exact_tests;
mod instance;
mod load;
mod parts;
mod prices;
mod search;

pub use answer::{document, show};
pub use instance::Instance;
pub use load::Load;
pub use prices::{CLOUDS, CloudPrices, VolumePrice};
pub use search::{VOLUMES_MAX, Volumes};

use crate::demand::Demand;
use crate::simulate::{Measured, State, run, volume_length};
use instance::instances;
use iodyno_emulate::describe::DescribedDevice;
use iodyno_emulate::spec::{Kind, Limit};
use iodyno_run::{Files, RunError, described_device};
use iodyno_units::{StartCredits, VolumeOptions};
use load::{Conditions, Striped};
use search::cheapest;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Headroom of the limits over the demand: the first value tried, and the step by which it grows until the simulation
/// sustains the demand. Random arrivals need some headroom, or queues grow without limit. The first value keeps the
/// utilisation safely below the 98 % at which the simulation counts as overloaded.
const HEADROOM: (f64, f64) = (0.03, 0.03);
/// Headroom beyond which it grows by a factor: the limits that are tried next are higher by [`HEADROOM_FACTOR`]. Large
/// operations on few volumes need much, because they wait for each other.
const HEADROOM_STEPS_MAX: f64 = 0.5;
const HEADROOM_FACTOR: f64 = 1.1;
/// Maximum headroom that is tried: faster volumes would not help either.
const HEADROOM_MAX: f64 = 1000.0;

/// A class of volumes: its description in the catalog, and its prices.
#[derive(Clone)]
struct Class<'a> {
    device: DescribedDevice,
    price: &'a VolumePrice,
}

/// A class whose cheapest volumes are not confirmed by simulation yet.
struct Unconfirmed<'a> {
    class: Class<'a>,
    /// Headroom with which the volumes in `offer` were found.
    headroom: f64,
    offer: Offer,
}

impl<'a> Unconfirmed<'a> {
    /// Raises the headroom until `offer`, which returns the cheapest volumes with a given headroom, returns other volumes.
    ///
    /// # Errors
    /// No volumes of the class have this headroom.
    fn more(self, offer: &dyn Fn(&Class<'a>, f64) -> Result<Offer, Unfit>) -> Result<Self, Unfit> {
        let mut headroom = self.headroom;
        while headroom <= HEADROOM_MAX {
            headroom = if headroom < HEADROOM_STEPS_MAX {
                headroom + HEADROOM.1
            } else {
                (1.0 + headroom) * HEADROOM_FACTOR - 1.0
            };
            let more = offer(&self.class, headroom)?;
            if more != self.offer {
                return Ok(Self { headroom, offer: more, ..self });
            }
        }
        Err(Unfit::Limits)
    }
}

/// Cloud volumes of one class, and the instance to which they are attached.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Equal volumes of one class, with their price.
    pub volumes: Volumes,
    /// Instance to which the volumes are attached; `None`: limits of instances are not considered.
    pub instance: Option<Instance>,
}

impl Offer {
    /// Monthly price of volumes and instance together.
    pub fn price(&self) -> f64 {
        self.volumes.price + self.instance.as_ref().map_or(0.0, |instance| instance.price)
    }

    /// Load as a fraction of the sustained rate, for the busiest rate limit of the volumes or the instance. Ignores
    /// burst credits, and may exceed 1.
    pub fn utilisation(&self, load: &Load) -> f64 {
        let of_volumes = load.utilisation(&self.volumes.limits, self.volumes.striped(), false);
        of_volumes.max(self.instance_utilisation(load))
    }

    /// Same as [`Self::utilisation`], of the instance's limits only.
    pub fn instance_utilisation(&self, load: &Load) -> f64 {
        load.utilisation(self.shared(), Striped::shared(self.volumes.count), false)
    }

    /// Time until the first burst credits of the volumes or of the instance run out under a load, s, if all are full at
    /// the start; infinite if none run out.
    pub fn burst_s(&self, load: &Load) -> f64 {
        let of_volumes = load.burst_s(&self.volumes.limits, self.volumes.striped());
        of_volumes.min(load.burst_s(self.shared(), Striped::shared(self.volumes.count)))
    }

    /// Whether a limit of the volumes or the instance has burst credits.
    pub fn has_credits(&self) -> bool {
        self.volumes.limits.iter().chain(self.shared()).any(|limit| limit.credits.is_some())
    }

    /// Name of the emulated target that consists of these volumes. With `long_run`, the volumes start without burst
    /// credits.
    pub fn target(&self, long_run: bool) -> String {
        let credits = (long_run && self.has_credits()).then_some(StartCredits::LastFor(0));
        let Volumes { class, count, options, .. } = &self.volumes;
        let options = VolumeOptions { credits, ..*options };
        let on = self.instance.as_ref().map_or(String::new(), |of| format!("@{}", of.system));
        match count {
            1 => format!("model:{class}{on}?{options}"),
            count => format!("model:raid0({class}*{count}){on}?{options}"),
        }
    }

    fn shared(&self) -> &[Limit] {
        self.instance.as_ref().map_or(&[], |instance| &instance.limits)
    }
}

/// Volumes that sustain a demand without burst credits.
#[derive(Debug)]
pub struct Found {
    /// The volumes, and the instance to which they are attached.
    pub offer: Offer,
    /// Result of simulating the demand, where the volumes start without burst credits. `None`: not simulated, because
    /// the volumes cost more than the recommended ones.
    pub measured: Option<Measured>,
}

/// Reason why no volumes of a class meet a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// An idle volume is too slow for a latency limit.
    Latency,
    /// The maximum number of striped volumes is too slow, or sufficiently fast volumes have no price.
    Limits,
    /// The maximum number of striped volumes of the largest size has less than the requested capacity. Contains the
    /// number that has it.
    Capacity(u64),
    /// No instance can attach all volumes and has sufficient limits.
    Instance,
    /// The price file has no price for the class.
    Price,
}

/// Result of the search for the cheapest volumes of a provider that meet a demand.
#[derive(Debug)]
pub struct CloudSizing {
    /// The demand that the volumes must meet.
    pub demand: Demand,
    /// The provider, one of [`CLOUDS`].
    pub cloud: String,
    /// Currency of all prices, such as `USD`.
    pub currency: String,
    /// Date of the prices, as written in the price file.
    pub as_of: String,
    /// Operations and bytes per second of the demand, for comparison with rate limits.
    pub load: Load,
    /// The cheapest sufficient volumes of each class, sorted by price. Only the first entry is confirmed by simulation.
    pub found: Vec<Found>,
    /// Volumes that cost less than those in `found`, but meet the demand only until their burst credits run out; each
    /// with the time until then, s. All are confirmed by simulation with full credits.
    pub by_credits_alone: Vec<(Offer, f64)>,
    /// Names of the classes that have no sufficient volumes, each with the reason.
    pub unfit: Vec<(String, Unfit)>,
    /// Maximum number of striped volumes.
    pub volumes_max: u32,
    /// Number of simulations that the search ran.
    pub cells: usize,
}

/// Finds the cheapest volumes of a provider that meet a demand. `instance` names the system file of the instance to
/// which the volumes are attached. `None`: the cheapest instance in the price file, or no instance if the file has
/// none. At most `volumes_max` volumes are striped.
///
/// # Errors
///
/// The price file has no volumes of the provider, or names something that is not a class of cloud volumes; an instance
/// has no limits; the workload does not fit the volumes; or the search is interrupted.
pub fn size_cloud(
    demand: Demand,
    cloud: &str,
    prices: &CloudPrices,
    instance: Option<&str>,
    volumes_max: u32,
    stop: &Arc<AtomicBool>,
) -> Result<CloudSizing, RunError> {
    let classes = classes(cloud, prices)?;
    let instances = instances(cloud, prices, instance)?;
    let load = Load::of(&demand, volumes_max);
    let capacity_bytes = demand.capacity_bytes.max(demand.active_bytes.unwrap_or(0));
    let mut answer = CloudSizing {
        cloud: cloud.to_owned(),
        currency: prices.currency.clone(),
        as_of: prices.as_of.clone(),
        found: Vec::new(),
        by_credits_alone: Vec::new(),
        unfit: Vec::new(),
        volumes_max,
        cells: 0,
        load: load.clone(),
        demand,
    };
    let offer = |class: &Class<'_>, headroom: f64, at_burst_rates: bool| {
        let of = Conditions { load: &load, capacity_bytes, volumes_max, headroom, at_burst_rates };
        cheapest(&class.device, class.price, of, instances.as_deref())
    };
    answer.unfit.extend(prices.unpriced(cloud).map(|name| (name, Unfit::Price)));
    let (mut open, mut bursting) = (Vec::new(), Vec::new());
    for class in classes {
        let name = class.price.class.clone();
        let Kind::Volume(volume) = &class.device.device.kind else { continue };
        if !load.is_in_time(volume, &answer.demand) {
            answer.unfit.push((name, Unfit::Latency));
            continue;
        }
        if let Ok(offer) = offer(&class, HEADROOM.0, true) {
            bursting.push(Unconfirmed { class: class.clone(), headroom: HEADROOM.0, offer });
        }
        match offer(&class, HEADROOM.0, false) {
            Ok(offer) => open.push(Unconfirmed { class, headroom: HEADROOM.0, offer }),
            Err(why) => answer.unfit.push((name, why)),
        }
    }
    confirm(&mut answer, open, &|class, headroom| offer(class, headroom, false), stop)?;
    for of in bursting {
        confirm_burst(&mut answer, of, &|class, headroom| offer(class, headroom, true), stop)?;
    }
    Ok(answer)
}

/// Simulates the cheapest volumes, with more and more headroom until the simulation sustains the demand or another
/// class is cheaper. Adds the confirmed volumes to the answer, then those of the other classes, cheapest first.
/// `offer` returns the cheapest volumes of a class with a given headroom.
fn confirm<'a>(
    answer: &mut CloudSizing,
    mut open: Vec<Unconfirmed<'a>>,
    offer: &dyn Fn(&Class<'a>, f64) -> Result<Offer, Unfit>,
    stop: &Arc<AtomicBool>,
) -> Result<(), RunError> {
    let by_price =
        |a: &Unconfirmed<'_>, b: &Unconfirmed<'_>| a.offer.price().total_cmp(&b.offer.price());
    while let Some(best) = (0..open.len()).min_by(|a, b| by_price(&open[*a], &open[*b])) {
        let best = open.swap_remove(best);
        let measured = measure(&answer.demand, &best.offer, true, stop)?;
        answer.cells += 1;
        if measured.holds(answer.demand.rate_iops, &answer.demand) {
            answer.found.push(Found { offer: best.offer, measured: Some(measured) });
            break;
        }
        let name = best.class.price.class.clone();
        match best.more(offer) {
            Ok(more) => open.push(more),
            Err(why) => answer.unfit.push((name, why)),
        }
    }
    open.sort_by(by_price);
    answer.found.extend(open.into_iter().map(|of| Found { offer: of.offer, measured: None }));
    Ok(())
}

/// Simulates volumes that meet the demand on burst credits, with more and more headroom until the simulation sustains the
/// demand. Adds them to the answer if they cost less than the recommended volumes.
fn confirm_burst<'a>(
    answer: &mut CloudSizing,
    mut open: Unconfirmed<'a>,
    offer: &dyn Fn(&Class<'a>, f64) -> Result<Offer, Unfit>,
    stop: &Arc<AtomicBool>,
) -> Result<(), RunError> {
    let most = answer.found.first().map_or(f64::INFINITY, |found| found.offer.price());
    loop {
        let lasts_s = open.offer.burst_s(&answer.load);
        if open.offer.price() >= most || !lasts_s.is_finite() {
            return Ok(());
        }
        let measured = measure(&answer.demand, &open.offer, false, stop)?;
        answer.cells += 1;
        if measured.holds(answer.demand.rate_iops, &answer.demand) {
            answer.by_credits_alone.push((open.offer, lasts_s));
            return Ok(());
        }
        match open.more(offer) {
            Ok(more) => open = more,
            Err(_) => return Ok(()),
        }
    }
}

/// Returns the provider's classes that have prices.
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

/// Simulates the demand on volumes, with `long_run` without burst credits.
fn measure(
    demand: &Demand,
    offer: &Offer,
    long_run: bool,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, RunError> {
    let bytes = offer.volumes.size_bytes * u64::from(offer.volumes.count);
    let spec = demand
        .on_array(demand.rate_iops, 1, 1, bytes)
        .map_err(|why| RunError::Impossible(format!("{}: {why}", demand.name)))?;
    run(&offer.target(long_run), spec, volume_length(demand), State::WHOLE, stop)
}
