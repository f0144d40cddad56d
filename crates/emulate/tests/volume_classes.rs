//! The classes of cloud volumes in the catalog: the limits that follow from the size and the rates in a target's
//! name, and refused options.

use iodyno_emulate::describe;
use iodyno_emulate::spec::Limit;
use iodyno_units::VolumeOptions;

/// The rate of each limit, with the burst rate and the credits of those that burst.
type Rates = Vec<(u64, Option<(u64, u64)>)>;

/// Options of volumes of the catalog, and the rates, burst rates and credits that follow.
#[test]
fn volumes_have_the_limits_of_the_providers() {
    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;
    const MB: u64 = 1_000_000;
    let gp2 = Some((3000, 5_400_000));
    let premium = |rate: u64, bytes: u64| {
        let credits = |burst: u64, rate| Some((burst, (burst - rate) * 1800));
        [(rate, credits(3500, rate)), (bytes * MB, credits(170 * MB, bytes * MB))]
    };
    let st1 = |base, burst, tib: u64| vec![(base * MIB, Some((burst * MIB, tib * TIB)))];
    let plain = |rates: &[u64]| rates.iter().map(|rate| (*rate, None)).collect::<Vec<_>>();
    let table: Vec<(&str, &str, Rates)> = vec![
        ("ebs-gp2", "size=1GiB", vec![(100, gp2), (128 * MIB, None)]),
        ("ebs-gp2", "size=170GiB", vec![(510, gp2), (128 * MIB, None)]),
        ("ebs-gp2", "size=171GiB", vec![(513, gp2), (250 * MIB, None)]),
        ("ebs-gp2", "size=1000GiB", plain(&[3000, 250 * MIB])),
        ("ebs-gp2", "size=16TiB", plain(&[16_000, 250 * MIB])),
        ("ebs-gp3", "", plain(&[3000, 125 * MIB])),
        ("ebs-gp3", "size=500GiB&iops=6000&mbps=250", plain(&[6000, 250 * MIB])),
        ("ebs-gp3", "size=160GiB&iops=80000&mbps=2000", plain(&[80_000, 2000 * MIB])),
        ("ebs-io1", "size=100GiB", plain(&[5000, 500 * MIB])),
        ("ebs-io1", "size=2TiB&iops=48000", plain(&[48_000, 750 * MIB])),
        ("ebs-io2", "size=256GiB&iops=256000", plain(&[256_000, 4000 * MIB])),
        ("ebs-io2", "size=4GiB", plain(&[4000, 1000 * MIB])),
        ("ebs-st1", "size=1TiB", st1(40, 250, 1)),
        ("ebs-st1", "size=5TiB", st1(200, 500, 5)),
        ("ebs-st1", "size=12800GiB", plain(&[500 * MIB])),
        ("ebs-sc1", "size=1TiB", st1(12, 80, 1)),
        ("ebs-sc1", "size=16TiB", st1(192, 250, 16)),
        ("azure-premium", "size=4GiB", premium(120, 25).to_vec()),
        ("azure-premium", "size=100GiB", premium(500, 100).to_vec()),
        ("azure-premium", "size=512GiB", premium(2300, 150).to_vec()),
        ("azure-premium", "size=513GiB", plain(&[5000, 200 * MB])),
        ("azure-premium", "size=32767GiB", plain(&[20_000, 900 * MB])),
        ("azure-premium", "size=1TiB&bursting=on-demand", plain(&[30_000, 1000 * MB])),
        ("azure-premium-v2", "size=8GiB&iops=4000&mbps=1000", plain(&[4000, 1000 * MB])),
        ("azure-ultra", "size=400GiB&iops=400000&mbps=10000", plain(&[400_000, 10_000 * MB])),
        ("gcp-pd-standard", "size=1000GiB", plain(&[750, 1500, 120 * MIB, 120 * MIB])),
        ("gcp-pd-standard", "size=64TiB", plain(&[7500, 15_000, 1200 * MIB, 400 * MIB])),
        ("gcp-pd-balanced", "size=500GiB", plain(&[6000, 280 * MIB, 280 * MIB])),
        ("gcp-pd-ssd", "size=500GiB", plain(&[21_000, 480 * MIB, 480 * MIB])),
        ("gcp-hyperdisk-balanced", "size=6GiB", plain(&[3000, 140 * MIB])),
    ];
    for (class, options, rates) in table {
        let device = chosen(class, options).unwrap();
        let limits = device.device.limits.iter();
        let of = |limit: &Limit| (limit.rate, limit.credits.as_ref().map(|c| (c.burst, c.most)));
        assert_eq!(limits.map(of).collect::<Rates>(), rates, "{class}?{options}");
        let full = |limit: &Limit| limit.credits.as_ref().is_none_or(|c| c.start == c.most);
        assert!(device.device.limits.iter().all(full));
        // What `explain` lists is what holds.
        let listed =
            |key: &str| device.parameters.iter().filter(|of| of.key.ends_with(key)).count();
        let credits = rates.iter().filter(|rate| rate.1.is_some()).count();
        assert_eq!((listed("_limit.rate"), listed("_limit.burst")), (rates.len(), credits));
    }
}

