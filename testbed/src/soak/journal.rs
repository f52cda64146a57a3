//! Where the judge's values come from: journals of producers, the target's records, and the mirror's log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::judge::{Id, Reported, Written, incarnation};
use crate::events::Event;

const GONE: &str = "source records are gone before they were copied";
const ANEW: &str = "source topic was made anew under its name; copying the new one from its start";
const STARTED: &str = "heliograph started";

/// By partition of one topic.
pub(super) type ByPartition<T> = BTreeMap<u32, T>;

/// Adds one producer's journal to what is known.
pub(super) fn read_journal(path: &Path, written: &mut ByPartition<Written>) -> Result<()> {
    for line in lines(path)? {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let (kind, partition) = match words[..] {
            [kind, partition, ..] => (kind, partition.parse()?),
            _ => bail!("no line of a journal: {line:?}"),
        };
        let of = written.entry(partition).or_default();
        match (kind, &words[2..]) {
            ("a", [offset, id]) => {
                let id: Id = id.parse()?;
                let place = (incarnation(id), offset.parse()?);
                if let Some(other) = of.acknowledged.insert(place, id) {
                    bail!("offset {offset} was acknowledged to {other} and to {id}");
                }
            }
            ("m", [id]) => drop(of.maybe.insert(id.parse()?)),
            ("x", [id]) => drop(of.aborted.insert(id.parse()?)),
            _ => bail!("no line of a journal: {line:?}"),
        }
    }
    Ok(())
}

/// Ids on the target, in order. What is none of ours has an id that nobody wrote.
pub(super) fn read_target(path: &Path) -> Result<ByPartition<Vec<Id>>> {
    let mut all: ByPartition<Vec<Id>> = BTreeMap::new();
    for line in lines(path)? {
        let line = line?;
        let mut words = line.split(' ');
        let (partition, id) = (words.next(), words.nth(1));
        let id: i64 = id.with_context(|| format!("no id: {line:?}"))?.parse()?;
        let partition = partition.with_context(|| format!("no partition: {line:?}"))?.parse()?;
        all.entry(partition).or_default().push(Id::try_from(id).unwrap_or(Id::MAX));
    }
    Ok(all)
}

fn lines(path: &Path) -> Result<std::io::Lines<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::new(file).lines())
}

/// What the log reported about one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) gaps: Vec<Reported>,
    /// How often the topic was seen to be another one.
    pub(super) incarnations: u64,
    /// Of these gaps, those of the last process.
    pub(super) since_start: Vec<Reported>,
}

/// Gaps by source partition (`topic-0`), in the log's order: a topic made anew ends an incarnation, and what of it was
/// not copied is a gap without an end.
pub(super) fn told(events: &[Event]) -> Result<BTreeMap<String, Told>> {
    let mut all: BTreeMap<String, Told> = BTreeMap::new();
    for event in events {
        match event.message() {
            STARTED => all.values_mut().for_each(|told| told.since_start.clear()),
            GONE => {
                let told = all.entry(partition(event)?).or_default();
                let (first, end) = range(event)?;
                let gap = Reported { incarnation: told.incarnations + 1, first, end };
                told.gaps.push(gap);
                told.since_start.push(gap);
            }
            ANEW => {
                let told = all.entry(partition(event)?).or_default();
                let first = event.number("copied").context("a topic made anew from nowhere")?;
                let incarnation = told.incarnations + 1;
                told.gaps.push(Reported { incarnation, first, end: i64::MAX });
                told.incarnations += 1;
            }
            _ => {}
        }
    }
    Ok(all)
}

fn partition(event: &Event) -> Result<String> {
    event.text("partition").with_context(|| format!("no partition: {event:?}"))
}

fn range(event: &Event) -> Result<(i64, i64)> {
    if let (Some(first), Some(end)) = (event.number("first"), event.number("end")) {
        return Ok((first, end));
    }
    // As `first..end`.
    let text = event.text("missing").with_context(|| format!("no range: {event:?}"))?;
    let (first, end) = text.split_once("..").with_context(|| format!("no range: {text:?}"))?;
    Ok((first.parse()?, end.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::parse;

    #[test]
    fn gaps_belong_to_the_incarnation_in_which_they_were_told() {
        let gone = |first: i64| {
            format!(
                r#"{{"message":"{GONE}","partition":"t-0","first":{first},"end":{}}}"#,
                first + 5
            )
        };
        let log = [
            format!(r#"{{"message":"{STARTED}"}}"#),
            gone(10),
            format!(r#"{{"message":"{ANEW}","partition":"t-0","copied":"20"}}"#),
            format!(r#"{{"message":"{STARTED}"}}"#),
            format!(r#"{{"message":"{GONE}","partition":"t-0","missing":"30..35"}}"#),
        ];
        let told = told(&parse(&log.join("\n"))).unwrap().remove("t-0").unwrap();
        let gap = |incarnation, first, end| Reported { incarnation, first, end };
        assert_eq!(told.gaps, [gap(1, 10, 15), gap(1, 20, i64::MAX), gap(2, 30, 35)]);
        assert_eq!(told.since_start, [gap(2, 30, 35)]);
    }

    #[test]
    fn journals_and_views_are_read() {
        let dir = std::env::temp_dir().join(format!("soak-journal-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (journal, view) = (dir.join("journal"), dir.join("view"));
        let id = 1_u64 << 56 | 7;
        std::fs::write(&journal, format!("a 0 5 {id}\nm 1 8\nx 0 9\n")).unwrap();
        std::fs::write(&view, format!("0 0 {id}\n0 1 -1\n")).unwrap();

        let mut written = ByPartition::new();
        read_journal(&journal, &mut written).unwrap();
        assert_eq!(written[&0].acknowledged[&(1, 5)], id);
        assert!(written[&1].maybe.contains(&8) && written[&0].aborted.contains(&9));
        assert_eq!(read_target(&view).unwrap()[&0], [id, Id::MAX]);
        // Two records cannot have one offset.
        assert!(read_journal(&journal, &mut written).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
