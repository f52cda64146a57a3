//! MM2's own files are understood, and every problem of a file is shown at once, at its place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use heliograph::client::{Security, Store, StoreFormat, Trust};
use heliograph::config::{
    DefaultsFrom, ExistingRecordsPolicy, GapPolicy, Isolation, MirrorSettings, OffsetReset,
    Problems, VerifyCrc, load, render_warnings,
};
use heliograph::model::ClusterAlias;
use heliograph::policy::{ConfigMode, PolicyKind, Selection};
use heliograph::wire::sasl::Mechanism;

const TWO_CLUSTERS: &str = "clusters = a, b\n\
    a.bootstrap.servers = kafka-a:9092\n\
    b.bootstrap.servers = [::1]:9092, kafka-b:9093\n";

fn loaded(lines: &str) -> MirrorSettings {
    match try_loaded(lines) {
        Ok(settings) => settings,
        Err(problems) => panic!("{problems}"),
    }
}

/// The two clusters above and `lines`, which begin on line 4.
fn try_loaded(lines: &str) -> Result<MirrorSettings, Problems> {
    load("mm2.properties", format!("{TWO_CLUSTERS}{lines}").as_bytes(), &[])
}

fn problems(lines: &str) -> Problems {
    try_loaded(lines).expect_err("problems")
}

