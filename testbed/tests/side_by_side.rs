//! Negative control of `testbed side-by-side` on real clusters: what is changed by hand afterwards is seen.

use testbed::admin::GroupOffset;
use testbed::mirror::Program;
use testbed::side_by_side::{Left, VARIANTS, differences};

#[test]
fn what_is_planted_on_real_clusters_is_seen_and_nothing_else() {
    let left = Left::by(Program::Heliograph, &VARIANTS[0]).unwrap();
    let before = &left.picture;
    assert_eq!(differences(before, &left.look().unwrap()), []);

    left.target.set_topic_config("A.orders", "retention.ms", "1000000").unwrap();
    let moved = GroupOffset {
        topic: "A.orders".to_owned(),
        partition: 0,
        offset: 169,
        metadata: String::new(),
    };
    left.target.commit_offsets("middle", &[moved]).unwrap();

    let found = differences(before, &left.look().unwrap());
    let told: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert!(found.iter().all(|one| one.reason.is_none()), "{told:#?}");
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told[0].starts_with("target: topic A.orders ") && told[1].contains("1000000"));
    assert!(told[2].contains("group middle on A.orders-0: ours 169"), "{told:#?}");
}
