//! Models of the concurrent core, for loom.
