//! Searches all candidates, several in parallel, and simulates the best ones at greater length. The result depends only
//! on the catalog and the demand, not on threads or timing.

use crate::candidate::Candidate;
use crate::demand::{Demand, Loss};
use crate::detail::{Detail, detail};
use crate::lab::{Lab, device_iops, together};
use crate::price::Prices;
use crate::row::{Highest, Life, Missed, Row, Trial};
use crate::search::{Bounds, Count, Found, fewest};
use crate::simulate::{Condition, Effort, How, Measured};
use crate::textbook::Textbook;
use iodyno_emulate::spec::Kind;
use iodyno_raid::Level;
use iodyno_run::RunError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of systems in a result. Each is simulated at length.
pub const ROWS_MAX: usize = 8;
/// Loads at which a latency curve is simulated, as fractions of the highest rate.
const CURVE_SHARES: [f64; 5] = [0.25, 0.5, 0.75, 0.9, 1.05];

const SECONDS_A_DAY: f64 = 86_400.0;
/// Maximum number of times that arrays are added because the flash would not last.
const LIFE_TRIALS_MAX: u32 = 8;

/// Result of a sizing: the systems that meet a demand, and those that do not.
#[derive(Debug)]
pub struct Sizing {
    /// The demand that the systems must meet.
    pub demand: Demand,
    /// All systems that were considered.
    pub candidates: Vec<Candidate>,
    /// Candidates that meet the demand, best first, at most [`ROWS_MAX`].
    pub rows: Vec<Row>,
    /// Number of candidates that are not shown, because they need more devices or cost more than those shown, have no
    /// price, or were not searched to the end.
    pub not_worth: usize,
    /// Candidates that do not meet the demand, nearest first.
    pub missed: Vec<Missed>,
    /// Further results for the best candidate; `None` if no candidate meets the demand.
    pub detail: Option<Detail>,
    /// Prices of devices and systems; `None` if the user gave none.
    pub prices: Option<Prices>,
    /// Number of simulations that the search ran.
    pub cells: usize,
}

