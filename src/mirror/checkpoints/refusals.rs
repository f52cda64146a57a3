//! Offsets that a cluster refused to give or to take, in words: which groups, why, what next.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::ClusterAlias;
use crate::wire::ErrorCode;

/// Groups named for one reason; a site with a thousand of them has a log to read, too.
const NAMED_MAX: usize = 10;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// To say what groups have committed.
    Read,
    /// To take an offset for a group.
    Commit,
}

/// Groups whose offsets were refused, by reason.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<ErrorCode, Vec<String>>);

impl Refusals {
    pub(super) fn add(&mut self, code: ErrorCode, group: String) {
        self.0.entry(code).or_default().push(group);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One sentence for all of them; empty if there are none.
    pub(super) fn words(&self, deed: Deed, cluster: &ClusterAlias) -> String {
        let mut reasons = Vec::new();
        for (code, groups) in &self.0 {
            let mut reason =
                format!("{code}: {}", groups[..groups.len().min(NAMED_MAX)].join(", "));
            if groups.len() > NAMED_MAX {
                write!(reason, " and {} more", groups.len() - NAMED_MAX).unwrap_or_default();
            }
            if let Some(advice) = advice(*code, deed) {
                write!(reason, " ({advice})").unwrap_or_default();
            }
            reasons.push(reason);
        }
        if reasons.is_empty() {
            return String::new();
        }
        let deed = match deed {
            Deed::Read => "read",
            Deed::Commit => "committed",
        };
        format!("offsets of groups cannot be {deed} on {cluster}: {}", reasons.join("; "))
    }
}

/// What a coordinator's code means, and what to do about it (`GroupCoordinatorService`,
/// `OffsetMetadataManager`).
const fn advice(code: ErrorCode, deed: Deed) -> Option<&'static str> {
    Some(match (code.0, deed) {
        (30, Deed::Read) => "DESCRIBE on the group is needed",
        (30, Deed::Commit) => "READ on the group is needed",
        (29, Deed::Read) => "DESCRIBE on the topics is needed",
        (29, Deed::Commit) => "READ on the topics is needed",
        (69, Deed::Commit) => {
            "a group of this name is there and is no consumer group: `groups.exclude` can leave it out"
        }
        (12, Deed::Commit) => {
            "what members wrote beside the offset is longer than the broker's \
             `offset.metadata.max.bytes`, which can be raised"
        }
        (28, Deed::Commit) => {
            "the commit is larger than what the broker's topic __consumer_offsets takes: raise its \
             `max.message.bytes`"
        }
        (3, Deed::Commit) => "the topic is not there any more, or not yet",
        (14..=16, _) => "its coordinator moves or starts, and is asked again in the next round",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_advice() {
        let cluster = ClusterAlias::new("west");
        let mut refused = Refusals::default();
        assert_eq!(refused.words(Deed::Commit, &cluster), "");
        assert!(refused.is_empty());
        refused.add(ErrorCode(69), "shared".into());
        refused.add(ErrorCode(30), "secret".into());
        refused.add(ErrorCode(30), "other".into());
        refused.add(ErrorCode(16), "moving".into());
        let words = refused.words(Deed::Commit, &cluster);
        assert!(words.starts_with("offsets of groups cannot be committed on west: "), "{words}");
        let reasons: Vec<&str> = words.split("; ").collect();
        assert_eq!(reasons.len(), 3, "{words}");
        assert!(reasons[0].contains("moving (its coordinator moves"), "{words}");
        assert!(reasons[1].contains("secret, other (READ on the group is needed)"), "{words}");
        assert!(reasons[2].contains("shared (a group of this name"), "{words}");
        assert!(!reasons[2].contains("READ"), "another type of group lacks no right: {words}");
        assert!(refused.words(Deed::Read, &cluster).contains("DESCRIBE on the group"));
    }

    #[test]
    fn many_groups_are_counted() {
        let mut refused = Refusals::default();
        for group in 0..25 {
            refused.add(ErrorCode(30), format!("g{group}"));
        }
        let words = refused.words(Deed::Read, &ClusterAlias::new("west"));
        assert!(words.contains("g9 and 15 more") && !words.contains("g10"), "{words}");
    }
}
