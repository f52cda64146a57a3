#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto_tests::targets::copier_ops(data));
