//! The verilated gateway (`hdl/sim/gateway.h`): a device whose clock the caller turns.

use core::ptr::NonNull;

use crate::registers::{MAX_PACKET_LEN, Registers};

/// Bindings of `hdl/sim/gateway.h`.
mod sys {
    use core::ffi::{c_int, c_uint};

    #[repr(C)]
    pub(super) struct Gateway {
        _opaque: [u8; 0],
    }

    /// Signals of `cv_traffic`.
    #[repr(C)]
    pub(super) struct Traffic {
        pub(super) packets_in: u64,
        pub(super) packets_out: u64,
        pub(super) first_beat_in: u64,
        pub(super) last_beat_out: u64,
    }

    unsafe extern "C" {
        pub(super) fn cv_gateway_new() -> *mut Gateway;
        pub(super) fn cv_gateway_free(gateway: *mut Gateway);
        pub(super) fn cv_gateway_reset(gateway: *mut Gateway);
        pub(super) fn cv_gateway_tick(gateway: *mut Gateway, cycles: u64);
        pub(super) fn cv_gateway_cycles(gateway: *const Gateway) -> u64;
        pub(super) fn cv_gateway_push(
            gateway: *mut Gateway,
            side: c_int,
            packet: *const u8,
            bytes: usize,
        );
        pub(super) fn cv_gateway_queued(gateway: *const Gateway, side: c_int) -> usize;
        pub(super) fn cv_gateway_pull(
            gateway: *mut Gateway,
            side: c_int,
            packet: *mut u8,
            capacity: usize,
        ) -> usize;
        pub(super) fn cv_gateway_read(gateway: *mut Gateway, address: u16) -> u32;
        pub(super) fn cv_gateway_write(gateway: *mut Gateway, address: u16, value: u32);
        pub(super) fn cv_gateway_irq(gateway: *const Gateway) -> c_int;
        pub(super) fn cv_gateway_disturb(
            gateway: *mut Gateway,
            idle_percent: c_uint,
            stall_percent: c_uint,
            seed: u64,
        );
        pub(super) fn cv_gateway_sad_period(gateway: *mut Gateway, per_mille: c_uint);
        pub(super) fn cv_gateway_traffic(gateway: *const Gateway, side: c_int) -> Traffic;
    }
}

/// A side of the gateway (RFC 4301 section 3.1). A packet that is pushed into the protected side comes
/// out at the unprotected one, as ESP, in clear, or not at all; and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Side of cleartext.
    Protected = 0,
    /// Towards the peers.
    Unprotected = 1,
}

/// Counters of one side since reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that went in.
    pub packets_in: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// The clock cycle in which the first beat of all was taken; 0 until then.
    pub first_beat_in: u64,
    /// The cycle in which the last packet's last beat came out; 0 until then.
    pub last_beat_out: u64,
}

/// A gateway in simulation.
///
/// Packets move only while the clock runs ([`Simulation::tick`]; register accesses run it for a few
/// cycles). If an assertion of the design fails, the process ends with the assertion's name.
pub struct Simulation {
    gateway: NonNull<sys::Gateway>,
    resets: u64,
}

// SAFETY: the gateway is the object's alone and has no ties to the thread that made it.
unsafe impl Send for Simulation {}

impl Default for Simulation {
    fn default() -> Simulation {
        Simulation::new()
    }
}

impl Simulation {
    /// A gateway after reset.
    pub fn new() -> Simulation {
        // SAFETY: takes nothing, and gives a gateway or ends the process.
        let gateway = unsafe { sys::cv_gateway_new() };
        match NonNull::new(gateway) {
            Some(gateway) => Simulation { gateway, resets: 0 },
            None => unreachable!("cv_gateway_new gives a gateway"),
        }
    }

    /// Resets the gateway: packets that are inside or queued are gone, its tables empty, counters at 0. [`Tables::new`]
    /// comes next.
    ///
    /// [`Tables::new`]: crate::Tables::new
    pub fn reset(&mut self) {
        self.resets += 1;
        // SAFETY: the gateway lives as long as `self`.
        unsafe { sys::cv_gateway_reset(self.gateway.as_ptr()) }
    }

    /// How often it was reset.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Runs the clock.
    pub fn tick(&mut self, cycles: u64) {
        // SAFETY: the gateway lives as long as `self`.
        unsafe { sys::cv_gateway_tick(self.gateway.as_ptr(), cycles) }
    }

    /// Clock cycles since reset.
    pub fn cycles(&self) -> u64 {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_cycles(self.gateway.as_ptr()) }
    }

    /// Queues an IP packet, without a link header, for a side's input. An empty one is nothing.
    pub fn push(&mut self, side: Side, packet: &[u8]) {
        if !packet.is_empty() {
            // SAFETY: as above; the packet is copied.
            unsafe {
                sys::cv_gateway_push(
                    self.gateway.as_ptr(),
                    side as i32,
                    packet.as_ptr(),
                    packet.len(),
                );
            }
        }
    }

    /// Packets that are queued for a side's input and have not gone in whole.
    pub fn queued(&self, side: Side) -> usize {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_queued(self.gateway.as_ptr(), side as i32) }
    }

    /// Takes the oldest packet that came out at a side.
    pub fn pull(&mut self, side: Side) -> Option<Vec<u8>> {
        let mut packet = vec![0; MAX_PACKET_LEN];
        loop {
            let (place, capacity) = (packet.as_mut_ptr(), packet.len());
            // SAFETY: as above; at most `capacity` bytes are written.
            let len = unsafe {
                sys::cv_gateway_pull(self.gateway.as_ptr(), side as i32, place, capacity)
            };
            match len {
                0 => return None,
                len if len > capacity => packet.resize(len, 0),
                len => {
                    packet.truncate(len);
                    return Some(packet);
                }
            }
        }
    }

    /// True if an event waits.
    pub fn interrupts(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_irq(self.gateway.as_ptr()) != 0 }
    }

    /// From now on inputs pause and outputs stall at random, in so many per cent of the cycles (each
    /// below 100).
    pub fn disturb(&mut self, idle_percent: u32, stall_percent: u32, seed: u64) {
        let (idle, stall) = (idle_percent.min(99), stall_percent.min(99));
        // SAFETY: as above.
        unsafe { sys::cv_gateway_disturb(self.gateway.as_ptr(), idle, stall, seed) }
    }

    /// The SAD's clock period in thousandths of the main clock's, at least 100; 1000 at first.
    pub fn set_sad_period(&mut self, per_mille: u32) {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_sad_period(self.gateway.as_ptr(), per_mille.max(100)) }
    }

    /// Counters of a side.
    pub fn traffic(&self, side: Side) -> Traffic {
        // SAFETY: as above.
        let traffic = unsafe { sys::cv_gateway_traffic(self.gateway.as_ptr(), side as i32) };
        let sys::Traffic { packets_in, packets_out, first_beat_in, last_beat_out } = traffic;
        Traffic { packets_in, packets_out, first_beat_in, last_beat_out }
    }
}

impl Registers for Simulation {
    fn read(&mut self, address: u16) -> u32 {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_read(self.gateway.as_ptr(), address) }
    }

    fn write(&mut self, address: u16, value: u32) {
        // SAFETY: as above.
        unsafe { sys::cv_gateway_write(self.gateway.as_ptr(), address, value) }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: made by cv_gateway_new, and freed once.
        unsafe { sys::cv_gateway_free(self.gateway.as_ptr()) }
    }
}
