//! `[security]`: what the daemon may do.

use serde::Deserialize;

/// `[security]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    /// Whether seccomp filters hold back what the daemon may ask of the kernel.
    pub seccomp: bool,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        SecurityConfig { seccomp: true }
    }
}
