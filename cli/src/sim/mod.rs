//! The simulation behind `tenure replay`.

pub mod clock;
pub mod connector;
pub mod content;
pub mod device;
pub mod engine;
pub mod figures;
pub mod index;
pub mod latency;
pub mod memory;
pub mod pool;
pub mod replay;
pub mod request;
pub mod savers;
pub mod series;
pub mod settings;
pub mod timeline;
