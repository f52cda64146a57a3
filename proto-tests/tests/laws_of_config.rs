//! Whatever stands in a file, reading it ends, and says where the problem is.

use heliograph::config::load;
use heliograph::config::properties::Document;
use heliograph::mm2::{Checkpoint, Heartbeat, OffsetSync, SourceOffsetKey, decode_value};
use heliograph::model::{ClusterAlias, Offset, TopicPartition};
use heliograph::policy::{NameList, Pattern, PolicyKind, ReplicationPolicy};
use proptest::collection::vec;
use proptest::prelude::*;

/// Pieces of files, so that random ones get past the first line.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "clusters",
        "a",
        "b",
        "a->b",
        ".",
        "=",
        " = ",
        ":",
        ",",
        "\n",
        "\r\n",
        "\\\n  ",
        "\\",
        "\\u",
        "\\u00e9",
        "#",
        "->",
        "enabled",
        "true",
        "topics",
        "bootstrap.servers",
        "x:1",
        "[::1]:1",
        "consumer.",
        "source.consumer.",
        "isolation.level",
        "read_committed",
        "offset.storage.topic",
        "${env:X}",
        "config.providers = env",
        "[",
        "(",
        "*",
        "\\\\p{L}",
        "password",
        "security.protocol",
        "SSL",
        "-1",
        "99999999999999999999",
        "\t",
        "\u{e9}",
        "clusters = a, b\n",
        "a.bootstrap.servers = x:1\nb.bootstrap.servers = y:1\na->b.enabled = true\n",
    ]);
    vec(pieces, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_file_is_either_read_or_refused_with_at_least_one_problem(bytes in file()) {
        if let Err(problems) = load("mm2.properties", &bytes, &[]) {
            prop_assert!(!problems.errors.is_empty());
            let text = problems.to_string();
            prop_assert!(text.starts_with("error: "), "{}", text);
        }
    }

    #[test]
    fn any_bytes_are_taken_apart_and_every_place_lies_in_the_file(bytes in vec(any::<u8>(), 0..200)) {
        let lines = 1 + bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        let document = Document::parse(&bytes);
        for entry in &document.entries {
            for index in 0..=entry.value.as_str().chars().count() {
                let place = entry.value.place(index);
                prop_assert!(place.line >= 1 && place.line as usize <= lines);
                prop_assert!(place.column >= 1);
            }
        }
    }

    #[test]
    fn any_pattern_is_either_honoured_or_refused_inside_the_pattern(text in "[ab(){}\\[\\]|?*+^$\\\\QEpw.&,:<>!=1i-]{0,20}") {
        match Pattern::new(&text) {
            Ok(pattern) => drop(pattern.matches("ab-1")),
            Err(error) => prop_assert!(error.at <= text.chars().count(), "{:?}", error),
        }
        drop(NameList::new(&text.split(',').collect::<Vec<_>>()));
    }

    #[test]
    fn a_quoted_name_matches_itself_and_nothing_else(name in "[ -~]{1,20}", other in "[ -~]{1,20}") {
        prop_assume!(!name.contains("\\E"));
        let pattern = Pattern::new(&format!("\\Q{name}\\E")).unwrap();

        prop_assert_eq!(pattern.matches(&name), Ok(true));
        prop_assert_eq!(pattern.matches(&other), Ok(name == other));
    }

    #[test]
    fn a_replica_s_name_leads_back_to_its_source(
        alias in "[a-zA-Z0-9-]{1,8}",
        topic in "[a-zA-Z0-9._-]{0,20}[a-zA-Z0-9-]",
        separator in prop::sample::select(vec![".", "_", "__"]),
    ) {
        let policy = ReplicationPolicy::new(PolicyKind::Default, separator, None);
        let source = ClusterAlias::new(&alias);

        let remote = policy.remote(&source, &topic.as_str().into());

        prop_assert_eq!(policy.source(remote.as_str()), Some(alias.as_str()));
        prop_assert_eq!(policy.upstream(remote.as_str()), Some(topic.as_str()));
        prop_assert!(policy.is_cycle(&source, remote.as_str()));
    }

    #[test]
    fn an_offset_key_of_any_names_is_read_back(alias in "\\PC{0,12}", topic in any::<String>(), partition in 0..i32::MAX) {
        let key = SourceOffsetKey::new(ClusterAlias::new(alias), TopicPartition::new(topic.as_str(), partition));

        prop_assert_eq!(SourceOffsetKey::decode(&key.encode()), Ok(Some(key)));
    }

    #[test]
    fn random_records_are_refused_without_harm(key in vec(any::<u8>(), 0..40), value in vec(any::<u8>(), 0..40)) {
        drop(OffsetSync::decode(&key, &value));
        drop(Checkpoint::decode(&key, &value));
        drop(Heartbeat::decode(&key, &value));
        drop(SourceOffsetKey::decode(&key));
        if let Ok(Some(Offset(last))) = decode_value(Some(&value)) {
            prop_assert!(last >= 0);
        }
    }
}
