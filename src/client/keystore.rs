//! Key stores and trust stores: PKCS12, JKS and PEM to certificates and a key.
//!
//! What a file is, its first bytes tell: Java's type "JKS" opens PKCS12 files too, and the other way
//! round (`keystore.type.compat`), so many files lie under the wrong type.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use p12_keystore::Pkcs12Archive;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::pem;
use super::security::{Provided, Security, Store, StoreFormat, TlsSettings, Trust};
use crate::model::Secret;

/// A store with thousands of certificates is a few megabytes.
const STORE_BYTES_MAX: u64 = 64 << 20;

/// What a store holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// In a key store the chain of the key, own certificate first; in a trust store all of it.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// The private key.
    pub(super) key: Option<PrivateKeyDer<'static>>,
}

/// Tells whether a file was written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp(Option<(SystemTime, u64)>);

/// Which keys of the file speak of a store, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `ssl.keystore.*`
    Key,
    /// `ssl.truststore.*`
    Trust,
}

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Self::Key => "ssl.keystore",
            Self::Trust => "ssl.truststore",
        }
    }
}

/// The stamp of a store's file; nothing for settings that need no file.
pub(super) fn stamp(store: &Store) -> Stamp {
    let Store::File { path, .. } = store else { return Stamp(None) };
    let read = || {
        let data = fs::metadata(path).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    Stamp(read())
}

impl Security {
    /// Store files that cannot be opened: the key that names each, and why.
    #[must_use]
    pub fn unreadable_files(&self) -> Vec<(&'static str, String)> {
        let trust = |tls: &'_ TlsSettings| match &tls.trust {
            Trust::System => None,
            Trust::Store(store) => Some(store.clone()),
        };
        let of_brokers = self.tls.iter().flat_map(|tls| {
            [
                ("ssl.truststore.location", trust(tls)),
                ("ssl.keystore.location", tls.identity.clone()),
            ]
        });
        let server = self.sasl.as_ref().and_then(|sasl| sasl.token_server.as_deref());
        let of_server = server.into_iter().flat_map(|server| {
            [trust(&server.tls), server.tls.identity.clone()]
                .map(|store| ("sasl.jaas.config", store))
        });
        let failed = |(key, store): (&'static str, Option<Store>)| {
            let Some(Store::File { path, .. }) = store else { return None };
            let error = fs::File::open(&path).err()?;
            Some((key, format!("{} cannot be read: {error}", path.display())))
        };
        of_brokers.chain(of_server).filter_map(failed).collect()
    }
}

/// Reads a store.
///
/// # Errors
///
/// What is wrong, with the key to look at.
pub(super) fn load(store: &Store, purpose: Purpose) -> Result<Contents, String> {
    let prefix = purpose.prefix();
    let get = |provided: &Option<Provided>, key: &str| match provided {
        Some(provided) => provided.get().map(Some).map_err(|error| format!("`{key}`: {error}")),
        None => Ok(None),
    };
    match store {
        Store::Inline { certificates, key, key_password } => {
            let key_password = get(key_password, "ssl.key.password")?;
            let name = match purpose {
                Purpose::Key => "ssl.keystore.certificate.chain",
                Purpose::Trust => "ssl.truststore.certificates",
            };
            let text = certificates.get().map_err(|error| format!("`{name}`: {error}"))?;
            let mut contents = pem::read(text.reveal(), None)
                .map_err(|error| format!("`{name}` cannot be used: {error}"))?;
            if let Some(text) = get(key, "ssl.keystore.key")? {
                let key = pem::read(text.reveal(), key_password.as_ref())
                    .map_err(|error| format!("`ssl.keystore.key` cannot be used: {error}"))?;
                contents.key = key.key;
            }
            Ok(contents)
        }
        Store::File { path, format, password, key_password } => {
            let password = get(password, &format!("{prefix}.password"))?;
            let key_password = get(key_password, "ssl.key.password")?;
            let bytes = bytes(path).map_err(|error| {
                format!("{} cannot be read: {error}. Look at `{prefix}.location`", path.display())
            })?;
            let contents = match format {
                StoreFormat::Pem => std::str::from_utf8(&bytes)
                    .map_err(|_| format!("it is not PEM; look at `{prefix}.type`"))
                    .and_then(|text| pem::read(text, key_password.as_ref())),
                StoreFormat::Java => java(&bytes, password, key_password, purpose),
            };
            contents.map_err(|error| format!("{} cannot be used: {error}", path.display()))
        }
    }
}

