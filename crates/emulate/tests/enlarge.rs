//! Devices with a larger capacity than their files give.

use crate::common;

use common::system;
use iodyno_emulate::Machine;
use iodyno_emulate::describe::device;
use iodyno_emulate::spec::{Device, Written};

fn of_catalog(name: &str) -> Device {
    let path = format!("{}/../../catalog/devices/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    device(name, &std::fs::read_to_string(path).unwrap()).unwrap().device
}

/// A machine can be built from a device of the maximum capacity, in steady state. One byte more is
/// refused, and the error names the maximum.
#[test]
fn a_device_has_at_most_what_its_hardware_allows() {
    for name in ["exflash-400g", "nvme-tlc-3840g", "ssd-msata-mlc-128g"] {
        let mut device = of_catalog(name);
        let why = device.enlarge(1 << 60).unwrap_err();
        let (_, most) = why.split_once(" (").unwrap();
        let most: u64 = most.split(' ').next().unwrap().parse().unwrap();
        assert!(most > device.capacity_bytes(), "{why}");
        assert_eq!(device.enlarge(most + 1), Err(why));
        device.enlarge(most).unwrap();
        assert_eq!(device.capacity_bytes(), most);
        Machine::new(&system(device.kind, Written::Random { block_bytes: 4096 }, 1), 1).unwrap();
    }
    let mut disk = of_catalog("hdd-10k-300g");
    let own = disk.capacity_bytes();
    assert!(disk.enlarge(own + 512).unwrap_err().contains("can't have more tracks"));
    assert_eq!((disk.enlarge(own / 2), disk.capacity_bytes()), (Ok(()), own));
    let mut memory = of_catalog("ramdisk-ddr3-16g");
    memory.enlarge(1 << 40).unwrap();
    assert_eq!(memory.capacity_bytes(), 1 << 40);
}
