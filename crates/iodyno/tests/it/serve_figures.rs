//! Figures of a server: metrics that agree exactly with the status and with the clients' operations and bytes; and
//! dilated time.

use crate::exposition::{Exposition, asked, scraped};
use crate::place::{Place, number, whole};
use crate::serve::{Served, URI, flash, judge};
use iodyno_nbd::{CmdFlags, Kind};
use serde_json::Value;
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Credits fall with each operation, and accrue at the base rate while there is none.
#[test]
fn burst_credits_left_are_shown() {
    let place = Place::new();
    // 5.4 million credits when full; one second of the burst takes 2700.
    let server = Served::start(&place, "ebs-gp2?size=100GiB&credits=1s");
    let credits = || number(&server.status()["volumes"][0]["credits_share"]) * 5.4e6;
    let start = credits();
    assert!((2700.0..6000.0).contains(&start), "{start}");
    std::thread::sleep(Duration::from_secs(1));
    let later = credits();
    assert!((300.0..3000.0).contains(&(later - start)), "{start} {later}");
    let began = Instant::now();
    let mut client = server.client();
    // Neighbouring reads would count as one.
    for read in 0..2000 {
        client.read(read << 20, &mut [0; 4096]).unwrap();
    }
    let gained = 300.0 * began.elapsed().as_secs_f64();
    let taken = later - credits();
    assert!((1990.0 - gained - 400.0..=2000.0).contains(&taken), "{taken}, {gained} gained");
    let text = place.iodyno("status --control unix:ctl.sock").stdout.clone();
    assert!(text.contains("% of the credits left"), "{text}");
}

