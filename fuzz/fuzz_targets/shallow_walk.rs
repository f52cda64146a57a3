#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto_tests::targets::shallow_walk(data));
