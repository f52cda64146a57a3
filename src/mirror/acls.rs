//! The ACLs round: access rules of the source, on its replicas and groups on the target.
//!
//! Adds what is missing on the target; takes away what the flow added and the source does not have
//! any more, where the file asks for that. Which rules, how they are narrowed, and whose they are,
//! is `policy`'s business.
//!
//! ```text
//!   look at both ─▶ plan ─▶ write claims down ─▶ add ─▶ take claims back of what was refused
//!                     │
//!                     └─ gone at two looks ─▶ claims leave ─▶ who else claims? ─▶ nobody: take away
//!                                                                       └──▶ somebody: let go
//! ```
//!
//! Two looks, because each may have been answered by a broker that lags behind. Claims leave before
//! others' are read: of two flows that let go at once, at least one sees that the other does, too,
//! so that the rule does not stay behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::claims::{OwnClaims, SeenClaims, claims_topic};
use super::complaints::{Complaints, complain};
use super::internal_topics::InternalTopic;
use super::rights::{Missing, Resource, is_denied, refusal};
use super::rounds::{Lines, Notes, Round, Trouble};
use crate::client::{Cluster, RequestError, TopicError};
use crate::model::{AclBinding, AclOperation, AclResource, FlowId, TopicName};
use crate::policy::{
    AclClaim, AclClaims, AclOwners, AclPlan, AclRules, AclSides, Astray, Thing, claim_id,
};

/// Rules that are added, or taken away, in one request.
///
/// A KRaft controller takes all of a request's rules as one change of its log, and refuses more
/// than 10,000 records in one.
const ACLS_PER_REQUEST: usize = 500;

/// Rules that are told line by line when they are taken away; of the rest only the number is.
const TOLD_MAX: usize = 20;

/// How often a rule is added, a round after the other, before that is taken for a contest.
const CONTESTED_AFTER: u32 = 5;

/// After how many rounds in its place a rule is as good as new.
const FORGOTTEN_AFTER: u64 = 10;

/// What is said about a rule that is.
const CONTESTED: &str = "is taken away on the target each time it is added, by an operator perhaps; it \
     is added more and more seldom. sync.topic.acls.enabled=false leaves rules to the target";

/// `SECURITY_DISABLED`: the cluster has no authorizer.
const SECURITY_DISABLED: i16 = 54;

/// How ACLs are kept in step.
#[derive(Clone, Debug)]
pub struct AclSync {
    /// How often.
    pub interval: Duration,
    /// Which rules.
    pub rules: AclRules,
    /// Whether rules that the flow added are taken away when the source has them no more.
    pub remove: bool,
    /// Where it is kept which rules the flow claims.
    pub owned: InternalTopic,
}

impl AclSync {
    /// Whether it is kept which rules are the flow's: with any of what goes beyond MM2.
    #[must_use]
    pub fn owns(&self) -> bool {
        self.remove || self.rules.of_prefixes || self.rules.of_groups
    }

    /// The topic that says which of the source's rules came from the target.
    #[must_use]
    pub fn back(&self) -> TopicName {
        claims_topic(&self.rules.topics.flow.target)
    }
}

/// What a round would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclForecast {
    /// Rules that would be added on the target.
    pub add: Vec<AclBinding>,
    /// Rules that would be taken away there.
    pub remove: Vec<AclBinding>,
    /// What would be left as it is, in words.
    pub left: Vec<String>,
}

/// Who claims which rules.
#[derive(Debug)]
struct Claimed {
    own: OwnClaims,
    beside: SeenClaims,
    upstream: SeenClaims,
}

/// One flow's ACLs round.
#[derive(Debug)]
pub(super) struct AclsRound {
    sync: AclSync,
    source: Cluster,
    target: Cluster,
    claimed: Option<Claimed>,
    /// Claimed rules that the source did not have at the last look.
    gone: BTreeSet<AclBinding>,
    complaints: Complaints,
    contested: Contested,
    prefixed_told: usize,
}

impl AclsRound {
    pub(super) fn new(sync: AclSync, source: &Cluster, target: &Cluster) -> Self {
        let complaints = Complaints::new(&sync.rules.topics.flow, "acls");
        Self {
            sync,
            source: source.clone(),
            target: target.clone(),
            claimed: None,
            gone: BTreeSet::new(),
            complaints,
            contested: Contested::default(),
            prefixed_told: 0,
        }
    }

    fn flow(&self) -> &FlowId {
        &self.sync.rules.topics.flow
    }

