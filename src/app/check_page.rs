//! What `heliograph check` found, as text for people and JSON for machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::client::SeenCertificate;
use crate::flow::{Foreseen, Origin, Outlook};
use crate::mirror::{AclForecast, FeatureAudit, Inspection};
use crate::model::{AclBinding, ClusterAlias, FlowId, TopicName};

/// Topics that are shown line by line; of the rest only the number is.
const TOPICS_SHOWN: usize = 40;

/// Partitions, or names, that are shown one by one where something is wrong with them.
const ODD_SHOWN: usize = 20;

/// Days before its end from which a certificate is worth a line.
const CERTIFICATE_DAYS: i64 = 14;

/// One cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterCheck {
    pub(super) bootstrap: Vec<String>,
    pub(super) protocol: &'static str,
    pub(super) principal: String,
    /// Its id and how many brokers it has; or why it does not answer.
    pub(super) answered: Result<(Option<String>, usize), String>,
    pub(super) certificates: Vec<SeenCertificate>,
}

/// One flow.
#[derive(Clone, Debug)]
pub(super) struct FlowCheck {
    pub(super) id: FlowId,
    pub(super) outcome: Result<Inspection, String>,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    pub(super) clusters: BTreeMap<ClusterAlias, ClusterCheck>,
    pub(super) flows: Vec<FlowCheck>,
    /// Wall time, in seconds since 1970.
    pub(super) now_s: i64,
}

impl Checked {
    /// Whether both clusters of a flow have answered.
    pub(super) fn reached(&self, flow: &FlowId) -> bool {
        let answered = |alias| self.clusters.get(alias).is_some_and(|found| found.answered.is_ok());
        answered(&flow.source) && answered(&flow.target)
    }

    /// Whether everything would work, as far as that can be told.
    pub(super) fn is_well(&self) -> bool {
        self.clusters.values().all(|cluster| cluster.answered.is_ok())
            && self.flows.iter().all(|flow| flow.outcome.as_ref().is_ok_and(is_well))
    }
}

fn is_well(inspection: &Inspection) -> bool {
    let starts = |one: &Foreseen| matches!(one.outlook, Outlook::Starts { .. });
    inspection.starts.as_ref().is_ok_and(|all| all.iter().all(starts))
        && inspection.refused.is_empty()
        && inspection.audit.features.iter().all(|one| one.missing.is_empty())
}

fn origin(origin: Origin) -> String {
    match origin {
        Origin::Position => "our position".into(),
        Origin::Aligned { records } => {
            format!("our position, and {records} records behind it that the target has already")
        }
        Origin::ConnectOffset => "MirrorMaker 2's offset (Connect's offsets topic)".into(),
        Origin::LogStart => "the source's start: there is no progress".into(),
        Origin::LogEnd => "the source's end: there is no progress (auto.offset.reset)".into(),
        Origin::Time => "the first record of the time that the file names".into(),
        Origin::Renamed => {
            "the source's start: it was copied under another name before, and that copy stays"
                .into()
        }
        Origin::SourceMadeAnew => "its start: the source topic was made anew".into(),
        Origin::TargetMadeAnew => "the source's start: the target topic is new".into(),
        Origin::TargetEmpty => {
            "the source's start: the target is empty in spite of progress".into()
        }
    }
}

/// What the partitions of one topic that start have in common.
#[derive(Debug, Default)]
struct TopicLine {
    partitions: usize,
    left: i64,
    lost: i64,
    origins: BTreeMap<&'static str, (usize, String)>,
}

/// The kind of an origin, whatever numbers it has.
fn sort(origin: Origin) -> &'static str {
    match origin {
        Origin::Position => "position",
        Origin::Aligned { .. } => "aligned",
        Origin::ConnectOffset => "connect offset",
        Origin::LogStart => "log start",
        Origin::LogEnd => "log end",
        Origin::Time => "time",
        Origin::Renamed => "renamed",
        Origin::SourceMadeAnew => "source made anew",
        Origin::TargetMadeAnew => "target made anew",
        Origin::TargetEmpty => "target empty",
    }
}

