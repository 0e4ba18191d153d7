//! State of a device that engines and the control thread tell one another.

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Why engines give a device nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An engine noticed that packets did not come back in time.
    Silent,
    /// An engine noticed that software came to another result.
    Wrong,
    /// Control said so.
    Suspended,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::Silent => "its packets do not come back",
            Trouble::Wrong => "software comes to another result",
            Trouble::Suspended => "it is out of use",
        })
    }
}

/// Shared by a device's lanes, and by control: counters, and whether the device is to be given packets.
#[derive(Debug, Default)]
pub struct Watch {
    in_software: AtomicU64,
    compared: AtomicU64,
    trouble: AtomicU8,
}

impl Watch {
    /// Packets of the device's SAs that software has worked on in its place.
    pub fn in_software(&self) -> u64 {
        self.in_software.load(Relaxed)
    }

    /// Packets that software has worked on too, to compare.
    pub fn compared(&self) -> u64 {
        self.compared.load(Relaxed)
    }

    /// Why the device is given nothing.
    pub fn trouble(&self) -> Option<Trouble> {
        match self.trouble.load(Relaxed) {
            SILENT => Some(Trouble::Silent),
            WRONG => Some(Trouble::Wrong),
            SUSPENDED => Some(Trouble::Suspended),
            _ => None,
        }
    }

    /// Engines give the device nothing any more.
    pub fn suspend(&self) {
        self.trouble.store(SUSPENDED, Relaxed);
    }

    /// The device works again: engines give it packets.
    pub fn resume(&self) {
        self.trouble.store(NONE, Relaxed);
    }

    /// Tells of trouble; the first one counts.
    pub(crate) fn report(&self, trouble: Trouble) {
        let trouble = match trouble {
            Trouble::Silent => SILENT,
            Trouble::Wrong => WRONG,
            Trouble::Suspended => SUSPENDED,
        };
        let _ = self.trouble.compare_exchange(NONE, trouble, Relaxed, Relaxed);
    }

    pub(crate) fn count(&self, is_comparison: bool) {
        let counter = if is_comparison { &self.compared } else { &self.in_software };
        counter.fetch_add(1, Relaxed);
    }
}

const NONE: u8 = 0;
const SILENT: u8 = 1;
const WRONG: u8 = 2;
const SUSPENDED: u8 = 3;
