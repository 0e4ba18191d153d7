//! Packets that an SA protects: gathered, sealed by the burst, sent.

use arrayvec::ArrayVec;
use esp::{Deflate, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{MAX_BUNDLE, SaBundle, SaEntry};
use wire::Fields;

use crate::apply::Executor;
use crate::crypt::{Exit, Lengths, Seals};
use crate::model::{Handed, NextHop, Seal, SealAll};
use crate::packets::Out;
use crate::packets::fragment::fragment;
use crate::view::View;

impl Executor {
    /// Adds a packet to the burst that is sealed.
    #[inline(always)]
    pub(crate) fn seal(
        &mut self,
        view: &View,
        seal: &Seal,
        (sa, to): (&SaEntry<Sa>, Option<&NextHop>),
        mut packet: Packet,
        h: Fields,
    ) {
        if self.crypt.seals.is_full() {
            self.seal_gathered(view);
        }
        if seal.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.out.drop(packet, DropReason::MalformedIp);
        }
        let exit = to.map_or(Exit::Ready(&seal.adjacency), Exit::To);
        let (sa, mtu) = ((seal.sa, sa), usize::from(seal.mtu));
        let gathered = self.crypt.seals.gather(packet, h, sa, mtu, exit, view.now.wall_s);
        if let Err((packet, reason)) = gathered {
            self.out.drop(packet, reason);
        }
    }

    /// Adds a packet to the burst that is sealed, for several SAs, one after the other. One of IPComp, which
    /// comes first, compresses it here: what the others have to do hangs on what comes out.
    #[inline(never)]
    pub(crate) fn seal_all(
        &mut self,
        view: &View,
        seal: &SealAll,
        mut packet: Packet,
        mut h: Fields,
    ) {
        if self.crypt.seals.is_full() {
            self.seal_gathered(view);
        }
        let mut sas: ArrayVec<&SaEntry<Sa>, MAX_BUNDLE> = ArrayVec::new();
        for handle in seal.sas.as_slice() {
            match view.reader.sa(*handle) {
                // As many as a bundle has.
                Some(sa) => drop(sas.try_push(sa)),
                None => return self.out.drop(packet, DropReason::OutStateExpired),
            }
        }
        if seal.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.out.drop(packet, DropReason::MalformedIp);
        }
        let mut handles = seal.sas.as_slice();
        let onward = seal.onward();
        sas.truncate(seal.own.into());
        if let Some(first) = sas.first().filter(|sa| sa.esp.is_ipcomp()) {
            let (deflate, _) = self.crypt.deflate();
            match compress(&first.esp, &mut packet, h, deflate, view.now.wall_s) {
                Ok(fields) => h = fields,
                Err(reason) => return self.out.drop(packet, reason),
            }
            sas.remove(0);
            handles = handles.get(1..).unwrap_or_default();
        }
        let of_packets: ArrayVec<&Sa, MAX_BUNDLE> = sas.iter().map(|sa| &sa.esp).collect();
        let payloads: ArrayVec<usize, MAX_BUNDLE> = match Lengths::of(&of_packets, packet.data(), h)
        {
            Ok(lengths) => lengths.payloads().collect(),
            Err(reason) => return self.out.drop(packet, reason),
        };
        // What goes on to another home has no frame yet.
        let known = seal.adjacency.as_ref().filter(|_| onward.is_none());
        let exit = known.map_or(Exit::To(&seal.to), Exit::Ready);
        let (mtu, now_s) = (seal.to.mtu, view.now.wall_s);
        let mut each = handles.iter().copied().zip(sas).zip(payloads);
        let seals = &mut self.crypt.seals;
        match (each.next(), onward) {
            (Some((first, _)), onward) => {
                match seals.gather(packet, h, first, mtu, exit, now_s) {
                    Ok(()) => each.for_each(|(sa, len)| seals.gather_further(sa, len, now_s)),
                    Err((packet, reason)) => return self.out.drop(packet, reason),
                }
                onward.into_iter().for_each(|onward| seals.note_onward(onward));
            }
            // It is compressed, and that was all.
            (None, Some(onward)) => send_onward(view, &mut self.out, packet, onward),
            (None, None) => self.out.drop(packet, DropReason::OutStateExpired),
        }
    }

    /// Seals what was gathered, and sends it.
    ///
    /// Packets leave in the order of their sequence numbers, which is that of their arrival.
    #[inline(never)]
    pub(crate) fn seal_gathered(&mut self, view: &View) {
        if let Some(work) = self.crypt.take_seals(&view.reader) {
            if let Some(taps) = &mut self.out.taps {
                taps.sealing(view, &work);
            }
            self.crypt.submit_seals(work, &view.reader);
        }
        self.send_done_seals(view);
    }

    /// Sends what is sealed by now.
    pub(crate) fn send_done_seals(&mut self, view: &View) {
        while let Some(mut done) = self.crypt.poll_seals() {
            if !done.onward.is_empty() {
                self.hand_onward(view, &mut done);
            }
            self.send_sealed(view, &mut done);
            self.crypt.put_back_seals(done);
        }
    }

    /// Sends what has been sealed, and empties the burst.
    fn send_sealed(&mut self, view: &View, seals: &mut Seals) {
        let Executor { crypt, out, .. } = self;
        if let Some(taps) = &mut out.taps {
            taps.sealed(view, seals);
        }
        let mut encrypted = 0;
        for (packet, work) in seals.packets.drain(..).zip(&seals.work) {
            match (work.end, work.exit()) {
                (None, Exit::Ready(adjacency)) => {
                    encrypted += 1;
                    out.send(adjacency.slot.into(), packet);
                }
                (None, Exit::To(to)) => {
                    encrypted += 1;
                    send_sealed_to(view, out, packet, to, &mut crypt.ivs);
                }
                (Some(reason), _) => out.drop(packet, reason),
            }
        }
        out.counters.work.encrypted.add(encrypted);
    }

    /// Takes the packets out of what has been sealed that go on to homes of further SAs. They count there.
    #[cold]
    #[inline(never)]
    fn hand_onward(&mut self, view: &View, seals: &mut Seals) {
        let Seals { packets, work, onward, .. } = seals;
        let mut onward = onward.drain(..).peekable();
        for (at, packet) in core::mem::take(packets).into_iter().enumerate() {
            let onward = onward.next_if(|(place, _)| usize::from(*place) == at);
            let is_sealed = work.get(at).is_some_and(|work| work.end.is_none());
            match onward.filter(|_| is_sealed) {
                Some((_, onward)) => send_onward(view, &mut self.out, packet, onward),
                None => {
                    work.swap(packets.len(), at);
                    // As many as there were.
                    let _ = packets.try_push(packet);
                }
            }
        }
    }
}

