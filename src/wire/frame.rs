//! Length-prefixed frames, in and out.

use std::io::IoSlice;

use bytes::Bytes;

use super::Api;

/// Largest response frame that is read.
///
/// A broker takes requests of 100 MiB (`socket.request.max.bytes`), so no batch can be larger
/// unless that was raised; and a Fetch response holds at most one batch beyond our own limit.
pub const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Largest response frame from a peer that has not yet shown that it is a broker we know.
///
/// An ApiVersions answer is about 1 KiB; Kafka's own limit for unauthenticated peers is
/// 512 KiB (`NetworkReceive`, KIP-849 discussion).
pub const UNTRUSTED_FRAME_BYTES_MAX: usize = 512 * 1024;

/// Why the first bytes of an answer are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer speaks TLS on this port.
    #[error(
        "it answered with a TLS alert, not with Kafka; this listener looks like SSL or SASL_SSL"
    )]
    TlsAlert,
    /// The peer speaks HTTP on this port, or another protocol of text.
    #[error("it answered with text ({0:?}), not with Kafka; this port belongs to something else")]
    Text(String),
    /// A length that no answer has.
    #[error("it announced a frame of {length} bytes; at most {max} are read")]
    Length {
        /// The length field.
        length: i32,
        /// What is allowed here.
        max: usize,
    },
}

/// The body length that the four bytes in front of a frame announce, at most `max`.
///
/// # Errors
///
/// [`FrameError`], which recognises the two protocols most often found on a wrong port.
pub fn frame_length(prefix: [u8; 4], max: usize) -> Result<usize, FrameError> {
    match prefix {
        // TLS record: alert (21), version 3.x, then the high byte of a small length.
        [21, 3, 0..=4, _] => return Err(FrameError::TlsAlert),
        // Four printable bytes are a length above 512 MiB, which no answer has.
        text if text.iter().all(|byte| matches!(byte, b' '..=b'~')) => {
            return Err(FrameError::Text(String::from_utf8_lossy(&text).into_owned()));
        }
        _ => {}
    }
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        // A response has at least its correlation id.
        Ok(bytes) if (4..=max).contains(&bytes) => Ok(bytes),
        _ => Err(FrameError::Length { length, max }),
    }
}

/// Bytes before a request's body: length, api key, version, correlation id.
const CORRELATION_AT: usize = 8;

/// A request as a list of segments: everything small in one buffer, with the bodies of batches
/// between its pieces. Bodies are not copied.
#[derive(Debug)]
pub struct OutFrame {
    /// Which request it is.
    pub api: Api,
    /// In which version.
    pub version: i16,
    small: Vec<u8>,
    /// A body and the place in `small` before which it goes.
    bodies: Vec<(usize, Bytes)>,
}

impl OutFrame {
    /// A request header with room for `body_bytes` small bytes behind it.
    pub(super) fn new(api: Api, version: i16, client_id: &str, body_bytes: usize) -> Self {
        let mut small = Vec::with_capacity(16 + client_id.len() + body_bytes);
        small.extend_from_slice(&[0; 4]);
        small.extend_from_slice(&api.key().to_be_bytes());
        small.extend_from_slice(&version.to_be_bytes());
        small.extend_from_slice(&[0; 4]);
        // The client id keeps its old encoding in every header version (KIP-482).
        let length = i16::try_from(client_id.len()).expect("client ids are far below 32 KiB");
        small.extend_from_slice(&length.to_be_bytes());
        small.extend_from_slice(client_id.as_bytes());
        if api.is_flexible(version) {
            small.push(0);
        }
        Self { api, version, small, bodies: Vec::new() }
    }

    pub(super) fn small(&mut self) -> &mut Vec<u8> {
        &mut self.small
    }

    pub(super) fn body(&mut self, body: Bytes) {
        self.bodies.push((self.small.len(), body));
    }

    /// Writes the length in front: the frame is complete.
    ///
    /// # Panics
    ///
    /// If the frame is larger than a length can say; callers bound their requests.
    pub(super) fn seal(mut self) -> Self {
        let length = self.total_bytes() - 4;
        let length = i32::try_from(length).expect("requests stay far below 2 GiB");
        self.small[..4].copy_from_slice(&length.to_be_bytes());
        self
    }

    /// Stamps the correlation id that the session gave.
    pub fn set_correlation(&mut self, id: i32) {
        self.small[CORRELATION_AT..CORRELATION_AT + 4].copy_from_slice(&id.to_be_bytes());
    }

    /// Bytes on the wire, length included.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.small.len() + self.bodies.iter().map(|(_, body)| body.len()).sum::<usize>()
    }

    /// Appends to `out` what follows the first `skip` bytes, as at most `out`'s free room of
    /// slices; empty pieces are left out.
    pub fn slices<'a>(&'a self, mut skip: usize, limit: usize, out: &mut Vec<IoSlice<'a>>) {
        let mut from = 0;
        let mut push = |piece: &'a [u8]| {
            if skip >= piece.len() {
                skip -= piece.len();
            } else if out.len() < limit {
                out.push(IoSlice::new(&piece[skip..]));
                skip = 0;
            }
        };
        for (at, body) in &self.bodies {
            push(&self.small[from..*at]);
            push(body);
            from = *at;
        }
        push(&self.small[from..]);
    }

    /// The whole frame in one buffer, for tests and small requests.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut slices = Vec::new();
        self.slices(0, usize::MAX, &mut slices);
        slices.iter().flat_map(|slice| slice.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_on_a_wrong_port_is_recognised() {
        assert_eq!(frame_length([21, 3, 3, 0], 1000), Err(FrameError::TlsAlert));
        assert_eq!(frame_length(*b"HTTP", 1000), Err(FrameError::Text("HTTP".into())));
        assert_eq!(frame_length(*b"SSH-", 1000), Err(FrameError::Text("SSH-".into())));
        assert!(matches!(frame_length([0xff; 4], 1000), Err(FrameError::Length { .. })));
        assert!(matches!(frame_length([0, 0, 0, 3], 1000), Err(FrameError::Length { .. })));
        assert_eq!(frame_length([0, 0, 3, 232], 1000), Ok(1000));
        assert!(frame_length([0, 0, 3, 233], 1000).is_err());
    }

    #[test]
    fn segments_continue_at_any_byte() {
        let mut frame = OutFrame::new(Api::Produce, 9, "me", 0);
        frame.small().extend_from_slice(b"before");
        frame.body(Bytes::from_static(b"body one"));
        frame.body(Bytes::from_static(b"body two"));
        frame.small().extend_from_slice(b"after");
        let frame = frame.seal();
        let whole = frame.to_vec();

        assert_eq!(whole.len(), frame.total_bytes());
        for skip in 0..=whole.len() {
            let mut slices = Vec::new();
            frame.slices(skip, 64, &mut slices);
            let rest: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(rest, whole[skip..], "after {skip} bytes");
        }
    }
}