/// Opens the bytes of a store of any format, whose key has the store's password.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn open(
    bytes: &[u8],
    password: Option<Secret>,
    purpose: Purpose,
) -> Result<Contents, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => pem::read(text, password.as_ref()),
        Err(_) => java(bytes, password, None, purpose),
    }
}

fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let length = fs::metadata(path).map_err(|error| plain(&error))?.len();
    if length > STORE_BYTES_MAX {
        return Err(format!("{length} bytes are more than a store has"));
    }
    fs::read(path).map(Zeroizing::new).map_err(|error| plain(&error))
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission is denied".into(),
        _ => error.to_string(),
    }
}

fn java(
    bytes: &[u8],
    password: Option<Secret>,
    key_password: Option<Secret>,
    purpose: Purpose,
) -> Result<Contents, String> {
    let prefix = purpose.prefix();
    match bytes {
        [0xfe, 0xed, 0xfe, 0xed, ..] => {
            jks(bytes, password.as_ref(), key_password.as_ref(), purpose)
        }
        // A DER sequence.
        [0x30, ..] => pkcs12(bytes, &password.unwrap_or_default(), purpose),
        [0xce, 0xce, 0xce, 0xce, ..] => {
            Err("it is JCEKS; rewrite it with `keytool -importkeystore -deststoretype PKCS12`"
                .into())
        }
        _ if bytes.starts_with(b"-----BEGIN") => {
            Err(format!("it is PEM; write `{prefix}.type = PEM`"))
        }
        _ => Err("it is neither PKCS12 nor JKS".into()),
    }
}

fn pkcs12(bytes: &[u8], password: &Secret, purpose: Purpose) -> Result<Contents, String> {
    let prefix = purpose.prefix();
    let archive = Pkcs12Archive::from_pkcs12(bytes, password.reveal()).map_err(|error| {
        match error {
            p12_keystore::error::Error::MacError(_) => {
                format!("the password is wrong; look at `{prefix}.password`")
            }
            // The crate's words speak of bytes and schemes, never of the password.
            other => format!("its PKCS12 cannot be read: {other}; look at `{prefix}.password` too"),
        }
    })?;
    if purpose == Purpose::Trust {
        // Beside a key, as in Java: what is marked as trusted, and the key's own certificate.
        let alone = archive.keys.is_empty();
        let trusted = archive
            .certs
            .iter()
            .filter(|bag| alone || bag.trusted || bag.local_key_id.is_some())
            .map(|bag| der(&bag.cert));
        return Ok(Contents { certificates: trusted.collect(), key: None });
    }
    let Some(bag) = archive.keys.first() else { return Ok(Contents::default()) };
    // The certificate with the key's id, or the only one; then each one's issuer.
    let id = bag.local_key_id.as_ref().map(|id| id.0.as_slice());
    let own = archive.certs.iter().find(|bag| id.is_some() && bag.local_key_id.as_deref() == id);
    let mut chain = Vec::new();
    let mut next = own.or_else(|| archive.certs.first()).map(|bag| &bag.cert);
    while let Some(cert) = next
        && chain.len() < archive.certs.len()
    {
        chain.push(der(cert));
        let issuer = |bag: &&p12_keystore::CertificateBag| bag.cert.subject() == cert.issuer();
        let root = cert.subject() == cert.issuer();
        next = archive.certs.iter().find(issuer).map(|bag| &bag.cert).filter(|_| !root);
    }
    let key = PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec());
    Ok(Contents { certificates: chain, key: Some(key.into()) })
}

fn der(cert: &p12_keystore::Certificate) -> CertificateDer<'static> {
    CertificateDer::from(cert.as_der().to_vec())
}

