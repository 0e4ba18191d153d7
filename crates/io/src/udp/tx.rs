//! Sending: the payloads of a burst, in as few messages as may be, by one system call.

use core::net::{IpAddr, SocketAddr};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use wire::ethernet::HEADER_LEN;

use super::headers::UDP_LEN;
use super::socket::{self, Control, Name, Outgoing};
use crate::umem::{BURST_LEN, Burst};

/// Count of a send call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// The packets that are done with, a bit for each place of the burst.
    pub(super) gone: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) refused: u64,
    /// The kernel does not take several as one.
    pub(super) takes_no_run: Option<Refusal>,
}

/// For what the kernel refuses to take several datagrams as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// These datagrams cannot be joined.
    Here,
    /// For all: the way out cannot compute checksums, or the kernel is too old.
    Always,
}

/// A frame, taken apart.
#[derive(Clone, Copy, PartialEq)]
struct Datagram<'p> {
    src: IpAddr,
    dst: SocketAddr,
    ds_field: u8,
    payload: &'p [u8],
}

/// Datagrams that are sent as one, by their places.
struct Run<'p> {
    places: ArrayVec<usize, BURST_LEN>,
    first: Datagram<'p>,
    len: usize,
    /// A shorter one is its last.
    is_over: bool,
}

// 1. Group what is left of the burst into runs; refuse what is no datagram.
// 2. Send all; go on behind those that can never be sent.
/// Sends what has not gone yet of a burst. Stops where there is no room.
pub(super) fn send(
    fd: BorrowedFd<'_>,
    burst: &Burst,
    joins: bool,
    sent: &mut Sent,
) -> io::Result<()> {
    let mut runs: ArrayVec<Run<'_>, BURST_LEN> = ArrayVec::new();
    for (place, packet) in burst.iter().enumerate() {
        if sent.gone & (1 << place) != 0 {
            continue;
        }
        let Some(datagram) = Datagram::of(packet.data()) else {
            sent.refused += 1;
            sent.gone |= 1 << place;
            continue;
        };
        // Datagrams of one flow stay in order: only the last run of a flow goes on.
        let last = runs.iter_mut().rev().find(|run| run.is_to(&datagram));
        match last.filter(|run| joins && run.takes(&datagram)) {
            Some(run) => run.push(place, &datagram),
            None => runs.push(Run::new(place, datagram)),
        }
    }
    let mut parts: ArrayVec<IoSlice<'_>, BURST_LEN> = ArrayVec::new();
    for place in runs.iter().flat_map(|run| run.places.iter()) {
        let payload = burst.get(*place).and_then(|packet| Datagram::of(packet.data()));
        parts.push(IoSlice::new(payload.map_or(&[], |datagram| datagram.payload)));
    }
    let mut messages: ArrayVec<Outgoing, BURST_LEN> = runs.iter().map(Run::message).collect();
    let (mut done, mut parts_done) = (0, 0);
    while done < runs.len() {
        let rest = messages.get_mut(done..).unwrap_or(&mut []);
        let went = match socket::send(fd, rest, parts.get(parts_done..).unwrap_or(&[])) {
            Ok(went) => {
                runs.iter().skip(done).take(went).for_each(|run| run.has_gone(burst, sent));
                went
            }
            Err(error) => {
                let is_run = runs.get(done).is_some_and(|run| run.places.len() > 1);
                match error.raw_os_error() {
                    Some(libc::EINTR) => 0,
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => return Ok(()),
                    Some(code) if is_run && refusal(code).is_some() => {
                        sent.takes_no_run = refusal(code);
                        return Ok(());
                    }
                    Some(libc::EBADF | libc::ENOTSOCK) => return Err(error),
                    // No route, a filter's verdict, an address that is gone, too long: what is behind it may go.
                    _ => {
                        runs.iter().skip(done).take(1).for_each(|run| run.is_refused(sent));
                        1
                    }
                }
            }
        };
        parts_done += runs.iter().skip(done).take(went).map(|run| run.places.len()).sum::<usize>();
        done += went;
    }
    Ok(())
}

/// Meaning of an error of a joined send.
const fn refusal(code: i32) -> Option<Refusal> {
    match code {
        libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT => Some(Refusal::Always),
        // One of them does not fit the way's MTU.
        libc::EINVAL | libc::EMSGSIZE => Some(Refusal::Here),
        _ => None,
    }
}

impl<'p> Datagram<'p> {
    /// Of a frame: Ethernet without a tag, IP without options, UDP.
    fn of(frame: &'p [u8]) -> Option<Self> {
        let ip = frame.get(HEADER_LEN..)?;
        let (src, dst, ds_field, ip_len): (IpAddr, IpAddr, u8, usize) = match ip.first()? {
            0x45 => {
                let header = ip.first_chunk::<20>()?;
                let field = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk::<4>);
                (header[9] == UDP).then_some(())?;
                ((*field(12)?).into(), (*field(16)?).into(), header[1], 20)
            }
            first if first >> 4 == 6 => {
                let header = ip.first_chunk::<40>()?;
                let field = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk::<16>);
                (header[6] == UDP).then_some(())?;
                let class = (header[0] << 4) | (header[1] >> 4);
                ((*field(8)?).into(), (*field(24)?).into(), class, 40)
            }
            _ => return None,
        };
        let (udp, payload) = ip.get(ip_len..)?.split_first_chunk::<UDP_LEN>()?;
        let dst = SocketAddr::new(dst, u16::from_be_bytes([udp[2], udp[3]]));
        Some(Self { src, dst, ds_field, payload })
    }
}

impl<'p> Run<'p> {
    fn new(place: usize, first: Datagram<'p>) -> Self {
        let mut places = ArrayVec::new();
        places.push(place);
        Run { places, len: first.payload.len(), is_over: first.payload.is_empty(), first }
    }

    fn is_to(&self, next: &Datagram<'_>) -> bool {
        (self.first.src, self.first.dst) == (next.src, next.dst)
    }

    /// True if a datagram belongs to the same flow and can be joined.
    fn takes(&self, next: &Datagram<'_>) -> bool {
        !self.is_over
            && self.first.ds_field == next.ds_field
            && !next.payload.is_empty()
            && next.payload.len() <= self.first.payload.len()
            && self.len + next.payload.len() <= MAX_LEN
    }

    fn push(&mut self, place: usize, next: &Datagram<'_>) {
        self.places.push(place);
        self.len += next.payload.len();
        self.is_over = next.payload.len() < self.first.payload.len();
    }

    fn message(&self) -> Outgoing {
        let Datagram { src, dst, ds_field, payload } = self.first;
        let (to, to_len) = Name::of(dst);
        let control = Control::from_source(src, ds_field);
        let control = match self.places.len() {
            1 => control,
            // At most a frame's length.
            _ => control.cut_by(payload.len() as u16),
        };
        Outgoing { to, to_len, control, parts: self.places.len() }
    }

    fn has_gone(&self, burst: &Burst, sent: &mut Sent) {
        sent.packets += self.places.len() as u64;
        for &place in &self.places {
            sent.bytes += burst.get(place).map_or(0, |packet| packet.span.len) as u64;
            sent.gone |= 1 << place;
        }
    }

    fn is_refused(&self, sent: &mut Sent) {
        sent.refused += self.places.len() as u64;
        self.places.iter().for_each(|&place| sent.gone |= 1 << place);
    }
}

/// The most payload that one message may have with the headers of either family.
const MAX_LEN: usize = 65535 - 40 - UDP_LEN;
const UDP: u8 = 17;
