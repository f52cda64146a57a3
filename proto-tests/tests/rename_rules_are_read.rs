//! `topics.rename` in a file: what it makes of topics, and what is refused, each at its place.

use heliograph::config::{MirrorSettings, Problems, load, render_warnings};
use heliograph::model::TopicName;
use heliograph::policy::Selection;

const THREE_CLUSTERS: &str = "clusters = a, b, c\n\
    a.bootstrap.servers = a:1\n\
    b.bootstrap.servers = b:1\n\
    c.bootstrap.servers = c:1\n";

const IDENTITY: &str =
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n";

/// The three clusters above and `lines`, which begin on line 5.
fn read(lines: &str, targets: &[&str]) -> Result<MirrorSettings, Problems> {
    let targets: Vec<String> = targets.iter().map(|name| (*name).to_owned()).collect();
    load("mm2.properties", format!("{THREE_CLUSTERS}{lines}").as_bytes(), &targets)
}

fn good(lines: &str) -> MirrorSettings {
    read(lines, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What a flow does with a topic: its name on the target, or why not.
fn becomes(settings: &MirrorSettings, flow: &str, topic: &str) -> String {
    let found = settings.flows.iter().find(|one| one.id.to_string() == flow).expect("a flow");
    match found.flow_topics().select(&TopicName::new(topic)).expect("an end") {
        Selection::Copied { as_topic } => as_topic.as_str().to_owned(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase(),
    }
}

fn errors(lines: &str) -> Vec<String> {
    let problems = read(lines, &[]).expect_err("problems");
    problems.errors.iter().map(|one| one.message.clone()).collect()
}

#[test]
fn each_flow_has_rules_of_its_own_or_those_of_the_top() {
    let settings = good(
        "a->b.enabled = true\nb->a.enabled = true\na->c.enabled = true\n\
         topics.rename = team.*:teams.*\n\
         a->b.topics.rename = orders:orders-eu, payments.*:eu.payments.*\n",
    );
    assert_eq!(render_warnings("", &settings.warnings), "");
    for (flow, topic, expected) in [
        ("a->b", "orders", "orders-eu"),
        ("a->b", "payments.in", "eu.payments.in"),
        ("a->b", "team.x", "a.team.x"),
        ("a->b", "heartbeats", "a.heartbeats"),
        ("a->c", "team.x", "teams.x"),
        ("a->c", "orders", "a.orders"),
        ("b->a", "orders", "b.orders"),
        ("b->a", "orders-eu", "cycle"),
        ("b->a", "eu.payments.in", "cycle"),
        ("b->a", "a.other", "cycle"),
        ("b->a", "team.x", "teams.x"),
        ("a->b", "teams.x", "cycle"),
    ] {
        assert_eq!(becomes(&settings, flow, topic), expected, "{flow} {topic}");
    }
}

#[test]
fn rules_of_flows_that_are_off_or_run_elsewhere_count_for_the_loop_rules() {
    for off in ["a->b.enabled = false\n", "", "a->b.enabled = true\n"] {
        let lines = format!(
            "{off}b->c.enabled = true\nc->a.enabled = true\n{IDENTITY}\
             a->b.topics.rename = orders:orders-eu, *:from-a-*\n"
        );
        // Each site's process runs the flows into its own cluster.
        let settings = read(&lines, &["a"]).expect("a good file");
        assert_eq!(becomes(&settings, "c->a", "orders-eu"), "cycle", "{off}");
        assert_eq!(becomes(&settings, "c->a", "from-a-x"), "cycle", "{off}");
        assert_eq!(becomes(&settings, "c->a", "x"), "x", "{off}");
    }
}

#[test]
fn a_rule_that_cannot_be_kept_is_shown_at_its_place() {
    let problems = read(
        "a->b.enabled = true\n\
         a->b.topics.rename = orders:orders-eu, pay.*:orders-*, __x:y, t:a.t\n",
        &["b"],
    );
    assert_eq!(
        problems.expect_err("problems").to_string(),
        "error: 3 problems in mm2.properties\n\
         \n\
         \x20 line 6, column 46  a->b.topics.rename = orders:orders-eu, pay.*:orders-*, __x:y, t:a.t\n\
         \x20                                                                 ^^^^^^^^\n\
         \x20   can give a name that `orders:orders-eu` gives, too\n\
         \x20   hint: two topics would be merged: let the rules' names begin differently\n\
         \n\
         \x20 line 6, column 56  ... ders-eu, pay.*:orders-*, __x:y, t:a.t\n\
         \x20                                                 ^^^\n\
         \x20   `__x` is a name of MirrorMaker 2's or Kafka's own\n\
         \x20   hint: no rule renames such topics or makes them: choose another name\n\
         \n\
         \x20 line 6, column 65  ... pay.*:orders-*, __x:y, t:a.t\n\
         \x20                                                 ^^\n\
         \x20   names that begin with `a.` are given by the replication policy\n\
         \x20   hint: choose another beginning, or leave the rule out\n"
    );
    // Those of a flow that this process does not run make its loop rules wrong all the same.
    assert!(read("b->a.enabled = true\na->b.topics.rename = x\n", &["a"]).is_err());
}

#[test]
fn rules_both_ways_must_leave_something_to_each() {
    let both = "a->b.enabled = true\nb->a.enabled = true\n";
    let refused = errors(&format!("{both}topics.rename = orders:orders\n"));
    assert_eq!(
        refused,
        [
            "never applies: by its rule `orders:orders`, b->a gives such names, so that these topics \
             came from b",
            "never applies: by its rule `orders:orders`, a->b gives such names, so that these topics \
             came from a",
        ]
    );
    let there_and_back = "a->b.topics.rename = x:y\nb->a.topics.rename = y:x\n";
    assert_eq!(errors(&format!("{both}{there_and_back}")).len(), 2);

    let settings = good(&format!("{both}topics.rename = *:from-elsewhere-*\n"));
    assert_eq!(settings.warnings, []);
    assert_eq!(becomes(&settings, "a->b", "t"), "from-elsewhere-t");
    assert_eq!(becomes(&settings, "b->a", "from-elsewhere-t"), "cycle");

    let stripped = "a->b.topics.rename = team.*:*\na->b.enabled = true\n";
    assert_eq!(good(stripped).warnings, []);
    let settings = good(&format!("{stripped}b->a.enabled = true\n"));
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].message.contains("b->a takes no topic"), "{settings:?}");
    assert_eq!(becomes(&settings, "b->a", "x"), "cycle");
    assert_eq!(becomes(&settings, "b->a", "heartbeats"), "b.heartbeats");
    assert_eq!(becomes(&settings, "a->b", "team.x"), "x");
}

#[test]
fn a_rule_about_a_topic_that_is_not_taken_is_pointed_out() {
    let settings =
        good("a->b.enabled = true\na->b.topics = orders\ntopics.rename = order:o, x.*:y.*\n");
    let [warning] = settings.warnings.as_slice() else { panic!("{:?}", settings.warnings) };
    assert_eq!(warning.message, "a->b does not take order: the rule has no effect");
}

#[test]
fn without_rules_nothing_is_asked_but_names() {
    let settings = good(&format!("a->b.enabled = true\nb->a.enabled = true\n{IDENTITY}"));
    assert!(settings.flows.iter().all(|flow| flow.origins == Default::default()));
    assert!(settings.flows.iter().all(|flow| flow.names.renames().is_empty()));
    assert_eq!(becomes(&settings, "b->a", "t"), "t");
}
