//! Private keys that a password protects (PKCS8, RFC 5958).
//!
//! Two families are read: PBES2, which openssl 3 writes, and the PKCS12 scheme with triple DES,
//! which is the one that Java 17 reads from PEM.

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use des::TdesEde3;
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::asn1::ObjectIdentifier;
use pkcs8::der::{AnyRef, Decode, Encode, Reader, SliceReader};
use pkcs8::pkcs5::pbes2::Kdf;
use pkcs12::kdf::{Pkcs12KeyType, derive_key_utf8};
use sha1::Sha1;

/// pbeWithSHAAnd3-KeyTripleDES-CBC (RFC 7292).
const PBE_3DES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.3");

/// More rounds than any tool writes; a file that asks for more would hold up a start.
const ROUNDS_MAX: i32 = 10_000_000;

/// More memory than any tool makes scrypt take; openssl's own parameters are 16 MiB.
const SCRYPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Times that scrypt may go through its memory.
const SCRYPT_PASSES_MAX: u16 = 16;

const WRONG: &str = "its private key cannot be decrypted; look at `ssl.key.password`";

/// The key in plain PKCS8.
///
/// # Errors
///
/// A wrong password or an unknown scheme, in words.
pub(super) fn decrypt(der: &[u8], password: &str) -> Result<Vec<u8>, String> {
    if let Ok(info) = EncryptedPrivateKeyInfoRef::try_from(der) {
        if let Some(scheme) = info.encryption_algorithm.pbes2() {
            check(&scheme.kdf)?;
        }
        let plain = info.decrypt(password).map_err(|_| WRONG.to_owned())?;
        return Ok(plain.as_bytes().to_vec());
    }
    pkcs12(der, password)
}

/// Refuses a key whose file asks for more time or memory than any tool does.
fn check(kdf: &Kdf) -> Result<(), String> {
    match kdf {
        Kdf::Pbkdf2(asks) if i64::from(asks.iteration_count) > i64::from(ROUNDS_MAX) => {
            Err(format!("its private key asks for {} rounds", asks.iteration_count))
        }
        Kdf::Scrypt(asks) => {
            let cost = asks.cost_parameter;
            let bytes = cost.saturating_mul(128 * u64::from(asks.block_size));
            // The crate behind this takes the logarithm of the cost, whatever it is.
            let fits = cost.is_power_of_two()
                && bytes <= SCRYPT_BYTES_MAX
                && asks.parallelization <= SCRYPT_PASSES_MAX;
            if fits {
                Ok(())
            } else {
                Err(format!("its private key asks scrypt for {bytes} bytes"))
            }
        }
        _ => Ok(()),
    }
}

fn pkcs12(der: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let (scheme, salt, rounds, sealed) =
        parts(der).map_err(|_| "its encrypted private key is no PKCS8".to_owned())?;
    if scheme != PBE_3DES {
        return Err(format!(
            "its private key is encrypted in a way that is not known here ({scheme}); rewrite it \
             with `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
        ));
    }
    if !(1..=ROUNDS_MAX).contains(&rounds) {
        return Err(format!("its private key asks for {rounds} rounds"));
    }
    let derive = |what, bytes| {
        derive_key_utf8::<Sha1>(password, &salt, what, rounds, bytes).map_err(|_| WRONG.to_owned())
    };
    let key = derive(Pkcs12KeyType::EncryptionKey, 24)?;
    let iv = derive(Pkcs12KeyType::Iv, 8)?;
    let cipher = cbc::Decryptor::<TdesEde3>::new_from_slices(&key, &iv).map_err(|_| WRONG)?;
    cipher.decrypt_padded_vec::<Pkcs7>(&sealed).map_err(|_| WRONG.to_owned())
}

type Parts = (ObjectIdentifier, Vec<u8>, i32, Vec<u8>);

/// EncryptedPrivateKeyInfo { { scheme, { salt, rounds } }, sealed }.
fn parts(der: &[u8]) -> Result<Parts, pkcs8::der::Error> {
    use pkcs8::der::asn1::OctetStringRef;
    let outer = AnyRef::from_der(der)?;
    outer.sequence(|reader| {
        let algorithm = AnyRef::decode(reader)?;
        let sealed = <&OctetStringRef>::decode(reader)?.as_bytes().to_vec();
        let (scheme, salt, rounds) = algorithm.sequence(|reader| {
            let scheme = ObjectIdentifier::decode(reader)?;
            let parameters = AnyRef::decode(reader)?.to_der()?;
            let mut inner = SliceReader::new(&parameters)?;
            let (salt, rounds) = AnyRef::decode(&mut inner)?.sequence(|reader| {
                let salt = <&OctetStringRef>::decode(reader)?.as_bytes().to_vec();
                Ok::<_, pkcs8::der::Error>((salt, i32::decode(reader)?))
            })?;
            inner.finish()?;
            Ok::<_, pkcs8::der::Error>((scheme, salt, rounds))
        })?;
        Ok((scheme, salt, rounds, sealed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let inside = parts.concat();
        let mut out = vec![tag, u8::try_from(inside.len()).unwrap()];
        out.extend(inside);
        out
    }

    /// A key under PBES2 with this key derivation.
    fn sealed(scheme: &[u8], parameters: &[&[u8]]) -> Vec<u8> {
        let derivation = der(0x30, &[&der(6, &[scheme]), &der(0x30, parameters)]);
        let aes = der(6, &[&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42]]);
        let cipher = der(0x30, &[&aes, &der(4, &[&[7; 16]])]);
        let pbes2 = der(6, &[&[42, 0x86, 0x48, 0x86, 0xf7, 13, 1, 5, 13]]);
        let algorithm = der(0x30, &[&pbes2, &der(0x30, &[&derivation, &cipher])]);
        der(0x30, &[&algorithm, &der(4, &[&[9; 32]])])
    }

    fn scrypt(cost: &[u8], block: u8, passes: u8) -> String {
        let scheme = [0x2b, 6, 1, 4, 1, 0xda, 0x47, 4, 11];
        let salt = der(4, &[&[1; 8]]);
        let numbers = [der(2, &[cost]), der(2, &[&[block]]), der(2, &[&[passes]])];
        let sealed = sealed(&scheme, &[&salt, &numbers[0], &numbers[1], &numbers[2]]);
        decrypt(&sealed, "secret").unwrap_err()
    }

    #[test]
    fn a_key_that_asks_for_more_than_any_tool_is_refused_before_the_work() {
        // openssl's 16384, 8, 1 is worked on, and the password is wrong.
        assert_eq!(scrypt(&[0x40, 0], 8, 1), WRONG);
        for cost in [&[0_u8][..], &[0x40, 1], &[0x40, 0, 0, 0], &[0x40, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(scrypt(cost, 8, 1).contains("asks scrypt"), "{cost:?}");
        }
        assert!(scrypt(&[0x40, 0], 8, 100).contains("asks scrypt"));

        let scheme = [42, 0x86, 0x48, 0x86, 0xf7, 13, 1, 5, 12];
        let rounds = |rounds: &[u8]| {
            let parameters = [der(4, &[&[1; 8]]), der(2, &[rounds])];
            decrypt(&sealed(&scheme, &[&parameters[0], &parameters[1]]), "secret").unwrap_err()
        };
        assert_eq!(rounds(&[8, 0]), WRONG);
        assert_eq!(rounds(&[2, 0, 0, 0]), "its private key asks for 33554432 rounds");
    }
}
