//! Tests the trace readers: the meaning of each format, and errors. No text may cause a panic, a hang or excessive
//! memory.
//!
//! By default, 20 000 mutations are made, of all formats in turn. `IODYNO_TRACE_CASES=1@537` runs only mutation 537,
//! `IODYNO_TRACE_CASES=1800s` runs mutations for half an hour of processor time, and `IODYNO_TRACE_FORMAT=2` mutates
//! only the third sample of `trace_samples::all`. The latest long passes: `bench/runs/2026-11-26-mutations` and
//! `2026-11-27-mutations`.

use crate::mutation_budget;
use crate::trace_samples;

use iodyno_exchange::trace::{BlockAction, Format, Selection, TraceFile, read};
use iodyno_units::OpKind::{Flush, Read, Trim, Write};
use iodyno_units::{OpKind, rng};
use mutation_budget::Budget;
use trace_samples::{
    BLK, MSR, OWN, SERVED, TEXTS, V2, V3, all, file, from_the_start, reading, refusal, rows,
};

#[test]
fn iologs_of_fio() {
    let v2 = file(V2);
    assert_eq!((v2.format, v2.has_times), (Format::IologV2, true));
    // The second file begins at the next whole MiB.
    let expected = [
        (0, Write, 0, 4096, None),
        (5_000_000, Read, (1 << 20) + 8192, 512, None),
        (5_000_000, Flush, 0, 0, None),
        (7_000_000, Trim, 1 << 20, 1 << 20, None),
    ];
    assert_eq!(rows(&v2), expected);
    assert_eq!(v2.left_out, [("lines that add, open or close a file".to_owned(), 6)]);
    assert!(v2.notes[0].contains("in ms from the start of the replay"));
    let v3 = file(V3);
    let expected = [
        (191_000, Read, 0, 4096, None),
        (2_802_000, Write, 45056, 8192, None),
        (3_109_000, Flush, 0, 0, None),
        (3_110_000, Flush, 0, 0, None),
        (3_200_000, Trim, 4096, 4096, None),
    ];
    assert_eq!(rows(&from_the_start(V3)), expected);
    let left_out: Vec<_> = v3.left_out.iter().map(|l| (l.0.as_str(), l.1)).collect();
    assert!(left_out.contains(&("lines of the unknown action `warp`", 1)), "{left_out:?}");
    assert!(!file("fio version 2 iolog\na read 0 512\na read 512 512\n").has_times);
    assert!(
        refusal("fio version 3 iolog\n1 x read 0\n").contains("line 2: an action must be followed")
    );
    assert!(
        refusal("fio version 3 iolog\n1 x open\n1 x read\n")
            .contains("line 3: `read` needs an offset")
    );
    assert!(
        refusal("fio version 3 iolog\nx open\n").contains("line 2: the time is not a whole number")
    );
    assert!(refusal("fio version 3 iolog\n1 x read 100 512\n").contains("--align 512"));
}

#[test]
fn text_of_blkparse() {
    let queued = from_the_start(BLK);
    let expected = [
        (2197, Write, 223_490 * 512, 4096, Some(97_803)),
        (6000, Read, 800 * 512, 8192, None),
        (1_500_000_000, Flush, 0, 0, None),
        (1_500_000_000, Write, 64 * 512, 4096, None),
        (1_600_000_000, Flush, 0, 0, None),
        (1_600_000_001, Trim, 0, 1 << 20, None),
    ];
    assert_eq!(rows(&queued), expected);
    assert!(queued.trace.ops().nth(3).unwrap().op.fua);
    let count = |what: &str| queued.left_out.iter().find(|l| l.0.contains(what)).map(|l| l.1);
    assert_eq!(
        (count("`G`"), count("`D`"), count("`m`"), count("tables")),
        (Some(1), Some(1), Some(1), Some(4))
    );
    assert_eq!(count("`N` without sectors"), Some(1));
    let issued = Selection { action: BlockAction::Issue, ..Selection::default() };
    let issued = reading(BLK, &issued).unwrap();
    assert_eq!(rows(&issued), [(0, Write, 223_490 * 512, 4096, Some(74_988))]);
    // Several devices are chosen by name.
    let two = BLK.replacen("  8,0    3        5", "  9,1    3        5", 1);
    let error = refusal(&two);
    assert!(
        error.contains("8,0 (5 operations), 9,1 (1 operation)") && error.contains("--only 8,0"),
        "{error}"
    );
    let only = Selection { only: vec!["9,1".to_owned()], ..Selection::default() };
    assert_eq!(rows(&reading(&two, &only).unwrap()), [(0, Read, 800 * 512, 8192, None)]);
    assert!(refusal(&format!("{}8,0 1 2 x 3 Q W 1 + 1\n", &BLK[..80])).contains("not a time"));
}

