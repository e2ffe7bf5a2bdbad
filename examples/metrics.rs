//! What an operator sees: the figures of an index and of its save jobs, as Prometheus gets them.
//!
//! ```console
//! $ cargo run --release --example metrics --features metrics
//! ```
//!
//! An engine installs the exporter once, with its listener, and publishes at its own pace.

use std::error::Error;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use tenure::{BlockId, Config, GroupId, Groups, Outcome, Rank, SaveJobs};

fn main() -> Result<(), Box<dyn Error>> {
    let exporter = PrometheusBuilder::new().install_recorder()?;

    let (mut scheduler, index) = Config::new(1_000).build()?;
    let mut jobs = SaveJobs::new();
    let start = Instant::now();
    for step in 0..100_u32 {
        let request = scheduler.admit(&format!("r{step}"))?;
        let blocks: Vec<BlockId> = (0..4).map(|i| BlockId(step * 8 + i)).collect();
        scheduler.assign(request, GroupId(0), &blocks)?;
        scheduler.publish();
        let save = index.plan(request, 0..64, Groups::ALL)?;
        // Every third save is late: its request has ended, and its blocks may be another's.
        if step % 3 == 0 {
            let _ = scheduler.release(request)?;
        }
        if let Ok(job) = jobs.pin(&index, &save, [Rank(0)], start)
            // The last few reports are still to come.
            && step < 95
        {
            jobs.complete(job, Rank(0), Outcome::Done);
        }
        if step % 5 == 1 && scheduler.is_live(request) {
            let _ = scheduler.release(request)?;
        }
    }

    let rank = [("rank", "0")];
    let overdue = jobs.overdue(Duration::from_secs(30), start + Duration::from_secs(60)).len();
    tenure::publish_metrics(&index.stats(), &rank);
    tenure::publish_job_metrics(&jobs, overdue, &rank);
    println!("{}", exporter.render());
    Ok(())
}
