//! Segments, the shareable heap, and raw views of payload.
pub mod view;
