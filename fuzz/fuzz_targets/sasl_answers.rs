#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto_tests::targets::sasl_answers(data));
