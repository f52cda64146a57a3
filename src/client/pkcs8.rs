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
use pkcs12::kdf::{Pkcs12KeyType, derive_key_utf8};
use sha1::Sha1;

/// pbeWithSHAAnd3-KeyTripleDES-CBC (RFC 7292).
const PBE_3DES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.3");

/// More rounds than any tool writes; a file that asks for more would hold up a start.
const ROUNDS_MAX: i32 = 10_000_000;

const WRONG: &str = "its private key cannot be decrypted; look at `ssl.key.password`";

/// The key in plain PKCS8.
///
/// # Errors
///
/// A wrong password or an unknown scheme, in words.
pub(super) fn decrypt(der: &[u8], password: &str) -> Result<Vec<u8>, String> {
    if let Ok(info) = EncryptedPrivateKeyInfoRef::try_from(der) {
        let plain = info.decrypt(password).map_err(|_| WRONG.to_owned())?;
        return Ok(plain.as_bytes().to_vec());
    }
    pkcs12(der, password)
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