#[test]
fn csv_of_msr() {
    let expected = [
        (0, Read, 7_014_609_920, 24576, Some(4_128_600)),
        (1_332_052_600, Write, 1_317_441_536, 8192, Some(196_300)),
        (1_332_052_600, Read, 512 + 7_014_973_440, 512, Some(2000)),
        (2_332_061_600, Write, 2_436_440_064, 4096, Some(183_500)),
    ];
    assert_eq!(rows(&file(MSR)), expected);
    let head = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
    assert_eq!(rows(&file(&head)), expected);
    // A row may be earlier than the first; times count from the earliest.
    let (first, rest) = MSR.split_once('\n').unwrap();
    let mixed = format!("{rest}{first}\n");
    let mixed = file(&mixed);
    assert_eq!(rows(&mixed).iter().map(|r| r.0).collect::<Vec<_>>(), expected.map(|r| r.0));
    assert!(!mixed.trace.summary().is_sorted);
    let part = Selection {
        from_ns: Some(1_000_000_000),
        to_ns: Some(2_000_000_000),
        ..Selection::default()
    };
    let part = reading(MSR, &part).unwrap();
    assert_eq!(rows(&part).iter().map(|r| r.0).collect::<Vec<_>>(), [332_052_600, 332_052_600]);
    assert_eq!(part.left_out, [("operations at other times".to_owned(), 2)]);
    let disk = Selection { only: vec!["usr.1".to_owned()], ..Selection::default() };
    assert_eq!(rows(&reading(MSR, &disk).unwrap()), [(0, Read, 512, 512, Some(2000))]);
    assert!(
        refusal(&format!("{MSR}1,usr,0,Read,0,512,1\n"))
            .contains("line 5: the row is more than an hour")
    );
    let none = Selection { only: vec!["usr.9".to_owned()], ..Selection::default() };
    let error = reading(MSR, &none).unwrap_err().to_string();
    assert!(
        error.contains("no operation") && error.contains("4 operations on other files"),
        "{error}"
    );
}

#[test]
fn our_own_traces_and_records() {
    let own = from_the_start(OWN);
    let second = 1 << 20;
    let expected = [
        (100, Write, 4096, 4096, Some(800)),
        (100, Read, second, 512, Some(150)),
        (300, Flush, 0, 0, None),
        (400, OpKind::WriteZeroes, 0, 65536, None),
    ];
    assert_eq!(rows(&own), expected);
    assert!(own.trace.ops().next().unwrap().op.fua && own.notes.is_empty());
    assert_eq!(own.trace.summary().parts[1].name, "nbd://host/a b");
    assert!(refusal(&OWN.replace("end 4", "end 5")).contains("has 4 operations"));
    assert!(file(&OWN.replace("end 4\n", "")).notes[0].contains("cut off"));
    assert!(refusal(&OWN.replace("t 1 nbd", "t 2 nbd")).contains("target 1 has no name"));
    // Targets of equal name are different ones.
    let equal = OWN.replace("nbd://host/a b", "scratch:");
    assert_eq!(rows(&from_the_start(&equal)), expected);
    assert_eq!(from_the_start(&equal).trace.summary().parts[1].name, "scratch:#2");
    let only = Selection { only: vec!["scratch:#2".to_owned()], ..Selection::default() };
    assert_eq!(rows(&reading(&equal, &only).unwrap()), [(0, Read, 0, 512, Some(150))]);
    // Operations in flight at the end need no response time for think times, unless the file was cut off.
    own.trace.clone().add_waits().unwrap();
    let mut cut = file(&OWN.replace("end 4\n", ""));
    assert!(cut.trace.add_waits().unwrap_err().contains("1 of the 4"));
    // Blocks may have any length, on files through the page cache; a replay enlarges them.
    let odd = OWN.replace("w 4096 4096", "w 4100 2300");
    assert!(refusal(&odd).contains("--align 512"));
    let align = Selection { align_bytes: Some(512), ..Selection::default() };
    assert_eq!(rows(&reading(&odd, &align).unwrap())[0], (0, Write, 4096, 2560, Some(800)));
    let served = from_the_start(SERVED);
    let expected = [(1200, Write, 4096, 4096, None), (6000, Read, second, 4096, None)];
    assert_eq!(rows(&served), expected);
    assert_eq!(served.left_out, [("faults".to_owned(), 1)]);
}

