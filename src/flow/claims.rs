//! Which flow of this process writes which target topic, and from where.
//!
//! Two flows whose names for their topics coincide would merge two streams of records that nobody
//! can tell apart afterwards. On a target that holds records already, those show it
//! ([`ExistingRecords`](super::ExistingRecords)); on an empty one both flows would begin at once.
//! And where names stay as they are, flows may lead round: a record would come back to where it
//! was written, and go on for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{ClusterAlias, FlowId, TopicName};

/// A topic on a cluster.
type Place = (ClusterAlias, TopicName);

/// The claims of all flows of a process; cheap to clone. Holds as many entries as there are target
/// topics that were ever copied to.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<BTreeMap<Place, (FlowId, TopicName)>>>);

impl Claims {
    fn claims(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, (FlowId, TopicName)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims `target` on the flow's target for what is read from `source`, if no other flow has
    /// it.
    ///
    /// # Errors
    ///
    /// The flow that has it.
    pub(super) fn take(
        &self,
        flow: &FlowId,
        source: &TopicName,
        target: &TopicName,
    ) -> Result<(), FlowId> {
        let mut claims = self.claims();
        let (holder, _) = claims
            .entry((flow.target.clone(), target.clone()))
            .or_insert_with(|| (flow.clone(), source.clone()));
        if holder == flow { Ok(()) } else { Err(holder.clone()) }
    }

    /// Claims a topic that the flow has copied to before: whoever else did has not.
    pub(super) fn take_over(&self, flow: &FlowId, source: &TopicName, target: &TopicName) {
        let place = (flow.target.clone(), target.clone());
        self.claims().insert(place, (flow.clone(), source.clone()));
    }

    /// The flow that brings to `source` what `flow` would bring to `target`: the last of those
    /// that lead round.
    pub(super) fn loops(
        &self,
        flow: &FlowId,
        source: &TopicName,
        target: &TopicName,
    ) -> Option<FlowId> {
        let claims = self.claims();
        let end = (flow.target.clone(), target.clone());
        let mut place = (flow.source.clone(), source.clone());
        let mut last = None;
        // A chain cannot be longer than there are claims; a ring among others ends here, too.
        for _ in 0..claims.len() {
            let (writer, from) = claims.get(&place)?;
            place = (writer.source.clone(), from.clone());
            let by = last.get_or_insert_with(|| writer.clone());
            if place == end {
                return Some(by.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, target: &str) -> FlowId {
        FlowId { source: ClusterAlias::new(source), target: ClusterAlias::new(target) }
    }

    #[test]
    fn a_topic_has_one_writer_and_progress_beats_being_first() {
        let (claims, t) = (Claims::default(), TopicName::new("t"));
        assert_eq!(claims.take(&flow("a", "c"), &t, &t), Ok(()));
        assert_eq!(claims.take(&flow("a", "c"), &t, &t), Ok(()));
        assert_eq!(claims.take(&flow("b", "c"), &t, &t), Err(flow("a", "c")));
        assert_eq!(claims.take(&flow("b", "d"), &t, &t), Ok(()), "another target");

        claims.take_over(&flow("b", "c"), &t, &t);
        assert_eq!(claims.take(&flow("a", "c"), &t, &t), Err(flow("b", "c")));
    }

    #[test]
    fn flows_that_lead_round_are_found_over_any_number_of_hops() {
        let (claims, t, other) = (Claims::default(), TopicName::new("t"), TopicName::new("a.t"));
        assert_eq!(claims.loops(&flow("b", "a"), &t, &t), None);
        claims.take(&flow("a", "b"), &t, &t).unwrap();
        assert_eq!(claims.loops(&flow("b", "a"), &t, &t), Some(flow("a", "b")));
        assert_eq!(claims.loops(&flow("a", "b"), &t, &t), None, "not with itself");
        assert_eq!(claims.loops(&flow("b", "c"), &t, &t), None, "a chain is no ring");

        claims.take(&flow("b", "c"), &t, &t).unwrap();
        assert_eq!(claims.loops(&flow("c", "a"), &t, &t), Some(flow("b", "c")));
        assert_eq!(claims.loops(&flow("c", "a"), &t, &other), None, "under another name");
    }
}
