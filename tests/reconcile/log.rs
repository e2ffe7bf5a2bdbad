//! What a log would show.

use std::sync::{Arc, Mutex};

/// One WARN event as a log would show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub reason: String,
    pub label: String,
    pub suppressed: u64,
    pub message: String,
}

/// Runs `work` and answers the events it wrote.
pub fn warned(work: impl FnOnce()) -> Vec<Event> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), work);
    std::mem::take(&mut log.0.lock().unwrap())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Event>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        assert_eq!(event.metadata().target(), "tenure");
        let mut read = Event {
            reason: String::new(),
            label: String::new(),
            suppressed: u64::MAX,
            message: String::new(),
        };
        event.record(&mut read);
        self.0.lock().unwrap().push(read);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl tracing::field::Visit for Event {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        match field.name() {
            "reason" => self.reason = value.to_owned(),
            "label" => self.label = value.to_owned(),
            other => panic!("no such text expected: {other}"),
        }
    }
    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        assert_eq!(field.name(), "suppressed");
        self.suppressed = value;
    }
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        assert_eq!(field.name(), "message");
        self.message = format!("{value:?}");
    }
}