#[test]
fn figures_agree_with_the_clients_operations() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml*2 --no-floor --metrics 127.0.0.1:0");
    let address = server.announced("metrics at http://");
    let address = address.strip_suffix("/metrics").unwrap();
    // Without any operation, the figures are still valid.
    scraped(&place, address, true);

    let began = Instant::now();
    let uri = format!("--uri={URI}");
    let fio = judge(
        &place,
        "fio",
        &[
            "--name=f",
            "--ioengine=nbd",
            &uri,
            "--size=8M",
            "--rw=randrw",
            "--bs=4k",
            "--iodepth=8",
            "--output-format=json",
            "--randseed=1",
        ],
    );
    let fio: Value = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
    let fio = &fio["jobs"][0];
    let mut client = server.client();
    client.write(0, &[7; 12 << 10], CmdFlags::NONE).unwrap();
    client.read(0, &mut [0; 6000]).unwrap();
    client.command(Kind::Trim, CmdFlags::NONE, 0, 1 << 20).unwrap();
    client.command(Kind::WriteZeroes, CmdFlags::NONE, 5000, 9000).unwrap();
    // (fio flushes as often as it likes.)
    let flushes = &server.status()["volumes"][0]["operations"]["flush"]["operations"];
    let flushes = flushes.as_u64().unwrap_or(0);
    for _ in 0..3 {
        client.command(Kind::Flush, CmdFlags::NONE, 0, 0).unwrap();
    }
    server.fault("lose");
    client.read(0, &mut [0; 512]).unwrap_err();
    server.fault("clear");

    let elapsed_s = began.elapsed().as_secs_f64();
    let samples = scraped(&place, address, true);
    let status = server.status();
    let expected = [
        ("read", whole(&fio["read"]["total_ios"]) + 1, whole(&fio["read"]["io_bytes"]) + 6000, 1),
        (
            "write",
            whole(&fio["write"]["total_ios"]) + 1,
            whole(&fio["write"]["io_bytes"]) + (12 << 10),
            0,
        ),
        ("trim", 1, 1 << 20, 0),
        ("write_zeroes", 1, 9000, 0),
        ("flush", flushes + 3, 0, 0),
    ];
    for (kind, operations, bytes, errors) in expected {
        let counts = &status["volumes"][0]["operations"][kind];
        let volume = |key| whole(&counts[key]);
        let figures = (volume("operations"), volume("bytes"), volume("errors"));
        assert_eq!(figures, (operations, bytes, errors), "{kind}");
        let labels = [("operation", kind), ("volume", "0")];
        for (name, figure) in [("operations", operations), ("bytes", bytes), ("errors", errors)] {
            let name = format!("iodyno_{name}_total");
            let value = |labels: &[_]| samples.only(&name, labels).value as u64;
            assert_eq!(value(&labels), figure, "{name} {kind}");
            assert_eq!(value(&[("operation", kind), ("volume", "1")]), 0, "{name} {kind}");
        }
        let mean_s = samples.only("iodyno_latency_mean_seconds", &labels).value;
        let status_s = number(&counts["latency_mean_ns"]) * 1e-9;
        assert!((mean_s - status_s).abs() <= 1e-9 * status_s, "{kind}: {mean_s} {status_s}");
        // The histogram has each operation that succeeded, and their times.
        let histogram = |part: &str| format!("iodyno_service_time_seconds_{part}");
        let infinite = [("le", "+Inf"), ("operation", kind), ("volume", "0")];
        assert_eq!(
            samples.only(&histogram("bucket"), &infinite).value as u64,
            operations,
            "{kind}"
        );
        assert_eq!(samples.only(&histogram("count"), &labels).value as u64, operations, "{kind}");
        let sum_s = samples.only(&histogram("sum"), &labels).value;
        let of_status_s = status_s * operations as f64;
        assert!((sum_s - of_status_s).abs() <= 1e-9 * sum_s, "{kind}: {sum_s} {of_status_s}");
        // The clients never had more than 8 operations in flight.
        assert!(sum_s > 0.0 && sum_s < 8.0 * elapsed_s, "{kind}: {sum_s} in {elapsed_s}");
    }
    // The control socket gives the same text.
    let other = place.iodyno("status --metrics --control unix:ctl.sock");
    let other = Exposition::parse(&place, &other.succeeds().stdout);
    assert!(samples.has_samples_of(&other) && other.samples.iter().all(|s| s.exemplar.is_none()));
    let counted = |of: &Exposition| -> Vec<f64> {
        of.named("iodyno_operations_total").map(|sample| sample.value).collect()
    };
    assert_eq!(counted(&samples), counted(&other));
    assert!(scraped(&place, address, false).has_samples_of(&other));

    for (request, says) in [
        ("GET /elsewhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405 "),
        ("what\r\n\r\n", "HTTP/1.1 405 "),
    ] {
        assert!(asked(address, &[request]).0.starts_with(says), "{request}");
    }
    // A silent client does not block others for good.
    let silent = TcpStream::connect(address).unwrap();
    scraped(&place, address, false);
    drop(silent);
    // An address that is in use is reported before anything is served.
    let output =
        place.iodyno(&format!("serve ./device.toml --no-floor --nbd unix:2 --metrics {address}"));
    output.fails(4, &["--metrics", address]);
    server.stop();
}

/// An operation that a fault makes slow is an exemplar of its bucket, with its place, time and fault. It stays until
/// another operation falls into the bucket.
#[test]
fn members_of_an_array_share_a_series() {
    let place = Place::new();
    let server =
        Served::start(&place, "raid5(ssd-sas12-mlc-800g*3) --no-floor --metrics 127.0.0.1:0");
    server.client().write(0, &vec![7; 64 << 10], CmdFlags::NONE).unwrap();
    let address = server.announced("metrics at http://");
    scraped(&place, address.strip_suffix("/metrics").unwrap(), true);
}

#[test]
fn slow_operations_are_exemplars() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml --no-floor --metrics 127.0.0.1:0");
    let address = server.announced("metrics at http://");
    let address = address.strip_suffix("/metrics").unwrap();
    let mut client = server.client();
    let unix_s = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let mut expected = Vec::new();
    for (fault, least_s, offset) in [("slow x100", 1e-3, 8192), ("delay 80ms reads", 0.08, 12288)] {
        server.fault(fault);
        let began_s = unix_s();
        client.read(offset, &mut [0; 4096]).unwrap();
        let word = fault.split(' ').next().unwrap().to_owned();
        expected.push((word, least_s, offset.to_string(), began_s..unix_s() + 1e-3));
        server.fault("clear");
    }
    for n in 0..1000 {
        client.read(n * 4096, &mut [0; 4096]).unwrap();
    }
    let samples = scraped(&place, address, true);
    let reads = samples.named("iodyno_service_time_seconds_bucket");
    let all: Vec<_> = reads
        .filter(|sample| sample.labels["operation"] == "read")
        .filter_map(|sample| sample.exemplar.as_ref())
        .collect();
    let faulty: Vec<_> = all.iter().filter(|of| of.labels.contains_key("fault")).collect();
    assert!(faulty.len() == expected.len() && all.len() > faulty.len());
    for (exemplar, (fault, least_s, offset, when_s)) in faulty.iter().zip(expected) {
        assert_eq!(exemplar.labels["fault"], fault);
        assert_eq!(exemplar.labels["offset_bytes"], offset);
        assert_eq!(exemplar.labels["length_bytes"], "4096");
        assert!(exemplar.value >= least_s, "{fault}: {}", exemplar.value);
        let at_s = exemplar.unix_s.unwrap();
        assert!(when_s.contains(&(at_s + 1e-3)), "{fault}: {at_s} {when_s:?}");
    }
    server.stop();
}

