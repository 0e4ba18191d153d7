//! The SAD as its owners see it: every SA with what they sent, larval ones too.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crypto::Keys;
use esp::{Protocol, SaFlags, SaParams, UdpEncap};
use policy::{Iptfs, SaConfig, SaId, VolumeLimits};

use super::convert::{mark, mode, selector};
use crate::codec::{Address, Encap, MarkAttribute, Offload, SaInfo, constant as c};
use crate::failure::Failure;
use crate::suite::Algorithms;

/// How the owner wants the replay state described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayForm {
    /// `XFRMA_REPLAY_VAL`, the window stands in the SA.
    Short,
    /// Window with ESN (`XFRMA_REPLAY_ESN_VAL`).
    Long {
        /// Window in packets.
        window: u32,
        /// Words in the bitmap.
        words: usize,
    },
}

impl ReplayForm {
    /// Window and words of the long form.
    pub fn long(self) -> Option<(u32, usize)> {
        match self {
            ReplayForm::Short => None,
            ReplayForm::Long { window, words } => Some((window, words)),
        }
    }
}

/// Attributes of an SA beside its fixed struct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SaOptions {
    pub extra_flags: u32,
    /// Boxed, like the next: few SAs have one.
    pub care_of: Option<Box<Address>>,
    pub encap: Option<Box<Encap>>,
    pub tfc_pad_len: u32,
    pub mark: MarkAttribute,
    pub set_mark: MarkAttribute,
    pub if_id: u32,
    pub direction: Option<u8>,
    /// The device that does the crypto. Boxed: few SAs have one.
    pub offload: Option<Box<Offload>>,
    /// The CPU that the SA is for (RFC 9611).
    pub cpu: Option<u32>,
    /// Boxed: few SAs are of this mode.
    pub iptfs: Option<Box<Iptfs>>,
    pub mapping_max_age_s: u32,
    pub replay_threshold: u32,
    pub timer_threshold: u32,
}

/// The last mapping message of an SA.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastMapping {
    pub addr: IpAddr,
    pub port: u16,
    pub at_ms: u64,
}

/// One SA of the database.
#[derive(Clone, Debug)]
pub(super) struct Sa {
    /// As the owner sent it; counters and statistics zero, the time of addition kept.
    pub info: SaInfo,
    pub options: SaOptions,
    /// `None` while it is larval.
    pub algorithms: Option<Algorithms>,
    pub replay: ReplayForm,
    pub added_mono_ms: i64,
    /// The soft limit was announced.
    pub dying: bool,
    pub deadline: Option<u64>,
    /// Boxed: few SAs have one.
    pub mapping: Option<Box<LastMapping>>,
    /// The IPComp tunnels that it is the companion of (Linux's `tunnel_users`); 0 of all other SAs.
    pub tunnel_users: u32,
}

impl Sa {
    /// True if it waits for its keys.
    pub fn larval(&self) -> bool {
        self.algorithms.is_none()
    }

    /// True if a flush or dump of this protocol means the SA; 0 stands for all, `IPSEC_PROTO_ANY` for ESP, AH and IPComp.
    pub fn has_protocol(&self, wanted: u8) -> bool {
        let protocol = self.info.id.protocol;
        match wanted {
            0 => true,
            c::IPSEC_PROTO_ANY => {
                matches!(protocol, c::IPPROTO_ESP | c::IPPROTO_AH | c::IPPROTO_COMP)
            }
            _ => protocol == wanted,
        }
    }

    /// True if it is the companion of IPComp tunnels, which no client has made.
    pub fn is_companion(&self) -> bool {
        self.tunnel_users > 0
    }

    /// Destination address. Its family was checked when the SA came.
    pub fn dst(&self) -> IpAddr {
        self.info.id.dst.ip(self.info.family).unwrap_or(UNSPECIFIED)
    }

    /// Source address, as [`Sa::dst`].
    pub fn src(&self) -> IpAddr {
        self.info.src.ip(self.info.family).unwrap_or(UNSPECIFIED)
    }

    /// Key of look-ups by SPI.
    pub fn spi_key(&self) -> SpiKey {
        (self.dst(), self.info.id.spi.0, self.info.id.protocol)
    }

