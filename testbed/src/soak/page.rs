//! Does the mirror's page say what the judge counted?

use std::collections::BTreeMap;

use anyhow::Result;

use super::Bed;
use super::journal::Told;
use crate::admin::At;
use crate::events::{Metrics, Status};

/// Reasons of gaps that hide no record that a reader of the source could have seen.
const HARMLESS: [&str; 4] = ["control", "aborted", "emptied", "compacted"];

/// Everything that the page says and that is not so, in words. `before` are the target's ends at the last start of the
/// process, by topic.
pub(super) fn check(
    bed: &Bed,
    address: &str,
    told: &BTreeMap<String, Told>,
    before: &BTreeMap<String, Vec<i64>>,
) -> Result<Vec<String>> {
    let (status, metrics) = (Status::fetch(address)?, Metrics::fetch(address)?);
    let mut wrong = Vec::new();
    let mut expect = |what: String, said: i64, is: i64| {
        if said != is {
            wrong.push(format!("{what}: it says {said}, it is {is}"));
        }
    };
    let (mut all_records, mut all_gaps) = (0, 0);
    for (topic, _) in bed.topics() {
        let copy = format!("s.{topic}");
        let source = bed.source.offsets(topic, At::Latest)?;
        let target = bed.target.offsets(&copy, At::Latest)?;
        for (index, (end, next)) in source.iter().zip(&target).enumerate() {
            let name = format!("{topic}-{index}");
            let said = status.partition(topic, u32::try_from(index)?)?;
            if said.state != "copying" || said.halt.is_some() {
                expect(format!("{name} is {} ({:?})", said.state, said.halt), 1, 0);
            }
            expect(format!("{name} upstream.end"), said.upstream.end.unwrap_or(-1), *end);
            expect(format!("{name} upstream.copied"), said.upstream.copied, *end);
            expect(format!("{name} downstream.next"), said.downstream.next, *next);
            expect(format!("{name} lag"), said.lag.unwrap_or(-1), 0);
            let first = before.get(topic).and_then(|ends| ends.get(index)).copied().unwrap_or(0);
            expect(format!("{name} records"), signed(said.records), next - first);
            let gaps = told.get(&name).map(|told| told.since_start.as_slice()).unwrap_or_default();
            let lost: i64 = gaps.iter().map(|gap| gap.end - gap.first).sum();
            expect(format!("{name} gaps"), signed(said.gaps.count), signed_len(gaps.len()));
            expect(format!("{name} records in gaps"), signed(said.gaps.records), lost);
            all_records += next - first;
            all_gaps += lost;
        }
    }

    let sum = |name: &str, labels: &[(&str, &str)]| {
        // Far below 2^53.
        metrics
            .sum(name, labels)
            .map(|value| value.round().to_string().parse::<i64>().unwrap_or(-1))
    };
    // Of the topics that are judged: heartbeats are copied as well, and go on.
    for (name, is) in [("heliograph_records_total", all_records), ("heliograph_lag_records", 0)] {
        let said =
            bed.topics().into_iter().map(|(topic, _)| sum(name, &[("topic", topic)]).unwrap_or(-1));
        expect(name.to_owned(), said.sum(), is);
    }
    for name in ["heliograph_halted_partitions", "heliograph_stalled_partitions"] {
        expect(name.to_owned(), sum(name, &[]).unwrap_or(-1), 0);
    }
    let gaps = "heliograph_gap_records_total";
    let harmless: i64 = HARMLESS.iter().filter_map(|reason| sum(gaps, &[("reason", reason)])).sum();
    expect(gaps.to_owned(), sum(gaps, &[]).unwrap_or(0) - harmless, all_gaps);
    for name in [
        "heliograph_bytes_total",
        "heliograph_batches_total",
        "heliograph_produce_latency_seconds_count",
        "heliograph_replication_latency_seconds_count",
        "heliograph_frame_memory_limit_bytes",
    ] {
        if sum(name, &[]).is_none_or(|value| value <= 0) {
            wrong.push(format!("{name} counts nothing"));
        }
    }
    let memory = status.memory;
    if memory.frame_bytes > memory.frame_bytes_limit {
        wrong.push(format!("frames hold more than they may: {memory:?}"));
    }
    Ok(wrong)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn signed_len(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
