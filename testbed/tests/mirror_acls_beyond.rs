//! Access rules beyond MM2, each behind a key of its own: on prefixes, on groups, and taken away again where the mirror
//! added them. Every list of rules is compared whole: one that is missing is noticed, and one too many.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::admin::{At, Rule, Topic};
use testbed::agent::Agent;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::events;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::frames::{CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS, Frames};
use testbed::mirror::{Mirror, check, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

/// Rules are looked at every second: by then whatever is wrong would have happened.
const STAYS: Duration = Duration::from_secs(5);

const PREFIXED: &str = "sync.topic.acls.prefixed.enabled";
const GROUPS: &str = "sync.group.acls.enabled";
const REMOVE: &str = "sync.acls.remove.enabled";

const LOGIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const USERS: [&str; 3] = ["alice", "mallory", "mirror"];

/// What goes to the target in the test that counts.
static FRAMES: LazyLock<Frames> = LazyLock::new(Frames::default);

fn secured(version: Version) -> ClusterSpec {
    ClusterSpec::new(version).with_authorizer()
}

/// For all tests that take two clusters: each has an alias of its own, which its topics and groups begin with.
static PAIR: LazyLock<(Cluster, Cluster)> = LazyLock::new(|| {
    let users: String = USERS.map(|user| format!(" user_{user}=\"pw-{user}\"")).concat();
    let target = secured(Version::V4_3_1)
        .listener("LOGIN", "SASL_PLAINTEXT")
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set("listener.name.login.sasl.enabled.mechanisms", "PLAIN")
        .set("listener.name.login.plain.sasl.jaas.config", format!("{LOGIN}{users};"))
        .watched_listener("WATCHED", &FRAMES)
        .delayed_listener("SLOW", Duration::from_millis(300));
    ClusterSpec::start_both(secured(Version::V4_3_1), target).unwrap()
});

fn login(user: &str) -> String {
    format!("{LOGIN} username=\"{user}\" password=\"pw-{user}\";")
}

/// A flow from `alias`, and the address of its page.
fn flow(alias: &str) -> (FlowFile, String) {
    let (source, target) = &*PAIR;
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let flow = FlowFile::one_way((alias, source), ("t", target))
        .topics(&format!("{alias}-.*"))
        .set("groups", format!("{alias}-.*"))
        .set("emit.heartbeats.enabled", "false")
        .set("heliograph.http.listen", &page)
        .short_intervals()
        .set("sync.topic.acls.interval.seconds", "1");
    (flow, page)
}

fn all(flow: FlowFile) -> FlowFile {
    [PREFIXED, GROUPS, REMOVE].into_iter().fold(flow, |flow, key| flow.set(key, "true"))
}

fn rule(topic: &str, user: &str, operation: &str) -> Rule {
    Rule::allow(topic, &format!("User:{user}"), operation)
}

fn prefixed(rule: Rule) -> Rule {
    Rule { pattern: "PREFIXED".into(), ..rule }
}

fn deny(rule: Rule) -> Rule {
    Rule { permission: "DENY".into(), ..rule }
}

fn on_group(group: &str, user: &str, operation: &str) -> Rule {
    Rule { resource_type: "GROUP".into(), ..rule(group, user, operation) }
}

/// The rules of a cluster whose names begin so.
fn rules_of(cluster: &Cluster, alias: &str) -> BTreeSet<Rule> {
    cluster.acls().unwrap().into_iter().filter(|rule| rule.name.starts_with(alias)).collect()
}

/// Every difference, in words.
fn differences(found: &BTreeSet<Rule>, expected: &BTreeSet<Rule>) -> Vec<String> {
    let missing = expected.difference(found).map(|rule| format!("missing: {rule:?}"));
    missing.chain(found.difference(expected).map(|rule| format!("too many: {rule:?}"))).collect()
}

/// Waits until the target has exactly these.
fn must_be(what: &str, mirror: &Mirror, cluster: &Cluster, alias: &str, expected: &[Rule]) {
    let expected: BTreeSet<Rule> = expected.iter().cloned().collect();
    let mut last = Vec::new();
    eventually(what, WAIT, mirror, || {
        last = differences(&rules_of(cluster, alias), &expected);
        Ok(last.is_empty())
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{last:#?}"));
}

/// Looks again and again: the target has exactly these all the time.
fn must_stay(cluster: &Cluster, alias: &str, expected: &[Rule]) {
    let expected: BTreeSet<Rule> = expected.iter().cloned().collect();
    let begun = Instant::now();
    while begun.elapsed() < STAYS {
        let found = differences(&rules_of(cluster, alias), &expected);
        assert!(found.is_empty(), "after {:?}: {found:#?}", begun.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
}

/// What a consumer of the target gets that logs in as `user`.
fn consume(user: &str, topic: &str, group: &str, records: u64) -> Value {
    let config = json!({
        "bootstrap.servers": PAIR.1.bootstrap_of("LOGIN", "127.0.0.1").unwrap(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login(user),
        "group.id": group,
    });
    let args = json!({ "config": config, "topic": topic, "records": records });
    Agent::shared().unwrap().call("consume", args, WAIT).unwrap()
}

fn claims(alias: &str) -> String {
    format!("mm2-heliograph-owned-acls.{alias}.internal")
}

/// UP-081, and the group's part of UP-050: after a failover a consumer reads on whose rights are by prefix.
#[test]
fn up_081_rules_on_prefixes_and_groups_follow_when_asked_for_and_give_no_more() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("pre-orders")).unwrap();
    source.create_topic(&Topic::new("pre-other")).unwrap();
    source.fill(&Fill::new("pre-orders", 40)).unwrap();
    let from = |host: &str, rule: Rule| Rule { host: host.into(), ..rule };
    let on_source = [
        prefixed(rule("pre-ord", "alice", "READ")),
        prefixed(rule("pre-ord", "alice", "WRITE")),
        prefixed(from("10.0.0.1", rule("pre-ord", "bob", "ALL"))),
        prefixed(deny(rule("pre-ord", "carl", "ALL"))),
        rule("pre-other", "alice", "DESCRIBE"),
        // Not mirrored, or what reaches the flow's own topic of checkpoints.
        prefixed(rule("elsewhere", "alice", "READ")),
        prefixed(rule("c", "alice", "READ")),
        on_group("pre-g", "alice", "READ"),
        prefixed(on_group("pre-team-", "alice", "READ")),
        prefixed(deny(on_group("pre-team-", "carl", "READ"))),
        on_group("elsewhere", "alice", "READ"),
    ];
    source.create_acls(&on_source).unwrap();

    // As MM2, unless the file asks for more: one line says what is left out.
    let (as_mm2, page) = flow("pre");
    let as_mm2 = as_mm2.topics("pre-.*,customers");
    let literal = rule("pre.pre-other", "alice", "DESCRIBE");
    {
        let mirror = Mirror::with_events(&as_mm2).unwrap();
        must_be("literal names", &mirror, target, "pre", std::slice::from_ref(&literal));
        target.await_end_offsets("pre.pre-orders", 40, WAIT).unwrap();
        must_stay(target, "pre", std::slice::from_ref(&literal));
        let told = mirror.events().into_iter();
        assert_eq!(told.filter(|one| one.message().contains(PREFIXED)).count(), 1);
        let rounds = events::rounds(&page, "pre", "t").unwrap();
        let left = rounds["acls"]["left"].to_string();
        assert!(left.contains("3 ACLs on prefixes"), "{left}");
        assert!(target.describe_topic(&claims("pre")).unwrap().is_none());
    }
    let refused = consume("alice", "pre.pre-orders", "pre-g", 1);
    assert!(refused["refused"].is_string(), "{refused}");

    let mut expected = vec![
        literal,
        prefixed(rule("pre.pre-ord", "alice", "READ")),
        prefixed(from("10.0.0.1", rule("pre.pre-ord", "bob", "READ"))),
        prefixed(deny(rule("pre.pre-ord", "carl", "ALL"))),
    ];
    {
        let mirror = Mirror::heliograph(&as_mm2.clone().set(PREFIXED, "true")).unwrap();
        must_be("prefixes", &mirror, target, "pre", &expected);
    }
    expected.extend([
        on_group("pre-g", "alice", "READ"),
        prefixed(on_group("pre-team-", "alice", "READ")),
        prefixed(deny(on_group("pre-team-", "carl", "READ"))),
    ]);
    let file = as_mm2.set(PREFIXED, "true").set(GROUPS, "true").topics("pre-.*,customers");
    source.create_topic(&Topic::new("customers")).unwrap();
    let mirror = Mirror::with_events(&file).unwrap();
    must_be("prefixes and groups", &mirror, target, "pre", &expected);
    must_stay(target, "pre", &expected);
    let rounds = events::rounds(&page, "pre", "t").unwrap();
    let undone = rounds["acls"]["undone"].to_string();
    assert!(undone.contains("would reach topic pre.checkpoints.internal"), "{undone}");
    assert_eq!(rounds["acls"]["undone"]["count"], 1, "{undone}");

    // Alice's consumers work, by both patterns of groups, and on a topic that comes later.
    for group in ["pre-g", "pre-team-7"] {
        assert_eq!(consume("alice", "pre.pre-orders", group, 40), json!({ "records": 40 }));
    }
    source.create_topic(&Topic::new("pre-ord-late")).unwrap();
    source.fill(&Fill::new("pre-ord-late", 5)).unwrap();
    target.await_end_offsets("pre.pre-ord-late", 5, WAIT).unwrap();
    assert_eq!(consume("alice", "pre.pre-ord-late", "pre-g", 5), json!({ "records": 5 }));
    // What nobody gave is refused.
    for (user, topic, group) in [
        ("alice", "pre.pre-other", "pre-g"),
        ("alice", "pre.pre-orders", "pre-h"),
        ("alice", "pre.checkpoints.internal", "pre-g"),
        ("mallory", "pre.pre-orders", "pre-g"),
    ] {
        let refused = consume(user, topic, group, 1);
        assert!(refused["refused"].is_string(), "{user}, {topic}, {group}: {refused}");
    }
}

/// Where names are kept, a prefix would reach topics of the target's own.
#[test]
fn a_prefix_is_not_added_while_it_reaches_a_topic_of_the_targets_own() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("idn-orders")).unwrap();
    target.create_topic(&Topic::new("idn-ordinal")).unwrap();
    let granted = prefixed(rule("idn-ord", "alice", "READ"));
    let denied = prefixed(deny(rule("idn-ord", "carl", "READ")));
    source.create_acls(&[granted.clone(), denied.clone()]).unwrap();
    let (file, page) = flow("idn");
    let class = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
    let mirror = Mirror::with_events(&all(file).set("replication.policy.class", class)).unwrap();
    must_be("what forbids", &mirror, target, "idn", std::slice::from_ref(&denied));
    must_stay(target, "idn", std::slice::from_ref(&denied));
    let undone = events::rounds(&page, "idn", "t").unwrap()["acls"]["undone"].to_string();
    assert!(undone.contains("is not added, as it would reach topic idn-ordinal"), "{undone}");

    target.delete_topic("idn-ordinal").unwrap();
    must_be("both", &mirror, target, "idn", &[granted.clone(), denied.clone()]);
    // A topic that comes later is reached, and that is told.
    target.create_topic(&Topic::new("idn-ordered")).unwrap();
    mirror.await_event("reaches topic idn-ordered", &["idn-ord"], WAIT).unwrap();
    must_stay(target, "idn", &[granted, denied]);
}

/// UP-054: across a restart, and over every sort of rule.
#[test]
fn up_054_what_the_mirror_added_goes_with_its_source_and_what_people_made_stays() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("rev-t")).unwrap();
    let revoked = [
        rule("rev-t", "alice", "ALL"),
        prefixed(rule("rev-", "alice", "DESCRIBE")),
        deny(rule("rev-t", "dora", "READ")),
        on_group("rev-g", "alice", "READ"),
        prefixed(on_group("rev-g", "alice", "READ")),
    ];
    let became = [
        rule("rev.rev-t", "alice", "READ"),
        prefixed(rule("rev.rev-", "alice", "DESCRIBE")),
        deny(rule("rev.rev-t", "dora", "READ")),
        on_group("rev-g", "alice", "READ"),
        prefixed(on_group("rev-g", "alice", "READ")),
    ];
    // Mallory's is the target's own, Bob's was on both sides before the mirror came.
    let kept = rule("rev-t", "kept", "READ");
    let bob = rule("rev-t", "bob", "READ");
    let own = [
        rule("rev.rev-t", "mallory", "READ"),
        rule("rev.rev-t", "bob", "READ"),
        on_group("rev-g", "mallory", "READ"),
    ];
    source.create_acls(&revoked).unwrap();
    source.create_acls(&[kept, bob.clone()]).unwrap();
    target.create_acls(&own).unwrap();
    let mut before = own.to_vec();
    before.extend(became.clone());
    before.push(rule("rev.rev-t", "kept", "READ"));
    let mut after = own.to_vec();
    after.push(rule("rev.rev-t", "kept", "READ"));

    let (file, _) = flow("rev");
    let file = all(file);
    let mut mirror = Mirror::with_events(&file).unwrap();
    must_be("everything", &mirror, target, "rev", &before);
    mirror.terminate(WAIT).unwrap();

    // Negative controls: the comparison notices one that is missing, and one too many.
    let whole: BTreeSet<Rule> = before.iter().cloned().collect();
    let strange = rule("rev.rev-t", "strange", "READ");
    target.delete_acls(&became[..1]).unwrap();
    target.create_acls(std::slice::from_ref(&strange)).unwrap();
    let found = differences(&rules_of(target, "rev"), &whole);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("missing") && found[0].contains("alice"), "{found:?}");
    assert!(found[1].starts_with("too many") && found[1].contains("strange"), "{found:?}");
    target.delete_acls(&[strange]).unwrap();
    target.create_acls(&became[..1]).unwrap();

    // While the mirror is away. Bob's goes from the source too; nobody added it on the target.
    source.delete_acls(&revoked).unwrap();
    source.delete_acls(&[bob]).unwrap();
    mirror.launch().unwrap();
    must_be("what is left", &mirror, target, "rev", &after);
    must_stay(target, "rev", &after);
    let removed = mirror.await_event("ACLs removed", &["\"removed\":5"], WAIT).unwrap();
    assert_eq!(removed.number("removed"), Some(5));
    mirror
        .await_event("ACL removed", &["ALLOW READ on topic rev.rev-t for User:alice"], WAIT)
        .unwrap();

    // Again while it runs: what comes back is the mirror's again.
    source.create_acls(&revoked).unwrap();
    must_be("everything again", &mirror, target, "rev", &before);
    source.delete_acls(&revoked).unwrap();
    must_be("what is left again", &mirror, target, "rev", &after);
}