    /// Identity in the data path.
    pub fn id(&self) -> SaId {
        SaId {
            dst: self.dst(),
            spi: self.info.id.spi.0,
            protocol: self.info.id.protocol,
            mark: mark(&self.options.mark),
        }
    }

    /// The value that look-ups by its own mark use.
    pub fn mark_value(&self) -> u32 {
        self.options.mark.value
    }

    /// Key by which an acquire or a reservation of an SPI finds it.
    pub fn larval_key(&self) -> LarvalKey {
        LarvalKey {
            dst: self.dst(),
            src: self.src(),
            protocol: self.info.id.protocol,
            mode: self.info.mode,
            reqid: self.info.reqid,
            if_id: self.options.if_id,
            mark: self.mark_value(),
            cpu: self.options.cpu,
        }
    }

    /// The SA as the data path needs it.
    pub fn config(&self, generation: u64) -> Result<(SaConfig, Keys), Failure> {
        let algorithms = self.algorithms.as_ref().ok_or(Failure::NoAlgorithm)?;
        let (suite, keys) = algorithms.suite()?;
        let has = |flag| self.info.flags & flag != 0;
        let protocol = match self.info.id.protocol {
            c::IPPROTO_AH => Protocol::Ah,
            c::IPPROTO_COMP => Protocol::IpComp,
            c::IPPROTO_IPIP => Protocol::IpInV4,
            c::IPPROTO_IPV6 => Protocol::IpInV6,
            _ => Protocol::Esp,
        };
        let params = SaParams {
            spi: self.info.id.spi.0,
            src: self.src(),
            dst: self.dst(),
            protocol,
            mode: mode(self.info.mode)?,
            suite,
            encap: self
                .options
                .encap
                .as_ref()
                .map(|e| UdpEncap { src_port: e.src_port.0, dst_port: e.dst_port.0 }),
            esn: has(c::STATE_ESN) && !protocol.is_bare(),
            replay_window: match self.replay {
                // An SA without numbers has no window.
                _ if protocol.is_bare() => 0,
                ReplayForm::Short => self.info.replay_window.into(),
                ReplayForm::Long { window, .. } => window,
            },
            tfc_pad_len: self.options.tfc_pad_len,
            flags: SaFlags {
                no_ecn: has(c::STATE_NOECN),
                decap_dscp: has(c::STATE_DECAP_DSCP),
                no_pmtu_disc: has(c::STATE_NOPMTUDISC),
                dont_encap_dscp: self.options.extra_flags & c::XFLAG_DONT_ENCAP_DSCP != 0,
                align4: has(c::STATE_ALIGN4),
                icmp: has(c::STATE_ICMP),
            },
        };
        let (l, is_tunnel) = (&self.info.limits, params.mode.is_tunnel());
        let config = SaConfig {
            params,
            mark: mark(&self.options.mark),
            set_mark: mark(&self.options.set_mark),
            cpu: self.options.cpu.filter(|_| self.options.direction == Some(c::SA_DIR_OUT)),
            if_id: self.options.if_id,
            reqid: self.info.reqid,
            // Inside of an IPComp tunnel it protects packets of either family.
            selector: selector(&self.info.selector)
                .filter(|selector| is_tunnel || !selector.is_any()),
            iptfs: self.options.iptfs.clone(),
            limits: VolumeLimits {
                soft_bytes: l.soft_bytes,
                hard_bytes: l.hard_bytes,
                soft_packets: l.soft_packets,
                hard_packets: l.hard_packets,
            },
            added_s: self.info.current.add_time_s,
            generation,
        };
        Ok((config, keys))
    }
}

const UNSPECIFIED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Key of larval SAs without an SPI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LarvalKey {
    pub dst: IpAddr,
    pub src: IpAddr,
    pub protocol: u8,
    pub mode: u8,
    pub reqid: u32,
    pub if_id: u32,
    pub mark: u32,
    pub cpu: Option<u32>,
}

/// First key of every look-up by SPI. Marks distinguish the SAs of one key.
pub(super) type SpiKey = (IpAddr, u32, u8);

