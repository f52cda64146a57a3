//! Two clusters that mirror each other: same topic names on both sides, no loop, exact counts.

use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

const COPY_WAIT: Duration = Duration::from_secs(120);

/// Three rounds of topic refresh at the default of 5 s: a loop would have begun by then.
const LOOP_WAIT: Duration = Duration::from_secs(16);

#[test]
fn topics_of_the_same_name_cross_over_once_and_never_come_back() {
    let (east, west) = Cluster::pair().unwrap();
    for (cluster, seed) in [(&east, 1), (&west, 2)] {
        cluster.create_topic(&Topic::new("orders").partitions(3)).unwrap();
        cluster.fill(&Fill::new("orders", 5_000).seed(seed).headers(0.5)).unwrap();
    }
    let flow = FlowFile::both_ways(("east", &east), ("west", &west));
    let mirror = Mirror::under_test(&flow).unwrap();
    let crossed = |count: u64| {
        for (from, alias, to) in [(&east, "east", &west), (&west, "west", &east)] {
            let copy = format!("{alias}.orders");
            let comparison = Comparison::new(from, "orders", to, &copy).wait(COPY_WAIT);
            assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, count);
        }
    };
    crossed(5_000);

    for (cluster, seed) in [(&east, 1), (&west, 2)] {
        cluster.fill(&Fill::new("orders", 5_000).seed(seed).first(5_000).rate(5_000.0)).unwrap();
    }
    thread::sleep(LOOP_WAIT);

    crossed(10_000);
    for (cluster, copy) in [(&east, "west.orders"), (&west, "east.orders")] {
        assert_eq!(
            cluster.drain("orders").unwrap().iter().sum::<u64>(),
            10_000,
            "{}",
            cluster.name()
        );
        let orders: Vec<String> = cluster
            .topics()
            .unwrap()
            .into_iter()
            .filter(|topic| topic.ends_with("orders"))
            .collect();
        assert_eq!(orders, if copy < "orders" { [copy, "orders"] } else { ["orders", copy] });
    }
}
