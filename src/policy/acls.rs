//! Access rules: which are mirrored, how they are narrowed, and which may be taken away.
//!
//! MM2's rules (`MirrorSourceConnector.syncTopicAcls`): only rules on literal topic names; whoever
//! may write to a topic may not write to its replica; whoever may do everything may read. What
//! forbids is kept as it is. Nothing is ever taken away on the target.
//!
//! Beyond MM2, each only where the file asks for it:
//!
//! * rules on prefixes of topic names, narrowed in the same way. `team-` of `a` is `a.team-` on the
//!   target, where names that begin with `a.` are replicas of `a`; where names are kept it stays
//!   `team-`. One that grants is not added while it would reach a topic of the target that the flow
//!   does not mirror; one that forbids is added in any case. On replicas that `topics.rename` puts
//!   elsewhere it becomes a rule by name on each.
//! * rules on groups, whose names nobody changes, as they are: nothing is written through a group.
//! * what the flow added and its source does not have any more. The flow's [`AclClaims`] say what
//!   it added, or found added by another flow that claims it; what stands there otherwise is not
//!   the mirror's, and stays. A claim remembers which clusters a rule came through: one that came
//!   from the target is not mirrored back, or it could never be taken away.

use std::collections::{BTreeMap, BTreeSet};

use super::filters::GroupFilter;
use super::naming::PolicyKind;
use super::pattern::StepLimit;
use super::selection::{FlowTopics, Selection};
use crate::model::{
    AclBinding, AclOperation, AclPattern, AclPermission, AclResource, ClusterAlias, TopicName,
};

/// Which access rules a flow mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRules {
    /// The flow's topics.
    pub topics: FlowTopics,
    /// The flow's groups.
    pub groups: GroupFilter,
    /// Rules on names of topics (`sync.topic.acls.enabled`).
    pub of_topics: bool,
    /// Those on prefixes too (`sync.topic.acls.prefixed.enabled`).
    pub of_prefixes: bool,
    /// Rules on groups (`sync.group.acls.enabled`).
    pub of_groups: bool,
}

/// What both clusters have at one moment.
#[derive(Clone, Copy, Debug)]
pub struct AclSides<'a> {
    /// The source's rules.
    pub source: &'a [AclBinding],
    /// The target's.
    pub target: &'a [AclBinding],
    /// The source's topics.
    pub source_topics: &'a BTreeSet<TopicName>,
    /// The target's, internal ones too.
    pub target_topics: &'a BTreeSet<TopicName>,
}

/// A flow's claim on a rule of its target: it added the rule, or found it added by another flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclClaim {
    /// The name of topic, prefix or group on the source.
    pub of: String,
    /// Ids of the clusters that the rule came through: first where it was made, last the source.
    pub via: Vec<String>,
    /// The source does not have it any more; the flow is about to let go of it.
    pub leaves: bool,
}

/// One flow's claims.
pub type AclClaims = BTreeMap<AclBinding, AclClaim>;

/// Who added which rules.
#[derive(Clone, Copy, Debug)]
pub struct AclOwners<'a> {
    /// Ids of source and target.
    pub ids: (&'a str, &'a str),
    /// The flow's own claims.
    pub own: &'a AclClaims,
    /// What other flows into the target claim, those aside that they are about to let go of.
    pub others: &'a BTreeSet<AclBinding>,
    /// Rules of the source that mirrors added there: the ways that each came.
    pub upstream: &'a BTreeMap<AclBinding, Vec<Vec<String>>>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclPlan {
    /// Rules that the target lacks.
    pub add: BTreeSet<AclBinding>,
    /// Claims that differ from what is written down; to be written before rules are added.
    pub claim: AclClaims,
    /// Claimed rules that the source does not have any more.
    pub gone: BTreeSet<AclBinding>,
    /// Claimed rules that neither side has any more.
    pub forget: BTreeSet<AclBinding>,
    /// Rules on prefixes that grant, and reach what the flow does not mirror.
    pub astray: BTreeMap<AclBinding, Astray>,
    /// Claimed rules that came from another cluster than the source is now: they stay.
    pub of_another_source: usize,
    /// Rules on prefixes of mirrored topics that are not mirrored, as the file does not ask for it.
    pub prefixed: usize,
    /// Rules that are not decided about, because a pattern does not come to an end on the name:
    /// the name, and why.
    pub unclear: Vec<(String, String)>,
}

