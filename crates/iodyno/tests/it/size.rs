//! `size` from the command line: its documents, its exit codes, and its refusals. `sizing` tests the search itself.

use crate::place::{Place, number};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/schema/size-v1.schema.json");
const SMALL: &str = "--adapter 57b4-gen3 --device ssd-gen3-emlc --raid 10 --quiet";

fn valid(document: &Value) {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    assert!(validator.is_valid(document), "{document}");
}

/// The demand of a run: its workload, the address range that it used, its rate and its p99. Flags override them.
#[test]
fn a_demand_is_like_a_run() {
    let place = Place::new();
    let run = "run oltp1 --name mine --on model:nvme-tlc-3840g --rate 20k/s --active 0%..1% --time 200ms --ramp 10ms";
    place.iodyno(run).succeeds();
    let words = format!("size --like mine --p99 3ms --json --report=size.html {SMALL}");
    let document = place.iodyno(&words).succeeds().json();
    valid(&document);
    let demand = &document["demand"];
    assert_eq!(
        (&demand["workload"], demand["p99_ns"].as_u64()),
        (&"oltp1".into(), Some(3_000_000))
    );
    assert!((number(&demand["rate_iops"]) / 20e3 - 1.0).abs() < 0.05, "{demand}");
    assert!((number(&demand["active_bytes"]) / 38.4e9 - 1.0).abs() < 0.01, "{demand}");
    let row = &document["meets"][0];
    assert!(number(&row["at_asked_rate_of_each"]["p99_ns"]) <= 3e6);
    // A capacity below the part that the run used cuts that part; a larger one leaves it.
    for (capacity, active) in [("10GB", 10e9), ("1TB", 38.4e9)] {
        let words = format!("size --like mine --p99 3ms --capacity {capacity} --json {SMALL}");
        let demand = place.iodyno(&words).succeeds().json()["demand"].clone();
        assert!((number(&demand["active_bytes"]) / active - 1.0).abs() < 0.01, "{demand}");
        let asked: u64 = if capacity == "1TB" { 1_000_000_000_000 } else { 10_000_000_000 };
        assert_eq!(demand["capacity_bytes"].as_u64(), Some(asked), "{demand}");
    }
    assert!(
        std::fs::read_to_string(place.path("size.html")).unwrap().contains("latency over load")
    );
}

#[test]
fn saturation_is_a_document_too() {
    let place = Place::new();
    let words = "size --saturate 57c4-gen1 --device ssd-gen3-emlc";
    let document = place.iodyno(&format!("{words} --json")).succeeds().json();
    valid(&document);
    assert_eq!(document["saturate"]["devices_max"], 24);
    assert!(place.iodyno(words).succeeds().stdout.contains("devices can run at full speed"));
}

/// If nothing meets the demand, the exit code says so, and the output names the nearest candidate.
#[test]
fn what_nothing_meets_is_said() {
    let place = Place::new();
    let words = format!("size --workload oltp1 --rate 20k/s --p99 60us {SMALL}");
    let output = place.iodyno(&words);
    output.exits(6);
    for said in ["No system meets the demand (kinds of", "nearest", "allow a longer --p99"] {
        assert!(output.stdout.contains(said), "{}", output.stdout);
    }
}

