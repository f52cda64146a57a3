//! Where partitions begin, and what is told of them when they do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::anchor::Anchor;
use super::super::progress::Page;
use super::super::resume::{Decision, Occasion};
use super::super::shard::Command;
use super::super::slot::Assignment;
use super::super::status::log_gap;
use super::{LATER_FIRST, Pair, Standing, Supervisor};
use crate::batch::SizeLimits;
use crate::client::Backoff;
use crate::copy::{Start, Terms};
use crate::model::{Gap, Moment, TopicName};

/// How long a partition waits at most that could not be decided about.
const LATER_MOST: Duration = Duration::from_secs(1);

/// Topics that are told of one by one when they begin together; of more the number is told.
const BEGUN_TOLD_MAX: usize = 5;

/// The topic config that bounds a batch.
const LIMIT_CONFIG: &str = "max.message.bytes";

/// The topic config that says whose time records have.
const STAMP_CONFIG: &str = "message.timestamp.type";
const LOG_APPEND_TIME: &str = "LogAppendTime";

/// Topics described in one request: an answer holds about forty configs of each.
const DESCRIBED_AT_ONCE: usize = 200;

/// [`LIMIT_CONFIG`] where the target does not tell: no limit of ours, its refusal tells.
const BATCH_BYTES_UNKNOWN: usize = i32::MAX as usize;

impl Supervisor {
    /// Decides about every partition whose time has come, and starts those that can start.
    pub(super) async fn decide(&mut self, now: Moment) {
        let mut due: Vec<(Pair, Occasion)> = Vec::new();
        for known in self.known.values_mut() {
            match known.state {
                Standing::Waiting(at, occasion) if at <= now => {
                    due.push((known.pair.clone(), occasion));
                }
                Standing::Stuck(at) if at <= now => {
                    // What the target takes may have changed.
                    (known.batch_bytes_max, known.refused) = (None, None);
                    due.push((known.pair.clone(), Occasion::First));
                }
                Standing::Waiting(..)
                | Standing::Stuck(_)
                | Standing::Copying
                | Standing::Leaving(_)
                | Standing::Halted => {}
            }
        }
        if due.is_empty() {
            return;
        }
        self.learn_limits(&due).await;
        if due
            .iter()
            .any(|(_, occasion)| matches!(occasion, Occasion::Doubt { new_identity: true, .. }))
        {
            match self.target.init_producer_id().await {
                Ok(identity) => self.planner.identity = identity,
                Err(error) => {
                    tracing::warn!(flow = %self.settings.id, %error, "no new producer id");
                    due.retain(|(_, occasion)| *occasion == Occasion::First);
                }
            }
        }
        // Those that are decided about for one reason are decided about together.
        let mut groups: Vec<(Occasion, Vec<Pair>)> = Vec::new();
        for (pair, occasion) in due {
            match groups.iter_mut().find(|(of, _)| *of == occasion) {
                Some((_, pairs)) => pairs.push(pair),
                None => groups.push((occasion, vec![pair])),
            }
        }
        for (occasion, pairs) in groups {
            let decisions = self.planner.decide(&pairs, &self.progress, occasion).await;
            self.carry_out(decisions, occasion).await;
        }
    }

    fn limits(&self, pair: &Pair) -> SizeLimits {
        let told = self.limits.get(&pair.target.topic).copied().unwrap_or(BATCH_BYTES_UNKNOWN);
        let known = self.known.get(&pair.source);
        let batch = known.and_then(|known| known.batch_bytes_max).unwrap_or(told).min(told);
        SizeLimits { batch, record: told, refused: known.and_then(|known| known.refused) }
    }

