#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto_tests::targets::message_answers(data));
