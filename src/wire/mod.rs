//! Floor 1: frames and messages. No sockets, no clock.
//!
//! Bytes from a broker are bounded by the bytes that carry them: a count is believed only if
//! as many elements can still follow. What the hot path reads and writes (Fetch, Produce) and
//! what is read before a peer is trusted (ApiVersions, SASL) has its own code here; everything else
//! goes through `kafka-protocol` behind [`message::encode`] and [`message::decode`], which
//! first walk the bytes along the message's shape.

mod api;
mod authentication;
mod bounded;
mod error_code;
mod frame;
mod handshake;
mod produce;
mod session;
mod shape;
mod versions;

pub mod fetch;
pub mod message;
pub mod sasl;

pub use api::Api;
pub use authentication::{AuthError, AuthStep, Authentication};
pub use bounded::{Malformed, Reader};
pub use error_code::{ErrorCode, Verdict, verdict};
pub use frame::{FRAME_BYTES_MAX, FrameError, OutFrame, UNTRUSTED_FRAME_BYTES_MAX, frame_length};
pub use handshake::{Handshake, HandshakeError, HandshakeStep};
pub use produce::{PartitionAnswer, PartitionBatch, ProduceAnswer, decode_produce, encode_produce};
pub use session::{Fate, PeerFault, Session, Ticket};
pub use versions::{NoVersion, Versions};
