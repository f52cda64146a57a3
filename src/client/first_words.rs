//! The first words of a connection: what the broker speaks, how far away it is, and the login.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::access::{Access, Leave};
use super::clock::Clock;
use super::connection::ConnectError;
use super::tls::{TlsError, explain, tls_error};
use crate::model::Moment;
use crate::wire::{
    AuthStep, Handshake, HandshakeStep, OutFrame, UNTRUSTED_FRAME_BYTES_MAX, Versions,
    frame_length, message,
};

/// First words that took so long are exchanged once more, and the shorter time counts.
///
/// A broker that has just started takes 10 to 50 ms for the first request of its life. Taken for
/// one that is far away, it was given the memory that such a way needs: 75 MiB instead of 26.
const SLOW: Duration = Duration::from_millis(5);

/// What the first words bring.
#[derive(Debug)]
pub(super) struct FirstWords {
    /// Those that the broker and we have in common.
    pub(super) versions: Versions,
    /// The way there and back, and what the broker needed for an answer that needs no work.
    pub(super) round_trip: Duration,
    /// When to log in again.
    pub(super) renewal: Option<Moment>,
}

/// Introduces us and logs in.
///
/// # Errors
///
/// [`ConnectError`]; the access' patience bounds each step.
pub(super) async fn exchange<S>(
    stream: &mut S,
    access: &Access,
    leave: Leave,
    clock: Clock,
) -> Result<FirstWords, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let patience = access.patience;
    let silent = |_| ConnectError::Silent(patience);
    let begun = clock.now();
    let versions =
        timeout(patience, introduce(stream, &access.client_id)).await.map_err(silent)??;
    let mut round_trip = clock.now().since(begun);
    let renewal = timeout(patience, log_in(stream, access, &versions, leave, clock))
        .await
        .map_err(silent)??;
    if round_trip >= SLOW {
        // Behind the login, since a broker answers this only once before it.
        let begun = clock.now();
        timeout(patience, introduce(stream, &access.client_id)).await.map_err(silent)??;
        let again = clock.now().since(begun);
        tracing::debug!(first = ?round_trip, ?again, "slow first words");
        round_trip = round_trip.min(again);
    }
    Ok(FirstWords { versions, round_trip, renewal })
}

/// Asks what the broker speaks.
async fn introduce<S>(stream: &mut S, client_id: &str) -> Result<Versions, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut handshake, mut next) = Handshake::new(client_id);
    loop {
        // The header of this one answer is the same in every version.
        let body = first_words(stream, &next, 0).await?;
        match handshake.on_answer(&body)? {
            HandshakeStep::Send(frame) => next = frame,
            HandshakeStep::Ready(versions) => return Ok(versions),
        }
    }
}

/// Logs in, if that is asked for; when to do it again.
async fn log_in<S>(
    stream: &mut S,
    access: &Access,
    versions: &Versions,
    leave: Leave,
    clock: Clock,
) -> Result<Option<Moment>, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some((mut authentication, mut next)) = access.log_in(versions, clock)? else {
        return Ok(None);
    };
    loop {
        let body = first_words(stream, &next, next.version).await?;
        match authentication.on_answer(&body) {
            Ok(AuthStep::Send(frame)) => next = frame,
            Ok(AuthStep::Done(lifetime)) => {
                access.admitted();
                return Ok(Access::renewal(lifetime, clock));
            }
            Err(error) => {
                access.refused(leave, error.to_string(), clock);
                return Err(error.into());
            }
        }
    }
}

/// Sends a request of the first words and reads its answer's body.
async fn first_words<S>(
    stream: &mut S,
    frame: &OutFrame,
    header_of: i16,
) -> Result<Bytes, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let broken = |error: io::Error| {
        if let Some(tls) = tls_error(&error) {
            return TlsError::Handshake(explain(tls, None)).into();
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => ConnectError::ClosedEarly,
            _ => ConnectError::Broken(error),
        }
    };
    let written = async {
        stream.write_all(&frame.to_vec()).await?;
        stream.flush().await
    };
    let written = written.await;
    let mut prefix = [0; 4];
    // A peer that refuses us says why before it closes, so what it said is read in any case.
    let read = stream.read_exact(&mut prefix).await;
    if let Err(error) = read {
        return Err(broken(match written {
            Err(cause) if tls_error(&error).is_none() => cause,
            _ => error,
        }));
    }
    let length = frame_length(prefix, UNTRUSTED_FRAME_BYTES_MAX)?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    Ok(message::split_header(frame.api, header_of, &Bytes::from(answer))?)
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;
    use crate::client::{Dialer, Security};
    use crate::model::ClusterAlias;

    /// Answers as many requests as there are `waits`, each after its own.
    async fn broker(mut stream: DuplexStream, waits: Vec<u64>) {
        for wait in waits {
            let mut prefix = [0; 4];
            stream.read_exact(&mut prefix).await.unwrap();
            let mut request = vec![0; u32::from_be_bytes(prefix) as usize];
            stream.read_exact(&mut request).await.unwrap();
            tokio::time::sleep(Duration::from_millis(wait)).await;
            // ApiVersions in its oldest form, as the handshake asks for it again if it must.
            let newest = request[2..4] != [0, 0];
            let error = if newest { 35_i16 } else { 0 };
            let mut body = request[4..8].to_vec();
            body.extend(error.to_be_bytes());
            body.extend(1_u32.to_be_bytes());
            for number in [18_i16, 0, 0] {
                body.extend(number.to_be_bytes());
            }
            stream.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
        let mut more = Vec::new();
        assert_eq!(stream.read_to_end(&mut more).await.unwrap(), 0, "one more request came");
    }

    /// The round trip that is found, milliseconds.
    async fn found(waits: &[u64]) -> u128 {
        let clock = Clock::start();
        let security = Security { tls: None, sasl: None };
        let patience = Duration::from_secs(1);
        let alias = ClusterAlias::new("a");
        let access = Access::new(&alias, &security, Dialer::Tcp, "me", patience, clock);
        let (mut ours, theirs) = tokio::io::duplex(4096);
        let leave = access.ask_leave(clock).unwrap();
        let introduced = async move {
            let words = exchange(&mut ours, &access, leave, clock).await.unwrap();
            words.round_trip.as_millis()
        };
        tokio::join!(introduced, broker(theirs, waits.to_vec())).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_was_slow_once_is_not_far_and_one_that_is_far_stays_so() {
        // An introduction takes two questions: this broker does not know the newest one.
        assert_eq!(found(&[1, 1]).await, 2, "asked once");
        assert_eq!(found(&[40, 1, 1, 1]).await, 2, "the shorter one counts");
        assert_eq!(found(&[50, 50, 50, 50]).await, 100, "far is far");
        assert_eq!(found(&[3, 3, 30, 30]).await, 6, "whichever came first");
    }
}
