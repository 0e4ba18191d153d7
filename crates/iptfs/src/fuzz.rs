//! The entry of the fuzz target: any bytes may be given, nothing may panic.

use crate::congestion::{Arrivals, Bounds, Sender};
use crate::deaggregate::{Deaggregator, Sink};
use crate::header::Header;
use crate::reorder::Window;

/// Memory for one packet of 4000 bytes.
#[derive(Default)]
struct Memory {
    partial: Option<usize>,
    bytes: usize,
}

impl Sink for Memory {
    fn packet(&mut self, bytes: &[u8]) {
        assert!(bytes.len() >= 20, "shorter than an IP header");
        self.bytes += bytes.len();
    }

    fn begin(&mut self, _: Option<usize>) -> bool {
        assert!(self.partial.replace(0).is_none(), "two at a time");
        true
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        match &mut self.partial {
            Some(len) => *len += bytes.len(),
            None => panic!("a piece of nothing"),
        }
        self.bytes += bytes.len();
        self.partial.is_some_and(|len| len <= 4000)
    }

    fn complete(&mut self) {
        assert!(self.partial.take().is_some_and(|len| len >= 20), "shorter than an IP header");
    }

    fn abort(&mut self) {
        assert!(self.partial.take().is_some(), "nothing to give up");
    }
}

/// Both halves of congestion control.
struct Reports {
    arrivals: Arrivals,
    sender: Sender,
}

impl Reports {
    fn new() -> Reports {
        let bounds = Bounds { least_per_s: 2.0, most_per_s: 1_000.0 };
        Reports { arrivals: Arrivals::default(), sender: Sender::new(bounds, 0) }
    }

    fn payload(&mut self, number: u64, payload: &[u8], now_us: u64) {
        let Ok((header, _)) = Header::parse(payload) else { return };
        let mut bytes = [0; Header::CONGESTION_LEN];
        assert!(header.emit(&mut bytes).is_some(), "there is room");
        let again = bytes.get(..header.header_len()).map(Header::parse);
        assert_eq!(again, Some(Ok((header, &[][..]))), "written as it was read");
        self.arrivals.arrived(number, payload.len() % 2 == 1, header.congestion.as_ref(), now_us);
        let report = self.arrivals.report();
        self.sender.hear(&report);
        let rate = self.sender.rate_per_s(now_us);
        assert!((2.0..=1_000.0).contains(&rate), "{rate} is out of bounds");
        self.sender.header(&report, now_us);
    }
}

/// Treats `data` as payloads as they arrive. The first byte is the window's size; each payload has in front of it how far
/// its number is from the one before, and its length in two bytes.
///
/// # Panics
/// When pieces are given out in another order than a sink is promised, more bytes come out than went in, a header is
/// written otherwise than it was read, or reports of congestion move a rate out of its bounds.
pub fn payloads(data: &[u8]) {
    let Some((size, mut rest)) = data.split_first() else { return };
    let mut window = Window::new(u16::from(size % 16), 1_000);
    let (mut deaggregator, mut memory) = (Deaggregator::default(), Memory::default());
    let mut reports = Reports::new();
    let mut number = 1_000_u64;
    let mut now_ns = 0;
    while let [step, high, low, behind @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([high & 0x0f, *low])).min(behind.len());
        let (payload, after) = behind.split_at(len);
        number = number.saturating_add_signed(i64::from(*step as i8));
        now_ns += 100;
        reports.payload(number, payload, now_ns);
        let mut deliver = |number, payload: &[u8]| {
            deaggregator.payload(number, payload, &mut memory);
        };
        window.expire(now_ns, &mut deliver);
        let _ = window.push(number, payload, now_ns, &mut deliver);
        rest = after;
    }
    window.drain(|number, payload| {
        deaggregator.payload(number, payload, &mut memory);
    });
    deaggregator.abort(&mut memory);
    assert!(memory.bytes <= data.len(), "more than came");
}
