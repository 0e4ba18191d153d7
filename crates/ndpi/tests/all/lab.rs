//! Children, and packets for them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ndpi::{Broken, Child, Heard, Link};

/// The program that serves: an example of this crate, which Cargo builds with its tests.
pub(crate) fn program() -> PathBuf {
    let own = std::env::current_exe().expect("own path");
    let folder = own.parent().and_then(Path::parent).expect("a folder");
    folder.join("examples/child")
}

/// A child and its queue.
pub(crate) struct Subject {
    pub(crate) child: Child,
    pub(crate) link: Link,
    begun: Instant,
}

impl Subject {
    /// Begins `program`, which is `child`, or a program that begins it.
    pub(crate) fn begin(program: &Path, arguments: &[&str]) -> Subject {
        let (child, socket) = Child::begin(program, arguments).expect("a child");
        Subject { child, link: Link::new(socket), begun: Instant::now() }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// The next news.
    pub(crate) fn hear(&mut self) -> Result<Heard, Broken> {
        loop {
            assert!(self.begun.elapsed() < Duration::from_secs(60), "nothing is heard");
            if let Some(heard) = self.link.next(self.now_ns())? {
                return Ok(heard);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The answer to a packet of a flow.
    pub(crate) fn ask(
        &mut self,
        flow: u32,
        is_last: bool,
        packet: &[u8],
    ) -> Result<Option<u16>, Broken> {
        assert!(self.link.ask(self.now_ns(), flow, is_last, 1_000, packet), "it was not asked");
        match self.hear()? {
            Heard::Flow { flow: answered, protocol } => {
                assert_eq!(answered, flow);
                Ok(protocol)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Status of the child by proc(5).
    pub(crate) fn status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.child.pid())).expect("a process")
    }
}

/// An IPv4 packet; its checksums are not looked at.
fn ip(protocol: u8, upper: &[u8], is_back: bool) -> Vec<u8> {
    let len = (20 + upper.len()) as u16;
    let mut packet = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 1, 0, 0, 64, protocol, 0, 0];
    let (client, server) = ([10, 1, 0, 5], [192, 0, 2, 9]);
    packet.extend(if is_back { [server, client] } else { [client, server] }.concat());
    packet.extend(upper);
    packet
}

pub(crate) fn segment(port: u16, sequence: u32, payload: &[u8], is_back: bool) -> Vec<u8> {
    let mut ports = [50_000u16.to_be_bytes(), port.to_be_bytes()];
    if is_back {
        ports.reverse();
    }
    let mut tcp = ports.concat();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    ip(6, &tcp, is_back)
}

pub(crate) fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let udp =
        [&50_000u16.to_be_bytes()[..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload];
    ip(17, &udp.concat(), false)
}
