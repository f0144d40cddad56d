//! Errors of invalid device and system files: every message with its position and remedy. The texts are part of the
//! product.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use iodyno_catalog::{File, FileError, Problem};
use iodyno_emulate::describe::{self, DescribedSystem};
use iodyno_emulate::spec::{Device, Host, Preconditioned, System, Written};

fn file(text: &str) -> File {
    File {
        origin: "my/device.toml".to_owned(),
        name: "mine".to_owned(),
        text: text.into(),
        is_named_by_file: false,
    }
}

fn read(text: &str) -> Vec<FileError> {
    let system = text.contains("kind = \"system\"");
    let read = if system {
        describe::system("mine", text, &mut |_| Err(String::new())).err()
    } else {
        describe::device("mine", text).err()
    };
    read.unwrap_or_default()
}

/// The errors of a file, as text.
fn errors_of(text: &str) -> String {
    listed(text, read(text))
}

/// Each error as `FIRST WORD OF THE LINE [text under the caret] message (help)`. Without line
/// numbers, so that a new key in a file changes nothing here.
fn listed(text: &str, errors: Vec<FileError>) -> String {
    let lines = errors.into_iter().map(|error| {
        let line = text[..error.span.start].rfind('\n').map_or(0, |newline| newline + 1);
        let word = text[line..].split_whitespace().next().unwrap_or_default();
        let word = if error.span == (0..0) { "start" } else { word };
        let under = text[error.span.clone()].lines().next().unwrap_or_default();
        let help = error.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{word} [{under}] {}{help}\n", error.message)
    });
    lines.collect::<String>().trim_end().to_owned()
}

const MEMORY: &str = include_str!("small/memory.toml");
const FLASH: &str = include_str!("small/flash.toml");
const DISK: &str = include_str!("small/disk.toml");
const SYSTEM: &str = include_str!("small/system.toml");
/// A class of cloud volumes.
const VOLUME: &str = r#"schema = 1
kind = "device"
family = "volume"
summary = "a volume"
host = "mine"
capacity = { chosen = "size", is = "100GiB", at_least = "1GiB", at_most = "500GiB", from = "assumed: a" }
[volume]
read = { is = "1ms", from = "assumed: a" }
write = { is = "1ms", from = "assumed: a" }
flush = { is = "1ms", from = "assumed: a" }
varying = { is = "0%", from = "assumed: a" }
network = { is = "1 GB/s", from = "assumed: a" }
queue_max = { is = 64, from = "assumed: a" }
[[iops_limit]]
rate = { per_gib = 3, at_least = 100, at_most = 16000, from = "assumed: a" }
window = { is = "1s", from = "assumed: a" }
[[iops_limit]]
rate = { chosen = "iops", is = 3000, at_least = 1000, at_most = 80000, from = "assumed: a" }
window = { is = "1s", from = "assumed: a" }
"#;

/// Replaces parts of a text, each of which must occur exactly once.
fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old:?}");
        text.replace(old, new)
    })
}

#[test]
fn the_small_files_are_right() {
    for text in [MEMORY, FLASH, DISK, SYSTEM, VOLUME] {
        assert_eq!(errors_of(text), "");
    }
}

/// The rendering of an error for users.
#[test]
fn an_error_is_rendered_at_its_position() {
    let text = MEMORY.replace("\"3us\"", "3").replace("flush = { is", "flash = { is");
    let drawn: Vec<String> = read(&text)
        .into_iter()
        .map(|e| Problem::at(&file(&text), e.span, e.message, e.help).to_string())
        .collect();
    assert_eq!(
        drawn.join("\n"),
        r#"error: the parameter `memory.flush` is missing
 --> my/device.toml:7:1
  |
7 | [memory]
  | ^^^^^^^^
  |
  = help: for example `flush = { is = "80us", from = "assumed: why this value" }`
error: `memory.io` must be a time with its unit, not the integer 3
 --> my/device.toml:8:13
  |
8 | io = { is = 3, from = "assumed: usual" }
  |             ^
  |
  = help: use a value such as `"80us"`
error: unknown key `flash`
  --> my/device.toml:13:1
   |
13 | flash = { is = "0ns", from = "assumed: usual" }
   | ^^^^^
   |
   = help: did you mean `flush`? the keys here are `io`, `read`, `write`, `read_passes`, `write_passes`, `flush`, `varying`, `queue`, `protected`"#
    );
}

/// A file of one kind is refused where the other kind is expected.
#[test]
fn a_device_is_no_system() {
    let first_error = |errors: Vec<FileError>| errors[0].to_string();
    assert_eq!(
        first_error(describe::system("mine", MEMORY, &mut |_| Err(String::new())).unwrap_err()),
        "this file is a device, not a system; give a system file"
    );
    let system = "schema = 1\nkind = \"system\"";
    assert_eq!(
        first_error(describe::device("mine", system).unwrap_err()),
        "this file is a system, not a device; give a device file"
    );
}

/// The name of a case, the changes of a small file, and the resulting error.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);

#[test]
fn every_error_of_a_file_is_reported_at_its_position() {
    check("W", WRITTEN);
}

#[test]
fn every_rule_of_devices_is_reported_at_its_key() {
    check("R", DEVICES);
}

#[test]
fn every_rule_of_systems_is_reported_at_its_key() {
    check("S", SYSTEMS);
}

