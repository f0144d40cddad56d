//! Recognises the format of a trace by the first bytes or the first line of the file. For known unsupported formats,
//! returns an error that names the format.

use super::{
    Format, Lines, Selection, alibaba, biosnoop, blkparse, cloudphysics, events, iolog, msr, own,
    served, spc, systor, tencent,
};

/// Help text for a file whose format was not recognised. Lists all supported formats.
pub(super) const FORMATS: &str = "give an iolog of fio (version 2 or 3), text output of blkparse, ftrace, perf (block events) or bcc's biosnoop, a trace of MSR Cambridge, SYSTOR '17, Alibaba, Tencent, CloudPhysics or SPC, a trace of `iodyno run --record-trace`, or a record of `iodyno serve --record`; unpack compressed files first: `zcat FILE.gz | iodyno replay /dev/stdin`";

/// Binary formats that must be converted first: initial bytes of the file, description, and the command to
/// convert it.
const BINARY: [(&[u8], &str, &str); 8] = [
    (b"\x1f\x8b", "compressed with gzip", "zcat FILE | iodyno replay /dev/stdin"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstdcat FILE | iodyno replay /dev/stdin"),
    (b"\xfd7zXZ", "compressed with xz", "xzcat FILE | iodyno replay /dev/stdin"),
    (b"BZh", "compressed with bzip2", "bzcat FILE | iodyno replay /dev/stdin"),
    (b"PERFILE2", "data of `perf record`", "perf script -i FILE > FILE.txt"),
    (b"\x17\x08\x44tracing", "data of `trace-cmd record`", "trace-cmd report -i FILE > FILE.txt"),
    // The magic number 0x65617400 and version 7, in both orders of bytes.
    (b"\x07tae", "data of `blktrace`", "blkparse -i FILE > FILE.txt"),
    (b"eat\x07", "data of `blktrace`", "blkparse -i FILE > FILE.txt"),
];

/// Returns message and remedy for a file that must be converted first; None for all other files.
pub(super) fn refused_bytes(beginning: &[u8]) -> Option<(String, String)> {
    let (_, what, command) = BINARY.iter().find(|(magic, ..)| beginning.starts_with(magic))?;
    Some((format!("the file is {what}"), format!("convert it first: `{command}`")))
}

/// Returns message and remedy if the first line is from a known format that can't be replayed; None
/// otherwise.
pub(super) fn refused_line(first: &str) -> Option<(&'static str, &'static str)> {
    let words: Vec<&str> = first.split_ascii_whitespace().collect();
    let is_start = matches!(words.as_slice(), ["Attaching" | "Attached", _, what, ..] if what.starts_with("probe"));
    let has = |word: &str| words.contains(&word);
    let is_biosnoop = has("TIME(ms)") && has("LAT(ms)") && !has("SECTOR");
    (is_start || is_biosnoop).then_some((
        "this is the output of bpftrace, whose biosnoop prints no addresses and no sizes: it can't be replayed",
        "record with bcc's biosnoop, blktrace, or `perf record -a -e block:block_rq_issue,block:block_rq_complete`",
    ))
}

/// A recognised format, its parser, and whether the first line is a heading to be skipped.
pub(super) type Reader = (Format, Box<dyn Lines>, bool);

/// Recognises the format by the first line; None if it is unknown.
pub(super) fn recognise(first: &str, chosen: &Selection) -> Option<Reader> {
    Format::ALL
        .into_iter()
        .find(|format| is_first(*format, first))
        .map(|format| reader(format, first, chosen))
}

/// Creates the parser of the requested format; None if a file of that format can't begin with the line
/// `first`.
pub(super) fn asked(format: Format, first: &str, chosen: &Selection) -> Option<Reader> {
    let needs_head = match format {
        Format::IologV2 | Format::IologV3 => {
            let version = iolog::version(first)?;
            let format = if version == 2 { Format::IologV2 } else { Format::IologV3 };
            return Some(reader(format, first, chosen));
        }
        Format::Own | Format::Served => true,
        _ => false,
    };
    (!needs_head || is_first(format, first)).then(|| reader(format, first, chosen))
}

fn is_first(format: Format, first: &str) -> bool {
    match format {
        Format::IologV2 => iolog::version(first) == Some(2),
        Format::IologV3 => iolog::version(first) == Some(3),
        Format::Own => first == own::FIRST,
        Format::Served => served::FIRST.contains(&first),
        Format::Msr => msr::is_head(first) || msr::is_row(first),
        Format::Alibaba => alibaba::is_head(first) || alibaba::is_row(first),
        Format::Tencent => tencent::is_head(first) || tencent::is_row(first),
        Format::Systor => systor::is_head(first) || systor::is_row(first),
        Format::CloudPhysics => cloudphysics::is_head(first) || cloudphysics::is_row(first),
        Format::Spc => spc::is_row(first),
        Format::Biosnoop => biosnoop::is_head(first),
        Format::Events => events::is_first(first),
        Format::Blkparse => blkparse::is_event(first),
    }
}

fn reader(format: Format, first: &str, chosen: &Selection) -> Reader {
    let (lines, is_head): (Box<dyn Lines>, bool) = match format {
        Format::IologV2 => (Box::new(iolog::Iolog::new(2)), true),
        Format::IologV3 => (Box::new(iolog::Iolog::new(3)), true),
        Format::Own => (Box::<own::Own>::default(), true),
        Format::Served => (Box::<served::Served>::default(), true),
        Format::Msr => (Box::<msr::Msr>::default(), msr::is_head(first)),
        Format::Alibaba => (Box::<alibaba::Alibaba>::default(), alibaba::is_head(first)),
        Format::Tencent => (Box::<tencent::Tencent>::default(), tencent::is_head(first)),
        Format::Systor => (Box::<systor::Systor>::default(), systor::is_head(first)),
        Format::CloudPhysics => {
            (Box::<cloudphysics::CloudPhysics>::default(), cloudphysics::is_head(first))
        }
        Format::Spc => (Box::new(spc::Spc), false),
        Format::Biosnoop => (Box::new(biosnoop::Biosnoop::new(chosen.action)), false),
        Format::Events => (Box::new(events::Events::new(chosen.action)), false),
        Format::Blkparse => (Box::new(blkparse::Blkparse::new(chosen.action)), false),
    };
    (format, lines, is_head)
}