/// What a rule on a prefix reaches besides replicas of the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Astray {
    /// A topic of the target that the flow does not mirror.
    pub topic: TopicName,
    /// The rule is there; if not, it is not added.
    pub there: bool,
}

impl AclRules {
    /// The rule on the target that `acl` of the source becomes; `None` if it is not mirrored.
    ///
    /// The wildcard `*` is taken for a name, as MM2 takes it: under the default policy it becomes
    /// the rule of a topic named `a.*`, under the identity policy it stays a wildcard. So does the
    /// one of groups, if the filter lets a group of that name through.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if a pattern does not come to an end on the name.
    pub fn mirrored(
        &self,
        acl: &AclBinding,
        source_topics: &BTreeSet<TopicName>,
    ) -> Result<Option<AclBinding>, StepLimit> {
        let Some(acl) = narrowed(acl) else { return Ok(None) };
        let name = match (acl.resource, acl.pattern) {
            (AclResource::Topic, _) if !self.of_topics => None,
            (AclResource::Topic, AclPattern::Literal) => {
                match self.topics.select(&TopicName::new(&acl.name))? {
                    Selection::Copied { as_topic } => Some(as_topic.as_str().to_owned()),
                    Selection::Filtered
                    | Selection::Internal
                    | Selection::Cycle
                    | Selection::Nameless(_) => None,
                }
            }
            (AclResource::Topic, AclPattern::Prefixed) => {
                let taken = self.of_prefixes && self.takes_prefix(&acl.name, source_topics)?;
                taken.then(|| self.prefix_on_target(&acl.name))
            }
            (AclResource::Group, _) => {
                let taken = self.of_groups && self.groups.accepts(&acl.name)?;
                taken.then(|| acl.name.clone())
            }
        };
        Ok(name.map(|name| AclBinding { name, ..acl }))
    }

    /// What a prefix of source topics is on the target, for those that the policy names. What
    /// `topics.rename` names lies elsewhere: see [`Self::renamed_from`].
    fn prefix_on_target(&self, prefix: &str) -> String {
        let FlowTopics { names, flow, .. } = &self.topics;
        names.policy.replica_prefix(&flow.source).unwrap_or_default() + prefix
    }

