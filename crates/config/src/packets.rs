//! Keys that say which packets `[[limit]]` and `[[steer]]` are about: read, checked and handed on in one place.

use apps::AppId;
use dataplane::{TrafficDirection, TrafficMatch};
use serde::Deserialize;

use super::marks::{Dscp, MarkConfig};
use super::prefix::AddressPrefix;

/// Which way packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// To peers, or in clear.
    #[default]
    Out,
    /// Packets from peers.
    In,
    /// Packets of both directions.
    Both,
}

impl From<Way> for TrafficDirection {
    fn from(way: Way) -> TrafficDirection {
        match way {
            Way::Out => TrafficDirection::Out,
            Way::In => TrafficDirection::In,
            Way::Both => TrafficDirection::Both,
        }
    }
}

/// Conditions of an entry. A packet must meet all that are there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets<'c> {
    /// Which way they go.
    pub direction: Way,
    /// The interface that they, or their ESP packets, come in by.
    pub interface: Option<&'c str>,
    /// Where they come from.
    pub src: Option<AddressPrefix>,
    /// Where they go.
    pub dst: Option<AddressPrefix>,
    /// DSCP of the packets.
    pub dscp: Option<Dscp>,
    /// Mark of the packets.
    pub mark: Option<u32>,
    /// Application of their flow.
    pub application: Option<&'c str>,
}

/// Declares an entry whose packets are those of [`Packets`], with a key for each condition.
///
/// A macro because `#[serde(flatten)]` buffers the table: an error would know neither the key's place in the file nor the
/// keys that there are.
macro_rules! with_packet_keys {
    ($(#[$of_entry:meta])* pub struct $name:ident { $($(#[$of_key:meta])* pub $key:ident: $of:ty,)* }) => {
        $(#[$of_entry])*
        pub struct $name {
            $($(#[$of_key])* pub $key: $of,)*
            /// Which way packets go: `out` are those that were not decrypted here.
            #[serde(default)]
            pub direction: $crate::packets::Way,
            /// The interface that packets, or their ESP packets, come in by.
            #[serde(default)]
            pub interface: Option<String>,
            /// Where they come from.
            #[serde(default)]
            pub src: Option<$crate::prefix::AddressPrefix>,
            /// Where they go.
            #[serde(default)]
            pub dst: Option<$crate::prefix::AddressPrefix>,
            /// DSCP of the packets.
            #[serde(default)]
            pub dscp: Option<$crate::marks::Dscp>,
            /// Mark of the packets.
            #[serde(default)]
            pub mark: Option<u32>,
            /// Application of their flow (`[applications]`), by its name.
            #[serde(default)]
            pub application: Option<String>,
        }

        impl $name {
            /// Packets that the entry is about.
            pub fn packets(&self) -> $crate::packets::Packets<'_> {
                $crate::packets::Packets {
                    direction: self.direction,
                    interface: self.interface.as_deref(),
                    src: self.src,
                    dst: self.dst,
                    dscp: self.dscp,
                    mark: self.mark,
                    application: self.application.as_deref(),
                }
            }
        }
    };
}
pub(super) use with_packet_keys;

impl<'c> From<&'c MarkConfig> for Packets<'c> {
    fn from(rule: &'c MarkConfig) -> Packets<'c> {
        let MarkConfig { interface, dscp, src, dst, mark: _ } = rule;
        let interface = interface.as_deref();
        Packets { interface, dscp: *dscp, src: *src, dst: *dst, ..Packets::default() }
    }
}

impl Packets<'_> {
    /// True if there is a condition besides the direction.
    pub fn has_conditions(&self) -> bool {
        let Packets { direction: _, interface, src, dst, dscp, mark, application } = self;
        interface.is_some()
            || src.is_some()
            || dst.is_some()
            || dscp.is_some()
            || mark.is_some()
            || application.is_some()
    }

    /// True if it is about all packets that another entry is about.
    pub(super) fn covers(&self, other: &Packets<'_>) -> bool {
        fn holds<T: PartialEq>(wanted: Option<T>, others: Option<T>) -> bool {
            wanted.is_none() || wanted == others
        }
        let within = |wide: Option<AddressPrefix>, narrow: Option<AddressPrefix>| {
            wide.is_none_or(|wide| narrow.is_some_and(|narrow| wide.covers(narrow)))
        };
        let Packets { direction, interface, src, dst, dscp, mark, application } = *self;
        (direction == Way::Both || direction == other.direction)
            && holds(interface, other.interface)
            && within(src, other.src)
            && within(dst, other.dst)
            && holds(dscp, other.dscp)
            && holds(mark, other.mark)
            && holds(application, other.application)
    }

    /// The rule that workers read, on packets that come in by one of `interfaces`; any if there are none.
    pub fn matches(
        &self,
        interfaces: impl IntoIterator<Item = u32>,
        application: Option<AppId>,
    ) -> TrafficMatch {
        TrafficMatch {
            direction: self.direction.into(),
            interfaces: interfaces.into_iter().collect(),
            src: self.src.map(|prefix| prefix.0),
            dst: self.dst.map(|prefix| prefix.0),
            dscp: self.dscp.map(|dscp| dscp.0),
            mark: self.mark,
            application,
            ..TrafficMatch::default()
        }
    }

    /// The first value that cannot be: its key, itself, and what is allowed.
    pub(super) fn problem(
        &self,
        is_interface: fn(&str) -> bool,
    ) -> Option<(&'static str, String, &'static str)> {
        if let Some(name) = self.interface.filter(|name| !is_interface(name)) {
            return Some(("interface", name.to_owned(), INTERFACE_RULE));
        }
        if let (Some(src), Some(dst)) = (self.src, self.dst)
            && src.0.addr.is_ipv4() != dst.0.addr.is_ipv4()
        {
            let allowed = "of the family of src, or the entry matches nothing";
            return Some(("dst", dst.0.addr.to_string(), allowed));
        }
        None
    }
}

/// Rule for names of interfaces, in an operator's words.
pub(super) const INTERFACE_RULE: &str =
    "an interface's name has 1 to 15 characters, without '/' and spaces";
