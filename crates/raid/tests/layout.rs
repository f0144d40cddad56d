//! Layouts compared with md's drawings, and invariants of every layout.

use iodyno_raid::layout::InStripe;
use iodyno_raid::{
    Layout, LayoutError, Level, MAX_MEMBERS, MAX_STRIP_SECTORS, MemberSet, Place, Role, Rotation,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn layout(level: Level, members: usize, member: u64, strip: u64) -> Layout {
    Layout::new(level, &vec![member; members], strip).unwrap()
}

/// Contents of each member, row by row, with strips of one sector.
fn drawn(layout: &Layout, rows: u64) -> String {
    let row = |sector| {
        let of_member = |member| match layout.contents(Place { member, sector }) {
            Some(at @ InStripe { role: Role::Data(_), .. }) => {
                layout.address(at).unwrap().to_string()
            }
            Some(InStripe { role, .. }) => format!("{role:?}"),
            None => "-".to_owned(),
        };
        (0..layout.members()).map(of_member).collect::<Vec<_>>().join(" ")
    };
    (0..rows).map(row).collect::<Vec<_>>().join(" | ")
}

/// The drawings are those of md(4) and of the comments in `raid5.c` and `raid10.c`.
#[test]
fn arrays_are_laid_out_as_md_does() {
    use Rotation::{LeftAsymmetric, LeftSymmetric, RightAsymmetric, RightSymmetric};
    let of_parity = [
        (Level::Raid5, LeftSymmetric, "0 1 2 P | 4 5 P 3 | 8 P 6 7 | P 9 10 11 | 12 13 14 P"),
        (Level::Raid5, LeftAsymmetric, "0 1 2 P | 3 4 P 5 | 6 P 7 8 | P 9 10 11 | 12 13 14 P"),
        (Level::Raid5, RightSymmetric, "P 0 1 2 | 5 P 3 4 | 7 8 P 6 | 9 10 11 P | P 12 13 14"),
        (Level::Raid5, RightAsymmetric, "P 0 1 2 | 3 P 4 5 | 6 7 P 8 | 9 10 11 P | P 12 13 14"),
        (Level::Raid6, LeftSymmetric, "Q 0 1 P | 2 3 P Q | 5 P Q 4 | P Q 6 7 | Q 8 9 P"),
        (Level::Raid6, LeftAsymmetric, "Q 0 1 P | 2 3 P Q | 4 P Q 5 | P Q 6 7 | Q 8 9 P"),
        (Level::Raid6, RightSymmetric, "P Q 0 1 | 3 P Q 2 | 4 5 P Q | Q 6 7 P | P Q 8 9"),
        (Level::Raid6, RightAsymmetric, "P Q 0 1 | 2 P Q 3 | 4 5 P Q | Q 6 7 P | P Q 8 9"),
    ];
    for (level, rotation, expected) in of_parity {
        assert_eq!(drawn(&layout(level, 4, 5, 1).rotated(rotation), 5), expected, "{level}");
    }
    let others = [
        (Level::Raid0, 3, "0 1 2 | 3 4 5 | 6 7 8"),
        (Level::Raid1, 3, "0 0 0 | 1 1 1 | 2 2 2"),
        (Level::Raid10, 4, "0 0 1 1 | 2 2 3 3 | 4 4 5 5"),
        (Level::Raid10, 3, "0 0 1 | 1 2 2 | 3 3 -"),
        (Level::Jbod, 2, "0 3 | 1 4 | 2 5"),
    ];
    for (level, members, expected) in others {
        assert_eq!(drawn(&layout(level, members, 3, 1), 3), expected, "{level}");
    }
}

/// md's Q counts members from the one after Q (`raid6_d0`), not strips. With the asymmetric rotations on four members,
/// the two data strips of a stripe change places if P and Q are between them.
#[test]
fn q_counts_members_from_the_one_after_it() {
    let turned = [
        (Rotation::LeftSymmetric, None),
        (Rotation::RightSymmetric, None),
        // `4 P Q 5` and `2 P Q 3`
        (Rotation::LeftAsymmetric, Some(2)),
        (Rotation::RightAsymmetric, Some(1)),
    ];
    for (rotation, turned) in turned {
        let layout = layout(Level::Raid6, 4, 4, 1).rotated(rotation);
        for row in 0..4 {
            let stripe = layout.stripe(row);
            let expected = if turned == Some(row) { [1, 0] } else { [0, 1] };
            assert_eq!([0, 1].map(|n| stripe.exponent(n)), expected, "{rotation}, row {row}");
        }
    }
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let shape = (0..Level::ALL.len(), 0..Rotation::ALL.len(), 0..15_usize, 1..5_u64, 1..40_u64);
    (shape, 0..4_u64).prop_map(|((level, rotation, more, strip, rows), rest)| {
        let level = Level::ALL[level];
        let member_sectors = strip * rows + rest % strip;
        layout(level, level.least_members() + more, member_sectors, strip)
            .rotated(Rotation::ALL[rotation])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each address has a location for each copy, no two share one, and every location leads back
    /// to its address.
    #[test]
    fn a_layout_is_a_bijection(layout in any_layout()) {
        let mut places = BTreeSet::new();
        for address in 0..layout.sectors() {
            let at = layout.locate(address);
            prop_assert_eq!(layout.address(at), Some(address));
            let Role::Data(strip) = at.role else { panic!("{at:?}") };
            for copy in 0..layout.copies() {
                let mut place = layout.stripe(at.stripe).data(usize::from(strip), copy);
                place.sector += at.offset;
                prop_assert_eq!(layout.contents(place), Some(at));
                prop_assert!(places.insert((place.member, place.sector)), "{:?} twice", place);
                prop_assert!(copy > 0 || layout.place(address) == place);
            }
        }
        for number in 0..layout.stripes() {
            let stripe = layout.stripe(number);
            for (begin, role) in [(stripe.p(), Role::P), (stripe.q(), Role::Q)] {
                let Some(Place { member, sector }) = begin else { continue };
                for offset in 0..layout.strip_sectors() {
                    let place = Place { member, sector: sector + offset };
                    let expected = InStripe { stripe: number, role, offset };
                    prop_assert_eq!(layout.contents(place), Some(expected));
                    prop_assert!(places.insert((member, place.sector)), "{:?} twice", place);
                }
            }
        }
        // Nothing else is used, also beyond the members' ends.
        for member in 0..layout.members() + 2 {
            for sector in 0..240 {
                let is_used = places.contains(&(member, sector));
                prop_assert_eq!(layout.contents(Place { member, sector }).is_some(), is_used);
            }
        }
    }

    /// A stripe has a strip on each member (RAID 10: two on neighbours). Among N stripes in sequence, where N is the
    /// number of members, each member has P once and Q once.
    #[test]
    fn a_stripe_has_each_member_once_and_parity_goes_round(layout in any_layout()) {
        let (mut with_p, mut with_q) = (BTreeSet::new(), BTreeSet::new());
        let members = layout.members();
        for number in 0..layout.stripes() {
            let stripe = layout.stripe(number);
            let copies = (0..layout.copies()).flat_map(|copy| {
                (0..layout.data_strips()).map(move |strip| stripe.data(strip, copy))
            });
            let mut of_stripe: Vec<_> = copies.chain(stripe.p()).chain(stripe.q()).collect();
            match layout.level() {
                Level::Jbod => prop_assert_eq!(of_stripe.len(), 1),
                Level::Raid10 => {
                    prop_assert_eq!(of_stripe.len(), 2);
                    let [first, second] = [of_stripe[0].member, of_stripe[1].member];
                    prop_assert_eq!((first + 1) % members, second);
                }
                _ => {
                    let sector = of_stripe[0].sector;
                    prop_assert!(of_stripe.iter().all(|place| place.sector == sector));
                    of_stripe.sort_unstable_by_key(|place| place.member);
                    let found = of_stripe.iter().map(|place| place.member);
                    prop_assert!(found.eq(0..members), "{:?}", of_stripe);
                }
            }
            let mut exponents: Vec<usize> =
                (0..layout.data_strips()).map(|strip| stripe.exponent(strip)).collect();
            if let Some(q) = stripe.q() {
                exponents.sort_unstable();
                prop_assert!(exponents.into_iter().eq(0..layout.data_strips()));
                with_q.insert(q.member);
            }
            with_p.extend(stripe.p().map(|p| p.member));
            if (number + 1) % members as u64 == 0 {
                let all = |parities| if parities <= layout.level().parities() { members } else { 0 };
                prop_assert_eq!((with_p.len(), with_q.len()), (all(1), all(2)));
                with_p.clear();
                with_q.clear();
            }
        }
    }

    #[test]
    fn a_range_is_cut_at_the_borders_of_stripes(layout in any_layout(), ends in [0.0..1.0_f64, 0.0..1.0_f64]) {
        let at = |share: f64| (share * layout.sectors() as f64) as u64;
        let range = at(ends[0].min(ends[1]))..at(ends[0].max(ends[1]));
        let mut next = range.start;
        for (stripe, part) in layout.split(range.clone()) {
            prop_assert_eq!(stripe * layout.stripe_sectors() + part.start, next);
            prop_assert!(part.start < part.end && part.end <= layout.stripe_sectors());
            prop_assert!(part.start == 0 || next == range.start);
            next += part.end - part.start;
        }
        prop_assert_eq!(next, range.end);
    }
}

type Sets = &'static [&'static [usize]];

/// For each level: losses that an array survives, and losses that it does not.
#[test]
fn an_array_survives_what_its_level_promises() {
    let of = |members: &[usize]| members.iter().copied().collect::<MemberSet>();
    let cases: [(Level, usize, Sets, Sets); 7] = [
        (Level::Raid0, 3, &[], &[&[0], &[2]]),
        (Level::Jbod, 3, &[], &[&[0], &[2]]),
        (Level::Raid1, 3, &[&[0, 1], &[1, 2]], &[&[0, 1, 2]]),
        (Level::Raid5, 4, &[&[0], &[3]], &[&[0, 1], &[1, 3]]),
        (Level::Raid6, 5, &[&[0, 4], &[2, 3]], &[&[0, 1, 2]]),
        (Level::Raid10, 4, &[&[0, 2], &[1, 2]], &[&[0, 1], &[2, 3], &[0, 2, 3]]),
        // Each neighbour of a member has a copy of some of it.
        (Level::Raid10, 5, &[&[0, 2], &[1, 4]], &[&[0, 1], &[1, 2], &[0, 4]]),
    ];
    for (level, members, survived, lost) in cases {
        let layout = layout(level, members, 64, 8);
        assert!(layout.survives(MemberSet::NONE));
        for missing in survived {
            assert!(layout.survives(of(missing)), "{level} of {members} without {missing:?}");
        }
        for missing in lost {
            assert!(!layout.survives(of(missing)), "{level} of {members} without {missing:?}");
        }
    }
}

#[test]
fn an_array_that_breaks_a_rule_is_refused_with_the_rule() {
    let refused =
        |level, members: &[u64], strip| Layout::new(level, members, strip).unwrap_err().to_string();
    for level in Level::ALL {
        let least = level.least_members();
        assert!(Layout::new(level, &vec![8; least], 8).is_ok());
        assert!(Layout::new(level, &[8; MAX_MEMBERS], 8).is_ok());
        let expected =
            format!("{level} needs at least {least} members, but {} are given", least - 1);
        assert_eq!(refused(level, &vec![8; least - 1], 8), expected);
        let too_many = Layout::new(level, &[8; MAX_MEMBERS + 1], 8).unwrap_err();
        assert_eq!(too_many, LayoutError::TooManyMembers { members: MAX_MEMBERS + 1 });
    }
    let unequal = refused(Level::Raid0, &[16, 16, 24], 8);
    assert!(unequal.contains("equal sizes: member 2 has 24 sectors, member 0 has 16"), "{unequal}");
    assert_eq!(
        refused(Level::Raid5, &[8; 3], 0),
        "a strip of RAID 5 must have at least one sector"
    );
    // A strip is ignored where there is none.
    assert!(Layout::new(Level::Raid1, &[8; 2], 0).is_ok());
    let small = Layout::new(Level::Raid6, &[7; 4], 8).unwrap_err();
    assert_eq!(small, LayoutError::SmallMember { member_sectors: 7, strip_sectors: 8 });
    let strip_sectors = MAX_STRIP_SECTORS + 8;
    let large = Layout::new(Level::Raid0, &[1 << 30], strip_sectors).unwrap_err();
    assert_eq!(large, LayoutError::LargeStrip { strip_sectors });
    assert!(Layout::new(Level::Jbod, &[0], 8).is_err());
    assert!(Layout::new(Level::Raid1, &[u64::MAX; 2], 8).is_err());
}

/// Capacities by md's formulas, with the sizes of real members.
#[test]
fn capacities_are_those_of_whole_strips() {
    let capacity = |level, members| layout(level, members, 1_000_000_007, 512).sectors();
    let rows = 1_000_000_007 / 512;
    assert_eq!(capacity(Level::Raid0, 5), rows * 512 * 5);
    assert_eq!(capacity(Level::Raid5, 18), rows * 512 * 17);
    assert_eq!(capacity(Level::Raid6, 18), rows * 512 * 16);
    assert_eq!(capacity(Level::Raid10, 5), rows * 5 / 2 * 512);
    assert_eq!(capacity(Level::Raid1, 5), 1_000_000_007);
    assert_eq!(capacity(Level::Jbod, 5), 5 * 1_000_000_007);
}
