//! The page for people and machines that look: HTTP/1, GET only, plain text and JSON.
//!
//! It changes nothing and shows no secret. It has no password either, so it listens only where
//! the file says so (`heliograph.http.listen`).

use std::convert::Infallible;
use std::future::Future;
use std::io;
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
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections served at a time; a few scrapers and a person with a browser.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

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
            // Whatever a client does wrong is its own trouble.
            drop(connection.await);
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
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
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
