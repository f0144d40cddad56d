//! Cost of the next operation by pattern, in ns per operation: the median of several passes on one
//! core. `cargo run --release -p iodyno-workload --example stream_cost`

use std::hint::black_box;
use std::time::Instant;

use iodyno_units::verifiable;
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Arrivals, Filler, Geometry, Shared, Spec, Stream, WorkerIndex};

const PASSES: usize = 15;
const CALLS: u32 = 1_000_000;

fn main() {
    let geometry = Geometry { capacity_bytes: 400_000_000_000, align_bytes: 512, workers: 2 };
    println!("next_op");
    for (name, text) in [
        ("read, uniform", "mix = { read = 1 }"),
        ("70/30, uniform", "mix = { read = 70, write = 30 }"),
        (
            "70/30, two tables",
            "mix = { read = 70, write = 30 }\nread = { addresses = \"uniform\" }",
        ),
        (
            "two sizes",
            "mix = { read = 1 }\nblock = [{ size = \"4k\", share = 60 }, { size = \"8k\", share = 40 }]",
        ),
        ("once per pass", &one("pattern = \"uniform\", once_per_pass = true")),
        ("sequential", &one("pattern = \"sequential\"")),
        ("sequential, shared", &one("pattern = \"sequential\", shared = true")),
        ("sequential runs of 64", &one("pattern = \"sequential\", run = 64")),
        ("strided", &one("pattern = \"strided\", stride = \"1MiB\"")),
        ("zipf 0.99", &one("pattern = \"zipf\", theta = 0.99")),
        ("zipf 1.2", &one("pattern = \"zipf\", theta = 1.2")),
        ("hot spots 80/20", &one(&spots("scatter = false"))),
        ("hot spots 80/20, scattered", &one(&spots("scatter = true"))),
        ("oltp3", include_str!("../../../catalog/workloads/oltp3.toml")),
    ] {
        let text = if text.contains("schema") { text } else { &format!("schema = 1\n{text}") };
        let spec = Spec::from_toml(text).expect("a workload");
        let shared = Shared::new(&spec, 1, &geometry).expect("it fits");
        let mut stream = Stream::new(&shared, 0);
        println!(
            "  {name:28} {:6.2} ns",
            median_ns(|| {
                black_box(stream.next_op());
            })
        );
    }

    println!("next_ns");
    for process in ["poisson", "constant"] {
        let spec = Spec::from_toml(&format!(
            "schema = 1\nmix = {{ read = 1 }}\n\
             arrivals = {{ kind = \"open\", rate = \"1M/s\", process = \"{process}\" }}"
        ));
        let mut arrivals =
            Arrivals::new(&spec.expect("a workload"), 1, WorkerIndex { index: 0, of: 2 })
                .expect("an open loop");
        println!(
            "  {process:28} {:6.2} ns",
            median_ns(|| {
                black_box(arrivals.next_ns());
            })
        );
    }

    println!("stamp, 4 KiB");
    let op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Write, fua: false };
    for content in ["incompressible", "compressible=50%", "dedupable=20%", "verifiable"] {
        let spec = Spec::from_toml("schema = 1\nmix = { write = 1 }").expect("a workload");
        let spec = spec.with_content(content.parse().expect("a content")).expect("it fits");
        let mut filler = Filler::new(&spec, 1, 0);
        let mut buffers = vec![[0_u8; 4096]; 32];
        for buffer in &mut buffers {
            filler.prepare(buffer);
        }
        let mut turn = 0;
        println!(
            "  {content:28} {:6.2} ns",
            median_ns(|| {
                turn = (turn + 1) % 32;
                filler.stamp(black_box(&mut buffers[turn]), &op);
            })
        );
    }
    let mut unit = [0_u8; 4096];
    verifiable::fill(&mut unit, 0, 1, 1);
    println!(
        "  {:28} {:6.2} ns",
        "check of verifiable",
        median_ns(|| {
            black_box(verifiable::check(black_box(&unit), 0).is_ok());
        })
    );
}

fn one(address: &str) -> String {
    format!("mix = {{ read = 1 }}\nall = {{ addresses = {{ {address} }} }}")
}

fn spots(scatter: &str) -> String {
    format!(
        "pattern = \"hot-spots\", {scatter}, \
         spots = [{{ share = 80, range = \"20%\" }}, {{ share = 20, range = \"80%\" }}]"
    )
}

fn median_ns(mut call: impl FnMut()) -> f64 {
    let mut passes = [0.0; PASSES];
    for pass in &mut passes {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        *pass = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    }
    passes.sort_by(f64::total_cmp);
    passes[PASSES / 2]
}
