//! Figures of a server: metrics that a strict parser accepts, and that agree exactly with the
//! status and with the clients' operations and bytes; and dilated time.

use crate::place::{Place, number, whole};
use crate::serve::{Served, URI, flash, judge};
use iodyno_nbd::{CmdFlags, Kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A sample's name and labels.
type Key = (String, BTreeMap<String, String>);

fn is_name(text: &str, colon: bool) -> bool {
    let is = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon && c == ':');
    text.chars().next().is_some_and(is) && text.chars().all(|c| is(c) || c.is_ascii_digit())
}

/// Parses the text format 0.0.4 strictly: each family in one piece, with its help and type before
/// its samples; names, labels and values well formed; no sample twice.
fn strictly(text: &str) -> BTreeMap<Key, f64> {
    assert!(text.ends_with('\n'), "the last line does not end");
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let (mut helped, mut family) = (None, None);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a help has words");
            assert!(is_name(name, true) && !words.is_empty(), "{line}");
            assert!(families.insert(name), "{name} is in two pieces");
            helped = Some(name);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert_eq!(helped.take(), Some(name), "help and type go together: {line}");
            family = Some(name);
        } else {
            let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
            assert_eq!(family, Some(name), "{line}");
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            let mut of = BTreeMap::new();
            let mut left = labels;
            while !left.is_empty() {
                let (key, rest) = left.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
                let (text, rest) = rest.split_once('"').unwrap_or_else(|| panic!("{line}"));
                left = rest.strip_prefix(',').unwrap_or(rest);
                // (No name here has characters to escape.)
                assert!(is_name(key, false) && !text.contains('\\'), "{line}");
                assert!(rest.is_empty() || (rest.starts_with(',') && !left.is_empty()), "{line}");
                assert!(of.insert(key.to_owned(), text.to_owned()).is_none(), "{line}");
            }
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(samples.insert((name.to_owned(), of), value).is_none(), "twice: {line}");
        }
    }
    samples
}

/// An HTTP server's reply to these pieces of a request, each sent by itself; head and body.
fn asked(address: &str, pieces: &[&str]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for piece in pieces {
        stream.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: ")).unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), body.len());
    (head.to_owned(), body.to_owned())
}

fn of(samples: &BTreeMap<Key, f64>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let own = |key: &&Key| {
        let mut of = key.1.clone();
        of.remove("device");
        key.0 == name
            && of.into_iter().eq(labels.iter().map(|(k, v)| (k.to_string(), v.to_string())))
    };
    let mut found = samples.iter().filter(|(key, _)| own(key));
    let value = found.next().unwrap_or_else(|| panic!("no {name} {labels:?}")).1;
    assert!(found.next().is_none());
    *value
}

#[test]
fn figures_agree_with_the_clients_operations() {
    let place = Place::new();
    flash(&place, "device.toml", true, 0);
    let server = Served::start(&place, "./device.toml*2 --no-floor --metrics 127.0.0.1:0");
    let address = server.announced("metrics at http://");
    let address = address.strip_suffix("/metrics").unwrap();
    // Without any operation, the figures are still valid.
    strictly(&asked(address, &["GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"]).1);

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

    let (head, text) = asked(address, &["GET /metrics HTTP/1.1\r\n", "Host: here\r\n", "\r\n"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let samples = strictly(&text);
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
            assert_eq!(of(&samples, &name, &labels) as u64, figure, "{name} {kind}");
            let other = [("operation", kind), ("volume", "1")];
            assert_eq!(of(&samples, &name, &other) as u64, 0, "{name} {kind}");
        }
        let mean_s = of(&samples, "iodyno_latency_mean_seconds", &labels);
        let status_s = number(&counts["latency_mean_ns"]) * 1e-9;
        assert!((mean_s - status_s).abs() <= 1e-9 * status_s, "{kind}: {mean_s} {status_s}");
    }
    // The control socket gives the same text.
    let other = place.iodyno("status --metrics --control unix:ctl.sock");
    let other = strictly(&other.succeeds().stdout);
    assert!(samples.keys().eq(other.keys()));
    let counted = |s: &BTreeMap<Key, f64>| -> Vec<f64> {
        s.iter().filter(|(k, _)| k.0 == "iodyno_operations_total").map(|s| *s.1).collect()
    };
    assert_eq!(counted(&samples), counted(&other));

    for (request, says) in [
        ("GET /elsewhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405 "),
        ("what\r\n\r\n", "HTTP/1.1 405 "),
    ] {
        assert!(asked(address, &[request]).0.starts_with(says), "{request}");
    }
    // A silent client does not block others for good.
    let silent = TcpStream::connect(address).unwrap();
    strictly(&asked(address, &["GET /metrics HTTP/1.0\r\n\r\n"]).1);
    drop(silent);
    // An address that is in use is reported before anything is served.
    let output =
        place.iodyno(&format!("serve ./device.toml --no-floor --nbd unix:2 --metrics {address}"));
    output.fails(4, &["--metrics", address]);
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
