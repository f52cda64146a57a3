//! CRC-32C, and changing it without reading the body.
//!
//! With initial and final complement taken away the checksum is linear over xor, so the
//! checksums of two messages of one length differ by the checksum of their difference. Two
//! batches that differ in their headers only differ by 40 bytes followed by zeros, and
//! `n` zero bytes multiply by x^(8n) modulo the polynomial: a handful of 32-bit
//! multiplications, whatever the body's length.

use super::header::{HEADER_BYTES, RawBatch, at};

/// The Castagnoli polynomial, bit-reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// x^0 in reflected order.
const ONE: u32 = 0x8000_0000;

/// Header bytes that the checksum covers.
const COVERED: usize = HEADER_BYTES - at::ATTRIBUTES;

/// x^(8 * 2^k) modulo the polynomial, for k from 0: 32 powers reach any body a frame can hold.
static POWERS: [u32; 32] = powers();

const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 31;
    loop {
        // Branch-free: about half the branches of the plain form are mispredicted.
        product ^= b & 0u32.wrapping_sub((a >> bit) & 1);
        b = (b >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(b & 1));
        if bit == 0 {
            return product;
        }
        bit -= 1;
    }
}

const fn powers() -> [u32; 32] {
    let mut table = [0x0080_0000; 32];
    let mut k = 1;
    while k < 32 {
        table[k] = multiply(table[k - 1], table[k - 1]);
        k += 1;
    }
    table
}

/// x^(8 * zeros) modulo the polynomial.
fn shift(mut zeros: usize) -> u32 {
    let mut power = ONE;
    let mut k = 0;
    while zeros != 0 {
        if zeros & 1 != 0 {
            power = multiply(power, POWERS[k]);
        }
        zeros >>= 1;
        k += 1;
    }
    power
}

/// The checksum without initial and final complement: the linear part.
fn raw(bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!0, bytes)
}

/// The checksum of a batch after its header changed from `old` to `new`.
///
/// `crc` is the checksum that goes with `old`, right or wrong: whatever was wrong with it is
/// wrong in the same bits afterwards, so damage stays detectable by whoever verifies next.
/// `body_bytes` is the length of the records behind the header, which must not have changed.
/// Bytes before the attributes are ignored, as the checksum does not cover them.
#[must_use]
pub fn amend(
    crc: u32,
    old: &[u8; HEADER_BYTES],
    new: &[u8; HEADER_BYTES],
    body_bytes: usize,
) -> u32 {
    let mut difference = [0; COVERED];
    for (i, byte) in difference.iter_mut().enumerate() {
        *byte = old[at::ATTRIBUTES + i] ^ new[at::ATTRIBUTES + i];
    }
    if difference == [0; COVERED] {
        return crc;
    }
    crc ^ multiply(raw(&difference), shift(body_bytes))
}

/// Whether the stored checksum of `batch` is that of its bytes. Reads the whole body.
#[must_use]
pub fn verify(batch: &RawBatch) -> bool {
    crc32c::crc32c(&batch.bytes()[at::ATTRIBUTES..]) == batch.header().crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(text: &str) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        }
        bytes
    }

    /// A batch worked through by hand and accepted by Kafka's own `DefaultRecordBatch`.
    #[test]
    fn the_worked_example_has_the_checksum_that_kafka_computes() {
        let old = header(
            "00000000000012670000005a0000000c020c08d02e0010000000020000018bcfe568000000018bcfe568\
             02000000000000232900040000007800000003",
        );
        let new = header(
            "00000000000012670000005a0000000c029c47282b0000000000020000018bcfe568000000018bcfe568\
             02000000000000004d00007ffffffe00000003",
        );

        assert_eq!(amend(0x0c08_d02e, &old, &new, 41), 0x9c47_282b);
    }

    proptest! {
        #[test]
        fn amending_equals_recomputing(
            old in prop::collection::vec(any::<u8>(), HEADER_BYTES),
            new in prop::collection::vec(any::<u8>(), HEADER_BYTES),
            body in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let full = |header: &[u8]| {
                crc32c::crc32c_append(crc32c::crc32c(&header[at::ATTRIBUTES..]), &body)
            };
            let (a, b) = (full(&old), full(&new));
            let (old, new) = (old.try_into().unwrap(), new.try_into().unwrap());

            prop_assert_eq!(amend(a, &old, &new, body.len()), b);
            // A checksum that was wrong before is wrong by the same bits after.
            prop_assert_eq!(amend(a ^ 0x40, &old, &new, body.len()), b ^ 0x40);
        }
    }
}