/// In dilated time a read takes the model's time times the factor, and is announced as such. It
/// never takes less; how much more depends on this machine.
#[test]
fn dilated_time_is_longer_by_its_factor() {
    let place = Place::new();
    let server = Served::start(&place, "exflash-400g --no-floor --dilate 20");
    assert!(server.announced("time").contains("× 20: divide measured times by 20"));
    let mut client = server.client();
    let mut shortest = Duration::MAX;
    for n in 0..50 {
        let begun = Instant::now();
        client.read(n * 7919 % 20_000 * 4096, &mut [0; 4096]).unwrap();
        shortest = shortest.min(begun.elapsed());
    }
    let status = server.status();
    let mean_ns = number(&status["volumes"][0]["operations"]["read"]["latency_mean_ns"]);
    let ratio = shortest.as_nanos() as f64 / mean_ns;
    // (The shortest of the model's reads is little under their mean.)
    assert!((15.0..60.0).contains(&ratio), "{ratio}");
    server.stop();
    for k in ["0", "-1", "much", "inf"] {
        place.iodyno(&format!("serve exflash-400g --dilate={k}")).exits(2);
    }
}

/// The transport time is measured before anything is served, reported, and subtracted; unless it is
/// switched off.
#[test]
fn the_transport_s_time_is_reported() {
    let place = Place::new();
    let server = Served::start(&place, "exflash-400g");
    let output = server.announced("time");
    let (_, floor) = output.split_once("this machine's transport takes ").expect(&output);
    let (floor, rest) = floor.split_once(" per round trip").expect(&output);
    assert!(rest.contains("subtracted"), "{output}");
    let (figure, unit) = floor.split_once(' ').expect(&output);
    let unit_us = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        _ => panic!("{output}"),
    };
    let floor_us = figure.parse::<f64>().unwrap() * unit_us;
    assert!(floor_us > 0.0 && floor_us <= 100.0, "{output}");
    let of_status = |server: &Served<'_>| server.status()["transport"].clone();
    let now_us = number(&of_status(&server)["round_trip_ns"]) / 1000.0;
    assert!((now_us / floor_us - 1.0).abs() < 0.01, "{output}: {now_us}");
    // A client that is slow to receive its replies is tracked; how far depends on this machine.
    let mut client = server.client();
    for n in 0..200 {
        client.read(n * 4096, &mut [0; 4096]).unwrap();
    }
    let now_us = number(&of_status(&server)["round_trip_ns"]) / 1000.0;
    assert!(now_us > 0.0 && now_us <= 200.0, "{now_us}");
    // The possible connections of a volume do not compete with the emulated host's threads: a read
    // takes the same as in virtual time.
    let alone = "run random-read --on model:exflash-400g --depth 1 --time 20ms --json";
    let alone = place.iodyno(alone).succeeds().json();
    let model_ns = number(&alone["cells"][0]["read"]["latency_ns"]["p50"]);
    let served_ns = number(&server.status()["volumes"][0]["operations"]["read"]["latency_p50_ns"]);
    assert!((served_ns / model_ns - 1.0).abs() < 0.02, "{served_ns} {model_ns}");
    server.stop();
    let server = Served::start(&place, "exflash-400g --no-floor");
    assert_eq!(server.announced("time"), "the model's times");
    assert!(of_status(&server).is_null());
    server.stop();
}
