//! `/metrics`: every metric, in one table, in the text format that Prometheus reads.
//!
//! Counters and gauges are made from what the flows say at the moment of asking, so the data
//! plane keeps no second set of books. Counts begin with the process.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::status::ProcessStatus;
use crate::client::SeenCertificate;
use crate::copy::Path;
use crate::flow::{Latencies, PartitionState, PartitionStatus, Waiting};
use crate::mirror::Missing;
use crate::model::{ClusterAlias, FlowId};
use crate::policy::Feature;

/// Labels of a flow.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FlowLabels {
    source: String,
    target: String,
}

/// Labels of a flow, and what is waited for.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WaitingLabels {
    source: String,
    target: String,
    on: String,
}

/// Labels of one partition, named as on the source.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PartitionLabels {
    source: String,
    target: String,
    topic: String,
    partition: i32,
}

/// Labels of a partition, and a reason.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    source: String,
    target: String,
    topic: String,
    partition: i32,
    reason: String,
}

/// Labels of a partition, how batches came to be, and why not raw.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PathLabels {
    source: String,
    target: String,
    topic: String,
    partition: i32,
    path: String,
    reason: String,
}

/// Labels of a flow's feature.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureLabels {
    source: String,
    target: String,
    feature: String,
}

/// Labels of a certificate.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabels {
    cluster: String,
    role: String,
    subject: String,
}

type Count<L> = Family<L, Counter<u64, AtomicU64>>;

/// Everything that is counted.
#[derive(Default)]
struct Metrics {
    records: Count<PartitionLabels>,
    bytes: Count<PartitionLabels>,
    batches: Count<PathLabels>,
    gap_records: Count<ReasonLabels>,
    lag: Family<PartitionLabels, Gauge>,
    halted: Family<FlowLabels, Gauge>,
    stalled: Family<FlowLabels, Gauge>,
    waiting: Family<WaitingLabels, Gauge>,
    oldest: Family<FlowLabels, Gauge<f64, AtomicU64>>,
    missing_rights: Family<FeatureLabels, Gauge>,
    certificate_expiry: Family<CertificateLabels, Gauge>,
    frame_memory: Gauge,
    frame_memory_limit: Gauge,
    uptime: Gauge,
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        let records = Unit::Other("records".into());
        registry.register("records", "Records that the target acknowledged", self.records.clone());
        registry.register(
            "bytes",
            "Bytes of batches that the target acknowledged",
            self.bytes.clone(),
        );
        registry.register(
            "batches",
            "Batches by what became of them: written to the target raw, merged or rebuilt, or dropped",
            self.batches.clone(),
        );
        registry.register(
            "gap_records",
            "Upstream offsets that are missing on the target though they had records",
            self.gap_records.clone(),
        );
        registry.register_with_unit(
            "lag",
            "Upstream offsets that the target has not acknowledged",
            records,
            self.lag.clone(),
        );
        registry.register("halted_partitions", "Partitions that stopped", self.halted.clone());
        registry.register(
            "stalled_partitions",
            "Partitions whose source has records of which none was acknowledged for 15 seconds",
            self.stalled.clone(),
        );
        registry.register(
            "missing_rights",
            "Rights that the principal lacks, by the feature that rests for want of them",
            self.missing_rights.clone(),
        );
        registry.register_with_unit(
            "certificate_expiry",
            "Time at which a certificate ends, since 1970: our own, those that we trust, and the brokers'",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        registry.register_with_unit(
            "oldest_uncopied",
            "How long the oldest record of all partitions that is not copied has been there",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register(
            "waiting_partitions",
            "Partitions that wait for something else than records",
            self.waiting.clone(),
        );
        registry.register_with_unit(
            "frame_memory",
            "Bytes of fetched frames in memory",
            Unit::Bytes,
            self.frame_memory.clone(),
        );
        registry.register_with_unit(
            "frame_memory_limit",
            "Bytes of fetched frames that may be in memory",
            Unit::Bytes,
            self.frame_memory_limit.clone(),
        );
        registry.register_with_unit(
            "uptime",
            "Time since the start",
            Unit::Seconds,
            self.uptime.clone(),
        );
    }

    /// A feature that nothing is missing for is shown too, so that an alert has a value to compare.
    fn take_rights<'m>(&self, flow: &FlowId, missing: impl Iterator<Item = &'m Missing>) {
        let gauge = |feature: Feature| {
            self.missing_rights.get_or_create_owned(&FeatureLabels {
                source: flow.source.as_str().to_owned(),
                target: flow.target.as_str().to_owned(),
                feature: feature.name().to_owned(),
            })
        };
        Feature::ALL.into_iter().for_each(|feature| drop(gauge(feature)));
        for feature in missing.flat_map(|one| one.features()) {
            gauge(*feature).inc();
        }
    }