    /// What a round would do now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Trouble`] as a round itself.
    pub(super) async fn foresee(&mut self) -> Result<AclForecast, Trouble> {
        let mut plan = self.look().await?;
        let mut left = self.left(&plan);
        if self.sync.remove
            && let Some(claimed) = &self.claimed
        {
            let others = claimed.beside.kept();
            let shared = plan.gone.iter().filter(|acl| others.contains(acl)).count();
            if shared > 0 {
                left.push(format!("{shared} ACLs stay, as another flow claims them"));
            }
            plan.gone.retain(|acl| !others.contains(acl));
        } else {
            plan.gone.clear();
        }
        left.extend(plan.astray.iter().map(|(acl, found)| astray(acl, found)));
        left.extend(plan.unclear.into_iter().map(|(_, what)| format!("not decided: {what}")));
        Ok(AclForecast {
            add: plan.add.into_iter().collect(),
            remove: plan.gone.into_iter().collect(),
            left,
        })
    }

    /// Looks at both clusters, and plans.
    async fn look(&mut self) -> Result<AclPlan, Trouble> {
        if self.sync.owns() && self.claimed.is_none() {
            let own = OwnClaims::load(self.flow(), &self.target, &self.sync.owned).await?;
            let beside = SeenClaims::beside(&self.target, &self.sync.owned.name);
            let upstream = SeenClaims::upstream(&self.source, &self.flow().target);
            self.claimed = Some(Claimed { own, beside, upstream });
        }
        // Before and after: a rule that is seen while another flow adds or removes it is that
        // flow's at one of the two moments.
        let mut upstream = BTreeMap::new();
        if let Some(claimed) = &mut self.claimed {
            claimed.upstream.refresh().await?;
            upstream = claimed.upstream.ways();
        }
        let source = self.rules_of(&self.source, Thing::SourceCluster).await?;
        if let Some(claimed) = &mut self.claimed {
            claimed.upstream.refresh().await?;
            upstream.extend(claimed.upstream.ways());
        }
        let topics = |cluster: &Cluster| cluster.view().topics.keys().cloned().collect();
        let (source_topics, target_topics) = (topics(&self.source), topics(&self.target));
        let sides = |target| AclSides {
            source: &source,
            target,
            source_topics: &source_topics,
            target_topics: &target_topics,
        };
        let Some(claimed) = &mut self.claimed else {
            let plan = self.sync.rules.plan(&sides(&[]), None);
            // Without rules to mirror, the target need not be asked.
            if plan.add.is_empty() {
                return Ok(plan);
            }
            let target = self.rules_of(&self.target, Thing::TargetCluster).await?;
            return Ok(self.sync.rules.plan(&sides(&target), None));
        };
        claimed.beside.refresh().await?;
        let target = self.rules_of(&self.target, Thing::TargetCluster).await?;
        let Some(claimed) = &self.claimed else { return Ok(AclPlan::default()) };
        let id =
            |cluster: &Cluster| claim_id(cluster.view().cluster_id.as_deref(), cluster.alias());
        let ids = (id(&self.source), id(&self.target));
        let owners = AclOwners {
            ids: (&ids.0, &ids.1),
            own: claimed.own.all(),
            others: &claimed.beside.kept(),
            upstream: &upstream,
        };
        Ok(self.sync.rules.plan(&sides(&target), Some(&owners)))
    }

    /// The rules of a cluster of the sorts that are mirrored.
    async fn rules_of(&self, cluster: &Cluster, thing: Thing) -> Result<Vec<AclBinding>, Trouble> {
        let mut all = Vec::new();
        let rules = &self.sync.rules;
        for (resource, on) in
            [(AclResource::Topic, rules.of_topics), (AclResource::Group, rules.of_groups)]
        {
            if on {
                let some = cluster.acls(resource).await;
                all.extend(some.map_err(|error| trouble(error, cluster, thing))?);
            }
        }
        Ok(all)
    }

