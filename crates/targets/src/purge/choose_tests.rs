//! The choice of methods, on simulated devices.

use super::*;
use crate::inspect::fake::Tree;
use crate::inspect::{BlockDevice, inspect};
use crate::name::TargetName;

const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";
const SDA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const USB: &str = "pci0000:00/usb1/1-1/host6/target6:0:0/6:0:0:0/block/sdb";

fn tree() -> Tree {
    let tree = Tree::new();
    for (place, dev) in
        [(NVME, "259:0"), (SDA, "8:0"), (USB, "8:16"), ("virtual/block/dm-0", "253:0")]
    {
        tree.disk(place, dev, 8192);
        tree.file(&format!("sys/devices/{place}/queue/discard_max_bytes"), "4096\n");
    }
    tree.partition(&format!("{NVME}/nvme0n1p1"), "259:1", 1);
    tree.stack("virtual/block/dm-0", SDA);
    tree
}

fn block(dev: &str) -> Inspection {
    let mut inspection = inspect(&TargetName::Null { size_bytes: 512 }).unwrap();
    inspection.kind = Kind::Block;
    inspection.device = BlockDevice::read(&tree().root(), dev.parse().unwrap());
    inspection.capabilities.trim = inspection.device.as_ref().unwrap().discard;
    inspection.whole_bytes = Some(8192 * 512);
    inspection.size_bytes = inspection.whole_bytes;
    inspection
}

fn controller() -> nvme::Identified {
    nvme::Identified {
        nsid: 1,
        namespaces: vec![1],
        sanitize_block: true,
        sanitize_crypto: true,
        format: true,
        format_crypto: true,
        format_hits_all: true,
        layout: nvme::Layout::default(),
        sanitize: Some(nvme::fixture(nvme::SanitizeState::Completed)),
    }
}

fn with(change: impl FnOnce(&mut nvme::Identified)) -> Found {
    let mut found = controller();
    change(&mut found);
    Found { nvme: Some(Ok(found)), ata: None }
}

fn chosen(inspection: &Inspection, found: &Found) -> Option<Method> {
    decide(inspection, found, None).chosen
}

#[test]
fn the_best_possible_method_is_chosen() {
    use Method as M;
    let disk = block("259:0");
    let order: Vec<_> = decide(&disk, &with(|_| {}), None).choices;
    let order: Vec<_> = order.iter().map(|choice| choice.method).collect();
    assert_eq!(
        order,
        [
            M::NvmeSanitizeBlock,
            M::NvmeSanitizeCrypto,
            M::NvmeFormat,
            M::NvmeFormatCrypto,
            M::Discard
        ]
    );
    assert_eq!(chosen(&disk, &with(|_| {})), Some(M::NvmeSanitizeBlock));
    assert_eq!(chosen(&disk, &with(|c| c.sanitize_block = false)), Some(M::NvmeSanitizeCrypto));
    assert_eq!(chosen(&disk, &with(|c| c.sanitize = None)), Some(M::NvmeFormat));
    let busy = Some(nvme::fixture(nvme::SanitizeState::InProgress));
    assert_eq!(chosen(&disk, &with(|c| c.sanitize = busy)), Some(M::NvmeFormat));
    let unanswered = Found { nvme: Some(Err("EACCES".to_owned())), ata: None };
    assert_eq!(chosen(&disk, &unanswered), Some(M::Discard));
    let ata = |security| Found { nvme: None, ata: Some(Ok(security)) };
    let security = ata::Security { supported: true, enhanced: true, ..Default::default() };
    assert_eq!(chosen(&block("8:0"), &ata(security)), Some(M::AtaErase));
    let frozen = ata::Security { frozen: true, ..security };
    let plan = decide(&block("8:0"), &ata(frozen), Some(M::AtaErase));
    assert_eq!(plan.chosen, None, "the requested method is not replaced");
    assert!(plan.why_not.unwrap().contains("rtcwake"));
    assert_eq!(chosen(&block("8:0"), &ata(frozen)), Some(M::Discard));
    assert_eq!(chosen(&block("8:16"), &ata(security)), Some(M::Discard), "behind a USB bridge");
}