/// A selection by time keeps the offsets of the whole trace, whatever files it contains. A selection by file has its
/// own offsets, and a note says so.
#[test]
fn files_keep_their_places_in_a_part_of_the_time() {
    let text = "fio version 3 iolog\n10 a write 0 4096\n20 b read 8192 512\n30 c read 0 512\n40 b sync 0 0\n50 c write 512 512\n60 a read 3145728 4096\n";
    let whole = from_the_start(text);
    for (from_us, to_us) in [(0, 70), (20, 60), (30, 40), (40, 70), (50, 51), (60, 70), (0, 20)] {
        let part = Selection {
            from_ns: Some(from_us * 1000),
            to_ns: Some(to_us * 1000),
            ..Selection::default()
        };
        let part = reading(text, &part).unwrap();
        let within = rows(&whole).into_iter();
        let within = within.filter(|row| (from_us * 1000..to_us * 1000).contains(&row.0));
        let within = within.map(|row| (row.0 - from_us * 1000, row.1, row.2, row.3, row.4));
        assert_eq!(rows(&part), within.collect::<Vec<_>>(), "{from_us} to {to_us}");
        assert!(part.notes.is_empty());
        // The summary gives the places in the whole trace.
        for part in &part.trace.summary().parts {
            let same = whole.trace.summary().parts.iter().find(|p| p.name == part.name).unwrap();
            assert_eq!(part.start_bytes, same.start_bytes);
        }
    }
    let only = |names: &[&str]| {
        let only = names.iter().map(|name| (*name).to_owned()).collect();
        reading(text, &Selection { only, ..Selection::default() }).unwrap()
    };
    assert_eq!(rows(&only(&["c"])).iter().map(|row| row.2).collect::<Vec<_>>(), [0, 512]);
    assert!(only(&["c"]).notes[0].contains("differ from those in a replay of the whole trace"));
    assert!(only(&["a", "b"]).notes.is_empty() && only(&["a", "b", "c"]).notes.is_empty());
}

