//! `[vici]`: where charon tells which connections are configured.

use std::path::PathBuf;

use serde::Deserialize;

/// Where charon is asked for its connections, and which do not count (`[vici]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ViciConfig {
    /// charon's socket; none: it is not asked.
    pub socket: Option<PathBuf>,
    /// Connections, and children as `connection/child`, that need not be up.
    pub leave_out: Vec<String>,
}

impl ViciConfig {
    /// The longest path of a socket.
    const MAX_PATH_LEN: usize = 107;

    /// The first value that cannot be: its key, itself, and what is allowed.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let socket = self.socket.as_ref()?;
        let is_good = socket.is_absolute() && socket.as_os_str().len() <= Self::MAX_PATH_LEN;
        (!is_good).then(|| {
            let allowed = "an absolute path of at most 107 bytes, as \"/run/charon.vici\"";
            ("vici.socket", socket.display().to_string(), allowed)
        })
    }

    /// True if a child need not be up.
    pub fn leaves_out(&self, (connection, child): &(String, String)) -> bool {
        self.leave_out.iter().any(|name| match name.split_once('/') {
            Some(names) => names == (connection.as_str(), child.as_str()),
            None => name == connection,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_children_can_be_left_out() {
        let config: ViciConfig = toml::from_str("leave_out = [\"road\", \"hq/spare\"]").unwrap();
        let leaves_out =
            |connection: &str, child: &str| config.leaves_out(&(connection.into(), child.into()));
        assert!(leaves_out("road", "a") && leaves_out("road", "b") && leaves_out("hq", "spare"));
        assert!(!leaves_out("hq", "net") && !leaves_out("roads", "a") && !leaves_out("x", "spare"));
    }

    #[test]
    fn a_socket_has_an_absolute_path() {
        let problem = |socket: &str| {
            ViciConfig { socket: Some(socket.into()), ..ViciConfig::default() }.problem()
        };
        assert_eq!(problem("/run/charon.vici"), None);
        assert_eq!(ViciConfig::default().problem(), None);
        assert!(problem("charon.vici").is_some() && problem("").is_some());
        assert!(problem(&format!("/{}", "x".repeat(107))).is_some());
    }
}
