//! Errors of invalid workload files: every message with its line, its column and its remedy. The
//! texts are part of the product.

use std::fmt::Write as _;

use iodyno_workload::{Spec, Workload};

/// `LINE:COLUMN message (help)` for each error, with the text that the caret is under.
fn errors(text: &str) -> String {
    let Err(found) = Workload::from_toml(text) else { return "accepted".to_owned() };
    let lines = found.into_iter().map(|error| {
        let before = &text[..error.span.start];
        let line = before.split('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let under = text[error.span.clone()].lines().next().unwrap_or_default();
        let help = error.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{line}:{column} [{under}] {}{help}\n", error.message)
    });
    lines.collect()
}

/// Each case is a file, without its first line `schema = 1`, and its errors.
#[test]
fn every_rule_names_its_place_and_its_remedy() {
    let mut wrong = String::new();
    for (text, expected) in CASES {
        let found = errors(&format!("schema = 1\n{text}"));
        if found.trim_end() != *expected {
            let _ = writeln!(wrong, "{text}\n-- {expected}\n++ {found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const CASES: &[(&str, &str)] = &[
    (
        "log = { message = \"64KiB\", commit = 0, fua = true, durability = \"none\", when_full = \"drop\" }",
        "2:19 [\"64KiB\"] a chunk of 65536 bytes does not hold one message (make `block` larger or `message` smaller)\n\
         2:37 [0] the number of chunks must be a whole number from 1 to 65536\n\
         2:46 [true] FUA makes writes durable, contrary to `durability = \"none\"` (leave `fua` out, or set `durability = \"batch\"`)\n\
         2:85 [\"drop\"] messages can only be dropped if there is a rate (give a `rate`, or leave `when_full` out)",
    ),
    (
        "threads = 3\nmix = { read = 1 }\nlog = { readers = 1 }",
        "2:11 [3] `threads` is 3, but the log needs 2: one for the writer, and one for each replay (`log.readers` is 1) (leave `threads` out, and change `log.readers`)\n\
         3:7 [{ read = 1 }] the mix differs from what the log issues (leave `mix` out: the log decides what is issued)",
    ),
    (
        "log = {}\nwrite = { flush_every = 4 }",
        "3:25 [4] `write.flush_every` has no effect on a log (remove it)",
    ),
    (
        "mix = { read = 1 }\nfile_set = { files = 0, size = \"0%\", extent = \"6KiB\" }",
        "3:22 [0] the number of files must be a whole number from 1 to 1048576\n\
         3:32 [\"0%\"] the size of the files must be above 0\n\
         3:47 [\"6KiB\"] an extent must be from 4 KiB (the largest block) to 128 MiB, and a multiple of 4 KiB and of the alignment (leave `extent` out for contiguous files, as on a new file system)",
    ),
    (
        "mix = { read = 1 }\nfile_set = { files = 4 }",
        "3:12 [{ files = 4 }] the key `size` is missing (for example `size = \"50%\"`)",
    ),
    (
        "mix = { read = 1 }\nfile_set = { files = 4, size = \"half\" }",
        "3:32 [\"half\"] `half` is not a size: use a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"pareto\", h = 1.0 } }",
        "3:47 [1.0] `h` must be above 0 and below 1 (h of the blocks get 1 - h of the operations: 0.2 is 80/20)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", skip = \"1KiB\" } }",
        "3:54 [\"1KiB\"] `skip` must be above 0, at most 1 PiB, and a multiple of the alignment, 4 KiB",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", skip = \"4KiB\", streams = 2 } }",
        "3:72 [2] these keys can't be combined (`run` can be combined only with `skip`; `jump`, `streams`, `shared` and `to_end` can't be combined)",
    ),
    (
        "mix = { read = 1 }\nactive = \"1MiB..+0%\"\nwrite = { flush_again = true }",
        "3:10 [\"1MiB..+0%\"] the active range is empty (give the start and then the end, such as `\"10%..90%\"` or `\"0..8GiB\"`)\n4:9 [{ flush_again = true }] `[write]` has no effect: the mix has no `write` (remove the table, or give the kind a share in the mix)\n4:25 [true] `flush_again` has no effect without `flush_every` (give `flush_every` too, or remove `flush_again`)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", streams = 0 } }",
        "3:57 [0] the number of streams must be a whole number from 1 to 65536",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", jump = \"0%\" } }",
        "3:54 [\"0%\"] `jump` must be above 0% (leave `jump` out for addresses that are sequential throughout)",
    ),
    (
        "mix = { read = 1 }\naddress_align = \"1KiB\"\nworker_step = \"512B\"",
        "3:17 [\"1KiB\"] `address_align` must be a power of two from the alignment, 4 KiB, to 1 GiB\n4:15 [\"512B\"] the step must be a multiple of 1 KiB",
    ),
    (
        "mix = { read = 1 }\nworker_step = \"4KiB\"\nall = { addresses = { pattern = \"sequential\", shared = true } }",
        "3:15 [\"4KiB\"] workers with separate ranges can't share a cursor (leave out `shared` or `worker_step`)",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"closed\", think_after = 2, refill_at = 1, flow = 2000 }",
        "3:45 [2] `think_after` requires a `think_time` and `think_drains = true` (add both)\n3:60 [1] `refill_at` must be below the depth (leave `refill_at` out to refill the queue after each completion)\n3:60 [1] `refill_at` requires a closed loop with neither think time nor flow (leave `refill_at` out)\n3:70 [2000] the weight must be a whole number from 1 to 1000",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"closed\", think_time = \"1ms\", flow = 1 }",
        "3:58 [1] `flow` requires `think_drains` if there is a think time (add `think_drains = true`)",
    ),
    (
        "mix = { write = 1 }\nwrite = { flush_at_end = 2000000 }",
        "3:26 [2000000] `flush_at_end` must be a whole number from 0 to 10^6",
    ),
    (
        "mix = { write = 1 }\nwrite = { read_back = 2000000 }",
        "3:23 [2000000] `read_back` must be a whole number from 0 to 1048576",
    ),
    (
        "mix = { read = 1 }\nlimits = { passes = 0, steady = { of = \"iops\", within = \"0%\", window = \"1s\" } }",
        "3:21 [0] `passes` must be a number above 0 and at most 10^6\n3:57 [\"0%\"] `within` must be above 0%\n3:72 [\"1s\"] the window must be a whole number of seconds, from 2 s to 1 h",
    ),
    (
        "",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)",
    ),
    (
        "threads = 0\ndepth = 65537\nmix = { read = 1 }",
        "2:11 [0] the number of threads must be a whole number from 1 to 1024\n\
         3:9 [65537] the depth must be a whole number from 1 to 65536",
    ),
    (
        "mix = { read = 70, write = 0 }",
        "2:28 [0] a share of 0 issues nothing (leave `write` out of the mix)",
    ),
    (
        "mix = { read = -1 }",
        "2:16 [-1] a share must be a number above 0 and at most 10^9 (shares are relative to one another: 7 and 3 are 70 % and 30 %)",
    ),
    (
        "mix = { flush = 1 }",
        "2:7 [{ flush = 1 }] the mix has only flushes (a flush without writes has nothing to do: add `write`)",
    ),
    (
        "mix_order = \"ratio\"\nmix = { read = 1, write = 1, trim = 1 }",
        "2:13 [\"ratio\"] the order `ratio` needs a mix of only reads and writes (leave `mix_order` out, or give the mix only `read` and `write`)",
    ),
    (
        "mix = { write = 1 }\nflush = { every = 0, burst = 1000001 }",
        "3:19 [0] the number of operations between bursts of flushes must be a whole number from 1 to 1000000000\n\
         3:30 [1000001] the number of flushes of a burst must be a whole number from 1 to 1000000",
    ),
    (
        "mix = { read = 1 }\nflush = { every = 10 }",
        "3:9 [{ every = 10 }] `[flush]` has no effect: the mix has no `write` (a flush without writes has nothing to do: remove `[flush]`, or add `write` to the mix)",
    ),
    (
        "mix = { write = 1 }\nwrite = { flush_every = 1 }\nflush = { every = 10 }",
        "4:9 [{ every = 10 }] `[flush]` and `write.flush_every` exclude each other (keep one: `write.flush_every` counts the writes of each worker, `[flush]` the operations of all workers)",
    ),
    (
        "align = 0\nactive = \"0..1GiB\"\nmix = { read = 1 }\nall = { addresses = { pattern = \"strided\", stride = \"4KiB\" } }",
        "2:9 [0] the alignment must be a power of two from 1 B to 1 GiB (leave `align` out to use the largest alignment that fits the blocks)",
    ),
    (
        "block = \"4000B\"\nmix = { read = 1 }",
        "2:9 [\"4000B\"] a block must be a multiple of 512 B, from 512 B to 64 MiB",
    ),
    (
        "block = \"6KiB\"\nalign = \"4KiB\"\nmix = { read = 1 }",
        "2:9 [\"6KiB\"] a block of 6 KiB is not a multiple of the alignment, 4 KiB (`align = \"2KiB\"` fits this block)",
    ),
    (
        "align = \"3KiB\"\nmix = { read = 1 }",
        "2:9 [\"3KiB\"] the alignment must be a power of two from 1 B to 1 GiB (leave `align` out to use the largest alignment that fits the blocks)",
    ),
    (
        "align = \"256B\"\nblock = \"1100B\"\nmix = { write = 1 }\ncontent = { kind = \"verifiable\" }",
        "2:9 [\"256B\"] blocks of verifiable content must be multiples of 512 B (leave `align` out, and use blocks such as 4 KiB)\n\
         3:9 [\"1100B\"] a block must be a multiple of 256 B, from 256 B to 64 MiB",
    ),
    (
        "block = [{ size = \"4k\", share = 0 }, { size = 4096, share = 2 }]\nmix = { read = 1 }",
        "2:33 [0] a share must be a number above 0 and at most 10^9 (shares are relative to one another: 7 and 3 are 70 % and 30 %)\n\
         2:47 [4096] 4 KiB is already listed (list each size once, with the sum of its shares)",
    ),
    (
        "block = []\nmix = { read = 1 }",
        "2:9 [[]] no block size is given (give a size such as `\"4KiB\"`)",
    ),
    (
        "active = \"50%..50%\"\nmix = { read = 1 }",
        "2:10 [\"50%..50%\"] the active range is empty (give the start and then the end, such as `\"10%..90%\"` or `\"0..8GiB\"`)",
    ),
    (
        "block = \"64KiB\"\nactive = \"1KiB..100KiB\"\nmix = { read = 1 }",
        "3:10 [\"1KiB..100KiB\"] the active range 1KiB..100KiB does not hold one block of 64 KiB (make the range larger or the block smaller)",
    ),
    (
        "active = \"0..8x\"\nmix = { read = 1 }",
        "2:10 [\"0..8x\"] `8x` is not a size: use a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)",
    ),
    (
        "mix = { read = 1 }\n[write]\nfua = \"10%\"",
        "3:1 [[write]] `[write]` has no effect: the mix has no `write` (remove the table, or give the kind a share in the mix)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"uniform\", theta = 1 } }",
        "3:52 [1] `theta` has no effect for the pattern `uniform` (the key applies only to `zipf`; leave the key out)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = \"zipf\" }",
        "3:21 [\"zipf\"] the key `theta` is missing (for example `theta = 0.9`)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"zipf\", theta = 5.5 } }",
        "3:49 [5.5] `theta` must be above 0 and at most 5 (0.5 is mild, 0.99 is usual for key-value stores, 1.2 is strong)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = [{ pattern = \"uniform\" }, { pattern = \"strided\", share = 1 }] }",
        "3:22 [{ pattern = \"uniform\" }] this pattern has no `share` (each of several patterns must have a `share`)\n\
         3:59 [\"strided\"] the key `stride` is missing (for example `stride = \"64KiB\"`)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"strided\", stride = \"6KiB\", start = 512 } }",
        "3:53 [\"6KiB\"] the stride must be above 0 and a multiple of the alignment, 4 KiB\n\
         3:69 [512] the start must be a multiple of the alignment, 4 KiB",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", shared = true, run = 0 } }",
        "3:68 [0] a run's length in blocks must be a whole number from 1 to 1099511627776\n\
         3:68 [0] a shared cursor can't have runs (leave `shared` out: each worker then has runs of its own)",
    ),
    (
        "block = [{ size = \"4k\", share = 1 }, { size = \"8k\", share = 1 }]\nmix = { read = 1 }\nall = { addresses = { pattern = \"sequential\", shared = true } }",
        "4:56 [true] a shared cursor needs a single block size (use one block size, or leave the key out)",
    ),
    (
        "block = [{ size = \"4k\", share = 1 }, { size = \"8k\", share = 1 }]\nmix = { read = 1 }\nall = { addresses = { pattern = \"uniform\", once_per_pass = true } }",
        "4:60 [true] `once_per_pass` needs a single block size (use one block size, or leave the key out)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"hot-spots\", spots = [{ share = 80, range = \"20%\" }] } }",
        "3:54 [[{ share = 80, range = \"20%\" }]] the hot spots' ranges add up to 20%, not to 100% (list an unused part, too, as `{ share = 0, range = \"10%\" }`)",
    ),
    (
        "mix = { read = 1 }\nall = { addresses = { pattern = \"hot-spots\", spots = [{ share = 0, range = \"0%\" }, { share = 0, range = \"100%\" }] } }",
        "3:54 [[{ share = 0, range = \"0%\" }, { share = 0, range = \"100%\" }]] at least one hot spot must have a share above 0\n\
         3:76 [\"0%\"] a hot spot must have a range above 0%",
    ),
    (
        "mix = { read = 1 }\nread = { addresses = { pattern = \"recently-read\", window = 0 } }",
        "3:34 [\"recently-read\"] `recently-read` has nothing to repeat (each repeated address must first be drawn by another pattern: give reads a share of another pattern, such as `uniform`)\n\
         3:60 [0] the number of addresses in the window must be a whole number from 1 to 1048576",
    ),
    (
        "mix = { read = 1 }\nread = { addresses = [{ pattern = \"uniform\", share = 1 }, { pattern = \"recently-written\", share = 1 }] }",
        "3:71 [\"recently-written\"] `recently-written` has nothing to repeat: the mix has no `write`",
    ),
    (
        "mix = { read = 1, write = 1 }\nread = { addresses = \"recently-written\" }\nwrite = { addresses = \"recently-read\" }",
        "3:22 [\"recently-written\"] `recently-written` has nothing to repeat (each repeated address must first be drawn by another pattern: give writes a share of another pattern, such as `uniform`)\n\
         4:23 [\"recently-read\"] `recently-read` has nothing to repeat (each repeated address must first be drawn by another pattern: give reads a share of another pattern, such as `uniform`)",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"open\", think_time = \"1ms\" }",
        "3:21 [\"open\"] the key `rate` is missing (for example `rate = \"50k/s\"`)\n\
         3:42 [\"1ms\"] a think time in an open loop requires an interval between pauses (add `think_after` (operations between two pauses of a worker) or `think_after_time`)",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"closed\", rate = \"5k/s\" }",
        "3:38 [\"5k/s\"] `rate` has no effect for a loop that is `closed` (the key applies only to `open`; leave the key out)",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"closed\", think_drains = true }",
        "3:46 [true] `think_drains` has no effect without a think time (add a `think_time`, or leave `think_drains` out)",
    ),
    (
        "mix = { read = 1 }\narrivals = { kind = \"open\", rate = 2e9 }",
        "3:36 [2e9] the rate must be from 0.001 to 10^9 operations a second",
    ),
    (
        "mix = { write = 1, trim = 1 }\ncontent = { kind = \"verifiable\" }",
        "2:27 [1] content can't be verified if the mix has `trim` (a unit that reads as zeroes could be either discarded or lost: remove the kind from the mix)",
    ),
    (
        "mix = { write = 1 }\ncontent = { kind = \"compressible\" }",
        "3:20 [\"compressible\"] nothing is compressible or dedupable (say `compressible = \"50%\"`, `dedupable = \"20%\"`, or both; content that is neither is `incompressible`)",
    ),
    (
        "mix = { write = 1 }\ncontent = { kind = \"zeroes\", dedupable = \"20%\" }",
        "3:42 [\"20%\"] `dedupable` has no effect for content of the kind `zeroes` (the key applies only to `compressible`; leave the key out)",
    ),
    (
        "mix = { read = 1 }\nlimits = { time = \"0s\", ops = 0, bytes = 0, ramp = \"400d\" }",
        "3:19 [\"0s\"] the time must be above 0 and at most 365 d (for a run without a time limit, leave `time` out and give `ops` or `bytes`)\n\
         3:31 [0] a limit of 0 operations measures nothing\n\
         3:42 [0] a limit of 0 bytes measures nothing\n\
         3:52 [\"400d\"] the ramp must be at most 365 d",
    ),
    (
        "group = [\"a\", \"b\", \"a\"]\nthreads = 4",
        "2:20 [\"a\"] `a` is already a member (each member is one cell, and names of cells must be unique)\n\
         3:11 [4] `threads` has no effect in a group (a group has `schema`, `about`, `source` and `group` only; set this in its members, or by a flag for all of them)",
    ),
    (
        "group = []",
        "2:9 [[]] a group must have 1 to 64 members, not 0 (list its members, as in `group = [\"random-read\", \"random-write\"]`)",
    ),
    // Values that are written wrongly; what rules say of the rest is reported beside them.
    (
        "mix = { read = \"all\" }",
        "2:16 [\"all\"] `mix.read` must be a number, not the text \"all\" (use a value such as `70`)",
    ),
    (
        "limits = { time = 5 }",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:19 [5] `limits.time` must be a time with its unit, not the integer 5 (use a value such as `\"10s\"`)",
    ),
    (
        "limits = { time = \"5\" }",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:19 [\"5\"] `limits.time`: `5` has no unit of time: use a number with ns, us, ms, s, m, h or d, such as `5s`, `200us` or `1m30s`",
    ),
    (
        "block = true",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:9 [true] `block` must be a size, a table, or an array of tables, not the boolean true (use a value such as `\"4KiB\"`)",
    ),
    (
        "all = { addresses = \"unifrom\" }",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:21 [\"unifrom\"] `all.addresses` must be one of `\"uniform\"`, `\"sequential\"`, `\"zipf\"`, `\"pareto\"`, `\"normal\"`, `\"zones\"`, `\"hot-spots\"`, `\"recently-read\"`, `\"recently-written\"`, `\"strided\"` (did you mean \"uniform\"?)",
    ),
    (
        "all = \"zipf\"",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:7 [\"zipf\"] `all` must be a table, not the text \"zipf\" (use `[all]`)",
    ),
    (
        "read = { fua = \"1%\" }",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:8 [{ fua = \"1%\" }] `[read]` has no effect: the mix has no `read` (remove the table, or give the kind a share in the mix)\n\
         2:10 [fua] unknown key `fua` (the keys here are `block`, `addresses`)",
    ),
    (
        "write = { fua = 0.5 }",
        "1:1 [] the mix issues nothing (say what is issued, such as `mix = { read = 70, write = 30 }`)\n\
         2:9 [{ fua = 0.5 }] `[write]` has no effect: the mix has no `write` (remove the table, or give the kind a share in the mix)\n\
         2:17 [0.5] `write.fua` must be a percentage with a % sign, not the number 0.5 (use a value such as `\"27%\"`)",
    ),
];

#[test]
fn the_schema_is_checked() {
    let newer = errors("schema = 2\nmix = { read = 1 }");
    assert_eq!(
        newer,
        "1:10 [2] this file has schema 2; this version of iodyno reads schema 1 (use a newer iodyno)\n"
    );
    assert_eq!(
        errors("mix = { read = 1 }"),
        "1:1 [] the key `schema` is missing (set `schema = 1`)\n"
    );
}

#[test]
fn a_group_is_not_one_workload_and_reports_unknown_members() {
    let text = "schema = 1\ngroup = [\"random-read\", \"postgres\"]";
    assert_eq!(Spec::from_toml(text).unwrap_err()[0].message, "this is a group, not one workload");
    let Ok(Workload::Group(group)) = Workload::from_toml(text) else { panic!("a group") };
    let unknown = group.unknown_members(|name| name == "random-read");
    assert_eq!(unknown.len(), 1);
    assert_eq!(&text[unknown[0].span.clone()], "\"postgres\"");
    assert_eq!(unknown[0].message, "there is no workload named `postgres`");
}

/// A flag that would break a rule is refused, with the same message as in a file.
#[test]
fn overrides_obey_the_rules() {
    let spec = || {
        Spec::from_toml("schema = 1\nmix = { read = 1 }\nlimits = { ops = 5 }\nactive = \"0..64k\"")
            .unwrap()
    };
    assert_eq!(
        spec().with_threads(0).unwrap_err(),
        "the number of threads must be a whole number from 1 to 1024"
    );
    let large = iodyno_workload::Block::parse_list("128KiB").unwrap();
    assert_eq!(
        spec().with_block(large).unwrap_err(),
        "the active range 0B..64KiB does not hold one block of 128 KiB; make the range larger or \
         the block smaller"
    );
    assert!(spec().with_block(Vec::new()).is_err());
    let own = "schema = 1\nmix = { read = 1 }\nread = { block = \"64k\" }";
    let small = iodyno_workload::Block::parse_list("8KiB").unwrap();
    let small = Spec::from_toml(own).unwrap().with_block(small).unwrap();
    assert_eq!(small.max_data_bytes(), 8192, "also where a kind had a size of its own");
    assert!(spec().with_rate(f64::NAN, None).is_err());
    assert!(spec().with_rate(5e4, None).is_ok());
    assert!(spec().with_time(0).is_err());
    assert!(spec().without_time().is_ok());
    let timed = Spec::from_toml("schema = 1\nmix = { read = 1 }").unwrap();
    assert_eq!(timed.limits().time_ns, Some(10_000_000_000));
    assert!(timed.without_time().unwrap_err().contains("needs a limit of operations or bytes"));
    let thinking =
        "schema = 1\nmix = { read = 1 }\narrivals = { kind = \"closed\", think_time = \"1ms\" }";
    assert!(
        Spec::from_toml(thinking).unwrap().with_rate(5e4, None).unwrap_err().contains("think time")
    );
}