/// The page for people.
pub(super) fn text(checked: &Checked) -> String {
    let mut out = String::new();
    let width = checked.clusters.keys().map(|alias| alias.as_str().len()).max().unwrap_or(0);
    out.push_str("clusters\n");
    for (alias, cluster) in &checked.clusters {
        let alias = alias.as_str();
        match &cluster.answered {
            Ok((id, brokers)) => {
                let id = id.as_deref().unwrap_or("none");
                let (protocol, principal) = (cluster.protocol, &cluster.principal);
                let plural = if *brokers == 1 { "" } else { "s" };
                let _ = writeln!(
                    out,
                    "  {alias:width$}  {brokers} broker{plural}, id {id}, {protocol}, as {principal}"
                );
            }
            Err(why) => {
                let _ = writeln!(out, "  {alias:width$}  does not answer: {why}");
            }
        }
        for certificate in &cluster.certificates {
            let days = (certificate.ends_s - checked.now_s).div_euclid(86_400);
            if days < CERTIFICATE_DAYS {
                let (role, subject) = (certificate.role.word(), &certificate.subject);
                let _ = writeln!(
                    out,
                    "  {:width$}  the {role} certificate of {subject} ends in {days} days",
                    ""
                );
            }
        }
    }
    for flow in &checked.flows {
        let _ = writeln!(out, "\n{}", flow.id);
        match &flow.outcome {
            Ok(inspection) => one_flow(&mut out, inspection),
            Err(why) => {
                let _ = writeln!(out, "  {why}");
            }
        }
    }
    let verdict = if checked.is_well() { "all is well" } else { "something would not work" };
    let _ = writeln!(out, "\n{verdict}");
    out
}

fn one_flow(out: &mut String, inspection: &Inspection) {
    topics(out, inspection);
    match &inspection.starts {
        Ok(starts) => partitions(out, starts),
        Err(why) => {
            let _ = writeln!(out, "  {why}");
        }
    }
    for (topic, why) in inspection.refused.iter().take(ODD_SHOWN) {
        let _ = writeln!(out, "  {topic} would not be made: {why}");
    }
    more(out, "  ", inspection.refused.len(), ODD_SHOWN, "topics would not be made");
    access_rules(out, inspection);
    out.push_str("  rights\n");
    for feature in &inspection.audit.features {
        let _ = writeln!(out, "    {:20}  {}", feature.feature, standing(feature));
        for missing in feature.missing.iter().skip(1).take(ODD_SHOWN) {
            let _ = writeln!(out, "    {:20}           {missing}", "");
        }
        more(out, "    ", feature.missing.len(), ODD_SHOWN + 1, "rights are missing");
    }
    if !inspection.audit.grants.is_empty() {
        out.push_str("  to grant what is missing\n");
        for grant in &inspection.audit.grants {
            let _ = writeln!(out, "    {grant}");
        }
    }
}

/// What would become of the target's ACLs.
fn access_rules(out: &mut String, inspection: &Inspection) {
    let forecast = match &inspection.acls {
        None => return,
        Some(Ok(forecast)) => forecast,
        Some(Err(why)) => {
            let _ = writeln!(out, "  ACLs: {why}");
            return;
        }
    };
    let AclForecast { add, remove, left } = forecast;
    let (added, removed) = (add.len(), remove.len());
    let _ = writeln!(out, "  {added} ACLs would be added on the target, {removed} removed");
    for (sign, rules) in [('+', add), ('-', remove)] {
        for acl in rules.iter().take(ODD_SHOWN) {
            let _ = writeln!(out, "    {sign} {acl}");
        }
        more(out, "    ", rules.len(), ODD_SHOWN, &format!("with {sign}, see --json"));
    }
    for line in left.iter().take(ODD_SHOWN) {
        let _ = writeln!(out, "    {line}");
    }
    more(out, "    ", left.len(), ODD_SHOWN, "lines, see --json");
}

fn more(out: &mut String, indent: &str, count: usize, shown: usize, what: &str) {
    if let Some(more) = count.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(out, "{indent}{more} more {what}");
    }
}

