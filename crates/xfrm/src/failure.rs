//! Why a request fails: errno and the line that `NETLINK_EXT_ACK` carries.

use crate::backend::Refusal;

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident => $errno:ident, $text:expr;)*) => {
        /// Why a request fails.
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum Failure {
            $($(#[$doc])* #[error("{}", $text)] $name,)*
            /// An attribute breaks the table of lengths.
            #[error("attribute {kind} has a wrong length or value")]
            Attribute {
                /// Type of the attribute.
                kind: u16,
                /// Offset of the attribute in the message, in bytes.
                offset: u32,
                /// Positive errno for the client.
                errno: i32,
            },
            /// An algorithm that is not carried.
            #[error("culvert: algorithm {name} {detail} is not supported")]
            Algorithm {
                /// Name of the algorithm.
                name: String,
                /// Which form of it.
                detail: String,
            },
            /// A key that does not fit.
            #[error("culvert: a key of {bytes} bytes does not fit algorithm {name}")]
            KeyLength {
                /// Name of the algorithm.
                name: String,
                /// The key's length.
                bytes: usize,
            },
            /// The data path refuses.
            #[error(transparent)]
            Refused(#[from] Refusal),
        }

        impl Failure {
            /// Positive errno for the client.
            pub fn errno(&self) -> i32 {
                match self {
                    $(Failure::$name => libc::$errno,)*
                    Failure::Attribute { errno, .. } => *errno,
                    Failure::Algorithm { .. } => libc::ENOSYS,
                    Failure::KeyLength { .. } => libc::EINVAL,
                    Failure::Refused(r) => r.errno,
                }
            }

            /// Every failure that carries no data.
            #[cfg(test)]
            pub const PLAIN: &[Failure] = &[$(Failure::$name,)*];
        }
    };
}

failures! {
    /// The message type means nothing, or cannot be a request.
    MessageType => EINVAL, "not a request that XFRM knows";
    /// The fixed struct is cut short.
    HeaderLength => EINVAL, "the message is shorter than its fixed part";
    /// An SA's family.
    Family => EINVAL, "the address family must be IPv4 or IPv6";
    /// A selector's family.
    SelectorFamily => EINVAL, "the selector's family must be IPv4 or IPv6";
    /// The selector's family differs from the SA's in a mode that cannot change it.
    SelectorFamilyDiffers => EINVAL, "only tunnel mode can carry another address family";
    /// A selector's prefix length.
    PrefixLength => EINVAL, "a prefix of the selector is longer than its address";
    /// An SA's protocol.
    Protocol => EINVAL, "the protocol must be ESP, AH or IPComp";
    /// AH without its algorithm.
    AhAlgorithm => EINVAL, "AH needs an authentication algorithm";
    /// AH with something of ESP or IPComp.
    AhAttribute => EINVAL, "AH goes with no encryption, compression or TFC padding";
    /// AH in UDP.
    AhEncap => EINVAL, "AH does not go through UDP encapsulation";
    /// IPComp without its algorithm.
    IpCompAlgorithm => EINVAL, "IPComp needs a compression algorithm";
    /// IPComp with something of ESP or AH.
    IpCompAttribute => EINVAL, "IPComp goes with no encryption, authentication or TFC padding";
    /// IPComp in UDP.
    IpCompEncap => EINVAL, "IPComp does not go through UDP encapsulation, ESP around it does";
    /// A CPI of more than 16 bits.
    Cpi => EINVAL, "IPComp's SPI is a CPI of 16 bits";
    /// The companion of IPComp tunnels has another one's place.
    Digest => EEXIST, "culvert: another source of an IPComp tunnel to this address has the same digest";
    /// The companion of IPComp tunnels.
    Companion => EPERM, "the SA belongs to an IPComp tunnel, and goes with it";
    /// Mobile IPv6, which is not supported.
    MobileIpv6 => EPROTONOSUPPORT, "culvert: Mobile IPv6 is not supported";
    /// BEET, route optimisation.
    ModeUnsupported => EPROTONOSUPPORT, "culvert: only tunnel, transport and IP-TFS mode are supported";
    /// Settings of IP-TFS in another mode.
    IptfsOptions => EINVAL, "IP-TFS options need IP-TFS mode";
    /// IP-TFS of another protocol.
    IptfsProtocol => EINVAL, "IP-TFS mode is for ESP";
    /// IP-TFS without a direction.
    IptfsDirection => EINVAL, "IP-TFS mode needs a direction (dir in or dir out)";
    /// Settings of inbound IP-TFS in a request for an outbound SA.
    OutboundIptfs => EINVAL, "IP-TFS drop time and reorder window are for inbound SAs (dir in)";
    /// Settings of outbound IP-TFS in a request for an inbound SA.
    InboundIptfs => EINVAL, "IP-TFS dont-frag, init-delay, max-queue-size and pkt-size are for outbound SAs (dir out)";
    /// Outer packets with no room for a payload.
    IptfsPacketSize => EINVAL, "the IP-TFS packet size must be 0, or longer than the headers";
    /// A mode's number.
    Mode => EINVAL, "the mode is not known";
    /// SPI 0, which is reserved.
    SpiZero => EINVAL, "SPI 0 is reserved";
    /// Keys that the kernel does not tell.
    HiddenKeys => EPERM, "the kernel tells no keys (lockdown)";
    /// No algorithm at all.
    NoAlgorithm => EINVAL, "ESP needs a combined-mode algorithm, or encryption with authentication";
    /// Combined mode and separate algorithms.
    AlgorithmConflict => EINVAL, "a combined-mode algorithm goes with no other";
    /// Encryption without integrity.
    NoIntegrity => EPROTONOSUPPORT, "culvert: encryption without authentication is not supported";
    /// Authentication without `ecb(cipher_null)`.
    NoCipher => EINVAL, "ESP needs an encryption algorithm, ecb(cipher_null) for none";
    /// An algorithm's attribute is shorter than its key.
    AlgorithmLength => EINVAL, "an algorithm's key is longer than its attribute";
    /// Truncation above the hash.
    TruncationTooLong => EINVAL, "the truncation is longer than the hash";
    /// TFC padding outside tunnel mode.
    TfcMode => EINVAL, "TFC padding needs tunnel mode";
    /// ESN flag without its attribute.
    EsnWithoutState => EINVAL, "extended sequence numbers need the ESN replay attribute";
    /// The replay attribute itself.
    ReplayState => EINVAL, "the replay bitmap does not fit its attribute";
    /// A window in the SA beside the ESN replay attribute.
    ReplayWindowTwice => EINVAL, "the ESN replay attribute forbids a window in the SA";
    /// A window larger than its bitmap.
    ReplayWindow => EINVAL, "the replay window is larger than its bitmap";
    /// ESN without a window.
    ReplayWindowZero => EINVAL, "an ESN SA needs a replay window above 0";
    /// Replay attribute of another size than the SA's.
    ReplaySize => EINVAL, "the replay bitmap's size differs from the SA's";
    /// Mapping threshold without UDP encapsulation.
    MappingWithoutEncap => EINVAL, "a mapping threshold needs UDP encapsulation";
    /// A window on an outbound SA.
    OutboundWindow => EINVAL, "an outbound SA (dir out) has no replay window";
    /// Received numbers on an outbound SA.
    OutboundEdge => EINVAL, "an outbound SA (dir out) has received no sequence numbers";
    /// A bitmap on an outbound SA.
    OutboundBitmap => EINVAL, "an outbound SA (dir out) has no replay bitmap";
    /// A high half without ESN.
    OutboundHigh => EINVAL, "without ESN the last number sent has 32 bits";
    /// No number left.
    OutboundLast => EINVAL, "the last number sent leaves no further one";
    /// DSCP inwards on an outbound SA.
    OutboundDecapDscp => EINVAL, "flag decap-dscp is for inbound SAs (dir in)";
    /// ICMP on an outbound SA.
    OutboundIcmp => EINVAL, "flag icmp is for inbound SAs (dir in)";
    /// Mobile IPv6's flag on an outbound SA.
    OutboundWildRecv => EINVAL, "flag wildrecv is for inbound SAs (dir in)";
    /// Mappings on an outbound SA.
    OutboundMapping => EINVAL, "a mapping threshold is for inbound SAs (dir in)";
    /// Sent numbers on an inbound SA.
    InboundSent => EINVAL, "an inbound SA (dir in) has sent no sequence numbers";
    /// A high half without ESN.
    InboundHigh => EINVAL, "without ESN the highest number received has 32 bits";
    /// No number left.
    InboundLast => EINVAL, "the highest number received leaves no further one";
    /// Path MTU discovery on an inbound SA.
    InboundNoPmtuDisc => EINVAL, "flag nopmtudisc is for outbound SAs (dir out)";
    /// DSCP outwards on an inbound SA.
    InboundDontEncapDscp => EINVAL, "extra flag dont-encap-dscp is for outbound SAs (dir out)";
    /// Numbers of an inbound SA.
    InboundMayWrap => EINVAL, "extra flag oseq-may-wrap is for outbound SAs (dir out)";
    /// Encapsulation other than UDP.
    EncapKind => EPROTONOSUPPORT, "culvert: only ESP in UDP (RFC 3948) is supported";
    /// Encapsulation added, removed or of another kind.
    EncapChange => EINVAL, "an update cannot add or remove encapsulation";
    /// An update with another direction.
    OtherDirection => ESRCH, "the SA of this destination, SPI, protocol and mark has another direction";
    /// Flags of an offload request.
    OffloadFlags => EINVAL, "unrecognized flags in the offload request";
    /// Direction of an offload request.
    OffloadDirection => EINVAL, "mismatched SA and offload direction";
    /// The interface id of an inbound SA that a device is to have.
    OffloadIfId => EINVAL, "an XFRM interface id is not supported for offload of what is received";
    /// TFC padding of an SA that a device is to have.
    OffloadTfc => EINVAL, "TFC padding can't be offloaded";
    /// NAT keepalives by the kernel.
    Keepalive => EOPNOTSUPP, "culvert: NAT keepalives by the database are not supported";
    /// An SA for a CPU without a direction.
    CpuWithoutDirection => EINVAL, "an SA of a CPU needs a direction (dir in or dir out)";
    /// A CPU that the host does not have.
    Cpu => ERANGE, "the SA's CPU is beyond those of this host";
    /// The same in a reservation.
    CpuOfReservation => EINVAL, "the SA's CPU is beyond those of this host";
    /// A new SA that is there already.
    SaExists => EEXIST, "an SA with this destination, SPI, protocol and mark exists";
    /// An SA that is not there.
    NoSa => ESRCH, "no such SA";
    /// SA missing, where Linux says so.
    NoSaEntry => ENOENT, "no such SA";
    /// An SA without keys.
    NotValid => EINVAL, "the SA has no keys yet";
    /// Source address missing.
    NoSource => EINVAL, "this protocol needs the source address";
    /// Protocol without SPIs.
    SpiProtocol => EINVAL, "SPIs belong to ESP, AH and IPComp";
    /// A range of SPIs that is empty, or not the protocol's.
    SpiRange => EINVAL, "the smallest SPI is above the largest, or beyond the protocol's range";
    /// No SPI left.
    SpiExhausted => ENOENT, "no SPI of the range is free";
    /// Nothing to set.
    NothingToSet => EINVAL, "neither replay state nor lifetime nor threshold is given";
    /// A request for replay state without `NLM_F_REPLACE`.
    NotReplace => EINVAL, "replay state can only be replaced (NLM_F_REPLACE)";
    /// A share of a policy that is not known.
    Share => EINVAL, "the policy's share is not known";
    /// An action of a policy that is not known.
    PolicyAction => EINVAL, "the policy's action is not known";
    /// A direction of a policy that is not known.
    PolicyDirection => EINVAL, "the policy's direction must be in, out or fwd";
    /// Index and direction.
    PolicyIndex => EINVAL, "the policy's index belongs to another direction";
    /// A type of policy other than main.
    PolicyType => EINVAL, "only main policies are known";
    /// Too many templates.
    TemplateCount => EINVAL, "a policy has at most 6 templates";
    /// Optional outbound tunnel.
    TemplateOptional => EINVAL, "an outbound template of tunnel mode cannot be optional";
    /// Family change in transport mode.
    TemplateFamilyChange => EINVAL, "a template of transport mode cannot change the address family";
    /// A mode of a template that is not known.
    TemplateMode => EINVAL, "a template's mode is not known";
    /// An address family of a template that is not known.
    TemplateFamily => EINVAL, "a template's address family must be IPv4 or IPv6";
    /// A protocol of a template other than ESP, AH and IPComp.
    TemplateProtocol => EINVAL, "a template's protocol must be ESP, AH or IPComp";
    /// A new policy that is there already.
    PolicyExists => EEXIST, "a policy with this selector, direction, mark and interface id exists";
    /// A policy that is not there.
    NoPolicy => ENOENT, "no such policy";
    /// A security context of the wrong length.
    SecurityContext => EINVAL, "the security context's length is wrong";
    /// A hash threshold above the length of an address.
    HashThreshold => EINVAL, "a hash threshold is longer than an address";
    /// A prefix of a dump's filter above the length of an address.
    DumpFilter => EINVAL, "a prefix of the dump's filter is longer than an address";
    /// A migration without the attribute of the ends.
    MigrateMissing => EINVAL, "a migration needs the attribute with the ends";
    /// Too many entries, or none.
    MigrateCount => EINVAL, "a migration has 1 to 6 entries";
    /// An end that is no address of a host.
    MigrateAddress => EINVAL, "the ends of a migration must be addresses of hosts";
    /// Two entries about one SA.
    MigrateTwice => EINVAL, "two entries of a migration have the same old ends";
    /// The reserved field of a migration.
    MigrateReserved => EINVAL, "the reserved field of a migration must be zero";
    /// Flags of a migration.
    MigrateFlags => EINVAL, "a flag of the migration is not known";
    /// A selector that cannot follow the ends.
    MigrateSelector => EINVAL, "the SA's selector is not that of its two ends, so it cannot follow them";
    /// Encapsulation of a migration.
    MigrateEncap => EINVAL, "a migration knows ESP in UDP (RFC 3948), or 0 for no encapsulation";
    /// Keepalives without UDP encapsulation.
    KeepaliveWithoutEncap => EINVAL, "NAT keepalives need UDP encapsulation";
    /// The policy to move.
    MigratePolicy => ENOENT, "no policy has this selector, direction and interface id";
    /// Templates of the policy to move.
    MigrateTemplate => ENODATA, "no template of the policy has these ends";
}

impl Failure {
    /// The text for `NLMSGERR_ATTR_MSG`.
    pub fn text(&self) -> String {
        self.to_string()
    }

    /// True if an operator has to know: the request asked for something that culvert does not
    /// carry.
    pub fn is_for_operators(&self) -> bool {
        match self {
            Failure::Algorithm { .. } | Failure::KeyLength { .. } | Failure::Refused(_) => true,
            other => matches!(other.errno(), libc::EPROTONOSUPPORT | libc::EOPNOTSUPP),
        }
    }

    /// Offset of the offending attribute, for `NLMSGERR_ATTR_OFFS`.
    pub fn offset(&self) -> Option<u32> {
        match self {
            Failure::Attribute { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_an_errno_and_one_line() {
        for f in Failure::PLAIN {
            assert!(f.errno() > 0, "{f:?}");
            let text = f.text();
            assert!(!text.is_empty() && !text.contains('\n') && text.len() < 100, "{f:?}");
        }
    }
}
