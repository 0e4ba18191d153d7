//! `[[tunnel]]`: tunnel interfaces, of an `if_id` or of marks.

use std::net::IpAddr;

use dataplane::{Binding, Vti};
use serde::Deserialize;

/// `[[tunnel]]`: a tunnel interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelConfig {
    /// Name of the interface.
    pub interface: String,
    /// The `if_id` of the policies and SAs that protect what is routed to it; 0 if it has marks.
    #[serde(default)]
    pub if_id: u32,
    /// The mark by which policies are asked about what comes in by it; 0 if it has an `if_id`.
    #[serde(default)]
    pub ikey: u32,
    /// The mark by which policies are asked about what is routed to it; 0 if it has an `if_id`.
    #[serde(default)]
    pub okey: u32,
    /// With marks: this end of its SAs; any without.
    pub local: Option<IpAddr>,
    /// With marks: the other end of its SAs; any without.
    pub remote: Option<IpAddr>,
    /// MTU of the interface, in bytes.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
}

const fn default_mtu() -> u32 {
    1400
}

impl TunnelConfig {
    /// SAs and policies that protect it.
    pub fn binding(&self) -> Binding {
        let &TunnelConfig { if_id, ikey, okey, local, remote, .. } = self;
        match if_id {
            0 => Binding::Vti(Vti { local, remote, ikey, okey }),
            _ => Binding::IfId(if_id),
        }
    }

    /// The first value that cannot be: its key, itself, and what is allowed.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let &TunnelConfig { if_id, ikey, okey, local, remote, mtu, .. } = self;
        let has_marks = ikey != 0 || okey != 0;
        if if_id == 0 && !has_marks {
            return Some(("if_id", "0".into(), "1 to 4294967295; or ikey and okey in its place"));
        }
        if if_id != 0 && (has_marks || local.is_some() || remote.is_some()) {
            let allowed = "nothing beside ikey and okey; or else no ikey, okey, local, remote";
            return Some(("if_id", if_id.to_string(), allowed));
        }
        if has_marks && (ikey == 0 || okey == 0) {
            let key = if ikey == 0 { "ikey" } else { "okey" };
            return Some((key, "0".into(), "1 to 4294967295, both of ikey and okey"));
        }
        if let (Some(local), Some(remote)) = (local, remote)
            && local.is_ipv4() != remote.is_ipv4()
        {
            return Some(("remote", remote.to_string(), "an address of local's family"));
        }
        let ends = [("local", local), ("remote", remote)];
        let unnamed = ends.into_iter().find(|(_, end)| end.is_some_and(|end| end.is_unspecified()));
        if let Some((key, Some(end))) = unnamed {
            return Some((key, end.to_string(), "an address; any other end has none"));
        }
        (!(1280..=9000).contains(&mtu)).then(|| ("mtu", mtu.to_string(), "between 1280 and 9000"))
    }
}

/// An end, for people.
pub fn or_any(end: Option<IpAddr>) -> String {
    end.map_or_else(|| "any".into(), |end| end.to_string())
}
