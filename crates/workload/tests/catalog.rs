//! The workloads of the catalog: each can be read, has a description, fits a target, and issues the
//! same stream as when it was published. The stored form reads back as the same workload.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use iodyno_catalog::ValueType;
use iodyno_workload::{Geometry, KEYS, Shared, Spec, Stream, Workload};
use proptest::prelude::*;

fn catalog() -> BTreeMap<String, Workload> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/workloads");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let workload = Workload::from_toml(&fs::read_to_string(&path).unwrap());
            (name.clone(), workload.unwrap_or_else(|errors| panic!("{name}: {errors:?}")))
        })
        .collect()
}

/// FNV-1a of the first 20,000 operations of each of two workers on 64 GiB, from seed 1.
fn stream_hash(spec: &Spec) -> u64 {
    let geometry = Geometry {
        capacity_bytes: 64 << 30,
        align_bytes: spec.align_bytes().min(4096),
        workers: 2,
    };
    let shared = Shared::new(spec, 1, &geometry).unwrap();
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for worker in 0..2 {
        let mut stream = Stream::new(&shared, worker);
        for _ in 0..20_000 {
            let op = stream.next_op();
            for word in
                [op.offset_bytes, op.len_bytes.into(), op.kind.index() as u64, op.fua.into()]
            {
                for byte in word.to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
                }
            }
        }
    }
    hash
}

/// A stream is part of the format: a stored seed must replay. If a hash changes, the change breaks
/// every run that was ever stored, and requires a new schema.
#[test]
fn streams_are_pinned() {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (name, workload) in catalog() {
        if let Workload::Single(spec) = workload {
            found.insert(name, stream_hash(&spec));
        }
    }
    for (name, text) in PATTERNS {
        let text = format!("schema = 1\nmix = {{ read = 2, write = 1 }}\n{text}");
        found.insert((*name).to_owned(), stream_hash(&Spec::from_toml(&text).unwrap()));
    }
    let pinned: BTreeMap<String, u64> =
        PINNED.iter().map(|&(name, hash)| (name.to_owned(), hash)).collect();
    assert_eq!(found, pinned, "{found:#x?}");
}

/// The patterns and draws that no catalog workload has.
const PATTERNS: &[(&str, &str)] = &[
    (
        "pass",
        "all = { addresses = { pattern = \"uniform\", once_per_pass = true } }\nactive = \"0..8MiB\"",
    ),
    ("zipf", "all = { addresses = { pattern = \"zipf\", theta = 0.99 } }"),
    (
        "spots",
        "all = { addresses = { pattern = \"hot-spots\", scatter = true, spots = \
         [{ share = 9, range = \"10%\" }, { share = 1, range = \"90%\" }] } }",
    ),
    ("files", "block = \"16KiB\"\nfile_set = { files = 64, size = \"50%\" }"),
    (
        "files-aged",
        "block = \"16KiB\"\nactive = \"1GiB..90%\"\n\
         file_set = { files = 3, size = \"20GiB\", extent = \"64KiB\" }",
    ),
    ("strided", "all = { addresses = { pattern = \"strided\", stride = \"1MiB\" } }"),
    (
        "sizes",
        "block = [{ size = \"4k\", share = 60 }, { size = \"8k\", share = 40 }]\n\
         write = { fua = \"25%\", flush_every = 7, addresses = \"sequential\" }",
    ),
    ("bursts", "flush = { every = 100, burst = 128 }"),
];

const PINNED: &[(&str, u64)] = &[
    ("archive", 0x17a1_f80c_48f9_d325),
    ("bursts", 0x6a87_9303_819f_697c),
    ("composite-block", 0xcb96_dd1a_b38f_2097),
    ("data-warehouse", 0x13bf_d333_433d_ea6b),
    ("db-oltp", 0x9628_b391_9655_05da),
    ("email", 0x0c86_8aca_9a2a_75ff),
    ("file-server", 0x7553_6b21_c733_e820),
    ("files", 0x7153_b775_26c1_a8cc),
    ("files-aged", 0x7413_0596_f316_f8b2),
    ("log-80-20", 0x5951_e6a5_65bd_547c),
    ("log-write", 0x1c83_e5ec_0f02_3e25),
    ("medical-imaging", 0xfb4d_173f_b2c7_2abb),
    ("oltp-67-33-16k", 0x9bf0_b315_87d9_4bcb),
    ("oltp-67-33-4k", 0x7a6c_6fb3_6118_4c7b),
    ("oltp-67-33-8k", 0xc810_9c96_e0c0_594b),
    ("oltp1", 0x2f2c_41d4_0885_af6f),
    ("oltp2", 0x3432_a95c_9ba1_e922),
    ("oltp3", 0xe87e_6a19_87b3_5aef),
    ("pass", 0x3eb3_198e_876a_df06),
    ("random-read", 0xc3a8_b182_8c4c_13ce),
    ("random-write", 0x7949_43de_5813_0716),
    ("redo-log", 0xf4bb_4309_84c3_d225),
    ("seq-read", 0xfc7c_2a49_6d62_f8e5),
    ("seq-write", 0xa1c2_ba84_5822_a325),
    ("sizes", 0x802b_e63d_d78e_e8c9),
    ("spots", 0xb9f5_48bb_35d6_8cad),
    ("strided", 0x96c5_f043_2be7_70c0),
    ("video-on-demand", 0xc2aa_ee3e_ccd9_37bf),
    ("web-20", 0xc996_b78b_d880_165f),
    ("web-server", 0x1268_11e7_795f_9ae6),
    ("zipf", 0x6375_a24b_93e7_71ad),
];

