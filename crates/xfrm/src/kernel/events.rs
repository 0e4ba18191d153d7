//! The kernel's notifications of changes in its databases.

use std::io;
use std::os::fd::BorrowedFd;

use netlink::{Heard, Listener, Protocol};
use policy::SaId;

use crate::backend::SaEnd;
use crate::codec::{
    self, AeventId, Attributes, Expire, Field, Header, Messages, PolicyExpire, PolicyInfo, SaInfo,
    attr, constant as c, kind,
};
use crate::database::LearntPolicy;

/// A change in the kernel's databases.
#[derive(Debug)]
pub enum KernelEvent {
    /// An SA came or changed: what it is now has to be asked for, as Linux tells what was requested.
    Sa(SaId),
    /// An SA went, by its owner's request or by its hard limit.
    SaGone(SaId, SaEnd),
    /// An SA reached its soft limit.
    SaDying(SaId),
    /// The kernel has used an SA: its numbers have moved.
    Used(SaId),
    /// A policy came or changed.
    Policy(LearntPolicy),
    /// A policy went.
    PolicyGone(u32),
    /// All has to be asked for again: much changed at once, or notifications were lost.
    All,
}

/// Follows the changes. For one thread.
pub struct KernelEvents {
    listener: Listener,
}

impl KernelEvents {
    /// Subscribes.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn open() -> io::Result<KernelEvents> {
        let groups = [GROUP_EXPIRE, GROUP_SA, GROUP_POLICY, GROUP_AEVENTS, GROUP_MIGRATE];
        // A smaller one only has more dumps made.
        let listener = Listener::subscribe(Protocol::Xfrm, &groups, Some(RECEIVE_BUFFER_LEN))?;
        Ok(KernelEvents::by(listener))
    }

    /// By a listener that is subscribed.
    pub fn by(listener: Listener) -> KernelEvents {
        KernelEvents { listener }
    }

    /// Readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    /// The events that wait, at most `most` datagrams of them. What is damaged, or of no interest, is
    /// left out.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn poll(&mut self, most: usize) -> io::Result<Vec<KernelEvent>> {
        let mut events = Vec::new();
        self.listener.hear(most, |heard| match heard {
            Heard::Message(header, body) => events.extend(event(header.kind, body)),
            Heard::Lost => events.push(KernelEvent::All),
        })?;
        Ok(events)
    }
}

/// The events of a datagram. What is damaged, or of no interest, is left out.
pub(crate) fn decode(datagram: &[u8]) -> impl Iterator<Item = KernelEvent> {
    let messages = Messages::new(datagram);
    messages.filter_map(|(header, whole)| event(header.kind, whole.get(Header::LEN..)?))
}

fn event(kind: u16, body: &[u8]) -> Option<KernelEvent> {
    match kind {
        kind::NEWSA | kind::UPDSA => {
            let info = SaInfo::decode(body).ok()?;
            Some(KernelEvent::Sa(identity(&named(&info), body.get(SaInfo::LEN..)?)?))
        }
        kind::DELSA => {
            let name = codec::SaId::decode(body).ok()?;
            let id = identity(&name, body.get(codec::SaId::LEN..)?)?;
            Some(KernelEvent::SaGone(id, SaEnd::Deleted))
        }
        kind::EXPIRE => {
            let expire = Expire::decode(body).ok()?;
            let id = identity(&named(&expire.sa), body.get(Expire::LEN..)?)?;
            // No DELSA follows a hard limit.
            Some(match expire.hard {
                0 => KernelEvent::SaDying(id),
                _ => KernelEvent::SaGone(id, SaEnd::Expired),
            })
        }
        kind::NEWAE => {
            let name = AeventId::decode(body).ok()?;
            // What somebody has set, this process above all, is told as well.
            if name.flags & (c::AE_CR | c::AE_CE) == 0 {
                return None;
            }
            Some(KernelEvent::Used(identity(&name.sa, body.get(AeventId::LEN..)?)?))
        }
        kind::NEWPOLICY | kind::UPDPOLICY => {
            let policy = LearntPolicy::decode(body).ok()?;
            (!policy.is_of_socket).then_some(KernelEvent::Policy(policy))
        }
        kind::DELPOLICY => policy_gone(body),
        kind::POLEXPIRE => {
            let expire = PolicyExpire::decode(body).ok()?;
            (expire.hard != 0).then_some(KernelEvent::PolicyGone(expire.policy.index))
        }
        // A default action has changed: Linux tells it as the answer to GETDEFAULT.
        kind::FLUSHSA
        | kind::FLUSHPOLICY
        | kind::MIGRATE
        | kind::MIGRATE_STATE
        | kind::SETDEFAULT
        | kind::GETDEFAULT => Some(KernelEvent::All),
        _ => None,
    }
}

