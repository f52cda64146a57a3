//! Which versions of which APIs a release offers.

/// A Kafka release, as far as a client can tell: the versions it advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 2.4: no topic ids, no flexible Produce, Fetch 11.
    V2_4,
    /// 2.8: topic ids in metadata, Fetch 12.
    V2_8,
    /// 3.9: Fetch 17 names topics by id.
    V3_9,
    /// 4.3.1.
    V4_3,
}

/// API number, and lowest and highest version in 2.4, 2.8, 3.9 and 4.3.1.
type Row = (i16, [(i16, i16); 4]);

/// Generated from the request schemas at each release (`raw-batches.md` 9.1), the last column
/// recorded from a real broker. The codec of requests and answers knows Metadata up to 13.
const TABLE: &[Row] = &[
    (0, [(0, 8), (0, 9), (0, 11), (0, 13)]),
    (1, [(0, 11), (0, 12), (0, 17), (4, 18)]),
    (2, [(0, 5), (0, 6), (0, 9), (1, 11)]),
    (3, [(0, 9), (0, 11), (0, 12), (0, 13)]),
    (18, [(0, 3), (0, 3), (0, 4), (0, 4)]),
    (19, [(0, 5), (0, 7), (0, 7), (2, 7)]),
    (22, [(0, 2), (0, 4), (0, 5), (0, 5)]),
    (23, [(0, 3), (0, 4), (0, 4), (2, 4)]),
    (32, [(0, 2), (0, 4), (0, 4), (1, 4)]),
    (37, [(0, 1), (0, 3), (0, 3), (0, 3)]),
];

impl Release {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::V2_4, Self::V2_8, Self::V3_9, Self::V4_3];

    /// API number, lowest and highest version.
    pub fn versions(self) -> impl Iterator<Item = (i16, i16, i16)> {
        TABLE.iter().map(move |(api, columns)| {
            let (min, max) = columns[self as usize];
            (*api, min, max)
        })
    }

    /// Whether it offers this version.
    #[must_use]
    pub fn offers(self, api: i16, version: i16) -> bool {
        self.versions().any(|(a, min, max)| a == api && (min..=max).contains(&version))
    }

    /// Whether Fetch names topics by id (version 13 on).
    #[must_use]
    pub fn fetches_by_id(self) -> bool {
        self.offers(1, 13)
    }

    /// Whether its topics have ids.
    #[must_use]
    pub fn has_topic_ids(self) -> bool {
        self != Self::V2_4
    }
}
