//! Sending: a burst, joined into as few messages as may be, by one system call.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;

use super::{link, socket};
use crate::tun::coalesce::{Joined, Plan, Run, SuperHeader};
use crate::tun::{VNET_HEADER_LEN, VnetHeader};
use crate::umem::{BURST_LEN, Burst};

/// Count of a send call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// The packets that are done with, a bit for each place of the burst.
    pub(super) gone: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) refused: u64,
    /// Packets that left as parts of super-packets.
    pub(super) joined: u64,
    /// The interface does not take super-packets.
    pub(super) takes_no_super: bool,
}

/// A super-packet to be sent by one call.
struct Outgoing {
    vnet: [u8; VNET_HEADER_LEN],
    header: SuperHeader,
    payload_at: usize,
    run: Run,
}

// 1. Group the burst into runs.
// 2. Send all; go on behind those that can never be sent.
/// Sends a burst. Stops where there is no room.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    burst: &Burst,
    joined: Joined,
    sent: &mut Sent,
) -> io::Result<()> {
    let mut plan = Plan::new(burst.iter().map(|packet| link::split(packet.data())), joined);
    let mut all: ArrayVec<Outgoing, BURST_LEN> = ArrayVec::new();
    while let Some(run) = plan.next_run() {
        all.push(Outgoing::new(&plan, run));
    }
    let mut parts: ArrayVec<IoSlice<'_>, PARTS> = ArrayVec::new();
    let mut counts: ArrayVec<usize, BURST_LEN> = ArrayVec::new();
    for outgoing in &all {
        let before = parts.len();
        outgoing.push_parts(&plan, &mut parts);
        counts.push(parts.len() - before);
    }
    let mut done = 0;
    let mut parts_done = 0;
    while done < all.len() {
        let rest = (parts.get(parts_done..).unwrap_or(&[]), counts.get(done..).unwrap_or(&[]));
        let went = match socket::send(socket, rest.0, rest.1) {
            Ok(went) => {
                all.iter()
                    .skip(done)
                    .take(went)
                    .for_each(|outgoing| outgoing.has_gone(&plan, sent));
                went
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => 0,
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => return Ok(()),
                // An interface that cannot compute checksums, or a kernel that does not know the kind.
                Some(code)
                    if says_no_super(code) && all.get(done).is_some_and(Outgoing::is_super) =>
                {
                    sent.takes_no_super = true;
                    return Ok(());
                }
                // Too short or too long: it will never be taken.
                Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP) => {
                    all.iter().skip(done).take(1).for_each(|outgoing| outgoing.is_refused(sent));
                    1
                }
                _ => return Err(error),
            },
        };
        parts_done += counts.iter().skip(done).take(went).sum::<usize>();
        done += went;
    }
    Ok(())
}

/// True if an error about a super-packet says that the interface takes none: nobody can compute
/// checksums, or the kind is not known.
pub(super) const fn says_no_super(code: i32) -> bool {
    matches!(code, libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)
}

impl Outgoing {
    fn new(plan: &Plan<'_>, run: Run) -> Self {
        let first = run.members.first().copied().unwrap_or_default();
        let Some((vnet, header, payload_at)) = plan.super_header(&run) else {
            let vnet = VnetHeader::PLAIN.emit();
            return Self { vnet, header: SuperHeader::new(), payload_at: 0, run };
        };
        // The kernel counts from where the frame begins.
        let link_len = plan.prefix(first).len() as u16;
        Self { vnet: vnet.with_prefix(link_len).emit(), header, payload_at, run }
    }

    fn is_super(&self) -> bool {
        self.run.members.len() > 1
    }

    /// Headers, then the payloads of all members.
    fn push_parts<'a>(&'a self, plan: &Plan<'a>, parts: &mut ArrayVec<IoSlice<'a>, PARTS>) {
        let first = self.run.members.first().copied().unwrap_or_default();
        for part in [&self.vnet[..], plan.prefix(first), &self.header] {
            if !part.is_empty() {
                parts.push(IoSlice::new(part));
            }
        }
        for &member in &self.run.members {
            let payload = plan.packet(member).get(self.payload_at..).unwrap_or(&[]);
            parts.push(IoSlice::new(payload));
        }
    }

    fn has_gone(&self, plan: &Plan<'_>, sent: &mut Sent) {
        let count = self.run.members.len() as u64;
        sent.packets += count;
        sent.joined += if count > 1 { count } else { 0 };
        for &member in &self.run.members {
            sent.bytes += (plan.prefix(member).len() + plan.packet(member).len()) as u64;
            sent.gone |= 1 << member;
        }
    }

    fn is_refused(&self, sent: &mut Sent) {
        sent.refused += self.run.members.len() as u64;
        self.run.members.iter().for_each(|&member| sent.gone |= 1 << member);
    }
}

/// At most three of headers and one of payload for each packet.
const PARTS: usize = 4 * BURST_LEN;
