//! What of a request is saved, what is on its way, and what to save next.
//!
//! A [`SaveTracker`] follows one request through all its lives. It offers token ranges in whole
//! blocks; an offer is in flight from then on, until it is settled. Only a save that was reported
//! done moves the watermark: whatever else becomes of an offer, its tokens are offered again.

mod many;
mod one;
mod ranges;

pub use many::SaveTrackers;
pub use one::{Offer, OfferId, Role, SaveTracker, Settled};
