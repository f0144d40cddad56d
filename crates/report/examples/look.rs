#[path = "../tests/samples/mod.rs"]
mod samples;
use iodyno_report::terminal::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let w: usize = a[1].parse().unwrap();
    let color = a[2] == "c";
    let unicode = a[2] != "a";
    let style = Style { color, width: w, unicode };
    for (n, r) in samples::all() {
        if a.len() < 4 || a[3] == n {
            print!("{}", show(&r, style));
            println!("{}", "=".repeat(w));
        }
    }
    let l: Vec<_> = samples::all().iter().map(|(_, r)| samples::summary(r)).collect();
    print!("{}", list(&l, style));
    println!(
        "{}",
        progress_line(
            &Progress {
                cell: "random-write",
                index: 2,
                count: 4,
                phase: "measuring",
                elapsed_ns: 12_300_000_000,
                total_ns: Some(30_000_000_000),
                iops: 84_200.0,
                bytes_per_s: 345e6,
                p50_ns: Some(330_000),
                p99_ns: Some(1_200_000),
                errors: 0
            },
            style
        )
    );
    println!(
        "{}",
        progress_line(
            &Progress {
                cell: "random-write",
                index: 2,
                count: 4,
                phase: "laying out",
                elapsed_ns: 300_000_000,
                total_ns: None,
                iops: 0.0,
                bytes_per_s: 0.0,
                p50_ns: None,
                p99_ns: None,
                errors: 3
            },
            style
        )
    );
}