    /// Asks for `max.message.bytes` of the target topics. Without the right to ask, the target's
    /// refusal of a batch tells.
    async fn learn_limits(&mut self, due: &[(Pair, Occasion)]) {
        let topics: BTreeSet<TopicName> =
            due.iter().map(|(pair, _)| pair.target.topic.clone()).collect();
        let topics: Vec<TopicName> = topics.into_iter().collect();
        for topics in topics.chunks(DESCRIBED_AT_ONCE) {
            match self.target.describe_topic_configs(topics).await {
                Ok(described) => {
                    for (topic, configs) in described {
                        let configs = configs.unwrap_or_default();
                        let value = |name: &str| {
                            configs.iter().find(|one| one.name == name)?.value.as_deref()
                        };
                        if value(STAMP_CONFIG) == Some(LOG_APPEND_TIME)
                            && self.stamped.insert(topic.clone())
                        {
                            tracing::warn!(flow = %self.settings.id, %topic,
                                "the target stamps records itself (message.timestamp.type is \
                                 LogAppendTime there): the times of the source are not kept");
                        }
                        let limit = value(LIMIT_CONFIG).and_then(|limit| limit.parse().ok());
                        match limit {
                            Some(limit) => drop(self.limits.insert(topic, limit)),
                            None => drop(self.limits.remove(&topic)),
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(flow = %self.settings.id, %error, "target limits not known");
                }
            }
        }
    }

    async fn carry_out(&mut self, decisions: Vec<(Pair, Decision)>, occasion: Occasion) {
        let flow = self.settings.id.clone();
        let now = self.source.clock().now();
        let (mut anchors, mut reset) = (BTreeMap::new(), BTreeMap::new());
        let mut starting = Vec::new();
        let mut renamed: BTreeMap<TopicName, (TopicName, TopicName)> = BTreeMap::new();
        for (pair, decision) in decisions {
            let Some(known) = self.known.get_mut(&pair.source) else { continue };
            match decision {
                Decision::Start(start, gap, history, _) => {
                    let anchor =
                        Anchor { start, source_id: pair.source_id, target_id: pair.target_id };
                    if let Some(gap) = gap {
                        log_gap(&flow, &pair.source, gap);
                    }
                    if self.progress.is_behind(&pair.source, &anchor) {
                        reset.insert(pair.source.clone(), start.upstream);
                    }
                    if let Some(before) = self.progress.moved.remove(&pair.source) {
                        let names = (before, pair.target.topic.clone());
                        renamed.insert(pair.source.topic.clone(), names);
                    }
                    let ids = (pair.source_id, pair.target_id);
                    let page = self.book.open(&pair.source, ids, start, history);
                    anchors.insert(pair.source.clone(), anchor);
                    starting.push((pair, start, page, gap));
                }
                Decision::Halt(reason) => {
                    known.state = Standing::Halted;
                    known.why = Some(reason.to_string());
                    tracing::error!(%flow, partition = %pair.source, target = %pair.target, %reason,
                        "partition halted");
                }
                Decision::Later(later) => {
                    known.state = Standing::Waiting(now.after(known.later), occasion);
                    known.later = (known.later * 2).min(LATER_MOST);
                    tracing::debug!(%flow, partition = %pair.source, why = later.why,
                        "not decided yet");
                    known.why = Some(later.why);
                    known.denied = later.denied;
                }
            }
        }
        for (topic, (before, target)) in renamed.iter().take(BEGUN_TOLD_MAX) {
            tracing::warn!(%flow, %topic, %target, %before,
                "topic has another name on the target than before: it begins anew there, and its copy \
                 under the former name stays as it is");
        }
        if renamed.len() > BEGUN_TOLD_MAX {
            tracing::warn!(%flow, topics = renamed.len() - BEGUN_TOLD_MAX,
                "so have more topics another name on the target than before");
        }
        // Before the first batch goes out under an anchor, the anchor is on the target.
        let mut backoff = Backoff::new(4);
        while let Err(error) = self.committer.write_now(&anchors, &reset).await {
            if backoff.failures() == 0 {
                tracing::warn!(%flow, %error, "positions are not written; copying waits for it");
            }
            tokio::time::sleep(backoff.fail()).await;
        }
        for source in anchors.keys() {
            // From here on the anchor says where it stands.
            self.progress.connect.remove(source);
        }
        self.progress.anchors.extend(anchors);
        let mut begun: BTreeMap<(TopicName, TopicName), usize> = BTreeMap::new();
        for (pair, start, page, gap) in starting {
            let known = self.known.get(&pair.source);
            if known.is_some_and(|known| !matches!(known.state, Standing::Stuck(_))) {
                let topics = (pair.source.topic.clone(), pair.target.topic.clone());
                *begun.entry(topics).or_default() += 1;
            }
            self.begin(pair, start, (page, gap)).await;
        }
        if begun.len() > BEGUN_TOLD_MAX {
            let partitions: usize = begun.values().sum();
            tracing::info!(%flow, topics = begun.len(), partitions, "copying");
            return;
        }
        for ((topic, target), partitions) in begun {
            tracing::info!(%flow, %topic, %target, partitions, "copying");
        }
    }

    async fn begin(&mut self, pair: Pair, start: Start, (page, gap): (Page, Option<Gap>)) {
        let terms = Terms {
            read_committed: self.settings.read_committed,
            limits: self.limits(&pair),
            verify: self.settings.verify,
            oversize: self.settings.oversize,
        };
        // The shard with the fewest partitions; a partition stays in its shard.
        let mut loads = vec![0_usize; self.shards.len()];
        for shard in self.known.values().filter_map(|known| known.shard) {
            loads[shard] += 1;
        }
        let lightest = (0..loads.len()).min_by_key(|shard| loads[*shard]).unwrap_or(0);
        let Some(known) = self.known.get_mut(&pair.source) else { return };
        let shard = *known.shard.get_or_insert(lightest);
        known.state = Standing::Copying;
        known.later = LATER_FIRST;
        known.why = None;
        known.denied = None;
        tracing::debug!(flow = %self.settings.id, partition = %pair.source, target = %pair.target,
            from = %start.upstream, to = %start.downstream, "copying partition");
        let Pair { source, target, source_id, target_id } = pair;
        let assignment =
            Assignment { source, target, source_id, target_id, start, page, gap, terms };
        drop(self.shards[shard].send(Command::Begin(Box::new(assignment))).await);
    }
}
