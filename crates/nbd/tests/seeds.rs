//! The fuzzers' seeds, which are exchanges captured between real programs, pass the fuzzers' bodies unmutated,
//! however they are cut.

#[path = "../fuzz/bodies.rs"]
mod bodies;

use std::fs;
use std::path::Path;

fn each(kind: &str, mut play: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(kind);
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        play(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn captured_clients() {
    let live = bodies::Live::new();
    each("server", |bytes| {
        for choice in 0..=u8::MAX {
            bodies::server(&[&[choice], bytes].concat());
        }
        live.play(bytes);
    });
    live.still_serves();
}

#[test]
fn captured_servers() {
    each("client", |bytes| {
        for choice in 0..=u8::MAX {
            bodies::client(&[&[choice], bytes].concat());
        }
    });
}
