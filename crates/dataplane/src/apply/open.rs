//! ESP that arrives: SAD, replay check, and into the burst that is decrypted.

use core::net::IpAddr;

use esp::Opening;
use io::Packet;
use outcome::DropReason;
use policy::SaHandle;
use wire::{Fragment, Span, Summary, protocol};

use crate::apply::{Executor, inbound_sas::InboundSas};
use crate::flows::FlowHint;
use crate::packets::Meta;
use crate::view::View;

/// Why an ESP packet is not opened here.
pub(crate) enum Refused {
    /// It is dropped.
    Drop(DropReason),
    /// It is dropped, and the SA counts it.
    By(SaHandle, DropReason),
    /// Its SA has another worker for a home.
    Home(usize),
    /// It is a fragment.
    Fragment,
}

impl From<DropReason> for Refused {
    fn from(reason: DropReason) -> Refused {
        Refused::Drop(reason)
    }
}

/// An ESP packet that is worth decrypting.
pub(crate) struct Candidate {
    sa: SaHandle,
    opening: Opening,
    from: Option<(IpAddr, u16)>,
}

impl Executor {
    /// Bare ESP for this host.
    #[inline(never)]
    pub(super) fn open_bare(&mut self, view: &View, packet: Packet, meta: &Meta) {
        self.open(view, packet, meta, false);
    }

    /// An ESP packet for this host; `is_in_udp` if it is encapsulated in UDP.
    #[inline(always)]
    pub(crate) fn open(&mut self, view: &View, packet: Packet, meta: &Meta, is_in_udp: bool) {
        match self.sas.candidate(view, &packet, meta, is_in_udp) {
            Ok(candidate) => self.gather_open(view, packet, meta, candidate),
            Err(Refused::Drop(reason)) => self.out.drop(packet, reason),
            Err(Refused::By(sa, reason)) => {
                if let Some(sa) = view.reader.sa(sa) {
                    sa.esp.count_refused(reason);
                }
                self.out.drop(packet, reason);
            }
            Err(Refused::Home(to)) => self.out.hand_over(view, to, packet, meta),
            Err(Refused::Fragment) => self.gather_outer(view, packet, meta),
        }
    }

    /// Adds a packet to the burst that is decrypted; there is room (see [`crate::burst`]).
    #[inline(always)]
    pub(crate) fn gather_open(
        &mut self,
        view: &View,
        packet: Packet,
        meta: &Meta,
        candidate: Candidate,
    ) {
        let Candidate { sa, opening, from } = candidate;
        // With few SAs everything is near: no flow is predicted.
        let hint = match self.crypt.is_spread {
            true => {
                if let Some(sa) = view.reader.sa(sa) {
                    sa.esp.replay().prefetch(opening.seq);
                }
                FlowHint::from_note(view.reader.note(sa))
            }
            false => FlowHint::NONE,
        };
        if let Err(packet) = self.crypt.opens.push(packet, meta, (sa, hint), opening, from) {
            self.out.drop(packet, DropReason::InCrypto);
        }
    }
}

impl InboundSas {
    /// Decides whether an ESP packet is worth decrypting.
    ///
    /// 1. Fragments have to be put together first.
    /// 2. (destination, SPI) finds the SA, which must be usable. Whether UDP encapsulation is as
    ///    the SA has it is seen when the packet has been opened.
    /// 3. The worker is the SA's home, or becomes it.
    /// 4. Lengths and the replay window are checked.
    #[inline(always)]
    pub(crate) fn candidate(
        &mut self,
        view: &View,
        packet: &Packet,
        meta: &Meta,
        is_in_udp: bool,
    ) -> Result<Candidate, Refused> {
        let reader = &view.reader;
        let Summary { flow, fields } = &meta.summary;
        if fields.fragment() != Fragment::Whole {
            return Err(Refused::Fragment);
        }
        let (udp_len, from) = match is_in_udp {
            true => (wire::udp::HEADER_LEN, Some((flow.src(), flow.ports().0))),
            false => (0, None),
        };
        let offset = usize::from(fields.header_len()) + udp_len;
        let Some((spi, _)) = packet.data().get(offset..).and_then(|esp| esp.split_first_chunk())
        else {
            return Err(DropReason::MalformedEsp.into());
        };
        let spi = u32::from_be_bytes(*spi);
        let found = match meta.sa.filter(|_| meta.is_own_esp) {
            Some(sa_index) => reader.inbound_sa_at(sa_index, (flow.dst(), spi, protocol::ESP), 0),
            None => None,
        };
        let found = found.or_else(|| self.find(flow, spi, reader));
        let Some((handle, sa)) = found.and_then(|handle| Some((handle, reader.sa(handle)?))) else {
            return Err(DropReason::InNoState.into());
        };
        if !sa.state().is_usable() {
            return Err(DropReason::InStateExpired.into());
        }
        let me = view.worker.get();
        if !sa.home().is_at(me)
            && let home = sa.home().claim(me)
            && home != me
        {
            return Err(Refused::Home(home));
        }
        let Span { start, len } = packet.span;
        let esp = Span { start: start + offset, len: len - offset };
        match sa.esp.open_look(packet.frame.bytes(), esp) {
            Ok(opening) => Ok(Candidate { sa: handle, opening, from }),
            Err(reason) => Err(Refused::By(handle, reason)),
        }
    }
}
