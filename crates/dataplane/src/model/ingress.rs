//! How packets come in, and what a flow is told by.

use core::num::NonZero;

use policy::SaHandle;
use wire::FlowKey;

use crate::model::{LOOPBACK, is_function};

/// Key of a flow: addresses, protocol, ports, and the packet's ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) flow: FlowKey,
    pub(crate) ingress: Ingress,
}

/// How packets come in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ingress {
    /// The interface; 0 for packets of Linux by the private interface.
    pub(crate) ifindex: u32,
    /// The packets' mark, 0 without one.
    pub(crate) mark: u32,
    /// The SA that they were decrypted by, as a word; 0 for none. The uppermost bit is the other way round where
    /// they are another worker's, handed over to the home of their SA.
    via: u64,
}

/// The words of all SAs have this bit: there are not so many of them that one has not.
const OWN: u64 = 1 << 63;

impl Ingress {
    /// By an Ethernet port.
    #[inline(always)]
    pub(crate) const fn of_port(ifindex: u32) -> Ingress {
        Ingress { ifindex, mark: 0, via: 0 }
    }

    /// From Linux: by a tunnel interface, or by the private interface, which is 0.
    #[inline(always)]
    pub(crate) const fn of_linux(ifindex: u32, mark: u32) -> Ingress {
        Ingress { ifindex, mark, via: 0 }
    }

    /// Decrypted by an SA; the interface is that of the ESP packet.
    #[inline(always)]
    pub(crate) const fn of_sa(ifindex: u32, sa: SaHandle) -> Ingress {
        // What was in a packet that had left a segment's step came in by no port.
        let ifindex = if is_function(ifindex) { LOOPBACK } else { ifindex };
        Ingress { ifindex, mark: 0, via: sa.word().get() }
    }

    /// The SA that they were decrypted by, as a word, whichever worker they came to.
    pub(crate) const fn sa_word(self) -> u64 {
        self.via | OWN
    }

    /// The same packets as those that have left the step of a segment, or got segments (SRv6).
    pub(crate) const fn within(self, index: u32) -> Ingress {
        Ingress { ifindex: index, ..self }
    }

    /// The same packets as another worker's: where a policy has SAs for each (RFC 9611) their flow has another
    /// plan than if they were this worker's.
    pub(crate) const fn of_other(self) -> Ingress {
        let via = if self.is_decrypted() { self.via & !OWN } else { OWN };
        Ingress { via, ..self }
    }

    /// True if they are another worker's, handed over.
    pub(crate) const fn is_of_other(self) -> bool {
        match self.is_decrypted() {
            true => self.via & OWN == 0,
            false => self.via == OWN,
        }
    }

    /// The SA that they were decrypted by.
    #[inline(always)]
    pub(crate) fn via(self) -> Option<SaHandle> {
        let word = NonZero::new(self.via & !OWN)?;
        SaHandle::from_word(word | OWN)
    }

    /// True for decrypted packets.
    #[inline(always)]
    pub(crate) const fn is_decrypted(self) -> bool {
        self.via & !OWN != 0
    }
}

impl PartialEq for Ingress {
    /// All at once, without a branch for each.
    #[inline(always)]
    fn eq(&self, other: &Ingress) -> bool {
        let unlike = (self.ifindex ^ other.ifindex) | (self.mark ^ other.mark);
        u64::from(unlike) | (self.via ^ other.via) == 0
    }
}

impl Eq for Ingress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_another_worker_come_in_differently_by_the_same_sa() {
        let sa = NonZero::new(u64::MAX << 34 | 7).and_then(SaHandle::from_word);
        let ways = [Ingress::of_port(3), sa.map_or(Ingress::default(), |sa| Ingress::of_sa(3, sa))];
        for (own, via) in ways.into_iter().zip([None, sa]) {
            let other = own.of_other();
            assert_ne!(own, other);
            assert_eq!([own.is_of_other(), other.is_of_other()], [false, true]);
            assert_eq!(other, other.of_other(), "handed on");
            assert_eq!([own.via(), other.via()], [via; 2]);
            assert_eq!([own.is_decrypted(), other.is_decrypted()], [via.is_some(); 2]);
        }
    }
}