/// As MM2 would, and it stays the mirror's.
#[test]
fn a_rule_that_somebody_takes_away_on_the_target_is_added_again_and_goes_with_its_source() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("again-t")).unwrap();
    let (there, here) = (rule("again-t", "alice", "READ"), rule("again.again-t", "alice", "READ"));
    source.create_acls(std::slice::from_ref(&there)).unwrap();
    let (file, _) = flow("again");
    let mirror = Mirror::with_events(&file.set(REMOVE, "true")).unwrap();
    for _ in 0..2 {
        must_be("the rule", &mirror, target, "again", std::slice::from_ref(&here));
        target.delete_acls(std::slice::from_ref(&here)).unwrap();
    }
    must_be("the rule again", &mirror, target, "again", std::slice::from_ref(&here));
    source.delete_acls(std::slice::from_ref(&there)).unwrap();
    must_be("no rule", &mirror, target, "again", &[]);
    // What somebody makes by hand after that is nobody else's.
    target.create_acls(std::slice::from_ref(&here)).unwrap();
    must_stay(target, "again", std::slice::from_ref(&here));
}

/// Switched off, it takes nothing away, remembers what it would, and says so.
#[test]
fn without_the_key_nothing_is_taken_away_and_with_it_later_what_was_added_since_is() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("late-t")).unwrap();
    let (first, second) = (rule("late-t", "first", "READ"), rule("late-t", "second", "READ"));
    let became = |rule: &Rule| Rule { name: "late.late-t".into(), ..rule.clone() };
    source.create_acls(std::slice::from_ref(&first)).unwrap();
    let (file, page) = flow("late");
    {
        // Nobody writes down what is added.
        let mirror = Mirror::heliograph(&file).unwrap();
        must_be("the first", &mirror, target, "late", &[became(&first)]);
    }
    {
        let mirror = Mirror::heliograph(&file.clone().set(GROUPS, "true")).unwrap();
        source.create_acls(std::slice::from_ref(&second)).unwrap();
        must_be("both", &mirror, target, "late", &[became(&first), became(&second)]);
        source.delete_acls(&[first.clone(), second.clone()]).unwrap();
        eventually("it is told", WAIT, &mirror, || {
            let left = events::rounds(&page, "late", "t")?["acls"]["left"].to_string();
            Ok(left.contains("1 ACLs that this flow added are gone") && left.contains(REMOVE))
        })
        .unwrap();
        must_stay(target, "late", &[became(&first), became(&second)]);
    }
    let mirror = Mirror::heliograph(&file.set(REMOVE, "true")).unwrap();
    must_be("the second is gone", &mirror, target, "late", &[became(&first)]);
    must_stay(target, "late", &[became(&first)]);
}

