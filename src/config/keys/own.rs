//! Keys of our own. Process-wide ones begin with `heliograph.`; those of a flow follow MM2's
//! prefixes.

use super::Key;
use super::Status::Same;
use super::{keys, later};

pub(super) const KEYS: &[&[Key]] = &[
    keys! { Process, "Heliograph";
        "heliograph.memory.bytes": Long = "16777216", Same,
            "Bytes of fetched records that may be in memory at a time.";
        "heliograph.verify.crc": String = "never", Same,
            "Whether checksums of raw batches are verified here too: never or always.";
        "heliograph.http.listen": String = "", later("the status page"),
            "Address on which metrics and status are served; off unless set.";
    },
    keys! { Flow, "Heliograph";
        "gap.policy": String = "record", Same,
            "What to do when the source lost records before they were copied: record or halt.";
        "recreate.policy": String = "restart", Same,
            "What to do when a source topic was deleted and created again: restart or halt.";
        "existing.records.policy": String = "halt", Same,
            "What to do when a target partition holds records that no progress explains: halt or append.";
        "oversize.policy": String = "halt", later("another answer than halting"),
            "What to do when a record is larger than the target takes: halt.";
    },
];
