//! Barriers as policies of the kernel's own XFRM.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_XFRM};
use policy::Prefix;
use xfrm::codec::{
    Address, Be16, Field, Header, LifetimeConfig, MarkAttribute, MessageWriter, PolicyId,
    PolicyInfo, SelectorInfo, attr, family_of, flag, kind,
};

use crate::barrier::{Barrier, Effect};

/// A socket to the kernel's XFRM.
pub(crate) struct KernelPolicies {
    socket: Socket,
    sequence: u32,
}

impl std::fmt::Debug for KernelPolicies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KernelPolicies")
    }
}

impl KernelPolicies {
    pub(crate) fn open() -> io::Result<KernelPolicies> {
        let mut socket = Socket::new(NETLINK_XFRM)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(KernelPolicies { socket, sequence: 0 })
    }

    /// Adds a policy, or replaces the one with the same selector, direction, mark and if_id.
    pub(crate) fn put(&mut self, barrier: &Barrier) -> io::Result<()> {
        let info = PolicyInfo {
            selector: selector_info(barrier),
            limits: LifetimeConfig {
                soft_bytes: u64::MAX,
                hard_bytes: u64::MAX,
                soft_packets: u64::MAX,
                hard_packets: u64::MAX,
                ..LifetimeConfig::default()
            },
            priority: barrier.priority(),
            dir: barrier.direction(),
            action: match barrier.effect() {
                Effect::Pass => 0,
                Effect::Block => 1,
            },
            ..PolicyInfo::default()
        };
        self.request(kind::UPDPOLICY, barrier, |w| {
            w.fixed(&info);
        })
    }

    /// Removes a policy.
    pub(crate) fn remove(&mut self, barrier: &Barrier) -> io::Result<()> {
        let id = PolicyId {
            selector: selector_info(barrier),
            dir: barrier.direction(),
            ..PolicyId::default()
        };
        self.request(kind::DELPOLICY, barrier, |w| {
            w.fixed(&id);
        })
    }

    /// How many policies the kernel has, of whomever: in, out, forward.
    pub(crate) fn counts(&mut self) -> io::Result<[u32; 3]> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut writer = MessageWriter::new(kind::GETSPDINFO, flag::REQUEST, self.sequence, 0);
        writer.fixed(&0u32);
        self.socket.send(&writer.finish(), 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let Ok(header) = Header::decode(&answer) else { continue };
            if header.seq != self.sequence {
                continue;
            }
            if header.kind == kind::ERROR {
                acknowledged(&answer)?;
                continue;
            }
            // Flags, then the first attribute: its header, then the counts.
            let at = |n: usize| {
                let start = Header::LEN + 8 + 4 * n;
                answer.get(start..start + 4)?.try_into().ok().map(u32::from_ne_bytes)
            };
            let counts = at(0).zip(at(1)).zip(at(2));
            let ((input, output), forward) = counts.ok_or(io::ErrorKind::InvalidData)?;
            return Ok([input, output, forward]);
        }
    }

    fn request(
        &mut self,
        message_kind: u16,
        barrier: &Barrier,
        body: impl FnOnce(&mut MessageWriter),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut writer =
            MessageWriter::new(message_kind, flag::REQUEST | flag::ACK, self.sequence, 0);
        body(&mut writer);
        // One with a value that its mask does not cover is for no packet, not for all.
        let (value, mask) = barrier.mark();
        if (value, mask) != (0, 0) {
            writer.field(attr::MARK, &MarkAttribute { value, mask });
        }
        if barrier.if_id() != 0 {
            writer.field(attr::IF_ID, &barrier.if_id());
        }
        self.socket.send(&writer.finish(), 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let Ok(header) = Header::decode(&answer) else { continue };
            if header.kind == kind::ERROR && header.seq == self.sequence {
                return acknowledged(&answer);
            }
        }
    }
}

/// What an acknowledgement says.
pub(crate) fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let errno = answer
        .get(Header::LEN..Header::LEN + 4)
        .and_then(|b| b.try_into().ok())
        .map(i32::from_ne_bytes)
        .ok_or(io::ErrorKind::InvalidData)?;
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}

fn selector_info(barrier: &Barrier) -> SelectorInfo {
    let s = barrier.selector();
    let family = family_of(s.src.addr);
    SelectorInfo {
        dst: address(s.dst),
        src: address(s.src),
        dst_port: Be16(s.dst_port.value),
        dst_port_mask: Be16(s.dst_port.mask),
        src_port: Be16(s.src_port.value),
        src_port_mask: Be16(s.src_port.mask),
        family,
        dst_prefix_len: s.dst.len,
        src_prefix_len: s.src.len,
        protocol: s.protocol,
        ifindex: s.ifindex.cast_signed(),
        ..SelectorInfo::default()
    }
}

fn address(prefix: Prefix) -> Address {
    Address::from(prefix.addr)
}
