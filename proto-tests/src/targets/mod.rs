//! The bodies of the fuzz targets. `fuzz/` calls them with made-up bytes, the test
//! `fuzz_corpora` with committed ones; each panics when a promise is broken.
//!
//! One promise is every target's: an input takes no more heap than its size explains
//! (`Heap`), so nothing that a peer sends asks for memory that it did not pay for in bytes.

mod batch;
mod codecs;
mod control;
mod text;
mod wire;

use std::hint::black_box;

use peak_alloc::PeakAlloc;

pub use wire::{MESSAGES, reads};

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What `cargo fuzz` calls it.
    pub name: &'static str,
    /// Panics when a promise is broken.
    body: fn(&[u8]),
    /// What fuzzing begins with: made from the recordings.
    pub seeds: fn() -> Vec<Vec<u8>>,
    heap: Heap,
}

/// Most heap that one input may take at any moment, what the body itself needs to judge included.
#[derive(Clone, Copy, Debug)]
struct Heap {
    /// Bytes for any input: tables that are made once, state of a codec.
    fixed: usize,
    /// Bytes for each byte of the input.
    per_byte: usize,
}

const KIB: usize = 1024;

/// What a codec reserves before it has seen a block: lz4 twice the block size that a frame claims,
/// 8 MiB at most.
const CODECS: usize = 20 * KIB * KIB;

/// What a key may make scrypt take, by its own words.
const SCRYPT: usize = 72 * KIB * KIB;

/// Bytes that one byte can unpack to (zstd says a block of 128 KiB in four), held four times over:
/// in both readers' hands and in what is built. `codec_bomb` is held to much less.
const UNPACKED: usize = 4 * 32 * KIB;

macro_rules! target {
    ($module:ident :: $name:ident, $seeds:ident, $fixed:expr, $per_byte:expr) => {
        Target {
            name: stringify!($name),
            body: $module::$name,
            seeds: $module::$seeds,
            heap: Heap { fixed: $fixed, per_byte: $per_byte },
        }
    };
}

/// Every target, in the order of their names.
pub const TARGETS: &[Target] = &[
    target!(codecs::codec_bomb, codec_bomb_seeds, 640 * KIB * KIB, 0),
    target!(control::connect_offset_json, connect_offset_json_seeds, 64 * KIB, 256),
    target!(batch::copier_ops, copier_ops_seeds, 2 * KIB * KIB, 4 * KIB),
    target!(batch::copier_peers, copier_peers_seeds, CODECS, UNPACKED),
    target!(wire::fetch_response, fetch_response_seeds, 4 * KIB, 32),
    target!(wire::frame_stream, frame_stream_seeds, 64 * KIB, 32),
    target!(wire::handshake, handshake_seeds, 64 * KIB, 32),
    target!(control::internal_notes, internal_notes_seeds, 64 * KIB, 256),
    target!(text::java_pattern, java_pattern_seeds, 64 * KIB * KIB, 0),
    target!(text::key_stores, key_stores_seeds, SCRYPT, 256),
    target!(codecs::legacy_conversion, legacy_conversion_seeds, CODECS, UNPACKED),
    target!(codecs::merge_equivalence, merge_equivalence_seeds, CODECS, UNPACKED),
    target!(wire::message_answers, message_answers_seeds, 64 * KIB, 256),
    target!(control::mm2_records, mm2_records_seeds, 64 * KIB, 256),
    target!(control::offset_map_ops, offset_map_ops_seeds, 2 * KIB * KIB, 32 * KIB),
    target!(wire::produce_response, produce_response_seeds, 4 * KIB, 32),
    target!(text::properties, properties_seeds, 64 * KIB, 256),
    target!(batch::rebuild_equivalence, rebuild_equivalence_seeds, CODECS, UNPACKED),
    target!(batch::restamp_differential, restamp_differential_seeds, 4 * KIB, 32),
    target!(wire::sasl_answers, sasl_answers_seeds, 64 * KIB, 32),
    target!(batch::shallow_walk, shallow_walk_seeds, CODECS, UNPACKED),
    target!(text::token_answers, token_answers_seeds, 64 * KIB, 256),
];

impl Target {
    /// Runs the body, and looks at what it took.
    ///
    /// # Panics
    ///
    /// When a promise is broken, the one on memory included; and if nothing counts the heap: a
    /// program that calls this has [`PeakAlloc`] as its global allocator.
    pub fn run(&self, data: &[u8]) {
        let heap = PeakAlloc;
        let held = black_box(vec![0_u8; 64]);
        let before = heap.current_usage();
        assert!(before >= held.len(), "PeakAlloc is not the allocator");
        heap.reset_peak_usage();
        (self.body)(data);
        let taken = heap.peak_usage().saturating_sub(before);
        let Heap { fixed, per_byte } = self.heap;
        let allowed = fixed + per_byte * data.len();
        assert!(
            taken <= allowed,
            "{}: {} bytes took {taken} bytes of heap; {allowed} are explained",
            self.name,
            data.len()
        );
    }
}

/// Runs the target of this name.
///
/// # Panics
///
/// As [`Target::run`], and without such a target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("no target {name}")).run(data);
}

/// Takes bytes from the front; zeros once there are none.
struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

fn with(head: &[u8], body: &[u8]) -> Vec<u8> {
    [head, body].concat()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[global_allocator]
    static HEAP: PeakAlloc = PeakAlloc;

    fn took(bytes: usize, per_byte: usize) -> bool {
        fn body(data: &[u8]) {
            drop(black_box(vec![1_u8; data.len() * 16 * KIB]));
        }
        let heap = Heap { fixed: 4 * KIB * KIB, per_byte };
        let target = Target { name: "greedy", body, seeds: Vec::new, heap };
        catch_unwind(|| target.run(&vec![0; bytes])).is_ok()
    }

    #[test]
    fn an_input_that_takes_more_than_its_size_explains_is_noticed() {
        assert!(took(1000, 16 * KIB));
        assert!(!took(1000, 8 * KIB));
    }
}
