//! Simulates the study of flash DIMMs under sysbench with a twentieth of the operations, and checks the published
//! values, the paper's findings, and questions of its readers. With all operations, in a minute of CPU time:
//! `IODYNO_STUDY_OPS=1 cargo test --release -p iodyno-study --test it percona:: -- --nocapture`.

use iodyno_ranks::Ranks;
use iodyno_study::{CellKey, Metric, Options, Outcome, Wanted, load, run};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// The rows that the tests need: published values, and some points of the paper's charts.
fn is_needed(row: &Wanted) -> bool {
    let Some(at) = row.at else { return true };
    let metric = row.metric;
    let is_base = matches!(metric, Some(Metric::Bandwidth | Metric::LatencyMean));
    match row.key.figure.as_str() {
        "prose" => row.printed.is_some() || (at.span_ns.is_some() && is_base),
        "synchronous" => {
            let is_read = row.key.workload == "sync randread";
            is_base && (is_read || [1, 4, 8, 32, 256].contains(&at.threads))
        }
        "fill level" => {
            let fill = at.fill.fraction();
            metric == Some(Metric::Bandwidth)
                && row.key.workload.starts_with("async randwrite")
                && [0.2, 0.5, 0.8].iter().any(|f| (f - fill).abs() < 1e-6)
        }
        "sockets" => false,
        _ => metric == Some(Metric::Bandwidth) && !row.key.workload.ends_with("randrw"),
    }
}

fn simulated() -> &'static Outcome<'static> {
    static OUTCOME: OnceLock<Outcome<'static>> = OnceLock::new();
    OUTCOME.get_or_init(|| {
        let share = std::env::var("IODYNO_STUDY_OPS").ok().and_then(|text| text.parse().ok());
        let ops_share = share.unwrap_or(0.05);
        let half_width_share = if ops_share < 0.5 { 0.04 } else { 0.01 };
        let mut study = load("percona-exflash").unwrap_or_else(|problem| panic!("{problem}"));
        let conclusions = study.conclusions.clone();
        study.retain(|row| is_needed(row) || conclusions.iter().any(|c| c.needs(row)));
        let study = Box::leak(Box::new(study));
        let options = Options { ops_share, half_width_share, ..Options::FULL };
        run(study, &options, &Ranks::alone(), &AtomicBool::new(false), &|_| {})
            .unwrap_or_else(|e| panic!("{e}"))
    })
}

/// Simulated value of one row, in the base unit.
fn ours(figure: &str, system: &str, workload: &str, metric: Metric, threads: u32) -> f64 {
    let outcome = simulated();
    let is_it = |row: &Wanted| {
        let key = &row.key;
        (&*key.figure, &*key.system, &*key.workload) == (figure, system, workload)
            && row.metric == Some(metric)
            && row.at.is_some_and(|at: CellKey| at.threads == threads)
    };
    let row = outcome.study.rows.iter().position(is_it);
    let row = row.unwrap_or_else(|| panic!("no row {figure} {system} {workload} {threads}"));
    outcome.rows[row].ours.unwrap() * outcome.study.rows[row].unit.scale()
}

fn rate(system: &str, workload: &str, threads: u32) -> f64 {
    ours("synchronous", system, workload, Metric::Bandwidth, threads)
}

fn latency(system: &str, workload: &str, threads: u32) -> f64 {
    ours("synchronous", system, workload, Metric::LatencyMean, threads)
}

fn for_hours(system: &str, workload: &str, metric: Metric) -> f64 {
    ours("prose", system, workload, metric, 16)
}

const CARD: &str = "iodrive2-785g";
const FOUR: &str = "exflash-x4";
const EIGHT: &str = "exflash-x8";

/// Each simulated value is within 10 % of the published one, and numbers of threads are equal. Exception: the value
/// that `fuller_devices_write_less` discusses.
#[test]
fn the_printed_figures() {
    let outcome = simulated();
    let mut scored = 0;
    for (wanted, row) in outcome.study.rows.iter().zip(&outcome.rows) {
        let (Some(score), Some(ours), Some(print)) = (row.score, row.ours, outcome.printed(wanted))
        else {
            continue;
        };
        let (key, percent) = (&wanted.key, score.error * 100.0);
        let basis = wanted.basis.name();
        println!(
            "{:14} {:16} {:24} {} {:7} {ours:9.3} {percent:+6.1} % {basis}",
            key.system, key.workload, key.metric, print.relation, print.value
        );
        scored += 1;
        let most = match key.metric.as_str() {
            "threads_at_peak" => 0.0,
            "throughput_vs_20pct_full" => continue,
            _ => 0.1,
        };
        let is_two_sided = print.relation.symbol() == "~";
        let error = if is_two_sided { score.error } else { score.outside };
        assert!(error.abs() <= most, "{} {}: {error}", key.system, key.metric);
    }
    assert_eq!(scored, 10);
}

/// Read latency decreases from the card to four and to eight modules. Eight modules write with lower latency than the
/// card. All runs of four hours were stationary.
#[test]
fn hours_of_asynchronous_work() {
    let reads = |system| for_hours(system, "async randread", Metric::LatencyMean);
    assert!(reads(CARD) > 1.2 * reads(FOUR) && reads(FOUR) > 1.2 * reads(EIGHT));
    let writes = |system| for_hours(system, "async randwrite", Metric::LatencyMean);
    assert!(writes(EIGHT) < writes(CARD));
    let outcome = simulated();
    assert_eq!(outcome.of_spans, (9, 9));
    let rows = outcome.study.rows.iter().zip(&outcome.rows);
    let of_hours = rows.filter(|(wanted, _)| wanted.at.is_some_and(|at| at.span_ns.is_some()));
    assert!(of_hours.map(|(_, row)| row.steady).all(|steady| steady == Some(true)));
}

