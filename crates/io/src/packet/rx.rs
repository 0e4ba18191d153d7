//! Receiving: messages of the socket, cut into the pool's frames.

use core::ops::Range;
use std::io;
use std::os::fd::BorrowedFd;

use wire::Span;

use super::inbox::{Inbox, Message};
use super::link::{self, LinkHeader};
use crate::tun::segment::{self, Limits, Segmenter};
use crate::tun::vnet::Gso;
use crate::umem::{Burst, FramePool, MAX_HEADROOM, Packet};

/// Messages that were received, and the place in them to go on cutting at.
pub(super) struct Receiver {
    inbox: Inbox,
    cutting: Option<Cutting>,
}

/// A super-packet that is being cut.
struct Cutting {
    link: LinkHeader,
    /// The IP packet in the inbox.
    place: Range<usize>,
    segmenter: Segmenter,
}

impl Cutting {
    /// Frames that it still makes.
    fn left(&self) -> usize {
        self.segmenter.left(self.place.len())
    }
}

/// Count of a receive call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) refused: u64,
}

/// Result of a look at a message.
enum Begun {
    /// The message is one packet, which lies in the frame.
    Whole(Span),
    /// The message is a super-packet, to be cut.
    Cut,
    Refused,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { inbox: Inbox::new(), cutting: None }
    }

    // 1. Take a frame, so that nothing is begun that has no place to go.
    // 2. Go on with the super-packet being cut, or begin the next message; with none left, receive more.
    // 3. Put the next frame of it into the burst.
    /// Receives into the free places of `out`. A super-packet that would be torn apart by the burst's end begins
    /// the next one: then what is made of it can leave as one again.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        pool: &mut FramePool,
        out: &mut Burst,
        received: &mut Received,
    ) -> io::Result<()> {
        let mut is_drained = false;
        while !out.is_full() {
            let Some(mut frame) = pool.take() else { break };
            let start = frame.headroom();
            let span = if self.cutting.is_some() {
                self.cut(frame.bytes_mut(), start)
            } else {
                let next = match self.inbox.next() {
                    Some(next) => next,
                    None if is_drained => {
                        pool.put(frame);
                        break;
                    }
                    None => {
                        pool.put(frame);
                        // Packets that come meanwhile are for the next burst.
                        is_drained = true;
                        match self.inbox.receive(socket)? {
                            true => continue,
                            false => break,
                        }
                    }
                };
                match next
                    .map_or(Begun::Refused, |message| self.begin(message, frame.bytes_mut(), start))
                {
                    Begun::Whole(span) => Some(span),
                    Begun::Cut => {
                        pool.put(frame);
                        let segments = self.cutting.as_ref().map_or(0, Cutting::left);
                        if segments > out.remaining_capacity() && !out.is_empty() {
                            break;
                        }
                        continue;
                    }
                    Begun::Refused => None,
                }
            };
            match span {
                Some(span) => {
                    received.bytes += span.len as u64;
                    out.push(Packet { frame, span });
                }
                None => {
                    received.refused += 1;
                    pool.put(frame);
                }
            }
        }
        Ok(())
    }

    /// Takes in a message: into `buffer` from `start` on, or to be cut.
    fn begin(&mut self, message: Message, buffer: &mut [u8], start: usize) -> Begun {
        let Message { mut vnet, place, tag } = message;
        let bytes = self.inbox.bytes_mut(place.clone());
        let link_len = link::split(bytes).0.len();
        let Some((link, ip)) = bytes.split_at_mut_checked(link_len) else { return Begun::Refused };
        let link = link::with_tag(link, tag);
        // The kernel counts from where the frame begins.
        vnet.hdr_len = vnet.hdr_len.saturating_sub(link_len as u16);
        let Some(csum_start) =
            vnet.csum_start.checked_sub(link_len as u16).or((!vnet.needs_csum).then_some(0))
        else {
            return Begun::Refused;
        };
        vnet.csum_start = csum_start;
        if vnet.gso == Gso::None {
            // TCP's lies elsewhere.
            let is_udp = vnet.csum_offset == UDP_CHECKSUM_AT;
            if vnet.needs_csum && segment::complete(&vnet, ip, is_udp).is_err() {
                return Begun::Refused;
            }
            let end = start + link.len() + ip.len();
            let Some(room) = buffer.get_mut(start..end) else { return Begun::Refused };
            let Some((to_link, to_ip)) = room.split_at_mut_checked(link.len()) else {
                return Begun::Refused;
            };
            to_link.copy_from_slice(&link);
            to_ip.copy_from_slice(ip);
            return Begun::Whole(Span { start, len: end - start });
        }
        let room = buffer.len().saturating_sub(MAX_HEADROOM + link.len());
        match Segmenter::new(&vnet, ip, Limits { segment: room, frame: room }) {
            Ok(segmenter) => {
                let place = place.start + link_len..place.end;
                self.cutting = Some(Cutting { link, place, segmenter });
                Begun::Cut
            }
            Err(_) => Begun::Refused,
        }
    }

    /// Writes the next frame of the super-packet.
    fn cut(&mut self, buffer: &mut [u8], start: usize) -> Option<Span> {
        let Cutting { link, place, segmenter } = self.cutting.as_mut()?;
        let packet = self.inbox.bytes_mut(place.clone());
        let made = buffer.get_mut(start..).and_then(|room| {
            let (to_link, to_ip) = room.split_at_mut_checked(link.len())?;
            to_link.copy_from_slice(link);
            segmenter.next(packet, to_ip).filter(|&made| made > 0)
        });
        let len = made.map(|made| link.len() + made);
        if made.is_none() || segmenter.is_done() {
            self.cutting = None;
        }
        len.map(|len| Span { start, len })
    }
}

/// Where UDP has its checksum.
const UDP_CHECKSUM_AT: u16 = 6;
