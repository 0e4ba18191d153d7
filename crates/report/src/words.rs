//! Fields of answers that are one of a few words, so that what reads them compares values and not texts.
//!
//! In JSON each is its word. A word that is not known here, as a daemon of another version may say, is kept as it is.

use serde::{Deserialize, Serialize};

/// Makes an enum of words; the text says what any other word is.
macro_rules! words {
    (
        $(#[$about:meta])*
        $name:ident, $other:literal { $($(#[$word:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$word])* $variant,)+
            #[doc = $other]
            Other(String),
        }

        impl $name {
            /// The word, as JSON and people have it.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)+
                    $name::Other(text) => text,
                }
            }
        }

        impl Default for $name {
            /// No word at all.
            fn default() -> $name {
                $name::Other(String::new())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                match text {
                    $($text => $name::$variant,)+
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> $name {
                text.as_str().into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer).map($name::from)
            }
        }
    };
}
pub(crate) use words;

words! {
    /// State of a session of BFD.
    BfdState, "A state of a later version." {
        /// Switched off by an operator.
        AdminDown = "admin-down",
        /// No packet of the peer, or the peer says that it is down.
        Down = "down",
        /// The peer is heard, and does not hear this end.
        Init = "init",
        /// Both ends hear each other.
        Up = "up",
    }
}

words! {
    /// The owner of SAs and policies.
    Owner, "An owner that is not known here." {
        /// The daemon's own database.
        Builtin = "builtin",
        /// The kernel's database.
        Kernel = "kernel",
    }
}

words! {
    /// The protocol of an SA, as `ip xfrm state` calls it.
    SaProtocol, "Another protocol: the number that the kernel has for it." {
        /// Encapsulating security payload.
        Esp = "esp",
        /// Authentication header (RFC 4302).
        Ah = "ah",
        /// IP payload compression.
        Comp = "comp",
        /// IPv4 in IP, under a compressed packet.
        IpInV4 = "4",
        /// IPv6 in IP, under a compressed packet.
        IpInV6 = "ipv6",
    }
}

words! {
    /// The mode of an SA.
    SaMode, "Another mode of the kernel's." {
        /// Whole packets in new ones.
        Tunnel = "tunnel",
        /// The payload of packets between its ends.
        Transport = "transport",
        /// Packets in a stream of tunnel packets (RFC 9347).
        Iptfs = "iptfs",
    }
}

words! {
    /// The direction of an SA or a policy.
    Direction, "A direction that is not known here." {
        /// Received from peers.
        In = "in",
        /// Sent to peers.
        Out = "out",
        /// Through this host; of policies alone.
        Forward = "fwd",
    }
}

words! {
    /// The place where packets of an SA are worked on.
    SaPlacement, "A place that is not known here." {
        /// The daemon's workers.
        Software = "software",
        /// An offload device does the crypto.
        Crypto = "crypto offload",
        /// An offload device does all of IPsec.
        Packet = "packet offload",
        /// The kernel, which owns SAs and has this one.
        Kernel = "kernel",
    }
}

words! {
    /// The protocol that a policy is about.
    PolicyProtocol, "The name or number of one." {
        /// Packets of any protocol.
        Any = "any",
    }
}

words! {
    /// The action of a policy.
    PolicyAction, "An action that is not known here." {
        /// Packets need an SA.
        Protect = "protect",
        /// Packets pass as they are.
        Bypass = "bypass",
        /// Packets are dropped.
        Block = "block",
        /// Packets are dropped, as culvert cannot carry out what is asked.
        Unsupported = "block (unsupported)",
        /// No tunnel interface has the policy's `if_id`.
        NoTunnel = "none (no tunnel)",
        /// The kernel carries it out.
        Leave = "leave",
    }
}

words! {
    /// The kind of a port.
    PortKind, "A kind that is not known here." {
        /// AF_XDP sockets of an interface's queues.
        AfXdp = "af-xdp",
        /// Packet sockets (AF_PACKET) with super-packets.
        Packet = "packet",
        /// One of these, which is chosen when the port opens.
        Auto = "auto",
        /// Memory that an application shares.
        Memif = "memif",
        /// Sockets of IKE daemons that bring ESP in UDP.
        Udp = "udp",
        /// A VLAN of a port.
        Vlan = "vlan",
        /// The private interface.
        Tun = "tun",
        /// A tunnel interface.
        Tunnel = "tunnel",
    }
}

words! {
    /// The way in which a port works.
    PortMode, "The mode of a port without AF_XDP sockets." {
        /// The driver runs the program; frames are copied.
        NativeCopy = "native, copy",
        /// The driver runs the program; frames stay where they are.
        NativeZeroCopy = "native, zero-copy",
        /// Linux runs the program; frames are copied.
        GenericCopy = "generic, copy",
        /// Linux runs the program; frames stay where they are.
        GenericZeroCopy = "generic, zero-copy",
    }
}

impl PortMode {
    /// True if Linux runs the program, as the driver does not.
    pub const fn is_generic(&self) -> bool {
        matches!(self, PortMode::GenericCopy | PortMode::GenericZeroCopy)
    }

    /// True if frames are copied, of AF_XDP sockets.
    pub const fn copies(&self) -> Option<bool> {
        match self {
            PortMode::NativeCopy | PortMode::GenericCopy => Some(true),
            PortMode::NativeZeroCopy | PortMode::GenericZeroCopy => Some(false),
            PortMode::Other(_) => None,
        }
    }
}

words! {
    /// The state of a port or an offload device.
    State, "Why it does not work." {
        /// It works without trouble.
        Up = "up",
    }
}

words! {
    /// The state of an SA.
    SaState, "A state that is not known here." {
        /// In use for both directions.
        Valid = "valid",
        /// Past a soft limit: in use until another one replaces it.
        Dying = "dying",
        /// Past a hard limit: carries nothing.
        Expired = "expired",
    }
}

words! {
    /// The behaviour of a worker when no packets come.
    Polling, "A behaviour that is not known here." {
        /// It sleeps after a while.
        Adaptive = "adaptive",
        /// It never sleeps.
        Always = "always",
    }
}

words! {
    /// The kind of pages that packet buffers are on.
    BufferPages, "A kind that is not known here." {
        /// Huge pages that were set aside.
        Reserved = "reserved huge pages",
        /// Huge pages that the kernel has made of others.
        Transparent = "transparent huge pages",
        /// Pages of the usual size.
        Small = "small pages",
    }
}

words! {
    /// The fate of a packet.
    PacketFate, "A fate that is not known here." {
        /// Sealed, and sent.
        Protected = "protected",
        /// Given to the offload device that has its SA.
        Offloaded = "offloaded",
        /// Sent in clear, as `culvert why` says it.
        Forwarded = "forwarded",
        /// Sent, as captures say it.
        Sent = "sent",
        /// Opened by an SA, as `culvert why` says it.
        Opened = "opened",
        /// Opened by an SA and accepted, as captures say it.
        Decrypted = "decrypted",
        /// Given to Linux.
        ToLinux = "to-linux",
        /// Given to an application that terminates GTP-U.
        ToApplication = "to-application",
        /// Given to another worker.
        HandedOver = "handed-over",
        /// A segment of SRv6 was carried out, and the packet is looked at again.
        Stepped = "stepped",
        /// The packet loses the headers of its overlay, and is resolved again.
        Decapsulated = "decapsulated",
        /// Held until its SA comes.
        WaitsForSa = "waits-for-sa",
        /// Held until its other fragments come.
        WaitsForFragments = "waits-for-fragments",
        /// Held, as captures say it.
        Held = "held",
        /// Cut into several packets.
        Cut = "cut",
        /// Answered by an ICMP error.
        Answered = "answered",
        /// Dropped, for a reason of `culvert drops`.
        Dropped = "dropped",
        /// Used up: keepalives, dummies, fragments whose packet goes on whole.
        Consumed = "consumed",
        /// Its end came too late for the capture.
        Unknown = "unknown",
    }
}

/// The fate of VLAN tags that a driver takes out of frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StrippedTags {
    /// A program puts them back.
    PutBack,
    /// They are lost, for this reason.
    Lost(String),
    /// A fate that is not known here.
    Other(String),
}

impl From<String> for StrippedTags {
    fn from(text: String) -> StrippedTags {
        match text.strip_prefix("lost: ") {
            Some(why) => StrippedTags::Lost(why.to_owned()),
            None if text == "put back" => StrippedTags::PutBack,
            None => StrippedTags::Other(text),
        }
    }
}

impl From<StrippedTags> for String {
    fn from(tags: StrippedTags) -> String {
        match tags {
            StrippedTags::PutBack => "put back".to_owned(),
            StrippedTags::Lost(why) => format!("lost: {why}"),
            StrippedTags::Other(text) => text,
        }
    }
}

words! {
    /// The kind of a route, as `ip route` calls it.
    RouteKind, "Another kind of the kernel's." {
        /// To the next hops.
        Unicast = "unicast",
        /// To this host.
        Local = "local",
        /// Broadcast on the link layer.
        Broadcast = "broadcast",
        /// Anycast address of this host.
        Anycast = "anycast",
        /// Packets to a multicast group.
        Multicast = "multicast",
        /// Drops packets without an ICMP error.
        Blackhole = "blackhole",
        /// Drops, with ICMP unreachable.
        Unreachable = "unreachable",
        /// Drops, with ICMP prohibited.
        Prohibit = "prohibit",
        /// The look-up goes on with the next rule.
        Throw = "throw",
    }
}

words! {
    /// The state of a neighbour, as `ip neighbour` calls it.
    NeighbourState, "Another state of the kernel's." {
        /// Being asked for.
        Incomplete = "incomplete",
        /// Usable, and confirmed lately.
        Reachable = "reachable",
        /// Usable, to be confirmed when used.
        Stale = "stale",
        /// Usable, confirmation due.
        Delay = "delay",
        /// Usable, being confirmed.
        Probe = "probe",
        /// Without an answer so far.
        Failed = "failed",
        /// Set by hand, not to be resolved.
        NoArp = "noarp",
        /// Set by hand, and usable.
        Permanent = "permanent",
        /// No entry, or another state.
        None = "none",
    }
}

words! {
    /// The kind of an offload device, as the configuration spells it.
    DeviceKind, "A kind that is not known here." {
        /// The model of a NIC with inline crypto.
        NicModel = "nic-model",
        /// A crypto device of DPDK's.
        Cryptodev = "cryptodev",
        /// The model of a NIC that does all of IPsec.
        PacketNicModel = "packet-nic-model",
        /// The gateway in hardware, simulated.
        RtlSimulation = "rtl-simulation",
    }
}

words! {
    /// The place at which a packet is recorded.
    Tap, "A place that is not known here." {
        /// Protected, as it is on the wire.
        Wire = "wire",
        /// In clear, before or after protection.
        Plain = "plain",
        /// A frame in which no IP packet for this host was found.
        Frame = "frame",
    }
}

words! {
    /// The question of a step of `culvert why`.
    WhyQuestion, "A question that is not known here." {
        /// The barrier that the guard has in the kernel.
        Guard = "guard",
        /// The program that decides which packets culvert takes.
        Steering = "steering",
        /// The application that the flow is of.
        Application = "application",
        /// This host, or another one.
        For = "for",
        /// The way that Linux knows.
        Linux = "Linux",
        /// The mark that a rule gives.
        Mark = "mark",
        /// The policy, which is not asked.
        Policy = "policy",
        /// The inbound policy.
        PolicyIn = "policy in",
        /// The outbound policy.
        PolicyOut = "policy out",
        /// The policy on packets of other hosts.
        PolicyForward = "policy fwd",
        /// The rate limit on the packet.
        Limit = "limit",
        /// The rule of path selection.
        Steer = "steer",
        /// The translation by Linux's NAT.
        Nat = "NAT",
        /// The SA that protects, or opens.
        Sa = "SA",
        /// The segment of SRv6 that a packet is at.
        Segment = "segment",
        /// The segments of SRv6 that a packet gets.
        Headend = "segments",
        /// The overlay that a packet is put into.
        Overlay = "overlay",
        /// The route that leads a packet on.
        Route = "route",
        /// The neighbour on the way.
        Neighbour = "neighbour",
        /// The path's MTU.
        Size = "size",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_its_json_and_comes_back() {
        let json = |kind: &PortKind| serde_json::to_string(kind).expect("a string");
        assert_eq!(json(&PortKind::AfXdp), "\"af-xdp\"");
        for word in ["af-xdp", "tunnel", "of-a-later-version", ""] {
            let kind: PortKind = serde_json::from_str(&format!("{word:?}")).expect("a word");
            assert_eq!((kind.as_str(), json(&kind)), (word, format!("{word:?}")));
        }
        assert_eq!(PortKind::from("tunnel"), PortKind::Tunnel);
        assert_eq!(format!("{:<7}|", PortKind::Tun), "tun    |");
    }

    #[test]
    fn stripped_tags_have_their_reason_in_json() {
        for (tags, text) in [
            (StrippedTags::PutBack, "put back"),
            (StrippedTags::Lost("no function".into()), "lost: no function"),
            (StrippedTags::Other("of a later version".into()), "of a later version"),
        ] {
            let json = serde_json::to_value(&tags).expect("a string");
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<StrippedTags>(json).expect("a word"), tags);
        }
    }

    #[test]
    fn modes_of_ports_are_told_apart() {
        let mode = |text: &str| PortMode::from(text);
        assert!(mode("generic, copy").is_generic() && !mode("native, copy").is_generic());
        let copies =
            ["native, copy", "native, zero-copy", "server"].map(|text| mode(text).copies());
        assert_eq!(copies, [Some(true), Some(false), None]);
    }
}
