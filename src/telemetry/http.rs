//! The page for people and machines that look: HTTP/1, GET and HEAD only, plain text and JSON.
//!
//! It changes nothing and shows no secret. It has no password either, so it listens only where
//! the file says so (`heliograph.http.listen`).

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections served at a time; a few scrapers and a person with a browser.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection is served: a scraper that comes every few seconds stays that long.
const SERVED_FOR: Duration = Duration::from_secs(60);

/// How long an answer that is under way then may still take. Who does not read it loses the seat.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// How long to wait after the system refused a connection, which it does when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A page to serve.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub body: String,
    /// Whether it says that something is wrong: 503 instead of 200.
    pub unavailable: bool,
}

/// Serves what `page` gives for a path until `end`; paths without a page are not found.
pub async fn serve<F, P>(listener: TcpListener, page: F, end: CancellationToken)
where
    F: Fn(String) -> P + Send + Sync + 'static,
    P: Future<Output = Option<Page>> + Send + 'static,
{
    let (page, seats, tracker) =
        (Arc::new(page), Arc::new(Semaphore::new(CONNECTIONS_MAX)), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            biased;
            () = end.cancelled() => return,
            accepted = accept(&listener, &seats) => accepted,
        };
        let (stream, seat) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "status page: connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let page = Arc::clone(&page);
        let service = service_fn(move |request: Request<Incoming>| {
            let page = Arc::clone(&page);
            async move { Ok::<_, Infallible>(answer(&request, page.as_ref()).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_PATIENCE)
            .serve_connection(TokioIo::new(stream), service);
        tracker.spawn(async move {
            let mut connection = pin!(connection);
            // Whatever a client does wrong is its own trouble.
            if timeout(SERVED_FOR, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                drop(timeout(LAST_ANSWER, connection).await);
            }
            drop(seat);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
) -> io::Result<(tokio::net::TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed.
    let seat = Arc::clone(seats).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, seat))
}

async fn answer<F, P>(request: &Request<Incoming>, page: &F) -> Response<Full<Bytes>>
where
    F: Fn(String) -> P,
    P: Future<Output = Option<Page>>,
{
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    // A body for HEAD is left out by hyper, its length is told.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
    }
    let Some(found) = page(request.uri().path().to_owned()).await else {
        let pages = "there are /metrics, /status, /healthz and /readyz\n";
        return plain(StatusCode::NOT_FOUND, pages);
    };
    let mut response = Response::new(Full::new(Bytes::from(found.body)));
    if found.unavailable {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    let content_type = hyper::header::HeaderValue::from_static(found.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// More than the buffers of a socket take.
    const LARGE: usize = 32 << 20;

    async fn served(end: &CancellationToken) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let page = |path: String| async move {
            let body = match path.as_str() {
                "/large" => "x".repeat(LARGE),
                _ => "small".into(),
            };
            Some(Page { content_type: "text/plain", body, unavailable: false })
        };
        TaskTracker::new().spawn(serve(listener, page, end.clone()));
        address
    }

    #[expect(clippy::disallowed_methods, reason = "a client of the page, not of a broker")]
    async fn ask(address: std::net::SocketAddr, first_line: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{first_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn answer_to(address: std::net::SocketAddr, first_line: &str) -> String {
        let mut answer = String::new();
        ask(address, first_line).await.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_loses_the_seat() {
        let end = CancellationToken::new();
        let address = served(&end).await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(ask(address, "GET /large").await);
        }
        let begun = tokio::time::Instant::now();
        let answer = answer_to(address, "GET /").await;
        assert!(answer.ends_with("small"), "{answer}");
        let waited = begun.elapsed();
        assert!(waited <= SERVED_FOR + LAST_ANSWER + Duration::from_secs(1), "{waited:?}");
        drop(silent);
        end.cancel();
    }

    #[tokio::test]
    async fn head_is_get_without_a_body() {
        let end = CancellationToken::new();
        let address = served(&end).await;
        let (get, head) = (answer_to(address, "GET /").await, answer_to(address, "HEAD /").await);
        assert!(get.starts_with("HTTP/1.1 200") && get.ends_with("\r\n\r\nsmall"), "{get}");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("content-length: 5"), "{head}");
        let post = answer_to(address, "POST /").await;
        assert!(post.starts_with("HTTP/1.1 405"), "{post}");
        end.cancel();
    }
}