    /// Adds rules; of those that were added, how many, and of those that the target does not
    /// take, which.
    async fn add(&mut self, rules: &[AclBinding], run: &mut Run) -> Result<(), Trouble> {
        for chunk in rules.chunks(ACLS_PER_REQUEST) {
            let outcomes = self.target.create_acls(chunk).await?;
            for (acl, outcome) in chunk.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => {
                        run.added += 1;
                        self.contested.added(acl);
                    }
                    Err(error) if is_denied(error.code) => return Err(self.denied("added", &error)),
                    Err(error) => {
                        run.complain(acl, &format!("the target does not take {acl}: {error}"));
                        run.refused.insert(acl.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes away what the source did not have at two looks, unless another flow claims it.
    async fn remove(&mut self, gone: BTreeSet<AclBinding>, run: &mut Run) -> Result<(), Trouble> {
        let again: Vec<AclBinding> = gone.intersection(&self.gone).cloned().collect();
        self.gone = gone;
        let Some(claimed) = self.claimed.as_mut().filter(|_| !again.is_empty()) else {
            return Ok(());
        };
        let leaving = again.iter().filter_map(|acl| {
            let claim = claimed.own.all().get(acl)?.clone();
            Some((acl.clone(), AclClaim { leaves: true, ..claim }))
        });
        claimed.own.write(leaving.collect(), BTreeSet::new()).await?;
        claimed.beside.refresh().await?;
        let others = claimed.beside.kept();
        let (shared, alone): (Vec<_>, Vec<_>) =
            again.into_iter().partition(|acl| others.contains(acl));
        let mut let_go: BTreeSet<AclBinding> = shared.into_iter().collect();
        let mut removed = 0_usize;
        for chunk in alone.chunks(ACLS_PER_REQUEST) {
            let outcomes = self.target.delete_acls(chunk).await?;
            for (acl, outcome) in chunk.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => {
                        removed += 1;
                        if removed <= TOLD_MAX {
                            tracing::info!(flow = %self.flow(), %acl,
                                "ACL removed: it is gone from the source");
                        }
                        let_go.insert(acl.clone());
                    }
                    Err(error) if is_denied(error.code) => {
                        return Err(self.denied("removed", &error));
                    }
                    Err(error) => {
                        let what = format!("the target does not take away {acl}: {error}");
                        run.complain(acl, &what);
                    }
                }
            }
        }
        if removed > 0 {
            tracing::info!(flow = %self.flow(), removed, "ACLs removed");
        }
        self.gone.retain(|acl| !let_go.contains(acl));
        if let Some(claimed) = &mut self.claimed {
            claimed.own.write(AclClaims::new(), let_go).await?;
        }
        Ok(())
    }

    fn denied(&self, done: &str, error: &TopicError) -> Trouble {
        Trouble::Denied {
            what: format!("ACLs cannot be {done} on {}: {error}", self.target.alias()),
            missing: on_cluster(&self.target, Thing::TargetCluster),
        }
    }

    /// What is left as it is on purpose, in words.
    fn left(&self, plan: &AclPlan) -> Vec<String> {
        let mut left = Vec::new();
        if plan.prefixed > 0 {
            left.push(format!("{} {PREFIXED}", plan.prefixed));
        }
        if plan.of_another_source > 0 {
            left.push(format!(
                "{} ACLs stay: they were mirrored from another cluster than {} is now",
                plan.of_another_source,
                self.source.alias()
            ));
        }
        if !self.sync.remove && !plan.gone.is_empty() {
            left.push(format!(
                "{} ACLs that this flow added are gone from the source and stay; \
                 sync.acls.remove.enabled=true takes them away",
                plan.gone.len()
            ));
        }
        left
    }
}

/// What is said about rules on prefixes where the file does not ask for them.
const PREFIXED: &str = "ACLs on prefixes of mirrored topics are not mirrored, as in MirrorMaker 2; \
     sync.topic.acls.prefixed.enabled=true mirrors them";

fn astray(acl: &AclBinding, Astray { topic, there }: &Astray) -> String {
    let reaches = if *there { "reaches" } else { "is not added, as it would reach" };
    format!("{acl} {reaches} topic {topic} of the target, which this flow does not mirror")
}

/// What one run met.
#[derive(Debug, Default)]
struct Run {
    complaints: BTreeMap<TopicName, String>,
    added: usize,
    refused: BTreeSet<AclBinding>,
}

impl Run {
    fn complain(&mut self, acl: &AclBinding, what: &str) {
        complain(&mut self.complaints, &TopicName::new(&acl.name), what);
    }
}

impl Round for AclsRound {
    /// Compares the rules of both clusters, adds what is missing, and takes away what is gone.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if a cluster does not answer, has no authorizer, or does not let us.
    async fn run(&mut self) -> Result<Notes, Trouble> {
        let mut plan = self.look().await?;
        let mut run = Run::default();
        for (name, what) in std::mem::take(&mut plan.unclear) {
            let what = format!("not decided: {what}");
            complain(&mut run.complaints, &TopicName::new(name), &what);
        }
        for (acl, found) in &plan.astray {
            run.complain(acl, &astray(acl, found));
        }
        let mut left = Lines::default();
        left.extend(self.left(&plan));
        let (due, contested) = self.contested.choose(std::mem::take(&mut plan.add));
        for acl in &contested {
            run.complain(acl, &format!("contested: {acl} {CONTESTED}"));
            // Whoever makes it meanwhile is not us.
            plan.claim.remove(acl);
            plan.forget.insert(acl.clone());
        }
        if let Some(claimed) = &mut self.claimed {
            let claim = std::mem::take(&mut plan.claim);
            claimed.own.write(claim, std::mem::take(&mut plan.forget)).await?;
        }
        let added = self.add(&due, &mut run).await;
        if run.added > 0 {
            tracing::info!(flow = %self.flow(), added = run.added, "ACLs added");
        }
        added?;
        if let Some(claimed) = &mut self.claimed {
            claimed.own.write(AclClaims::new(), std::mem::take(&mut run.refused)).await?;
        }
        if self.sync.remove {
            self.remove(plan.gone, &mut run).await?;
        }
        if plan.prefixed != self.prefixed_told {
            self.prefixed_told = plan.prefixed;
            if plan.prefixed > 0 {
                tracing::info!(flow = %self.flow(), acls = plan.prefixed, "{PREFIXED}");
            }
        }
        Ok(Notes { undone: self.complaints.renew(run.complaints), left, ..Notes::default() })
    }
}

/// Rules that somebody takes away again and again, an operator of the target say, who keeps what
/// is written elsewhere. After some rounds they are added ever more seldom.
///
/// Holds as many entries as rules were added in the last rounds, or are missing again.
#[derive(Debug, Default)]
struct Contested {
    round: u64,
    added: BTreeMap<AclBinding, Added>,
}

/// How often one rule was added, in which round last, and in which next if it is missing again.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    times: u32,
    last: u64,
    not_before: u64,
}

impl Contested {
    /// Begins a round: which of the missing rules are added now, and which are left for later.
    fn choose(&mut self, missing: BTreeSet<AclBinding>) -> (Vec<AclBinding>, Vec<AclBinding>) {
        self.round += 1;
        let round = self.round;
        self.added
            .retain(|acl, added| missing.contains(acl) || round < added.last + FORGOTTEN_AFTER);
        let due = |acl: &AclBinding| {
            self.added.get(acl).is_none_or(|added| added.not_before <= self.round)
        };
        missing.into_iter().partition(due)
    }

