//! Speed of RAID parity on one core, compared with ISA-L (Debian's `libisal2`, loaded if installed) and with the C
//! library's `memcpy`.
//!
//! `cargo run -p iodyno-bench --release -- parity [--rounds N] [--out DIR]`
//!
//! Contenders take turns of at least 0.1 s. A figure is the number of bytes read and written per second, comparable
//! with memory bandwidth. A copy counts 2 bytes per byte, and an update 6. P and Q of 8 strips count 10 bytes per 8
//! bytes of data. Both cases have ten members. In the case `memory` each has 48 MiB, which is processed in strips of 64
//! KiB. In the case `cache` each is a single strip of 16 KiB, processed repeatedly.

use crate::bare_ram::map;
use crate::tables::{Spread, ratio, spread};
use iodyno_raid::{Simd, gf};
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

const DATA: usize = 8;
const MEMBERS: usize = DATA + 2;
const TURN_S: f64 = 0.1;

/// Memory layout of a comparison: size of each RAID member and of its strips.
struct Case {
    name: &'static str,
    member_bytes: usize,
    strip_bytes: usize,
}

const CASES: [Case; 2] = [
    Case { name: "memory", member_bytes: 48 << 20, strip_bytes: 64 << 10 },
    Case { name: "cache", member_bytes: 16 << 10, strip_bytes: 16 << 10 },
];

/// Function that computes the parity of all stripes once.
type Pass<'a> = Box<dyn FnMut(&mut [&'static mut [u8]]) + 'a>;

/// A parity implementation. `bytes_per_byte` is the number of bytes it reads and writes per byte of a member.
struct Contender<'a> {
    name: String,
    bytes_per_byte: usize,
    pass: Pass<'a>,
}

pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let (mut rounds, mut out) = (9, PathBuf::from("bench/out"));
    for pair in args.chunks(2) {
        match pair {
            [flag, value] if flag == "--rounds" => {
                rounds = value
                    .parse()
                    .map_err(|_| format!("--rounds {value}: the value is not valid"))?;
            }
            [flag, value] if flag == "--out" => out = value.into(),
            _ => return Err("the options of parity are --rounds N and --out DIR".to_owned()),
        }
    }
    let isal = Isal::load();
    let mut raw = String::from("case,contender,round,gigabytes_per_second\n");
    let mut summary = String::new();
    for case in &CASES {
        let mut members = Vec::new();
        for member in 0..MEMBERS {
            let memory = map(case.member_bytes).map_err(|e| e.to_string())?;
            let mut state = member as u64 + 1;
            for word in memory.chunks_exact_mut(8) {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                word.copy_from_slice(&state.rotate_left(29).to_le_bytes());
            }
            members.push(memory);
        }
        if let Some(isal) = &isal {
            agree(isal, &mut members, case.strip_bytes);
        }
        let mut contenders = contenders(case, isal.as_ref());
        let mut rates = vec![Vec::new(); contenders.len()];
        for round in 0..rounds {
            for (contender, rates) in contenders.iter_mut().zip(&mut rates) {
                let rate = turn(contender, &mut members);
                let _ = writeln!(raw, "{},{},{round},{rate:.3}", case.name, contender.name);
                rates.push(rate);
            }
        }
        let _ = writeln!(
            summary,
            "\n{:<8}{:<28}{:>6}  [min-max]  / memcpy's rate",
            case.name, "", "GB/s"
        );
        for (contender, of) in contenders.iter().zip(&rates) {
            let Spread { median, min, max } = spread(of);
            let beside: Vec<f64> = of.iter().zip(&rates[0]).map(|(a, b)| a / b).collect();
            let beside = ratio(spread(&beside));
            let name = &contender.name;
            let _ = writeln!(summary, "  {name:<32}{median:>8.1}  [{min:.1}-{max:.1}]  {beside}");
        }
    }
    print!("{summary}");
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    for (name, text) in [("parity.csv", &raw), ("parity.txt", &summary)] {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Returns the contenders. The first is `memcpy` of whole members, the reference for all others.
fn contenders<'a>(case: &Case, isal: Option<&'a Isal>) -> Vec<Contender<'a>> {
    let len = case.strip_bytes;
    let mut all: Vec<Contender<'a>> = Vec::new();
    let mut add = |name: String, bytes_per_byte, pass: Pass<'a>| {
        all.push(Contender { name, bytes_per_byte, pass });
    };
    let copy = |members: &mut [&'static mut [u8]]| {
        let (from, to) = members.split_at_mut(DATA / 2);
        for (from, to) in from.iter().zip(to) {
            to.copy_from_slice(from);
        }
    };
    add("memcpy".to_owned(), 2 * (DATA / 2), Box::new(copy));
    for simd in Simd::available() {
        let pass = move |members: &mut [_]| each_stripe(members, len, |_, all| p_and_q(simd, all));
        add(format!("P+Q {simd:?}"), MEMBERS, Box::new(pass));
    }
    if let Some(isal) = isal {
        let pass = move |members: &mut [_]| each_stripe(members, len, |_, all| isal.p_and_q(all));
        add("P+Q ISA-L".to_owned(), MEMBERS, Box::new(pass));
    }
    for simd in Simd::available() {
        let pass = move |members: &mut [_]| {
            each_stripe(members, len, |stripe, all| update(simd, all, stripe % DATA));
        };
        add(format!("update {simd:?}"), 6, Box::new(pass));
    }
    if let Some(isal) = isal {
        let mut changed = vec![0; len + 64];
        let pass = move |members: &mut [_]| {
            each_stripe(members, len, |stripe, all| isal.update(all, &mut changed, stripe % DATA));
        };
        add("update ISA-L (two calls)".to_owned(), 6, Box::new(pass));
    }
    all
}

