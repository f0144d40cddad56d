//! Tests trace formats of other tools and published collections: meaning of columns, completions, selections, and
//! errors that name the format.

use crate::trace_samples;

use iodyno_exchange::trace::{BlockAction, Format, Selection, TraceFile, read};
use iodyno_units::OpKind::{Flush, Read, Trim, Write};
use trace_samples::{
    ALIBABA, BIOSNOOP, BIOSNOOP_QUEUED, CLOUDPHYSICS, FTRACE, MSR, PERF, SPC, SYSTOR, TENCENT,
    VSCSI, file, reading, refusal, rows, vscsi,
};

const MIB: u64 = 1 << 20;

fn issued(text: &str) -> TraceFile {
    let chosen = Selection { action: BlockAction::Issue, ..Selection::default() };
    reading(text, &chosen).unwrap_or_else(|e| panic!("{e}"))
}

fn only(text: &str, name: &str) -> TraceFile {
    let chosen = Selection { only: vec![name.to_owned()], ..Selection::default() };
    reading(text, &chosen).unwrap_or_else(|e| panic!("{e}"))
}

fn responses(file: &TraceFile) -> Vec<Option<u64>> {
    rows(file).into_iter().map(|row| row.4).collect()
}

/// Lines of blkparse for one device, from time in µs, action and the rest of the line.
fn blk(events: &[(u64, &str, &str)]) -> String {
    let line = |(us, action, rest): &(u64, &str, &str)| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        format!("  8,0 1 1 {s}.{us:06}000 100 {action} {rest}\n")
    };
    events.iter().map(line).collect()
}

/// A completion belongs to the latest operation of its device, start, length and kind.
#[test]
fn a_completion_belongs_to_its_own_operation() {
    const US: u64 = 1000;
    type Case<'a> = (&'a [(u64, &'a str, &'a str)], &'a [Option<u64>], &'a str);
    let cases: [Case<'_>; 12] = [
        // Another kind, another length, another start.
        (
            &[(0, "D", "W 100 + 16 [a]"), (90, "C", "R 100 + 16 [0]")],
            &[None],
            "1 completion matches",
        ),
        (
            &[(0, "D", "W 100 + 16 [a]"), (90, "C", "W 100 + 24 [0]")],
            &[None],
            "1 completion matches",
        ),
        (
            &[(0, "D", "W 100 + 16 [a]"), (90, "C", "W 108 + 8 [0]")],
            &[None],
            "1 completion matches",
        ),
        // Further flags of RWBS do not matter.
        (&[(0, "D", "WS 100 + 16 [a]"), (90, "C", "WSM 100 + 16 [0]")], &[Some(90 * US)], ""),
        // A repeated operation: the completion of the first was lost.
        (
            &[(0, "D", "R 100 + 8 [a]"), (50, "D", "R 100 + 8 [a]"), (90, "C", "R 100 + 8 [0]")],
            &[None, Some(40 * US)],
            "",
        ),
        // A completion of a part, and then of the rest.
        (&[(0, "D", "W 100 + 16 [a]"), (90, "C", "W 100 + 8 [0]")], &[None], ""),
        (
            &[(0, "D", "W 100 + 16 [a]"), (90, "C", "W 100 + 8 [0]"), (95, "C", "W 108 + 8 [0]")],
            &[Some(95 * US)],
            "",
        ),
        // A failure, with an error number of 16 bits or of more.
        (
            &[
                (0, "D", "R 100 + 8 [a]"),
                (90, "C", "R 100 + 8 [65531]"),
                (95, "C", "R 100 + 8 [0]"),
            ],
            &[None],
            "1 operation failed",
        ),
        (
            &[
                (0, "D", "R 100 + 8 [a]"),
                (1, "D", "R 200 + 8 [a]"),
                (90, "C", "R 100 + 8 [-5]"),
                (91, "C", "R 200 + 8 [-5]"),
            ],
            &[None, None],
            "2 operations failed",
        ),
        // Put back into the queue, and issued again: one operation, at its last issue.
        (
            &[
                (0, "D", "R 8 + 8 [a]"),
                (10, "D", "R 100 + 8 [a]"),
                (20, "R", "R 100 + 8 [0]"),
                (30, "D", "R 100 + 8 [a]"),
                (90, "C", "R 100 + 8 [0]"),
            ],
            &[None, Some(60 * US)],
            "",
        ),
        // A completion of an operation that was issued before the trace began.
        (&[(0, "C", "R 100 + 8 [0]"), (10, "D", "R 100 + 8 [a]")], &[None], "1 completion matches"),
        // A read and a write of the same range may both wait.
        (
            &[
                (0, "D", "R 100 + 8 [a]"),
                (5, "D", "W 100 + 8 [a]"),
                (20, "C", "R 100 + 8 [0]"),
                (30, "C", "W 100 + 8 [0]"),
            ],
            &[Some(20 * US), Some(25 * US)],
            "",
        ),
    ];
    for (events, expected, note) in cases {
        let text = blk(events);
        let file = issued(&text);
        assert_eq!(responses(&file), expected, "{text}");
        let notes = file.notes.join("; ");
        assert!(
            if note.is_empty() { notes.is_empty() } else { notes.contains(note) },
            "{text}{notes}"
        );
        // Equal events in the text of kernel events.
        let words = |rest: &str| rest.replacen(' ', " () ", 1);
        let kernel = |(us, action, rest): &(u64, &str, &str)| {
            let (name, rest) = match *action {
                "D" => ("block_rq_issue", rest.replacen(' ', " 4096 () ", 1)),
                "C" => ("block_rq_complete", words(rest)),
                _ => ("block_rq_requeue", words(rest)),
            };
            format!("a-1 [001] ..... 0.{us:06}: {name}: 8,0 {rest}\n")
        };
        let text: String = events.iter().map(kernel).collect();
        let text = text.replace("65531", "-5");
        assert_eq!(responses(&issued(&text)), expected, "{text}");
    }
}