/// A request by selector names no index; the policy itself follows as an attribute.
fn policy_gone(body: &[u8]) -> Option<KernelEvent> {
    let a = Attributes::parse(body.get(codec::PolicyId::LEN..)?).ok()?;
    let index = match a.bytes(attr::POLICY) {
        Some(bytes) => PolicyInfo::decode(bytes).ok()?.index,
        None => codec::PolicyId::decode(body).ok()?.index,
    };
    Some(KernelEvent::PolicyGone(index))
}

fn named(info: &SaInfo) -> codec::SaId {
    codec::SaId {
        dst: info.id.dst,
        spi: info.id.spi,
        family: info.family,
        protocol: info.id.protocol,
        pad: codec::Pad,
    }
}

fn identity(name: &codec::SaId, attributes: &[u8]) -> Option<SaId> {
    let a = Attributes::parse(attributes).ok()?;
    let mark = a.value::<codec::MarkAttribute>(attr::MARK).unwrap_or_default().cut();
    Some(SaId {
        dst: name.dst.ip(name.family)?,
        spi: name.spi.0,
        protocol: name.protocol,
        mark: policy::Mark { value: mark.value, mask: mark.mask },
    })
}

/// Multicast groups (`XFRMNLGRP_*`).
const GROUP_EXPIRE: u32 = 2;
const GROUP_SA: u32 = 3;
const GROUP_POLICY: u32 = 4;
const GROUP_AEVENTS: u32 = 5;
const GROUP_MIGRATE: u32 = 7;

/// Room for some ten thousand changes.
const RECEIVE_BUFFER_LEN: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::codec::{AF_INET, Be32, Id, MessageWriter, PolicyId, SelectorInfo};

    fn told(kind: u16, write: impl FnOnce(&mut MessageWriter)) -> Vec<KernelEvent> {
        let mut w = MessageWriter::new(kind, 0, 0, 0);
        write(&mut w);
        decode(&w.finish()).collect()
    }

    fn info() -> SaInfo {
        let dst: codec::Address = IpAddr::from([192, 0, 2, 2]).into();
        let id = Id { dst, spi: Be32(0x1001), protocol: 50, ..Id::default() };
        SaInfo { id, family: AF_INET, ..SaInfo::default() }
    }

    #[test]
    fn sas_come_and_go() {
        let mark = codec::MarkAttribute { value: 5, mask: 255 };
        let came = told(kind::UPDSA, |w| {
            w.fixed(&info()).field(attr::MARK, &mark);
        });
        let [KernelEvent::Sa(id)] = came[..] else { panic!("{came:?}") };
        assert_eq!((id.spi, id.protocol, id.mark.value, id.mark.mask), (0x1001, 50, 5, 255));
        let went = told(kind::DELSA, |w| {
            w.fixed(&named(&info())).field(attr::SA, &info());
        });
        assert!(
            matches!(went[..], [KernelEvent::SaGone(id, SaEnd::Deleted)] if id.spi == 0x1001),
            "{went:?}"
        );
        let expired = |hard| {
            let expire = Expire { sa: info(), hard, ..Expire::default() };
            told(kind::EXPIRE, |w| {
                w.fixed(&expire);
            })
        };
        assert!(matches!(expired(0)[..], [KernelEvent::SaDying(_)]));
        // A hard limit brings no DELSA.
        assert!(matches!(expired(1)[..], [KernelEvent::SaGone(_, SaEnd::Expired)]));
    }

    #[test]
    fn only_what_the_kernel_itself_has_used_is_told() {
        let used = |flags| {
            let event = AeventId { sa: named(&info()), flags, ..AeventId::default() };
            told(kind::NEWAE, |w| {
                w.fixed(&event);
            })
            .len()
        };
        assert_eq!([c::AE_CR, c::AE_CE, c::AE_CU].map(used), [1, 1, 0]);
    }

    #[test]
    fn policies_go_by_index_or_selector_and_a_flush_asks_for_all() {
        let policy = PolicyInfo { index: 17, dir: 1, ..PolicyInfo::default() };
        let selector = SelectorInfo { family: AF_INET, ..SelectorInfo::default() };
        let id = PolicyId { selector, dir: 1, ..PolicyId::default() };
        let gone = told(kind::DELPOLICY, |w| {
            w.fixed(&id).field(attr::POLICY, &policy);
        });
        assert!(matches!(gone[..], [KernelEvent::PolicyGone(17)]), "{gone:?}");
        for kind in [kind::FLUSHSA, kind::FLUSHPOLICY, kind::MIGRATE, kind::GETDEFAULT] {
            assert!(matches!(told(kind, |_| {})[..], [KernelEvent::All]), "{kind}");
        }
        assert!(told(kind::ACQUIRE, |_| {}).is_empty());
        assert!(told(kind::UPDSA, |_| {}).is_empty(), "cut short");
    }

    proptest::proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..500)) {
            let _ = decode(&noise).count();
            for kind in kind::BASE..=kind::MAX {
                let _ = event(kind, &noise);
            }
        }
    }
}