#[test]
fn bad_input_is_refused_with_the_rule() {
    let place = Place::new();
    place.iodyno("size --like last").fails(5, &["no notebook"]);
    place.write("prices.toml", "schema = 1\ncurrency = \"EUR\"\n[devices]\nssd-gen3-emlc = -1\n");
    place.write("other.toml", "schema = 1\ncurrency = \"EUR\"\n[devices]\nramdisk-ddr3-16g = 1\n");
    place.write("misspelt.toml", "schema = 1\ncurrency = \"EUR\"\n[devices]\nssd-gen3-emcl = 1\n");
    let demand = "size --workload oltp1 --rate 20k/s --p99 2ms";
    for (words, says) in [
        ("size", &["--workload"][..]),
        ("size --workload oltp1 --rate 20k/s", &["--p99"]),
        ("size --workload oltp1 --rate 0/s --p99 2ms", &["is not a rate"]),
        ("size --workload oltp1 --rate 1k/s --p99 1h", &["1us to 5s"]),
        (
            "size --workload four-corners --rate 1k/s --p99 2ms",
            &["several workloads", "random-read"],
        ),
        ("size --workload no-such --rate 1k/s --p99 2ms", &["no-such"]),
        ("size --saturate 57ce-gen3", &["--device"]),
        ("size --saturate workstation --device nvme-tlc-3840g", &["has no RAID adapters"]),
        (
            "size --saturate 57ce-gen3 --device ssd-gen3-emlc --device ssd-gen2-emlc",
            &["give one --device and one --raid"],
        ),
    ] {
        place.iodyno(words).fails(2, says);
    }
    for (words, says) in [
        ("--raid 7", &["possible values: 0, 5, 6, 10"][..]),
        ("--width 2 --raid 5 --adapter 57ce-gen3", &["at least 3 members"]),
        ("--adapter 57ce-gen3 --device nvme-tlc-3840g", &["RAID adapters take only SAS devices"]),
        ("--adapter 57ce-pair-48ssd-raid5", &["lists devices of its own"]),
        ("--device no-such", &["there is no device named `no-such`"]),
        ("--price prices.toml", &["the price of `ssd-gen3-emlc` is below 0", "prices.toml:4"]),
        ("--price other.toml", &["no device together with a system"]),
        (
            "--price misspelt.toml",
            &["misspelt.toml:4", "no device `ssd-gen3-emcl`", "did you mean `ssd-gen3-emlc`?"],
        ),
        ("--survive adapter --adapter workstation --device nvme-tlc-3840g", &["an adapter lost"]),
        ("--life 200", &["0 to 100 years"]),
        ("--price missing.toml", &["missing.toml", "TOML file"]),
    ] {
        place.iodyno(&format!("{demand} {words} --quiet")).fails(2, says);
    }
}

