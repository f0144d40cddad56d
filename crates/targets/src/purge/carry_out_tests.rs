//! Purges of targets that exist on every machine (files, memory), and the order of methods.

use super::*;
use crate::error::RefusalCode;
use crate::guard::Confirm;
use crate::inspect::inspect;
use crate::lay_out::lay_out;
use core::ops::ControlFlow;
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn go_on(_: Option<f64>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn of(path: &Path, options: &str) -> Inspection {
    inspect(&TargetName::parse(&format!("{}{options}", path.display())).unwrap()).unwrap()
}

/// A full file of 3 MiB that iodyno created.
fn ours(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("ours");
    let mut opened = open_inspected(of(&path, "?size=3MiB"), &OpenOptions::read_write()).unwrap();
    let mut go_on = |_, _| ControlFlow::Continue(());
    let mut fill = |buf: &mut [u8], at: u64| {
        for (i, part) in buf.chunks_mut(MIB as usize).enumerate() {
            part.fill((at / MIB) as u8 + i as u8 + 1);
            for sector in part.chunks_mut(512) {
                sector[..16].copy_from_slice(&iodyno_units::mark::mark(at + i as u64));
            }
        }
    };
    lay_out(&mut opened, &mut fill, &mut go_on).unwrap();
    path
}

#[test]
fn a_file_that_iodyno_made_is_emptied_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = ours(dir.path());
    let before = std::fs::metadata(&path).unwrap();
    let mut shares = Vec::new();
    let mut progress = |share| {
        shares.push(share);
        ControlFlow::Continue(())
    };
    let record = purge(of(&path, ""), &PurgeOptions::default(), &mut progress).unwrap();
    assert_eq!(record.method, Some(Method::Discard));
    assert_eq!((&record.outcome, record.verified), (&PurgeOutcome::Purged, Verified::Yes));
    assert!(record.is_purged() && record.lifted.is_empty(), "{record:?}");
    assert_eq!(shares, [Some(1.0)]);
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.len(), after.ino()), (3 * MIB, before.ino()));
    assert!(after.blocks() < before.blocks() / 8, "{} {}", after.blocks(), before.blocks());
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
    // The file stays iodyno's, and the next run lays it out again.
    let again = open_inspected(of(&path, ""), &OpenOptions::read_write()).unwrap();
    assert_eq!(again.lay_out_bytes(), 3 * MIB);
    drop(again);
    // The record survives the notebook.
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<PurgeRecord>(&json).unwrap(), record);
}

#[test]
fn only_the_part_that_was_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = ours(dir.path());
    let record = purge(of(&path, "?size=1MiB"), &PurgeOptions::default(), &mut go_on).unwrap();
    assert!(record.is_purged());
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[..1 << 20].iter().all(|&byte| byte == 0));
    let all = |bytes: &[u8], byte| bytes.chunks(512).all(|sector| sector[16..] == [byte; 496]);
    assert!(all(&bytes[1 << 20..2 << 20], 2) && all(&bytes[2 << 20..], 3));
}

#[test]
fn a_foreign_file_is_left_alone_until_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes");
    let text = vec![b'n'; 1 << 18];
    std::fs::write(&path, &text).unwrap();
    for given in [vec![], vec!["other".to_owned()], vec!["note".to_owned()]] {
        let options = PurgeOptions { method: None, confirm: Confirm(given) };
        match purge(of(&path, ""), &options, &mut go_on) {
            Err(TargetError::Refused(refused)) => {
                assert_eq!(refused.refusals[0].code, RefusalCode::ForeignFile, "{refused}");
            }
            other => panic!("{other:?}"),
        }
        assert!(std::fs::read(&path).unwrap() == text);
    }
    // An impossible method leaves the file alone too, even if confirmed.
    let confirm = Confirm(vec!["notes".to_owned()]);
    let options =
        PurgeOptions { method: Some(Method::NvmeSanitizeBlock), confirm: confirm.clone() };
    let record = purge(of(&path, ""), &options, &mut go_on).unwrap();
    assert!(
        matches!(&record.outcome, PurgeOutcome::NotPossible(why) if why.contains("not a whole device"))
    );
    assert!(!record.is_purged() && record.method.is_none());
    assert!(std::fs::read(&path).unwrap() == text, "not even proof blocks are written");
    let record = purge(of(&path, ""), &PurgeOptions { method: None, confirm }, &mut go_on).unwrap();
    assert!(record.is_purged() && record.lifted[0].contains("did not make"), "{record:?}");
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn an_open_target_must_be_named_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes");
    std::fs::write(&path, vec![b'n'; 1 << 18]).unwrap();
    let confirm = Confirm(vec!["notes".to_owned()]);
    let open = OpenOptions { confirm: confirm.clone(), ..OpenOptions::read_write() };
    let opened = open_inspected(of(&path, ""), &open).unwrap();
    let unnamed = purge_opened(&opened, &PurgeOptions::default(), &mut go_on);
    assert!(matches!(unnamed, Err(TargetError::Refused(_))), "{unnamed:?}");
    let options = PurgeOptions { method: None, confirm };
    assert!(purge_opened(&opened, &options, &mut go_on).unwrap().is_purged());
    drop(opened);
    let opened = open_inspected(of(&path, ""), &OpenOptions::read_only()).unwrap();
    let read_only = purge_opened(&opened, &options, &mut go_on);
    assert!(matches!(read_only, Err(TargetError::Unsupported { .. })), "{read_only:?}");
}