/// A system takes missing values from the systems that `base` names.
#[test]
fn systems_stand_on_others() {
    let texts = |name: &str| match name {
        "server" => Ok(SYSTEM.to_owned()),
        "circle" => {
            Ok("schema = 1\nkind = \"system\"\nsummary = \"x\"\nbase = \"circle\"".to_owned())
        }
        "wrong" => Ok("schema = 1\nkind = \"system\"".to_owned()),
        _ => Err(format!("there is no `{name}`")),
    };
    let on = |base: &str, more: &str| {
        let text =
            format!("schema = 1\nkind = \"system\"\nsummary = \"x\"\nbase = \"{base}\"\n{more}");
        describe::system("mine", &text, &mut |base| texts(base))
    };
    let server = describe::system("mine", SYSTEM, &mut |base| texts(base)).unwrap();
    let based = on("server", "").unwrap();
    assert_eq!((&based.host, &based.adapters), (&server.host, &None));
    assert_eq!(based.parameters, server.parameters);
    let drawers = "[drawers]\ncount = { is = 1, from = \"assumed: x\" }\nbays = { is = 2, from = \"assumed: x\" }\n\
                   rate = { is = \"1 GB/s\", from = \"assumed: x\" }";
    // A table that gives one key has the others from the base.
    let key = |key: &str, value: &str| format!("{key} = {{ is = {value}, from = \"assumed: x\" }}");
    let changed = on("server", &format!("[host]\n{}", key("sockets", "1"))).unwrap();
    assert_eq!(changed.host, Host { sockets: 1, ..server.host.clone() });
    let of = |system: &DescribedSystem| -> BTreeSet<&str> {
        system.parameters.iter().map(|parameter| parameter.key).collect()
    };
    assert_eq!((of(&changed), changed.parameters.len()), (of(&server), server.parameters.len()));
    let rule = format!("[host]\n{}", key("memory", "\"900 GB/s\""));
    let errors = on("server", &rule).unwrap_err();
    assert_eq!(errors[0].rule, Some("memory-bandwidth"));
    for (base, more, expected) in [
        ("nothing", "", "there is no `nothing`"),
        ("circle", "", "the chain of bases is too long"),
        ("wrong", "", "`wrong` has an error in line 1"),
        ("server", "pcie = \"gen3\"", "`pcie` describes adapters"),
        ("server", drawers, "`drawers` describes adapters"),
        ("server", "pcie = \"gen4\"", "`pcie` must be one of"),
    ] {
        let errors = on(base, more).unwrap_err();
        assert!(errors[0].message.contains(expected), "{base} {more}: {errors:?}");
    }
}