/// The cheapest volumes, with what burst credits alone would meet; and what is refused.
#[test]
fn cloud_volumes_by_price() {
    let place = Place::new();
    let example = include_str!("../../../../catalog/prices/cloud-2026-11.toml");
    place.write("prices.toml", example);
    let of = |words: &str| {
        let document =
            place.iodyno(&format!("size --prices prices.toml --json {words}")).succeeds().json();
        valid(&document);
        document["cloud"].clone()
    };
    // 2000 IOPS: gp3 includes them; gp2 of this size has 1500 forever.
    let small = "--cloud aws --workload oltp-67-33-4k --rate 2k/s --p99 5ms --capacity 500GiB";
    let cloud = of(small);
    let best = &cloud["meets"][0];
    assert_eq!(
        (&best["class"], &best["volumes"], &best["iops"]),
        (&"ebs-gp3".into(), &1.into(), &3000.into())
    );
    assert!((number(&best["price_a_month"]) - 40.0).abs() < 0.01, "{best}");
    assert!(number(&best["simulated"]["p99_ns"]) < 10e6);
    let classes: Vec<&str> =
        cloud["meets"].as_array().unwrap().iter().map(|of| of["class"].as_str().unwrap()).collect();
    assert!(classes.contains(&"ebs-gp2") && classes.contains(&"ebs-io2"), "{classes:?}");
    // Several volumes include enough operations, for no more than a single one costs without any.
    let demand = "--cloud aws --workload oltp-67-33-4k --rate 20k/s --p99 10ms --capacity 500GiB";
    let striped = &of(demand)["meets"][0];
    assert!(number(&striped["volumes"]) > 6.0 && striped["iops"] == 3000, "{striped}");
    assert!((number(&striped["price_a_month"]) / 40.0 - 1.0).abs() < 0.03, "{striped}");
    // Provisioned beyond what is included, with headroom; the next classes cost more.
    let fast = of(&format!("{demand} --volumes 1"));
    let best = &fast["meets"][0];
    assert_eq!(best["volumes"], 1);
    let iops = number(&best["iops"]) * number(&best["volumes"]);
    assert!(best["class"] == "ebs-gp3" && (20_400.0..24_000.0).contains(&iops), "{best}");
    let price = 500.0 * 0.08 + 0.005 * (iops - 3000.0 * number(&best["volumes"])).max(0.0);
    assert!((number(&best["price_a_month"]) / price - 1.0).abs() < 0.01, "{best}, {price}");
    // A burst that ends: P10 and smaller serve it from credits.
    place.write(
        "prices.toml",
        "schema = 1\ncurrency = \"USD\"\nas_of = \"2026-11\"\n[[volumes]]\ncloud = \"azure\"\nclass = \"azure-premium\"\n\
         by_size = { \"128GiB\" = 20, \"512GiB\" = 73 }\n",
    );
    let azure =
        of("--cloud azure --workload oltp-67-33-4k --rate 2k/s --p99 10ms --capacity 100GiB");
    let burst = &azure["by_credits_alone"][0];
    assert_eq!((&burst["class"], &burst["volumes"]), (&"azure-premium".into(), &1.into()));
    let lasts_s = 3000.0 * 1800.0 / (2000.0 - 500.0);
    assert!((number(&burst["lasts_s"]) / lasts_s - 1.0).abs() < 0.01, "{burst}");
    assert_eq!(azure["meets"][0]["price_a_month"], 73.0);
    // Classes that the file does not price are named, and not offered.
    let unfit = azure["unfit"].as_array().unwrap();
    let unpriced = unfit.iter().filter(|of| of["why"] == "price");
    let unpriced: Vec<&str> = unpriced.map(|of| of["class"].as_str().unwrap()).collect();
    assert!(unpriced.contains(&"azure-ultra") && !unpriced.contains(&"azure-premium"), "{azure}");
    let text = place.iodyno("size --prices prices.toml --cloud azure --workload oltp-67-33-4k --rate 2k/s --p99 10ms --capacity 100GiB");
    let text = &text.succeeds().stdout;
    for class in &unpriced {
        assert!(
            text.contains(class) && !azure["meets"].to_string().contains(class),
            "{class}: {text}"
        );
    }
    assert!(text.contains("the price file has no price"), "{text}");
    // On demand, 5000 operations a second beyond the rate of P30 are billed for 730 hours.
    let demand = "--cloud azure --workload oltp-67-33-4k --p99 10ms --capacity 600GiB --rate 10k/s --volumes 1";
    let on_demand = "class = \"azure-premium\"\nby_size = { \"1024GiB\" = 135, \"8192GiB\" = 946 }\non_demand = 25\n";
    let priced = |each: &str| {
        let head =
            "schema = 1\ncurrency = \"USD\"\nas_of = \"2026-11\"\n[[volumes]]\ncloud = \"azure\"\n";
        place.write("prices.toml", format!("{head}{on_demand}on_demand_10k = {each}\n"));
        of(demand)["meets"][0].clone()
    };
    let (burst, larger) = (priced("0.0001"), priced("0.005"));
    let price = 135.0 + 25.0 + 5000.0 * 730.0 * 3600.0 / 10e3 * 0.0001;
    assert!((number(&burst["price_a_month"]) - price).abs() < 0.01, "{burst}, {price}");
    assert!(burst["target"].as_str().unwrap().contains("bursting=on-demand"), "{burst}");
    // P60 has the rate without.
    assert_eq!((&larger["on_demand"], number(&larger["price_a_month"])), (&false.into(), 946.0));
    place.write("prices.toml", example);

    let output = place.iodyno(&format!("size --prices prices.toml {small}"));
    let text = &output.succeeds().stdout;
    for words in ["ebs-gp3 500GiB", "confirmed", "run it", "left out", "idle", "2026-11"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let none =
        "size --prices prices.toml --cloud gcp --workload oltp-67-33-4k --rate 1k/s --p99 100us";
    place.iodyno(none).exits(6);
    place.write(
        "wrong.toml",
        example.replace("class = \"ebs-gp2\"\ngib", "class = \"ebs-gp9\"\nprice"),
    );
    for (words, says) in [
        (
            "--prices wrong.toml",
            &["no device `ebs-gp9`", "did you mean `ebs-gp", "unknown key `price`"][..],
        ),
        ("", &["--cloud requires --price", "iodyno catalog cloud-2026-11 > prices.toml"]),
        ("--prices prices.toml --device ebs-gp3", &["--device"]),
    ] {
        place.iodyno(&format!("size {small} {words}")).fails(2, says);
    }
}

/// The limits of an instance: one that holds the demand, one that does so by credits only, one of the price file, and
/// what is refused.
#[test]
fn cloud_volumes_share_the_limits_of_an_instance() {
    let place = Place::new();
    let example = include_str!("../../../../catalog/prices/cloud-2026-11.toml");
    let row = |system: &str, price: u32, most: u32| {
        format!(
            "[[instances]]\ncloud = \"aws\"\nsystem = \"{system}\"\nprice = {price}\nvolumes_max = {most}\n"
        )
    };
    let rows = row("aws-m5-large", 70, 2) + &row("aws-m5-8xlarge", 1120, 26);
    place.write("prices.toml", example);
    place.write("instances.toml", format!("{example}\n{rows}"));
    let words = |prices: &str, rate: &str, more: &str| {
        format!(
            "size --cloud aws --prices {prices} --workload oltp-67-33-4k --rate {rate} --p99 5ms --capacity 500GiB {more}"
        )
    };
    let of = |prices: &str, rate: &str, more: &str| {
        let document =
            place.iodyno(&words(prices, rate, &format!("--json {more}"))).succeeds().json();
        valid(&document);
        document["cloud"].clone()
    };
    let best = &of("prices.toml", "3k/s", "--instance aws-m5-large")["meets"][0];
    assert_eq!(best["instance"]["system"], "aws-m5-large");
    assert!((0.83..0.99).contains(&number(&best["busiest_limit_share"])), "{best}");
    assert!(best["target"].as_str().unwrap().contains("@aws-m5-large"), "{best}");
    assert_eq!(of("prices.toml", "3k/s", "")["meets"][0]["instance"], Value::Null);
    // 6000 a second are beyond its baseline; its credits last for 27.27 M / 2400 s.
    let output = place.iodyno(&words("prices.toml", "6k/s", "--instance aws-m5-large"));
    output.exits(6);
    assert!(output.stdout.contains("the limits of the instance are too low"), "{}", output.stdout);
    assert!(output.stdout.contains("a full balance lasts 3 h 9 min"), "{}", output.stdout);
    let pair = of("instances.toml", "6k/s", "");
    assert_eq!(pair["meets"][0]["instance"]["system"], "aws-m5-8xlarge", "{pair}");
    assert_eq!(pair["by_credits_alone"][0]["instance"]["system"], "aws-m5-large", "{pair}");
    let wrong = words("prices.toml", "3k/s", "--instance cloud-instance");
    place.iodyno(&wrong).fails(2, &["has no limits for its volumes", "[iops_limit]"]);
    place.write("wrong.toml", format!("{example}\n{}", row("aws-m5-larg", 1, 1)));
    place
        .iodyno(&words("wrong.toml", "3k/s", ""))
        .fails(2, &["no system `aws-m5-larg`", "aws-m5-large"]);
}

/// A message log in place of a workload: its flags, in messages or in bytes, and what is refused.
#[test]
fn a_message_log() {
    let place = Place::new();
    let log = "size --log-rate 100k/s --message 512B --p99 5ms --json";
    let document = |flags: &str| {
        let document = place.iodyno(&format!("{log} {flags} {SMALL}")).succeeds().json();
        valid(&document);
        document["demand"]["log"].clone()
    };
    let by_bytes = document("--read-share 80% --backlog-bytes 50MB");
    assert_eq!(
        (by_bytes["messages_a_chunk"].as_u64(), number(&by_bytes["writes_per_s"])),
        (Some(128), 781.25)
    );
    assert!((number(&by_bytes["reads_per_s"]) - 3125.0).abs() < 1e-6);
    assert!((number(&by_bytes["survived_stall_ns"]) / (50e6 / 51.2e6 * 1e9) - 1.0).abs() < 1e-9);
    let by_messages = document("--replay-rate 400k/s --backlog 100000 --chunk 128KiB");
    assert!((number(&by_messages["writes_per_s"]) - 390.625).abs() < 1e-9);
    assert!((number(&by_messages["survived_stall_ns"]) - 1e9).abs() < 1.0);
    for (flags, words) in [
        ("--log-rate 1M/s --p99 1ms --message 128KiB", "does not fit a chunk"),
        ("--log-rate 1M/s --p99 1ms --chunk 5000B", "a chunk must be from 4 KiB to 32 MiB"),
        ("--log-rate 1M/s --p99 1ms --read-share 100%", "0% to 99%"),
        ("--log-rate 1M/s --p99 1ms --rate 1k/s", "cannot be used with"),
        ("--workload oltp1 --rate 1k/s --p99 1ms --backlog 5", "cannot be used with"),
        ("--workload oltp1 --rate 1k/s --p99 1ms --message 1KiB", "cannot be used with"),
        ("--log-rate 1M/s", "--p99"),
    ] {
        place.iodyno(&format!("size {flags}")).exits(2).says(&[words]);
    }
}
