//! The register map (`hdl/doc/registers.md`, `gateway_regs_pkg.sv`), and what drives it.

/// Access to the registers of one gateway. Addresses are in bytes, every register has 32 bits.
pub trait Registers {
    /// Reads a register.
    fn read(&mut self, address: u16) -> u32;
    /// Writes a register.
    fn write(&mut self, address: u16, value: u32);
}

/// "CVGW" in ASCII.
pub const MAGIC: u32 = 0x4356_4757;

/// Register with [`MAGIC`], for a driver to know the device by.
pub const REG_MAGIC: u16 = 0x000;
/// Major version in the upper half, minor one in the lower.
pub const REG_VERSION: u16 = 0x004;
/// Modules: policy, SAD, AES-CBC, DES, highest byte first.
pub const REG_MODULES: u16 = 0x008;
/// AES-GCM lanes, SHA-1 and SHA-256 modules, rounds of SHA-1 a cycle, highest byte first.
pub const REG_LANES: u16 = 0x00c;
/// Sizes of the tables: bits of an SA's index, of a policy's, of a bucket's, and shapes, highest byte
/// first.
pub const REG_SIZES: u16 = 0x014;
/// Starts a table access: the table, and [`COMMAND_WRITE`].
pub const REG_COMMAND: u16 = 0x020;
/// The entry that the access is about.
pub const REG_INDEX: u16 = 0x024;
/// Register of [`STATUS_BUSY`] and [`STATUS_LOCKED`].
pub const REG_STATUS: u16 = 0x028;
/// Takes the oldest event; see [`Event`].
pub const REG_EVENT: u16 = 0x030;
/// The record to be written, or that was read: lowest bits first.
pub const REG_RECORD: u16 = 0x100;
/// Counters, outbound; inbound ones are [`COUNTERS_APART`] further on.
pub const REG_COUNTERS: u16 = 0x400;
/// From the outbound counters to the inbound ones.
pub const COUNTERS_APART: u16 = 0x100;

/// The access writes.
pub const COMMAND_WRITE: u32 = 1 << 8;
/// An access is under way.
pub const STATUS_BUSY: u32 = 1;
/// The record is locked to zero: a unit may still be emptying its tables after reset.
pub const STATUS_LOCKED: u32 = 1 << 3;

/// The first version that drops the packets of an SA whose state was not written since reset, and makes IVs
/// under the salt of that state.
pub const VERSION: u32 = 0x0001_0002;

/// Bits of an SA's index.
pub const SA_BITS: u32 = 10;
/// Bits of a policy's index.
pub const POLICY_BITS: u32 = 10;
/// Bits of a hash bucket's index.
pub const BUCKET_BITS: u32 = 11;
/// Shapes of selectors in each direction.
pub const SHAPES: usize = 8;
/// Value of [`REG_SIZES`] in a gateway that this program is made for.
pub const SIZES: u32 = SA_BITS << 24 | POLICY_BITS << 16 | BUCKET_BITS << 8 | SHAPES as u32;
/// Records of one hash that a look-up follows.
pub const CHAIN_LEN: usize = 64;
/// Clock cycles after which no look-up is on its way through a policy that was taken out.
pub const LOOK_UP_CYCLES: u64 = 1000;
/// The fewest clock cycles that a register access takes.
pub const ACCESS_CYCLES: u64 = 2;
/// Packets in the anti-replay window.
pub const REPLAY_WINDOW: u32 = 128;
/// The longest packet in bytes.
pub const MAX_PACKET_LEN: usize = 9216;

/// A table of one direction; the number is the outbound one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Table {
    /// Buckets of policies.
    PolicyBuckets = 0,
    /// Policies by their selectors.
    Policies = 1,
    /// Shapes of selectors.
    Shapes = 2,
    /// SAs, as software writes them.
    Sas = 3,
    /// Numbers and lifetimes of SAs.
    SaStates = 4,
    /// Buckets of SAs; inbound only.
    SaBuckets = 5,
}

/// From the number of an outbound table to the inbound one's.
pub const TABLES_INBOUND: u32 = 8;

