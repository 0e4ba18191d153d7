//! Tunnel interfaces: which policies and SAs are for what is routed to one, and what comes in by it.
//!
//! Linux has two kinds, and so has culvert ([`Binding`]): the XFRM interface with its id, and the VTI, which has
//! marks and the tunnel's two ends.

use core::net::IpAddr;

use policy::{Marks, SaConfig};

/// A tunnel interface that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Index of the interface.
    pub ifindex: u32,
    /// Where it stands in the worker; none of one that is Linux's own.
    pub slot: Option<u16>,
    /// True once it was moved to another network namespace. Packets that its SAs decrypt go there,
    /// past the tables here.
    pub is_elsewhere: bool,
}

/// Identity of a tunnel interface's SAs and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Policies and SAs with this `if_id` (`ip link add type xfrm`).
    IfId(u32),
    /// Policies with its marks, and SAs between its ends (`ip tunnel add mode vti`).
    Vti(Vti),
}

/// A tunnel interface of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vti {
    /// Local end, as an SA's outer address. `None`: any.
    pub local: Option<IpAddr>,
    /// The other end; none for any.
    pub remote: Option<IpAddr>,
    /// The mark by which policies are asked about what was decrypted, and SAs with a mark are found.
    pub ikey: u32,
    /// The mark of what leaves by it.
    pub okey: u32,
}

impl Binding {
    /// Marks of a packet that leaves by the interface.
    pub const fn outbound(self, marks: Marks) -> Marks {
        match self {
            Binding::IfId(if_id) => Marks { if_id, ..marks },
            // Its own mark is the one that Linux asks with (`vti_tunnel_xmit`).
            Binding::Vti(vti) => Marks::of_mark(vti.okey),
        }
    }

    /// Marks by which policies judge a packet that came in by the interface.
    pub(crate) const fn inbound(self, marks: Marks) -> Marks {
        match self {
            Binding::IfId(if_id) => Marks { if_id, ..marks },
            Binding::Vti(vti) => Marks::of_mark(vti.ikey),
        }
    }

    /// True if an SA may carry packets that leave by the interface. A VTI's SA has the ends of the
    /// VTI (`vti_state_check`).
    pub(crate) fn takes(self, sa: &SaConfig) -> bool {
        match self {
            Binding::IfId(_) => true,
            Binding::Vti(vti) => {
                let params = &sa.params;
                params.mode.is_tunnel() && vti.is_between(params.src, params.dst)
            }
        }
    }
}

impl Vti {
    /// True if its ends are these.
    const fn is_between(&self, local: IpAddr, remote: IpAddr) -> bool {
        is_end(self.local, local) && is_end(self.remote, remote)
    }

    /// True if packets that an SA decrypts come in by it. The SA's ends decide, nothing else of it
    /// (`vti_rcv`).
    fn brings(&self, sa: &SaConfig) -> bool {
        let params = &sa.params;
        params.mode.is_tunnel()
            && self.is_between(params.dst, params.src)
            && sa.mark.matches(self.ikey)
    }

    /// How many of its ends are named: of several the one that says most is meant.
    fn named(&self) -> usize {
        usize::from(self.local.is_some()) + 2 * usize::from(self.remote.is_some())
    }
}

const fn is_end(end: Option<IpAddr>, addr: IpAddr) -> bool {
    match (end, addr) {
        (None, _) => true,
        (Some(IpAddr::V4(end)), IpAddr::V4(addr)) => end.to_bits() == addr.to_bits(),
        (Some(IpAddr::V6(end)), IpAddr::V6(addr)) => end.to_bits() == addr.to_bits(),
        _ => false,
    }
}

/// Every tunnel interface that is up.
#[derive(Clone, Debug, Default)]
pub struct Tunnels(Vec<(Binding, Tunnel)>);

impl FromIterator<(Binding, Tunnel)> for Tunnels {
    fn from_iter<T: IntoIterator<Item = (Binding, Tunnel)>>(all: T) -> Tunnels {
        Tunnels(all.into_iter().collect())
    }
}