/// A volume of a class of the catalog with options as in a target's name.
fn chosen(class: &str, options: &str) -> Result<describe::DescribedDevice, String> {
    let files = crate::load::Files::new(class, "cloud-instance");
    let mut device = describe::device(class, &files.device).unwrap();
    let mut of = VolumeOptions::default();
    for (key, value) in options.split('&').filter_map(|pair| pair.split_once('=')) {
        of.set(key, value).unwrap();
    }
    device.choose(&of).map(|()| device)
}

/// Every refusal names the range and a remedy, and the remedy works.
#[test]
fn options_outside_their_range_are_refused() {
    for (class, options, words) in [
        ("ebs-gp3", "size=100TiB", "sizes from 1GiB to 64TiB"),
        (
            "ebs-gp3",
            "size=1GiB&iops=3001",
            "can have 3000 to 3000 IOPS, not 3001: use iops=3000 or size=7GiB",
        ),
        ("ebs-gp3", "iops=90000", "3000 to 80000 IOPS, not 90000: use iops=80000"),
        ("ebs-gp3", "iops=100", "use iops=3000"),
        (
            "ebs-gp3",
            "mbps=900",
            "with 3000 IOPS can have 125 to 750 MiB/s, not 900: use mbps=750 or iops=3600",
        ),
        ("azure-premium-v2", "mbps=900", "can have 125 to 750 MB/s, not 900"),
        ("ebs-gp2", "size=1100MiB", "use size=2GiB"),
        ("ebs-gp2", "iops=3000", "it follows from the size: choose size=, and leave iops= out"),
        ("ebs-gp2", "bursting=on-demand", "no bursting on demand"),
        ("ebs-gp2", "credits=1h", "at most 33 min 20 s"),
        ("ebs-gp2", "size=2TiB&credits=0", "no burst credits"),
        ("azure-premium", "bursting=on-demand", "choose a larger size="),
        ("hdd-10k-300g", "size=1TiB", "one size"),
        ("hdd-10k-300g", "iops=1000", "no rules for them"),
        ("hdd-10k-300g", "credits=0", "no burst credits"),
    ] {
        let why = chosen(class, options).unwrap_err();
        assert!(why.contains(words), "{class}?{options}: {why}");
    }
    let start = |options: &str| {
        let device = chosen("azure-premium", options).unwrap().device;
        device.limits.into_iter().map(|limit| limit.credits.unwrap().start).collect::<Vec<_>>()
    };
    assert_eq!(start("size=512GiB&credits=0"), [0, 0]);
    assert_eq!(start("size=512GiB&credits=30s"), [1200 * 30, 20_000_000 * 30]);
    assert_eq!(start("size=512GiB&credits=50%"), [1200 * 900, 20_000_000 * 900]);
}
