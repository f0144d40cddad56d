//! Sizing by simulation: the output for a small demand, its documents, demands that can't be met, and agreement of
//! `saturate` with the study's sizing table.

use iodyno_page::terminal::Style;
use iodyno_page::{Block, Mark, Shape, csv, html, markdown};
use iodyno_raid::Level;
use iodyno_ranks::Ranks;
use iodyno_run::find_work::{self, Found};
use iodyno_sizing::search::Count;
use iodyno_sizing::simulate::{Arrays, Condition, Effort, How, Measured, under};
use iodyno_sizing::{
    Choice, Demand, Limit, LogDemand, Loss, Prices, Sizing, Tail, candidates, json, page, saturate,
    size, terminal,
};
use iodyno_study::{Options, load, run};
use iodyno_units::OpKind;
use iodyno_workload::Spec;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const STYLE: Style = Style { color: false, width: 100, unicode: true };

fn choice(hosts: &[&str], devices: &[&str], levels: &[Level]) -> Choice {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Choice { hosts: owned(hosts), devices: owned(devices), levels: levels.to_vec(), width: None }
}

fn demand(workload: &str, rate_iops: f64, p99_ns: u64) -> Demand {
    let Ok(Found::Workloads(mut found)) = find_work::work(workload) else { panic!("{workload}") };
    let spec = found.members.remove(0).1;
    Demand { life_years: Some(0.0), ..Demand::new(found.name, spec, rate_iops, p99_ns) }
}

fn sized(demand: Demand, choice: &Choice, prices: Option<Prices>) -> Sizing {
    let stop = Arc::new(AtomicBool::new(false));
    size(demand, candidates(choice).unwrap(), prices, &stop, &|_| {}).unwrap()
}

