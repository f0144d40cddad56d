//! Metrics over HTTP: checks the address, and serves the metrics of a run.

use crate::console::remark;
use crate::failure::Failure;
use iodyno_live::scrape;
use iodyno_measure::exposition::TextFormat;
use iodyno_measure::{Cell, Interval};
use iodyno_report::openmetrics::SoFar;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Checks the address at which to serve metrics. Without TLS, every client that reaches the port can read the metrics
/// and keep the server busy.
///
/// # Errors
/// The address is open to other machines, without --insist-on-plain.
pub(crate) fn address(
    asked: Option<SocketAddr>,
    insist_on_plain: bool,
) -> Result<Option<SocketAddr>, Failure> {
    match asked {
        Some(address) if !address.ip().is_loopback() && !insist_on_plain => {
            Err(Failure::target(format!(
                "--metrics {address} is open to other machines, without TLS: listen on 127.0.0.1, or add --insist-on-plain"
            )))
        }
        address => Ok(address),
    }
}

/// Creates the failure to listen at an address.
pub(crate) fn failed(address: SocketAddr, e: &std::io::Error) -> Failure {
    Failure::target(format!("--metrics {address}: {e}"))
}

/// Metrics of a run in progress. Only the coordinating thread updates them, never the workers.
#[derive(Clone, Debug)]
pub(crate) struct RunMetrics {
    so_far: Arc<Mutex<SoFar>>,
}

impl RunMetrics {
    /// Starts serving metrics at this address. Prints the URL, unless `quiet` is set.
    ///
    /// # Errors
    /// The address is not available.
    pub(crate) fn serve(at: SocketAddr, quiet: bool) -> Result<Self, Failure> {
        let metrics = Self { so_far: Arc::default() };
        let served = metrics.clone();
        // Formatted outside the lock, so that the coordinating thread does not wait for it.
        let text = move |format: TextFormat| {
            let so_far = served.lock().clone();
            so_far.text(format)
        };
        let at = scrape::serve(at, text).map_err(|e| failed(at, &e))?;
        if !quiet {
            remark("metrics", &format!("http://{at}/metrics"));
        }
        Ok(metrics)
    }

    pub(crate) fn began(&self, id: &str, name: &str) {
        *self.lock() = SoFar::new(id, name, env!("CARGO_PKG_VERSION"));
    }

    pub(crate) fn ready(&self, first_index: usize, cells: &[Cell]) {
        self.lock().begin(first_index, cells);
    }

    pub(crate) fn interval(&self, target: usize, index: usize, interval: &Interval) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.lock().add(target, index, interval, now.as_nanos() as u64);
    }

    pub(crate) fn finished(&self, first_index: usize, cells: &[Cell]) {
        self.lock().finish(first_index, cells);
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