/// The link to the target is slow, so that there is an in-between to be killed in.
#[test]
fn a_mirror_that_is_killed_while_it_adds_or_removes_goes_on_and_takes_nothing_that_is_not_its_own()
{
    const MANY: usize = 3_000;
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("kill-t")).unwrap();
    let many: Vec<Rule> =
        (0..MANY).map(|user| rule("kill-t", &format!("u{user}"), "READ")).collect();
    let became = |rule: &Rule| Rule { name: "kill.kill-t".into(), ..rule.clone() };
    source.create_acls(&many).unwrap();
    let own = [rule("kill.kill-t", "hand", "READ"), rule("kill.kill-t", "u7", "DESCRIBE")];
    target.create_acls(&own).unwrap();
    let (file, _) = flow("kill");
    let slow = target.bootstrap_of("SLOW", "127.0.0.1").unwrap();
    let file = file.set(REMOVE, "true").set("t.bootstrap.servers", slow);
    let kill_between = |mirror: &mut Mirror| {
        let begun = Instant::now();
        loop {
            let count = rules_of(target, "kill").len() - own.len();
            if (1..MANY).contains(&count) {
                mirror.kill9().unwrap();
                return rules_of(target, "kill").len() - own.len();
            }
            assert!(begun.elapsed() < WAIT, "never in between: {count}");
        }
    };

    let mut mirror = Mirror::with_events(&file).unwrap();
    // Until it begins there is nothing.
    let added = kill_between(&mut mirror);
    assert!((1..MANY).contains(&added), "killed after {added} were added");
    // What the killed process added is the mirror's: half of that goes from the source meanwhile.
    let (gone, left) = many.split_at(MANY / 2);
    source.delete_acls(gone).unwrap();
    mirror.launch().unwrap();
    let mut expected: Vec<Rule> = left.iter().map(became).collect();
    expected.extend(own.clone());
    must_be("the other half", &mirror, target, "kill", &expected);

    source.create_acls(gone).unwrap();
    let mut expected: Vec<Rule> = many.iter().map(became).collect();
    expected.extend(own.clone());
    must_be("all of them", &mirror, target, "kill", &expected);
    source.delete_acls(&many).unwrap();
    let there = kill_between(&mut mirror);
    assert!((1..MANY).contains(&there), "killed while {there} were there");
    mirror.launch().unwrap();
    must_be("people's own", &mirror, target, "kill", &own);
    must_stay(target, "kill", &own);
}

