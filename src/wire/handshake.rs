//! What is said on a new connection before the first real request.
//!
//! ApiVersions with its fallback (KIP-511): the newest version first; a broker too old for it
//! answers error 35 in the layout of version 0, with the range it does speak if it is 2.4 or
//! later, and is asked again. The decoder is our own, as the peer is not trusted yet.

use std::collections::BTreeMap;

use super::frame::OutFrame;
use super::{Api, ErrorCode, Malformed, Reader, Versions};

/// Client software name and version as brokers log them (KIP-511): letters, digits, `-`, `.`.
const SOFTWARE: (&str, &str) = ("heliograph", env!("CARGO_PKG_VERSION"));

/// More APIs than any broker offers (about 90 today).
const APIS_MAX: usize = 1024;

/// Why a connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The answer is not an ApiVersions response.
    #[error("its ApiVersions answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// The broker refused to say.
    #[error("it refused ApiVersions with {0}")]
    Refused(ErrorCode),
    /// It refused the version it had asked for.
    #[error("it refuses every version of ApiVersions")]
    NoVersion,
}

/// What to do next.
#[derive(Debug)]
pub enum HandshakeStep {
    /// Send this and show the answer to [`Handshake::on_answer`].
    Send(OutFrame),
    /// The connection is ready; these are its versions.
    Ready(Versions),
}

/// The exchange on one new connection.
#[derive(Debug)]
pub struct Handshake {
    client_id: String,
    version: i16,
    asked: u8,
}

impl Handshake {
    /// Begins with the newest ApiVersions we know.
    #[must_use]
    pub fn new(client_id: &str) -> (Self, OutFrame) {
        let newest = Api::ApiVersions.range().1;
        let mut handshake = Self { client_id: client_id.to_owned(), version: newest, asked: 0 };
        let first = handshake.ask();
        (handshake, first)
    }

    fn ask(&mut self) -> OutFrame {
        use super::bounded::Writer;
        self.asked += 1;
        let mut frame = OutFrame::new(Api::ApiVersions, self.version, &self.client_id, 32);
        if self.version >= 3 {
            let mut writer = Writer::new(frame.small(), true);
            writer.string(SOFTWARE.0);
            writer.string(SOFTWARE.1);
            writer.no_tagged();
        }
        frame.seal()
    }

    /// Takes the body of an answer, behind its correlation id.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]; the connection must be closed.
    pub fn on_answer(&mut self, body: &[u8]) -> Result<HandshakeStep, HandshakeError> {
        // The error comes first in every version, and an unsupported version is told in the
        // layout of version 0.
        let code = ErrorCode(Reader::new(body, false).i16()?);
        let too_new = code.0 == 35;
        let version = if too_new { 0 } else { self.version };
        let offered = ranges(body, version, !too_new)?;
        if !too_new {
            if code.is_error() {
                return Err(HandshakeError::Refused(code));
            }
            return Ok(HandshakeStep::Ready(Versions::new(offered)));
        }
        let speaks = offered.get(&Api::ApiVersions.key()).map_or(0, |(_, max)| *max);
        let next = speaks.clamp(0, Api::ApiVersions.range().1);
        if self.asked > 1 || next >= self.version {
            return Err(HandshakeError::NoVersion);
        }
        self.version = next;
        Ok(HandshakeStep::Send(self.ask()))
    }
}

/// The version ranges by API key.
fn ranges(
    body: &[u8],
    version: i16,
    to_the_end: bool,
) -> Result<BTreeMap<i16, (i16, i16)>, Malformed> {
    let mut reader = Reader::new(body, version >= 3);
    let _code = reader.i16()?;
    let count = reader.count(6)?;
    if count > APIS_MAX {
        return Err(reader.malformed("at most 1024 APIs", count));
    }
    let mut offered = BTreeMap::new();
    for _ in 0..count {
        let (key, min, max) = (reader.i16()?, reader.i16()?, reader.i16()?);
        reader.skip_tagged()?;
        if min < 0 || max < min {
            return Err(reader.malformed("version range", format!("{min} to {max}")));
        }
        offered.insert(key, (min, max));
    }
    if to_the_end {
        if version >= 1 {
            let _throttle_time_ms = reader.i32()?;
        }
        reader.skip_tagged()?;
        reader.finish()?;
    }
    Ok(offered)
}
