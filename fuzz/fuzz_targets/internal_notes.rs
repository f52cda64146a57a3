#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliograph_fuzz::run("internal_notes", data));