#[test]
fn a_check_says_what_would_be_added_and_removed_and_changes_nothing() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("plan-t")).unwrap();
    let (one, two) = (rule("plan-t", "one", "ALL"), on_group("plan-g", "two", "READ"));
    source.create_acls(&[one.clone(), two.clone()]).unwrap();
    let (file, _) = flow("plan");
    let off = file.clone();
    let file = all(file);
    let foreseen = |file: &FlowFile| -> (Value, String) {
        let picture = || {
            let ends = |topic: &String| (topic.clone(), target.offsets(topic, At::Latest).unwrap());
            let topics: Vec<_> = target.topics().unwrap().iter().map(ends).collect();
            (target.acls().unwrap(), source.acls().unwrap(), topics)
        };
        let before = picture();
        let (machine, people) = (check(file, &["--json"]).unwrap(), check(file, &[]).unwrap());
        assert_eq!(picture(), before, "a check changed something");
        let page: Value = serde_json::from_str(&machine.out).unwrap();
        (page["flows"][0]["acls"].clone(), people.out)
    };
    let lines = |people: &str| -> Vec<String> {
        let rules = people.lines().map(str::trim);
        rules.filter(|line| line.starts_with(['+', '-'])).map(str::to_owned).collect()
    };
    let topic = "ALLOW READ on topic plan.plan-t for User:one from *";
    let group = "ALLOW READ on group plan-g for User:two from *";

    let (machine, people) = foreseen(&file);
    assert_eq!(lines(&people), [format!("+ {topic}"), format!("+ {group}")]);
    assert!(people.contains("2 ACLs would be added on the target, 0 removed"), "{people}");
    assert_eq!(machine["add"][1]["resource"], "group", "{machine}");
    assert_eq!(machine["add"][0]["name"], "plan.plan-t", "{machine}");
    // Without the keys, one of them.
    assert_eq!(lines(&foreseen(&off).1), [format!("+ {topic}")]);

    let became = [rule("plan.plan-t", "one", "READ"), two.clone()];
    {
        let mut mirror = Mirror::heliograph(&file).unwrap();
        must_be("both", &mirror, target, "plan", &became);
        mirror.terminate(WAIT).unwrap();
    }
    assert_eq!(lines(&foreseen(&file).1), Vec::<String>::new());

    source.delete_acls(&[one, two]).unwrap();
    target.create_acls(&[rule("plan.plan-t", "hand", "READ")]).unwrap();
    let (machine, people) = foreseen(&file);
    assert_eq!(lines(&people), [format!("- {topic}"), format!("- {group}")]);
    assert_eq!(machine["remove"].as_array().unwrap().len(), 2, "{machine}");
    let (machine, _) = foreseen(&file.clone().set(REMOVE, "false"));
    assert_eq!(machine["remove"], json!([]), "{machine}");
    assert!(machine["left"].to_string().contains("2 ACLs that this flow added"), "{machine}");

    // And that is what is done.
    let mirror = Mirror::heliograph(&file).unwrap();
    must_be("by hand", &mirror, target, "plan", &[rule("plan.plan-t", "hand", "READ")]);
}