/// Hands a packet to the home of the SA that protects it next.
#[cold]
fn send_onward(view: &View, out: &mut Out, packet: Packet, onward: SaBundle) {
    match onward.as_slice().first().and_then(|sa| view.reader.sa(*sa)) {
        Some(sa) => out.hand(sa.home().at(), Handed::Sealed(packet, onward)),
        None => out.drop(packet, DropReason::OutStateExpired),
    }
}

/// Counts a packet with an SA of IPComp, and compresses it. Returns the new headers.
fn compress(
    sa: &Sa,
    packet: &mut Packet,
    h: Fields,
    deflate: &mut Deflate,
    now_s: u64,
) -> Result<Fields, DropReason> {
    let len = sa.payload_len(packet.data(), h)?;
    packet.span = sa.compress(packet.frame.bytes_mut(), packet.span, h, deflate)?;
    sa.live().count(len as u64, now_s);
    Ok(Fields::from(&wire::parse_ip(packet.data())?))
}

/// Sends a sealed packet whose next hop no plan has, in fragments where it could not be made short enough.
#[cold]
#[inline(never)]
pub(crate) fn send_sealed_to(
    view: &View,
    out: &mut Out,
    packet: Packet,
    to: &NextHop,
    ivs: &mut esp::IvSource,
) {
    let next = to.towards();
    if packet.span.len <= to.mtu {
        return out.send_to(view, packet, next);
    }
    match wire::parse_ip(packet.data()) {
        Ok(h) => {
            let ident = ivs.random() as u32;
            fragment(out, packet, &h, (to.mtu, ident), |out, piece, _| {
                out.send_to(view, piece, next);
            });
        }
        Err(error) => out.drop(packet, error.into()),
    }
}
