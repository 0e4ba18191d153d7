//! Attributes: parsed as Linux's liberal parser does, against the same table of lengths.

use netlink::Field;

/// Attribute types (`XFRMA_*`).
pub mod attr {
    /// Authentication algorithm with its default truncation.
    pub const ALG_AUTH: u16 = 1;
    /// Encryption algorithm (`xfrm_algo`).
    pub const ALG_CRYPT: u16 = 2;
    /// Compression algorithm (`xfrm_algo`).
    pub const ALG_COMP: u16 = 3;
    /// UDP encapsulation (`xfrm_encap_tmpl`).
    pub const ENCAP: u16 = 4;
    /// Templates of a policy (`xfrm_user_tmpl`, several).
    pub const TMPL: u16 = 5;
    /// An SA (`xfrm_usersa_info`).
    pub const SA: u16 = 6;
    /// A policy (`xfrm_userpolicy_info`).
    pub const POLICY: u16 = 7;
    /// Security context (`xfrm_user_sec_ctx`).
    pub const SEC_CTX: u16 = 8;
    /// Used lifetime (`xfrm_lifetime_cur`).
    pub const LTIME_VAL: u16 = 9;
    /// Replay state without ESN (`xfrm_replay_state`).
    pub const REPLAY_VAL: u16 = 10;
    /// Replay event threshold in packets.
    pub const REPLAY_THRESH: u16 = 11;
    /// Replay event timer.
    pub const ETIMER_THRESH: u16 = 12;
    /// Source address (`xfrm_address_t`).
    pub const SRCADDR: u16 = 13;
    /// Care-of address (`xfrm_address_t`).
    pub const COADDR: u16 = 14;
    /// Second of the last use (`__u64`).
    pub const LASTUSED: u16 = 15;
    /// Main or sub policy.
    pub const POLICY_TYPE: u16 = 16;
    /// Ends to migrate (`xfrm_user_migrate`).
    pub const MIGRATE: u16 = 17;
    /// Algorithm of combined mode (`xfrm_algo_aead`).
    pub const ALG_AEAD: u16 = 18;
    /// IKE's addresses (`xfrm_user_kmaddress`).
    pub const KMADDRESS: u16 = 19;
    /// Authentication algorithm with its truncation.
    pub const ALG_AUTH_TRUNC: u16 = 20;
    /// Mark with its mask (`xfrm_mark`).
    pub const MARK: u16 = 21;
    /// Traffic flow confidentiality padding.
    pub const TFCPAD: u16 = 22;
    /// Replay state with a bitmap of any size.
    pub const REPLAY_ESN_VAL: u16 = 23;
    /// Further flags of an SA (`__u32`).
    pub const SA_EXTRA_FLAGS: u16 = 24;
    /// Protocol, filter of a dump.
    pub const PROTO: u16 = 25;
    /// Addresses, filter of a dump.
    pub const ADDRESS_FILTER: u16 = 26;
    /// Offload device (`xfrm_user_offload`).
    pub const OFFLOAD_DEV: u16 = 28;
    /// Mark set on packets.
    pub const SET_MARK: u16 = 29;
    /// Bits of it.
    pub const SET_MARK_MASK: u16 = 30;
    /// Id of an XFRM interface (`__u32`).
    pub const IF_ID: u16 = 31;
    /// Seconds between mapping messages.
    pub const MTIMER_THRESH: u16 = 32;
    /// Direction of an SA.
    pub const SA_DIR: u16 = 33;
    /// NAT keepalive interval in seconds.
    pub const NAT_KEEPALIVE_INTERVAL: u16 = 34;
    /// CPU of an SA.
    pub const SA_PCPU: u16 = 35;
    /// IP-TFS, inbound: microseconds that a missing packet is waited for.
    pub const IPTFS_DROP_TIME: u16 = 36;
    /// IP-TFS, inbound: packets that are kept for a missing one.
    pub const IPTFS_REORDER_WINDOW: u16 = 37;
    /// IP-TFS, outbound: no inner packet is spread over several.
    pub const IPTFS_DONT_FRAG: u16 = 38;
    /// IP-TFS, outbound: microseconds that the first packet waits for others.
    pub const IPTFS_INIT_DELAY: u16 = 39;
    /// IP-TFS, outbound: most bytes that wait.
    pub const IPTFS_MAX_QSIZE: u16 = 40;
    /// IP-TFS, outbound: length of outer packets.
    pub const IPTFS_PKT_SIZE: u16 = 41;
    /// The last type that is known.
    pub const MAX: u16 = 41;

