//! Random lives and outcomes: nothing durable is offered twice, nothing is skipped for good.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Grow(u32),
    Truncate(u32),
    Publish,
    Preempt,
    Readmit,
    Commit(u64),
    Next(u64),
    /// Pins the offer of this number in flight and settles it as the answer and this say.
    Settle(usize, Settled),
}

fn op() -> impl Strategy<Value = Op> {
    let outcome = prop_oneof![
        4 => Just(Settled::Saved),
        1 => Just(Settled::Failed),
        1 => Just(Settled::Forced),
        1 => Just(Settled::Abandoned),
        1 => Just(Settled::Budget),
    ];
    prop_oneof![
        3 => (1..4_u32).prop_map(Op::Grow),
        1 => (0..8_u32).prop_map(Op::Truncate),
        3 => Just(Op::Publish),
        1 => Just(Op::Preempt),
        1 => Just(Op::Readmit),
        2 => (0..160_u64).prop_map(Op::Commit),
        4 => (0..200_u64).prop_map(Op::Next),
        5 => (0..4_usize, outcome).prop_map(|(offer, outcome)| Op::Settle(offer, outcome)),
    ]
}

fn blocks(tokens: Range<u64>) -> Range<u64> {
    tokens.start / 16..tokens.end / 16
}

proptest! {
    // A failure is told as a list of operations, which makes a test that outlives the strategies; a
    // stored seed does not.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_saved_twice_or_skipped(
        ops in vec(op(), 1..120),
        track_commits in any::<bool>(),
    ) {
        let mut e = Engine::of(Config::new(1 << 12).track_commits(track_commits), 2);
        let mut t = SaveTracker::new().end(150);
        let mut durable: BTreeSet<u64> = BTreeSet::new();
        let mut open: Vec<Offer> = Vec::new();
        for op in ops {
            match op {
                Op::Grow(len) => {
                    if e.scheduler.len(e.key, GroupId(0)).unwrap() + len <= 10 {
                        e.grow(0, len);
                    }
                }
                Op::Truncate(len) => {
                    let _ = e.scheduler.truncate(e.key, GroupId(0), len);
                }
                Op::Publish => {
                    e.scheduler.publish();
                }
                Op::Preempt => e.preempt(),
                Op::Readmit => {
                    let _ = e.scheduler.release(e.key).unwrap();
                    e.key = e.scheduler.admit("r1").unwrap();
                }
                Op::Commit(tokens) => {
                    let _ = e.scheduler.commit(e.key, tokens);
                }
                Op::Next(upto) => {
                    let Some(offer) = e.next(&mut t, upto) else { continue };
                    let range = offer.request.tokens();
                    prop_assert!(range.end <= upto.min(150) && range.start % 16 == 0);
                    prop_assert!(range.end % 16 == 0);
                    prop_assert_eq!(e.index.check(&offer.request), Ok(()));
                    for block in blocks(range) {
                        prop_assert!(!durable.contains(&block), "{} is durable", block);
                        let twice = open.iter().any(|o| blocks(o.request.tokens()).contains(&block));
                        prop_assert!(!twice, "{} is in flight", block);
                    }
                    open.push(offer);
                }
                Op::Settle(at, outcome) => {
                    let Some(offer) = open.get(at).copied() else { continue };
                    let outcome = match (outcome, e.index.pin(&offer.request)) {
                        (Settled::Abandoned | Settled::Budget, _) => outcome,
                        (_, Err(_)) => Settled::Stale,
                        (_, Ok(_)) => outcome,
                    };
                    prop_assert!(t.settle(offer.id, outcome));
                    if outcome == Settled::Saved {
                        durable.extend(blocks(offer.request.tokens()));
                    }
                    if outcome != Settled::Budget {
                        let _ = open.remove(at);
                        prop_assert!(!t.settle(offer.id, Settled::Saved));
                    }
                }
            }
            let watermark = (0..).find(|block| !durable.contains(block)).unwrap() * 16;
            prop_assert_eq!(t.watermark(), watermark);
            let saved: BTreeSet<u64> = t.saved().flat_map(blocks).collect();
            prop_assert_eq!(&saved, &durable);
            let mut in_flight: Vec<_> = open.iter().map(|o| o.request.tokens()).collect();
            in_flight.sort_by_key(|tokens| tokens.start);
            prop_assert_eq!(t.in_flight(), in_flight);
        }

        // A life that is whole and written gets everything saved that is not.
        for offer in open {
            t.settle(offer.id, Settled::Abandoned);
        }
        e.preempt();
        e.grow(0, 10);
        e.scheduler.commit(e.key, 160).unwrap();
        e.scheduler.publish();
        while let Some(offer) = e.next(&mut t, 160) {
            prop_assert!(e.index.pin(&offer.request).is_ok());
            t.settle(offer.id, Settled::Saved);
        }
        prop_assert_eq!(t.watermark(), 144, "the last whole block below 150");
        prop_assert_eq!(e.index.visible_tokens(e.key, Groups::ALL), Ok((160, 160)));
    }
}
