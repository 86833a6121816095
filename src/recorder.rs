//! Messages to standard error, by level (`PENNY_LOG`).