    /// In `SPDINFO` messages: counts.
    pub const SPD_INFO: u16 = 1;
    /// In `SPDINFO` messages: hash table.
    pub const SPD_HINFO: u16 = 2;
    /// In `SPDINFO` messages: IPv4 thresholds.
    pub const SPD_IPV4_HTHRESH: u16 = 3;
    /// In `SPDINFO` messages: IPv6 thresholds.
    pub const SPD_IPV6_HTHRESH: u16 = 4;
    /// In `SADINFO` messages: count.
    pub const SAD_CNT: u16 = 1;
    /// In `SADINFO` messages: hash table.
    pub const SAD_HINFO: u16 = 2;
}

/// An attribute that breaks the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attribute {kind} has a wrong length or value")]
pub struct BadAttribute {
    /// Type of the attribute.
    pub kind: u16,
    /// Where its header starts, in bytes from the start of the attributes.
    pub offset: usize,
    /// `EINVAL` for a strict type of wrong length, `ERANGE` for one that is too short.
    pub errno: i32,
}

/// The attributes of a message, the last of each type. Types above [`attr::MAX`] are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>([Option<&'a [u8]>; attr::MAX as usize + 1]);

impl<'a> Attributes<'a> {
    /// Parses; whatever is unsound at the end is ignored, as Linux does.
    ///
    /// # Errors
    /// An attribute of a known type is shorter than its type asks for.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadAttribute> {
        let mut found = [None; attr::MAX as usize + 1];
        walk(bytes, |kind, offset, value| {
            let Some(slot) = found.get_mut(usize::from(kind)).filter(|_| kind != 0) else {
                return Ok(());
            };
            check(kind, value).map_err(|errno| BadAttribute { kind, offset, errno })?;
            *slot = Some(value);
            Ok(())
        })?;
        Ok(Attributes(found))
    }

    /// The attribute's bytes.
    pub fn bytes(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.get(usize::from(kind)).copied().flatten()
    }

    /// True if the attribute is there.
    pub fn has(&self, kind: u16) -> bool {
        self.bytes(kind).is_some()
    }

    /// The attribute's value of a fixed layout; the table already checked the length.
    pub fn value<T: Field>(&self, kind: u16) -> Option<T> {
        T::decode(self.bytes(kind)?).ok()
    }
}

/// The attributes of `XFRM_MSG_NEWSPDINFO`, which have numbers of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpdAttributes<'a> {
    /// Thresholds of IPv4's hash tables.
    pub ipv4: Option<&'a [u8]>,
    /// Thresholds of IPv6's hash tables.
    pub ipv6: Option<&'a [u8]>,
}

impl<'a> SpdAttributes<'a> {
    /// Parses.
    ///
    /// # Errors
    /// A threshold is shorter than 2 bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadAttribute> {
        let mut found = SpdAttributes::default();
        walk(bytes, |kind, offset, value| {
            let slot = match kind {
                attr::SPD_IPV4_HTHRESH => &mut found.ipv4,
                attr::SPD_IPV6_HTHRESH => &mut found.ipv6,
                _ => return Ok(()),
            };
            if value.len() < 2 {
                return Err(BadAttribute { kind, offset, errno: libc::ERANGE });
            }
            *slot = Some(value);
            Ok(())
        })?;
        Ok(found)
    }
}

/// Calls `each` with type, offset and value of every sound attribute.
fn walk<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(u16, usize, &'a [u8]) -> Result<(), BadAttribute>,
) -> Result<(), BadAttribute> {
    let mut all = netlink::Attributes::new(bytes);
    loop {
        let offset = bytes.len() - all.rest().len();
        let Some((kind, value)) = all.next() else { return Ok(()) };
        each(kind, offset, value)?;
    }
}