/// All SAs. Serial numbers count up in the order of installation.
#[derive(Debug, Default)]
pub(super) struct Sad {
    /// In boxes: a tree that grows at its end has half of its places empty.
    entries: BTreeMap<u64, Box<Sa>>,
    /// The oldest SA of each key.
    by_spi: HashMap<SpiKey, u64>,
    /// The other SAs of a key, oldest first, where there are any; no list is empty.
    by_spi_more: HashMap<SpiKey, Vec<u64>>,
    by_larval: HashMap<LarvalKey, u64>,
    by_seq: HashMap<u32, u64>,
    last_serial: u64,
}

impl Sad {
    /// The serial number that the next insertion gets.
    pub fn next_serial(&self) -> u64 {
        self.last_serial + 1
    }

    /// How many SAs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts an SA whose identity is free.
    pub fn insert(&mut self, sa: Sa) -> u64 {
        self.last_serial += 1;
        let serial = self.last_serial;
        self.index(serial, &sa);
        self.entries.insert(serial, Box::new(sa));
        serial
    }

    fn index_spi(&mut self, key: SpiKey, serial: u64) {
        match self.by_spi.entry(key) {
            Entry::Vacant(place) => {
                place.insert(serial);
            }
            Entry::Occupied(_) => self.by_spi_more.entry(key).or_default().push(serial),
        }
    }

    fn unindex_spi(&mut self, key: &SpiKey, serial: u64) {
        let is_oldest = self.by_spi.get(key) == Some(&serial);
        let Some(more) = self.by_spi_more.get_mut(key) else {
            if is_oldest {
                self.by_spi.remove(key);
            }
            return;
        };
        if is_oldest {
            self.by_spi.insert(*key, more.remove(0));
        } else {
            more.retain(|&s| s != serial);
        }
        if more.is_empty() {
            self.by_spi_more.remove(key);
        }
    }

    /// The SAs of a key, youngest first.
    fn of_spi(&self, key: &SpiKey) -> impl Iterator<Item = (u64, &Sa)> {
        let more = self.by_spi_more.get(key).into_iter().flatten().rev();
        let all = more.chain(self.by_spi.get(key));
        all.filter_map(|serial| Some((*serial, &**self.entries.get(serial)?)))
    }

    fn index(&mut self, serial: u64, sa: &Sa) {
        // A larval SA of an acquire may carry its template's SPI; that reserves nothing.
        let acquired = sa.larval() && sa.info.seq != 0;
        let spi = sa.info.id.spi.0;
        if spi != 0 && !acquired {
            self.index_spi(sa.spi_key(), serial);
        } else if sa.larval() {
            self.by_larval.insert(sa.larval_key(), serial);
        }
        if acquired {
            self.by_seq.insert(sa.info.seq, serial);
        }
    }

    fn unindex(&mut self, serial: u64, sa: &Sa) {
        self.unindex_spi(&sa.spi_key(), serial);
        if sa.larval() {
            let key = sa.larval_key();
            if self.by_larval.get(&key) == Some(&serial) {
                self.by_larval.remove(&key);
            }
            if self.by_seq.get(&sa.info.seq) == Some(&serial) {
                self.by_seq.remove(&sa.info.seq);
            }
        }
    }

    /// Removes an SA.
    pub fn remove(&mut self, serial: u64) -> Option<Sa> {
        let sa = self.entries.remove(&serial)?;
        self.unindex(serial, &sa);
        Some(*sa)
    }

    /// Gives a larval SA its SPI. It is then found by that alone.
    pub fn reserve(&mut self, serial: u64, spi: u32) {
        let Some(mut sa) = self.remove(serial) else { return };
        sa.info.id.spi.0 = spi;
        self.index_spi(sa.spi_key(), serial);
        if sa.info.seq != 0 {
            self.by_seq.insert(sa.info.seq, serial);
        }
        self.entries.insert(serial, Box::new(sa));
    }

    /// The SA with this serial number.
    pub fn get(&self, serial: u64) -> Option<&Sa> {
        self.entries.get(&serial).map(|sa| &**sa)
    }

