//! A worker's queue: a ring of packets that the hardware works on when it is polled.

use std::collections::VecDeque;

use crypto::Op;
use offload::{Buffer, Burst, Completion, CryptoWork, Queue, Request, SaDirection, Status, Work};
use outcome::DropReason;

use crate::inline_crypto::descriptor::{
    ERROR_AUTHENTICATION, ERROR_NONE, ReceiveStatus, TransmitContext,
};
use crate::inline_crypto::engine::ICV_LEN;
use crate::inline_crypto::shared::{Inner, SharedNic};

/// The queue. Its lock stands for the hardware: control has it for as long as a reset takes.
pub(crate) struct NicQueue<B> {
    nic: SharedNic,
    /// The oldest first.
    inside: VecDeque<Request<B>>,
}

impl<B> NicQueue<B> {
    pub fn new(nic: SharedNic) -> NicQueue<B> {
        NicQueue { nic, inside: VecDeque::with_capacity(DEPTH) }
    }
}

impl<B: Buffer> Queue<B> for NicQueue<B> {
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let count = requests.len().min(DEPTH - self.inside.len());
        self.inside.extend(requests.drain(..count));
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let count = completions.remaining_capacity().min(self.inside.len());
        if count == 0 {
            return 0;
        }
        let mut inner = self.nic.lock();
        if inner.nic.is_hung() {
            return 0;
        }
        for Request { mut buffer, work } in self.inside.drain(..count) {
            let status = match work {
                Work::Seal(of) => run(&mut inner, Op::Seal, of, buffer.packet_mut()),
                Work::Open(of) => run(&mut inner, Op::Open, of, buffer.packet_mut()),
                Work::Outbound | Work::Inbound => Err(DropReason::OutUnsupported),
            };
            let status = status.map_or_else(Status::Dropped, |()| Status::Done);
            completions.push(Completion { buffer, work, status });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inside.len()
    }

    fn depth(&self) -> usize {
        DEPTH
    }
}

fn run(inner: &mut Inner, op: Op, work: CryptoWork, packet: &mut [u8]) -> Result<(), DropReason> {
    let (direction, failed) = match op {
        Op::Seal => (SaDirection::Outbound, DropReason::OutCrypto),
        Op::Open => (SaDirection::Inbound, DropReason::InCrypto),
    };
    let place = inner.shadow.place(work.sa).filter(|place| place.direction == direction);
    let is_whole = work.esp.start.checked_add(work.esp.len) == Some(packet.len());
    // ESN would go into the ICV.
    let Some(place) = place.filter(|_| is_whole && work.seq_hi.is_none()) else {
        return Err(failed);
    };
    if op == Op::Open {
        // The hardware finds the SA by itself.
        return told(inner.nic.receive(packet));
    }
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let context = TransmitContext::esp(
        place.index,
        work.esp.start,
        trailer_len(packet),
        place.is_encrypted,
        is_v4,
    );
    inner.nic.transmit(context, packet).map_err(|_| failed)
}

/// Length of padding, trailer and ICV of a packet that is still in clear.
fn trailer_len(packet: &[u8]) -> usize {
    let pad_len = packet.len().checked_sub(ICV_LEN + 2).and_then(|at| packet.get(at));
    ICV_LEN + 2 + usize::from(pad_len.copied().unwrap_or(0))
}

fn told(status: ReceiveStatus) -> Result<(), DropReason> {
    match (status.is_secp(), status.error()) {
        (true, ERROR_NONE) => Ok(()),
        (true, ERROR_AUTHENTICATION) => Err(DropReason::InIntegrity),
        _ => Err(DropReason::InCrypto),
    }
}

/// Descriptors of a ring.
const DEPTH: usize = 128;
