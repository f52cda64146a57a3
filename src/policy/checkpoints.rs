//! Which checkpoints are written, and which group offsets are committed on the target.

use crate::mm2::Checkpoint;
use crate::model::Offset;

/// Whether a checkpoint is written after `last` (`MirrorCheckpointTask`, section 8.3 of MM2's
/// rules): the first one; where the group went back on the source; where it goes forward on the
/// target.
///
/// `copied` is the end of what is copied: a checkpoint that points behind it is about a target
/// topic that is gone, and is replaced whatever it says.
#[must_use]
pub fn is_due(last: Option<&Checkpoint>, new: &Checkpoint, copied: Option<Offset>) -> bool {
    let Some(last) = last else { return true };
    new.upstream < last.upstream
        || new.downstream > last.downstream
        || copied.is_some_and(|end| last.downstream > end && new.downstream <= end)
}

/// What becomes of a group that went back on the source (`sync.group.offsets.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewind {
    /// Its offsets on the target stay where they are, as with MM2, and that is shown.
    Monotonic,
    /// The target follows, unless somebody has used the group there.
    Follow,
}

/// What a group has committed on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct There {
    /// Where it stands.
    pub offset: Offset,
    /// It was put there by us, and nobody has moved it since.
    pub ours: bool,
}

/// Why a group's offset is not committed on the target, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is.
    Yes,
    /// The group stands there already.
    Same,
    /// It stands further on.
    Ahead,
    /// It would lie behind the end of the target's log.
    BehindEnd,
}

/// Whether `wanted` is committed for a group in which nobody is, that stands at `there` on the
/// target, where the log ends at `end`.
///
/// Never backwards, except from behind the end of the log: that was about a topic that is gone;
/// and with [`Rewind::Follow`] from where we put it.
#[must_use]
pub fn commit(wanted: Offset, there: Option<There>, end: Offset, rewind: Rewind) -> Commit {
    if wanted > end {
        return Commit::BehindEnd;
    }
    match there {
        Some(there) if there.offset == wanted => Commit::Same,
        Some(there) if there.offset > wanted && there.offset <= end => {
            if there.ours && rewind == Rewind::Follow { Commit::Yes } else { Commit::Ahead }
        }
        Some(_) | None => Commit::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TopicPartition;

    fn checkpoint(upstream: i64, downstream: i64) -> Checkpoint {
        Checkpoint {
            group: "g".to_owned(),
            partition: TopicPartition::new("a.t", 0),
            upstream: Offset(upstream),
            downstream: Offset(downstream),
            metadata: String::new(),
        }
    }

    #[test]
    fn checkpoints_go_back_only_with_the_group() {
        let last = checkpoint(100, 50);
        let due = |upstream, downstream| {
            is_due(Some(&last), &checkpoint(upstream, downstream), Some(Offset(1000)))
        };
        assert!(is_due(None, &last, None));
        assert!(due(101, 51) && due(99, 40) && due(99, 50) && due(100, 51));
        assert!(!due(100, 50) && !due(101, 50) && !due(101, 49));
    }

    #[test]
    fn a_checkpoint_about_a_topic_that_is_gone_is_replaced() {
        let last = checkpoint(100, 50);
        let new = checkpoint(100, 7);
        assert!(is_due(Some(&last), &new, Some(Offset(10))));
        assert!(!is_due(Some(&last), &new, Some(Offset(50))));
    }

    fn decide(wanted: i64, there: Option<(i64, bool)>, rewind: Rewind) -> Commit {
        let there = there.map(|(offset, ours)| There { offset: Offset(offset), ours });
        commit(Offset(wanted), there, Offset(100), rewind)
    }

    #[test]
    fn a_group_is_never_set_back_nor_beyond_the_end() {
        for ours in [false, true] {
            let at = |wanted, there: Option<i64>| {
                decide(wanted, there.map(|there| (there, ours)), Rewind::Monotonic)
            };
            assert_eq!(at(100, None), Commit::Yes);
            assert_eq!(at(101, None), Commit::BehindEnd);
            assert_eq!(at(50, Some(49)), Commit::Yes);
            assert_eq!(at(50, Some(50)), Commit::Same);
            assert_eq!(at(50, Some(99)), Commit::Ahead);
            assert_eq!(at(50, Some(101)), Commit::Yes);
        }
    }

    #[test]
    fn a_rewind_is_followed_only_from_where_we_put_the_group() {
        assert_eq!(decide(50, Some((99, true)), Rewind::Follow), Commit::Yes);
        assert_eq!(decide(50, Some((99, false)), Rewind::Follow), Commit::Ahead);
        assert_eq!(decide(50, Some((50, true)), Rewind::Follow), Commit::Same);
        assert_eq!(decide(101, Some((99, true)), Rewind::Follow), Commit::BehindEnd);
    }
}