/// A completed request completes the queued operations that were merged into it, if they fill its range. Operations on
/// other devices are not affected.
#[test]
fn a_merged_request_completes_its_parts() {
    let queue = [(0, "Q", "W 100 + 8 [a]"), (5, "Q", "W 108 + 16 [a]"), (6, "Q", "W 200 + 8 [a]")];
    let with = |more: &[(u64, &str, &str)]| file(&blk(&[&queue[..], more].concat()));
    let merged = with(&[(90, "C", "W 100 + 24 [0]")]);
    assert_eq!(responses(&merged), [Some(90_000), Some(85_000), None]);
    // A request with a gap, or one that cuts an operation, gives no response time.
    let gap = with(&[(90, "C", "W 100 + 108 [0]"), (91, "C", "W 100 + 16 [0]")]);
    assert_eq!(responses(&gap), [None, None, None]);
    assert!(gap.notes[0].contains("2 completions match"), "{:?}", gap.notes);
    // A large operation that was split.
    let split =
        [(0, "Q", "R 0 + 2560 [a]"), (50, "C", "R 0 + 1280 [0]"), (70, "C", "R 1280 + 1280 [0]")];
    assert_eq!(responses(&file(&blk(&split))), [Some(70_000)]);
    // The parts of a split operation complete in any order.
    let parts = ["R 1024 + 512 [0]", "R 0 + 1024 [0]", "R 2048 + 512 [0]", "R 1536 + 512 [0]"];
    let mut split = vec![(0, "Q", "R 0 + 2560 [a]"), (1, "Q", "R 1024 + 512 [b]")];
    split.push((40, "C", parts[0]));
    assert_eq!(
        responses(&file(&blk(&split))),
        [None, Some(39_000)],
        "the latest one of that range"
    );
    for (us, part) in (50..).zip(parts) {
        split.push((us, "C", part));
    }
    assert_eq!(responses(&file(&blk(&split[..6]))), [None, Some(39_000)]);
    let whole = file(&blk(&split));
    assert_eq!(responses(&whole), [Some(53_000), Some(39_000)]);
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    let other = blk(&[(0, "Q", "R 0 + 8 [a]"), (9, "C", "R 0 + 8 [0]")]).replacen(
        "8,0 1 1 0.000009",
        "8,1 1 1 0.000009",
        1,
    );
    assert_eq!(responses(&file(&other)), [None]);
}