fn topics(out: &mut String, inspection: &Inspection) {
    let (copied, left_out) = (inspection.copied.len(), &inspection.left_out);
    let topics = if copied == 1 { "topic is" } else { "topics are" };
    let _ = write!(out, "  {copied} {topics} mirrored, {} left out", left_out.len());
    let mut rules: BTreeMap<&str, Vec<&TopicName>> = BTreeMap::new();
    for (topic, rule) in left_out {
        rules.entry(rule).or_default().push(topic);
    }
    let (made, added) = (inspection.to_make.len(), inspection.to_add);
    if made > 0 {
        let _ = write!(out, "; {made} would be made on the target");
    }
    if added > 0 {
        let _ = write!(out, "; {added} partitions would be added");
    }
    out.push('\n');
    let shown = |names: Vec<String>| {
        let dots = if names.len() > 5 { ", ..." } else { "" };
        format!("{}{dots}", names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    for (rule, topics) in rules.iter().take(ODD_SHOWN) {
        let names = topics.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "    left out, as {rule}: {}", shown(names));
    }
    more(out, "    ", rules.len(), ODD_SHOWN, "reasons to leave topics out; see --json");
    for element in inspection.unmatched.iter().take(ODD_SHOWN) {
        let source = &inspection.flow.source;
        let _ = writeln!(out, "    no topic of {source} matches `{element}` of topics");
    }
    more(out, "    ", inspection.unmatched.len(), ODD_SHOWN, "match none; see --json");
    if !inspection.renamed.is_empty() {
        let one = |(topic, name)| format!("{topic} is {name} there");
        let names = inspection.renamed.iter().map(one).collect();
        let _ = writeln!(out, "    renamed: {}", shown(names));
    }
}

fn partitions(out: &mut String, starts: &[Foreseen]) {
    let mut lines: BTreeMap<&TopicName, TopicLine> = BTreeMap::new();
    let mut odd = Vec::new();
    for one in starts {
        match &one.outlook {
            Outlook::Starts { left, origin: from, gap, .. } => {
                let line = lines.entry(&one.pair.source.topic).or_default();
                line.partitions += 1;
                line.left += left;
                line.lost += gap.map_or(0, |gap| gap.range.len());
                let words = line.origins.entry(sort(*from)).or_insert_with(|| (0, origin(*from)));
                words.0 += 1;
            }
            Outlook::Halts(why) => odd.push(format!("{} would halt: {why}", one.pair.source)),
            Outlook::Unclear { why, .. } => {
                odd.push(format!("{} cannot be decided about: {why}", one.pair.source));
            }
        }
    }
    if !lines.is_empty() {
        let widest = lines.keys().take(TOPICS_SHOWN).map(|topic| topic.as_str().len()).max();
        let width = widest.unwrap_or(0).max(5);
        let _ = writeln!(out, "    {:width$}  partitions  offsets to copy  from", "topic");
        for (topic, line) in lines.iter().take(TOPICS_SHOWN) {
            let alone = line.origins.len() == 1;
            let from: Vec<String> = line
                .origins
                .values()
                .map(
                    |(count, words)| {
                        if alone { words.clone() } else { format!("{count} from {words}") }
                    },
                )
                .collect();
            let lost = if line.lost > 0 {
                format!(" ({} offsets are gone from the source)", line.lost)
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "    {:width$}  {:10}  {:15}  {}{lost}",
                topic.as_str(),
                line.partitions,
                line.left,
                from.join("; ")
            );
        }
        if lines.len() > TOPICS_SHOWN {
            let rest = lines.values().skip(TOPICS_SHOWN);
            let (partitions, left) =
                rest.fold((0, 0), |sum, line| (sum.0 + line.partitions, sum.1 + line.left));
            let name = format!("{} more", lines.len() - TOPICS_SHOWN);
            let _ = writeln!(out, "    {name:width$}  {partitions:10}  {left:15}  see --json");
        }
    }
    for line in odd.iter().take(ODD_SHOWN) {
        let _ = writeln!(out, "    {line}");
    }
    more(out, "    ", odd.len(), ODD_SHOWN, "partitions would not start");
}

fn standing(feature: &FeatureAudit) -> String {
    if !feature.on {
        return "off".into();
    }
    if let Some(first) = feature.missing.first() {
        return format!("missing  {first}");
    }
    if feature.unknown.is_empty() {
        return "allowed".into();
    }
    let one = |(what, count): (&String, &usize)| {
        if *count > 1 { format!("{what} ({count})") } else { what.clone() }
    };
    let unknown: Vec<String> = feature.unknown.iter().map(one).collect();
    format!("allowed, as far as can be told; {}", unknown.join("; "))
}

/// The page for machines.
pub(super) fn json(checked: &Checked) -> String {
    let cluster = |(alias, one): (&ClusterAlias, &ClusterCheck)| {
        let (id, brokers, why) = match &one.answered {
            Ok((id, brokers)) => (id.clone(), Some(*brokers), None),
            Err(why) => (None, None, Some(why.clone())),
        };
        let certificate = |one: &SeenCertificate| json!({ "role": one.role.word(), "subject": one.subject, "ends_s": one.ends_s });
        json!({
            "alias": alias.as_str(),
            "bootstrap": one.bootstrap,
            "security_protocol": one.protocol,
            "principal": one.principal,
            "answers": why.is_none(),
            "why": why,
            "cluster_id": id,
            "brokers": brokers,
            "certificates": one.certificates.iter().map(certificate).collect::<Vec<_>>(),
        })
    };
    let flow = |flow: &FlowCheck| {
        let mut value = match &flow.outcome {
            Ok(inspection) => flow_json(inspection),
            Err(why) => json!({ "ok": false, "why": why }),
        };
        value["source"] = json!(flow.id.source.as_str());
        value["target"] = json!(flow.id.target.as_str());
        value
    };
    json!({
        "ok": checked.is_well(),
        "clusters": checked.clusters.iter().map(cluster).collect::<Vec<_>>(),
        "flows": checked.flows.iter().map(flow).collect::<Vec<_>>(),
    })
    .to_string()
}

fn flow_json(inspection: &Inspection) -> Value {
    let partition = |one: &Foreseen| {
        let mut value = json!({
            "topic": one.pair.source.topic.as_str(),
            "partition": one.pair.source.partition,
            "target_topic": one.pair.target.topic.as_str(),
        });
        match &one.outlook {
            Outlook::Starts { upstream, left, origin: from, gap } => {
                value["begins"] = json!({
                    "upstream": upstream.0,
                    "left": left,
                    "origin": sort(*from),
                    "why": origin(*from),
                    "lost": gap.map_or(0, |gap| gap.range.len()),
                });
            }
            Outlook::Halts(why) => value["halts"] = json!(why),
            Outlook::Unclear { why, .. } => value["unclear"] = json!(why),
        }
        value
    };
    let feature = |one: &FeatureAudit| {
        let missing = one.missing.iter().map(|missing| {
            json!({
                "cluster": missing.cluster.as_str(),
                "operation": missing.operation.to_string(),
                "on": missing.resource.to_string(),
                "grant": missing.grant,
            })
        });
        let missing: Vec<Value> = missing.collect();
        json!({
            "feature": one.feature.name(),
            "on": one.on,
            "allowed": one.missing.is_empty(),
            "missing": missing,
            "unknown": one.unknown.keys().collect::<Vec<_>>(),
        })
    };
    let rule = |acl: &AclBinding| {
        json!({
            "resource": acl.resource.word(),
            "pattern": acl.pattern.word(),
            "name": acl.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.to_string(),
            "permission": acl.permission.word(),
        })
    };
    let rules = |rules: &[AclBinding]| rules.iter().map(rule).collect::<Vec<_>>();
    let acls = inspection.acls.as_ref().map(|forecast| match forecast {
        Ok(AclForecast { add, remove, left }) => {
            json!({ "add": rules(add), "remove": rules(remove), "left": left })
        }
        Err(why) => json!({ "why": why }),
    });
    let names = |topics: &BTreeMap<TopicName, String>| -> Value {
        topics.iter().map(|(topic, what)| (topic.as_str().to_owned(), json!(what))).collect()
    };
    let starts = inspection.starts.as_ref();
    json!({
        "ok": is_well(inspection),
        "topics_to_make": inspection.to_make.iter().map(TopicName::as_str).collect::<Vec<_>>(),
        "partitions_to_add": inspection.to_add,
        "left_out": names(&inspection.left_out),
        "unmatched": inspection.unmatched,
        "renamed": inspection.renamed.iter().map(|(topic, name)| {
            (topic.as_str().to_owned(), json!(name.as_str()))
        }).collect::<Value>(),
        "refused": names(&inspection.refused),
        "why": starts.err(),
        "partitions": starts.map(|all| all.iter().map(partition).collect::<Vec<_>>()).ok(),
        "rights": inspection.audit.features.iter().map(feature).collect::<Vec<_>>(),
        "acls": acls,
        "grants": inspection.audit.grants,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::flow::Pair;
    use crate::mirror::{Audit, Missing, Resource};
    use crate::model::{
        AclOperation, AclPattern, AclPermission, AclResource, Offset, TopicId, TopicPartition,
    };
    use crate::policy::{Feature, Thing};

    fn flow() -> FlowId {
        FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") }
    }

    fn foreseen(topic: &str, partition: i32, outlook: Outlook) -> Foreseen {
        let source = TopicPartition::new(topic, partition);
        let target = TopicPartition::new(format!("a.{topic}").as_str(), partition);
        let (source_id, target_id) = (TopicId::NONE, TopicId::NONE);
        Foreseen { pair: Pair { source, target, source_id, target_id }, outlook }
    }

    fn starts(left: i64, origin: Origin) -> Outlook {
        Outlook::Starts { upstream: Offset(7), left, origin, gap: None }
    }

    fn feature(feature: Feature, missing: &[Missing]) -> FeatureAudit {
        let missing: BTreeSet<Missing> = missing.iter().cloned().collect();
        FeatureAudit { feature, on: feature != Feature::Acls, missing, unknown: BTreeMap::new() }
    }

    fn acl(user: u32) -> AclBinding {
        AclBinding {
            resource: AclResource::Topic,
            pattern: AclPattern::Prefixed,
            name: "a.team-".into(),
            principal: format!("User:u{user}"),
            host: "*".into(),
            operation: AclOperation::READ,
            permission: AclPermission::Allow,
        }
    }

    fn checked() -> Checked {
        let cluster = |id: &str| ClusterCheck {
            bootstrap: vec!["kafka-1:9092".into()],
            protocol: "SASL_SSL",
            principal: "User:mirror".into(),
            answered: Ok((Some(id.to_owned()), 3)),
            certificates: Vec::new(),
        };
        let missing = Missing {
            cluster: ClusterAlias::new("b"),
            resource: Resource::Prefix("a.".into()),
            thing: Thing::Replicas,
            operation: AclOperation::ALTER_CONFIGS,
            grant: "kafka-acls --topic 'a.'".into(),
        };
        let mut all: Vec<Foreseen> = (0..3_000)
            .map(|number| {
                let origin = if number % 3 == 0 { Origin::LogStart } else { Origin::Position };
                foreseen(&format!("t{:03}", number / 10), number % 10, starts(2, origin))
            })
            .collect();
        all.push(foreseen("odd", 4, Outlook::Halts("the source lost it".into())));
        let inspection = Inspection {
            flow: flow(),
            copied: [("odd".into(), "a.odd".into())].into(),
            renamed: [("pay".into(), "eu.pay".into())].into(),
            to_make: BTreeSet::new(),
            to_add: 0,
            left_out: [("b.x".into(), "it came from the target".into())].into(),
            unmatched: vec!["ordres".into()],
            starts: Ok(all),
            refused: BTreeMap::new(),
            acls: Some(Ok(AclForecast {
                add: (0..25).map(acl).collect(),
                remove: vec![acl(99)],
                left: vec!["7 stay".into()],
            })),
            audit: Audit {
                features: vec![
                    feature(Feature::Configs, std::slice::from_ref(&missing)),
                    feature(Feature::Acls, &[]),
                    feature(Feature::DataRead, &[]),
                ],
                grants: vec![missing.grant],
            },
        };
        Checked {
            clusters: ["a", "b"].map(|alias| (ClusterAlias::new(alias), cluster(alias))).into(),
            flows: vec![FlowCheck { id: flow(), outcome: Ok(inspection) }],
            now_s: 0,
        }
    }

    #[test]
    fn thousands_of_partitions_make_a_short_page_that_names_what_is_odd() {
        let page = text(&checked());

        assert!(page.lines().count() < 100, "{page}");
        for line in [
            "  a  3 brokers, id a, SASL_SSL, as User:mirror",
            "    left out, as it came from the target: b.x",
            "    no topic of a matches `ordres` of topics",
            "    renamed: pay is eu.pay there",
            "    260 more        2600             5200  see --json",
            "    odd-4 would halt: the source lost it",
            "  25 ACLs would be added on the target, 1 removed",
            "    + ALLOW READ on topics a.team-* for User:u3 from *",
            "    5 more with +, see --json",
            "    - ALLOW READ on topics a.team-* for User:u99 from *",
            "    7 stay",
            "    config sync           missing  ALTER_CONFIGS on topics a.* of b",
            "    ACL sync              off",
            "    data read             allowed",
            "    kafka-acls --topic 'a.'",
            "something would not work",
        ] {
            assert!(page.lines().any(|one| one == line), "{line:?} is not in\n{page}");
        }
        assert!(
            page.contains("4 from the source's start: there is no progress; 6 from our position")
        );
    }

    #[test]
    fn machines_get_every_partition_and_whatever_is_wrong_is_not_well() {
        let mut checked = checked();
        let page: Value = serde_json::from_str(&json(&checked)).unwrap();
        assert_eq!(page["ok"], false);
        assert_eq!(page["flows"][0]["partitions"].as_array().unwrap().len(), 3_001);
        assert_eq!(page["flows"][0]["rights"][0]["missing"][0]["operation"], "ALTER_CONFIGS");
        let acls = &page["flows"][0]["acls"];
        assert_eq!(acls["add"].as_array().unwrap().len(), 25);
        assert_eq!(acls["remove"][0]["principal"], "User:u99");
        assert_eq!(acls["left"][0], "7 stay");

        let Ok(inspection) = &mut checked.flows[0].outcome else { panic!("a flow") };
        inspection.audit.features[0].missing.clear();
        inspection.starts = Ok(vec![foreseen("t", 0, starts(0, Origin::LogEnd))]);
        assert!(checked.is_well());
        checked.clusters.values_mut().for_each(|one| one.answered = Err("no".into()));
        assert!(!checked.is_well());
    }
}
