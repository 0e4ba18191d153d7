//! Packets, and random numbers that repeat.

use core::net::IpAddr;

/// SplitMix64: the same numbers for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// An IP packet between these addresses, without options.
pub fn ip(src: IpAddr, dst: IpAddr, tos: u8, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut p = Vec::with_capacity(40 + upper.len());
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            p.extend([0x45, tos]);
            p.extend((upper.len() as u16 + 20).to_be_bytes());
            p.extend([0x12, 0x34, 0, 0, 61, protocol, 0, 0]);
            p.extend(src.octets());
            p.extend(dst.octets());
            wire::ipv4::fill_checksum(&mut p);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            p.extend([0x60 | tos >> 4, tos << 4 | 0x0a, 0xbc, 0xde]);
            p.extend((upper.len() as u16).to_be_bytes());
            p.extend([protocol, 61]);
            p.extend(src.octets());
            p.extend(dst.octets());
        }
        _ => panic!("two families"),
    }
    p.extend_from_slice(upper);
    p
}

/// Sets an IPv4 packet's DF.
pub fn set_df(packet: &mut [u8]) {
    packet[6] |= 0x40;
    wire::ipv4::fill_checksum(&mut packet[..20]);
}

/// Sets the ECN field of a packet's outer header, as a router under congestion does.
pub fn set_ecn(packet: &mut [u8], ecn: u8) {
    if packet[0] >> 4 == 4 {
        packet[1] = packet[1] & !3 | ecn;
        wire::ipv4::fill_checksum(&mut packet[..20]);
    } else {
        packet[1] = packet[1] & !0x30 | ecn << 4;
    }
}