    fn take(&self, flow: &FlowId, status: &PartitionStatus) {
        let (source, target) = (flow.source.as_str().to_owned(), flow.target.as_str().to_owned());
        let (topic, partition) = (status.source.topic.as_str().to_owned(), status.source.partition);
        let of = PartitionLabels {
            source: source.clone(),
            target: target.clone(),
            topic: topic.clone(),
            partition,
        };
        let counts = &status.counts;
        self.records.get_or_create(&of).inc_by(counts.records);
        self.bytes.get_or_create(&of).inc_by(counts.bytes);
        if let Some(lag) = status.lag {
            self.lag.get_or_create(&of).set(lag);
        }
        let batches = |path: &str, reason: &str, count: u64| {
            let labels = PathLabels {
                source: source.clone(),
                target: target.clone(),
                topic: topic.clone(),
                partition,
                path: path.to_owned(),
                reason: reason.to_owned(),
            };
            self.batches.get_or_create(&labels).inc_by(count);
        };
        batches("raw", "", counts.batches.get(&Path::Raw).copied().unwrap_or(0));
        for (path, count) in &counts.batches {
            match path {
                Path::Raw => {}
                Path::Merged => batches("merged", "small", *count),
                Path::Rebuilt(reason) => batches("rebuilt", reason.word(), *count),
            }
        }
        for (reason, count) in &counts.dropped {
            batches("dropped", reason.word(), *count);
        }
        for (reason, count) in counts.passed.iter().filter(|(reason, _)| reason.is_loss()) {
            let labels = ReasonLabels {
                source: source.clone(),
                target: target.clone(),
                topic: topic.clone(),
                partition,
                reason: reason.word().to_owned(),
            };
            self.gap_records.get_or_create(&labels).inc_by(*count);
        }
        if let Some(on) = status.waiting_for.as_ref().and_then(Waiting::kind) {
            let (source, target) = (source.clone(), target.clone());
            let of = WaitingLabels { source, target, on: on.to_owned() };
            self.waiting.get_or_create(&of).inc();
        }
        let of = FlowLabels { source, target };
        let halted = status.state == PartitionState::Halted;
        let oldest = self.oldest.get_or_create(&of);
        oldest.set(oldest.get().max(status.oldest.as_secs_f64()));
        self.halted.get_or_create(&of).inc_by(i64::from(halted));
        self.stalled.get_or_create(&of).inc_by(i64::from(status.stalled));
    }
}

/// What `/metrics` shows besides the process itself.
#[derive(Clone, Debug, Default)]
pub struct Sights {
    /// Each flow, its latencies and its partitions.
    pub flows: Vec<(FlowId, Latencies, Vec<PartitionStatus>)>,
    /// Rights that flows lack, and pairs that heartbeats are written for.
    pub missing: Vec<(FlowId, BTreeSet<Missing>)>,
    /// Certificates that were seen.
    pub certificates: Vec<(ClusterAlias, SeenCertificate)>,
}

