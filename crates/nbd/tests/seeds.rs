//! The fuzzers' seeds, which are exchanges captured between real programs, through the fuzzers' bodies:
//! what they hold against mutations of them holds for them as they are, however they are cut.

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
fn what_clients_said() {
    let live = bodies::Live::new();
    each("server", |bytes| {
        for choice in 0..=u8::MAX {
            bodies::server(&[&[choice], bytes].concat());
        }
        live.play(bytes);
    });
    live.sings();
}

#[test]
fn what_servers_said() {
    each("client", |bytes| {
        for choice in 0..=u8::MAX {
            bodies::client(&[&[choice], bytes].concat());
        }
    });
}
