//! Whatever the target answers, a partition's copy loses, repeats and reorders nothing.
//!
//! The target is an oracle with a broker's rules for idempotent producers; see
//! `proto_tests::copy_run` for what is judged after every step.

use proptest::prelude::*;
use proto_tests::copy_run::{Ended, Piece, Step, run, run_with_forgetful_target};

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => (any::<u8>(), 0..5_u8).prop_map(|(count, codec)| Piece::Data(count, codec)),
        2 => any::<u8>().prop_map(Piece::Holes),
        1 => any::<u8>().prop_map(Piece::Emptied),
        1 => any::<u8>().prop_map(Piece::Missing),
        1 => any::<u8>().prop_map(Piece::AppendTime),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(n, commit)| Piece::Transaction(n, commit)),
        1 => any::<u8>().prop_map(Piece::Interleaved),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let lane = || 0..2_u8;
    prop_oneof![
        4 => (0..8_u8, any::<u8>()).prop_map(|(batches, tail)| Step::Fetch(batches, tail)),
        1 => Just(Step::StaleFetch),
        1 => (0..6_u8).prop_map(Step::FetchFails),
        8 => Just(Step::Take),
        6 => lane().prop_map(Step::Serve),
        1 => (lane(), 0..4_u8).prop_map(|(lane, code)| Step::Refuse(lane, code)),
        1 => (lane(), 0..2_u8).prop_map(|(lane, code)| Step::StoreAndRefuse(lane, code)),
        5 => lane().prop_map(Step::Answer),
        1 => Just(Step::AnswerTwice),
        1 => lane().prop_map(Step::Lose),
        1 => Just(Step::Ghost),
        1 => Just(Step::MoveLeader),
        1 => Just(Step::Release),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(piece(), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn every_record_arrives_once_and_in_order_whatever_the_target_answers(
        pieces in pieces(),
        steps in prop::collection::vec(step(), 0..120),
        near_the_end in any::<bool>(),
    ) {
        let first = if near_the_end { i32::MAX - 3 } else { 0 };
        prop_assert_eq!(run(&pieces, &steps, first), Ok(Ended::Copied));
    }

    #[test]
    fn a_damaged_batch_halts_the_copy_and_nothing_of_it_is_stored(
        before in pieces(),
        count in any::<u8>(),
        after in pieces(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let pieces = [before, vec![Piece::Damaged(count)], after].concat();
        prop_assert_eq!(run(&pieces, &steps, 0), Ok(Ended::HaltedAtDamage));
    }
}

/// An answer that overtakes that of the batch before it, as happens around a leader's move.
#[test]
fn a_batch_whose_answer_came_too_early_is_not_forgotten() {
    let pieces = [Piece::Data(1, 0), Piece::Data(1, 0)];
    let steps = [
        Step::Fetch(2, 0),
        Step::Take,
        Step::Serve(0),
        Step::MoveLeader,
        Step::Take,
        Step::Serve(1),
        Step::Answer(1),
        Step::Answer(0),
    ];
    assert_eq!(run(&pieces, &steps, 0), Ok(Ended::Copied));
}

/// Negative control: with a leader that forgets sequences the judge must object.
#[test]
fn the_judge_reports_a_duplicate_when_the_leader_forgets_sequences() {
    let pieces = [Piece::Data(2, 0), Piece::Data(3, 1)];
    let steps = [
        Step::Fetch(2, 0),
        Step::Take,
        Step::Take,
        Step::Serve(0),
        Step::Serve(0),
        Step::Lose(0),
        Step::Take,
        Step::Serve(0),
        Step::Answer(0),
    ];
    assert_eq!(run(&pieces, &steps, 0), Ok(Ended::Copied));
    let what = run_with_forgetful_target(&pieces, &steps).unwrap_err();
    assert!(what.contains("a duplicate"), "{what}");
}
