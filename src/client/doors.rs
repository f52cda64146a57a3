//! Doors to readers of bytes from outside that no public function leads to alone.
//!
//! For the fuzz targets in `proto-tests/src/targets`; nothing else may come to depend on them.

use super::keystore::{self, Purpose};
use super::{grant, jaas, pkcs8};
use crate::model::Secret;

/// A login module: its class, and its options by name.
pub type Module = (String, Vec<(String, String)>);

/// The login modules of `sasl.jaas.config`.
///
/// # Errors
///
/// What Java would refuse.
pub fn jaas(text: &str) -> Result<Vec<Module>, String> {
    let option = |(name, value): (String, Secret)| (name, value.reveal().to_owned());
    let module = |module: jaas::LoginModule| {
        (module.class, module.options.into_iter().map(option).collect())
    };
    Ok(jaas::parse(text)?.into_iter().map(module).collect())
}

/// The token in the answer of a token server that came at `now_ms`, and how long it lasts in
/// milliseconds.
///
/// # Errors
///
/// Why it holds none of use.
pub fn token_answer(body: &[u8], now_ms: i64) -> Result<(Secret, u128), String> {
    let given = grant::read(body, now_ms)?;
    Ok((given.token, given.lasts.as_millis()))
}

/// What a refusal of a token server says.
#[must_use]
pub fn token_refusal(status: u16, body: &[u8]) -> String {
    grant::refusal(status, body)
}

/// Whether an encrypted private key can be had.
///
/// # Errors
///
/// Why not.
pub fn private_key(der: &[u8], password: &str) -> Result<(), String> {
    pkcs8::decrypt(der, password).map(drop)
}

/// How many certificates a store has, and whether a key. `trust`: as a trust store.
///
/// # Errors
///
/// Why it cannot be used.
pub fn key_store(bytes: &[u8], password: &str, trust: bool) -> Result<(usize, bool), String> {
    let purpose = if trust { Purpose::Trust } else { Purpose::Key };
    let contents = keystore::open(bytes, Some(Secret::new(password)), purpose)?;
    Ok((contents.certificates.len(), contents.key.is_some()))
}
