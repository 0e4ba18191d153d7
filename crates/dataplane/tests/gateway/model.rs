//! ESP by the letter of RFC 4303, one packet at a time: what a gateway's bursts are held against.

use crypto::{Job, JobStatus, Op, Provider, Session};
use esp::{Mode, SaParams};
use wire::{Fragment, parse_ip, protocol};

use crate::packets::Ip;
use crate::support::{IV_SALT, PROVIDER, keys};

/// The sending end of one SA.
pub struct Model {
    params: SaParams,
    session: Session,
    /// The last packet's sequence number.
    pub number: u64,
}

impl Model {
    pub fn new(params: SaParams) -> Model {
        let session = PROVIDER.session(params.suite, &keys(params.suite)).expect("session");
        Model { params, session, number: 0 }
    }

    /// The ESP packet that the next packet of the SA makes of `inner`. A random IV is taken from
    /// `sealed`, the packet to compare with; a counter mode's is the sequence number under the salt.
    pub fn seal(&mut self, inner: &[u8], sealed: &[u8]) -> Vec<u8> {
        self.seal_with(inner, self.iv(sealed))
    }

    /// The same with this IV, if the suite's is random.
    pub fn seal_with(&mut self, inner: &[u8], iv: &[u8]) -> Vec<u8> {
        self.number += 1;
        let suite = self.params.suite;
        let h = parse_ip(inner).expect("inner packet");
        let (visible, payload) = match self.params.mode {
            Mode::Tunnel | Mode::Iptfs => (&[][..], inner),
            Mode::Transport => inner.split_at(h.header_len.into()),
        };
        let next_header = match (self.params.mode, h.src.is_ipv4()) {
            (Mode::Transport, _) => h.protocol,
            (Mode::Tunnel | Mode::Iptfs, true) => protocol::IPV4,
            (Mode::Tunnel | Mode::Iptfs, false) => protocol::IPV6,
        };
        let mut esp = self.params.spi.to_be_bytes().to_vec();
        esp.extend((self.number as u32).to_be_bytes());
        match suite.needs_random_iv() {
            true => esp.extend(iv),
            false => esp.extend((self.number ^ IV_SALT).to_be_bytes()),
        }
        esp.extend(payload);
        let pad_len = (payload.len() + 2).next_multiple_of(suite.align_bytes()) - payload.len() - 2;
        esp.extend((1..).take(pad_len));
        esp.extend([pad_len as u8, next_header]);
        esp.resize(esp.len() + suite.icv_len_bytes(), 0);
        let high = self.params.esn.then_some((self.number >> 32) as u32);
        let mut jobs = [Job::esp(&self.session, Op::Seal, &mut esp, high)];
        PROVIDER.engine().expect("engine").run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done);
        let body = match self.params.encap {
            None => esp,
            Some(ports) => {
                let len = 8 + esp.len() as u16;
                let header = [ports.src_port, ports.dst_port, len, 0].map(u16::to_be_bytes);
                [header.as_flattened(), &esp].concat()
            }
        };
        let mut packet = match self.params.mode {
            Mode::Tunnel | Mode::Iptfs => {
                let outer = Ip {
                    traffic_class: h.traffic_class,
                    dont_fragment: h.dont_fragment,
                    ..Ip::new(self.params.src, self.params.dst)
                };
                outer.with(&body)
            }
            Mode::Transport => [visible, &body].concat(),
        };
        let outer_protocol =
            if self.params.encap.is_some() { protocol::UDP } else { protocol::ESP };
        if packet[0] >> 4 == 4 {
            let len = packet.len() as u16;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[9] = outer_protocol;
            if self.params.mode == Mode::Tunnel {
                // RFC 6864 §4.1: none is needed where nobody may fragment.
                let base = self.params.spi ^ self.params.spi >> 16;
                let ident = if h.dont_fragment {
                    0
                } else {
                    (self.number as u16).wrapping_add(base as u16)
                };
                packet[4..6].copy_from_slice(&ident.to_be_bytes());
            }
            wire::ipv4::fill_checksum(&mut packet);
        } else {
            let len = (packet.len() - 40) as u16;
            packet[4..6].copy_from_slice(&len.to_be_bytes());
            packet[6] = outer_protocol;
            if self.params.encap.is_some() {
                let h = parse_ip(&packet).expect("outer packet");
                assert!(wire::fill_l4_checksum(&mut packet, &h));
            }
        }
        packet
    }

    /// A packet of the SA as it was before encryption: without IV, ICV and the checksum over both.
    /// Of a fragment, the headers.
    ///
    /// Compares packets that two gateways send under random IVs. Numbers below 2^32.
    pub fn opened(&self, packet: &[u8]) -> Vec<u8> {
        let (h, at) = (parse_ip(packet).expect("outer packet"), esp_at(packet));
        if h.fragment != Fragment::Whole {
            return packet[..h.header_len.into()].to_vec();
        }
        let mut packet = packet.to_vec();
        let (outer, esp) = packet.split_at_mut(at);
        let high = self.params.esn.then_some(0);
        let mut jobs = [Job::esp(&self.session, Op::Open, esp, high)];
        PROVIDER.engine().expect("engine").run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done);
        if self.params.encap.is_some() {
            outer[at - 2..].fill(0);
        }
        let suite = self.params.suite;
        let icv_at = esp.len() - suite.icv_len_bytes();
        esp[8..][..suite.iv_len_bytes()].fill(0);
        esp[icv_at..].fill(0);
        packet
    }

    fn iv<'a>(&self, sealed: &'a [u8]) -> &'a [u8] {
        let esp_at = esp_at(sealed);
        &sealed[esp_at + 8..][..self.params.suite.iv_len_bytes()]
    }
}

/// Where the ESP header stands in a packet, bare or in UDP.
pub fn esp_at(packet: &[u8]) -> usize {
    let h = parse_ip(packet).expect("outer packet");
    usize::from(h.header_len) + if h.protocol == protocol::UDP { 8 } else { 0 }
}

/// The SPI of an ESP packet.
pub fn spi(packet: &[u8]) -> u32 {
    let at = esp_at(packet);
    u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}
