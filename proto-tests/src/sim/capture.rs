//! What the mirror says while it runs: its log lines, as values.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One log line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// How many requests the source had seen: orders lines among requests.
    pub level: Level,
    /// The constant message.
    pub message: String,
    /// Its fields.
    pub fields: BTreeMap<String, String>,
}

impl Line {
    /// A field, or nothing.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level, self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Takes lines of one thread in.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    lines: Arc<Mutex<Vec<Line>>>,
    spans: Arc<AtomicU64>,
    /// Lines below INFO too.
    verbose: bool,
}

impl Capture {
    /// A new one; with lines at DEBUG if `verbose`.
    #[must_use]
    pub fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// What came since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `body` with this thread's lines going here.
    pub fn during<T>(&self, body: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.clone(), body)
    }
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _written = write!(text, "{value:?}");
        self.0.insert(field.name().to_owned(), text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Where each partition starts is told at DEBUG by the supervisor.
        let close = self.verbose || metadata.target().starts_with("heliograph::flow::supervisor");
        let most = if close { Level::DEBUG } else { Level::INFO };
        metadata.target().starts_with("heliograph") && *metadata.level() <= most
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        let line = Line { level: *event.metadata().level(), message, fields: fields.0 };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