/// A completion of the whole range ends an operation, whatever has completed within it before. An operation with a
/// failed part is failed, and counted once.
#[test]
fn parts_do_not_hide_the_end_of_an_operation() {
    let of = |more: &[(u64, &str, &str)]| {
        let queued = file(&blk(&[&[(0, "Q", "R 0 + 64 [a]")][..], more].concat()));
        (responses(&queued), queued.notes.join("; "))
    };
    let ended = |us: u64| vec![Some(us * 1000)];
    // The completion of an operation that was issued before the recording began.
    let stray = (5, "C", "R 8 + 8 [0]");
    assert_eq!(of(&[stray, (9, "C", "R 0 + 64 [0]")]), (ended(9), String::new()));
    let failed = (5, "C", "R 8 + 8 [-5]");
    assert_eq!(of(&[failed, (9, "C", "R 0 + 64 [0]")]), (ended(9), String::new()));
    // Nothing of it waits any more, nor is a later operation affected.
    let again = [stray, (9, "C", "R 0 + 64 [0]"), (10, "C", "R 0 + 8 [0]")];
    assert!(of(&again).1.contains("1 completion matches"));
    let two =
        [stray, (6, "Q", "R 0 + 64 [b]"), (9, "C", "R 0 + 64 [0]"), (10, "C", "R 0 + 64 [0]")];
    assert_eq!(of(&two).0, [Some(10_000), Some(3000)]);
    for parts in [["R 0 + 32 [-5]", "R 32 + 32 [0]"], ["R 32 + 32 [-5]", "R 0 + 32 [-5]"]] {
        let (responses, notes) = of(&[(5, "C", parts[0]), (6, "C", parts[1])]);
        assert_eq!(responses, [None], "{parts:?}");
        assert!(notes.contains("1 operation failed"), "{notes}");
    }
    // All operations of a merged request fail.
    let merged = [(1, "Q", "R 64 + 8 [b]"), (5, "C", "R 0 + 72 [-5]")];
    assert!(of(&merged).1.contains("2 operations failed"), "{}", of(&merged).1);
}

/// A flush request completes all flushes that were queued before it was issued.
#[test]
fn a_flush_request_completes_its_flushes() {
    let events = [
        (0, "Q", "FWS [a]"),
        (1, "Q", "FWFS 64 + 8 [b]"),
        (2, "D", "FF [k]"),
        (3, "Q", "FWS [c]"),
        (50, "C", "FF 0 [0]"),
        (51, "D", "FF [k]"),
        (90, "C", "FF 0 [0]"),
        (91, "C", "FF 0 [0]"),
    ];
    let us = |us: u64| Some(us * 1000);
    let queued = [us(50), us(49), None, us(87)];
    assert_eq!(responses(&file(&blk(&events))), queued);
    // Two requests in flight complete in their order; a failed one has no response time.
    let requests =
        [events[2], (9, "D", "FF [k]"), events[4], (60, "C", "FF 0 [-5]"), events[5], events[6]];
    let text = blk(&requests);
    assert_eq!(responses(&issued(&text)), [us(48), None, us(39)]);
    assert!(issued(&text).notes.join("; ").contains("1 operation failed"));
    let kernel = |(us, action, rest): &(u64, &str, &str)| {
        let name = match *action {
            "D" => "block_rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [k]".to_owned(),
            "C" => "block_rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]".to_owned(),
            _ if rest.contains('+') => format!("block_bio_queue: 8,0 {rest}"),
            _ => "block_bio_queue: 8,0 FWS 0 + 0 [a]".to_owned(),
        };
        format!("a-1 [001] ..... 0.{us:06}: {name}\n")
    };
    let text: String = events.iter().map(kernel).collect();
    assert_eq!(responses(&file(&text)), queued);
    // A failed request is counted once, and not again with its parts.
    let (before, after) = text.split_once("0.000090: ").unwrap();
    let bio = "a-1 [001] ..... 0.000092: block_bio_complete: 8,0 FWS 0 + 0 [-5]\n";
    let failed = format!("{before}0.000090: {}{bio}", after.replacen("[0]", "[-5]", 1));
    let failed = file(&failed);
    assert_eq!(responses(&failed), [us(50), us(49), None, None]);
    assert!(failed.notes.join("; ").contains("1 operation failed"), "{:?}", failed.notes);
    // An operation of biosnoop that flushes before it writes takes that long in all.
    let snoop = BIOSNOOP.replacen(" R 13092432", " FWS 13092432", 1);
    let expected = [Some(740_000), Some(500_000), Some(500_000), Some(1_020_000)];
    assert_eq!(responses(&file(&snoop)), expected);
}