/// Both arrays read faster than the card from 32 threads on. Beyond its maximum rate, the card's latency grows with
/// the number of threads. For eight modules, this begins at more threads.
#[test]
fn reads_by_threads() {
    let reads = "sync randread";
    for threads in [32, 64, 128, 256, 512, 1024] {
        for array in [FOUR, EIGHT] {
            assert!(rate(array, reads, threads) > 1.3 * rate(CARD, reads, threads), "{threads}");
        }
    }
    assert!(rate(CARD, reads, 8) > rate(EIGHT, reads, 8));
    let grows = |system, from, to| latency(system, reads, to) / latency(system, reads, from);
    assert!(grows(CARD, 16, 128) > 6.0 && grows(EIGHT, 16, 128) < 3.0);
    assert!(latency(CARD, reads, 128) > 1e6, "milliseconds");
}

/// Latencies of milliseconds, on devices that need a fifth of a millisecond, are due to queueing: by Little's law, each
/// of n threads waits for the n - 1 others.
#[test]
fn milliseconds_are_queueing() {
    for system in [CARD, FOUR, EIGHT] {
        let threads = |n: u32| {
            let iops = rate(system, "sync randread", n) / 16384.0;
            iops * latency(system, "sync randread", n) * 1e-9
        };
        let alone_ns = latency(system, "sync randread", 1);
        assert!((150e3..250e3).contains(&alone_ns), "{alone_ns}");
        // The rest waits for a core before it submits.
        assert!((0.9..1.01).contains(&(threads(256) / 256.0)), "{}", threads(256));
    }
}

/// Writes complete in buffers: 8 threads reach most of the maximum rate, while reads reach less than half.
#[test]
fn writes_need_few_threads() {
    for system in [CARD, FOUR, EIGHT] {
        let share = |workload| rate(system, workload, 8) / rate(system, workload, 256);
        assert!(share("sync randwrite") > 0.75, "{}", share("sync randwrite"));
        assert!(share("sync randread") < 0.5);
    }
    // The card writes least, when all are busy.
    let writes = |system| rate(system, "sync randwrite", 256);
    assert!(writes(CARD) < writes(FOUR) && writes(CARD) < writes(EIGHT));
}

/// In the mix, card and four modules are about equally fast with few threads. Mean latencies of all three systems are
/// similar at 32 threads, but not at 256.
#[test]
fn the_mix_by_threads() {
    for threads in [1, 4] {
        let of = |system| rate(system, "sync randrw", threads);
        assert!((of(CARD) / of(FOUR) - 1.0).abs() < 0.1, "{threads}: {}", of(CARD) / of(FOUR));
    }
    let spread = |threads| {
        let all = [CARD, FOUR, EIGHT].map(|system| latency(system, "sync randrw", threads));
        let (low, high) = all.iter().fold((f64::MAX, 0.0_f64), |(l, h), x| (l.min(*x), h.max(*x)));
        high / low
    };
    assert!(spread(32) < 1.25 && spread(256) > 1.3, "{} {}", spread(32), spread(256));
}

/// The card writes 11 to 13 % less at a fill level of 50 % than at 20 %, because its dies limit the rate. The modules
/// write at the same rate, because their driver threads saturate before the flash. This contradicts the published
/// ratio (0.885), and thus the model's interpretation of the 1 GB/s; `catalog/studies/README.md` lists the
/// alternatives tried.
#[test]
fn fuller_devices_write_less() {
    let writes = |system, fill: &str| {
        let workload = format!("async randwrite+fill{fill}%");
        ours("fill level", system, &workload, Metric::Bandwidth, 16)
    };
    let card = writes(CARD, "50") / writes(CARD, "20");
    assert!((0.86..0.91).contains(&card), "{card}");
    assert!(writes(CARD, "80") < 0.65 * writes(CARD, "20"));
    let modules = writes(EIGHT, "50") / writes(EIGHT, "20");
    assert!((modules - 1.0).abs() < 0.02, "{modules}");
}

/// A fresh card writes faster than a card of which one half was overwritten repeatedly. Two cards have twice the rate
/// of one card, and 32 modules have about twice the rate of 16.
#[test]
fn what_readers_asked() {
    let of = |figure: &str, system: &str, workload: &str| {
        let figure = format!("readers: {figure}");
        ours(&figure, system, workload, Metric::Bandwidth, 16)
    };
    let fresh = of("fresh or preconditioned?", CARD, "async randwrite");
    assert!(fresh > 1.08 * for_hours(CARD, "async randwrite", Metric::Bandwidth), "{fresh}");
    for workload in ["async randread", "async randwrite"] {
        let more = |system| of("two cards? 16 or 32 modules?", system, workload);
        let scale = more("iodrive2-785g-x2") / for_hours(CARD, workload, Metric::Bandwidth);
        assert!((1.9..2.1).contains(&scale), "{workload}: {scale}");
        let scale = more("exflash-x32") / more("exflash-x16");
        assert!((1.7..2.1).contains(&scale), "{workload}: {scale}");
    }
}

/// Each conclusion of the paper has the expected verdict.
#[test]
fn the_conclusions() {
    let verdicts: Vec<&str> =
        simulated().conclusions.iter().map(|found| found.verdict.name()).collect();
    let [yes, no, open] = ["holds", "does not hold", "can't be tested"];
    // With a twentieth of the operations two comparisons of the mix are within the standard error.
    let expected = [yes, yes, no, no, yes, yes, yes, yes, yes, no, no, open, open, no, no, open];
    assert_eq!(verdicts, expected, "{:#?}", simulated().conclusions);
}
