//! Runs all contenders in random order, in several rounds per batch size, and tabulates rates, latencies and ratios.

use crate::quiet::{self, Ticks};
use crate::trial::{self, Trial};
use crate::{Options, Outcome};
use iodyno_units::rng::{Generator, below, stream};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Trials of all rounds, by batch size and contender.
type Trials = BTreeMap<(usize, String), Vec<Trial>>;

/// Minimum number of samples beyond a percentile for it to be shown.
const BEYOND_MIN: f64 = 10.0;

pub(crate) fn main(options: &Options) -> Outcome<()> {
    fs::create_dir_all(&options.out)?;
    fs::create_dir_all(&options.dir)?;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let rng = &mut stream(seed, "order", 0);
    let mut raw = String::from(
        "round,order,kept,batch,contender,messages,seconds,commits,messages_per_s,p50_us,p99_us,p999_us,max_us,disk_flushes,load_1min,others_cpu\n",
    );
    let mut trials = Trials::new();
    let mut order = 0;
    for round in 1..=options.rounds {
        for batch in shuffled(&options.batches, rng) {
            for name in shuffled(&options.names, rng) {
                let rule = format!("{}s", options.seconds);
                loop {
                    // Discards of the previous trial's files run in the background, too.
                    quiet::wait(options.is_quiet);
                    let before = Ticks::now();
                    let trial = trial::run(trial::command(options, &name, batch, &rule)?)?;
                    let others = before.others();
                    order += 1;
                    let is_kept = others < quiet::OTHERS_MAX || !options.is_quiet;
                    let kept = if is_kept { "kept" } else { "repeated" };
                    let row = row(&trial);
                    writeln!(raw, "{round},{order},{kept},{batch},{name},{row},{others:.2}")?;
                    if is_kept {
                        trials.entry((batch, name)).or_default().push(trial);
                        break;
                    }
                }
            }
            fs::write(options.out.join("raw.csv"), &raw)?;
            fs::write(options.out.join("table.md"), table(options, &trials)?)?;
        }
        eprintln!("round {round} of {} (seed {seed})", options.rounds);
    }
    print!("{}", table(options, &trials)?);
    Ok(())
}

fn shuffled<T: Clone>(items: &[T], rng: &mut Generator) -> Vec<T> {
    let mut items = items.to_vec();
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u64 + 1) as usize);
    }
    items
}

fn row(trial: &Trial) -> String {
    let mut sorted = trial.latencies_ns.clone();
    sorted.sort_unstable();
    let us = |q| quantile(&sorted, q).map_or(String::new(), |us| format!("{us:.1}"));
    let flushes = trial.disk_flushes.map_or(String::new(), |flushes| flushes.to_string());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{},{:.4},{},{:.0},{},{},{},{:.1},{flushes},{}",
        trial.messages,
        trial.seconds,
        sorted.len(),
        trial.rate(),
        us(0.5),
        us(0.99),
        us(0.999),
        sorted.last().copied().unwrap_or(0) as f64 / 1e3,
        load.split(' ').next().unwrap_or_default(),
    )
}

/// Value at the quantile `q`, µs; `None` if fewer than [`BEYOND_MIN`] samples lie beyond it.
fn quantile(sorted_ns: &[u64], q: f64) -> Option<f64> {
    let n = sorted_ns.len() as f64;
    if n * (1.0 - q) < BEYOND_MIN {
        return None;
    }
    let at = ((n * q).ceil() as usize).max(1) - 1;
    sorted_ns.get(at).map(|ns| *ns as f64 / 1e3)
}

fn table(options: &Options, trials: &Trials) -> Outcome<String> {
    let mut text = String::from(
        "| messages a batch | | messages/s, median [least-most] | ours / this, median of rounds [least-most] | p50 | p99 | p99.9 | disk flushes a batch |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for batch in &options.batches {
        let ours = trials.get(&(*batch, "ours".to_owned()));
        for name in &options.names {
            let Some(trials) = trials.get(&(*batch, name.clone())) else { continue };
            let rates: Vec<f64> = trials.iter().map(Trial::rate).collect();
            let ratios: Vec<f64> =
                ours.iter().flat_map(|ours| ours.iter()).map(Trial::rate).collect();
            let ratios: Vec<f64> =
                ratios.iter().zip(&rates).map(|(ours, theirs)| ours / theirs).collect();
            let mut pooled: Vec<u64> =
                trials.iter().flat_map(|trial| trial.latencies_ns.iter().copied()).collect();
            pooled.sort_unstable();
            let us = |q| quantile(&pooled, q).map_or("–".to_owned(), latency);
            let flushes: Vec<f64> = trials
                .iter()
                .filter_map(|it| Some(it.disk_flushes? as f64 / it.latencies_ns.len() as f64))
                .collect();
            let flushes = spread(&flushes).map_or("–".to_owned(), |s| format!("{:.2}", s[0]));
            let rate = spread(&rates).map_or(String::new(), |s| {
                format!("{} [{}-{}]", thousands(s[0]), thousands(s[1]), thousands(s[2]))
            });
            let ratio = match spread(&ratios) {
                Some([median, least, most]) if name != "ours" => {
                    format!("{median:.2} [{least:.2}-{most:.2}]")
                }
                _ => String::new(),
            };
            writeln!(
                text,
                "| {batch} | {name} | {rate} | {ratio} | {} | {} | {} | {flushes} |",
                us(0.5),
                us(0.99),
                us(0.999)
            )?;
        }
    }
    Ok(text)
}

/// Median, minimum and maximum of the values; `None` if there are none.
fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    };
    Some([median, least, most])
}

fn thousands(rate: f64) -> String {
    format!("{:.1} k", rate / 1e3)
}

fn latency(us: f64) -> String {
    if us >= 1000.0 { format!("{:.2} ms", us / 1e3) } else { format!("{us:.0} µs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_samples_beyond_it() {
        let ns: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        assert_eq!(quantile(&ns, 0.5), Some(500.0));
        assert_eq!(quantile(&ns, 0.99), Some(990.0));
        assert_eq!(quantile(&ns[..999], 0.99), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0, 9.0]), Some([2.5, 1.0, 9.0]));
    }
}