/// The text that Prometheus reads.
///
/// # Errors
///
/// If a name or a label cannot be written, which the test of this module rules out.
pub fn render(process: ProcessStatus, sights: &Sights) -> Result<String, fmt::Error> {
    let metrics = Metrics::default();
    let mut registry = Registry::with_prefix("heliograph");
    metrics.register(&mut registry);
    let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    metrics.frame_memory.set(number(process.frame_bytes));
    metrics.frame_memory_limit.set(number(process.frame_bytes_limit));
    metrics.uptime.set(i64::try_from(process.uptime.as_secs()).unwrap_or(i64::MAX));
    for (flow, missing) in &sights.missing {
        metrics.take_rights(flow, missing.iter());
    }
    for (cluster, certificate) in &sights.certificates {
        let labels = CertificateLabels {
            cluster: cluster.as_str().to_owned(),
            role: certificate.role.word().to_owned(),
            subject: certificate.subject.clone(),
        };
        metrics.certificate_expiry.get_or_create(&labels).set(certificate.ends_s);
    }
    for (flow, latencies, partitions) in &sights.flows {
        let labels = FlowLabels {
            source: flow.source.as_str().to_owned(),
            target: flow.target.as_str().to_owned(),
        };
        // A flow without partitions has none halted either.
        drop(metrics.halted.get_or_create(&labels));
        drop(metrics.stalled.get_or_create(&labels));
        drop(metrics.oldest.get_or_create(&labels));
        for on in Waiting::KINDS {
            let (source, target) = (labels.source.clone(), labels.target.clone());
            let of = WaitingLabels { source, target, on: on.to_owned() };
            drop(metrics.waiting.get_or_create(&of));
        }
        for status in partitions {
            metrics.take(flow, status);
        }
        let of_flow = [("source", labels.source), ("target", labels.target)];
        let of_flow = of_flow.map(|(name, value)| (name.into(), value.into()));
        let registry = registry.sub_registry_with_labels(of_flow.into_iter());
        registry.register_with_unit(
            "produce_latency",
            "Time from sending a produce request to its answer",
            Unit::Seconds,
            latencies.produce.clone(),
        );
        registry.register_with_unit(
            "replication_latency",
            "Time from a batch's newest record to the target's acknowledgement",
            Unit::Seconds,
            latencies.replication.clone(),
        );
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batch::RebuildReason;
    use crate::client::CertificateRole;
    use crate::copy::Counts;
    use crate::mirror::Resource;
    use crate::model::{AclOperation, Gap, GapReason, Offset, OffsetRange, TopicPartition};
    use crate::policy::Thing;

    #[test]
    fn what_a_partition_did_is_told_by_path_and_reason() {
        let flow = FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") };
        let mut counts = Counts { records: 12, bytes: 3456, ..Counts::default() };
        counts.batches.insert(Path::Raw, 3);
        counts.batches.insert(Path::Rebuilt(RebuildReason::OffsetHoles), 2);
        counts.dropped.insert(GapReason::Control, 4);
        let range = OffsetRange::new(Offset(5), Offset(9));
        counts.pass(Gap { range, reason: GapReason::Lost });
        let status = PartitionStatus {
            source: TopicPartition::new("orders", 7),
            target: TopicPartition::new("a.orders", 7),
            state: PartitionState::Halted,
            waiting_for: Some(Waiting::Refused(crate::wire::ErrorCode(19))),
            halt: Some("why".into()),
            copied: Offset(20),
            source_end: Some(Offset(30)),
            downstream: Offset(12),
            lag: Some(10),
            stalled: false,
            oldest: Duration::from_millis(1500),
            counts,
            gaps: Vec::new(),
        };
        let process = ProcessStatus {
            uptime: Duration::from_secs(9),
            frame_bytes: 100,
            frame_bytes_limit: 1000,
        };
        let latencies = Latencies::default();
        latencies.produce.observe(0.002);
        let missing = Missing {
            cluster: ClusterAlias::new("b"),
            resource: Resource::Cluster,
            thing: Thing::TargetCluster,
            operation: AclOperation::ALTER,
            grant: String::new(),
        };
        let certificate = SeenCertificate {
            role: CertificateRole::Broker,
            subject: "CN=kafka-1".into(),
            ends_s: 1_800_000_000,
        };
        let sights = Sights {
            missing: vec![(flow.clone(), [missing].into())],
            flows: vec![(flow, latencies, vec![status])],
            certificates: vec![(ClusterAlias::new("b"), certificate)],
        };
        let text = render(process, &sights).unwrap();

        let of = "source=\"a\",target=\"b\",topic=\"orders\",partition=\"7\"";
        for line in [
            format!("heliograph_records_total{{{of}}} 12"),
            format!("heliograph_bytes_total{{{of}}} 3456"),
            format!("heliograph_batches_total{{{of},path=\"raw\",reason=\"\"}} 3"),
            format!("heliograph_batches_total{{{of},path=\"rebuilt\",reason=\"offset holes\"}} 2"),
            format!("heliograph_batches_total{{{of},path=\"dropped\",reason=\"control\"}} 4"),
            format!("heliograph_gap_records_total{{{of},reason=\"lost\"}} 4"),
            format!("heliograph_lag_records{{{of}}} 10"),
            "heliograph_halted_partitions{source=\"a\",target=\"b\"} 1".to_owned(),
            "heliograph_stalled_partitions{source=\"a\",target=\"b\"} 0".to_owned(),
            "heliograph_waiting_partitions{source=\"a\",target=\"b\",on=\"target refuses\"} 1"
                .to_owned(),
            "heliograph_waiting_partitions{source=\"a\",target=\"b\",on=\"rate limit\"} 0"
                .to_owned(),
            "heliograph_missing_rights{source=\"a\",target=\"b\",feature=\"ACL sync\"} 1"
                .to_owned(),
            "heliograph_missing_rights{source=\"a\",target=\"b\",feature=\"topics\"} 0".to_owned(),
            "heliograph_certificate_expiry_seconds{cluster=\"b\",role=\"broker\",\
             subject=\"CN=kafka-1\"} 1800000000"
                .to_owned(),
            "heliograph_frame_memory_bytes 100".to_owned(),
            "heliograph_oldest_uncopied_seconds{source=\"a\",target=\"b\"} 1.5".to_owned(),
            "heliograph_produce_latency_seconds_count{source=\"a\",target=\"b\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\nis not in\n{text}");
        }
    }
}