/// Rows may be earlier than the first one: `--from 0s` begins with the earliest. A later selection begins where it did.
#[test]
fn operations_before_the_first_row_belong_to_the_start() {
    let snoop = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.000000 a 1 sda R 8 4096 0.100\n0.001000 a 1 sda R 16 4096 5.000\n0.002000 a 1 sda R 24 4096 0.100\n";
    let msr = "128166372003062629,usr,0,Read,4096,4096,100\n128166372003023629,usr,0,Read,8192,4096,100\n128166372003082629,usr,0,Read,12288,4096,100\n";
    let times = |text: &str, from_ns, to_ns| {
        let chosen = Selection { from_ns: Some(from_ns), to_ns, ..Selection::default() };
        let file = reading(text, &chosen).unwrap();
        rows(&file).iter().map(|row| (row.0, row.2)).collect::<Vec<_>>()
    };
    for text in [snoop, msr] {
        let all = [(0, 8192), (3_900_000, 4096), (5_900_000, 12288)];
        assert_eq!(times(text, 0, None), all);
        assert_eq!(times(text, 0, Some(1_000_000)), all[..2]);
        assert_eq!(times(text, 1_000_000, None), [(1_000_000, 12288)]);
    }
}

/// A choice of events that the format does not have is refused.
#[test]
fn a_choice_without_effect_is_refused() {
    let issue = Selection { action: BlockAction::Issue, ..Selection::default() };
    let text = |text: &str| reading(text, &issue).map(drop).map_err(|e| e.to_string());
    for of in [MSR, SYSTOR, ALIBABA, TENCENT, CLOUDPHYSICS, SPC] {
        assert!(text(of).unwrap_err().contains("--action issue has no effect"), "{of}");
    }
    let binary = read(&vscsi(2, &VSCSI)[..], "it", &issue, 99).unwrap_err().to_string();
    assert!(binary.contains("--action issue has no effect"), "{binary}");
    for of in [BIOSNOOP, FTRACE, PERF] {
        text(of).unwrap();
    }
}

/// By default, a trace starts with its first operation, whatever its clock.
#[test]
fn time_before_the_first_operation_is_left_out() {
    let text = "  8,0 1 1 675.000000000 10 D W 2048 + 8 [a]\n  8,0 1 2 675.000100000 0 C W 2048 + 8 [0]\n  8,0 1 3 675.001000000 10 D W 4096 + 8 [a]\n";
    let chosen = Selection { action: BlockAction::Issue, ..Selection::default() };
    let cut = reading(text, &chosen).unwrap();
    let times = |file: &TraceFile| rows(file).iter().map(|row| row.0).collect::<Vec<_>>();
    assert_eq!(times(&cut), [0, 1_000_000]);
    assert_eq!(cut.trace.summary().span_ns, 1_000_000);
    assert!(cut.notes[0].contains("11.2 min") || cut.notes[0].contains("675 s"), "{:?}", cut.notes);
    let asked = Selection { from_ns: Some(0), ..chosen.clone() };
    assert_eq!(times(&reading(text, &asked).unwrap()), [675_000_000_000, 675_001_000_000]);
    // A selection by time begins at its start time; a selection of files begins with its first operation.
    let part = Selection { from_ns: Some(674_000_000_000), ..chosen };
    assert_eq!(times(&reading(text, &part).unwrap()), [1_000_000_000, 1_001_000_000]);
    let iolog =
        "fio version 3 iolog\n5000000 a read 0 512\n9000000 b read 0 512\n9000010 b read 512 512\n";
    assert_eq!(times(&file(iolog)), [0, 4_000_000_000, 4_000_010_000]);
    assert_eq!(times(&only(iolog, "b")), [0, 10_000]);
    let waits = "fio version 2 iolog\na wait 5000 0\na read 0 512\na wait 5001 0\na read 0 512\n";
    assert_eq!(times(&file(waits)), [0, 1_000_000]);
    for text in [ALIBABA, TENCENT, SYSTOR, CLOUDPHYSICS, SPC, BIOSNOOP, FTRACE, MSR] {
        let chosen = Selection { only: Vec::new(), ..Selection::default() };
        assert_eq!(times(&reading(text, &chosen).unwrap())[0], 0, "{text}");
    }
}