fn is_valid(document: &serde_json::Value) {
    let schema = serde_json::from_str(json::SCHEMA_SIZE).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Complete result for a small demand, as text, as a document and as a page.
#[test]
fn a_small_demand() {
    let choice = choice(&["57ce-gen3"], &["ssd-gen3-emlc"], &[Level::Raid5, Level::Raid10]);
    let mut sizing = sized(demand("oltp1", 60_000.0, 2_000_000), &choice, None);
    insta::assert_snapshot!(terminal::show(&sizing, STYLE));
    let document = json::document(&sizing);
    is_valid(&document);
    assert_eq!(document["meets"].as_array().unwrap().len(), 2);
    for row in &sizing.rows {
        let fewer = row.trials.iter().filter(|t| t.arrays < row.count.arrays);
        let (rate, demand) = (sizing.demand.rate_iops, &sizing.demand);
        assert!(row.asked.holds(rate, demand) && row.highest.as_ref().unwrap().iops >= rate);
        for trial in fewer {
            assert!(!trial.measured.holds(trial.offered_iops, demand), "{trial:?}");
        }
        assert!(
            row.count.arrays == 1 || row.trials.iter().any(|t| t.arrays + 1 == row.count.arrays)
        );
    }
    let drawn = page::document(&sizing, "iodyno", "iodyno size --workload x");
    // The curve marks the rate that the table says is held, and its line ends there.
    let figures = drawn.sections.iter().flat_map(|section| &section.blocks);
    let load = figures.filter_map(|block| match block {
        Block::Figure(figure) if figure.id == "load" => Some(figure),
        _ => None,
    });
    let Shape::Plot(plot) = &load.into_iter().next().unwrap().shape else { panic!("no plot") };
    let highest_iops = sizing.rows[0].highest.as_ref().unwrap().iops;
    let holds = plot.panels[0].rules.iter().find(|rule| rule.name == "holds").unwrap();
    assert!(holds.upright && holds.at.to_bits() == highest_iops.to_bits());
    let line = plot.panels[0].series.iter().find(|s| s.color == 0 && s.mark == Mark::Line).unwrap();
    assert!(line.points.iter().all(|point| point.x <= 1.01 * highest_iops), "{line:?}");
    let reproduce = drawn.sections.last().unwrap();
    assert_eq!(reproduce.title, "Reproduce");
    let text = markdown::text(&drawn);
    assert!(text.contains("iodyno size --workload x") && text.contains("assumed"), "{text}");
    assert!(text.contains("latency over load") && text.contains("What if"), "{text}");
    assert!(html::page(&drawn).contains("<svg") && csv::text(&drawn).contains("binds first"));

    // Systems of as many of the same devices are told apart by their arrays.
    sizing.rows[0].count.arrays = 3;
    let devices = |at: usize| sizing.rows[at].devices(&sizing.candidates);
    assert_eq!(devices(0), devices(1));
    let text = csv::text(&page::document(&sizing, "iodyno", "iodyno size --workload x"));
    for name in ["6 × ssd-gen3-emlc in 57ce-gen3, 3 × RAID 10 of 2", "2 × RAID 5 of 3"] {
        assert!(text.contains(name), "{name}: {text}");
    }
}

/// Prices determine the order, and candidates without a price are left out. Each wrong price is reported.
#[test]
fn prices_decide() {
    let text = "schema = 1\ncurrency = \"EUR\"\n[devices]\nssd-gen3-emlc = 100\nssd-gen4-emlc = 1000\n[systems]\n57b4-gen3 = 5000\n[drawers]\n57b4-gen3 = 10\n";
    let prices = Prices::from_toml(text).unwrap();
    let names = ["ssd-gen2-emlc", "ssd-gen3-emlc", "ssd-gen4-emlc"];
    let choice = choice(&["57b4-gen3"], &names, &[Level::Raid10]);
    let all = candidates(&choice).unwrap();
    assert_eq!(
        prices.of(&all[1], Count { units: 2, arrays: 13 }),
        Some(2.0 * (5000.0 + 30.0 + 2600.0))
    );
    let sizing = sized(demand("oltp2", 120_000.0, 2_000_000), &choice, Some(prices));
    let order: Vec<&str> = sizing
        .rows
        .iter()
        .map(|row| sizing.candidates[row.candidate].device_name.as_str())
        .collect();
    assert_eq!(order, ["ssd-gen3-emlc", "ssd-gen4-emlc"]);
    let (cheap, fast) = (&sizing.rows[0], &sizing.rows[1]);
    assert!(cheap.price < fast.price && cheap.count.arrays > fast.count.arrays);
    assert_eq!(sizing.not_worth, 1);
    let wrong = text.replace("100\n", "-1\n").replace("10\n", "\"free\"\n");
    assert_eq!(Prices::from_toml(&wrong).unwrap_err().len(), 2);
}

/// Simulates arrays of a choice's only candidate at one rate, as in a search.
fn tried(demand: &Demand, choice: &Choice, arrays: u32, rate_iops: f64) -> Measured {
    let of = &candidates(choice).unwrap()[0];
    let arrays = Arrays { of, arrays, all_arrays: arrays };
    let how = How { effort: Effort::Search, condition: Condition::Whole };
    under(demand, arrays, rate_iops, how, &Arc::new(AtomicBool::new(false))).unwrap()
}

/// A read cache that still fills is no overload: it only makes later reads faster.
#[test]
fn a_filling_read_cache_is_no_overload() {
    let choice = choice(&["57ce-gen3"], &["ssd-gen3-emlc"], &[Level::Raid5]);
    let spec = "schema = 1\nactive = \"0..50GiB\"\nmix = { read = 60, write = 40 }\n";
    let spec = Spec::from_toml(spec).unwrap();
    let demand = Demand::new("hot".to_owned(), spec, 5_000.0, 1_000_000);
    let measured = tried(&demand, &choice, 1, 5_000.0);
    assert!(measured.holds(5_000.0, &demand) && measured.fills.is_none(), "{measured:?}");
    assert!(measured.array_busy < 0.5 && measured.p99_ns.unwrap() < 500_000.0, "{measured:?}");
}

/// What binds is a saturated resource of the storage, as in `explain`: read contexts, although they are only occupied
/// while dies work. Below saturation nothing binds, least of all the cores that issue the operations.
#[test]
fn the_storage_binds() {
    let choice = choice(&[], &["exflash-400g"], &[Level::Raid5]);
    let demand = demand("oltp1", 2_000.0, 100_000_000);
    let full = tried(&demand, &choice, 1, 118_000.0);
    let binds = full.binds().unwrap();
    assert_eq!(
        (binds.share.name.as_str(), binds.is_saturated),
        ("read contexts", true),
        "{full:?}"
    );
    let idle = tried(&demand, &choice, 1, 2_000.0);
    let binds = idle.binds().unwrap();
    assert!(!binds.is_saturated && binds.share.name != "generator cores", "{idle:?}");
    // Workers are added before the cores of a host that needs 4 us per operation delay them.
    let cores = |of: &Measured| {
        of.shares.iter().find(|share| share.name == "generator cores").unwrap().busy
    };
    let reads = self::demand("random-read", 2_000.0, 100_000_000);
    let wide = Choice { width: Some(8), ..choice };
    assert!(cores(&tried(&reads, &wide, 1, 240_000.0)) < 0.5);
}

/// Neither a latency below the device's nor a capacity beyond all devices can be met by more devices.
#[test]
fn what_nothing_meets() {
    let choice = choice(&["57b4-gen3"], &["ssd-gen3-emlc"], &[Level::Raid5]);
    let sizing = sized(demand("oltp1", 20_000.0, 60_000), &choice, None);
    let text = terminal::show(&sizing, STYLE);
    assert!(
        sizing.rows.is_empty() && text.contains("demand (kinds of systems tried: 1)"),
        "{text}"
    );
    let nearest = sizing.missed[0].nearest.as_ref().unwrap();
    assert!(nearest.measured.p99_ns.unwrap() > 60_000.0);
    is_valid(&json::document(&sizing));
    let much = Demand { capacity_bytes: 1 << 60, ..demand("oltp1", 20_000.0, 2_000_000) };
    let text = terminal::show(&sized(much, &choice, None), STYLE);
    assert!(text.contains("32 such systems full of devices have only 396 TB"), "{text}");
    assert!(text.contains("lower --capacity") && !text.contains("--rate"), "{text}");
}

/// The number of devices that a pair of adapters can use fully, computed from the study's figures and by simulation.
#[test]
fn saturation_is_the_studys() {
    let mut study = load("ibm-sas-raid").unwrap_or_else(|problem| panic!("{problem}"));
    study.retain(|row| row.key.system == "57ce-gen3 pair + ssd-gen3-emlc" && row.panel.is_some());
    let outcome =
        run(&study, &Options::QUICK, &Ranks::alone(), &AtomicBool::new(false), &|_| {}).unwrap();
    let of = candidates(&choice(&["57ce-gen3"], &["ssd-gen3-emlc"], &[Level::Raid5])).unwrap();
    let ours = saturate::saturate(&of[0], &Arc::new(AtomicBool::new(false))).unwrap();
    is_valid(&saturate::document(&of[0], &ours));
    assert_eq!((outcome.rows.len(), ours.len()), (2, 2));
    for (study, ours) in outcome.rows.iter().zip(&ours) {
        let counts = [study.ours.unwrap(), ours.devices].map(|devices| devices.round() as u32);
        assert_eq!(counts[0], counts[1], "{study:?} {ours:?}");
    }
}

/// Candidates that a search includes by default, and choices that it refuses.
#[test]
fn candidates_are_the_catalogs() {
    let all = candidates(&Choice::default()).unwrap();
    assert!(all.iter().all(|of| of.device.device.hot_swap && of.arrays_max > 0));
    let behind =
        |host: &str, device: &str| all.iter().any(|of| of.host == host && of.device_name == device);
    assert!(behind("57ce-gen3", "ssd-gen3-emlc") && behind("workstation", "nvme-tlc-3840g"));
    // Slower slots, other bays, and memory slots are searched by name alone.
    assert!(!behind("57ce-gen1", "ssd-gen3-emlc") && !behind("57ce-gen3", "nvme-tlc-3840g"));
    assert!(!all.iter().any(|of| of.device_name.starts_with("exflash")));
    let dimms = candidates(&choice(&[], &["exflash-400g"], &[Level::Raid10])).unwrap();
    assert_eq!((dimms[0].host.as_str(), dimms[0].arrays_max), ("x3850-x6", 16));
    for (wrong, why) in [
        (choice(&["57ce-gen3"], &["nvme-tlc-3840g"], &[]), "RAID adapters take only SAS devices"),
        (choice(&["57ce-pair-48ssd-raid5"], &[], &[]), "lists devices of its own"),
        (choice(&[], &["no-such-device"], &[]), "there is no device named"),
        (
            Choice { width: Some(2), ..choice(&["57ce-gen3"], &[], &[Level::Raid5]) },
            "at least 3 members",
        ),
        (
            Choice { width: Some(40), ..choice(&[], &["nvme-tlc-3840g"], &[Level::Raid5]) },
            "smaller --width",
        ),
    ] {
        let said = candidates(&wrong).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

/// A message log is sized by its writes and its replays' reads, and the text has the arithmetic.
#[test]
fn a_message_log_is_sized() {
    let log = LogDemand {
        messages_per_s: 200_000.0,
        message_bytes: 1024,
        chunk_bytes: 65_536,
        replayed_per_s: 200_000.0,
        room_bytes: 64 << 20,
    };
    let demand = Demand::of_log(log, 5_000_000).unwrap();
    assert!((demand.rate_iops - 6250.0).abs() < 1e-9 && (demand.write_share() - 0.5).abs() < 1e-12);
    let choice = choice(&["57b4-gen3"], &["ssd-gen3-emlc"], &[Level::Raid10]);
    let sizing = sized(demand, &choice, None);
    let row = &sizing.rows[0];
    let highest = row.highest.as_ref().unwrap().iops;
    assert!(row.asked.p99_ns.unwrap() <= 5e6 && highest >= 6250.0);
    // More is asked of the same devices by messages that each fill a chunk.
    let coarse = LogDemand { message_bytes: 65_536, room_bytes: 0, ..log };
    let coarse = Demand::of_log(coarse, 5_000_000).unwrap();
    assert!((coarse.rate_iops - 400_000.0).abs() < 1e-6);

    let text = terminal::show(&sizing, STYLE);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "log at 6.25 k/s",
        "messages of 1 KiB, 64 KiB / 1 KiB = 64 per chunk: 200 k/s / 64 = 3.12 k/s writes of 64 KiB, 205 MB/s",
        "200 k/s / 64 = 3.12 k/s reads of 64 KiB",
        "publishers block after a stall of 328 ms: their buffers hold 64 MiB, which fills at 205 MB/s",
        "takeover of a lost adapter's arrays, 2.00 s, blocks publishers",
    ] {
        assert!(words.contains(said), "{said}: {text}");
    }
    let document = json::document(&sizing);
    is_valid(&document);
    let of_log = &document["demand"]["log"];
    assert!((of_log["survived_stall_ns"].as_f64().unwrap() - 327.68e6).abs() < 1.0);
    let caught_up_ns = of_log["caught_up_ns"].as_f64().unwrap();
    assert!((caught_up_ns / (327.68e6 / (highest / 6250.0 - 1.0)) - 1.0).abs() < 1e-9);
    assert!(
        markdown::text(&page::document(&sizing, "iodyno", "iodyno size --workload x"))
            .contains("publishers block after")
    );
}

/// Disk heads that are always busy are no limit, because an idle disk destages its cache.
#[test]
fn eager_destaging_is_no_saturation() {
    let choice = choice(&["workstation"], &["hdd-nearline-20t"], &[Level::Raid10]);
    let sizing = sized(demand("random-write", 900.0, 100_000_000), &choice, None);
    let row = &sizing.rows[0];
    // One alone writes 550/s.
    assert_eq!(row.devices(&sizing.candidates), 4);
    assert!(!row.fewer.as_ref().unwrap().holds(900.0, &sizing.demand));
    let text = terminal::show(&sizing, STYLE);
    assert!(text.contains("with one array less") && text.contains("no endurance"), "{text}");
}

/// Trials start without burst credits, those of volumes and those of an instance. The command to repeat them does so, too.
#[test]
fn burst_credits_do_not_count() {
    let raid0 = |hosts: &[&str], device| Choice {
        width: Some(2),
        ..choice(hosts, &[device], &[Level::Raid0])
    };
    let oltp1 = || demand("oltp1", 4_000.0, 20_000_000);
    let sizing = sized(oltp1(), &raid0(&[], "ebs-gp2"), None);
    // Each has 300 IOPS, and bursts to 3000.
    let devices = sizing.rows[0].devices(&sizing.candidates);
    assert!((14..=16).contains(&devices), "{devices}");
    let text = terminal::show(&sizing, STYLE);
    assert!(text.contains("credits=0"), "{text}");
    // Instances of 3600 IOPS, that burst to 18,750.
    let sizing = sized(oltp1(), &raid0(&["aws-m5-large"], "ebs-gp3"), None);
    assert_eq!(sizing.rows[0].count.units, 2);
}

/// Busy heads are no limit either for disks without a write cache: more queued commands need less time each. A queue
/// that grows is one.
#[test]
fn busy_heads_are_no_saturation() {
    let choice = choice(&["57ce-gen3"], &["hdd-15k-sas-80g"], &[Level::Raid10]);
    let sizing = sized(demand("random-read", 2_000.0, 100_000_000), &choice, None);
    let row = &sizing.rows[0];
    assert_eq!(row.devices(&sizing.candidates), 6);
    assert!(!row.fewer.as_ref().unwrap().holds(2_000.0, &sizing.demand));
    // It also holds for longer.
    let stop = Arc::new(AtomicBool::new(false));
    let of = &sizing.candidates[row.candidate];
    let arrays = Arrays { of, arrays: row.count.arrays, all_arrays: row.count.arrays };
    let soak = How { effort: Effort::Soak, condition: Condition::Whole };
    let long = under(&sizing.demand, arrays, 2_000.0, soak, &stop).unwrap();
    assert!(row.count.units == 1 && long.holds(2_000.0, &sizing.demand));
    // Without a limit that would show it, the queue does: they complete 2.5 k/s at most.
    let patient = Demand { p99_ns: 5_000_000_000, ..sizing.demand.clone() };
    let search = How { effort: Effort::Search, condition: Condition::Whole };
    let over = under(&patient, arrays, 2_600.0, search, &stop).unwrap();
    assert!(over.p99_ns.is_some_and(|ns| ns < 5e9) && !over.holds(2_600.0, &patient));
}

/// Flash must last for its rated life, or for the requested one.
#[test]
fn flash_must_last() {
    let choice = choice(&["workstation"], &["nvme-tlc-3840g"], &[Level::Raid10]);
    let of = |life_years| {
        let demand = Demand { life_years, ..demand("random-write", 20_000.0, 2_000_000) };
        sized(demand, &choice, None)
    };
    let (any, rated) = (of(Some(0.0)), of(None));
    let life = |sizing: &Sizing| sizing.rows[0].life.unwrap();
    // 20 k/s of 4 KiB to each of two: 7.1 TB a day, 1.8 drive writes, of a drive rated for 1 over 5 years.
    assert_eq!(any.rows[0].devices(&any.candidates), 2);
    // Chance, by which more or fewer writes arrive in a cell, does not count.
    let years = 5.0 * 3.84e12 / (20_000.0 * 4096.0 * 86_400.0);
    assert!((life(&any).years / years - 1.0).abs() < 0.003, "{:?}, {years}", life(&any));
    assert_eq!(rated.rows[0].devices(&rated.candidates), 4);
    assert!(life(&rated).years >= 5.0 && life(&rated).arrays_by_rate == 1);
    let text = terminal::show(&rated, STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the rate alone needs 2 devices, the others extend the life"), "{text}");
    assert!(text.contains("the formula ignores the life of the flash"), "{text}");
    is_valid(&json::document(&rated));
    // The devices wear out in the whole system, even if it must also bear the loss of one.
    let bears = Demand { survive: Some(Loss::Device), ..rated.demand.clone() };
    let bears = sized(bears, &choice, None);
    assert_eq!(bears.rows[0].devices(&bears.candidates), 4);
    assert!((life(&bears).years / life(&rated).years - 1.0).abs() < 0.02, "{:?}", life(&bears));
}

/// The workload's own limits of operations and bytes do not apply to the simulation.
#[test]
fn a_workload_of_few_operations_is_sized() {
    let spec =
        "schema = 1\nmix = { read = 100 }\ndepth = 32\n[limits]\nops = 50\nbytes = \"1MiB\"\n";
    let spec = Spec::from_toml(spec).unwrap();
    let choice = choice(&["workstation"], &["nvme-tlc-3840g"], &[Level::Raid10]);
    let sizing = sized(Demand::new("few".to_owned(), spec, 1000.0, 5_000_000), &choice, None);
    assert_eq!(sizing.rows[0].devices(&sizing.candidates), 2);
}

/// The loss of a component requires more devices. Limits on writes alone and on a higher percentile are met.
#[test]
fn losses_and_further_limits_count() {
    let choice = choice(&["57ce-gen3"], &["ssd-gen3-emlc"], &[Level::Raid10]);
    let whole = demand("oltp1", 60_000.0, 2_000_000);
    let devices = |demand: Demand| {
        let sizing = sized(demand, &choice, None);
        let row = &sizing.rows[0];
        assert!(row.asked.holds(sizing.demand.rate_iops, &sizing.demand));
        is_valid(&json::document(&sizing));
        (row.devices(&sizing.candidates), terminal::show(&sizing, STYLE))
    };
    let limit = |of, tail, ns| Demand { limits: vec![Limit { of, tail, ns }], ..whole.clone() };
    let tail = limit(Some(OpKind::Read), Tail::P999, 900_000);
    let (with, text) = devices(Demand { survive: Some(Loss::Device), ..tail });
    // Two arrays hold it with all devices.
    assert!(
        with == 6 && text.contains("p99.9 of reads within 900 µs, with a device lost"),
        "{text}"
    );
    let impossible = sized(limit(Some(OpKind::Write), Tail::P99, 5_000), &choice, None);
    assert!(impossible.rows.is_empty());
}

/// An unknown device is reported with its line and a suggestion.
#[test]
fn misspelt_prices_are_refused() {
    let text = "schema = 1\ncurrency = \"EUR\"\n[devices]\nssd-gen3-emcl = 1\n\"./own.toml\" = 2\n[systems]\n57ce-gen9 = 1\n";
    let errors = Prices::from_toml(text).unwrap_err();
    let words: Vec<String> = errors.iter().map(|error| format!("{error:?}")).collect();
    assert_eq!(words.len(), 2, "{words:#?}");
    assert!(
        words[0].contains("no device `ssd-gen3-emcl`")
            && words[0].contains("did you mean `ssd-gen3-emlc`?"),
        "{words:#?}"
    );
}

/// The result is at most a tenth, or one array, above the smallest number that holds in a run four times as long as the
/// confirming one. With `IODYNO_SIZE_SOAK=all`, covers disks, SSDs, RAID levels and adapters, which takes some minutes.
#[test]
fn answers_are_the_smallest_that_hold() {
    let all = [
        ("oltp1", 60e3, 2_000_000, "57ce-gen3", "ssd-gen3-emlc", Level::Raid10),
        ("random-write", 900.0, 100_000_000, "workstation", "hdd-nearline-20t", Level::Raid10),
        ("random-write", 8_000.0, 100_000_000, "workstation", "hdd-nearline-20t", Level::Raid10),
        ("oltp1", 600.0, 300_000_000, "workstation", "hdd-nearline-20t", Level::Raid5),
        ("random-read", 1_000.0, 100_000_000, "workstation", "hdd-nearline-20t", Level::Raid6),
        ("oltp1", 500e3, 2_000_000, "workstation", "nvme-tlc-3840g", Level::Raid10),
        ("random-write", 300e3, 1_000_000, "workstation", "nvme-tlc-3840g", Level::Raid5),
        ("oltp2", 120e3, 2_000_000, "57b4-gen3", "ssd-gen3-emlc", Level::Raid10),
        ("oltp3", 200e3, 2_000_000, "57ce-gen3", "ssd-gen3-emlc", Level::Raid5),
        ("random-write", 60e3, 2_000_000, "57ce-gen3", "ssd-gen4-emlc", Level::Raid6),
        ("db-oltp", 100e3, 2_000_000, "57ce-gen3", "ssd-gen4-emlc", Level::Raid10),
        ("oltp1", 2_000.0, 100_000_000, "57ce-gen3", "hdd-15k-sas-80g", Level::Raid10),
    ];
    let is_long = std::env::var("IODYNO_SIZE_SOAK").as_deref() == Ok("all");
    let mut wrong = Vec::new();
    for (workload, rate, p99_ns, host, device, level) in
        all.into_iter().take(if is_long { 12 } else { 2 })
    {
        let sizing =
            sized(demand(workload, rate, p99_ns), &choice(&[host], &[device], &[level]), None);
        let said = format!("{workload} at {rate}/s on {device} behind {host}, {level:?}");
        let Some(row) = sizing.rows.first() else {
            wrong.push(format!("{said}: nothing meets it"));
            continue;
        };
        let (of, count) = (&sizing.candidates[row.candidate], row.count);
        let stop = Arc::new(AtomicBool::new(false));
        let holds = |arrays: u32| {
            let on = Arrays { of, arrays, all_arrays: arrays * count.units };
            let share = rate / f64::from(count.units);
            let how = How { effort: Effort::Soak, condition: Condition::Whole };
            under(&sizing.demand, on, share, how, &stop).unwrap().holds(share, &sizing.demand)
        };
        let least = (1..count.arrays).rev().take_while(|&arrays| holds(arrays)).last();
        let least = least.unwrap_or(count.arrays);
        let line = format!("{said}: {} x {} arrays, {least} hold", count.units, count.arrays);
        println!("{line}");
        let allowed = (1.1 * f64::from(least)).max(f64::from(least + 1));
        if !holds(count.arrays) || f64::from(count.arrays) > allowed {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
