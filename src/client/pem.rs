//! PEM, as Kafka reads it (KIP-651): blocks in any order, also on one line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use zeroize::Zeroizing;

use super::keystore::Contents;
use super::pkcs8::decrypt;
use crate::model::Secret;

/// Reads all certificates and the private key of `text`.
///
/// # Errors
///
/// What is wrong with it, in words.
pub(super) fn read(text: &str, key_password: Option<&Secret>) -> Result<Contents, String> {
    let mut contents = Contents::default();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        // Where its dashes are missing, what follows is the key: that is never a label, and never
        // stands in a message.
        let (label, after) = after
            .split_once("-----")
            .filter(|(label, _)| is_label(label))
            .ok_or("a PEM block's first line is cut off")?;
        let end = format!("-----END {label}-----");
        let (body, after) = after
            .split_once(end.as_str())
            .ok_or_else(|| format!("the PEM block {label} has no end"))?;
        rest = after;
        if body.contains("Proc-Type:") {
            return Err("its key is encrypted in openssl's old way, which Java does not read \
                        either; rewrite it with `openssl pkcs8 -topk8`"
                .into());
        }
        let body: Zeroizing<String> =
            Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
        let bytes = STANDARD
            .decode(body.as_bytes())
            .map_err(|_| format!("the PEM block {label} is no base64"))?;
        match label {
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => {
                contents.certificates.push(CertificateDer::from(bytes));
            }
            "PRIVATE KEY" => contents.key = Some(PrivatePkcs8KeyDer::from(bytes).into()),
            "RSA PRIVATE KEY" => contents.key = Some(PrivatePkcs1KeyDer::from(bytes).into()),
            "EC PRIVATE KEY" => contents.key = Some(PrivateSec1KeyDer::from(bytes).into()),
            "ENCRYPTED PRIVATE KEY" => {
                let password = key_password
                    .ok_or("its private key is encrypted; look at `ssl.key.password`")?;
                let key = decrypt(&bytes, password.reveal())?;
                contents.key = Some(PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key)));
            }
            // Parameters and the like are of no use here.
            _ => {}
        }
    }
    Ok(contents)
}

/// Longer than any label that is known (RFC 7468).
const LABEL_CHARACTERS_MAX: usize = 40;

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ';
    text.len() <= LABEL_CHARACTERS_MAX && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_any_order_and_on_one_line() {
        let text = "junk -----BEGIN PRIVATE KEY----- AA AA -----END PRIVATE KEY-----\n\
                    -----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n\
                    -----BEGIN CERTIFICATE-----BAUG-----END CERTIFICATE-----";
        let contents = read(text, None).unwrap();

        assert_eq!(contents.certificates.len(), 2);
        assert_eq!(contents.certificates[1].as_ref(), [4, 5, 6]);
        assert!(contents.key.is_some());
    }

    #[test]
    fn a_first_line_without_its_dashes_shows_no_key() {
        let text = "-----BEGIN PRIVATE KEY----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        assert_eq!(read(text, None).unwrap_err(), "a PEM block's first line is cut off");
    }

    #[test]
    fn what_is_broken_is_told_in_words() {
        for (text, word) in [
            ("-----BEGIN CERTIFICATE-----AQID", "has no end"),
            ("-----BEGIN CERTIFICATE", "cut off"),
            ("-----BEGIN CERTIFICATE-----*-----END CERTIFICATE-----", "base64"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----AQID-----END ENCRYPTED PRIVATE KEY-----",
                "ssl.key.password",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA\n-----END RSA \
                 PRIVATE KEY-----",
                "pkcs8",
            ),
        ] {
            let error = read(text, None).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
