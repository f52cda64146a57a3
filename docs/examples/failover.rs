//! Says what a mirror has left on a cluster, and where consumer groups go on there.
//!
//! ```text
//! cargo run --example failover -- mm2.properties backup primary billing audit
//! ```
//!
//! Prints one JSON object.

use std::error::Error;

use heliograph::embed::{MirrorClient, settings};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().ok_or_else(|| format!("{what} is missing"));
    let file = next("the properties file")?;
    let (cluster, upstream) = (next("the cluster")?, next("the upstream cluster")?);
    let settings = settings(&file, &std::fs::read(&file)?)?;
    let client = MirrorClient::new(&settings, &cluster)?;

    let names = |topics: std::collections::BTreeSet<heliograph::embed::TopicName>| -> Vec<String> {
        topics.iter().map(ToString::to_string).collect()
    };
    let mut groups = serde_json::Map::new();
    for group in args {
        let positions = client.translate_offsets(&upstream, &group).await?.into_iter();
        let positions = positions.map(|(partition, position)| {
            json!({
                "topic": partition.topic.as_str(),
                "partition": partition.partition,
                "offset": position.offset,
                "metadata": position.metadata,
            })
        });
        groups.insert(group, positions.collect::<Vec<Value>>().into());
    }
    let found = json!({
        "heartbeat_topics": names(client.heartbeat_topics().await?),
        "checkpoint_topics": names(client.checkpoint_topics().await?),
        "upstream_clusters": client.upstream_clusters().await?,
        "remote_topics": names(client.remote_topics().await?),
        "remote_topics_of_upstream": names(client.remote_topics_of(&upstream).await?),
        "hops": client.replication_hops(&upstream).await?,
        "groups": groups,
    });
    println!("{found}");
    Ok(())
}
