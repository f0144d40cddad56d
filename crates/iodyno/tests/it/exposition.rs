//! Metrics over HTTP, read by an independent program: the parsers of Prometheus' Python client (Debian's
//! python3-prometheus-client). Its parser of OpenMetrics is strict: descriptions, units, suffixes, complete and rising
//! buckets, exemplars of at most 128 characters, and the end.

use crate::place::Place;
use crate::serve::judge;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Header of a request for OpenMetrics, as Prometheus 3 sends it.
pub(crate) const ACCEPT_OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2\r\n";

pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Deserialize)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
    pub(crate) exemplar: Option<Exemplar>,
}

#[derive(Deserialize)]
pub(crate) struct Exemplar {
    pub(crate) labels: Labels,
    pub(crate) value: f64,
    pub(crate) unix_s: Option<f64>,
}

/// Samples of a text of metrics.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Exposition {
    pub(crate) samples: Vec<Sample>,
}

const PARSER: &str = "
import json, prometheus_client.parser as older, prometheus_client.openmetrics.parser as openmetrics
text = open('exposition').read()
samples = []
for family in (openmetrics if text.endswith('# EOF\\n') else older).text_string_to_metric_families(text):
    assert family.documentation.endswith('.'), family.name
    for s in family.samples:
        e = s.exemplar and dict(labels=s.exemplar.labels, value=s.exemplar.value, unix_s=s.exemplar.timestamp and float(s.exemplar.timestamp))
        samples.append(dict(name=s.name, labels=s.labels, value=s.value, exemplar=e))
print(json.dumps(samples))
";

impl Exposition {
    /// Parses a text of metrics; it is OpenMetrics if it ends with `# EOF`. Asserts that no sample occurs twice, and
    /// that each exemplar lies in its bucket.
    pub(crate) fn parse(place: &Place, text: &str) -> Self {
        place.write("exposition", text);
        let parsed = judge(place, "python3", &["-c", PARSER]);
        let this: Self = serde_json::from_str(&parsed).unwrap();
        let mut keys: Vec<_> = this.samples.iter().map(|s| (&s.name, &s.labels)).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a sample occurs twice: {text}");
        let mut lower = 0.0;
        for sample in &this.samples {
            let Some(bound) = sample.labels.get("le") else { continue };
            let bound: f64 = bound.trim_start_matches('+').parse().unwrap();
            if let Some(of) = &sample.exemplar {
                assert!(lower < of.value && of.value <= bound, "{lower} {} {bound}", of.value);
            }
            lower = if bound.is_infinite() { 0.0 } else { bound };
        }
        this
    }

    /// Samples of this name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    /// The only sample with this name and these labels, apart from the label `device`.
    #[track_caller]
    pub(crate) fn only(&self, name: &str, labels: &[(&str, &str)]) -> &Sample {
        let has = |sample: &&Sample| {
            let own = sample.labels.iter().filter(|(label, _)| *label != "device");
            labels.is_empty()
                || own.map(|(k, v)| (k.as_str(), v.as_str())).eq(labels.iter().copied())
        };
        let mut own = self.named(name).filter(has);
        let sample = own.next().unwrap_or_else(|| panic!("no {name} {labels:?}"));
        assert!(own.next().is_none(), "several {name} {labels:?}");
        sample
    }

    /// Whether both have samples with the same names and labels. Exemplars are not compared, because the older format
    /// has none.
    pub(crate) fn has_samples_of(&self, other: &Self) -> bool {
        let keys = |of: &Self| -> Vec<(String, Labels)> {
            of.samples.iter().map(|s| (s.name.clone(), s.labels.clone())).collect()
        };
        keys(self) == keys(other)
    }
}

/// Sends a request to an HTTP server in these pieces, with a pause after each. Returns head and body of the reply.
pub(crate) fn asked(address: &str, pieces: &[&str]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
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

/// Scrapes an address. `is_open`: the request asks for OpenMetrics; otherwise it names no format.
pub(crate) fn scraped(place: &Place, address: &str, is_open: bool) -> Exposition {
    let accept = if is_open { ACCEPT_OPEN } else { "accept: */*\r\n" };
    let request = ["GET /metrics HTTP/1.1\r\nHost: here\r\n", accept, "\r\n"];
    let (head, body) = asked(address, &request);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let media = if is_open {
        "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "Content-Type: text/plain; version=0.0.4; charset=utf-8"
    };
    assert!(head.lines().any(|line| line == media), "{head}");
    assert_eq!(body.ends_with("# EOF\n"), is_open);
    Exposition::parse(place, &body)
}