/// JKS, as `sun.security.provider.JavaKeyStore` writes it; version 1 and 2.
fn jks(
    bytes: &[u8],
    password: Option<&Secret>,
    key_password: Option<&Secret>,
    purpose: Purpose,
) -> Result<Contents, String> {
    const DIGEST_BYTES: usize = 20;
    let prefix = purpose.prefix();
    let cut = || "it is cut off".to_owned();
    let (body, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or_else(cut)?;
    // Java reads a trust store without a password, and then does not check it.
    if let Some(password) = password {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&utf16(password));
        context.update(b"Mighty Aphrodite");
        context.update(body);
        if context.finish().as_ref() != digest {
            return Err(format!("the password is wrong; look at `{prefix}.password`"));
        }
    }
    let mut reader = Jks { rest: body };
    let (_magic, version, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
    if !(1..=2).contains(&version) {
        return Err(format!("version {version} of JKS is not known"));
    }
    let mut trusted = Vec::new();
    let mut own: Option<Contents> = None;
    for _ in 0..count {
        let tag = reader.u32()?;
        let _alias = reader.text()?;
        let _created = reader.take(8)?;
        match tag {
            1 => {
                let sealed = reader.sized()?;
                let mut certificates = Vec::new();
                for _ in 0..reader.u32()? {
                    certificates.push(reader.certificate(version)?);
                }
                if purpose == Purpose::Trust {
                    trusted.extend(certificates.into_iter().next());
                } else if own.is_none() {
                    let password = key_password.or(password).ok_or_else(|| {
                        format!("its key needs a password; look at `{prefix}.password`")
                    })?;
                    let key = PrivatePkcs8KeyDer::from(unprotect(sealed, password)?);
                    own = Some(Contents { certificates, key: Some(key.into()) });
                }
            }
            2 => trusted.push(reader.certificate(version)?),
            other => return Err(format!("an entry of kind {other} is not known")),
        }
    }
    Ok(own.unwrap_or(Contents { certificates: trusted, key: None }))
}

struct Jks<'b> {
    rest: &'b [u8],
}

impl<'b> Jks<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Java's `writeUTF`.
    fn text(&mut self) -> Result<&'b [u8], String> {
        let bytes = self.take(2)?;
        self.take(usize::from(bytes[0]) << 8 | usize::from(bytes[1]))
    }

    fn sized(&mut self) -> Result<&'b [u8], String> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, String> {
        if version == 2 {
            let _kind = self.text()?;
        }
        Ok(CertificateDer::from(self.sized()?.to_vec()))
    }
}

/// A password as Java's key stores take it: UTF-16, high byte first.
fn utf16(password: &Secret) -> Zeroizing<Vec<u8>> {
    let units = password.reveal().encode_utf16();
    Zeroizing::new(units.flat_map(u16::to_be_bytes).collect())
}

/// Undoes Sun's key protector: a stream of SHA-1 hashes, and a hash of the result.
fn unprotect(sealed: &[u8], password: &Secret) -> Result<Vec<u8>, String> {
    const HASH: usize = 20;
    let strange = || "its key is protected in a way that is not known".to_owned();
    let info = x509_parser::der_parser::parse_der(sealed).map_err(|_| strange())?.1;
    let sealed = info
        .as_sequence()
        .ok()
        .and_then(|parts| parts.get(1))
        .and_then(|part| part.as_slice().ok())
        .ok_or_else(strange)?;
    if sealed.len() < 2 * HASH {
        return Err(strange());
    }
    let (salt, rest) = sealed.split_at(HASH);
    let (masked, check) = rest.split_at(rest.len() - HASH);
    let password = utf16(password);
    let hash = |bytes: &[u8]| {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&password);
        context.update(bytes);
        context.finish()
    };
    let mut key = Vec::with_capacity(masked.len());
    let mut mask = hash(salt);
    for (index, chunk) in masked.chunks(HASH).enumerate() {
        if index > 0 {
            mask = hash(mask.as_ref());
        }
        key.extend(chunk.iter().zip(mask.as_ref()).map(|(byte, mask)| byte ^ mask));
    }
    if hash(&key).as_ref() == check {
        Ok(key)
    } else {
        Err("the key's password is wrong; look at `ssl.key.password`".into())
    }
}
