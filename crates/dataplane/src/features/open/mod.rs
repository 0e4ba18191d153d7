//! ESP and AH that arrive: SAD, replay check, and into the burst that is opened.

mod accept;
pub(crate) mod inbound_sas;
pub(crate) mod ipcomp;

pub(crate) use accept::check_volume;

use core::net::IpAddr;

use dispatch::Home;
use esp::{Opening, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{SaEntry, SaHandle};
use wire::{Fragment, Span, Summary, protocol};

use crate::apply::Executor;
use crate::features::open::inbound_sas::InboundSas;
use crate::features::open::ipcomp::ip_in_ip;
use crate::model::{FlowHint, Meta, Outers};
use crate::view::View;

/// Why a packet is not opened here.
pub(crate) enum Refused {
    /// It is dropped.
    Drop(DropReason),
    /// It is dropped, and the SA counts it.
    By(SaHandle, DropReason),
    /// Its SA has another worker, or a device, for a home.
    Home(usize),
    /// It is a fragment.
    Fragment,
    /// This helper cannot: it is left to the worker.
    Left,
}

impl From<DropReason> for Refused {
    fn from(reason: DropReason) -> Refused {
        Refused::Drop(reason)
    }
}

/// An ESP packet that is worth decrypting, one with AH that is worth checking, or one that has no more of
/// either.
pub(crate) struct Candidate {
    pub(crate) sa: SaHandle,
    pub(crate) opening: Opening,
    pub(crate) from: Option<(IpAddr, u16)>,
}

impl Executor {
    /// Bare ESP for this host.
    #[inline(never)]
    pub(crate) fn open_bare(&mut self, view: &View, packet: Packet, meta: &Meta) {
        self.open(view, packet, meta, false);
    }

    /// An ESP packet for this host; `is_in_udp` if it is encapsulated in UDP.
    #[inline(always)]
    pub(crate) fn open(&mut self, view: &View, packet: Packet, meta: &Meta, is_in_udp: bool) {
        let candidate = self.sas.candidate(view, &packet, meta, is_in_udp);
        self.open_candidate(view, packet, meta, candidate);
    }

    /// AH for this host; or what was inside another SA's packet and is an SA's again.
    #[inline(never)]
    pub(crate) fn open_next(&mut self, view: &View, mut packet: Packet, meta: &Meta) {
        let outers = match (meta.ingress.via(), meta.outers()) {
            (None, _) => None,
            (Some(via), None) => Outers::default().with(via),
            (Some(via), Some(outers)) => match outers.with(via) {
                None => return self.out.drop(packet, DropReason::InNesting),
                outers => outers,
            },
        };
        let candidate = match meta.summary.fields.protocol() {
            protocol::AH => ah_candidate(view, &packet, meta),
            protocol::IPCOMP => self.decompress(view, &mut packet, meta),
            protocol::IPV4 | protocol::IPV6 => ip_in_ip(view, &packet, meta),
            _ => self.sas.candidate(view, &packet, meta, false),
        };
        let is_gathered = candidate.is_ok();
        self.open_candidate(view, packet, meta, candidate);
        if let Some(outers) = outers.filter(|_| is_gathered) {
            self.crypt.opens.note_outers(outers);
        }
    }

    /// Opens a packet, or does what else is to be done with it.
    #[inline(always)]
    fn open_candidate(
        &mut self,
        view: &View,
        packet: Packet,
        meta: &Meta,
        candidate: Result<Candidate, Refused>,
    ) {
        match candidate {
            Ok(candidate) => self.gather_open(view, packet, meta, candidate),
            Err(Refused::Drop(DropReason::InNoState)) => self.out.put_off(view, packet, meta),
            Err(Refused::Drop(reason)) => self.out.drop(packet, reason),
            Err(Refused::By(sa, reason)) => {
                if let Some(sa) = view.reader.sa(sa) {
                    sa.esp.count_refused(reason);
                }
                self.out.drop(packet, reason);
            }
            Err(Refused::Home(Home::DEVICE)) => self.offload_open(view, packet, meta),
            Err(Refused::Home(to)) => self.out.hand_over(view, to, packet, meta),
            Err(Refused::Fragment) => self.gather_outer(view, packet, meta),
            Err(Refused::Left) => self.out.leave(view, packet, meta),
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
        let found = match found {
            Some(found) => Some(found),
            None => self.find(flow, spi, view),
        };
        let (handle, sa) = usable(view, found)?;
        let Span { start, len } = packet.span;
        let esp = Span { start: start + offset, len: len - offset };
        match sa.esp.open_look(packet.frame.bytes(), esp) {
            Ok(opening) => Ok(Candidate { sa: handle, opening, from }),
            Err(reason) => Err(Refused::By(handle, reason)),
        }
    }
}

/// [`InboundSas::candidate`] for AH.
fn ah_candidate(view: &View, packet: &Packet, meta: &Meta) -> Result<Candidate, Refused> {
    let Summary { flow, fields } = &meta.summary;
    if fields.fragment() != Fragment::Whole {
        return Err(Refused::Fragment);
    }
    let ah = packet.data().get(usize::from(fields.header_len())..);
    let Some([_, _, _, _, spi @ ..]) = ah.and_then(|ah| ah.first_chunk::<8>()) else {
        return Err(DropReason::MalformedAh.into());
    };
    let spi = u32::from_be_bytes(*spi);
    let (sa, entry) = usable(view, view.inbound_sa(flow, spi, protocol::AH))?;
    match entry.esp.open_ah(packet.frame.bytes(), packet.span, *fields) {
        Ok(opening) => Ok(Candidate { sa, opening, from: None }),
        Err(reason) => Err(Refused::By(sa, reason)),
    }
}

/// The SA that a packet names, if it is there and in use, and this worker is its home, or becomes it.
#[inline(always)]
pub(crate) fn usable(
    view: &View,
    found: Option<SaHandle>,
) -> Result<(SaHandle, &SaEntry<Sa>), Refused> {
    let Some((handle, sa)) = found.and_then(|handle| Some((handle, view.reader.sa(handle)?)))
    else {
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
    Ok((handle, sa))
}
