//! Whatever a peer does while a connection is secured: bounded time and memory, and words that say what it did.

use std::time::Duration;

use heliograph::client::{
    Clock, Cluster, ClusterSettings, Dialer, Endpoint, Provided, SaslSettings, Security,
    TlsSettings, Trust,
};
use heliograph::model::ClusterAlias;
use heliograph::wire::sasl::Mechanism;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// For each step of connecting.
const PATIENCE: Duration = Duration::from_millis(300);

fn tls() -> Security {
    let tls = TlsSettings {
        trust: Trust::System,
        identity: None,
        v1_2: true,
        v1_3: true,
        cipher_suites: Vec::new(),
        check_host_name: true,
    };
    Security { tls: Some(tls), sasl: None }
}

fn scram() -> Security {
    let jaas = Provided::fixed(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" \
         password=\"hunter2\";",
    );
    let sasl = SaslSettings {
        mechanism: Mechanism::ScramSha256,
        jaas,
        token_file: None,
        token_server: None,
    };
    Security { tls: None, sasl: Some(sasl) }
}

/// What is said about a peer that treats each connection with `manners`.
async fn said_about<F, M>(security: Security, manners: M) -> String
where
    M: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tracker, end) = (TaskTracker::new(), CancellationToken::new());
    let peers = tracker.clone();
    let peer = tracker.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            peers.spawn(manners(stream));
        }
    });
    let settings = ClusterSettings {
        alias: ClusterAlias::new("x"),
        bootstrap: vec![Endpoint { host: "127.0.0.1".into(), port }],
        client_id: "test".into(),
        request_timeout: Duration::from_secs(1),
        connect_timeout: PATIENCE,
        dialer: Dialer::Tcp,
        security,
    };
    let cluster = Cluster::new(settings, Clock::start(), &tracker, end.clone());
    let begun = Instant::now();
    let error = cluster.greet(Duration::ZERO).await.expect_err("nothing good");
    assert!(begun.elapsed() < Duration::from_secs(3), "{error} after {:?}", begun.elapsed());
    end.cancel();
    peer.abort();
    let text = error.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    text
}

async fn hear(stream: &mut TcpStream) {
    let mut heard = [0; 4096];
    drop(stream.read(&mut heard).await);
}

#[tokio::test]
async fn a_peer_that_says_nothing_under_tls_is_given_up() {
    let said = said_about(tls(), |stream| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(stream);
    })
    .await;
    assert!(said.contains("did not come within 300ms"), "{said}");
}

#[tokio::test]
async fn a_peer_that_answers_tls_with_something_else_is_recognised() {
    for answer in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
    {
        let said = said_about(tls(), move |mut stream| async move {
            hear(&mut stream).await;
            drop(stream.write_all(answer).await);
            tokio::time::sleep(Duration::from_secs(5)).await;
        })
        .await;
        assert!(said.contains("security.protocol"), "{said}");
    }
}

#[tokio::test]
async fn a_tls_record_that_is_cut_off_and_one_that_is_dripped_are_given_up() {
    let said = said_about(tls(), |mut stream| async move {
        hear(&mut stream).await;
        drop(stream.write_all(&[22, 3, 3, 0, 100, 2, 0]).await);
    })
    .await;
    assert!(said.contains("in the middle of the TLS handshake"), "{said}");

    let said = said_about(tls(), |mut stream| async move {
        hear(&mut stream).await;
        drop(stream.write_all(&[22, 3, 3, 64, 0]).await);
        while stream.write_all(&[2]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(said.contains("TLS"), "{said}");
}

/// What a broker says to a token.
type Answer = fn(&[u8]) -> Vec<u8>;

/// A broker up to the point where a login begins; `answer` makes SaslAuthenticate's tokens of ours.
async fn broker(mut stream: TcpStream, answer: Answer) {
    let ranges: [(i16, i16, i16); 4] = [(3, 8, 12), (17, 0, 1), (18, 0, 0), (36, 0, 0)];
    let mut offered = 4_u32.to_be_bytes().to_vec();
    for (key, min, max) in ranges {
        for number in [key, min, max] {
            offered.extend(number.to_be_bytes());
        }
    }
    loop {
        let Ok(length) = stream.read_u32().await else { return };
        let mut request = vec![0; length as usize];
        if stream.read_exact(&mut request).await.is_err() {
            return;
        }
        let (api, version) = (request[1], request[3]);
        let body = match api {
            18 => [&[0, if version > 0 { 35 } else { 0 }], &offered[..]].concat(),
            17 => b"\0\0\0\0\0\x01\0\x0dSCRAM-SHA-256".to_vec(),
            _ => {
                // Behind api, version, correlation, client id and the token's length.
                let token = answer(&request[8 + 2 + 4 + 4..]);
                let length = u32::try_from(token.len()).expect("short").to_be_bytes();
                [&[0, 0, 0xff, 0xff], &length[..], &token].concat()
            }
        };
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        let frame = [&length[..], &request[4..8], &body].concat();
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// The nonce of a first message.
fn nonce(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(token);
    text.split(',').find_map(|part| part.strip_prefix("r=")).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_broker_that_cheats_at_scram_is_found_out_without_work() {
    let cases: [(Answer, &str); 5] = [
        (|_| b"r=mine,s=c2FsdA==,i=4096".to_vec(), "does not continue ours"),
        (
            |token| format!("r={}x,s=c2FsdA==,i=2147483647", nonce(token)).into_bytes(),
            "asks for 2147483647 SCRAM iterations",
        ),
        (|_| vec![b'r'; 100_000], "more than 8 KiB"),
        (|_| b"e=other-error".to_vec(), "other-error"),
        (
            |token| match token {
                b if b.starts_with(b"n,,") => {
                    format!("r={}x,s=c2FsdA==,i=4096", nonce(b)).into_bytes()
                }
                _ => b"v=AAAA".to_vec(),
            },
            "signature is wrong",
        ),
    ];
    for (answer, words) in cases {
        let said = said_about(scram(), move |stream| broker(stream, answer)).await;
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[tokio::test]
async fn a_broker_that_never_ends_its_frames_is_given_up() {
    let said = said_about(scram(), |mut stream| async move {
        hear(&mut stream).await;
        drop(stream.write_all(&[0x0f, 0xff, 0xff, 0xff]).await);
        tokio::time::sleep(Duration::from_secs(5)).await;
    })
    .await;
    assert!(said.contains("announced a frame of 268435455 bytes"), "{said}");
}
