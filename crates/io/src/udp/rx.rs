//! Receiving: datagrams of the socket, as frames of the pool.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use std::io;
use std::os::fd::BorrowedFd;

use wire::Span;
use wire::ethernet::{EtherType, HEADER_LEN, MacAddr, emit_untagged};

use super::headers::{UDP_LEN, headers_len};
use super::inbox::{Inbox, Message};
use crate::checksum::Sum;
use crate::umem::{Burst, FramePool, MAX_HEADROOM, Packet};

/// Messages that were received, and the place in them to go on cutting at.
pub(super) struct Receiver {
    inbox: Inbox,
    local: SocketAddr,
    cutting: Option<Cutting>,
}

/// Datagrams of one peer that came as one.
struct Cutting {
    headers: Headers,
    /// Datagrams that are still in the inbox.
    place: Range<usize>,
    /// The length of each but the last.
    segment: usize,
}

impl Cutting {
    /// Frames that it still makes.
    fn left(&self) -> usize {
        self.place.len().div_ceil(self.segment)
    }
}

/// Fields of the headers to be put in front of each datagram.
#[derive(Clone, Copy)]
struct Headers {
    src: SocketAddr,
    dst: SocketAddr,
    ds_field: u8,
}

/// Count of a receive call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) refused: u64,
}

impl Receiver {
    pub(super) fn new(local: SocketAddr) -> Self {
        Self { inbox: Inbox::new(), local, cutting: None }
    }

    // 1. With nothing being cut, take the next message; with none left, receive more.
    // 2. End the burst where a super-packet would be torn apart: what is made of it can leave as one then.
    // 3. Put the next datagram of it into a frame.
    /// Receives into the free places of `out`.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        pool: &mut FramePool,
        out: &mut Burst,
        received: &mut Received,
    ) -> io::Result<()> {
        let mut is_drained = false;
        while !out.is_full() {
            if self.cutting.is_none() {
                match self.inbox.next() {
                    Some(message) => match message.and_then(|message| self.begin(message)) {
                        Some(cutting)
                            if cutting.left() > out.remaining_capacity() && !out.is_empty() =>
                        {
                            self.cutting = Some(cutting);
                            return Ok(());
                        }
                        Some(cutting) => self.cutting = Some(cutting),
                        None => received.refused += 1,
                    },
                    None if is_drained => return Ok(()),
                    None => {
                        // Datagrams that come meanwhile are for the next burst.
                        is_drained = true;
                        if !self.inbox.receive(socket)? {
                            return Ok(());
                        }
                    }
                }
                continue;
            }
            let Some(mut frame) = pool.take() else { return Ok(()) };
            let start = frame.headroom();
            match self.cut(frame.bytes_mut(), start) {
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

    /// Begins to cut a message; none if it is empty, or nobody says where it came to.
    fn begin(&self, message: Message) -> Option<Cutting> {
        let Message { from, told, place } = message;
        let bound = Some(self.local.ip()).filter(|ip| !ip.is_unspecified());
        let dst = SocketAddr::new(told.dst.or(bound)?, self.local.port());
        if place.is_empty() || dst.is_ipv4() != from.is_ipv4() {
            return None;
        }
        let segment = if told.segment == 0 { place.len() } else { told.segment };
        let headers = Headers { src: from, dst, ds_field: told.ds_field };
        Some(Cutting { headers, place, segment })
    }

    /// Writes the next datagram into a buffer, as a frame. None for one that has no room there, and for IKE: that is
    /// the program's, which has no socket any more if it comes here.
    fn cut(&mut self, buffer: &mut [u8], start: usize) -> Option<Span> {
        let cutting = self.cutting.as_mut()?;
        let Cutting { headers, place, segment } = cutting;
        let end = place.end.min(place.start.saturating_add(*segment));
        let payload = self.inbox.bytes(place.start..end);
        let headers = *headers;
        place.start = end;
        let is_over = place.start >= place.end;
        let span = write(headers, payload, buffer, start);
        if is_over {
            self.cutting = None;
        }
        span
    }
}

fn write(headers: Headers, payload: &[u8], buffer: &mut [u8], start: usize) -> Option<Span> {
    if payload.starts_with(&NON_ESP_MARKER) {
        return None;
    }
    let len = headers_len(headers.src.is_ipv4()) + payload.len();
    if len > buffer.len().saturating_sub(MAX_HEADROOM) {
        return None;
    }
    let frame = buffer.get_mut(start..start + len)?;
    let ether_type = if headers.src.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    emit_untagged(frame, STATION, STATION, ether_type).ok()?;
    let ip = frame.get_mut(HEADER_LEN..)?;
    let ip_len = headers.write_ip(ip)?;
    let udp = ip.get_mut(ip_len..)?;
    let udp_len = u16::try_from(UDP_LEN + payload.len()).ok()?;
    put(udp, 0, &headers.src.port().to_be_bytes());
    put(udp, 2, &headers.dst.port().to_be_bytes());
    put(udp, 4, &udp_len.to_be_bytes());
    // The kernel has checked it, and receivers of ESP do not (RFC 3948 §2.1).
    put(udp, 6, &[0, 0]);
    udp.get_mut(UDP_LEN..)?.copy_from_slice(payload);
    Some(Span { start, len })
}

impl Headers {
    /// Writes the IP header in front of a packet, and returns its length.
    fn write_ip(&self, packet: &mut [u8]) -> Option<usize> {
        let total = packet.len();
        match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = packet.first_chunk_mut::<20>()?;
                *header = [0; 20];
                (header[0], header[1], header[8], header[9]) = (0x45, self.ds_field, TTL, UDP);
                put(header, 2, &u16::try_from(total).ok()?.to_be_bytes());
                put(header, 12, &src.octets());
                put(header, 16, &dst.octets());
                let checksum = Sum::default().bytes(header).checksum();
                put(header, 10, &checksum.to_be_bytes());
                Some(20)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = packet.first_chunk_mut::<40>()?;
                *header = [0; 40];
                let class = u32::from(self.ds_field) << 20;
                put(header, 0, &(0x6000_0000 | class).to_be_bytes());
                put(header, 4, &u16::try_from(total - 40).ok()?.to_be_bytes());
                (header[6], header[7]) = (UDP, TTL);
                put(header, 8, &src.octets());
                put(header, 24, &dst.octets());
                Some(40)
            }
            _ => None,
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// RFC 3948 §2.2.
const NON_ESP_MARKER: [u8; 4] = [0; 4];

/// Nobody looks at it: ESP's outer header goes away.
const TTL: u8 = 64;
const UDP: u8 = 17;

/// No station: there is no link.
const STATION: MacAddr = MacAddr([0; 6]);
