//! The session of an SA that a device has.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crypto::Session;
use esp::SaParams;

use crate::bounce::fill_len;
use crate::capabilities::Capabilities;
use crate::handle::SaHandle;

/// The session of an SA that a device has.
pub struct Offloaded {
    /// Which of the engine's lanes.
    pub(crate) lane: usize,
    device: Arc<str>,
    pub(crate) sa: SaHandle,
    /// Session of the software engine, with the same keys.
    pub(crate) software: Session,
    /// The outer header, with a length of 0.
    pub(crate) head: Vec<u8>,
    /// True if the device takes packets with such a header.
    is_head_ok: OnceLock<bool>,
    /// How many packets software still checks.
    unproven: AtomicU8,
}

impl Offloaded {
    /// A session for an SA that the device of a lane has taken. `software` is one of its keys, for the software
    /// engine.
    pub fn session(
        (lane, device): (usize, Arc<str>),
        sa: SaHandle,
        software: Session,
        params: &SaParams,
    ) -> Session {
        let head = head(params.src, params.dst);
        let suite = software.suite();
        let unproven = AtomicU8::new(CHECKED_FIRST);
        let is_head_ok = OnceLock::new();
        let offloaded = Offloaded { lane, device, sa, software, head, is_head_ok, unproven };
        Session::new(suite, Box::new(offloaded))
    }

    /// The session of the software engine, of the same keys.
    pub fn software(&self) -> &Session {
        &self.software
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// True if a packet of so many bytes, behind the outer header that all packets of the SA have,
    /// may be given to the device ([`Capabilities::offload_ok`]).
    pub(crate) fn is_ok(&self, capabilities: &Capabilities, len: usize) -> bool {
        let ask = || {
            let mut room = [0; LONGEST_HEAD];
            let Some(packet) = room.get_mut(..self.head.len()) else { return false };
            packet.copy_from_slice(&self.head);
            fill_len(packet);
            capabilities.offload_ok(packet)
        };
        len <= capabilities.most_packet_len && *self.is_head_ok.get_or_init(ask)
    }

    /// True if the next packet is one of the first ones.
    pub(crate) fn is_unproven(&self) -> bool {
        let left = self.unproven.load(Relaxed);
        // Two threads at once may check one more.
        if left > 0 {
            self.unproven.store(left - 1, Relaxed);
        }
        left > 0
    }
}

/// An outer header without options, as a device reads it to find the SA; its length, of 0, is filled in later.
pub(crate) fn head(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, ESP, 0, 0];
            head.extend(src.octets());
            head.extend(dst.octets());
            wire::ipv4::fill_checksum(&mut head);
            head
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut head = vec![0x60, 0, 0, 0, 0, 0, ESP, TTL];
            head.extend(src.octets());
            head.extend(dst.octets());
            head
        }
        // No device has such SAs.
        _ => Vec::new(),
    }
}

/// Length of IPv6's header.
const LONGEST_HEAD: usize = 40;
const TTL: u8 = 64;
const ESP: u8 = 50;

/// Packets of an SA that software checks when it comes to a device. (Of each lane it checks one of 256 later.)
const CHECKED_FIRST: u8 = 8;
