#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliograph_fuzz::run("codec_bomb", data));
