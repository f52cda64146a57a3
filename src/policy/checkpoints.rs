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

/// Why a group's offset is not committed on the target, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is.
    Yes,
    /// The group stands there, or further on.
    Ahead,
    /// It would lie behind the end of the target's log.
    BehindEnd,
}

/// Whether `wanted` is committed for a group in which nobody is, that has `committed` on the
/// target, where the log ends at `end`.
///
/// Never backwards, except from behind the end of the log: that was about a topic that is gone.
#[must_use]
pub fn commit(wanted: Offset, committed: Option<Offset>, end: Offset) -> Commit {
    if wanted > end {
        return Commit::BehindEnd;
    }
    match committed {
        Some(there) if there >= wanted && there <= end => Commit::Ahead,
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

    #[test]
    fn a_group_is_never_set_back_nor_beyond_the_end() {
        let end = Offset(100);
        assert_eq!(commit(Offset(100), None, end), Commit::Yes);
        assert_eq!(commit(Offset(101), None, end), Commit::BehindEnd);
        assert_eq!(commit(Offset(50), Some(Offset(49)), end), Commit::Yes);
        assert_eq!(commit(Offset(50), Some(Offset(50)), end), Commit::Ahead);
        assert_eq!(commit(Offset(50), Some(Offset(99)), end), Commit::Ahead);
        assert_eq!(commit(Offset(50), Some(Offset(101)), end), Commit::Yes);
    }
}