/// A truncated file gives only operations of the whole file; truncated numbers are not read.
#[test]
fn a_file_that_is_cut_off_has_no_other_operations() {
    // In these formats, response times are on other lines than the operations.
    let without_responses = |file: &TraceFile| {
        rows(file)
            .into_iter()
            .map(|(at, kind, offset, len, _)| (at, kind, offset, len))
            .collect::<Vec<_>>()
    };
    for text in TEXTS {
        let all = without_responses(&file(text));
        let responses: Vec<_> = rows(&file(text)).into_iter().map(|row| row.4).collect();
        let mut cuts_read = 0;
        for end in 1..text.len() {
            let Ok(cut) = reading(&text[..end], &Selection::default()) else { continue };
            cuts_read += 1;
            let ops = without_responses(&cut);
            assert_eq!(ops, all[..ops.len()], "{}", &text[..end]);
            for (row, whole) in rows(&cut).iter().zip(&responses) {
                assert!(row.4.is_none() || row.4 == *whole, "{}", &text[..end]);
            }
            let is_cut = !text[..end].ends_with('\n');
            let says = cut.notes.iter().any(|note| note.contains("cut off"));
            let last = text[..end].lines().last().unwrap();
            assert!(!is_cut || says || last.starts_with("end "), "{}", &text[..end]);
        }
        assert!(cuts_read > 20, "{cuts_read} of {text}");
    }
    let (first, _) = MSR.split_once("286\n").unwrap();
    assert!(refusal(first).contains("line 1, the last, does not end with a newline"));
    let last = "8,0 3 1 0.000000001 697 Q WS 0 + 8 [fio]\n8,0 3 1 0.000000002 697 Q WS 4096 + 12";
    let cut = file(last);
    assert_eq!(rows(&cut), [(0, Write, 0, 4096, None)]);
    assert!(
        cut.notes[0].contains("line 2, the last, does not end with a newline"),
        "{:?}",
        cut.notes
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    for text in
        ["", "\n\n", "hello\n", "fio version 1 iolog\n", "iodyno trace 2\n", "a,b,c\n", "8,0 1\n"]
    {
        assert!(refusal(text).contains("zcat FILE.gz"), "{text}");
    }
    assert!(read(&b"\x1f\x8b\x08\xff"[..], "it", &Selection::default(), 9).is_err());
    let long = format!("fio version 3 iolog\n1 {} read 0 512\n", "x".repeat(70_000));
    assert!(refusal(&long).contains("line 2 is longer"));
    let error = read(MSR.as_bytes(), "it", &Selection::default(), 2).unwrap_err().to_string();
    assert!(error.contains("line 3: the trace is too long"), "{error}");
}

/// A mutated trace is read, or refused with a line number. A trace that is read satisfies the laws of traces.
#[test]
fn any_text_is_read_or_refused() {
    let format = std::env::var("IODYNO_TRACE_FORMAT").ok().map(|n| n.parse::<usize>().unwrap());
    let pieces = [
        "0",
        "18446744073709551615",
        "-1",
        ",",
        " ",
        "\n",
        "\u{202e}",
        "+",
        "C",
        "FWFS",
        "wait",
        "end",
        "\0",
        "1e9",
        "block_rq_complete:",
        "[-5]",
        "0.5",
    ];
    let samples = all();
    let (mut cases, mut taken) = (0_u64, 0_u64);
    for number in Budget::asked("IODYNO_TRACE_CASES", 20_000).numbers() {
        let mut random = rng::stream(1, "trace mutations", number);
        let mut below = |n: usize| rng::below(&mut random, n as u64) as usize;
        let own = format.unwrap_or(number as usize % samples.len());
        let mut text = samples[own].clone();
        cases += 1;
        for _ in 0..=below(3) {
            let (at, to) = (below(text.len() + 1), below(text.len() + 1));
            let (from, end) = (at.min(to), at.max(to));
            match below(9) {
                0 if at < text.len() => text[at] = below(256) as u8,
                1..=4 if at < text.len() && text[at].is_ascii_digit() => {
                    text[at] = b'0' + below(10) as u8;
                }
                5 => drop(text.splice(at..at, pieces[below(pieces.len())].bytes())),
                6 => drop(text.drain(from..end.min(from + 20))),
                7 => {
                    let piece = text[from..end.min(from + 60)].to_vec();
                    drop(text.splice(at..at, piece));
                }
                _ => {
                    let other = &samples[below(samples.len())];
                    let from = below(other.len());
                    drop(
                        text.splice(
                            at..at,
                            other[from..(from + 40).min(other.len())].iter().copied(),
                        ),
                    );
                }
            }
        }
        let chosen = Selection {
            format: if below(8) == 0 { Some(FORMATS[below(FORMATS.len())]) } else { None },
            // Formats without such events refuse the choice.
            action: if below(4) > 0 { BlockAction::Queue } else { BlockAction::Issue },
            align_bytes: (below(3) == 0).then_some(4096),
            from_ns: (below(8) == 0).then(|| below(1 << 22) as u64),
            to_ns: (below(8) == 0).then(|| below(1 << 33) as u64),
            only: if below(8) == 0 { vec!["8,0".to_owned(), "x".to_owned()] } else { Vec::new() },
        };
        let read = std::panic::catch_unwind(|| keeps_the_laws(&text, &chosen));
        taken += u64::from(read.unwrap_or_else(|_| panic!("{number}: {}", text.escape_ascii())));
    }
    println!("{taken} of {cases} were read");
    // Few mutations of binary records are read, since a wrong length spoils all later records.
    assert!(cases < 1000 || taken > cases / 50, "{taken} of {cases} were read");
}

/// Formats that a mutation may request.
const FORMATS: [Format; 8] = [
    Format::Blkparse,
    Format::Events,
    Format::Biosnoop,
    Format::Systor,
    Format::Alibaba,
    Format::Tencent,
    Format::CloudPhysics,
    Format::Spc,
];

/// Whether a text is read. Asserts the laws of a trace that is read.
fn keeps_the_laws(text: &[u8], chosen: &Selection) -> bool {
    let mut file = match read(text, "it", chosen, 10_000) {
        Ok(file) => file,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return false;
        }
    };
    let of = file.trace.summary().clone();
    assert_eq!(of.all_ops(), file.trace.len() as u64);
    assert_eq!(
        of.bytes.iter().sum::<u64>(),
        file.trace.ops().map(|o| u64::from(o.op.len_bytes)).sum::<u64>()
    );
    let align = chosen.align_bytes.unwrap_or(512);
    let mut last = 0;
    for one in file.trace.ops() {
        assert!(one.at_ns >= last && one.at_ns <= of.span_ns);
        last = one.at_ns;
        assert_eq!(one.op.offset_bytes % u64::from(align), 0);
        assert_eq!(one.op.len_bytes % align, 0);
        assert!(one.op.offset_bytes + u64::from(one.op.len_bytes) <= of.end_bytes);
    }
    let _ = file.trace.add_waits();
    true
}