#[test]
fn every_file_has_a_description_and_a_source() {
    let catalog = catalog();
    let known: Vec<&str> = catalog
        .iter()
        .filter(|(_, workload)| matches!(workload, Workload::Single(_)))
        .map(|(name, _)| name.as_str())
        .collect();
    for (name, workload) in &catalog {
        let source = match workload {
            Workload::Single(spec) => {
                assert!(spec.limits().time_ns.is_some() && spec.limits().ramp_ns == 1_000_000_000);
                spec.source()
            }
            Workload::Group(group) => {
                assert_eq!(group.unknown_members(|name| known.contains(&name)), []);
                group.source.as_deref()
            }
        };
        assert!(source.is_some_and(|source| source.len() > 10), "{name}");
        assert!((10..120).contains(&workload.about().len()), "{name}: {}", workload.about());
    }
    let Workload::Group(corners) = &catalog["four-corners"] else { panic!("a group") };
    let members: Vec<&str> = corners.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(members, ["random-read", "random-write", "seq-read", "seq-write"]);
}

/// Checks the round trip through the stored and the short text, and through JSON, as in the notebook.
fn assert_reads_back(spec: &Spec) {
    for text in [spec.to_toml(), spec.to_short_toml()] {
        let read = Spec::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(&read, spec, "{text}");
    }
    let json = serde_json::to_string(spec).unwrap();
    assert_eq!(&serde_json::from_str::<Spec>(&json).unwrap(), spec, "{json}");
    let value = serde_json::to_value(spec).unwrap();
    assert_eq!(&serde_json::from_value::<Spec>(value).unwrap(), spec);
}

#[test]
fn stored_workloads_read_back_the_same() {
    for workload in catalog().values() {
        if let Workload::Single(spec) = workload {
            assert_reads_back(spec);
        }
    }
    for (_, text) in PATTERNS {
        let text = format!("schema = 1\nmix = {{ read = 2, write = 1 }}\n{text}");
        assert_reads_back(&Spec::from_toml(&text).unwrap());
    }
    assert_reads_back(
        &Spec::from_toml(
            "schema = 1\nabout = \"quotes \\\" and\\nlines \\u0007\"\nsource = '''a\\'b'''\n\
             align = 512\nmix = { trim = 1, write_zeroes = 2 }\n\
             trim = { block = \"1GiB\", addresses = { pattern = \"sequential\", run = 3 } }\n\
             arrivals = { kind = \"open\", rate = 0.1, process = \"constant\" }\n\
             limits = { ops = 5, bytes = \"10GB\", ramp = \"0s\" }",
        )
        .unwrap(),
    );
    for keys in [
        "",
        "message = \"1KiB\", rate = \"1M/s\", publishers = 3, backlog = 5000, when_full = \"drop\", \
         durability = \"each\", batch = 7, commit = 2, readers = 2, replay = 9",
    ] {
        let text = format!("schema = 1\ndepth = 4\nlog = {{ {keys} }}");
        assert_reads_back(&Spec::from_toml(&text).unwrap());
    }
    let refused = serde_json::from_str::<Spec>("{\"schema\":1,\"mix\":{\"read\":1},\"depth\":0}");
    assert!(refused.unwrap_err().to_string().contains("the depth must be a whole number"));
}