    /// Whether rules on a prefix concern the flow: a topic of that very name would be mirrored, or
    /// one that exists and begins so is.
    fn takes_prefix(
        &self,
        prefix: &str,
        source_topics: &BTreeSet<TopicName>,
    ) -> Result<bool, StepLimit> {
        let FlowTopics { names, origins, flow, .. } = &self.topics;
        // `b.` begins only what came from `b`; the bare prefix does not show it.
        if origins.is_cycle(flow, &names.policy, &format!("{prefix}x")) {
            return Ok(false);
        }
        let on_target = self.prefix_on_target(prefix);
        let reached = |topic: &TopicName| {
            Ok(match self.topics.select(topic)? {
                Selection::Copied { as_topic } => as_topic.as_str().starts_with(&on_target),
                _ => false,
            })
        };
        if reached(&TopicName::new(prefix))? {
            return Ok(true);
        }
        for topic in beginning(source_topics, prefix) {
            if reached(topic)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The replicas of topics under a prefix whose names on the target do not begin as the others' do.
    /// What is granted on the prefix, and above all what is forbidden there, is put on each by its name:
    /// a rule on one topic may grant what the one on the prefix takes back.
    fn renamed_from(
        &self,
        prefix: &str,
        source_topics: &BTreeSet<TopicName>,
    ) -> Result<Vec<TopicName>, StepLimit> {
        let mut renamed = Vec::new();
        if self.topics.names.renames().is_empty() {
            return Ok(renamed);
        }
        let on_target = self.prefix_on_target(prefix);
        for topic in beginning(source_topics, prefix) {
            if let Selection::Copied { as_topic } = self.topics.select(topic)?
                && self.topics.names.is_by_rule(topic.as_str())
                && !as_topic.as_str().starts_with(&on_target)
            {
                renamed.push(as_topic);
            }
        }
        Ok(renamed)
    }

    /// A topic of the target that a prefix reaches and that the flow does not mirror.
    fn astray(&self, prefix: &str, sides: &AclSides<'_>) -> Option<TopicName> {
        let FlowTopics { names, flow, .. } = &self.topics;
        let policy = &names.policy;
        // It is among the replicas by its name, and may be made after the rule.
        let checkpoints = policy.internal().checkpoints(&flow.source);
        if checkpoints.as_str().starts_with(prefix) {
            return Some(checkpoints);
        }
        // By MM2's reading of names, whoever made them.
        let by_name = |topic: &str| {
            policy.kind() == PolicyKind::Default
                && !policy.separator().is_empty()
                && policy.source(topic) == Some(flow.source.as_str())
                && !policy.internal().is_internal(topic)
        };
        let replica = |topic: &TopicName| {
            names.upstream(topic.as_str()).is_some_and(|upstream| {
                sides.source_topics.contains(&upstream)
                    && self.topics.select(&upstream)
                        == Ok(Selection::Copied { as_topic: topic.clone() })
            })
        };
        beginning(sides.target_topics, prefix)
            .find(|topic| !by_name(topic.as_str()) && !replica(topic))
            .cloned()
    }

    /// Whether rules of this sort are looked at.
    fn looks_at(&self, resource: AclResource) -> bool {
        match resource {
            AclResource::Topic => self.of_topics,
            AclResource::Group => self.of_groups,
        }
    }

    /// Compares what both clusters have. Without `owners` nothing is claimed and nothing taken
    /// away.
    #[must_use]
    pub fn plan(&self, sides: &AclSides<'_>, owners: Option<&AclOwners<'_>>) -> AclPlan {
        let there: BTreeSet<&AclBinding> = sides.target.iter().collect();
        let mut plan = AclPlan::default();
        let wanted = self.wanted(sides, owners, &mut plan);
        for (acl, claim) in &wanted {
            let missing = !there.contains(acl);
            if acl.pattern == AclPattern::Prefixed
                && acl.resource == AclResource::Topic
                && acl.permission == AclPermission::Allow
                && let Some(topic) = self.astray(&acl.name, sides)
            {
                let astray = Astray { topic, there: !missing };
                plan.astray.insert(acl.clone(), astray);
                if missing {
                    if owners.is_some_and(|owners| owners.own.contains_key(acl)) {
                        plan.forget.insert(acl.clone());
                    }
                    continue;
                }
            }
            if missing {
                plan.add.insert(acl.clone());
            }
            let Some(owners) = owners else { continue };
            let is_mirrors = match owners.own.get(acl) {
                Some(written) => written != claim,
                // Nobody added it: it was there before, or was made by hand.
                None => missing || owners.others.contains(acl),
            };
            if is_mirrors {
                plan.claim.insert(acl.clone(), claim.clone());
            }
        }
        if let Some(owners) = owners {
            self.let_go(sides, owners, (&wanted, &there), &mut plan);
        }
        plan
    }

    /// What the target should have, and the claim on each.
    fn wanted(
        &self,
        sides: &AclSides<'_>,
        owners: Option<&AclOwners<'_>>,
        plan: &mut AclPlan,
    ) -> AclClaims {
        let (mut wanted, mut by_name) = (AclClaims::new(), AclClaims::new());
        for acl in sides.source {
            let Some(via) = owners.map_or(Some(Vec::new()), |owners| owners.way_of(acl)) else {
                continue;
            };
            let claim = AclClaim { of: acl.name.clone(), via, leaves: false };
            let mut take = || -> Result<(), StepLimit> {
                let on_prefix =
                    acl.resource == AclResource::Topic && acl.pattern == AclPattern::Prefixed;
                let renamed = if on_prefix && self.of_topics {
                    self.renamed_from(&acl.name, sides.source_topics)?
                } else {
                    Vec::new()
                };
                if on_prefix && self.of_topics && !self.of_prefixes {
                    let taken =
                        !renamed.is_empty() || self.takes_prefix(&acl.name, sides.source_topics)?;
                    plan.prefixed += usize::from(taken && narrowed(acl).is_some());
                    return Ok(());
                }
                if let Some(mirrored) = self.mirrored(acl, sides.source_topics)? {
                    wanted.entry(mirrored).or_insert_with(|| claim.clone());
                }
                let Some(acl) = narrowed(acl) else { return Ok(()) };
                for topic in renamed {
                    let name = topic.as_str().to_owned();
                    let one = AclBinding { pattern: AclPattern::Literal, name, ..acl.clone() };
                    // Brokers list rules in no order: of several prefixes always the same one claims.
                    let claimed = by_name.entry(one).or_insert_with(|| claim.clone());
                    if (&claim.of, &claim.via) < (&claimed.of, &claimed.via) {
                        *claimed = claim.clone();
                    }
                }
                Ok(())
            };
            if let Err(limit) = take() {
                plan.unclear.push((acl.name.clone(), format!("{acl}: {limit}")));
            }
        }
        for (acl, claim) in by_name {
            wanted.entry(acl).or_insert(claim);
        }
        wanted
    }

    /// Decides about what is claimed and not wanted. A rule that the source has, and the flow does
    /// not mirror any more because the file has changed, stays, and stays claimed.
    fn let_go(
        &self,
        sides: &AclSides<'_>,
        owners: &AclOwners<'_>,
        (wanted, there): (&AclClaims, &BTreeSet<&AclBinding>),
        plan: &mut AclPlan,
    ) {
        let alive: BTreeSet<AclBinding> = sides
            .source
            .iter()
            .filter(|acl| owners.way_of(acl).is_some())
            .filter_map(narrowed)
            .collect();
        let is_alive = |acl: &AclBinding, of: &str| {
            let one = AclBinding { name: of.to_owned(), ..acl.clone() };
            // Or it was put on a replica by its name: see `renamed_from`.
            alive.contains(&one)
                || alive.contains(&AclBinding { pattern: AclPattern::Prefixed, ..one })
        };
        for (acl, claim) in owners.own {
            if wanted.contains_key(acl) || !self.looks_at(acl.resource) {
                continue;
            }
            if !there.contains(acl) {
                plan.forget.insert(acl.clone());
            } else if is_alive(acl, &claim.of) {
                if claim.leaves {
                    plan.claim.insert(acl.clone(), AclClaim { leaves: false, ..claim.clone() });
                }
            } else if claim.via.last().map(String::as_str) == Some(owners.ids.0) {
                plan.gone.insert(acl.clone());
            } else {
                plan.of_another_source += 1;
            }
        }
    }
}

impl AclOwners<'_> {
    /// The clusters that a rule of the source came through, the source included; `None` if it came
    /// from the target on every way.
    fn way_of(&self, acl: &AclBinding) -> Option<Vec<String>> {
        let (source, target) = self.ids;
        let mut via = match self.upstream.get(acl) {
            None => Vec::new(),
            Some(ways) => ways.iter().find(|way| !way.iter().any(|id| id == target))?.clone(),
        };
        via.push(source.to_owned());
        Some(via)
    }
}

/// What a cluster is called in claims: its id, which stays the same whatever files call it and
/// changes when it is built anew; its alias if brokers tell none.
#[must_use]
pub fn claim_id(id: Option<&str>, alias: &ClusterAlias) -> String {
    id.map_or_else(|| alias.as_str().to_owned(), str::to_owned)
}

/// What is left of a rule behind the flow, under the name it has; `None` for nothing.
fn narrowed(acl: &AclBinding) -> Option<AclBinding> {
    let operation = match (acl.resource, acl.permission, acl.operation) {
        (AclResource::Topic, AclPermission::Allow, AclOperation::WRITE) => return None,
        (AclResource::Topic, AclPermission::Allow, AclOperation::ALL) => AclOperation::READ,
        (_, _, operation) => operation,
    };
    Some(AclBinding { operation, ..acl.clone() })
}

/// Those of `topics` whose names begin with `prefix`.
fn beginning<'t>(
    topics: &'t BTreeSet<TopicName>,
    prefix: &str,
) -> impl Iterator<Item = &'t TopicName> {
    let prefix = prefix.to_owned();
    topics
        .range(TopicName::new(&prefix)..)
        .take_while(move |topic| topic.as_str().starts_with(&prefix))
}
