//! The shapes of answers, and a walk that proves bytes to have one.
//!
//! `kafka-protocol` reserves room for as many elements as a count says, so eight bytes can ask
//! for gigabytes. Before an answer is given to it, the walk goes through every field of its
//! version, checks each count and length against the bytes left, and demands that the last
//! field ends with the last byte. Shapes follow the message definitions of Apache Kafka
//! (`clients/src/main/resources/common/message/*Response.json`).

use super::{Api, Malformed, Reader};

/// What stands in one place of a message.
#[derive(Debug)]
pub(super) enum Shape {
    I8,
    I16,
    I32,
    I64,
    Uuid,
    Text,
    Bytes,
    Array(&'static [Field]),
    /// A tagged field that the codec knows by this tag: it reads two bytes whatever size stands
    /// before them, and would take all that follows for something else.
    TaggedI16(u32),
}

/// One field: the versions that have it, and its shape.
#[derive(Debug)]
pub(super) struct Field {
    since: i16,
    until: i16,
    shape: Shape,
}

const fn always(shape: Shape) -> Field {
    Field { since: 0, until: i16::MAX, shape }
}

const fn since(since: i16, shape: Shape) -> Field {
    Field { since, until: i16::MAX, shape }
}

const fn between(since: i16, until: i16, shape: Shape) -> Field {
    Field { since, until, shape }
}

/// An array of plain numbers.
const INTS: &[Field] = &[always(I32)];

use Shape::{Array, Bytes, I8, I16, I32, I64, TaggedI16, Text, Uuid};

const METADATA: &[Field] = &[
    since(3, I32),
    always(Array(&[always(I32), always(Text), always(I32), since(1, Text)])),
    since(2, Text),
    since(1, I32),
    always(Array(&[
        always(I16),
        always(Text),
        since(10, Uuid),
        since(1, I8),
        always(Array(&[
            always(I16),
            always(I32),
            always(I32),
            since(7, I32),
            always(Array(INTS)),
            always(Array(INTS)),
            since(5, Array(INTS)),
        ])),
        since(8, I32),
    ])),
    between(8, 10, I32),
    since(13, I16),
];

const LIST_OFFSETS: &[Field] = &[
    since(2, I32),
    always(Array(&[
        always(Text),
        always(Array(&[always(I32), always(I16), since(1, I64), since(1, I64), since(4, I32)])),
    ])),
];

const CREATE_TOPICS: &[Field] = &[
    since(2, I32),
    always(Array(&[
        always(Text),
        since(7, Uuid),
        always(I16),
        since(1, Text),
        since(5, I32),
        since(5, I16),
        since(5, Array(&[always(Text), always(Text), always(I8), always(I8), always(I8)])),
        since(5, TaggedI16(0)),
    ])),
];

const INIT_PRODUCER_ID: &[Field] = &[always(I32), always(I16), always(I64), always(I16)];

const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[
    since(2, I32),
    always(Array(&[
        always(Text),
        always(Array(&[always(I16), always(I32), since(1, I32), always(I64)])),
    ])),
];

const DESCRIBE_CONFIGS: &[Field] = &[
    always(I32),
    always(Array(&[
        always(I16),
        always(Text),
        always(I8),
        always(Text),
        always(Array(&[
            always(Text),
            always(Text),
            always(I8),
            between(0, 0, I8),
            since(1, I8),
            always(I8),
            since(1, Array(&[always(Text), always(Text), always(I8)])),
            since(3, I8),
            since(3, Text),
        ])),
    ])),
];

const CREATE_PARTITIONS: &[Field] =
    &[always(I32), always(Array(&[always(Text), always(I16), always(Text)]))];

const INCREMENTAL_ALTER_CONFIGS: &[Field] =
    &[always(I32), always(Array(&[always(I16), always(Text), always(I8), always(Text)]))];

const DESCRIBE_ACLS: &[Field] = &[
    always(I32),
    always(I16),
    always(Text),
    always(Array(&[
        always(I8),
        always(Text),
        since(1, I8),
        always(Array(&[always(Text), always(Text), always(I8), always(I8)])),
    ])),
];

const CREATE_ACLS: &[Field] = &[always(I32), always(Array(&[always(I16), always(Text)]))];

const DELETE_ACLS: &[Field] = &[
    always(I32),
    always(Array(&[
        always(I16),
        always(Text),
        always(Array(&[
            always(I16),
            always(Text),
            always(I8),
            always(Text),
            since(1, I8),
            always(Text),
            always(Text),
            always(I8),
            always(I8),
        ])),
    ])),
];

const DESCRIBE_PRODUCERS: &[Field] = &[
    always(I32),
    always(Array(&[
        always(Text),
        always(Array(&[
            always(I32),
            always(I16),
            always(Text),
            always(Array(&[
                always(I64),
                always(I32),
                always(I32),
                always(I64),
                always(I32),
                always(I64),
            ])),
        ])),
    ])),
];

const OFFSET_COMMIT: &[Field] =
    &[since(3, I32), always(Array(&[always(Text), always(Array(&[always(I32), always(I16)]))]))];

const COMMITTED: &[Field] = &[always(I32), always(I64), since(5, I32), always(Text), always(I16)];

const OFFSET_FETCH: &[Field] = &[
    since(3, I32),
    between(0, 7, Array(&[always(Text), always(Array(COMMITTED))])),
    between(2, 7, I16),
    since(
        8,
        Array(&[
            always(Text),
            always(Array(&[always(Text), always(Array(COMMITTED))])),
            always(I16),
        ]),
    ),
];

const FIND_COORDINATOR: &[Field] = &[
    since(1, I32),
    between(0, 3, I16),
    between(1, 3, Text),
    between(0, 3, I32),
    between(0, 3, Text),
    between(0, 3, I32),
    since(
        4,
        Array(&[always(Text), always(I32), always(Text), always(I32), always(I16), always(Text)]),
    ),
];

const DESCRIBE_GROUPS: &[Field] = &[
    since(1, I32),
    always(Array(&[
        always(I16),
        since(6, Text),
        always(Text),
        always(Text),
        always(Text),
        always(Text),
        always(Array(&[
            always(Text),
            since(4, Text),
            always(Text),
            always(Text),
            always(Bytes),
            always(Bytes),
        ])),
        since(3, I32),
    ])),
];

const LIST_GROUPS: &[Field] = &[
    since(1, I32),
    always(I16),
    always(Array(&[always(Text), always(Text), since(4, Text), since(5, Text)])),
];

/// The shape of an answer's body. `None` for answers with a decoder of their own.
fn of(api: Api) -> Option<&'static [Field]> {
    match api {
        Api::Metadata => Some(METADATA),
        Api::ListOffsets => Some(LIST_OFFSETS),
        Api::OffsetCommit => Some(OFFSET_COMMIT),
        Api::OffsetFetch => Some(OFFSET_FETCH),
        Api::FindCoordinator => Some(FIND_COORDINATOR),
        Api::DescribeGroups => Some(DESCRIBE_GROUPS),
        Api::ListGroups => Some(LIST_GROUPS),
        Api::CreateTopics => Some(CREATE_TOPICS),
        Api::InitProducerId => Some(INIT_PRODUCER_ID),
        Api::OffsetForLeaderEpoch => Some(OFFSET_FOR_LEADER_EPOCH),
        Api::DescribeConfigs => Some(DESCRIBE_CONFIGS),
        Api::CreatePartitions => Some(CREATE_PARTITIONS),
        Api::IncrementalAlterConfigs => Some(INCREMENTAL_ALTER_CONFIGS),
        Api::DescribeAcls => Some(DESCRIBE_ACLS),
        Api::CreateAcls => Some(CREATE_ACLS),
        Api::DeleteAcls => Some(DELETE_ACLS),
        Api::DescribeProducers => Some(DESCRIBE_PRODUCERS),
        Api::Produce
        | Api::Fetch
        | Api::ApiVersions
        | Api::SaslHandshake
        | Api::SaslAuthenticate => None,
    }
}