#[test]
fn targets_made_anew_and_targets_that_keep_nothing() {
    let of = |name: &str| inspect(&TargetName::parse(name).unwrap()).unwrap();
    let options = PurgeOptions::default();
    let record = purge(of("ram:1MiB"), &options, &mut go_on).unwrap();
    assert_eq!((record.method, record.is_purged()), (Some(Method::Anew), true));
    let record = purge(of("null:"), &options, &mut go_on).unwrap();
    assert!(matches!(record.outcome, PurgeOutcome::NotPossible(_)));
    let dir = tempfile::tempdir().unwrap();
    let refused = purge(of(&dir.path().display().to_string()), &options, &mut go_on);
    assert!(matches!(refused, Err(TargetError::Refused(_))), "{refused:?}");
}

/// A store that a successful method erases.
struct Store(Vec<u8>);

impl Blocks for Store {
    fn write(&mut self, at_bytes: u64, from: &[u8]) -> Result<(), Errno> {
        self.0[at_bytes as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn read(&mut self, at_bytes: u64, to: &mut [u8]) -> Result<(), Errno> {
        to.copy_from_slice(&self.0[at_bytes as usize..][..to.len()]);
        Ok(())
    }

    fn settle(&mut self) {}
}

type Means = Box<dyn FnMut(&mut Store, Method) -> Carried>;

/// A refused method is followed by the next, a failed one is not; a reported success is checked.
#[test]
fn methods_are_tried_in_order() {
    let plan = || PurgePlan {
        target: "t".to_owned(),
        choices: [Method::NvmeSanitizeBlock, Method::NvmeFormat, Method::Discard]
            .map(|method| Choice { method, possible: true, remark: String::new() })
            .into(),
        chosen: Some(Method::NvmeSanitizeBlock),
        why_not: None,
    };
    let run = |requested: Option<Method>, mut carry_out: Means| {
        let mut tried = Vec::new();
        let options = PurgeOptions { method: requested, ..PurgeOptions::default() };
        let mut store = Store(vec![1; 1 << 20]);
        let record =
            try_methods(plan(), &[], &options, &mut store, 1 << 20, 512, |store, method| {
                tried.push(method);
                carry_out(store, method)
            });
        (record, tried)
    };
    let refused = |_: &mut Store, method| match method {
        Method::Discard => Ok(vec!["done".to_owned()]),
        _ => Err(Setback::Refused("no".to_owned())),
    };
    let (record, tried) = run(None, Box::new(refused));
    assert_eq!(tried.len(), 3);
    assert_eq!((record.method, &record.outcome), (Some(Method::Discard), &PurgeOutcome::Purged));
    assert_eq!(record.verified, Verified::No, "it only claims to have worked");
    assert!(!record.is_purged());
    assert!(!record.considered[0].possible && record.considered[0].remark == "no");
    // The requested method is not replaced by another.
    let (record, tried) = run(Some(Method::NvmeFormat), Box::new(refused));
    assert_eq!((tried, record.method), (vec![Method::NvmeFormat], None));
    assert!(matches!(record.outcome, PurgeOutcome::NotPossible(why) if why == "nvme-format: no"));
    let (record, tried) = run(None, Box::new(|_, _| Err(Setback::Failed("half-way".to_owned()))));
    assert_eq!((tried.len(), record.method), (1, Some(Method::NvmeSanitizeBlock)));
    assert_eq!(record.outcome, PurgeOutcome::Failed("half-way".to_owned()));
    let (record, _) = run(
        None,
        Box::new(|store, _| {
            store.0.fill(0);
            Ok(Vec::new())
        }),
    );
    assert!(record.is_purged() && record.verified == Verified::Yes);
}
