//! Incremental fetch sessions (KIP-227). Pure: it plans requests and learns from answers.
//!
//! A broker that keeps a session remembers what each partition was asked for; a request then
//! carries only what changed, and an answer only partitions with news. With thousands of quiet
//! partitions that is the difference between a few bytes and a megabyte per poll.

use std::collections::BTreeMap;

use crate::model::{Offset, PartitionIndex};
use crate::wire::ErrorCode;
use crate::wire::fetch::{PartitionWish, TopicRef};

/// A partition as a session names it.
pub type SessionKey = (TopicRef, PartitionIndex);

/// What one request says about partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// Session id for the request.
    pub id: i32,
    /// Session epoch for the request.
    pub epoch: i32,
    /// New or changed partitions, grouped by topic.
    pub topics: Vec<(TopicRef, Vec<PartitionWish>)>,
    /// Partitions that leave, grouped by topic.
    pub forgotten: Vec<(TopicRef, Vec<PartitionIndex>)>,
}

/// One connection's session with one broker.
///
/// Every answer moves the epoch; a request without an answer ends the session, as only the
/// broker knows whether it counted.
#[derive(Debug, Default)]
pub struct FetchSession {
    id: i32,
    epoch: i32,
    /// The answer that is waited for belongs to a session that was given up meanwhile.
    given_up: bool,
    /// What the broker remembers.
    known: BTreeMap<SessionKey, PartitionWish>,
}

impl FetchSession {
    /// Whether the next request must carry every partition.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.epoch == 0
    }

    /// Plans a request. `changes` holds, for each partition that may have changed (for each
    /// partition at all, if the session is full), what is wanted of it now, or `None`.
    pub fn plan(
        &mut self,
        changes: impl IntoIterator<Item = (SessionKey, Option<PartitionWish>)>,
    ) -> SessionPlan {
        if self.is_full() {
            self.known.clear();
        }
        self.given_up = false;
        let mut topics: BTreeMap<TopicRef, Vec<PartitionWish>> = BTreeMap::new();
        let mut forgotten: BTreeMap<TopicRef, Vec<PartitionIndex>> = BTreeMap::new();
        for (key, wish) in changes {
            match wish {
                Some(wish) if self.known.get(&key) == Some(&wish) => {}
                Some(wish) => {
                    topics.entry(key.0.clone()).or_default().push(wish);
                    self.known.insert(key, wish);
                }
                None => {
                    if self.known.remove(&key).is_some() {
                        forgotten.entry(key.0).or_default().push(key.1);
                    }
                }
            }
        }
        SessionPlan {
            id: self.id,
            epoch: self.epoch,
            topics: topics.into_iter().collect(),
            forgotten: forgotten.into_iter().collect(),
        }
    }

    /// Where the broker was last asked to read a partition from.
    #[must_use]
    pub fn asked(&self, key: &SessionKey) -> Option<Offset> {
        self.known.get(key).map(|wish| wish.position)
    }

    /// Whether the broker has anything to look at for us.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Learns from an answer's own code and session id.
    pub fn on_answer(&mut self, code: ErrorCode, id: i32) {
        if code.is_error() || id == 0 || self.given_up {
            // Refused or lost (70, 71, 106), or the broker's cache is full: the next is full.
            self.reset();
            return;
        }
        self.id = id;
        // After i32::MAX comes 1: 0 asks for a new session (`FetchMetadata.nextEpoch`).
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }

    /// Forgets the session: the next request is full, whatever the answer to the present one
    /// says.
    pub fn reset(&mut self) {
        self.id = 0;
        self.epoch = 0;
        self.given_up = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LeaderEpoch;

    fn key(partition: i32) -> SessionKey {
        (TopicRef::Name("t".into()), partition)
    }

    fn wish(partition: i32, position: i64) -> (SessionKey, Option<PartitionWish>) {
        let wish = PartitionWish {
            partition,
            position: Offset(position),
            leader_epoch: LeaderEpoch(0),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            bytes_max: 1000,
        };
        (key(partition), Some(wish))
    }

    fn asked(plan: &SessionPlan) -> Vec<i32> {
        plan.topics.iter().flat_map(|(_, all)| all.iter().map(|one| one.partition)).collect()
    }

    #[test]
    fn after_the_first_request_only_changes_are_sent() {
        let mut session = FetchSession::default();
        let first = session.plan([wish(0, 0), wish(1, 0)]);
        assert_eq!((first.id, first.epoch, asked(&first)), (0, 0, vec![0, 1]));
        session.on_answer(ErrorCode::NONE, 77);

        let second = session.plan([wish(0, 10), wish(1, 0)]);
        assert_eq!((second.id, second.epoch, asked(&second)), (77, 1, vec![0]));
        session.on_answer(ErrorCode::NONE, 77);

        let third = session.plan([(key(1), None), (key(9), None)]);
        assert_eq!((third.epoch, asked(&third)), (2, vec![]));
        assert_eq!(third.forgotten, [(TopicRef::Name("t".into()), vec![1])]);
    }

    #[test]
    fn a_session_that_is_given_up_while_an_answer_is_on_its_way_stays_given_up() {
        let mut session = FetchSession::default();
        session.plan([wish(0, 0), wish(1, 0)]);
        session.reset();
        session.on_answer(ErrorCode::NONE, 77);

        assert!(session.is_full());
        let next = session.plan([wish(0, 0)]);
        assert_eq!((next.id, next.epoch, asked(&next)), (0, 0, vec![0]));
        session.on_answer(ErrorCode::NONE, 78);
        assert_eq!(session.plan([wish(0, 5)]).epoch, 1);
    }

    #[test]
    fn a_session_that_is_refused_or_lost_starts_full_again() {
        for (code, id) in [(70, 77), (71, 77), (0, 0)] {
            let mut session = FetchSession::default();
            session.plan([wish(0, 0)]);
            session.on_answer(ErrorCode::NONE, 77);
            session.on_answer(ErrorCode(code), id);

            assert!(session.is_full());
            let next = session.plan([wish(0, 0)]);
            assert_eq!((next.id, next.epoch, asked(&next)), (0, 0, vec![0]));
        }
    }
}
