//! A sink with memory of its own, for tests and benches.

use crate::deaggregate::Sink;

/// Packets, as they came out of payloads.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Packets that are whole.
    pub packets: Vec<Vec<u8>>,
    partial: Vec<u8>,
}

impl Sink for Collected {
    fn packet(&mut self, bytes: &[u8]) {
        self.packets.push(bytes.to_vec());
    }

    fn begin(&mut self, _: Option<usize>) -> bool {
        self.partial.clear();
        true
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        self.partial.extend(bytes);
        true
    }

    fn complete(&mut self) {
        self.packets.push(core::mem::take(&mut self.partial));
    }

    fn abort(&mut self) {}
}