fn only(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn recorded(run: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mm2");
    let text = fs::read_to_string(root.join(run).join("mm2.properties")).expect(run);
    text.replace("HOST:PORT", "localhost:9092").into_bytes()
}

#[test]
fn a_file_with_nothing_but_a_flow_gets_the_defaults() {
    let settings = loaded("a->b.enabled = true\n");

    assert_eq!(settings.warnings, []);
    assert_eq!(settings.process.memory_bytes, 16_777_216);
    assert_eq!(settings.process.verify_crc, VerifyCrc::Never);
    let b = &settings.clusters[&ClusterAlias::new("b")];
    assert_eq!(b.bootstrap, [("::1".to_owned(), 9092), ("kafka-b".to_owned(), 9093)]);
    assert_eq!((&b.security, b.request_timeout), (&Security::default(), Duration::from_secs(30)));
    let [flow] = settings.flows.as_slice() else { panic!("{:?}", settings.flows) };
    assert_eq!((flow.id.to_string().as_str(), flow.enabled), ("a->b", true));
    assert_eq!(flow.isolation, Isolation::ReadCommitted);
    assert_eq!(flow.auto_offset_reset, OffsetReset::Earliest);
    assert_eq!(flow.refresh_topics_interval, Some(Duration::from_secs(5)));
    assert_eq!((flow.replication_factor, flow.tasks_max), (None, None));
    assert_eq!(flow.offset_storage.topic.as_str(), "mm2-offsets.a.internal");
    assert_eq!(flow.offset_storage.partitions, Some(25));
    assert_eq!(flow.offset_storage.replication_factor, None);
    assert_eq!(flow.offset_flush_interval, Duration::from_secs(60));
    assert_eq!(flow.use_defaults_from, DefaultsFrom::Target);
    assert_eq!(flow.existing_records_policy, ExistingRecordsPolicy::Halt);
    assert_eq!(flow.gap_policy, GapPolicy::Record);
    assert_eq!(flow.client_id, "a->b");
    let topics = flow.flow_topics();
    assert_eq!(
        topics.select(&"orders".into()),
        Ok(Selection::Copied { as_topic: "a.orders".into() })
    );
    assert_eq!(topics.select(&"__consumer_offsets".into()), Ok(Selection::Filtered));
}

#[test]
fn the_files_of_the_recorded_mm2_runs_are_understood() {
    for run in ["default-policy", "separator", "separator-internal-dot", "identity-target"] {
        let settings = load(run, &recorded(run), &[]).unwrap_or_else(|error| panic!("{error}"));
        let [flow] = settings.flows.as_slice() else { panic!("{run}: {:?}", settings.flows) };
        assert_eq!(flow.replication_factor, Some(1), "{run}");
        assert_eq!(flow.offset_storage.replication_factor, Some(1), "{run}");
        assert_eq!(flow.tasks_max, Some(2), "{run}");
        assert_eq!(flow.refresh_topics_interval, Some(Duration::from_secs(2)), "{run}");
        assert_eq!(flow.offset_flush_interval, Duration::from_secs(2), "{run}");
    }

    let identity = load("x", &recorded("identity-target"), &[]).expect("a good file");
    assert_eq!(identity.flows[0].names.policy.kind(), PolicyKind::Identity);
    assert_eq!(identity.flows[0].use_defaults_from, DefaultsFrom::Source);

    let names = |run: &str| {
        let settings = load(run, &recorded(run), &[]).expect("a good file");
        let policy = &settings.flows[0].names.policy;
        let a = ClusterAlias::new("A");
        let checkpoints = policy.internal().checkpoints(&a);
        (policy.remote(&a, &"orders".into()).to_string(), checkpoints.to_string())
    };
    assert_eq!(names("separator"), ("A_orders".to_owned(), "A_checkpoints_internal".to_owned()));
    assert_eq!(
        names("separator-internal-dot"),
        ("A_orders".to_owned(), "A.checkpoints.internal".to_owned())
    );
}

#[test]
fn exactly_once_is_refused_with_the_way_out_and_not_quietly_left_out() {
    let problems = load("x", &recorded("exactly-once"), &[]).expect_err("a problem");

    assert_eq!(problems.errors.len(), 1);
    assert_eq!(problems.errors[0].key, "B.exactly.once.source.support");
}

#[test]
fn all_problems_of_a_file_are_shown_at_once_as_a_person_reads_them() {
    let problems = problems(
        "a->b.enabled = yes\n\
         a->b.topics = orders\\\\..*, \\\\p{javaLowerCase}+\\\\.log\n\
         b.security.protocol = SLS\n\
         tasks.max = 0\n\
         a->b.gap.policy = hlat\n",
    );

    assert_eq!(
        problems.to_string(),
        r"error: 5 problems in mm2.properties

  line 4, column 16  a->b.enabled = yes
                                    ^^^
    neither true nor false

  line 5, column 28  a->b.topics = orders\\..*, \\p{javaLowerCase}+\\.log
                                                ^^^^^^^^^^^^^^^^^^
    Java's `\p{javaLowerCase}` has no equivalent here, so this pattern cannot be honoured exactly
    hint: topic names are ASCII; write [a-z]

  line 6, column 23  b.security.protocol = SLS
                                           ^^^
    unknown protocol; known: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    hint: did you mean SSL?

  line 7, column 13  tasks.max = 0
                                 ^
    not a whole number from 1 to 2147483647

  line 8, column 19  a->b.gap.policy = hlat
                                       ^^^^
    unknown value; known: record, halt
    hint: did you mean halt?
"
    );
}

#[test]
fn a_clusters_security_is_read_from_the_top_the_cluster_and_its_admin_client() {
    let security = |lines: &str| {
        let mut settings = loaded(&format!("a->b.enabled = true\n{lines}\n"));
        let mut of = |alias: &str| {
            settings.clusters.remove(&ClusterAlias::new(alias)).expect("a cluster").security
        };
        (of("a"), of("b"))
    };

    let (a, b) = security("security.protocol = SSL\nb.security.protocol = plaintext");
    assert_eq!((a.protocol(), b.protocol()), ("SSL", "PLAINTEXT"));
    let (a, b) = security(
        "b.admin.security.protocol = SASL_SSL\nb.producer.security.protocol = SASL_SSL\n\
         b.sasl.mechanism = SCRAM-SHA-512\n\
         b.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\\n \
         username=\"u\" \\\n password=\"p\";\n\
         b.ssl.truststore.location = /x/trust.p12\nb.ssl.truststore.password = changeit\n\
         b.ssl.enabled.protocols = TLSv1.3\nb.ssl.cipher.suites = TLS_AES_128_GCM_SHA256",
    );
    assert_eq!((a.protocol(), b.protocol()), ("PLAINTEXT", "SASL_SSL"));
    assert_eq!(b.sasl.expect("a login").mechanism, Mechanism::ScramSha512);
    let tls = b.tls.expect("TLS");
    assert!(tls.v1_3 && !tls.v1_2 && tls.check_host_name && tls.identity.is_none());
    assert_eq!(tls.cipher_suites, ["TLS_AES_128_GCM_SHA256"]);
    assert!(matches!(tls.trust, Trust::Store(Store::File { format: StoreFormat::Java, .. })));
}

#[test]
fn a_role_that_is_to_be_secured_otherwise_than_its_cluster_is_refused() {
    for line in [
        "a.consumer.security.protocol = SSL",
        "a->b.source.admin.security.protocol = SSL",
        "a->b.target.producer.security.protocol = SSL",
        "security.protocol = SSL\nb.producer.ssl.truststore.location = /x",
    ] {
        let problems = problems(&format!("a->b.enabled = true\n{line}\n"));
        assert_eq!(problems.errors.len(), 1, "{problems}");
        assert!(problems.errors[0].message.contains("share its connections"), "{problems}");
    }
}

#[test]
fn what_a_login_or_tls_lacks_is_told_with_the_key() {
    let jaas = "a.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required;";
    let plain = "a.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule \
                 required username=\"u\";";
    for (lines, word) in [
        ("a.security.protocol = SASL_SSL".to_owned(), "sasl.mechanism"),
        ("a.security.protocol = SASL_SSL\na.sasl.mechanism = GSSAPI".to_owned(), "Kerberos"),
        ("a.security.protocol = SASL_SSL\na.sasl.mechanism = PLAIN".to_owned(), "no credentials"),
        (format!("a.security.protocol = SASL_SSL\na.sasl.mechanism = PLAIN\n{jaas}"), "Krb5"),
        (format!("a.security.protocol = SASL_SSL\na.sasl.mechanism = PLAIN\n{plain}"), "password"),
        ("a.security.protocol = SSL\na.ssl.truststore.type = BKS".to_owned(), "PKCS12"),
        ("a.security.protocol = SSL\na.ssl.enabled.protocols = TLSv1.1".to_owned(), "TLS version"),
        ("a.security.protocol = SSL\na.ssl.keystore.key = x".to_owned(), "certificate"),
        ("a.security.protocol = SSL\na.ssl.engine.factory.class = x.Y".to_owned(), "Java"),
    ] {
        let text = problems(&format!("a->b.enabled = true\n{lines}\n")).to_string();
        assert!(text.contains(word), "{text}");
    }
}

/// Cluster `a` with tokens of a server, with these options and lines.
fn token_lines(url: &str, options: &str, lines: &str) -> String {
    format!(
        "a->b.enabled = true\na.security.protocol = SASL_SSL\na.sasl.mechanism = OAUTHBEARER\n\
         a.sasl.oauthbearer.token.endpoint.url = {url}\n\
         a.sasl.jaas.config = \
         org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {options};\n\
         {lines}\n"
    )
}

#[test]
fn tokens_of_a_server_are_asked_for_as_the_file_says_and_with_javas_defaults() {
    let server = |lines: &str| {
        let settings = loaded(&token_lines("https://idp:8443/t?x=y", "clientSecret=\"s\"", lines));
        assert_eq!(settings.warnings, [], "{lines}");
        let security = &settings.clusters[&ClusterAlias::new("a")].security;
        let sasl = security.sasl.clone().expect("a login");
        assert_eq!(sasl.token_file, None);
        *sasl.token_server.expect("a token server")
    };
    let id = "a.sasl.oauthbearer.client.credentials.client.id = me";
    let of = server(id);
    assert_eq!((of.endpoint.address.port, of.endpoint.path.as_str()), (8443, "/t?x=y"));
    assert_eq!(of.client_id.expect("an id").get().expect("an id").reveal(), "me");
    assert_eq!((of.client_secret, of.scope, of.header_urlencode), (None, None, false));
    assert_eq!((of.refresh.window_permille, of.refresh.jitter_permille), (800, 50));
    let seconds = Duration::from_secs;
    assert_eq!((of.refresh.min_period, of.refresh.buffer), (seconds(60), seconds(300)));
    assert_eq!(of.retry, (Duration::from_millis(100), seconds(5)));
    assert_eq!((of.connect_timeout, of.read_timeout), (seconds(10), seconds(10)));

    let of = server(&format!(
        "{id}\na.sasl.oauthbearer.scope = kafka all\na.sasl.oauthbearer.header.urlencode = TRUE\n\
         a.sasl.login.refresh.window.factor = 0.5\na.sasl.login.refresh.window.jitter = 0.25\n\
         a.sasl.login.refresh.min.period.seconds = 1\na.sasl.login.refresh.buffer.seconds = 2\n\
         a.sasl.login.retry.backoff.ms = 7\na.sasl.login.retry.backoff.max.ms = 8\n\
         a.sasl.login.connect.timeout.ms = 9\na.sasl.login.read.timeout.ms = 11"
    ));
    assert_eq!((of.scope.as_deref(), of.header_urlencode), (Some("kafka all"), true));
    assert_eq!((of.refresh.window_permille, of.refresh.jitter_permille), (500, 250));
    assert_eq!((of.refresh.min_period, of.refresh.buffer), (seconds(1), seconds(2)));
    assert_eq!(of.retry, (Duration::from_millis(7), Duration::from_millis(8)));
    let answers = (of.connect_timeout, of.read_timeout);
    assert_eq!(answers, (Duration::from_millis(9), Duration::from_millis(11)));
}

#[test]
fn what_keeps_tokens_from_coming_is_told_with_the_key_before_anybody_is_asked() {
    let both = "clientId=\"me\" clientSecret=\"hunter2\"";
    let url = "https://idp/t";
    for (url, options, line, word) in [
        (url, "clientId=\"me\"", "", "client.credentials.client.secret"),
        (url, "clientSecret=\"hunter2\"", "", "client.credentials.client.id"),
        (url, "ssl.provider=\"X\" clientId=\"me\" clientSecret=\"hunter2\"", "", "ssl.provider"),
        ("http://idp/t", both, "", "https://HOST/PATH"),
        ("https://me:hunter2@idp/t", both, "", "https://HOST:PORT/PATH"),
        ("https://idp:99999/t", both, "", "https://HOST:PORT/PATH"),
        (url, both, "a.sasl.login.refresh.window.factor = 0.4", "from 0.5 to 1"),
        (url, both, "a.sasl.login.refresh.window.jitter = 0.3", "from 0 to 0.25"),
        (url, both, "a.sasl.login.refresh.buffer.seconds = 3601", "from 0 to 3600"),
        (url, both, "a.sasl.login.read.timeout.ms = 0", "from 1 to"),
    ] {
        let text = problems(&token_lines(url, options, line)).to_string();
        assert!(text.contains(word), "{text}");
    }
    let text = problems(&token_lines(url, "clientSecret=\"hunter2\"", "")).to_string();
    assert!(!text.contains("hunter2"), "{text}");
    let unchecked = format!("{both} ssl.endpoint.identification.algorithm=\"\"");
    let text = render_warnings("x", &loaded(&token_lines(url, &unchecked, "")).warnings);
    assert!(text.contains("token server's host name is not checked"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_plain_password_without_tls_and_unchecked_host_names_are_warned_about() {
    let lines = "a->b.enabled = true\n\
        a.security.protocol = SASL_PLAINTEXT\na.sasl.mechanism = PLAIN\n\
        a.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \
        username=\"u\" password=\"hunter2\";\n\
        b.security.protocol = SSL\nb.ssl.endpoint.identification.algorithm =\n";
    let text = render_warnings("x", &loaded(lines).warnings);

    assert!(text.contains("shows the credentials") && text.contains("not checked"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_password_appears_in_no_problem_and_no_warning() {
    let lines = "a->b.enabled = true\n\
        a.security.protocol = SASL_SSL\n\
        a.sasl.jaas.config = x password=\"hunter2\";\n\
        a.sasl.jaas.conifg = x password=\"hunter2\";\n\
        a.ssl.key.passwrd = hunter2\n\
        c.ssl.key.password = hunter2\n\
        a->b.ssl.key.password = hunter2 \\\n hunter2\n\
        a.ssl.keystore.password = \\\\u12 hunter2\n\
        config.providers = env\n\
        b.ssl.key.password = hunter2${env:X}\n";

    let text = problems(lines).to_string();

    assert!(text.contains("a.sasl.jaas.conifg"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_flow_needs_bootstrap_servers_on_both_sides() {
    let file = "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b\n\
        a->b.enabled = true\nc->a.enabled = true\n";

    let problems = load("x", file.as_bytes(), &[]).expect_err("problems");

    let messages: Vec<&str> =
        problems.errors.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["cluster c has no bootstrap servers", "`b` is no broker address"]);
}

#[test]
fn two_aliases_with_the_same_brokers_are_pointed_out() {
    let file = "clusters = a, b\na.bootstrap.servers = x:1, y:1\nb.bootstrap.servers = Y:1,x:1\n\
        a->b.enabled = true\n";

    let settings = load("x", file.as_bytes(), &[]).expect("a good file");

    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].message.contains("same bootstrap servers"));
}

#[test]
fn two_flows_that_could_feed_each_other_for_ever_are_pointed_out() {
    let both = "a->b.enabled = true\nb->a.enabled = true\n";
    assert_eq!(loaded(both).warnings, []);

    let identity = "replication.policy.class = \
        org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n";
    let warnings = loaded(&format!("{both}{identity}")).warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].message, "a->b and b->a keep topic names, so cycles cannot be seen");

    let file = "clusters = us.east, us.west\nus.east.bootstrap.servers = x:1\n\
        us.west.bootstrap.servers = y:1\nus.east->us.west.enabled = true\n\
        us.west->us.east.enabled = true\n";
    let settings = load("x", file.as_bytes(), &[]).expect("a good file");
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].message.contains("us.east holds the separator"));
}

#[test]
fn the_clusters_option_keeps_flows_into_the_named_targets_only() {
    let file = format!("{TWO_CLUSTERS}a->b.enabled = true\nb->a.enabled = true\n");
    let flows = |names: &[&str]| {
        let settings = load("x", file.as_bytes(), &only(names)).expect("a good file");
        settings.flows.iter().map(|flow| flow.id.to_string()).collect::<Vec<_>>()
    };

    assert_eq!(flows(&[]), ["a->b", "b->a"]);
    assert_eq!(flows(&["b"]), ["a->b"]);
    assert_eq!(flows(&["a", "nowhere"]), ["b->a"]);

    let problems = load("x", file.as_bytes(), &only(&["nowhere"])).expect_err("no flow");
    assert_eq!(problems.errors[0].message, "no flow into nowhere is enabled (--clusters)");
}

#[test]
fn the_top_level_enabled_switches_on_what_mm2_would_start_for_heartbeats() {
    let enabled = |lines: &str| {
        let settings = loaded(lines);
        let on = settings.flows.iter().filter(|flow| flow.enabled);
        on.map(|flow| flow.id.to_string()).collect::<Vec<_>>()
    };

    assert_eq!(enabled("enabled = true\n"), ["a->b", "b->a"]);
    assert_eq!(enabled("enabled = true\nb->a.enabled = false\n"), ["a->b"]);
    assert_eq!(enabled("enabled = true\nb->a.emit.heartbeats.enabled = false\n"), ["a->b"]);
}

/// MM2 writes them for every pair of clusters (`MirrorMakerConfigTest`); here a pair needs a flow
/// in one of its directions.
#[test]
fn heartbeats_are_written_for_enabled_flows_and_their_ways_back() {
    let file = "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n\
        c.bootstrap.servers = c:1\na->b.enabled = true\nb->c.enabled = true\n";
    let pairs = |lines: &str, targets: &[&str]| {
        let file = format!("{file}{lines}");
        let settings = load("x", file.as_bytes(), &only(targets)).expect("a good file");
        settings.heartbeats.iter().map(|one| one.pair.to_string()).collect::<Vec<_>>()
    };

    assert_eq!(pairs("", &[]), ["a->b", "b->a", "b->c", "c->b"]);
    assert_eq!(pairs("b->a.emit.heartbeats.enabled = false\n", &[]), ["a->b", "b->c", "c->b"]);
    assert_eq!(pairs("emit.heartbeats.enabled = false\n", &[]), Vec::<String>::new());
    let one = "emit.heartbeats.enabled = false\nb->a.emit.heartbeats.enabled = true\n";
    assert_eq!(pairs(one, &[]), ["b->a"]);
    // At its own site, a process may have nothing else to do.
    assert_eq!(pairs("", &["a"]), ["b->a"]);
    assert_eq!(pairs("", &["c"]), ["b->c"]);

    let own = "emit.heartbeats.interval.seconds = 5\na->b.emit.heartbeats.interval.seconds = 0\n\
        heartbeats.topic.replication.factor = 3\n";
    let settings = load("x", format!("{file}{own}").as_bytes(), &[]).expect("a good file");
    let intervals: Vec<u64> =
        settings.heartbeats.iter().map(|one| one.interval.as_secs()).collect();
    assert_eq!(intervals, [1, 5, 5, 5]);
    assert!(settings.heartbeats.iter().all(|one| one.replication_factor == Some(3)));
    assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
}

#[test]
fn configs_and_acls_are_compared_every_minute_unless_the_file_says_otherwise() {
    let intervals = |lines: &str| {
        let settings = loaded(&format!("a->b.enabled = true\n{lines}"));
        assert_eq!(settings.warnings, []);
        let flow = &settings.flows[0];
        (flow.sync_configs_interval, flow.sync_acls_interval, flow.sync_configs_mode)
    };
    let minute = Some(Duration::from_secs(60));

    assert_eq!(intervals(""), (minute, minute, ConfigMode::Owned));
    let lines = "sync.topic.configs.interval.seconds = 600\na->b.sync.topic.acls.enabled = false\n\
        sync.topic.configs.mode = mm2\n";
    assert_eq!(intervals(lines), (Some(Duration::from_secs(600)), None, ConfigMode::Mm2));
    // Java's scheduler refuses it too.
    let problems = problems("a->b.enabled = true\nsync.topic.acls.interval.seconds = 0\n");
    assert_eq!(problems.errors.len(), 1);
}

/// `Scheduler.scheduleRepeating` of MM2 does nothing for an interval below zero.
#[test]
fn a_negative_interval_switches_its_round_off_and_is_told() {
    let names = [
        "refresh.topics",
        "refresh.groups",
        "emit.heartbeats",
        "emit.checkpoints",
        "sync.group.offsets",
        "sync.topic.configs",
        "sync.topic.acls",
    ];
    let lines: String =
        names.iter().map(|name| format!("{name}.interval.seconds = -1\n")).collect();
    let on = "a->b.enabled = true\nsync.group.offsets.enabled = true\n";
    let settings = loaded(&format!("{on}{lines}"));
    let flow = &settings.flows[0];
    assert_eq!(flow.refresh_topics_interval, None);
    let groups = (flow.groups.refresh, flow.groups.checkpoints, flow.groups.offsets);
    assert_eq!(groups, (None, None, None));
    assert_eq!((flow.sync_configs_interval, flow.sync_acls_interval), (None, None));
    assert!(settings.heartbeats.is_empty());
    let told: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    for name in names {
        let hint = format!("`{name}.enabled = false` says the same");
        assert_eq!(told.iter().filter(|one| one.contains(&hint)).count(), 1, "{name}: {told:?}");
    }
    assert_eq!(told.len(), names.len(), "{told:?}");
}

/// All of it is off, each key stands alone, and MM2's interval holds for all.
#[test]
fn acls_beyond_mm2_take_a_key_each() {
    let acls = |lines: &str| {
        let settings = loaded(&format!("a->b.enabled = true\n{lines}"));
        assert_eq!(settings.warnings, []);
        let acls = settings.flows[0].acls;
        (acls.interval.as_secs(), [acls.prefixed, acls.groups, acls.remove])
    };
    assert_eq!(acls(""), (60, [false; 3]));
    assert_eq!(acls("sync.topic.acls.prefixed.enabled = true\n"), (60, [true, false, false]));
    assert_eq!(acls("a->b.sync.group.acls.enabled = true\n"), (60, [false, true, false]));
    let lines = "sync.topic.acls.enabled = false\nsync.acls.remove.enabled = true\n\
        sync.topic.acls.interval.seconds = 7\n";
    assert_eq!(acls(lines), (7, [false, false, true]));
    let problems = problems("a->b.enabled = true\nsync.acls.remove.enabled = yes\n");
    assert_eq!(problems.errors.len(), 1);
}

#[test]
fn a_flow_s_own_value_wins_over_the_top_level_and_the_cluster_s_consumer_over_the_flow_s() {
    let settings = loaded(
        "a->b.enabled = true\n\
         topics = top\n\
         a->b.topics = own\n\
         a.consumer.isolation.level = read_uncommitted\n\
         a->b.consumer.isolation.level = read_committed\n\
         a->b.source.consumer.auto.offset.reset = latest\n\
         offset.storage.replication.factor = 1\n\
         b.offset.storage.replication.factor = 2\n\
         b.offset.flush.interval.ms = 5000\n\
         a.consumer.client.id = me\n\
         replication.factor = -1\n\
         refresh.topics.enabled = false\n",
    );
    let flow = &settings.flows[0];

    assert_eq!(flow.topics.accepts("own"), Ok(true));
    assert_eq!(flow.topics.accepts("top"), Ok(false));
    assert_eq!(flow.isolation, Isolation::ReadUncommitted);
    assert_eq!(flow.auto_offset_reset, OffsetReset::Latest);
    assert_eq!(flow.offset_storage.replication_factor, Some(1));
    assert_eq!(flow.offset_flush_interval, Duration::from_secs(5));
    assert_eq!(flow.client_id, "me|a->b");
    assert_eq!((flow.replication_factor, flow.refresh_topics_interval), (None, None));
}

#[test]
fn the_removed_blacklists_are_honoured_with_a_warning() {
    let settings = loaded("a->b.enabled = true\ntopics.blacklist = secret.*\n");

    assert_eq!(settings.flows[0].topics.accepts("secret-1"), Ok(false));
    assert_eq!(settings.warnings.len(), 1);
    let text = render_warnings("mm2.properties", &settings.warnings);
    assert!(text.starts_with("1 warning about mm2.properties\n\n  line 5, column 1  topics.black"));
}

#[test]
fn the_identity_policy_is_known_by_its_class_and_others_are_refused() {
    let class = |name: &str| {
        format!(
            "a->b.enabled = true\nreplication.policy.class = org.apache.kafka.connect.mirror.{name}\n"
        )
    };

    let settings = loaded(&class("IdentityReplicationPolicy"));
    assert_eq!(settings.flows[0].names.policy.kind(), PolicyKind::Identity);
    let problems = problems(&class("IdentityReplicatonPolicy"));
    assert_eq!(
        problems.errors[0].hint.as_deref(),
        Some("did you mean org.apache.kafka.connect.mirror.IdentityReplicationPolicy?")
    );
}

#[test]
fn a_file_without_clusters_says_what_to_write() {
    let problems = load("x", b"", &[]).expect_err("problems");

    assert_eq!(problems.errors.len(), 1);
    assert!(problems.errors[0].hint.as_ref().is_some_and(|hint| hint.contains("clusters = a, b")));
}

#[test]
fn progress_of_a_connect_cluster_is_found_where_the_file_says() {
    let settings = load(
        "mm2.properties",
        b"clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:2\nc.bootstrap.servers = c:3\n\
          connect.offset.storage.topic = connect-offsets\na->b.enabled = true\n\
          a->b.connect.offset.storage.cluster = c\na->b.connect.connector.name = orders\nb->a.enabled = true\n",
        &[],
    )
    .expect("settings");

    let [there, back] = settings.flows.as_slice() else { panic!("{:?}", settings.flows) };
    let connect = there.offset_storage.connect.as_ref().expect("a Connect cluster");
    assert_eq!((connect.cluster.as_str(), connect.connector.as_str()), ("c", "orders"));
    assert_eq!(there.offset_storage.topic.as_str(), "connect-offsets");
    assert!(
        settings.clusters.contains_key(&ClusterAlias::new("c")),
        "no flow touches it, but it is asked"
    );
    // By default it is on the target, and the connector has MM2's own name for it.
    let connect = back.offset_storage.connect.as_ref().expect("a Connect cluster");
    assert_eq!(
        (connect.cluster.as_str(), connect.connector.as_str()),
        ("a", "MirrorSourceConnector")
    );
}

#[test]
fn what_is_said_of_a_connect_cluster_must_make_sense() {
    let wrong = problems(
        "a->b.enabled = true\nconnect.offset.storage.topic = x\nconnect.offset.storage.cluster = z\n",
    );
    assert!(wrong.to_string().contains("not in `clusters`"), "{wrong}");

    let settings = loaded("a->b.enabled = true\nconnect.connector.name = orders\n");
    assert_eq!(settings.flows[0].offset_storage.connect, None);
    let [warning] = settings.warnings.as_slice() else { panic!("{:?}", settings.warnings) };
    let words = format!("{warning:?}");
    assert!(words.contains("has no effect without `connect.offset.storage.topic`"), "{words}");
}