/// The example in the documentation of the format is a valid workload.
#[test]
fn the_documented_example_is_right() {
    let text = include_str!("../../../docs/formats/workload.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let spec = Spec::from_toml(example.expect("an example")).unwrap();
    assert_eq!(spec.depth(), 24);
}

/// The documentation of the format names each key in the section of its table, with all words that the key accepts. It
/// names no other keys.
#[test]
fn the_description_has_the_keys_of_the_table() {
    let text = include_str!("../../../docs/formats/workload.md");
    let section = |table: &str| {
        let is_of = |section: &&str| {
            let title = section.lines().next().unwrap_or_default();
            if table.is_empty() {
                title == "Top level"
            } else {
                title.contains(&format!("`[{table}]`"))
            }
        };
        text.split("\n## ").find(is_of).unwrap_or_else(|| panic!("no section of `{table}`"))
    };
    let mut known = Vec::new();
    let mut tables = vec![("", KEYS)];
    while let Some((table, keys)) = tables.pop() {
        for key in keys {
            let own = key.path.rsplit('.').next().unwrap();
            known.push(own);
            match key.value {
                ValueType::Table(keys) if key.path.contains('.') => {
                    // A table in a table is described in its row.
                    assert!(section(table).contains(&format!("`{own}`")), "`{}`", key.path);
                    for key in keys {
                        let own = key.path.rsplit('.').next().unwrap();
                        assert!(section(table).contains(&format!("`{own}")), "`{}`", key.path);
                    }
                }
                ValueType::Table(keys) => tables.push((own, keys)),
                of => {
                    let is_named = section(table).contains(&format!("`{own}`"))
                        || section(table).contains(&format!("`{own} = "));
                    assert!(is_named, "`{}` is not in its section", key.path);
                    if let ValueType::Word(words) | ValueType::Kind(words, _) = of {
                        let of_word = |word: &&str| section(table).contains(&format!("\"{word}\""));
                        assert!(words.iter().all(of_word), "a word of `{}` is missing", key.path);
                    }
                }
            }
        }
    }
    let mut is_of_keys = false;
    for row in text.lines() {
        is_of_keys = row.starts_with("| key |") || is_of_keys && row.starts_with('|');
        if !is_of_keys || !row.starts_with("| `") {
            continue;
        }
        let cell = row.split('|').nth(1).unwrap();
        for key in cell.split(',').map(|key| key.trim().trim_matches('`')) {
            assert!(known.contains(&key), "`{key}` is not a key");
        }
    }
}

/// The short form is as a user would write the file.
#[test]
fn the_short_form_is_a_file_for_people() {
    let text = "schema = 1\nabout = \"a\"\nthreads = 1\ndepth = 4\n\
                block = [{ size = \"4KiB\", share = 60 }, { size = \"8KiB\", share = 40 }]\n\
                active = \"0%..100%\"\nmix = { read = 70, write = 30 }\n\n\
                [read]\naddresses = [{ pattern = \"sequential\", share = 2 }, { pattern = \"zipf\", share = 1, theta = 1.1 }]\n\n\
                [write]\naddresses = { pattern = \"strided\", stride = \"8KiB\", start = \"0B\" }\n\n\
                [flush]\nevery = 1\nburst = 2\n\n\
                [arrivals]\nkind = \"closed\"\nthink_time = \"1500us\"\nthink_drains = true\n\n\
                [limits]\ntime = \"10s\"\nramp = \"1s\"\n";
    let spec = Spec::from_toml(text).unwrap();
    // A table of all kinds has its default where no kind uses it.
    let all = "[all]\naddresses = \"uniform\"\n\n[read]";
    assert_eq!(spec.to_short_toml(), text.replace("[read]", all));
    assert_reads_back(&spec);
}

/// Texts stored by version 1 must stay readable, so `stored-1.toml` must never be edited.
#[test]
fn an_old_stored_workload_is_readable() {
    let stored = include_str!("stored-1.toml");
    let spec = Spec::from_toml(stored).unwrap();
    assert_eq!(spec.threads(), 2);
    assert_eq!(spec.to_toml(), stored, "and it is still stored in the same way");
}

proptest! {
    #[test]
    fn numbers_read_back_exactly(
        share in prop_oneof![1e-9..1e9_f64, 0.0..100.0_f64],
        theta in 1e-6..5.0_f64,
        percent in 1_u64..=1_000_000_000,
        rate in prop_oneof![0.001..10.0_f64, 1.0..1e9_f64],
        blocks in 1_u64..2048,
        time_ns in 1_u64..1 << 50,
        bytes in 1_u64..1 << 62,
        start in 0_u64..1 << 40,
    ) {
        prop_assume!(share > 0.0);
        let percent = percent as f64 / 1e7;
        assert_reads_back(&Spec::from_toml(&format!(
            "schema = 1\nblock = {}\nactive = \"{start}..{percent}%\"\nmix = {{ read = {share:?}, write = 1 }}\n\
             [all]\naddresses = {{ pattern = \"zipf\", theta = {theta:?} }}\n[write]\nfua = \"{percent}%\"\n\
             [arrivals]\nkind = \"open\"\nrate = {rate:?}\n\
             [limits]\ntime = \"{time_ns}ns\"\nbytes = {bytes}",
            blocks * 512,
        )).unwrap());
    }
}