/// Everything on: once all is there, nothing is sent and nothing is written.
#[test]
fn what_is_in_step_costs_looks_and_nothing_else() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("rest-t")).unwrap();
    let mut rules: Vec<Rule> =
        (0..300).map(|user| rule("rest-t", &format!("u{user}"), "READ")).collect();
    rules.extend((0..100).map(|user| prefixed(rule("rest-", &format!("u{user}"), "DESCRIBE"))));
    rules.extend((0..100).map(|user| on_group("rest-g", &format!("u{user}"), "READ")));
    source.create_acls(&rules).unwrap();
    let (file, page) = flow("rest");
    let watched = target.bootstrap_of("WATCHED", "127.0.0.1").unwrap();
    let mirror = Mirror::heliograph(&all(file).set("t.bootstrap.servers", watched)).unwrap();
    eventually("the rules", WAIT, &mirror, || Ok(rules_of(target, "rest").len() == rules.len()))
        .unwrap();
    let runs = || events::rounds(&page, "rest", "t").unwrap()["acls"]["runs"].as_u64().unwrap();
    let counts = || {
        let ends = target.offsets(&claims("rest"), At::Latest).unwrap();
        (FRAMES.count(CREATE_ACLS), FRAMES.count(DELETE_ACLS), ends)
    };
    let begun = runs();
    eventually("a round", WAIT, &mirror, || Ok(runs() > begun)).unwrap();
    let (before, begun, asked) = (counts(), runs(), FRAMES.count(DESCRIBE_ACLS));
    assert!(before.0 > 0 && before.2 == [500], "the proxy saw none of them: {before:?}");
    eventually("three more rounds", WAIT, &mirror, || Ok(runs() >= begun + 3)).unwrap();
    assert_eq!(counts(), before);
    // One look at topics and one at groups in each round, one of which may be under way.
    let (asked, rounds) = (FRAMES.count(DESCRIBE_ACLS) - asked, runs() - begun + 1);
    assert!((1..=2 * rounds).contains(&asked), "{asked} in {rounds} rounds");

    // One less is one request.
    source.delete_acls(&rules[..1]).unwrap();
    eventually("one less", WAIT, &mirror, || Ok(rules_of(target, "rest").len() == rules.len() - 1))
        .unwrap();
    assert_eq!((FRAMES.count(CREATE_ACLS), FRAMES.count(DELETE_ACLS)), (before.0, 1));
}

