//! Executes plans on arrays of bytes, one byte per sector. Afterwards the members' contents must equal
//! those computed anew from the whole array, with no unnecessary read or write.

use iodyno_raid::{
    Access, Layout, Level, MemberSet, Method, Place, Plan, Role, Rotation, Simd, Stripe, gf,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

type Members = Vec<Vec<u8>>;
/// Bytes of a stripe that are known, by role and offset.
type Known = BTreeMap<(u8, u64), u8>;

fn number(role: Role) -> u8 {
    match role {
        Role::Data(strip) => strip,
        Role::P => 0xFE,
        Role::Q => 0xFF,
    }
}

fn layout(level: Level, rotation: Rotation, members: usize, strip: u64, rows: u64) -> Layout {
    Layout::new(level, &vec![strip * rows; members], strip).unwrap().rotated(rotation)
}

fn content(len: u64, seed: u64) -> Vec<u8> {
    let byte = |at: u64| ((at + seed * 1_000_003).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
    (0..len).map(byte).collect()
}

/// P and Q of all data of a stripe at one offset.
fn parity(layout: &Layout, stripe: &Stripe<'_>, data: impl Fn(usize) -> u8) -> [u8; 2] {
    (0..layout.data_strips()).fold([0, 0], |[p, q], strip| {
        let factor = gf::power_of_2(stripe.exponent(strip));
        [p ^ data(strip), q ^ gf::mul(factor, data(strip))]
    })
}

/// The members of an array with the content `content`.
fn encode(layout: &Layout, content: &[u8], member_sectors: usize) -> Members {
    let mut members = vec![vec![0; member_sectors]; layout.members()];
    let mut put = |place: Place, offset: u64, byte| {
        members[place.member][(place.sector + offset) as usize] = byte;
    };
    for number in 0..layout.stripes() {
        let stripe = layout.stripe(number);
        for offset in 0..layout.strip_sectors() {
            let data = |strip: usize| {
                let strips = number * layout.data_strips() as u64 + strip as u64;
                content[(strips * layout.strip_sectors() + offset) as usize]
            };
            for strip in 0..layout.data_strips() {
                for copy in 0..layout.copies() {
                    put(stripe.data(strip, copy), offset, data(strip));
                }
            }
            let [p, q] = parity(layout, &stripe, data);
            stripe.p().into_iter().for_each(|place| put(place, offset, p));
            stripe.q().into_iter().for_each(|place| put(place, offset, q));
        }
    }
    members
}

/// Executes the reads. No access may touch a missing member, leave its strip, or be mergeable with
/// another.
fn read(
    plan: &Plan,
    copies: usize,
    stripe: &Stripe<'_>,
    members: &Members,
    missing: MemberSet,
) -> Known {
    for list in [plan.reads(), plan.writes()] {
        for (at, access) in list.iter().enumerate() {
            let member = usize::from(access.member);
            let begins = match access.role {
                Role::Data(strip) => {
                    (0..copies).map(|n| stripe.data(usize::from(strip), n)).collect()
                }
                Role::P => vec![stripe.p().unwrap()],
                Role::Q => vec![stripe.q().unwrap()],
            };
            assert!(begins.contains(&Place { member, sector: access.sector - access.offset }));
            assert!(!missing.contains(member) && access.sectors > 0, "{access:?}");
            for other in list[at + 1..].iter().filter(|other| other.member == access.member) {
                let apart = access.offset + access.sectors < other.offset;
                assert!(apart, "{access:?} and {other:?} are one");
            }
        }
    }
    let bytes = |access: &Access| {
        let from = access.sector as usize;
        let read = &members[usize::from(access.member)][from..from + access.sectors as usize];
        let (role, offset) = (number(access.role), access.offset);
        let known = read.iter().zip(offset..).map(move |(&byte, offset)| ((role, offset), byte));
        known.collect::<Vec<_>>()
    };
    plan.reads().iter().flat_map(bytes).collect()
}

/// Recovers all data of a stripe at an offset from the known bytes.
fn recover(layout: &Layout, stripe: &Stripe<'_>, known: &Known, offset: u64) -> Vec<u8> {
    let (mut data, mut missing) = (vec![[0]; layout.data_strips()], Vec::new());
    for strip in 0..layout.data_strips() {
        let exponent = stripe.exponent(strip);
        match known.get(&(strip as u8, offset)) {
            Some(&byte) => data[exponent] = [byte],
            None => missing.push(Role::Data(exponent as u8)),
        }
    }
    let mut parity = [[0], [0]];
    let begins = [(Role::P, stripe.p()), (Role::Q, stripe.q())];
    for ((role, begin), to) in begins.into_iter().zip(&mut parity) {
        match known.get(&(number(role), offset)) {
            Some(&byte) => *to = [byte],
            None => missing.extend(begin.map(|_| role)),
        }
    }
    let [p, q] = &mut parity;
    let q = stripe.q().map(|_| &mut q[..]);
    let mut strips: Vec<&mut [u8]> = data.iter_mut().map(|strip| &mut strip[..]).collect();
    Simd::best().recover(&mut strips, p, q, &missing);
    (0..layout.data_strips()).map(|strip| data[stripe.exponent(strip)][0]).collect()
}

/// Executes a planned write of `new`.
fn write(
    layout: &Layout,
    plan: &Plan,
    stripe: &Stripe<'_>,
    range: &Range<u64>,
    new: &[u8],
    members: &mut Members,
    missing: MemberSet,
) {
    let known = read(plan, layout.copies(), stripe, members, missing);
    let size = layout.strip_sectors();
    let written = |strip: usize, offset: u64| {
        let at = strip as u64 * size + offset;
        range.contains(&at).then(|| new[(at - range.start) as usize])
    };
    let strips = 0..layout.data_strips();
    let mut after = Known::new();
    let mut used = 0;
    for row in plan.rows() {
        for offset in row.offsets.clone() {
            for strip in strips.clone() {
                let new = written(strip, offset);
                after.extend(new.map(|byte| ((strip as u8, offset), byte)));
                let wanted =
                    row.offsets.clone().filter(|&o| written(strip, o).is_some()).count() as u64;
                assert!([0, row.offsets.end - row.offsets.start].contains(&wanted), "{row:?}");
            }
            let old = |strip: usize| known[&(strip as u8, offset)];
            let [p, q] = match row.method {
                Method::Direct => continue,
                Method::ReadModifyWrite => {
                    let changed = |strip| written(strip, offset).map_or(0, |new| new ^ old(strip));
                    let change = parity(layout, stripe, changed);
                    let roles = [(Role::P, change[0]), (Role::Q, change[1])];
                    used += strips.clone().filter(|&s| written(s, offset).is_some()).count();
                    roles.map(|(role, change)| {
                        let old = known.get(&(number(role), offset));
                        used += usize::from(old.is_some());
                        old.map_or(0, |old| old ^ change)
                    })
                }
                Method::ReconstructWrite => {
                    used += strips.clone().filter(|&s| written(s, offset).is_none()).count();
                    parity(layout, stripe, |strip| {
                        written(strip, offset).unwrap_or_else(|| old(strip))
                    })
                }
                Method::Recover => {
                    used += known.keys().filter(|(_, at)| *at == offset).count();
                    let all = recover(layout, stripe, &known, offset);
                    parity(layout, stripe, |strip| written(strip, offset).unwrap_or(all[strip]))
                }
            };
            after.extend([((number(Role::P), offset), p), ((number(Role::Q), offset), q)]);
        }
    }
    assert_eq!(used, known.len(), "every byte that is read is needed: {plan:?}");
    for access in plan.writes() {
        for n in 0..access.sectors {
            let byte = after[&(number(access.role), access.offset + n)];
            members[usize::from(access.member)][(access.sector + n) as usize] = byte;
        }
    }
}

/// Minimum number of reads over all assignments of methods to rows, and whether read-modify-write of all rows needs no
/// more. No data member may be missing.
fn fewest_reads(
    layout: &Layout,
    stripe: &Stripe<'_>,
    range: &Range<u64>,
    missing: MemberSet,
) -> (usize, bool) {
    let size = layout.strip_sectors();
    let is_written = |strip: usize, offset| range.contains(&(strip as u64 * size + offset));
    let strips = || 0..layout.data_strips();
    let touched = |offset| strips().any(|strip| is_written(strip, offset));
    let present = [stripe.p(), stripe.q()].into_iter().flatten();
    let parities = present.filter(|place| !missing.contains(place.member)).count();
    // A row is a class of offsets with the same strips; its bit is that of its place in this list.
    let mut rows: Vec<Vec<bool>> =
        (0..size).map(|o| strips().map(|s| is_written(s, o)).collect()).collect();
    rows.dedup();
    let row = |offset| {
        let of: Vec<bool> = strips().map(|s| is_written(s, offset)).collect();
        rows.iter().position(|row| *row == of).unwrap()
    };
    let reads = |modified: usize| {
        let is_modified = |offset| touched(offset) && modified >> row(offset) & 1 == 1;
        let runs = |wanted: &dyn Fn(u64) -> bool| {
            (0..size).filter(|&o| wanted(o) && (o == 0 || !wanted(o - 1))).count()
        };
        let data = strips().map(|s| runs(&|o| touched(o) && is_written(s, o) == is_modified(o)));
        data.sum::<usize>() + parities * runs(&is_modified)
    };
    let fewest = if parities == 0 { 0 } else { (0..1 << rows.len()).map(reads).min().unwrap() };
    (fewest, parities == 0 || reads(usize::MAX) == fewest)
}

/// Every set of up to `most` members.
fn sets(members: usize, most: usize) -> Vec<MemberSet> {
    let mut all = vec![MemberSet::NONE];
    for _ in 0..most {
        let more = all.iter().flat_map(|&set| (0..members).map(move |member| set.with(member)));
        let more: Vec<_> = more.collect();
        all.extend(more);
    }
    all.sort_by_key(|set| set.iter().collect::<Vec<_>>());
    all.dedup();
    all
}

/// Writes a range of stripe `number` while the members `missing` are missing, and reads the whole stripe back.
fn check(layout: &Layout, number: u64, range: &Range<u64>, missing: MemberSet, plan: &mut Plan) {
    let size = layout.stripe_sectors();
    let stripe = layout.stripe(number);
    let member_sectors = match layout.level() {
        Level::Raid10 => {
            (layout.stripes() * 2).div_ceil(layout.members() as u64) * layout.strip_sectors()
        }
        Level::Raid1 | Level::Jbod => layout.strip_sectors(),
        _ => layout.stripes() * layout.strip_sectors(),
    } as usize;
    let mut all = content(layout.sectors(), range.start + 7);
    let mut members = encode(layout, &all, member_sectors);
    // The bytes of missing members are wrong, and nothing may depend on them.
    missing.iter().for_each(|member| members[member].fill(0x5A));
    if !stripe.survives(missing) {
        plan.write(layout, number, range.clone(), missing).unwrap_err();
        plan.read(layout, number, range.clone(), missing, 0).unwrap_err();
        return;
    }
    plan.write(layout, number, range.clone(), missing).unwrap();
    let new = content(range.end - range.start, 99 + range.end);
    let at = (number * size + range.start) as usize;
    all[at..at + new.len()].copy_from_slice(&new);
    write(layout, plan, &stripe, range, &new, &mut members, missing);
    let mut anew = encode(layout, &all, member_sectors);
    missing.iter().for_each(|member| anew[member].fill(0x5A));
    assert_eq!(members, anew, "{layout:?}, {number}, {range:?}, {missing:?}: {plan:?}");
    let data_is_there =
        (0..layout.data_strips()).all(|strip| !missing.contains(stripe.data(strip, 0).member));
    if data_is_there && layout.level().parities() > 0 {
        let (fewest, modifies) = fewest_reads(layout, &stripe, range, missing);
        assert_eq!(plan.reads().len(), fewest, "{layout:?}, {range:?}, {missing:?}: {plan:?}");
        let method = plan.rows()[0].method;
        assert!(plan.rows().iter().all(|row| row.method == method));
        assert_eq!(method != Method::ReconstructWrite, modifies, "{layout:?}, {range:?}: {plan:?}");
    }
    for (range, copy) in [(range.clone(), 0), (0..size, 1)] {
        plan.read(layout, number, range.clone(), missing, copy).unwrap();
        let known = read(plan, layout.copies(), &stripe, &members, missing);
        assert!(plan.writes().is_empty());
        for row in plan.rows() {
            for offset in row.offsets.clone() {
                let of_all = (row.method == Method::Recover)
                    .then(|| recover(layout, &stripe, &known, offset));
                for strip in 0..layout.data_strips() {
                    let at = strip as u64 * layout.strip_sectors() + offset;
                    if range.contains(&at) {
                        let byte = of_all
                            .as_ref()
                            .map_or_else(|| known[&(strip as u8, offset)], |all| all[strip]);
                        assert_eq!(
                            byte,
                            all[(number * size + at) as usize],
                            "{layout:?}: {plan:?}"
                        );
                    }
                }
            }
        }
        if plan.rows().iter().all(|row| row.method == Method::Direct) {
            assert_eq!(known.len() as u64, range.end - range.start, "a direct read reads no more");
        }
    }
}

/// Every range of every stripe of every small array, with each set of missing members that the level survives.
#[test]
fn a_plan_leaves_the_members_as_the_content_gives_them() {
    let mut plan = Plan::new();
    let mut checked = 0;
    for level in Level::ALL {
        let rotations = if level.parities() > 0 { &Rotation::ALL[..] } else { &Rotation::ALL[..1] };
        for (&rotation, more) in rotations.iter().flat_map(|r| (0..3).map(move |more| (r, more))) {
            let members = level.least_members() + more;
            let layout =
                layout(level, rotation, members, 3, if more == 1 { members as u64 } else { 2 });
            for missing in sets(members, level.parities() + 1) {
                for stripe in 0..layout.stripes().min(members as u64) {
                    for begin in 0..layout.stripe_sectors() {
                        for end in begin + 1..=layout.stripe_sectors() {
                            check(&layout, stripe, &(begin..end), missing, &mut plan);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{checked} plans");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random plans of wide arrays leave the members as the content gives them.
    #[test]
    fn a_plan_for_up_to_18_members(
        (level, rotation) in (0..Level::ALL.len(), 0..Rotation::ALL.len()),
        (members, strip) in (4..19_usize, 1..20_u64),
        ends in [0.0..1.0_f64, 0.0..1.0_f64],
        missing in prop::collection::vec(0..18_usize, 0..3),
        stripe in 0..3_u64,
    ) {
        let layout = layout(Level::ALL[level], Rotation::ALL[rotation], members, strip, 3);
        let missing = missing.into_iter().filter(|&m| m < members).collect();
        let at = |share: f64| (share * (layout.stripe_sectors() - 1) as f64) as u64;
        let range = at(ends[0].min(ends[1]))..at(ends[0].max(ends[1])) + 1;
        check(&layout, stripe.min(layout.stripes() - 1), &range, missing, &mut Plan::new());
    }
}

/// Member operations of small writes, as textbooks have them.
#[test]
fn member_operations_are_the_textbooks() {
    let mut plan = Plan::new();
    let mut operations = |level, members, range: Range<u64>, missing: &[usize]| {
        let layout = layout(level, Rotation::default(), members, 8, 4);
        plan.write(&layout, 0, range, missing.iter().copied().collect()).unwrap();
        (plan.reads().len(), plan.writes().len())
    };
    assert_eq!(operations(Level::Raid10, 8, 0..4, &[]), (0, 2));
    assert_eq!(operations(Level::Raid5, 8, 0..4, &[]), (2, 2));
    assert_eq!(operations(Level::Raid6, 8, 0..4, &[]), (3, 3));
    // Full stripes.
    assert_eq!(operations(Level::Raid5, 8, 0..56, &[]), (0, 8));
    assert_eq!(operations(Level::Raid6, 8, 0..48, &[]), (0, 8));
    // 3 of 7 strips: a read each of 3 and P, or of 4. A tie.
    assert_eq!(operations(Level::Raid5, 8, 0..24, &[]), (4, 4));
    // 4 of 7 strips: the other 3.
    assert_eq!(operations(Level::Raid5, 8, 0..32, &[]), (3, 5));
    // Without the written member: all others. Without P: nothing.
    assert_eq!(operations(Level::Raid5, 8, 0..4, &[0]), (6, 1));
    assert_eq!(operations(Level::Raid5, 8, 0..4, &[7]), (0, 1));
}

#[test]
fn a_lost_stripe_is_named() {
    let layout = layout(Level::Raid5, Rotation::default(), 4, 8, 4);
    let missing = [1, 3].into_iter().collect();
    let lost = Plan::new().write(&layout, 2, 0..8, missing).unwrap_err();
    assert_eq!(
        lost.to_string(),
        "stripe 2 of a RAID 5 array is lost, because its members 1, 3 are missing"
    );
}

/// A plan has the write penalty of textbooks on an array that is wide enough for read-modify-write.
#[test]
fn a_small_write_has_the_penalty_of_textbooks() {
    for level in Level::ALL {
        for members in [4, 8] {
            let layout = layout(level, Rotation::default(), members, 8, 4);
            let mut plan = Plan::new();
            plan.write(&layout, 0, 0..1, MemberSet::default()).unwrap();
            let of = level.small_write(members);
            assert_eq!(plan.writes().len(), of.writes, "{level} of {members}");
            // A narrow array reads the rest of the stripe instead.
            if members == 8 || level.parities() == 0 {
                assert_eq!(plan.reads().len(), of.reads, "{level} of {members}");
            }
        }
    }
}