#[test]
fn events_of_the_kernel() {
    let ftrace = file(FTRACE);
    let expected = [
        (0, Write, 2048 * 512, 4096, Some(100_000)),
        // Failed: no response time.
        (10_000, Read, 64 * 512, 8192, None),
        (499_990_000, Flush, 0, 0, None),
        (500_000_000, Trim, 4096 * 512, 1 << 20, None),
    ];
    assert_eq!((ftrace.format, rows(&ftrace)), (Format::Events, expected.to_vec()));
    let notes = ftrace.notes.join("; ");
    for says in ["the events `block_rq_issue`", "events were lost", "1 operation failed"] {
        assert!(notes.contains(says), "{notes}");
    }
    let left_out: Vec<_> = ftrace.left_out.iter().map(|l| (l.0.as_str(), l.1)).collect();
    assert!(left_out.contains(&("events `block_getrq`", 1)), "{left_out:?}");
    // Queued operations, if they come first; a request that completes both; and a device without requests.
    let queued = [
        (0, Write, 2048 * 512, 4096, Some(100_000)),
        (655, Write, 2056 * 512, 4096, Some(99_345)),
        (187_655, Read, 4096, 4096, Some(100_000)),
    ];
    assert_eq!(rows(&file(PERF)), queued);
    assert_eq!(rows(&issued(PERF)), [(0, Write, 2048 * 512, 8192, Some(98_345))]);
    let mixed = PERF.replacen(
        "block_bio_queue: 253,0 WS 2048 + 8",
        "block_rq_issue: 253,0 WS 4096 () 2048 + 8",
        1,
    );
    assert!(
        file(&mixed).notes[1].contains("2 events `block_bio_queue` are left out"),
        "{:?}",
        file(&mixed).notes
    );
    // The columns before the time may differ.
    for before in ["fio-1 [001]", "fio-1 (  1) [001] d..2.", "a b: c 12/12 [001]", ""] {
        let line = format!("{before} 7.000001: block_rq_issue: 8,0 R 512 () 8 + 1 [x]\n");
        assert_eq!(rows(&file(&line)), [(0, Read, 4096, 512, None)], "{line}");
    }
    for (line, why) in [
        ("1.5: block_rq_issue: 8,0 R 512 ()\n", "must have a sector, a + and a number"),
        ("1.5: block_rq_issue: sda R 512 () 8 + 1\n", "`sda` is not a device"),
        ("1.5: block_rq_issue: 8,0 R 512 () x + 1\n", "line 2: the sector is not a whole number"),
        ("12345: block_rq_issue: 8,0 R 512 () 8 + 1\n", "a time in seconds before its name"),
    ] {
        let error = refusal(&format!("# tracer: nop\n{line}"));
        assert!(error.contains(why), "{error}");
    }
    let two = FTRACE.replacen("8,0 R 8192", "8,16 R 8192", 1);
    assert!(refusal(&two).contains("--only 8,0"), "{}", refusal(&two));
    assert_eq!(rows(&only(&two, "8,16")).len(), 1);
}