    /// The SA with this serial number, for changes that no index depends on.
    pub fn get_mut(&mut self, serial: u64) -> Option<&mut Sa> {
        self.entries.get_mut(&serial).map(|sa| &mut **sa)
    }

    /// The youngest SA of this key whose mark meets the value, as Linux looks it up.
    pub fn find(&self, key: &SpiKey, mark_value: u32) -> Option<(u64, &Sa)> {
        self.of_spi(key).find(|(_, sa)| {
            let m = &sa.options.mark;
            mark_value & m.mask == m.value
        })
    }

    /// The SA with exactly this identity.
    pub fn find_exact(&self, id: &SaId) -> Option<(u64, &Sa)> {
        let key = (id.dst, id.spi, id.protocol);
        self.of_spi(&key).find(|(_, sa)| mark(&sa.options.mark) == id.mark)
    }

    /// True if an SA of any mark has this SPI.
    pub fn spi_taken(&self, key: &SpiKey) -> bool {
        self.by_spi.contains_key(key)
    }

    /// The larval SA of this key that has no SPI yet.
    pub fn larval(&self, key: &LarvalKey) -> Option<u64> {
        self.by_larval.get(key).copied()
    }

    /// The larval SA of this acquire.
    pub fn by_seq(&self, seq: u32) -> Option<(u64, &Sa)> {
        let serial = *self.by_seq.get(&seq)?;
        Some((serial, self.get(serial)?))
    }

    /// The youngest SA with a serial number below this.
    pub fn before(&self, serial: u64) -> Option<(u64, &Sa)> {
        self.entries.range(..serial).next_back().map(|(&s, sa)| (s, &**sa))
    }

    /// All SAs, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Sa)> {
        self.entries.iter().map(|(&s, sa)| (s, &**sa))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::AF_INET;
    use proptest::prelude::*;

    fn sa(spi: u32, mark: u32) -> Sa {
        let mut info = SaInfo { family: AF_INET, ..SaInfo::default() };
        info.id.dst = IpAddr::from([192, 0, 2, 1]).into();
        info.id.spi.0 = spi;
        Sa {
            info,
            options: SaOptions {
                mark: MarkAttribute { value: mark, mask: 3 },
                ..SaOptions::default()
            },
            algorithms: None,
            replay: ReplayForm::Short,
            added_mono_ms: 0,
            dying: false,
            deadline: None,
            mapping: None,
            tunnel_users: 0,
        }
    }

    proptest! {
        /// However SAs of one SPI come and go, the youngest that meets the mark is found.
        #[test]
        fn look_ups_are_those_of_a_list(
            steps in prop::collection::vec((any::<bool>(), 1u32..3, 0u32..4), 0..60),
        ) {
            let mut sad = Sad::default();
            let mut list: Vec<(u64, u32, u32)> = Vec::new();
            for (is_new, spi, mark) in steps {
                if is_new {
                    list.push((sad.insert(sa(spi, mark)), spi, mark));
                } else if let Some(at) = list.iter().position(|(_, s, m)| (*s, *m) == (spi, mark)) {
                    prop_assert!(sad.remove(list.remove(at).0).is_some());
                }
                for spi in 1..3 {
                    let key = ([192, 0, 2, 1].into(), spi, 0);
                    prop_assert_eq!(sad.spi_taken(&key), list.iter().any(|(_, s, _)| *s == spi));
                    for mark in 0..4 {
                        let same = |(_, s, m): &&(u64, u32, u32)| (*s, *m) == (spi, mark);
                        let youngest = list.iter().rev().find(same).map(|(serial, ..)| *serial);
                        prop_assert_eq!(sad.find(&key, mark).map(|(serial, _)| serial), youngest);
                        let mark = policy::Mark { value: mark, mask: 3 };
                        let id = SaId { dst: key.0, spi, protocol: 0, mark };
                        prop_assert_eq!(sad.find_exact(&id).map(|(serial, _)| serial), youngest);
                    }
                }
            }
            let left: Vec<u64> = list.iter().map(|(serial, ..)| *serial).collect();
            for serial in left {
                sad.remove(serial);
            }
            prop_assert!(sad.by_spi.is_empty() && sad.by_spi_more.is_empty());
        }
    }
}
