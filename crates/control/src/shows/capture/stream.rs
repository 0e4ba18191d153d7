//! A capture on its way to its client: pcapng over the control socket.
//!
//! Written by a thread of its own, so that a client that is slow holds up neither the workers, which lose packets
//! and count them, nor other clients.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime};

use dataplane::{Buffer, Place, TapReader};
use report::CaptureRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::debug;

use super::slots::Slot;
use super::text::{Names, comments};
use crate::applications::Names as Applications;
use crate::pcapng::{self, PacketBlock, Way};

/// A capture that has begun.
pub struct Stream {
    reader: TapReader,
    names: Names,
    applications: Applications,
    begun: Instant,
    snap_len: u32,
    left: Option<u64>,
    until: Option<Instant>,
    /// Packets written, by place.
    written: [u64; Place::ALL.len()],
    _slot: Slot,
}

/// How often the client is looked after while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// How long a client may take none of what it has asked for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long workers may take to tell the last packets: they sleep 50 ms at most.
const LAST: Duration = Duration::from_secs(1);

impl Stream {
    pub(super) fn new(
        reader: TapReader,
        slot: Slot,
        (names, applications): (Names, Applications),
        request: &CaptureRequest,
        until: Option<Instant>,
    ) -> Stream {
        let CaptureRequest { snap_len, count: left, .. } = *request;
        let written = [0; Place::ALL.len()];
        let begun = Instant::now();
        Stream { reader, names, applications, begun, snap_len, left, until, written, _slot: slot }
    }

    /// Writes until the client has enough, as it says by shutting down its side, or by the limits that it has set.
    pub fn run(self, client: UnixStream) {
        if let Err(error) = self.write(client) {
            debug!(%error, "who captured went away");
        }
    }

    fn write(mut self, mut client: UnixStream) -> io::Result<()> {
        client.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut blocks = Vec::new();
        pcapng::section(&mut blocks, concat!("culvert ", env!("CARGO_PKG_VERSION")));
        for place in Place::ALL {
            let (link, about) = description(place);
            pcapng::interface(&mut blocks, link, self.snap_len, place.name(), about);
        }
        client.write_all(&blocks)?;
        let mut ending: Option<Instant> = None;
        let mut why = None;
        loop {
            match self.reader.next(LOOK) {
                Ok(Some(buffer)) => {
                    blocks.clear();
                    self.encode(&buffer, &mut blocks);
                    self.reader.give_back(buffer);
                    client.write_all(&blocks)?;
                }
                Ok(None) => {}
                Err(dataplane::Gone) => {
                    let is_early = ending.is_none() && self.left != Some(0);
                    why = is_early
                        .then_some("the workers changed or ended, and the capture with them");
                    break;
                }
            }
            match ending {
                Some(since) if since.elapsed() > LAST => break,
                Some(_) => {}
                None if self.is_enough(&client) => {
                    self.reader.end();
                    ending = Some(Instant::now());
                }
                None => {}
            }
        }
        blocks.clear();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for (number, place) in (0..).zip(Place::ALL) {
            let lost = self.reader.lost(place);
            let written = self.written.get(place as usize).copied().unwrap_or(0);
            let figures = (written + lost, lost);
            pcapng::statistics(&mut blocks, number, now.as_nanos() as u64, figures, why.take());
        }
        client.write_all(&blocks)
    }

    fn encode(&mut self, buffer: &Buffer, blocks: &mut Vec<u8>) {
        for (record, bytes) in buffer.iter() {
            match &mut self.left {
                Some(0) => return,
                Some(left) => *left -= 1,
                None => {}
            }
            if let Some(written) = self.written.get_mut(record.place as usize) {
                *written += 1;
            }
            let mut comments = comments(record, &self.names);
            let application = match record.place {
                Place::Frame => None,
                _ => self.applications.of_packet(bytes, self.begun.elapsed()),
            };
            comments.extend(application.map(|name| format!("application {name}")));
            pcapng::packet(
                blocks,
                &PacketBlock {
                    interface: record.place as u32,
                    time_ns: record.time_ns,
                    bytes,
                    len: record.len,
                    way: if record.is_outbound { Way::Out } else { Way::In },
                    comments: &comments,
                },
            );
        }
    }

    /// True if the client has as much as it wants.
    fn is_enough(&self, client: &UnixStream) -> bool {
        is_shut(client)
            || self.left == Some(0)
            || self.until.is_some_and(|until| until <= Instant::now())
    }
}

/// True if a client that has asked has shut its side down. It says nothing more, so readable means
/// its end.
pub fn is_shut(client: &UnixStream) -> bool {
    let mut fds = [PollFd::new(client, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

/// A tap's link type, and what it is.
fn description(place: Place) -> (u16, &'static str) {
    match place {
        Place::Wire => (pcapng::LINK_RAW, "IPsec packets before decryption and after encryption"),
        Place::Plain => {
            (pcapng::LINK_RAW, "IP packets in clear, before encryption and after decryption")
        }
        Place::Frame => {
            (pcapng::LINK_ETHERNET, "Ethernet frames without an IP packet for this host")
        }
    }
}
