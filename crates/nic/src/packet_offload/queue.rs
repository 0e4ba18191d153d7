//! A worker's queue: a ring of packets that the hardware works on when it is polled.

use std::collections::VecDeque;

use offload::{Buffer, Burst, Completion, Queue, Request};

use crate::packet_offload::hardware::SharedHardware;

/// The queue. Its lock stands for the hardware, which control has for one entry of a table at most.
pub(crate) struct PacketQueue<B> {
    hardware: SharedHardware,
    /// The oldest first.
    inside: VecDeque<Request<B>>,
}

impl<B> PacketQueue<B> {
    pub fn new(hardware: SharedHardware) -> PacketQueue<B> {
        PacketQueue { hardware, inside: VecDeque::with_capacity(DEPTH) }
    }
}

impl<B: Buffer> Queue<B> for PacketQueue<B> {
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
        let mut hardware = self.hardware.lock();
        for Request { mut buffer, work } in self.inside.drain(..count) {
            let status = hardware.work(work, &mut buffer);
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

/// Descriptors of a ring.
const DEPTH: usize = 256;