/// Runs a contender repeatedly for about 0.1 s. Returns its throughput (bytes read plus written), GB/s.
fn turn(contender: &mut Contender<'_>, members: &mut [&'static mut [u8]]) -> f64 {
    let (begin, mut computed) = (Instant::now(), 0);
    loop {
        (contender.pass)(members);
        computed += members[0].len() * contender.bytes_per_byte;
        let elapsed = begin.elapsed().as_secs_f64();
        if elapsed >= TURN_S {
            return computed as f64 / elapsed / 1e9;
        }
    }
}

/// Calls `step` for each stripe, with the stripe's number and its strips: data strips, then P and Q.
fn each_stripe(
    members: &mut [&'static mut [u8]],
    len: usize,
    mut step: impl FnMut(usize, &mut [&mut [u8]]),
) {
    for stripe in 0..members[0].len() / len {
        let mut members = members.iter_mut();
        let mut strips: [&mut [u8]; MEMBERS] = std::array::from_fn(|_| {
            let member = members.next().expect("ten members");
            &mut member[stripe * len..][..len]
        });
        step(stripe, &mut strips);
    }
}

fn p_and_q(simd: Simd, all: &mut [&mut [u8]]) {
    let (data, parity) = all.split_at_mut(DATA);
    let data: [&[u8]; DATA] = std::array::from_fn(|strip| &*data[strip]);
    let [p, q] = parity else { unreachable!("ten members") };
    simd.p_and_q(&data, p, q);
}

/// Updates P and Q as if the content of the first strip were replaced by that of the second. `exponent`: e of the
/// factor 2^e that the strip has in Q.
fn update(simd: Simd, all: &mut [&mut [u8]], exponent: usize) {
    let [old, new, .., p, q] = all else { unreachable!("ten members") };
    simd.update(Some(p), Some(q), old, new, exponent);
}

/// Checks that ISA-L and iodyno, with every available instruction set, compute the same parity.
fn agree(isal: &Isal, members: &mut [&'static mut [u8]], len: usize) {
    let mut changed = vec![0; len + 64];
    each_stripe(members, len, |_, all| agree_on_stripe(isal, all, &mut changed));
}

fn agree_on_stripe(isal: &Isal, all: &mut [&mut [u8]], changed: &mut [u8]) {
    isal.p_and_q(all);
    let theirs = [all[DATA].to_vec(), all[DATA + 1].to_vec()];
    for exponent in 0..DATA {
        isal.update(all, changed, exponent);
    }
    let theirs_after = [all[DATA].to_vec(), all[DATA + 1].to_vec()];
    for simd in Simd::available() {
        p_and_q(simd, all);
        assert!(theirs[..] == all[DATA..], "{simd:?} and ISA-L differ");
        for exponent in 0..DATA {
            update(simd, all, exponent);
        }
        assert!(theirs_after[..] == all[DATA..], "parity updates by {simd:?} and by ISA-L differ");
    }
}

type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;
type InitTables = unsafe extern "C" fn(c_int, c_int, *mut u8, *mut u8);
type EncodeUpdate =
    unsafe extern "C" fn(c_int, c_int, c_int, c_int, *mut u8, *mut u8, *mut *mut u8);

/// Functions of `libisal.so.2`, and the coefficient tables that they use.
struct Isal {
    pq_gen: Generate,
    xor_gen: Generate,
    ec_encode_data_update: EncodeUpdate,
    /// Coefficient tables for the factors 1 (for P) and 2^exponent (for Q), indexed by exponent.
    tables: Vec<[u8; 64]>,
}

impl Isal {
    fn load() -> Option<Self> {
        // SAFETY: the library's constructors only detect instructions.
        let library = unsafe { libc::dlopen(c"libisal.so.2".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            eprintln!("iodyno-bench: libisal.so.2 is not installed: ISA-L is left out");
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the handle is never closed, and the name ends with 0.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!found.is_null(), "libisal.so.2 has no {name:?}");
            found
        };
        // SAFETY: the types match ISA-L's `raid.h` and `erasure_code.h`.
        unsafe {
            let init: InitTables = std::mem::transmute(symbol(c"ec_init_tables"));
            let table = |exponent| {
                let (mut factors, mut table) = ([1, gf::power_of_2(exponent)], [0; 64]);
                init(1, 2, factors.as_mut_ptr(), table.as_mut_ptr());
                table
            };
            Some(Self {
                pq_gen: std::mem::transmute::<*mut c_void, Generate>(symbol(c"pq_gen")),
                xor_gen: std::mem::transmute::<*mut c_void, Generate>(symbol(c"xor_gen")),
                ec_encode_data_update: std::mem::transmute::<*mut c_void, EncodeUpdate>(symbol(
                    c"ec_encode_data_update",
                )),
                tables: (0..DATA).map(table).collect(),
            })
        }
    }

    fn p_and_q(&self, all: &mut [&mut [u8]]) {
        let mut pointers: [_; MEMBERS] = std::array::from_fn(|n| all[n].as_mut_ptr().cast());
        // SAFETY: ten page-aligned strips of this length; the last two are the parity.
        let code = unsafe {
            (self.pq_gen)(MEMBERS as c_int, all[0].len() as c_int, pointers.as_mut_ptr())
        };
        assert_eq!(code, 0);
    }

    /// Updates P and Q with ISA-L for a replaced strip. `changed` is a buffer for the difference between old and
    /// new content.
    fn update(&self, all: &mut [&mut [u8]], changed: &mut [u8], exponent: usize) {
        let (len, align) = (all[0].len() as c_int, changed.as_ptr().align_offset(64));
        let changed = changed[align..].as_mut_ptr();
        let mut sources = [all[0].as_mut_ptr().cast(), all[1].as_mut_ptr().cast(), changed.cast()];
        let mut parity = [all[DATA].as_mut_ptr(), all[DATA + 1].as_mut_ptr()];
        let tables = self.tables[exponent].as_ptr().cast_mut();
        // SAFETY: all have this length; `changed` had 64 bytes more before alignment.
        unsafe {
            assert_eq!((self.xor_gen)(3, len, sources.as_mut_ptr()), 0);
            (self.ec_encode_data_update)(len, 1, 2, 0, tables, changed, parity.as_mut_ptr());
        }
    }
}