/// The mirror comes to the target as `User:mirror`, who is not everybody's superior.
#[test]
fn without_the_right_to_alter_rules_stay_the_command_is_named_and_they_go_once_it_is_granted() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("alter-t")).unwrap();
    let there = rule("alter-t", "alice", "READ");
    source.create_acls(std::slice::from_ref(&there)).unwrap();
    let on_cluster = |operation: &str| Rule {
        resource_type: "CLUSTER".into(),
        ..rule("kafka-cluster", "mirror", operation)
    };
    target
        .create_acls(&[
            rule("*", "mirror", "ALL"),
            on_group("*", "mirror", "ALL"),
            on_cluster("ALL"),
        ])
        .unwrap();
    let (file, _) = flow("alter");
    let file = all(file)
        .set("t.bootstrap.servers", target.bootstrap_of("LOGIN", "127.0.0.1").unwrap())
        .set("t.security.protocol", "SASL_PLAINTEXT")
        .set("t.sasl.mechanism", "PLAIN")
        .set("t.sasl.jaas.config", login("mirror"));
    let mirror = Mirror::with_events(&file).unwrap();
    let here = [rule("alter.alter-t", "alice", "READ")];
    must_be("the rule", &mirror, target, "alter", &here);

    // Reading them is allowed still, changing them is not.
    let denied = deny(on_cluster("ALTER"));
    target.create_acls(&[denied.clone(), on_cluster("DESCRIBE")]).unwrap();
    source.delete_acls(&[there]).unwrap();
    let words = ["acls", "kafka-acls --bootstrap-server", "--operation Alter --cluster"];
    mirror.await_event("a right is missing", &words, WAIT).unwrap();
    must_stay(target, "alter", &here);

    target.delete_acls(&[denied]).unwrap();
    must_be("it is gone", &mirror, target, "alter", &[]);
    mirror.await_event("a right is not missing any more", &["ALTER"], WAIT).unwrap();
}