    /// A rule was added in this round.
    fn added(&mut self, acl: &AclBinding) {
        let added = self.added.entry(acl.clone()).or_default();
        added.times += 1;
        added.last = self.round;
        let pause = added.times.checked_sub(CONTESTED_AFTER).map_or(0, |times| 2 << times.min(10));
        added.not_before = self.round + 1 + pause;
    }
}

/// The right on a cluster itself that this takes.
fn on_cluster(cluster: &Cluster, thing: Thing) -> Missing {
    let operation = match thing {
        Thing::TargetCluster => AclOperation::ALTER,
        _ => AclOperation::DESCRIBE,
    };
    Missing::new(cluster, thing, operation, Resource::Cluster)
}

/// What a refusal of a whole request means.
fn trouble(error: RequestError, cluster: &Cluster, thing: Thing) -> Trouble {
    match refusal(&error) {
        Some(code) if code.0 == SECURITY_DISABLED => Trouble::Off(format!(
            "{} has no authorizer, so there are no ACLs to mirror",
            cluster.alias()
        )),
        Some(code) if is_denied(code) => Trouble::Denied {
            what: format!("ACLs cannot be read on {}: {code}", cluster.alias()),
            missing: on_cluster(cluster, thing),
        },
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AclPattern, AclPermission};

    #[test]
    fn a_rule_that_is_taken_away_each_time_is_added_more_and_more_seldom() {
        let acl = AclBinding {
            resource: AclResource::Topic,
            pattern: AclPattern::Literal,
            name: "a.t".into(),
            principal: "User:alice".into(),
            host: "*".into(),
            operation: AclOperation::READ,
            permission: AclPermission::Allow,
        };
        let mut contested = Contested::default();
        let mut rounds = Vec::new();
        for round in 1..=40 {
            let (due, left) = contested.choose(BTreeSet::from([acl.clone()]));
            assert_eq!(due.len() + left.len(), 1);
            for acl in due {
                contested.added(&acl);
                rounds.push(round);
            }
        }
        assert_eq!(rounds, [1, 2, 3, 4, 5, 8, 13, 22, 39]);
        // Once it has stayed for a while, all is forgotten.
        for _ in 0..=FORGOTTEN_AFTER {
            contested.choose(BTreeSet::new());
        }
        assert!(contested.added.is_empty());
    }
}
