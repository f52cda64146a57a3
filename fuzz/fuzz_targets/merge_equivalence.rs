#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliograph_fuzz::run("merge_equivalence", data));