/// Old brokers on either side, both ways at once: the versions of every message, and the authorizer that keeps its
/// rules in ZooKeeper.
#[test]
fn rules_follow_and_go_on_old_brokers_too() {
    let (a, b) =
        ClusterSpec::start_both(secured(Version::V2_8_2), secured(Version::V3_9_2)).unwrap();
    for cluster in [&a, &b] {
        cluster.create_topic(&Topic::new("old-t")).unwrap();
    }
    let file = FlowFile::both_ways(("a", &a), ("b", &b))
        .topics("old-.*")
        .set("emit.heartbeats.enabled", "false")
        .short_intervals()
        .set("sync.topic.acls.interval.seconds", "1");
    let mirror = Mirror::heliograph(&all(file)).unwrap();
    for (from, to, alias) in [(&a, &b, "a"), (&b, &a, "b")] {
        let there = [
            rule("old-t", alias, "ALL"),
            prefixed(rule("old-", alias, "READ")),
            on_group(&format!("old-{alias}"), alias, "READ"),
            prefixed(on_group(&format!("old-{alias}"), alias, "READ")),
        ];
        let mut here = there.clone();
        here[0] = rule(&format!("{alias}.old-t"), alias, "READ");
        here[1].name = format!("{alias}.old-");
        from.create_acls(&there).unwrap();
        let found = || {
            let of_user = |rule: &Rule| rule.principal == format!("User:{alias}");
            to.acls().unwrap().into_iter().filter(of_user).collect::<BTreeSet<_>>()
        };
        eventually("they follow", WAIT, &mirror, || Ok(found() == here.clone().into())).unwrap();
        from.delete_acls(&there).unwrap();
        eventually("they go", WAIT, &mirror, || Ok(found().is_empty())).unwrap();
    }
}

