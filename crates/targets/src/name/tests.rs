//! Target names: the meaning of each form, and the errors of wrong ones.

use super::*;
use iodyno_nbd::client::Address;
use iodyno_raid::{Level, MAX_MEMBERS, Rotation};
use iodyno_units::{Precondition, StartCredits, VolumeOptions};
use proptest::prelude::*;

fn problem(text: &str) -> String {
    match TargetName::parse(text) {
        Err(error @ TargetError::BadName { .. }) => {
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn each_form_is_parsed() {
    let path =
        |path: &str, size_bytes, direct| TargetName::Path { path: path.into(), size_bytes, direct };
    for (text, name) in [
        ("null:", TargetName::Null { size_bytes: 1 << 40 }),
        ("null:64MiB", TargetName::Null { size_bytes: 64 << 20 }),
        ("ram:4GiB", TargetName::Ram { size_bytes: 4 << 30 }),
        ("/dev/nvme0n1", path("/dev/nvme0n1", None, Direct::Auto)),
        ("a.img?size=8G", path("a.img", Some(8 << 30), Direct::Auto)),
        ("a.img?direct=no&size=400GB", path("a.img", Some(400_000_000_000), Direct::Off)),
        ("a.img?uncached=yes&direct=no", path("a.img", None, Direct::Uncached)),
        ("a.img?uncached=no", path("a.img", None, Direct::Auto)),
        ("odd?name?", path("odd?name", None, Direct::Auto)),
        ("./ram:4GiB", path("./ram:4GiB", None, Direct::Auto)),
        (
            "/dev/disk/by-path/pci-0000:00:02.0",
            path("/dev/disk/by-path/pci-0000:00:02.0", None, Direct::Auto),
        ),
        ("scratch:", TargetName::Scratch { size_bytes: None, dir: None, direct: Direct::Auto }),
        (
            "scratch:2GiB@/mnt/a@b?direct=yes",
            TargetName::Scratch {
                size_bytes: Some(2 << 30),
                dir: Some("/mnt/a@b".into()),
                direct: Direct::Require,
            },
        ),
        (
            "nbd+unix:///a%20b?socket=run/x.sock",
            TargetName::Nbd(Uri {
                address: Address::Unix("run/x.sock".into()),
                tls: false,
                export: "a b".to_owned(),
                tls_certificates: None,
                tls_hostname: None,
            }),
        ),
        (
            "model:a*32@b?workers=near&fill=12.5%&occupancy=max&cache=off&state=random:16KiB&size=500GiB&iops=6000&credits=0",
            TargetName::Model(ModelName {
                live: false,
                what: "a".to_owned(),
                arrays: Vec::new(),
                count: 32,
                system: Some("b".to_owned()),
                state: Precondition::Random { block_bytes: Some(16 << 10) },
                fill_ppm: 125_000,
                max_occupancy: true,
                cache_off: true,
                workers_near: Some(true),
                volume: VolumeOptions {
                    size_bytes: Some(500 << 30),
                    iops: Some(6000),
                    credits: Some(StartCredits::LastFor(0)),
                    ..VolumeOptions::default()
                },
            }),
        ),
    ] {
        assert_eq!(TargetName::parse(text), Ok(name), "{text}");
    }
}

#[test]
fn errors_name_the_remedy() {
    for (text, word) in [
        ("", "the path is missing"),
        ("?size=4KiB", "the path is missing"),
        ("ram:", "use ram:4GiB"),
        ("ram:0", "nothing to measure"),
        ("ram:1000", "use 1KiB"),
        ("ram:lots", "is not a size"),
        ("ram:?size=64MiB", "use ram:64MiB."),
        ("null:?size=4KiB", "use null:4KiB."),
        ("null:4KiB?direct=no", "use null:4GiB."),
        ("nbds:x", "does not begin with nbd://"),
        ("nbd+unix:///disk", "?socket="),
        ("nbd:///disk", "names no host"),
        ("nbd://host/?tls-certificates=/pki", "nbds://"),
        ("nbd://host/disk?size=8GiB", "not understood"),
        ("model:", "device or system is missing"),
        ("model:*4@host", "device or system is missing"),
        ("model:x*0", "1 to 1024"),
        ("model:x*many", "1 to 1024"),
        ("model:x@", "no system follows"),
        ("model:raid7(x*3)", "`raid7` is not a level"),
        ("model:raid5(x*3", "no `)` follows"),
        ("model:raid5(x)", "the number of devices"),
        ("model:raid5(x*999)", "at most"),
        ("model:raid5(x*3)2", "`2` after the array"),
        ("model:raid5(*3)", "is missing"),
        ("model:raid1(raid7(x*3)*2)", "`raid7` is not a level"),
        ("model:raid1(raid5(x*3)2)", "the number of devices"),
        ("model:raid1(raid5(x)*2)", "the number of devices"),
        ("model:raid1(raid0(x*2)", "no `)` follows"),
        ("model:raid1(raid0(x*60)*20)", "1200 devices"),
        ("model:raid1(raid1(raid1(raid1(raid1(x*2)*2)*2)*2)*2)", "more than 4 deep"),
        ("model:raid5(x*3,strip=1000)", "multiple of 4KiB"),
        ("model:raid1(x*2,strip=64KiB)", "RAID 1 has no strips"),
        ("model:raid0(x*2,layout=left-symmetric)", "not a layout of a RAID 0"),
        ("model:raid5(x*3,chunk=64KiB)", "not an option of an array"),
        ("model:x#3", "`x#3` can't contain `#`"),
        ("model:x@a@b", "`a@b` can't contain `@`"),
        ("model:x?state=old", "state=sequential"),
        ("model:x?state=random:5000", "multiple of 512"),
        ("model:x?state=random:4GiB", "less than 4GiB"),
        ("model:x?cache=none", "use cache=off"),
        ("model:x?size=many", "use size=500GiB"),
        ("model:x?size=0", "its size is 0"),
        ("model:x?iops=0", "use iops=6000"),
        ("model:x?mbps=1.5", "in the provider's unit"),
        ("model:x?bursting=yes", "bursting=on-demand"),
        ("model:x?credits=lots", "credits=30s"),
        ("model:x?credits=101%", "credits=30s"),
        ("model:x?fill=0%", "state=fresh"),
        ("model:x?fill=half", "percentage"),
        ("model:x?state=fresh&fill=50%", "contradicts `fill=`"),
        ("model:x?occupancy=min", "occupancy=max"),
        ("model:x?workers=far", "workers=near"),
        ("live:", "device or system is missing"),
        ("pcie:x", "this version has no `pcie:` targets"),
        ("rma:4GiB", "./rma:4GiB"),
        ("a.img?size=4KiB&direct=no&size=8KiB", "`size` is given twice"),
        ("model:x?fill=5%&fill=6%", "`fill` is given twice"),
        ("nbd+unix:///x?socket=/a&socket=/b", "`socket` is given twice"),
        ("a.img?sise=4KiB", "`sise` is not an option"),
        ("a.img?direct=maybe", "direct=no"),
        ("a.img?direct", "`direct` is not an option"),
        ("a.img?uncached=1", "uncached=yes"),
        ("a.img?uncached=yes&direct=yes", "leave direct=yes"),
        ("scratch:?size=4KiB", "follow the colon"),
        ("scratch:1GiB@", "no directory"),
    ] {
        let message = problem(text);
        assert!(message.contains(word), "{text}: {message}");
    }
}

/// A volume's name is that of its target, plus a number if there are several.
#[test]
fn volumes_of_one_name_are_numbered() {
    let TargetName::Model(model) = TargetName::parse("model:a*4@b?state=fresh").unwrap() else {
        panic!("a model");
    };
    assert_eq!(model.volume(Some(3)), "model:a#3@b?state=fresh");
    assert_eq!(model.volume(None), "model:a@b?state=fresh");
}

fn uris() -> impl Strategy<Value = Uri> {
    let text = "[a-z./?@&=: A-Z0-9é%-]{0,12}";
    let tls = proptest::option::of(proptest::option::of(text.prop_map(PathBuf::from)));
    ("[a-z0-9.]{1,9}", 1_u16.., text, tls, any::<bool>()).prop_map(
        |(host, port, export, tls, unix)| Uri {
            address: if unix {
                Address::Unix(format!("/{host}").into())
            } else {
                Address::Tcp(host, port)
            },
            tls: tls.is_some(),
            export,
            tls_certificates: tls.flatten(),
            tls_hostname: None,
        },
    )
}

fn direct() -> impl Strategy<Value = Direct> {
    prop_oneof![
        Just(Direct::Auto),
        Just(Direct::Require),
        Just(Direct::Off),
        Just(Direct::Uncached)
    ]
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..1 << 40, Just(1_u64), Just(1 << 50), (0_u32..44).prop_map(|bit| 1 << bit)]
        .prop_map(|sectors| sectors * SIZE_STEP_BYTES)
}

fn models() -> impl Strategy<Value = ModelName> {
    let state = prop_oneof![
        Just(Precondition::Workload),
        Just(Precondition::Sequential),
        Just(Precondition::Random { block_bytes: None }),
        (1_u32..1 << 23)
            .prop_map(|s| Precondition::Random { block_bytes: Some(s * SIZE_STEP_BYTES as u32) }),
    ];
    let name = "[a-z./:& A-Z0-9é%=-]{1,12}";
    let system = proptest::option::of(name);
    let near = proptest::option::of(any::<bool>());
    let credits = prop_oneof![
        (0..u64::MAX / 2).prop_map(StartCredits::LastFor),
        (1..=1_000_000_u32).prop_map(StartCredits::Share),
    ];
    let some = || proptest::option::of(1..u64::MAX);
    let volume = (some(), some(), some(), any::<bool>(), proptest::option::of(credits)).prop_map(
        |(size_bytes, iops, mbps, on_demand, credits)| VolumeOptions {
            size_bytes,
            iops,
            mbps,
            on_demand,
            credits,
        },
    );
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let array = (
        proptest::sample::select(&Level::ALL[..]),
        1..=MAX_MEMBERS as u32,
        proptest::option::of(1_u64..1 << 20),
        proptest::sample::select(&Rotation::ALL[..]),
    )
        .prop_map(|(level, members, strip, rotation)| ArrayName {
            level,
            members,
            strip_bytes: strip.filter(|_| level.has_strips()).map(|units| units * 4096),
            rotation: if level.parities() > 0 { rotation } else { Rotation::default() },
        });
    // No more devices than a system can hold.
    let arrays = proptest::collection::vec(array, 0..=ARRAY_DEPTH_MAX)
        .prop_filter("too many", |of| {
            of.iter().try_fold(1_u32, |n, a| n.checked_mul(a.members)).is_some_and(|n| n <= 1024)
        });
    let what = (name, arrays);
    let options = (near, volume);
    (what, 1..=MODEL_COUNT_MAX, system, state, 1..=1_000_000_u32, flags, options).prop_map(
        |(
            (what, arrays),
            count,
            system,
            state,
            fill_ppm,
            (live, max_occupancy, cache_off),
            (workers_near, volume),
        )| {
            ModelName {
                live,
                what,
                arrays,
                count,
                system,
                state,
                fill_ppm,
                max_occupancy,
                cache_off,
                workers_near,
                volume,
            }
        },
    )
}

fn names() -> impl Strategy<Value = TargetName> {
    let path = "[a-z./?@&=: A-Z0-9é%-]{1,20}"
        .prop_filter("looks like a scheme", |path| split_scheme(path).is_none());
    let dir = proptest::option::of("[a-z./?@&=: A-Z0-9é%-]{1,20}".prop_map(PathBuf::from));
    prop_oneof![
        sizes().prop_map(|size_bytes| TargetName::Null { size_bytes }),
        sizes().prop_map(|size_bytes| TargetName::Ram { size_bytes }),
        (path, proptest::option::of(sizes()), direct()).prop_map(|(path, size_bytes, direct)| {
            TargetName::Path { path: path.into(), size_bytes, direct }
        }),
        (proptest::option::of(sizes()), dir, direct()).prop_map(|(size_bytes, dir, direct)| {
            TargetName::Scratch { size_bytes, dir, direct }
        }),
        models().prop_map(TargetName::Model),
        uris().prop_map(TargetName::Nbd),
    ]
}

proptest! {
    #[test]
    fn the_canonical_name_parses_back(name in names()) {
        let text = name.to_string();
        prop_assert_eq!(TargetName::parse(&text), Ok(name), "{}", text);
    }

    #[test]
    fn parsing_never_panics_and_is_idempotent(text in "\\PC{0,40}") {
        if let Ok(name) = TargetName::parse(&text) {
            prop_assert_eq!(TargetName::parse(&name.to_string()), Ok(name));
        }
    }
}
