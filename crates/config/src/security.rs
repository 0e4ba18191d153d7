//! `[security]`: what the daemon may do.

use serde::Deserialize;

/// Section `[security]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    /// True if seccomp filters limit the daemon's system calls.
    pub seccomp: bool,
    /// The user who may ask for what is only read, beside root: that of `culvert web` and `culvert metrics`.
    pub reader: String,
    /// True if that user may capture. Packets are in captures in clear.
    pub reader_captures: bool,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        SecurityConfig { seccomp: true, reader: "culvert".into(), reader_captures: false }
    }
}

impl SecurityConfig {
    /// The longest name of a user (`LOGIN_NAME_MAX` of Debian's tools).
    const MAX_USER_LEN: usize = 32;

    /// The first value that cannot be: its key, itself, and what is allowed.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-$".contains(c);
        if self.reader.len() > Self::MAX_USER_LEN || !self.reader.chars().all(is_name) {
            let allowed = "the name of a user; \"\" for root alone";
            return Some(("security.reader", self.reader.clone(), allowed));
        }
        None
    }
}