impl Tunnels {
    /// True if there is no tunnel interface.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tunnel that an SA's packets come in by. There are [few](crate::slots::MAX_TUNNELS), and it is asked once for
    /// a flow.
    pub fn of_sa(&self, sa: &SaConfig) -> Option<(Binding, Tunnel)> {
        let belongs = |binding: &Binding| match binding {
            Binding::IfId(if_id) => *if_id == sa.if_id,
            Binding::Vti(vti) => sa.if_id == 0 && vti.brings(sa),
        };
        let says = |binding: &Binding| match binding {
            Binding::IfId(_) => 0,
            Binding::Vti(vti) => vti.named(),
        };
        let all = self.0.iter().filter(|(binding, _)| belongs(binding));
        all.max_by_key(|(binding, _)| says(binding)).copied()
    }

    /// True if the interface with an `if_id` is Linux's own, which protects packets that are
    /// routed to it as well.
    pub(crate) fn is_linux_own(&self, if_id: u32) -> bool {
        let is_it = |(binding, tunnel): &(Binding, Tunnel)| {
            *binding == Binding::IfId(if_id) && tunnel.slot.is_none()
        };
        self.0.iter().any(is_it)
    }

    /// The marks by which SAs of packets with these outer ends are found, beside none.
    pub(crate) fn ikeys(&self, src: IpAddr, dst: IpAddr) -> impl Iterator<Item = u32> {
        self.0.iter().filter_map(move |(binding, _)| match binding {
            Binding::Vti(vti) if vti.is_between(dst, src) => Some(vti.ikey),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use esp::{Mode, Protocol, SaFlags, SaParams};
    use policy::{Mark, VolumeLimits};

    use super::*;

    fn sa(src: &str, dst: &str) -> SaConfig {
        let address = |text: &str| text.parse().expect("an address");
        SaConfig {
            params: SaParams {
                spi: 1,
                src: address(src),
                dst: address(dst),
                protocol: Protocol::Esp,
                mode: Mode::Tunnel,
                suite: crypto::Suite::ChaCha20Poly1305,
                encap: None,
                esn: false,
                replay_window: 0,
                tfc_pad_len: 0,
                flags: SaFlags::default(),
            },
            mark: Mark::default(),
            set_mark: Mark::default(),
            if_id: 0,
            reqid: 1,
            cpu: None,
            selector: None,
            iptfs: None,
            limits: VolumeLimits::NONE,
            added_s: 0,
            generation: 0,
        }
    }

    fn vti(local: Option<&str>, remote: Option<&str>) -> Binding {
        let address = |text: &str| text.parse().expect("an address");
        Binding::Vti(Vti {
            local: local.map(address),
            remote: remote.map(address),
            ikey: 7,
            okey: 7,
        })
    }

    #[test]
    fn of_several_the_one_that_names_most_is_meant() {
        let bindings = [
            vti(None, None),
            vti(Some("192.0.2.1"), None),
            vti(None, Some("192.0.2.2")),
            vti(Some("192.0.2.1"), Some("192.0.2.2")),
            vti(Some("192.0.2.1"), Some("192.0.2.3")),
            Binding::IfId(5),
        ];
        let tunnels: Tunnels = bindings
            .into_iter()
            .zip((1..).map(|n| Tunnel { ifindex: n, slot: Some(0), is_elsewhere: false }))
            .collect();
        let found = |sa: &SaConfig| tunnels.of_sa(sa).map(|(_, tunnel)| tunnel.ifindex);
        assert_eq!(found(&sa("192.0.2.2", "192.0.2.1")), Some(4));
        assert_eq!(found(&sa("192.0.2.9", "192.0.2.1")), Some(2));
        assert_eq!(found(&sa("192.0.2.2", "192.0.2.8")), Some(3));
        assert_eq!(found(&sa("2001:db8::2", "2001:db8::1")), Some(1));
        let of_xfrm = SaConfig { if_id: 5, ..sa("192.0.2.2", "192.0.2.1") };
        assert_eq!(found(&of_xfrm), Some(6));
        assert_eq!(found(&SaConfig { if_id: 6, ..of_xfrm }), None);
        let mark = Mark { value: 8, mask: !0 };
        assert_eq!(found(&SaConfig { mark, ..sa("192.0.2.2", "192.0.2.1") }), None);
        let mut transport = sa("192.0.2.2", "192.0.2.1");
        transport.params.mode = Mode::Transport;
        assert_eq!(found(&transport), None);
    }
}
