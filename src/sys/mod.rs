//! System calls, one family a file, behind safe functions. Nothing above this folder names `libc` or `nix`.

pub mod background;
pub mod credentials;
pub mod socket;