/// Checks the length, and of strict types the value.
fn check(kind: u16, value: &[u8]) -> Result<(), i32> {
    let (min, strict) = match kind {
        attr::ALG_AUTH | attr::ALG_CRYPT | attr::ALG_COMP => (68, false),
        attr::ALG_AEAD | attr::ALG_AUTH_TRUNC => (72, false),
        attr::ENCAP | attr::REPLAY_ESN_VAL => (24, false),
        attr::TMPL => (64, false),
        attr::SA => (224, false),
        attr::POLICY => (168, false),
        attr::SEC_CTX | attr::LASTUSED | attr::MARK | attr::OFFLOAD_DEV => (8, false),
        attr::LTIME_VAL => (32, false),
        attr::REPLAY_VAL => (12, false),
        attr::SRCADDR | attr::COADDR => (16, false),
        attr::POLICY_TYPE => (6, false),
        attr::MIGRATE => (76, false),
        attr::KMADDRESS => (40, false),
        attr::PROTO => (1, false),
        attr::ADDRESS_FILTER => (36, false),
        attr::REPLAY_THRESH
        | attr::ETIMER_THRESH
        | attr::TFCPAD
        | attr::SA_EXTRA_FLAGS
        | attr::SET_MARK
        | attr::SET_MARK_MASK
        | attr::IF_ID
        | attr::MTIMER_THRESH => (4, false),
        attr::SA_DIR => (1, true),
        attr::NAT_KEEPALIVE_INTERVAL
        | attr::SA_PCPU
        | attr::IPTFS_DROP_TIME
        | attr::IPTFS_INIT_DELAY
        | attr::IPTFS_MAX_QSIZE
        | attr::IPTFS_PKT_SIZE => (4, true),
        attr::IPTFS_REORDER_WINDOW => (2, true),
        // A flag.
        attr::IPTFS_DONT_FRAG if !value.is_empty() => return Err(libc::ERANGE),
        _ => (0, false),
    };
    if strict && value.len() != min {
        return Err(libc::EINVAL);
    }
    if value.len() < min {
        return Err(libc::ERANGE);
    }
    if kind == attr::SA_DIR && !matches!(value, [1 | 2]) {
        return Err(libc::ERANGE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let message = netlink::MessageWriter::new(0, 0, 0, 0).attribute(kind, value).take();
        message[netlink::Header::LEN..].to_vec()
    }

    #[test]
    fn the_last_one_counts_and_unknown_ones_do_not() {
        let mut bytes = attribute(attr::IF_ID, &1u32.to_ne_bytes());
        bytes.extend(attribute(999, b"whatever"));
        bytes.extend(attribute(attr::IF_ID, &2u32.to_ne_bytes()));
        bytes.extend([3, 0]);
        let a = Attributes::parse(&bytes).unwrap();
        assert_eq!(a.value::<u32>(attr::IF_ID), Some(2));
        assert!(!a.has(attr::MARK));
    }

    #[test]
    fn short_ones_are_refused_with_their_place() {
        let mut bytes = attribute(attr::PROTO, &[50]);
        bytes.extend(attribute(attr::MARK, &[0; 7]));
        let e = Attributes::parse(&bytes).unwrap_err();
        assert_eq!((e.kind, e.offset, e.errno), (attr::MARK, 8, libc::ERANGE));
    }

    #[test]
    fn strict_ones_must_fit_exactly() {
        let e = Attributes::parse(&attribute(attr::SA_PCPU, &[0; 5])).unwrap_err();
        assert_eq!(e.errno, libc::EINVAL);
        let e = Attributes::parse(&attribute(attr::SA_DIR, &[3])).unwrap_err();
        assert_eq!(e.errno, libc::ERANGE);
        assert!(Attributes::parse(&attribute(attr::SA_DIR, &[2])).is_ok());
    }

    #[test]
    fn a_zero_length_ends_the_list() {
        let mut bytes = vec![0, 0, 31, 0];
        bytes.extend(attribute(attr::IF_ID, &1u32.to_ne_bytes()));
        assert!(!Attributes::parse(&bytes).unwrap().has(attr::IF_ID));
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Attributes::parse(&noise);
            let _ = SpdAttributes::parse(&noise);
        }
    }
}
