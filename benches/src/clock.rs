//! The clock of short measurements.

use std::time::Duration;

/// CPU time of the calling thread: unlike wall time it leaves out what other processes take on a
/// busy machine. Where the system has no such clock it is wall time.
#[cfg(unix)]
pub fn thread_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// CPU time of the calling thread: unlike wall time it leaves out what other processes take on a
/// busy machine. Where the system has no such clock it is wall time.
#[cfg(not(unix))]
pub fn thread_time() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// What two readings of [`thread_time`] with nothing between them are apart: to be taken off each
/// measurement.
pub fn overhead() -> Duration {
    let mut gaps: Vec<Duration> = (0..1001)
        .map(|_| {
            let start = thread_time();
            thread_time().saturating_sub(start)
        })
        .collect();
    gaps.sort();
    gaps[gaps.len() / 2]
}
