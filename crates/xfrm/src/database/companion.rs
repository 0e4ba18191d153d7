//! The SA of IP in IP that stands beside IPComp's tunnels.
//!
//! A tunnel of IPComp sends as IP in IP what compression would not make shorter, so its peer needs an SA
//! that takes it from there. As in Linux (`ipcomp_tunnel_attach`) the database makes it with the first
//! IPComp SA between two addresses, and takes it away with the last. Its protocol is that of the outer
//! family, 4 or 41, and its SPI says the source. Nobody can delete it, flushes leave it out, and the
//! journal does not have it: it comes back with the IPComp SA.

use crypto::Keys;

use super::Database;
use super::sad::{ReplayForm, Sa, SaOptions};
use crate::backend::{Backend, SaEnd, Start};
use crate::codec::{
    Address, Attributes, Be32, Id, LifetimeConfig, LifetimeCurrent, Pad, SaId, SaInfo, attr,
    constant as c,
};
use crate::failure::Failure;
use crate::suite::Algorithms;

impl<B: Backend> Database<B> {
    /// One more IPComp tunnel between these addresses; nothing is done for other SAs.
    pub(super) fn attach_companion(&mut self, sa: &Sa) -> Result<(), Failure> {
        if !has_companion(sa) {
            return Ok(());
        }
        let companion = companion_of(sa);
        if let Some(serial) = self.sad.find_exact(&companion.id()).map(|(serial, _)| serial) {
            let Some(known) = self.sad.get_mut(serial) else { return Ok(()) };
            if known.src() != sa.src() {
                return Err(Failure::Digest);
            }
            known.tunnel_users += 1;
            return Ok(());
        }
        let (config, keys) = companion.config(self.sad.next_serial())?;
        let start = Start::At { replay: Default::default(), counters: Default::default() };
        self.backend.sa_add(&config, &keys, &start)?;
        self.sad.insert(companion);
        Ok(())
    }

    /// One IPComp tunnel less.
    pub(super) fn detach_companion(&mut self, sa: &Sa, end: SaEnd) {
        if !has_companion(sa) {
            return;
        }
        let id = companion_of(sa).id();
        let Some(serial) = self.sad.find_exact(&id).map(|(serial, _)| serial) else { return };
        match self.sad.get_mut(serial) {
            Some(known) if known.tunnel_users > 1 => known.tunnel_users -= 1,
            _ => {
                self.sad.remove(serial);
                self.backend.sa_delete(&id, &Keys::default(), end);
            }
        }
    }

    /// The SA that a request names by its addresses, of a protocol without SPIs.
    pub(super) fn find_by_ends(
        &self,
        id: &SaId,
        attributes: &Attributes<'_>,
    ) -> Result<u64, Failure> {
        let src = attributes.value::<Address>(attr::SRCADDR).ok_or(Failure::NoSource)?;
        let src = src.ip(id.family).ok_or(Failure::NoSa)?;
        let by_source = SaId { spi: Be32(policy::spi_of_source(src)), ..id.clone() };
        let found = self.lookup(&by_source, attributes).ok_or(Failure::NoSa)?;
        let is_from = self.sad.get(found).is_some_and(|sa| sa.src() == src);
        if is_from { Ok(found) } else { Err(Failure::NoSa) }
    }
}

/// True for a tunnel of IPComp with an algorithm.
fn has_companion(sa: &Sa) -> bool {
    sa.info.id.protocol == c::IPPROTO_COMP && sa.info.mode == c::MODE_TUNNEL && !sa.larval()
}

/// The companion of an IPComp tunnel, as Linux makes it (`ipcomp_tunnel_create`).
fn companion_of(sa: &Sa) -> Sa {
    let is_v4 = sa.dst().is_ipv4();
    let info = SaInfo {
        selector: sa.info.selector.clone(),
        id: Id {
            dst: sa.info.id.dst,
            spi: Be32(policy::spi_of_source(sa.src())),
            protocol: if is_v4 { c::IPPROTO_IPIP } else { c::IPPROTO_IPV6 },
            pad: Pad,
        },
        src: sa.info.src,
        family: sa.info.family,
        mode: sa.info.mode,
        flags: sa.info.flags & !c::STATE_ESN,
        limits: LifetimeConfig::unlimited(),
        current: LifetimeCurrent {
            add_time_s: sa.info.current.add_time_s,
            ..LifetimeCurrent::default()
        },
        ..SaInfo::default()
    };
    let options = SaOptions {
        extra_flags: sa.options.extra_flags,
        mark: sa.options.mark.clone(),
        if_id: sa.options.if_id,
        ..SaOptions::default()
    };
    Sa {
        info,
        options,
        algorithms: Some(Algorithms::None),
        replay: ReplayForm::Short,
        added_mono_ms: sa.added_mono_ms,
        dying: false,
        deadline: None,
        mapping: None,
        tunnel_users: 1,
    }
}
