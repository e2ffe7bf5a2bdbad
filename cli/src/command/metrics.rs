//! The index's figures, served to Prometheus while a replay runs.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder};
use tenure::{Index, publish_metrics};

/// From one refreshing of the figures to the next.
const FRESH: Duration = Duration::from_millis(200);

/// Serves until the process ends; refreshes the figures until it is dropped.
pub(super) struct Exporter {
    indices: Sender<Index>,
}

impl Exporter {
    /// Listens at an address, where it answers `GET /metrics`.
    pub(super) fn start(address: SocketAddr) -> Result<Exporter, BuildError> {
        PrometheusBuilder::new().with_http_listener(address).install()?;
        let (indices, given) = channel();
        thread::spawn(move || refresh(&given));
        Ok(Exporter { indices })
    }

    /// Tells this index's figures from now on.
    pub(super) fn serve(&self, index: &Index) {
        // The thread that takes it ends only after this.
        let _taken = self.indices.send(index.clone());
    }
}

fn refresh(given: &Receiver<Index>) {
    let Ok(mut index) = given.recv() else { return };
    loop {
        publish_metrics(&index.stats(), &[]);
        match given.recv_timeout(FRESH) {
            Ok(next) => index = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // What has happened since.
    publish_metrics(&index.stats(), &[]);
}
