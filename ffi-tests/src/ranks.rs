//! Runs one program as several ranks.