/// Finds the smallest sufficient configuration of every candidate. Several threads call `progress` with the number of
/// simulations so far.
///
/// # Errors
/// The workload does not fit a system, no candidate tolerates the required loss, no candidate has a price, or the
/// search is interrupted.
pub fn size(
    demand: Demand,
    candidates: Vec<Candidate>,
    prices: Option<Prices>,
    stop: &Arc<AtomicBool>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Sizing, RunError> {
    let lab = Lab { demand: &demand, stop, cells: AtomicUsize::new(0), progress };
    let mut devices: Vec<&Candidate> = candidates.iter().collect();
    devices.sort_by(|a, b| a.device_name.cmp(&b.device_name));
    devices.dedup_by(|a, b| a.device_name == b.device_name);
    let alone = together(&devices, |of| device_iops(&lab, of))?;
    let textbook = |of: &Candidate| {
        let at = devices.iter().position(|other| other.device_name == of.device_name).unwrap_or(0);
        Textbook::of(alone[at], of, &demand)
    };
    // Score: price, or number of devices.
    let score = |of: &Candidate, count: Count| match &prices {
        Some(prices) => prices.of(of, count).unwrap_or(f64::INFINITY),
        None => f64::from(count.units * count.arrays * of.members),
    };
    let has_score = |of: &Candidate| score(of, Count { units: 1, arrays: 1 }).is_finite();
    let mut jobs: Vec<usize> =
        (0..candidates.len()).filter(|&n| has_score(&candidates[n])).collect();
    if let Some(loss) = demand.survive {
        jobs.retain(|&n| can_lose(&candidates[n], loss));
        if jobs.is_empty() {
            return Err(RunError::Impossible(format!(
                "no system keeps working with {}: choose other adapters with --adapter, or another --raid",
                loss.words()
            )));
        }
    }
    if jobs.is_empty() {
        let why = "the price file lists no device together with a system that accepts it";
        return Err(RunError::Impossible(format!("{why}: use the catalog's names")));
    }
    let unpriced = (0..candidates.len()).filter(|&n| !has_score(&candidates[n])).count();
    jobs.sort_by_key(|&job| textbook(&candidates[job]).devices);
    let (mut rows, mut missed, mut not_worth) = (Vec::<Row>::new(), Vec::new(), unpriced);
    // Candidates worse than the last row are not searched to the end. The batches don't depend on the number of
    // processors.
    for batch in jobs.chunks(ROWS_MAX) {
        let last = rows.get(ROWS_MAX - 1);
        let bound = last.map_or(f64::INFINITY, |row| score(&candidates[row.candidate], row.count));
        let search = |&job: &usize| {
            let of = &candidates[job];
            let worth = |count: Count| score(of, count) <= bound;
            one(&lab, job, of, textbook(of), &worth, prices.as_ref())
        };
        for found in together(batch, search)? {
            match found {
                Searched::Meets(row) => rows.push(*row),
                Searched::Misses(nearest) => missed.push(*nearest),
                Searched::NotWorth => not_worth += 1,
            }
        }
        rows.sort_by(|a, b| order(a, b, &score, &candidates));
    }
    let far = |missed: &Missed| {
        let nearest = missed.nearest.as_ref().map(|trial| &trial.measured);
        let late = nearest.and_then(|m| m.p99_ns).unwrap_or(f64::INFINITY) / demand.p99_ns as f64;
        (late.max(1.0), nearest.map_or(0.0, |m| -m.iops))
    };
    missed.sort_by(|a, b| far(a).partial_cmp(&far(b)).unwrap_or(core::cmp::Ordering::Equal));
    let best = rows.len().min(ROWS_MAX);
    not_worth += rows.len() - best;
    rows.truncate(best);
    rows =
        together(&rows, |row| confirmed(&lab, &candidates[row.candidate], row, prices.as_ref()))?;
    rows.sort_by(|a, b| order(a, b, &score, &candidates));
    let closer: Vec<usize> = (0..best).collect();
    let looks = together(&closer, |&at| look(&lab, &candidates, &rows[at], at < 2))?;
    for (row, (highest, next, trials)) in rows.iter_mut().zip(looks) {
        (row.highest, row.next) = (Some(highest), next);
        row.trials.extend(trials);
    }
    let detail = match rows.first() {
        Some(row) => Some(detail(&lab, &candidates[row.candidate], row)?),
        None => None,
    };
    let cells = lab.cells.load(Ordering::Relaxed);
    Ok(Sizing { demand, candidates, rows, not_worth, missed, detail, prices, cells })
}

/// Compares two rows, better first: by score, then number of devices, number of systems, capacity and
/// latency.
fn order(
    a: &Row,
    b: &Row,
    score: &dyn Fn(&Candidate, Count) -> f64,
    candidates: &[Candidate],
) -> core::cmp::Ordering {
    let of = |row: &Row| score(&candidates[row.candidate], row.count);
    let bytes = |row: &Row| row.capacity_bytes(candidates);
    let p99 = |row: &Row| row.asked.p99_ns.unwrap_or(f64::INFINITY);
    of(a)
        .total_cmp(&of(b))
        .then(a.devices(candidates).cmp(&b.devices(candidates)))
        .then(a.count.units.cmp(&b.count.units))
        .then(bytes(b).cmp(&bytes(a)))
        .then(p99(a).total_cmp(&p99(b)))
}

/// True if a system of this candidate still works after the loss of this component.
fn can_lose(of: &Candidate, loss: Loss) -> bool {
    match loss {
        Loss::Device => !matches!(of.level, Level::Raid0 | Level::Jbod),
        Loss::Adapter | Loss::Link => of.adapter_count() == 2,
    }
}

/// Confirms a configuration by two long cells: the configuration must sustain the requested rate, and with one array
/// less it must not. Adds arrays if the flash would not last for the required time.
fn confirmed(
    lab: &Lab<'_>,
    of: &Candidate,
    row: &Row,
    prices: Option<&Prices>,
) -> Result<Row, RunError> {
    let demand = lab.demand;
    let mut row = row.clone();
    let all_arrays_min = demand.capacity_bytes.div_ceil(of.array_bytes.max(1)) as u32;
    let mut tried = |count: Count| {
        let share_iops = demand.rate_iops / f64::from(count.units);
        let measured = lab.cell(
            of,
            count,
            share_iops,
            How { effort: Effort::Confirm, condition: lab.base() },
        )?;
        let holds = measured.holds(share_iops, demand);
        row.trials
            .retain(|t| t.arrays != count.arrays || t.offered_iops.total_cmp(&share_iops).is_ne());
        let (arrays, offered_iops) = (count.arrays, share_iops);
        row.trials.push(Trial { arrays, offered_iops, measured: measured.clone() });
        Ok::<_, RunError>((measured, holds))
    };
    let mut count = row.count;
    let (mut asked, mut fewer) = (None, None);
    // Upwards until the rate holds, otherwise downwards until it does not.
    while asked.is_none() {
        let (measured, holds) = tried(count)?;
        if holds {
            asked = Some(measured);
        } else {
            fewer = Some(measured);
            count = if count.arrays == of.arrays_max {
                Count { units: count.units + 1, ..count }
            } else {
                Count { arrays: count.arrays + 1, ..count }
            };
        }
    }
    while fewer.is_none() && count.arrays > 1 && count.units * (count.arrays - 1) >= all_arrays_min
    {
        let less = Count { arrays: count.arrays - 1, ..count };
        let (measured, holds) = tried(less)?;
        if holds {
            (count, asked) = (less, Some(measured));
        } else {
            fewer = Some(measured);
        }
    }
    let mut asked = asked.expect("the first loop ends with one");
    let arrays_by_rate = count.units * count.arrays;
    // Devices wear out in the whole system; a loss is an exception.
    let lives = |count: Count, asked: &Measured| {
        if lab.base() == Condition::Whole {
            return Ok(life(of, lab, asked, count, arrays_by_rate));
        }
        let how = How { effort: Effort::Confirm, condition: Condition::Whole };
        let whole = lab.cell(of, count, demand.rate_iops / f64::from(count.units), how)?;
        Ok::<_, RunError>(life(of, lab, &whole, count, arrays_by_rate))
    };
    let mut life = lives(count, &asked)?;
    for _ in 0..LIFE_TRIALS_MAX {
        let Some(short) = life.filter(|life| life.years < life.asked_years) else { break };
        // With more devices, each takes fewer writes.
        let all = count.units * count.arrays;
        let needed = f64::from(all) * short.asked_years / short.years.max(1e-9);
        let needed = needed.ceil().min(f64::from(u32::MAX / 2)) as u32;
        let needed = needed.max(all + 1);
        let units = needed.div_ceil(of.arrays_max).max(count.units);
        count = Count { units, arrays: needed.div_ceil(units) };
        (asked, _) = tried(count)?;
        life = lives(count, &asked)?;
    }
    let devices = f64::from(count.units * count.arrays * of.members);
    (row.count, row.asked, row.fewer, row.life) = (count, asked, fewer, life);
    row.devices_w = of.device.power.active_w.map(|each| each * devices);
    row.price = prices.and_then(|prices| prices.of(of, count));
    Ok(row)
}

/// Lifetime of a candidate's devices; `None` if they are not flash, have no rated endurance or are not
/// written.
fn life(
    of: &Candidate,
    lab: &Lab<'_>,
    asked: &Measured,
    count: Count,
    arrays_by_rate: u32,
) -> Option<Life> {
    let demand = lab.demand;
    let Kind::Flash(flash) = &of.device.device.kind else { return None };
    // In a cell, writes arrive by chance at a rate somewhat above or below the demand's.
    let demanded = demand.write_bytes_per_s() / f64::from(count.units);
    let chance = match asked.host_write_bytes_per_s {
        0.0 => 1.0,
        written => demanded / written,
    };
    let (rated, bytes_per_s) = (&flash.endurance, asked.device_write_bytes_per_s? * chance);
    let asked_years = demand.life_years.unwrap_or(rated.years);
    if rated.drive_writes_per_day <= 0.0 || bytes_per_s <= 0.0 {
        return None;
    }
    let writes_per_day = bytes_per_s * SECONDS_A_DAY / flash.capacity_bytes as f64;
    Some(Life {
        years: rated.years * rated.drive_writes_per_day / writes_per_day,
        asked_years,
        drive_writes_per_day: (writes_per_day, rated.drive_writes_per_day),
        write_amplification: asked.write_amplification.unwrap_or(1.0),
        arrays_by_rate,
    })
}

/// Result of the search for one candidate.
enum Searched {
    Meets(Box<Row>),
    Misses(Box<Missed>),
    NotWorth,
}

/// Searches for the smallest sufficient configuration of one candidate.
fn one(
    lab: &Lab<'_>,
    number: usize,
    of: &Candidate,
    textbook: Textbook,
    worth: &dyn Fn(Count) -> bool,
    prices: Option<&Prices>,
) -> Result<Searched, RunError> {
    let demand = lab.demand;
    let bounds = Bounds {
        arrays_max: of.arrays_max,
        all_arrays_min: demand.capacity_bytes.div_ceil(of.array_bytes.max(1)) as u32,
        unit_iops_max: of.iops_max(demand),
    };
    let mut trials: Vec<Trial> = Vec::new();
    let found = fewest(demand.rate_iops, &bounds, worth, &mut |arrays, iops| {
        let units = (demand.rate_iops / iops).round() as u32;
        let how = How { effort: Effort::Search, condition: lab.base() };
        let measured = lab.cell(of, Count { units, arrays }, iops, how)?;
        let tried = measured.tried(iops, demand);
        trials.push(Trial { arrays, offered_iops: iops, measured });
        Ok::<_, RunError>(tried)
    })?;
    let mut count = match found {
        Found::Fewest(count) => count,
        Found::NotWorth => return Ok(Searched::NotWorth),
        Found::Impossible => {
            let late =
                |t: &Trial| t.measured.p99_ns.unwrap_or(f64::INFINITY).max(demand.p99_ns as f64);
            let nearest = trials.into_iter().min_by(|a, b| {
                late(a).total_cmp(&late(b)).then(b.measured.iops.total_cmp(&a.measured.iops))
            });
            let missed = Missed { candidate: number, nearest };
            return Ok(Searched::Misses(Box::new(missed)));
        }
    };
    // A longer cell repeats the search's answer, which may be one array too few.
    let asked = loop {
        let share_iops = demand.rate_iops / f64::from(count.units);
        let measured =
            lab.cell(of, count, share_iops, How { effort: Effort::Shown, condition: lab.base() })?;
        let holds = measured.holds(share_iops, demand);
        let (arrays, offered_iops) = (count.arrays, share_iops);
        trials.push(Trial { arrays, offered_iops, measured: measured.clone() });
        if holds {
            break measured;
        }
        if count.arrays == of.arrays_max {
            count.units += 1;
        } else {
            count.arrays += 1;
        }
    };
    let devices = f64::from(count.units * count.arrays * of.members);
    Ok(Searched::Meets(Box::new(Row {
        candidate: number,
        count,
        asked,
        fewer: None,
        life: None,
        highest: None,
        next: None,
        devices_w: of.device.power.active_w.map(|each| each * devices),
        price: prices.and_then(|prices| prices.of(of, count)),
        textbook,
        trials,
    })))
}

type Look = (Highest, Option<(Count, f64)>, Vec<Trial>);

/// Finds the highest rate of a configuration, and the rate of the next larger one.
fn look(
    lab: &Lab<'_>,
    candidates: &[Candidate],
    row: &Row,
    with_curve: bool,
) -> Result<Look, RunError> {
    let of = &candidates[row.candidate];
    let share_iops = lab.demand.rate_iops / f64::from(row.count.units);
    let (highest, mut trials) = lab.highest(of, row.count, share_iops, lab.base())?;
    let at = trials
        .iter()
        .find(|t| t.offered_iops.total_cmp(&highest).is_eq())
        .map_or(&row.asked, |t| &t.measured);
    let all = Highest::of(at, highest * f64::from(row.count.units));
    let next = if row.count.arrays < of.arrays_max {
        Count { arrays: row.count.arrays + 1, ..row.count }
    } else {
        Count { units: row.count.units + 1, ..row.count }
    };
    let next_iops = if next.units > row.count.units {
        // Equal systems each hold the same rate.
        highest
    } else {
        lab.highest(of, next, highest, lab.base())?.0
    };
    if with_curve {
        for share in CURVE_SHARES {
            let offered_iops = highest * share;
            let measured = lab.cell(
                of,
                row.count,
                offered_iops,
                How { effort: Effort::Search, condition: lab.base() },
            )?;
            trials.push(Trial { arrays: row.count.arrays, offered_iops, measured });
        }
    }
    Ok((all, Some((next, next_iops * f64::from(next.units))), trials))
}