fn check(letter: &str, cases: &[Case]) {
    let mut wrong = String::new();
    for (i, (text, changes, expected)) in cases.iter().enumerate() {
        compare(&mut wrong, &format!("{letter}{i}"), &errors_of(&changed(text, changes)), expected);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Changes of the small server, the number of flash DIMMs of 400 GB and of 200 GB in it, and the
/// resulting error.
type Populated = (&'static [(&'static str, &'static str)], usize, usize, &'static str);

/// A broken rule of population is refused with its name, at the line of the system's file to which
/// it applies.
#[test]
fn every_rule_of_population_is_reported_at_its_line() {
    let mut wrong = String::new();
    let half = changed(FLASH, &[("\"400GB\"", "\"200GB\""), ("\"512GiB\"", "\"256GiB\"")]);
    for (i, (changes, large, small, expected)) in POPULATED.iter().enumerate() {
        let text = changed(SYSTEM, changes);
        let system = describe::system("mine", &text, &mut |_| Err(String::new())).unwrap();
        let mut devices = vec![flash_dimm("large", FLASH); *large];
        devices.extend(vec![flash_dimm("small", &half); *small]);
        let broken = System::populate("mine", system.host.clone(), devices).unwrap_err();
        let errors = broken.iter().map(|broken| system.error(broken)).collect();
        compare(&mut wrong, &format!("P{i}"), &listed(&text, errors), expected);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn flash_dimm(name: &str, text: &str) -> (Device, Preconditioned) {
    let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
    (describe::device(name, text).unwrap().device, state)
}

fn compare(wrong: &mut String, case: &str, found: &str, expected: &str) {
    if found != expected {
        let _ = write!(wrong, "=={case}\n{found}\n");
    }
}

/// Flash DIMMs are spread evenly over the sockets, whatever other devices are between them. So are the other devices.
#[test]
fn devices_are_spread_over_the_sockets_by_their_kind() {
    let system = describe::system("mine", SYSTEM, &mut |_| Err(String::new())).unwrap();
    let state = Preconditioned { how: Written::Fresh, fill: 0.0 };
    let memory = describe::device("memory", MEMORY).unwrap().device;
    let pair = [flash_dimm("dimm", FLASH), (memory, state)];
    let devices = (0..12).map(|i| pair[i % 2].clone()).collect();
    let system = System::populate("mine", system.host, devices).unwrap();
    let sockets: Vec<u32> = system.devices().map(|placed| placed.socket).collect();
    assert_eq!(sockets, [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]);
}

const WRITTEN: &[Case] = &[
    (
        MEMORY,
        &[("schema = 1", "schema = 2")],
        "schema [2] this file has schema 2; this version of iodyno reads schema 1 (use a newer iodyno)",
    ),
    (
        MEMORY,
        &[(
            "schema = 1\n",
            r#"schema = "1"
"#,
        )],
        r#"schema ["1"] `schema` must be a whole number, not the text "1" (set `schema = 1`)"#,
    ),
    (MEMORY, &[("schema = 1\n", "")], "start [] the key `schema` is missing (set `schema = 1`)"),
    (
        MEMORY,
        &[(
            r#"kind = "device"
"#,
            "",
        )],
        r#"start [] the key `kind` is missing (set `kind = "device"`)"#,
    ),
    (
        MEMORY,
        &[(r#"kind = "device""#, r#"kind = "workload""#)],
        r#"kind ["workload"] this file is a workload, not a device (give a device file)"#,
    ),
    (
        MEMORY,
        &[(
            r#"family = "memory"
"#,
            "",
        )],
        r#"start [] the key `family` is missing (for example `family = "flash"`)"#,
    ),
    (
        MEMORY,
        &[(r#"family = "memory""#, r#"family = "memroy""#)],
        r#"family ["memroy"] `family` must be one of `"flash"`, `"disk"`, `"memory"`, `"volume"` (did you mean "memory"?)"#,
    ),
    (
        MEMORY,
        &[(
            r#"summary = "a RAM disk"
"#,
            r#"summary = " "
"#,
        )],
        r#"summary [" "] `summary` is empty (use a value such as `"what it is, in one line"`)"#,
    ),
    (
        MEMORY,
        &[(
            r#"summary = "a RAM disk"
host = "rtp"
"#,
            "host = 5\n",
        )],
        r#"start [] the key `summary` is missing (for example `summary = "what it is, in one line"`)
host [5] `host` must be a text in quotes, not the integer 5 (use a value such as `"x3850-x6"`)"#,
    ),
    (
        MEMORY,
        &[("[memory]", "[memmory]")],
        "family [\"memory\"] the table `[memory]` is missing (the table has the keys `io`, `read`, `write`, `read_passes`, `write_passes`, `flush`, `varying`, `queue`, `protected`)\n[memmory] [memmory] unknown key `memmory` (did you mean `memory`? the keys here are `schema`, `kind`, `family`, `summary`, `host`, `capacity`, `bay`, `power`, `iops_limit`, `throughput_limit`, `memory`)",
    ),
    (
        MEMORY,
        &[(
            r#"capacity = { is = "1GiB", from = "assumed: small" }
[memory]
"#,
            "memory = 5\n[x]\n",
        )],
        r#"start [] the parameter `capacity` is missing (for example `capacity = { is = "1MiB", from = "assumed: why this value" }`)
memory [5] `memory` must be a table, not the integer 5 (use `[memory]`)
[x] [x] unknown key `x` (the keys here are `schema`, `kind`, `family`, `summary`, `host`, `capacity`, `bay`, `power`, `iops_limit`, `throughput_limit`, `memory`)"#,
    ),
    (
        MEMORY,
        &[(r#""3us""#, "3")],
        r#"io [3] `memory.io` must be a time with its unit, not the integer 3 (use a value such as `"80us"`)"#,
    ),
    (
        MEMORY,
        &[(r#""3us""#, r#""3""#)],
        r#"io ["3"] `memory.io`: `3` has no unit of time: use a number with ns, us, ms, s, m, h or d, such as `5s`, `200us` or `1m30s`"#,
    ),
    (
        MEMORY,
        &[(r#""3us""#, r#""80MiB""#)],
        r#"io ["80MiB"] `memory.io`: `80MiB` is not a duration: use a number with ns, us, ms, s, m, h or d, such as `5s`, `200us` or `1m30s`"#,
    ),
    (MEMORY, &[(r#""3us""#, r#""3s""#)], r#"io ["3s"] `memory.io` must be from 0 ns to 1 ms"#),
    (
        MEMORY,
        &[(r#""1GiB""#, r#""80us""#)],
        r#"capacity ["80us"] `capacity`: `80us` is not a size: use a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)"#,
    ),
    (
        MEMORY,
        &[(r#""1GiB""#, r#""1073741824""#)],
        r#"capacity ["1073741824"] `capacity` must be a size with its unit, not the text "1073741824" (use a value such as `"1MiB"`)"#,
    ),
    (
        MEMORY,
        &[(r#""1GiB""#, "1073741824")],
        r#"capacity [1073741824] `capacity` must be a size with its unit, not the integer 1073741824 (use a value such as `"1MiB"`)"#,
    ),
    (
        MEMORY,
        &[(r#""1GiB""#, r#""4KiB""#)],
        r#"capacity ["4KiB"] `capacity` must be from 1 MiB to 1 PiB"#,
    ),
    (
        MEMORY,
        &[(r#"read = { is = "6 GB/s""#, r#"read = { is = "6 Gb/s""#)],
        r#"read ["6 Gb/s"] `memory.read`: `6 Gb/s` is not a bandwidth: give bytes per second, above 0, with B/s, kB/s, MB/s, GB/s (powers of 1000), KiB/s, MiB/s or GiB/s (powers of 1024), such as `405 MB/s`"#,
    ),
    (
        MEMORY,
        &[(r#"read = { is = "6 GB/s""#, "read = { is = 6")],
        r#"read [6] `memory.read` must be a bandwidth with its unit, not the integer 6 (use a value such as `"405 MB/s"`)"#,
    ),
    (
        MEMORY,
        &[(r#"read = { is = "6 GB/s""#, r#"read = { is = "6 kB/s""#)],
        r#"read ["6 kB/s"] `memory.read` must be from 1 MB/s to 100 GB/s"#,
    ),
    (
        MEMORY,
        &[("read_passes = { is = 2", r#"read_passes = { is = "2""#)],
        r#"read_passes ["2"] `memory.read_passes` must be a number, not the text "2" (use a value such as `2.5`)"#,
    ),
    (
        MEMORY,
        &[("read_passes = { is = 2", "read_passes = { is = -0.5")],
        "read_passes [-0.5] `memory.read_passes` must be from 0 to 10",
    ),
    (
        MEMORY,
        &[("read_passes = { is = 2", "read_passes = { is = nan")],
        "read_passes [nan] `memory.read_passes` must be from 0 to 10",
    ),
    (
        MEMORY,
        &[("is = false", r#"is = "no""#)],
        r#"protected ["no"] `memory.protected` must be `true` or `false`, not the text "no" (use a value such as `true`)"#,
    ),
    (
        MEMORY,
        &[(r#"flush = { is = "0ns", from = "assumed: usual" }"#, r#"flush = "0ns""#)],
        r#"flush ["0ns"] the parameter `memory.flush` has no source (set `flush = { is = "0ns", from = "assumed: why this value" }`)"#,
    ),
    (
        MEMORY,
        &[(r#"flush = { is = "0ns", from = "assumed: usual" }"#, "flush = 5")],
        r#"flush [5] the parameter `memory.flush` has no source (set `flush = { is = 5, from = "assumed: why this value" }`)"#,
    ),
    (
        MEMORY,
        &[(r#"flush = { is = "0ns", from = "assumed: usual" }"#, r#"flush = { is = "0ns" }"#)],
        r#"flush [{ is = "0ns" }] the parameter `memory.flush` has no source (set `flush = { is = "0ns", from = "assumed: why this value" }`)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { from = "assumed: usual" }"#,
        )],
        r#"flush [{ from = "assumed: usual" }] the parameter `memory.flush` has no value (set `flush = { is = "80us", from = "assumed: why this value" }`)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { is = "0ns", form = "assumed: usual" }"#,
        )],
        r#"flush [{ is = "0ns", form = "assumed: usual" }] the parameter `memory.flush` has no source (set `flush = { is = "0ns", from = "assumed: why this value" }`)
flush [form] unknown key `form` (did you mean `from`? the keys here are `is`, `from`)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { is = "0ns", from = 3 }"#,
        )],
        "flush [3] `from` of `memory.flush` must be a text in quotes, not the integer 3 (give one of `printed`, `data sheet`, `derived`, `fitted` and `assumed`, then `: ` and a text)",
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { is = "0ns", from = "assume: usual" }"#,
        )],
        r#"flush ["assume: usual"] `from` of `memory.flush` has an unknown source: "assume" (did you mean `assumed`? give one of `printed`, `data sheet`, `derived`, `fitted` and `assumed`, then `: ` and a text)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { is = "0ns", from = "fitted" }"#,
        )],
        r#"flush ["fitted"] `from` of `memory.flush` is only `fitted`, without an explanation (use `fitted: ` and the published number that the value is fitted to)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }"#,
            r#"flush = { is = "0ns", from = "derived: " }"#,
        )],
        r#"flush ["derived: "] `from` of `memory.flush` is only `derived`, without an explanation (use `derived: ` and the method of derivation and the numbers that it uses)"#,
    ),
    (
        MEMORY,
        &[(
            r#"flush = { is = "0ns", from = "assumed: usual" }
"#,
            "",
        )],
        r#"[memory] [[memory]] the parameter `memory.flush` is missing (for example `flush = { is = "80us", from = "assumed: why this value" }`)"#,
    ),
];

const DEVICES: &[Case] = &[
    (
        MEMORY,
        &[(
            "[memory]",
            "[iops_limit]\nrate = { at_most = 3, from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\n[memory]",
        )],
        r#"rate [{ at_most = 3, from = "assumed: a" }] the rule has bounds but no value (rule `limit-rule`) (add `is`, `per_gib`, `per_iops`, `by_size` or `lasts`, whichever the key allows)"#,
    ),
    (
        MEMORY,
        &[(
            "[memory]",
            "[throughput_limit]\nrate = { chosen = \"MB/s\", from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\n[memory]",
        )],
        r#"rate [{ chosen = "MB/s", from = "assumed: a" }] a value that users can choose needs a default (rule `limit-rule`) (add `is`)"#,
    ),
    (
        MEMORY,
        &[("capacity = { is", "capacity = { chosen = \"size\", at_most = \"1TiB\", is")],
        r#"capacity [{ chosen = "size", at_most = "1TiB", is = "1GiB", from = "assumed: small" }] only a cloud volume has a size that can be chosen (write `is` alone)"#,
    ),
    (
        MEMORY,
        &[(
            "[memory]",
            "[iops_limit]\nrate = { is = 3, from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\nburst = { is = 5, from = \"assumed: a\" }\n[memory]",
        )],
        "burst [5] `iops_limit.credits` is missing, which `burst` requires (rule `burst-credits`) (without `burst` and `credits`, the rate is never exceeded for longer than `window`)",
    ),
    (
        MEMORY,
        &[(
            "[memory]",
            "[iops_limit]\nrate = { is = 3, from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\nburst = { is = 3, from = \"assumed: a\" }\ncredits = { is = 9, from = \"assumed: a\" }\nstart = { is = 1, from = \"assumed: a\" }\n[memory]",
        )],
        "burst [3] the burst rate must be above the rate (rule `burst-above-rate`) (for a limit that never bursts, leave out `burst` and `credits`)",
    ),
    (
        MEMORY,
        &[(
            "[memory]",
            "[throughput_limit]\nrate = { is = \"3 MB/s\", from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\nmerge = { is = true, from = \"assumed: a\" }\n[memory]",
        )],
        "merge [true] `throughput_limit.account` is missing, which `merge` requires (rule `account-merge`) (without `account` and `merge`, the size of an I/O is not rounded)",
    ),
    (
        MEMORY,
        &[(
            "[memory]",
            "[throughput_limit]\nrate = { is = 3, from = \"assumed: a\" }\nwindow = { is = \"1s\", from = \"assumed: a\" }\n[memory]",
        )],
        "rate [3] `throughput_limit.rate` must be a bandwidth with its unit, not the integer 3 (use a value such as `\"405 MB/s\"`)",
    ),
    (
        FLASH,
        &[(r#"capacity = { is = "400GB""#, r#"capacity = { is = "400000000512B""#)],
        r#"capacity ["400000000512B"] the capacity of a flash device must be a multiple of 4 KiB (rule `capacity-units`) (the next multiple is "390625004KiB")"#,
    ),
    (
        MEMORY,
        &[(r#""1GiB""#, r#""16000000001B""#)],
        r#"capacity ["16000000001B"] the capacity of a device must be a multiple of 512 B (rule `capacity-sectors`) (the next multiple is "16000000512B")"#,
    ),
    (
        FLASH,
        &[
            (
                r#"
page = { is = "8KiB""#,
                r#"
page = { is = "12KiB""#,
            ),
            (r#""512GiB""#, r#""768GiB""#),
        ],
        r#"page ["12KiB"] a flash page must be a power of two, and at least 4 KiB (rule `page`) ("8KiB" and "16KiB" are usual)"#,
    ),
    (
        FLASH,
        &[(
            r#"
page = { is = "8KiB""#,
            r#"
page = { is = "2KiB""#,
        )],
        r#"page ["2KiB"] a flash page must be a power of two, and at least 4 KiB (rule `page`) ("8KiB" and "16KiB" are usual)"#,
    ),
    (
        FLASH,
        &[(r#""512GiB""#, r#""511.9GiB""#)],
        r#"raw ["511.9GiB"] the raw space must be a multiple of one block on every plane of every die, 256 MiB (rule `whole-blocks`) (the next multiple is "512GiB")"#,
    ),
    (
        FLASH,
        &[("pages_per_block = { is = 256", "pages_per_block = { is = 65536")],
        r#"raw ["512GiB"] 8 blocks on each plane are too few for garbage collection: the minimum is 16 (rule `enough-blocks`) (fewer dies, fewer planes or smaller blocks give more blocks per plane)"#,
    ),
    (
        FLASH,
        &[(r#""512GiB""#, r#""256GiB""#)],
        r#"raw ["256GiB"] the raw space, 256 GiB, must be larger than the capacity, 373 GiB (rule `raw-above-capacity`) (400 GB are usually built from 512 GiB of NAND)"#,
    ),
    (
        FLASH,
        &[("pages_per_block = { is = 256", "pages_per_block = { is = 32768")],
        "pages_per_block [32768] each plane has only 15 blocks that are not reserved, too few for this capacity: the minimum is 18, of which 6 are open, free or spare (rule `spare-blocks`) (smaller blocks waste less of the space; more raw space gives more blocks)",
    ),
    (
        FLASH,
        &[(r#""3%""#, r#""27%""#)],
        r#"reserved ["27%"] with 374 GiB of unreserved raw space, only 0.3 % is spare for writes; the minimum is 1 % (rule `spare`) (reserve at most 26.5% of this raw space)"#,
    ),
    (FLASH, &[(r#""3%""#, "1")], "reserved [1] `translation.reserved` must be from 0% to 90%"),
    (
        FLASH,
        &[(r#""600us""#, r#""2.1ms""#)],
        r#"program_fast ["2.1ms"] a fast page must not take longer to program than a slow page (rule `program-order`) (for NAND with only one kind of page, use the same time for both)"#,
    ),
    (
        FLASH,
        &[("\nlanes = { is = 2", "\nlanes = { is = 3")],
        "lanes [3] 16 channels can't be divided among 3 lanes (rule `lanes`) (one lane is always valid)",
    ),
    (
        FLASH,
        &[
            (r#"read_command = { is = "0ns""#, r#"read_command = { is = "1us""#),
            (r#"write_command = { is = "0ns""#, r#"write_command = { is = "2us""#),
        ],
        r#"read_command ["1us"] on a memory channel the driver thread handles commands, so the controller must not take time for them (rule `commands-by-thread`) (use `"0ns"`, and give the thread's time as `memory_channel.command`)
write_command ["2us"] on a memory channel the driver thread handles commands, so the controller must not take time for them (rule `commands-by-thread`) (use `"0ns"`, and give the thread's time as `memory_channel.command`)"#,
    ),
    (
        FLASH,
        &[("parity_stripe = { is = 15", "parity_stripe = { is = 128")],
        "parity_stripe [128] a stripe of 128 data pages and 1 parity page needs more than 128 planes (rule `parity-stripe`) (use 0 for a device without parity)",
    ),
    (
        FLASH,
        &[(r#""2MiB""#, r#""8KiB""#)],
        r#"size ["8KiB"] the buffer must hold at least one program operation, 16 KiB (a page on each plane of a die) (rule `buffer`)"#,
    ),
    (
        FLASH,
        &[(r#"poll = { is = "0ns""#, r#"poll = { is = "26us""#)],
        r#"poll_crowded ["25us"] a driver thread on a crowded socket must not poll more often than a thread with its own core (rule `poll`)"#,
    ),
    (
        FLASH,
        &[("dies_per_channel = { is = 4", "dies_per_channel = { is = 0")],
        "dies_per_channel [0] `nand.dies_per_channel` must be from 1 to 64",
    ),
    (
        FLASH,
        &[("\nchannels = { is = 16", "\nchannels = { is = -16")],
        "channels [-16] `nand.channels` must be from 1 to 256",
    ),
    (
        FLASH,
        &[(r#""57%""#, "57")],
        "page_split [57] `controller.page_split` must be from 0% to 100%",
    ),
    (
        FLASH,
        &[("[memory_channel]", "[link]")],
        r#"[link] [[link]] the parameters `link.read`, `link.write`, `link.full_duplex`, `link.latency`, `link.queue_max`, `link.host`, `link.host_rate` are missing (for example `read = { is = "405 MB/s", from = "assumed: why this value" }`)
devices_per_thread [devices_per_thread] unknown key `devices_per_thread` (the keys here are `read`, `write`, `full_duplex`, `command`, `latency`, `queue_max`, `host`, `host_rate`)
read_copy [read_copy] unknown key `read_copy` (the keys here are `read`, `write`, `full_duplex`, `command`, `latency`, `queue_max`, `host`, `host_rate`)
write_copy [write_copy] unknown key `write_copy` (the keys here are `read`, `write`, `full_duplex`, `command`, `latency`, `queue_max`, `host`, `host_rate`)
poll [poll] unknown key `poll` (the keys here are `read`, `write`, `full_duplex`, `command`, `latency`, `queue_max`, `host`, `host_rate`)
poll_crowded [poll_crowded] unknown key `poll_crowded` (the keys here are `read`, `write`, `full_duplex`, `command`, `latency`, `queue_max`, `host`, `host_rate`)"#,
    ),
    (
        FLASH,
        &[
            ("\nplanes = { is = 2", "\nplanes = { is = 16"),
            (
                r#"
page = { is = "8KiB""#,
                r#"
page = { is = "16KiB""#,
            ),
        ],
        "planes [16] one program operation writes 256 KiB, a page on each plane of a die; the maximum is 128 KiB (rule `program-size`) (if the planes of a die work independently, describe each as a die)",
    ),
    (
        FLASH,
        &[("[memory_channel]", "[x]")],
        "start [] the table `[memory_channel]` or `[link]` is missing (use `[memory_channel]` for a device in a memory slot, and `[link]` for a device on SATA, SAS or PCIe)\n[x] [x] unknown key `x` (the keys here are `schema`, `kind`, `family`, `summary`, `host`, `capacity`, `bay`, `power`, `iops_limit`, `throughput_limit`, `memory_channel`, `link`, `controller`, `nand`, `variation`, `slc`, `folding`, `buffer`, `translation`, `zones`, `placement`, `power_cut`, `stall`, `endurance`)",
    ),
    (
        FLASH,
        &[("[controller]", "[link]\n\n[controller]")],
        r#"[link] [[link]] the parameters `link.read`, `link.write`, `link.full_duplex`, `link.command`, `link.latency`, `link.queue_max`, `link.host`, `link.host_rate` are missing (for example `read = { is = "405 MB/s", from = "assumed: why this value" }`)
[link] [[link]] a device must be attached in exactly one way: `[memory_channel]` or `[link]` (remove one of them)"#,
    ),
    (
        FLASH,
        &[
            (
                "[endurance]",
                r#"[slc]
size = { is = "512GiB", from = "assumed: too much" }
program = { is = "300us", from = "assumed: usual" }
[endurance]"#,
            ),
            (r#"raw = { is = "512GiB""#, r#"raw = { is = "500GiB""#),
        ],
        r#"size ["512GiB"] the SLC cache must be smaller than the raw space (rule `slc-in-raw`)"#,
    ),
    (
        FLASH,
        &[(
            "[endurance]",
            r#"[folding]
bits = { is = 3, from = "assumed: TLC" }
program = { is = "1ms", from = "assumed: usual" }
share = { is = "25%", from = "assumed: usual" }
pause = { is = "1s", from = "assumed: usual" }
[endurance]"#,
        )],
        "bits [3] `[folding]` empties an SLC cache, which this device lacks (rule `folding-slc`) (add `[slc]`)",
    ),
    (
        DISK,
        &[(r#""300GB""#, r#""300000000001B""#)],
        r#"capacity ["300000000001B"] the capacity of a device must be a multiple of 512 B (rule `capacity-sectors`) (the next multiple is "300000000512B")"#,
    ),
    (
        DISK,
        &[(r#""93 MB/s""#, r#""169 MB/s""#)],
        r#"inner ["169 MB/s"] the innermost zone must not be faster than the outermost zone, whose tracks are longer (rule `outer-above-inner`)"#,
    ),
    (
        DISK,
        &[(r#""3.8ms""#, r#""6ms""#)],
        r#"average ["6ms"] this average is impossible for a seek curve that rises with distance (rule `seek-curve`) (for seek times from 300 µs to 7.80 ms, the average must be 2.80 ms to 5.80 ms)"#,
    ),
    (
        DISK,
        &[(r#""7.8ms""#, r#""0.2ms""#)],
        r#"full_stroke ["0.2ms"] a seek over all tracks must not take less time than a seek to the next track (rule `seek-curve`)"#,
    ),
    (
        DISK,
        &[(r#""168 MB/s""#, r#""60 GB/s""#)],
        r#"outer ["60 GB/s"] a track would hold 375 MiB, but the emulator's maximum is 256 MiB (rule `platters`) (lower `outer`, or raise `rpm`)"#,
    ),
    (
        DISK,
        &[
            (r#""300GB""#, r#""1PiB""#),
            (r#""168 MB/s""#, r#""1 MB/s""#),
            (r#""93 MB/s""#, r#""1 MB/s""#),
        ],
        r#"capacity ["1PiB"] the disk would have 84.6 G cylinders, but the emulator's maximum is 268 M (rule `platters`) (raise `outer`, `inner` or `heads`)"#,
    ),
    (
        VOLUME,
        &[(r#"chosen = "size", "#, "")],
        r#"capacity [{ is = "100GiB", at_least = "1GiB", at_most = "500GiB", from = "assumed: a" }] a size with bounds must be one that users can choose (add `chosen = "size"`)"#,
    ),
    (
        VOLUME,
        &[(r#"is = "100GiB""#, r#"is = "1TiB""#)],
        r#"capacity [{ chosen = "size", is = "1TiB", at_least = "1GiB", at_most = "500GiB", from = "assumed: a" }] the default size must lie within its bounds (give the key `is` a value between `at_least` and `at_most`)"#,
    ),
    (
        VOLUME,
        &[("at_least = 100,", "at_least = 20000,")],
        r#"rate [{ per_gib = 3, at_least = 20000, at_most = 16000, from = "assumed: a" }] `at_least` must not be above `at_most` (rule `limit-rule`) (leave one of them out)"#,
    ),
    (
        VOLUME,
        &[(
            "at_most = 16000, from = \"assumed: a\" }",
            "at_most = 16000, from = \"assumed: a\" }\nburst = { is = 20000, from = \"assumed: a\" }\ncredits = { is = 5, lasts = \"1800s\", from = \"assumed: a\" }",
        )],
        r#"credits [{ is = 5, lasts = "1800s", from = "assumed: a" }] `lasts` can't be combined with another value (rule `limit-rule`) (leave the other keys out)"#,
    ),
    (
        VOLUME,
        &[("is = 3000", "is = 90000")],
        r#"rate [{ chosen = "iops", is = 90000, at_least = 1000, at_most = 80000, from = "assumed: a" }] the default must lie within its bounds (rule `limit-rule`) (give the key `is` a value between `at_least` and `at_most`)"#,
    ),
];

const SYSTEMS: &[Case] = &[
    (
        SYSTEM,
        &[(r#""85.3 GB/s""#, r#""96 GB/s""#)],
        r#"memory ["96 GB/s"] the memory of a socket can't reach 96.0 GB/s: its 8 channels together reach 85.3 GB/s (rule `memory-bandwidth`)"#,
    ),
    (
        SYSTEM,
        &[(r#""75%""#, r#""0%""#)],
        r#"unbalanced ["0%"] an unbalanced channel must have some bandwidth left (rule `unbalanced`) (use `"100%"` for no loss)"#,
    ),
    (
        SYSTEM,
        &[(r#"is = "rdimm""#, r#"is = "rdim""#)],
        r#"memory_kind ["rdim"] `slots.memory_kind` must be one of `"rdimm"`, `"lrdimm"`, `"udimm"` (did you mean "rdimm"?)"#,
    ),
    (
        SYSTEM,
        &[(r#"is = "independent""#, "is = 1")],
        r#"memory_mode [1] `slots.memory_mode` must be one of `"independent"`, `"lockstep"`, `"sparing"`, `"mirroring"`, not the integer 1 (use a value such as `"independent"`)"#,
    ),
    (
        SYSTEM,
        &[(
            r#"device = "exflash-400g"
"#,
            "",
        )],
        r#"[[volumes]] [[[volumes]]] the key `device` is missing (for example `device = "exflash-400g"`)"#,
    ),
    (
        SYSTEM,
        &[(r#"device = "exflash-400g""#, "device = 400")],
        r#"device [400] `device` must be a text in quotes, not the integer 400 (use a value such as `"exflash-400g"`)"#,
    ),
    (
        SYSTEM,
        &[("count = 32", "count = 0\ncounts = 3")],
        "count [0] `count` must be from 1 to 1024\ncounts [counts] unknown key `counts` (did you mean `count`? the keys here are `device`, `count`, `read_cache`, `read_cache_size`)",
    ),
    (
        SYSTEM,
        &[
            (
                r#"[[volumes]]
device = "exflash-400g"
count = 32
"#,
                "",
            ),
            ("[host]", "volumes = [32]\n[host]"),
        ],
        r#"volumes [32] each item of `volumes` must be a table, not the integer 32 (use a value such as `{ device = "exflash-400g" }`)"#,
    ),
    (
        SYSTEM,
        &[
            (
                r#"[[volumes]]
device = "exflash-400g"
count = 32
"#,
                "",
            ),
            ("[host]", "volumes = 32\n[host]"),
        ],
        r#"volumes [32] `volumes` must be an array of tables, not the integer 32 (use a value such as `[{ device = "exflash-400g" }]`)"#,
    ),
    (
        SYSTEM,
        &[("[slots]", "[slot]")],
        "start [] table [slots] is missing in this file and in its `base`\n[slot] [slot] unknown key `slot` (did you mean `slots`? the keys here are `schema`, `kind`, `summary`, `base`, `pcie`, `volumes`, `iops_limit`, `throughput_limit`, `host`, `slots`, `adapters`, `gen1`, `gen2`, `gen3`, `cache`, `drawers`)",
    ),
];

const POPULATED: &[Populated] = &[
    (
        &[],
        33,
        0,
        "flash_dimms_per_socket [8] 33 flash DIMMs are too many for this system, which has slots for 32, 8 on each socket (rule `flash-dimm-slots`)\nchannels_per_socket [8] 9 flash DIMMs on one socket with 8 memory channels: each channel can have at most one (rule `one-flash-dimm-per-channel`)",
    ),
    (
        &[("flash_dimms_per_socket = { is = 8", "flash_dimms_per_socket = { is = 0")],
        1,
        0,
        "flash_dimms_per_socket [0] this system has no slots for flash DIMMs (rule `flash-dimm-slots`)",
    ),
    (
        &[("flash_dimms_per_socket = { is = 8", "flash_dimms_per_socket = { is = 16")],
        33,
        0,
        "channels_per_socket [8] 9 flash DIMMs on one socket with 8 memory channels: each channel can have at most one (rule `one-flash-dimm-per-channel`)",
    ),
    (
        &[("rdimms_per_channel = { is = 1", "rdimms_per_channel = { is = 0")],
        1,
        0,
        "rdimms_per_channel [0] a flash DIMM needs at least one RDIMM in its memory channel, and there is none (rule `rdimm-beside-flash-dimm`)",
    ),
    (
        &[(r#"is = "rdimm""#, r#"is = "lrdimm""#)],
        1,
        0,
        r#"memory_kind ["lrdimm"] flash DIMMs work only together with RDIMMs; this system has LRDIMMs (rule `rdimms-only`)"#,
    ),
    (
        &[(r#"is = "rdimm""#, r#"is = "udimm""#)],
        1,
        0,
        r#"memory_kind ["udimm"] flash DIMMs work only together with RDIMMs; this system has UDIMMs (rule `rdimms-only`)"#,
    ),
    (
        &[(r#"is = "independent""#, r#"is = "lockstep""#)],
        1,
        0,
        r#"memory_mode ["lockstep"] flash DIMMs need memory channels in independent mode; this system has lockstep (rule `independent-mode-only`)"#,
    ),
    (
        &[(r#"is = "independent""#, r#"is = "sparing""#)],
        1,
        0,
        r#"memory_mode ["sparing"] flash DIMMs need memory channels in independent mode; this system has sparing (rule `independent-mode-only`)"#,
    ),
    (
        &[(r#"is = "independent""#, r#"is = "mirroring""#)],
        1,
        0,
        r#"memory_mode ["mirroring"] flash DIMMs need memory channels in independent mode; this system has mirroring (rule `independent-mode-only`)"#,
    ),
    (
        &[],
        2,
        1,
        "[[volumes]] [[[volumes]]] all flash DIMMs of a server must have the same capacity, but `large` and `small` differ (rule `one-flash-dimm-capacity`)",
    ),
    (
        &[],
        0,
        0,
        "[[volumes]] [[[volumes]]] a system must have 1 to 1024 devices, not 0 (rule `device-count`)",
    ),
    (
        &[
            (r#"is = "independent""#, r#"is = "lockstep""#),
            ("rdimms_per_channel = { is = 1", "rdimms_per_channel = { is = 0"),
            (r#"is = "rdimm""#, r#"is = "lrdimm""#),
        ],
        17,
        17,
        r#"flash_dimms_per_socket [8] 34 flash DIMMs are too many for this system, which has slots for 32, 8 on each socket (rule `flash-dimm-slots`)
channels_per_socket [8] 9 flash DIMMs on one socket with 8 memory channels: each channel can have at most one (rule `one-flash-dimm-per-channel`)
rdimms_per_channel [0] a flash DIMM needs at least one RDIMM in its memory channel, and there is none (rule `rdimm-beside-flash-dimm`)
memory_kind ["lrdimm"] flash DIMMs work only together with RDIMMs; this system has LRDIMMs (rule `rdimms-only`)
memory_mode ["lockstep"] flash DIMMs need memory channels in independent mode; this system has lockstep (rule `independent-mode-only`)
[[volumes]] [[[volumes]]] all flash DIMMs of a server must have the same capacity, but `large` and `small` differ (rule `one-flash-dimm-capacity`)"#,
    ),
];