fn in_version(fields: &'static [Field], version: i16) -> impl Iterator<Item = &'static Field> {
    fields.iter().filter(move |field| (field.since..=field.until).contains(&version))
}

/// Fewest bytes that one element of an array can have.
fn smallest(fields: &'static [Field], version: i16, flexible: bool) -> usize {
    let sum: usize = in_version(fields, version)
        .map(|field| match field.shape {
            TaggedI16(_) => 0,
            I8 => 1,
            I16 => 2,
            I32 => 4,
            I64 => 8,
            Uuid => 16,
            Text => {
                if flexible {
                    1
                } else {
                    2
                }
            }
            Bytes | Array(_) => {
                if flexible {
                    1
                } else {
                    4
                }
            }
        })
        .sum();
    sum + usize::from(flexible)
}

fn walk(
    reader: &mut Reader<'_>,
    fields: &'static [Field],
    version: i16,
    flexible: bool,
) -> Result<(), Malformed> {
    for field in in_version(fields, version) {
        match &field.shape {
            TaggedI16(_) => {}
            I8 => drop(reader.i8()?),
            I16 => drop(reader.i16()?),
            I32 => drop(reader.i32()?),
            I64 => drop(reader.i64()?),
            Uuid => drop(reader.topic_id()?),
            Text => drop(reader.nullable_string()?),
            Bytes => {
                reader.nullable_bytes()?;
            }
            // Plain numbers carry no tagged fields of their own.
            Array([number]) => {
                let count = reader.count(4)?;
                debug_assert!(matches!(number.shape, I32));
                reader.take(4 * count, "array of int32")?;
            }
            Array(element) => {
                for _ in 0..reader.count(smallest(element, version, flexible))? {
                    walk(reader, element, version, flexible)?;
                }
            }
        }
    }
    reader.tagged(|tag, inside| {
        let known = |field: &Field| matches!(field.shape, TaggedI16(known) if known == tag);
        if in_version(fields, version).any(known) {
            inside.i16()?;
            inside.finish()?;
        }
        Ok(())
    })
}

/// Proves that `body` has the shape of `api`'s answer in `version`, to its last byte.
///
/// # Errors
///
/// [`Malformed`] at the first byte that does not fit.
///
/// # Panics
///
/// For answers that have a decoder of their own.
pub(super) fn prove(api: Api, version: i16, body: &[u8]) -> Result<(), Malformed> {
    let flexible = api.is_flexible(version);
    let mut reader = Reader::new(body, flexible);
    walk(&mut reader, of(api).expect("the answer has a shape"), version, flexible)?;
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CreateTopics answer of version 7 whose one topic has a tagged field.
    fn topic_with(tagged: &[u8]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0, 2, 2, b't'];
        body.extend([0; 16]);
        body.extend([0, 0, 0, 0, 0, 0, 1, 0, 1, 1]);
        body.extend(tagged);
        body.push(0);
        body
    }

    #[test]
    fn a_tagged_field_that_the_codec_knows_has_the_size_that_it_reads() {
        let proves = |tagged: &[u8]| prove(Api::CreateTopics, 7, &topic_with(tagged)).is_ok();

        assert!(proves(&[0]));
        assert!(proves(&[1, 0, 2, 0, 29]));
        assert!(!proves(&[1, 0, 3, 0, 29, 7]));
        assert!(!proves(&[1, 0, 1, 0]));
        // Of one that it does not know, it skips as many bytes as there are.
        assert!(proves(&[1, 9, 3, 0, 29, 7]));
    }
}
