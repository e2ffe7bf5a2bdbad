//! Publishing a step.

use tenure::{Config, GroupId};

use super::blocks;
use crate::rounds::{Operation, Repeated};

/// The numbers of live requests at which a publish is measured.
pub const LIVE: [u32; 3] = [64, 1024, 65_536];

/// One publish, with so many requests live.
///
/// # Errors
/// None that a correct index gives.
pub fn publish(live: u32) -> Result<Box<dyn Operation>, Box<dyn std::error::Error>> {
    let (mut scheduler, _) = Config::new(live).max_requests(live).build()?;
    for at in 0..live {
        let key = scheduler.admit(&format!("r{at}"))?;
        scheduler.assign(key, GroupId(0), &blocks(at, 1))?;
    }
    scheduler.publish();
    Ok(Box::new(Repeated::new(format!("publish/{live}"), move || {
        std::hint::black_box(scheduler.publish());
    })))
}
