//! `[tunnel_headers]`: what the two headers of tunnels take over from each other.

use serde::Deserialize;

use super::marks::Dscp;

/// `[tunnel_headers]`: rules for all SAs in tunnel mode, where their own flags leave it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TunnelHeadersConfig {
    /// DF of outer IPv4 headers.
    pub(super) df: Df,
    /// DSCP of outer headers.
    pub(super) dscp: OuterDscp,
    /// Treatment of congestion marks of outer headers.
    pub(super) ecn: Ecn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Df {
    #[default]
    Copy,
    Set,
    Clear,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ecn {
    #[default]
    Rfc6040,
    Linux,
}

/// `"copy"`, or a code point as [`Dscp`] has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OuterDscp {
    #[default]
    Copy,
    Value(Dscp),
}

impl<'de> Deserialize<'de> for OuterDscp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = toml::Value::deserialize(deserializer)?;
        if written.as_str() == Some("copy") {
            return Ok(OuterDscp::Copy);
        }
        Dscp::deserialize(written).map(OuterDscp::Value).map_err(|error| {
            serde::de::Error::custom(format!("{}; or \"copy\"", error.to_string().trim_end()))
        })
    }
}

impl From<TunnelHeadersConfig> for esp::TunnelHeaders {
    fn from(config: TunnelHeadersConfig) -> Self {
        esp::TunnelHeaders {
            df: match config.df {
                Df::Copy => esp::OuterDf::Copy,
                Df::Set => esp::OuterDf::Set,
                Df::Clear => esp::OuterDf::Clear,
            },
            dscp: match config.dscp {
                OuterDscp::Copy => esp::OuterDscp::Copy,
                OuterDscp::Value(Dscp(value)) => esp::OuterDscp::Value(value),
            },
            ecn: match config.ecn {
                Ecn::Rfc6040 => esp::EcnDecap::Rfc6040,
                Ecn::Linux => esp::EcnDecap::Linux,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use esp::{EcnDecap, OuterDf, OuterDscp, TunnelHeaders};

    fn parse(lines: &str) -> Result<TunnelHeaders, String> {
        let text = format!("[tunnel_headers]\n{lines}");
        crate::Config::parse(&text, Path::new("culvert.toml"))
            .map(|config| config.tunnel_headers.into())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_rule_in_its_words() {
        let default = TunnelHeaders::default();
        let rows = [
            ("", default),
            ("df = \"copy\"\ndscp = \"copy\"\necn = \"rfc6040\"", default),
            ("df = \"set\"", TunnelHeaders { df: OuterDf::Set, ..default }),
            ("df = \"clear\"", TunnelHeaders { df: OuterDf::Clear, ..default }),
            ("dscp = 0", TunnelHeaders { dscp: OuterDscp::Value(0), ..default }),
            ("dscp = \"EF\"", TunnelHeaders { dscp: OuterDscp::Value(46), ..default }),
            ("ecn = \"linux\"", TunnelHeaders { ecn: EcnDecap::Linux, ..default }),
        ];
        for (lines, expected) in rows {
            assert_eq!(parse(lines), Ok(expected), "{lines}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_those_that_are() {
        for (lines, named) in [
            ("df = \"keep\"", ["copy", "clear"]),
            ("dscp = 64", ["0 to 63", "\"copy\""]),
            ("dscp = \"XX\"", ["AF43", "\"copy\""]),
            ("ecn = false", ["toml:2:", "ecn"]),
            ("ttl = 1", ["ttl", "dscp"]),
        ] {
            let error = parse(lines).unwrap_err();
            assert!(named.iter().all(|name| error.contains(name)), "{lines}: {error}");
        }
    }
}