#[test]
fn text_of_biosnoop() {
    let snoop = file(BIOSNOOP);
    let second = 13_092_568_u64.div_ceil(2048) * MIB;
    let expected = [
        (0, Write, 13_092_560 * 512, 4096, Some(740_000)),
        (418_000, Read, 13_092_432 * 512, 8192, Some(500_000)),
        (1_022_066_000, Write, second + 4096, 4096, Some(1_020_000)),
    ];
    assert_eq!((snoop.format, rows(&snoop)), (Format::Biosnoop, expected.to_vec()));
    assert_eq!(rows(&only(BIOSNOOP, "nvme0n1")), [(0, Write, 4096, 4096, Some(1_020_000))]);
    // Response times include the time in the queue, if it is known.
    let flush = |at_ns| (at_ns, Flush, 0, 0, Some(200_000));
    let queued = [(0, Write, 2048 * 512, 4096, Some(110_000)), flush(1_910_000)];
    assert_eq!(rows(&file(BIOSNOOP_QUEUED)), queued);
    let to_driver = [(0, Write, 2048 * 512, 4096, Some(100_000)), flush(1_900_000)];
    assert_eq!(rows(&issued(BIOSNOOP_QUEUED)), to_driver);
    let chosen = Selection { format: Some(Format::Biosnoop), ..Selection::default() };
    let headless = BIOSNOOP.split_once('\n').unwrap().1;
    assert_eq!(rows(&reading(headless, &chosen).unwrap()), expected);
    for (change, why) in [
        (("8192", "x"), "line 3: the number of bytes is not a whole number"),
        (("8192", "100"), "line 3: column BYTES"),
        (("0.50", "y"), "line 3: column LAT(ms): `y`"),
        (("0.000178 ", "1:2 "), "line 3: column TIME(s)"),
        (("0.50", "9999999999"), "more than an hour"),
        (("TIME(s)", "TIMESTAMP"), "without -t"),
    ] {
        let error = refusal(&BIOSNOOP.replacen(change.0, change.1, 1));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn published_collections() {
    let systor = file(SYSTOR);
    let second = (899_056_122_368 + 131_072_u64).next_multiple_of(MIB);
    let expected = [
        (0, Read, 899_056_122_368, 131_072, Some(806_000)),
        (1_000_000_500, Write, second + 4096, 8192, Some(500_000_000)),
    ];
    assert_eq!((systor.format, rows(&systor)), (Format::Systor, expected.to_vec()));
    assert!(systor.left_out[0].0.contains("without a response"), "{:?}", systor.left_out);
    assert_eq!(rows(&only(SYSTOR, "lun.1")), [(0, Write, 4096, 8192, Some(500_000_000))]);

    let alibaba = file(ALIBABA);
    let second = (126_703_661_056 + 4096_u64).next_multiple_of(MIB);
    let expected = [
        (0, Read, 126_703_661_056, 4096, None),
        (380_000, Write, second + 19_496_058_880, 77_824, None),
        (580_000, Read, 126_703_644_672, 4096, None),
    ];
    assert_eq!((alibaba.format, rows(&alibaba)), (Format::Alibaba, expected.to_vec()));
    assert_eq!(rows(&only(ALIBABA, "device.1")), [(0, Write, 19_496_058_880, 77_824, None)]);

    let tencent = file(TENCENT);
    let second = (42_932_761_u64 * 512).next_multiple_of(MIB);
    let expected = [
        (0, Read, 42_932_745 * 512, 4096, None),
        (1_000_000_000, Write, second + 51_200, 8192, None),
        (1_000_000_000, Write, 42_932_753 * 512, 4096, None),
    ];
    assert_eq!((tencent.format, rows(&tencent)), (Format::Tencent, expected.to_vec()));
    assert!(tencent.notes[0].contains("whole seconds"));
    assert_eq!(rows(&only(TENCENT, "volume.1064")), [(0, Write, 51_200, 8192, None)]);

    let spc = file(SPC);
    let second = (20_941_281_u64 * 512).next_multiple_of(MIB);
    let expected = [
        (0, Write, 20_941_264 * 512, 8192, None),
        (948_294_000, Read, second + 3072 * 512, 4096, None),
        (1_002_335_000, Write, 20_941_280 * 512, 512, None),
    ];
    assert_eq!((spc.format, rows(&spc)), (Format::Spc, expected.to_vec()));
    assert_eq!(spc.trace.summary().parts[1].name, "asu.1");

    let cloud = file(CLOUDPHYSICS);
    let expected = [(0, Write, 42_932_745 * 512, 512, None), (0, Read, 4096, 4096, None)];
    assert_eq!((cloud.format, rows(&cloud)), (Format::CloudPhysics, expected.to_vec()));
    assert_eq!(
        cloud.left_out,
        [("SCSI commands 12h, which are not reads or writes".to_owned(), 1)]
    );
}

/// Binary records of CloudPhysics, of both versions. A truncated record is left out.
#[test]
fn records_of_cloudphysics() {
    for version in [1, 2] {
        let bytes = vscsi(version, &VSCSI);
        let reading = |bytes: &[u8]| read(bytes, "it", &Selection::default(), 99);
        let binary = reading(&bytes).unwrap();
        let known = |us: u64| (version == 2).then_some(us * 1000);
        let expected = [
            (0, Write, 42_932_745 * 512, 512, known(90)),
            (10_000, Read, 4096, 4096, known(70)),
            (510_000, Flush, 0, 0, known(5)),
        ];
        assert_eq!((binary.format, rows(&binary)), (Format::CloudPhysics, expected.to_vec()));
        let cut = reading(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(rows(&cut), expected[..2]);
        assert!(cut.notes[0].contains("record 3, the last"), "{:?}", cut.notes);
        let mut damaged = vscsi(version, &[VSCSI[0], VSCSI[1], (1, 0x28, u64::MAX, 512, 0)]);
        let error = reading(&damaged).unwrap_err().to_string();
        assert!(error.contains("record 3: the address is too large"), "{error}");
        let at = damaged.len() - if version == 2 { 37 } else { 17 };
        damaged[at] = 7;
        let error = reading(&damaged).unwrap_err().to_string();
        assert!(error.contains("record 3: the version differs"), "{error}");
        assert!(reading(&bytes[..20]).is_err());
    }
}

/// Rows with a wrong field are refused with line and column. A requested format skips recognition.
#[test]
fn wrong_fields_are_named() {
    for (text, change, why) in [
        (ALIBABA, ("19496058880", "x"), "line 2: column 3: the offset is not a whole number"),
        (ALIBABA, (",1577808000000426", ""), "line 2: column 5: the time is missing"),
        (ALIBABA, ("426\n", "426,1\n"), "line 2: column 6: there is a field too many"),
        (TENCENT, (",16,1", ",-16,1"), "line 2: column 3: the size is not a whole number"),
        (TENCENT, ("100", "18446744073709551615"), "line 2: column 2: the offset is too large"),
        (
            SYSTOR,
            ("0.5,W", "5e-1,W"),
            "line 4: column 2: the response time is not a number of seconds",
        ),
        (SYSTOR, ("1456135201.01", "1456135201.-1"), "line 4: column 1: the time"),
        (SPC, ("4096,r", "4096,x"), "line 2: column 4: the operation must be R or W"),
        (SPC, ("1.5,x", "-1.5,x"), "line 2: column 5: the time"),
        (CLOUDPHYSICS, (",28,", ",zz,"), "line 3: column 3: the operation must be a SCSI code"),
        (MSR, ("1317441536", "y"), "line 2: column 5: the offset is not a whole number"),
    ] {
        let error = refusal(&text.replacen(change.0, change.1, 1));
        assert!(error.contains(why), "{error}");
    }
    // A value that is impossible in other formats identifies one. The first row of `early` is not recognised without
    // `--format`.
    let odd = "7,R,0,4096,5\n0,W,512,512,5\n";
    assert_eq!(file(odd).format, Format::Alibaba);
    let early = "1000,8,8,0,1\n1001,16,8,1,1\n";
    assert!(refusal(early).contains("neither a known trace nor a record"));
    let chosen = |format| Selection { format: Some(format), ..Selection::default() };
    let read = reading(early, &chosen(Format::Tencent)).unwrap();
    assert_eq!(rows(&read).iter().map(|row| row.0).collect::<Vec<_>>(), [0, 1_000_000_000]);
    let error = reading(early, &chosen(Format::Spc)).unwrap_err().to_string();
    assert!(error.contains("line 1: column 4: the operation must be R or W"), "{error}");
    for format in [Format::IologV3, Format::Own, Format::Served] {
        let error = reading(early, &chosen(format)).unwrap_err().to_string();
        assert!(error.contains("not the first line of the format"), "{error}");
    }
    // A row of SPC with optional fields is not one of MSR.
    assert_eq!(file("0,8,512,R,0,1,2\n1,8,512,W,1,1,2\n").format, Format::Spc);
    // The error lists files and devices outside the selection.
    let none = Selection { only: vec!["2".to_owned()], ..Selection::default() };
    let error = reading(ALIBABA, &none).unwrap_err().to_string();
    assert!(error.contains("device.0, device.1"), "{error}");
}

/// Known unsupported files are refused with the name of the format and a remedy.
#[test]
fn files_without_operations_are_refused_by_name() {
    let binary =
        |bytes: &[u8]| read(bytes, "it", &Selection::default(), 9).unwrap_err().to_string();
    for (bytes, says) in [
        (&b"\x1f\x8b\x08\x00"[..], "zcat"),
        (b"\x28\xb5\x2f\xfd\x04", "zstdcat"),
        (b"PERFILE2\x68", "perf script"),
        (b"\x17\x08\x44tracing6", "trace-cmd report"),
        (b"\x07tae\x01\x00", "blkparse -i"),
        (b"eat\x07\x01\x00", "blkparse -i"),
    ] {
        assert!(binary(bytes).contains(says), "{}", binary(bytes));
    }
    for text in [
        "Attaching 4 probes...\nTIME(ms)     COMM             PID    LAT(ms)\n611          bash             4179        10\n",
        "TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n",
        "Attached 4 probes\n",
    ] {
        let error = refusal(text);
        assert!(error.contains("bpftrace") && error.contains("bcc's biosnoop"), "{error}");
    }
}