/// Why the gateway dropped a packet (`drop_e`), in the order of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Drop {
    /// Not IPv4 or IPv6, or a header that is wrong.
    Header = 1,
    /// Longer than [`MAX_PACKET_LEN`], or not as long as its IP header says.
    TooLong = 2,
    /// No policy matches.
    NoPolicy = 3,
    /// The policy says discard.
    Policy = 4,
    /// Inbound: in clear though to be protected, or by another SA than the policy's.
    Mismatch = 5,
    /// No such SA.
    NoSa = 6,
    /// A lifetime is over.
    HardLimit = 7,
    /// No sequence numbers are left.
    Numbers = 8,
    /// Left of the anti-replay window, or number 0.
    ReplayLate = 9,
    /// The number was accepted before.
    Replay = 10,
    /// The ICV is wrong.
    Integrity = 11,
    /// Padding or its length is wrong.
    Padding = 12,
    /// The inner packet is not one that the SA carries.
    Inner = 13,
    /// A fragment that would have to be put together first.
    Fragment = 14,
    /// Shorter than the SA's headers and ICV, or no whole blocks.
    Short = 15,
    /// The gateway was built without what the SA asks for.
    Unsupported = 16,
}

/// Reasons, and the place of none.
pub const DROPS: usize = 17;

impl Drop {
    /// All reasons, by their numbers.
    pub const ALL: [Drop; DROPS - 1] = [
        Drop::Header,
        Drop::TooLong,
        Drop::NoPolicy,
        Drop::Policy,
        Drop::Mismatch,
        Drop::NoSa,
        Drop::HardLimit,
        Drop::Numbers,
        Drop::ReplayLate,
        Drop::Replay,
        Drop::Integrity,
        Drop::Padding,
        Drop::Inner,
        Drop::Fragment,
        Drop::Short,
        Drop::Unsupported,
    ];
}

/// The counters of one direction since reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that went in.
    pub packets_in: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Their bytes, as IP packets.
    pub bytes_in: u64,
    /// Their bytes, as IP packets.
    pub bytes_out: u64,
    /// Dropped packets by reason; see [`Counters::dropped`].
    drops: [u64; DROPS],
}

impl Counters {
    /// Reads them; `inbound` chooses the direction. They are exact once nothing moves.
    pub fn read(registers: &mut (impl Registers + ?Sized), inbound: bool) -> Counters {
        let base = REG_COUNTERS + if inbound { COUNTERS_APART } else { 0 };
        let mut address = base;
        let mut next = || {
            // Reading the lower half holds the upper one.
            let low = registers.read(address);
            let high = registers.read(address + 4);
            address += 8;
            u64::from(high) << 32 | u64::from(low)
        };
        Counters {
            packets_in: next(),
            packets_out: next(),
            bytes_in: next(),
            bytes_out: next(),
            drops: core::array::from_fn(|_| next()),
        }
    }

    /// Packets dropped for one reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// Kind of an SA's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A soft limit was reached.
    Soft,
    /// A hard limit was reached; its packets are dropped from now on.
    Hard,
    /// The sequence numbers ran out: the SA's packets are dropped from now on.
    Numbers,
}

/// Something that the owner of an SA has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// True for an inbound SA.
    pub inbound: bool,
    /// The SA's index.
    pub sa: u16,
}

impl Event {
    /// Takes the oldest event that waits, if any.
    pub fn take(registers: &mut (impl Registers + ?Sized)) -> Option<Event> {
        Event::decode(registers.read(REG_EVENT))
    }

    fn decode(word: u32) -> Option<Event> {
        let kind = match word >> 28 & 3 {
            0 => EventKind::Soft,
            1 => EventKind::Hard,
            _ => EventKind::Numbers,
        };
        let is_there = word >> 31 != 0;
        is_there.then_some(Event { kind, inbound: word >> 30 & 1 != 0, sa: word as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        assert_eq!(Event::decode(0x7fff_ffff), None);
        let event = |kind, inbound, sa| Some(Event { kind, inbound, sa });
        assert_eq!(Event::decode(0x8000_0003), event(EventKind::Soft, false, 3));
        assert_eq!(Event::decode(0xd000_03ff), event(EventKind::Hard, true, 1023));
        assert_eq!(Event::decode(0xa000_0000), event(EventKind::Numbers, false, 0));
    }

    #[test]
    fn reasons_are_in_the_order_of_their_counters() {
        for (place, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place + 1);
        }
    }
}
