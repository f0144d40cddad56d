//! Rules of an emulated system that apply to every command that names it.

use iodyno_run::{Files, emulated};
use iodyno_targets::TargetName;

fn resolve(name: &str) -> Result<(), String> {
    let target = TargetName::parse(name).unwrap();
    let found = emulated(&[target], &mut Files::default());
    found.map(|system| assert!(system.is_some())).map_err(|error| error.to_string())
}

#[test]
fn a_zoned_device_is_a_volume_of_its_own() {
    assert_eq!(resolve("model:zn540-1t*2"), Ok(()));
    let refused = resolve("model:raid5(zn540-1t*4)").unwrap_err();
    assert!(refused.contains("a zoned device can't be part of an array"), "{refused}");
}

#[test]
fn adapters_accept_drives_for_their_bays() {
    for (device, kind) in [
        ("ssd-gen3-emlc", None),
        ("hdd-nearline-20t", None),
        ("cm7-r-3840g", Some("nvme")),
        ("iodrive2-785g", Some("pcie-slot")),
    ] {
        for name in [format!("{device}*4"), format!("raid1({device}*2)")] {
            let found = resolve(&format!("model:{name}@57ce-gen3"));
            let Some(kind) = kind else {
                assert_eq!(found, Ok(()));
                continue;
            };
            let refused = found.unwrap_err();
            assert!(refused.contains("rule `drives-only`"), "{refused}");
            assert!(refused.contains(&format!("{device} occupies a bay or slot of kind `{kind}`")));
        }
    }
}
