//! The key under which the notebook stores the content written to a target.

use iodyno_run::written_key;
use iodyno_targets::{Inspection, Kind, NbdExport, TargetName, inspect};
use serde_json::json;

fn null() -> Inspection {
    inspect(&TargetName::Null { size_bytes: 512 }).unwrap()
}

fn export(uri: &str) -> Inspection {
    let name = TargetName::parse(uri).unwrap();
    let TargetName::Nbd(parsed) = &name else { panic!("{uri}") };
    let export: NbdExport = serde_json::from_value(json!({
        "address": parsed.address.to_string(), "export": parsed.export, "description": "",
        "size_bytes": 512, "min_block_bytes": 1, "preferred_block_bytes": 4096,
        "max_payload_bytes": 4096, "tls": false, "structured_replies": false, "block_status": false,
        "read_only": false, "rotational": false, "flush": true, "fua": false, "trim": false,
        "write_zeroes": false, "multi_conn": false
    }))
    .unwrap();
    Inspection { name, kind: Kind::Nbd, nbd: Some(export), ..null() }
}

#[test]
fn a_relative_socket_is_another_one_in_each_folder() {
    let here = std::env::current_dir().unwrap();
    let absolute = format!("nbd:{}/a.sock/x", here.display());
    assert_eq!(written_key(&export("nbd+unix:///x?socket=a.sock")), Some(absolute));
    let key = written_key(&export("nbd+unix:///x?socket=/run/a.sock"));
    assert_eq!(key.as_deref(), Some("nbd:/run/a.sock/x"));
    let key = written_key(&export("nbd://host/x"));
    assert_eq!(key.as_deref(), Some("nbd:host:10809/x"));
}

#[test]
fn a_device_is_known_by_what_lasts_alone() {
    let device = |id: Option<&str>| {
        let device = serde_json::from_value(json!({
            "kernel_name": "dm-0", "dev": "252:0", "lasting_id": id, "serial": "S1", "holders": [],
            "slaves": [], "partitions": []
        }));
        let path = Some("/dev/dm-0".to_owned());
        Inspection {
            kind: Kind::Block,
            device: Some(device.unwrap()),
            canonical_path: path,
            ..null()
        }
    };
    assert_eq!(written_key(&device(Some("dm LVM-a"))).as_deref(), Some("device:dm LVM-a"));
    assert_eq!(written_key(&device(None)), None);
}
