//! Which packets are worth opening, by their SA and number.

use core::net::IpAddr;

use esp::{Opening, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{SaEntry, SaHandle};
use wire::{Fragment, Span, Summary, protocol};

use crate::features::open::inbound_sas::InboundSas;
use crate::model::Meta;
use crate::view::View;

/// Why a packet is not opened here.
pub(crate) enum Refused {
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet is dropped, and the SA counts it.
    By(SaHandle, DropReason),
    /// The SA has another worker, or a device, for a home.
    Home(usize),
    /// The packet is a fragment.
    Fragment,
    /// This helper cannot open it: the packet is left to the worker.
    Left,
    /// It is of a key exchange.
    Ike,
    /// It keeps a NAT's mapping alive, and that was all.
    Keepalive,
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
pub(super) fn ah_candidate(
    view: &View,
    packet: &Packet,
    meta: &Meta,
) -> Result<Candidate, Refused> {
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