/// Three clusters: two flows into one, to and fro, and round. Last of all a source that is built anew.
#[test]
fn flows_share_what_both_claim_and_what_goes_round_goes_when_people_take_it_away() {
    let spec = |name: &str| secured(Version::V4_3_1).named(name);
    let (mut a, b) = ClusterSpec::start_both(spec("a"), spec("b")).unwrap();
    let c = spec("c").start().unwrap();
    fn file(clusters: &[(&str, &Cluster)], flows: &[(&str, &str)]) -> FlowFile {
        let file = flows.iter().fold(FlowFile::of(clusters), |file, (s, t)| file.flow(s, t));
        let file = file.topics("none").set("emit.heartbeats.enabled", "false").short_intervals();
        let file = file.set("sync.topic.acls.interval.seconds", "1");
        file.set(GROUPS, "true").set(REMOVE, "true")
    }
    let alone = |name: &str| on_group(name, "alice", "READ");

    // Two flows into one cluster, each a process of its own.
    {
        let into = |alias, from| file(&[(alias, from), ("C", &c)], &[(alias, "C")]);
        let shared = alone("in-shared");
        a.create_acls(std::slice::from_ref(&shared)).unwrap();
        b.create_acls(std::slice::from_ref(&shared)).unwrap();
        let first = Mirror::with_events(&into("A", &a)).unwrap();
        must_be("by the first", &first, &c, "in-", std::slice::from_ref(&shared));
        let second = Mirror::with_events(&into("B", &b)).unwrap();
        eventually("the second claims it too", WAIT, &second, || {
            let ends = c.offsets(&claims("B"), At::Latest).unwrap_or_default();
            Ok(ends.iter().sum::<i64>() > 0)
        })
        .unwrap();
        // Who added it lets go of it; the other keeps it.
        a.delete_acls(std::slice::from_ref(&shared)).unwrap();
        must_stay(&c, "in-", std::slice::from_ref(&shared));
        b.delete_acls(std::slice::from_ref(&shared)).unwrap();
        must_be("claimed by neither", &second, &c, "in-", &[]);

        // Both let go at once, again and again.
        for _ in 0..5 {
            a.create_acls(std::slice::from_ref(&shared)).unwrap();
            b.create_acls(std::slice::from_ref(&shared)).unwrap();
            must_be("there", &first, &c, "in-", std::slice::from_ref(&shared));
            // By then both claim it.
            thread::sleep(Duration::from_millis(2_500));
            thread::scope(|scope| {
                for cluster in [&a, &b] {
                    let shared = std::slice::from_ref(&shared);
                    scope.spawn(move || cluster.delete_acls(shared).unwrap());
                }
            });
            must_be("gone", &first, &c, "in-", &[]);
        }
    }

    // To and fro, and on; then round. What people take away where they made it is gone everywhere, and stays gone.
    let all = [("A", &a), ("B", &b), ("C", &c)];
    for (name, flows) in [
        ("fro-", &[("A", "B"), ("B", "A"), ("B", "C")][..]),
        ("ring-", &[("A", "B"), ("B", "C"), ("C", "A")]),
    ] {
        let made = alone(&format!("{name}g"));
        a.create_acls(std::slice::from_ref(&made)).unwrap();
        let mirror = Mirror::with_events(&file(&all, flows)).unwrap();
        for cluster in [&b, &c] {
            must_be("it follows", &mirror, cluster, name, std::slice::from_ref(&made));
        }
        thread::sleep(STAYS);
        a.delete_acls(std::slice::from_ref(&made)).unwrap();
        for cluster in [&a, &b, &c] {
            must_be("it is gone", &mirror, cluster, name, &[]);
        }
        for cluster in [&a, &b, &c] {
            must_stay(cluster, name, &[]);
        }
    }

    // A source that comes back empty under another id takes nothing away.
    let made = alone("anew-g");
    a.create_acls(std::slice::from_ref(&made)).unwrap();
    {
        let mirror = Mirror::heliograph(&file(&[("A", &a), ("B", &b)], &[("A", "B")])).unwrap();
        must_be("it follows", &mirror, &b, "anew-", std::slice::from_ref(&made));
    }
    a.rebuild().unwrap();
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let flow = file(&[("A", &a), ("B", &b)], &[("A", "B")]).set("heliograph.http.listen", &page);
    let mirror = Mirror::heliograph(&flow).unwrap();
    eventually("it is told", WAIT, &mirror, || {
        let left = events::rounds(&page, "A", "B")?["acls"]["left"].to_string();
        Ok(left.contains("1 ACLs stay: they were mirrored from another cluster"))
    })
    .unwrap();
    must_stay(&b, "anew-", std::slice::from_ref(&made));
}