#[test]
fn nothing_beside_the_target_is_hit() {
    use Method as M;
    let disk = block("259:0");
    // Sanitize always affects every namespace; a format does so if the controller reports it.
    let shared = |hits_all| {
        with(|c| {
            c.namespaces = vec![1, 2];
            c.format_hits_all = hits_all;
        })
    };
    assert_eq!(chosen(&disk, &shared(true)), Some(M::Discard));
    assert_eq!(chosen(&disk, &shared(false)), Some(M::NvmeFormat));
    let plan = decide(&disk, &shared(true), Some(M::NvmeFormat));
    assert!(plan.why_not.unwrap().contains("all namespaces"));
    // A partition, a part of a device, or a device built on others never gets a command for a whole device.
    let partition = block("259:1");
    let mut part = block("259:0");
    part.size_bytes = Some(4096);
    let mapped = block("253:0");
    let ata = ata::Security { supported: true, enhanced: true, ..Default::default() };
    let found = Found { nvme: Some(Ok(controller())), ata: Some(Ok(ata)) };
    for (inspection, word) in
        [(&partition, "all of nvme0n1"), (&part, "?size="), (&mapped, "built on sda")]
    {
        assert!(is_whole(inspection).unwrap_err().contains(word));
        for method in M::ALL.into_iter().filter(|method| method.is_whole_device()) {
            assert_eq!(decide(inspection, &found, Some(method)).chosen, None, "{method} {word}");
        }
        assert_eq!(chosen(inspection, &found), Some(M::Discard));
        assert_eq!(query(inspection), Found::default(), "not even queried");
    }
    // A file on a device with all methods has none of them.
    let mut file = block("259:0");
    file.kind = Kind::File;
    for method in M::ALL.into_iter().filter(|method| method.is_whole_device()) {
        assert_eq!(decide(&file, &found, Some(method)).chosen, None);
    }
}

#[test]
fn targets_that_keep_nothing_and_impossible_methods() {
    let of = |name: &str| inspect(&TargetName::parse(name).unwrap()).unwrap();
    for name in ["ram:1MiB", "scratch:64MiB"] {
        assert_eq!(plan(&of(name), None).chosen, Some(Method::Anew), "{name}");
    }
    for name in ["null:", "/dev/null?size=1MiB", "model:exflash-400g"] {
        let plan = plan(&of(name), None);
        assert_eq!((plan.chosen, plan.choices.len()), (None, 0), "{name}");
        assert!(plan.why_not.unwrap().contains("stores no data"));
    }
    let mut disk = block("8:0");
    disk.capabilities.trim = Some(false);
    let plan = decide(&disk, &Found::default(), None);
    assert_eq!(plan.chosen, None);
    let why = plan.why_not.unwrap();
    for word in ["ata-erase", "discard: the kernel reports"] {
        assert!(why.contains(word), "{why}");
    }
    assert!("nvme-format-crypto".parse::<Method>() == Ok(Method::NvmeFormatCrypto));
    assert!("format".parse::<Method>().unwrap_err().contains("nvme-sanitize-block"));
}

#[test]
fn zones_are_not_discarded() {
    let mut zoned = block("8:0");
    for (model, expected) in
        [("none", Some(Method::Discard)), ("host-managed", None), ("host-aware", None)]
    {
        zoned.device.as_mut().unwrap().zoned = Some(model.to_owned());
        assert_eq!(chosen(&zoned, &Found::default()), expected, "{model}");
    }
    let why_not = decide(&zoned, &Found::default(), None).why_not.unwrap();
    assert!(why_not.contains("blkzone reset"), "{why_not}");
}
