//! Where a flow would start, decided by what a start itself decides by, and nothing written.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::progress::Loaded;
use super::resume::{Decision, Occasion, Origin, Planner};
use super::settings::FlowSettings;
use super::supervisor::Pair;
use crate::client::{Cluster, LogError};
use crate::model::{Gap, Offset, ProducerIdentity, Side, TopicName};

/// Stands for the producer id that a start would be given: none is asked for here.
const NO_IDENTITY: ProducerIdentity = ProducerIdentity { id: -1, epoch: -1 };

/// What would become of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// Which one.
    pub pair: Pair,
    /// What would become of it.
    pub outlook: Outlook,
}

/// What would become of a partition at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It would be copied.
    Starts {
        /// From this upstream offset on.
        upstream: Offset,
        /// Upstream offsets from there to the end of the source's log.
        left: i64,
        /// Where the place comes from.
        origin: Origin,
        /// What the source has lost before it.
        gap: Option<Gap>,
    },
    /// It would stop, for this reason.
    Halts(String),
    /// That cannot be said now.
    Unclear {
        /// Why not.
        why: String,
        /// The cluster whose topic must not be read, if that is why.
        denied: Option<Side>,
    },
}

/// Looks at progress and at both logs of each of `pairs`, and decides as a start would. Target topics
/// that are `absent` would be made by it. `offsets` is the cluster with Connect's offsets topic.
///
/// # Errors
///
/// [`LogError`] if progress cannot be read.
pub async fn foresee(
    settings: &FlowSettings,
    (source, target): (&Cluster, &Cluster),
    offsets: &Cluster,
    pairs: &[Pair],
    absent: &BTreeSet<TopicName>,
) -> Result<Vec<Foreseen>, LogError> {
    let progress = Loaded::read(settings, (target, offsets), &BTreeSet::new()).await?;
    let planner = Planner {
        settings: Arc::new(settings.clone()),
        source: source.clone(),
        target: target.clone(),
        identity: NO_IDENTITY,
    };
    let decided = planner.weigh(pairs, &progress, Occasion::First, absent).await;
    let seen = decided.into_iter().map(|(pair, decision, ends)| {
        let outlook = match decision {
            Decision::Start(start, gap, _, origin) => Outlook::Starts {
                upstream: start.upstream,
                left: ends.map_or(0, |ends| ends.end.since(start.upstream).max(0)),
                origin,
                gap,
            },
            Decision::Halt(reason) => Outlook::Halts(reason.to_string()),
            Decision::Later(later) => Outlook::Unclear { why: later.why, denied: later.denied },
        };
        Foreseen { pair, outlook }
    });
    Ok(seen.collect())
}
