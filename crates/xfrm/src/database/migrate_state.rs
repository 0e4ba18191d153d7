//! `MIGRATE_STATE` (Linux 7.2): one SA moves, named by its SPI and mark, and no policy with it.
//!
//! Ends, reqid and selector are always the request's; mark, encapsulation, output mark and mapping
//! threshold are if they are given. Keys, SPI, sequence numbers, window, counters and lifetimes stay.
//! Where Linux would lose an SA that cannot be put in its new place, it is as it was here.

use super::Database;
use super::call::Call;
use super::fields::set_mark_of;
use super::output::Group;
use super::sad::Sa;
use super::verify::{not_carried, selector};
use crate::backend::Backend;
use crate::codec::{
    AF_INET, AF_INET6, Attributes, Encap, MarkAttribute, Message, MigrateState, SaId, SelectorInfo,
    attr, constant as c, kind,
};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// `MIGRATE_STATE`.
    ///
    /// 1. Check the request. 2. Find the SA. 3. Say what it becomes; its place must be free. 4. Move it,
    ///    and tell those who listen.
    pub(super) fn migrate_state(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (request, attributes) = call.parse::<MigrateState>()?;
        check(&request)?;
        let SaId { dst, spi, family, protocol, .. } = request.id;
        let key = dst.ip(family).map(|dst| (dst, spi.0, protocol));
        let mark = request.old_mark.clone().cut();
        let found = key.and_then(|key| self.sad.find(&key, mark.value));
        let (serial, sa) = found.filter(|(_, sa)| !sa.larval()).ok_or(Failure::NoSa)?;
        if sa.is_companion() {
            return Err(Failure::Companion);
        }
        let to = moved(sa, &request, &attributes)?;
        let is_taken = self.sad.find(&to.spi_key(), to.mark_value());
        if is_taken.is_some_and(|(other, _)| other != serial) {
            return Err(Failure::SaExists);
        }
        let message = message(&request, &to, &attributes, call);
        self.move_sa(serial, to, call.now, call.out)?;
        call.event(Group::Migrate, message);
        Ok(())
    }
}

/// Checks of a request that need no SA.
fn check(request: &MigrateState) -> Result<(), Failure> {
    if request.id.spi.0 == 0 {
        return Err(Failure::SpiZero);
    }
    if request.reserved != 0 {
        return Err(Failure::MigrateReserved);
    }
    if request.flags & !(c::MIGRATE_CLEAR_OFFLOAD | c::MIGRATE_UPDATE_HOST_SELECTOR) != 0 {
        return Err(Failure::MigrateFlags);
    }
    if !matches!(request.new_family, AF_INET | AF_INET6) {
        return Err(Failure::Family);
    }
    match is_by_host(request) || request.selector.family == 0 {
        true => Ok(()),
        false => selector(&request.selector),
    }
}

/// True if the selector follows the ends, of an SA between two hosts.
const fn is_by_host(request: &MigrateState) -> bool {
    request.flags & c::MIGRATE_UPDATE_HOST_SELECTOR != 0
}

/// The SA after the request.
fn moved(sa: &Sa, request: &MigrateState, a: &Attributes<'_>) -> Result<Sa, Failure> {
    let mut to = sa.clone();
    let (dst, src, family) = (request.new_dst, request.new_src, request.new_family);
    to.info.selector =
        if is_by_host(request) { by_host(sa, request)? } else { request.selector.clone() };
    match a.value::<Encap>(attr::ENCAP) {
        None => {}
        Some(encap) if encap.kind == 0 => to.options.encap = None,
        Some(encap) if encap.kind == c::UDP_ENCAP_ESPINUDP => {
            to.options.encap = Some(Box::new(encap));
        }
        Some(_) => return Err(Failure::MigrateEncap),
    }
    if to.options.encap.is_some() && to.info.id.protocol == c::IPPROTO_AH {
        return Err(Failure::AhEncap);
    }
    if a.has(attr::MTIMER_THRESH) {
        match (&to.options.encap, to.options.direction) {
            (None, _) => return Err(Failure::MappingWithoutEncap),
            (_, Some(c::SA_DIR_OUT)) => return Err(Failure::OutboundMapping),
            _ => to.options.mapping_max_age_s = a.value(attr::MTIMER_THRESH).unwrap_or(0),
        }
    }
    if to.options.encap.is_none() {
        if a.value::<u32>(attr::NAT_KEEPALIVE_INTERVAL).is_some_and(|s| s != 0) {
            return Err(Failure::KeepaliveWithoutEncap);
        }
        to.options.mapping_max_age_s = 0;
    }
    not_carried(a)?;
    let mark = a.value::<MarkAttribute>(attr::MARK).unwrap_or_else(|| request.old_mark.clone());
    to.options.mark = mark.cut();
    if a.has(attr::SET_MARK) {
        to.options.set_mark = set_mark_of(a);
    }
    (to.info.family, to.info.src, to.info.id.dst) = (family, src, dst);
    to.info.reqid = request.reqid;
    to.mapping = None;
    if request.flags & c::MIGRATE_CLEAR_OFFLOAD != 0 {
        to.options.offload = None;
    }
    let is_mixed = to.info.selector.family != 0 && to.info.selector.family != family;
    if is_mixed && to.info.mode != c::MODE_TUNNEL {
        return Err(Failure::SelectorFamilyDiffers);
    }
    Ok(to)
}

/// The selector between the new ends; the old one must be that between the old ends.
fn by_host(sa: &Sa, request: &MigrateState) -> Result<SelectorInfo, Failure> {
    let len = |family| if family == AF_INET6 { 128 } else { 32 };
    let old = &sa.info.selector;
    let is_between_hosts = [old.src_prefix_len, old.dst_prefix_len] == [len(sa.info.family); 2]
        && (old.src, old.dst) == (sa.info.src, sa.info.id.dst);
    if !is_between_hosts {
        return Err(Failure::MigrateSelector);
    }
    let family = request.new_family;
    Ok(SelectorInfo {
        src: request.new_src,
        dst: request.new_dst,
        src_prefix_len: len(family),
        dst_prefix_len: len(family),
        family,
        ..old.clone()
    })
}

/// Message for listeners: the request, and the SA's new state.
fn message(request: &MigrateState, to: &Sa, a: &Attributes<'_>, call: &Call<'_>) -> Message {
    let mut w = call.notice().writer(kind::MIGRATE_STATE);
    w.fixed(&MigrateState { selector: to.info.selector.clone(), ..request.clone() });
    match (&to.options.encap, a.bytes(attr::ENCAP)) {
        // As the request had it, also where it says that there is none any more.
        (_, Some(bytes)) => w.attribute(attr::ENCAP, bytes),
        (Some(encap), None) => w.field(attr::ENCAP, &**encap),
        (None, None) => &mut w,
    };
    if let Some(mark) = a.bytes(attr::MARK) {
        w.attribute(attr::MARK, mark);
    }
    if to.options.set_mark != MarkAttribute::default() {
        w.field(attr::SET_MARK, &to.options.set_mark.value);
        w.field(attr::SET_MARK_MASK, &to.options.set_mark.mask);
    }
    if to.options.mapping_max_age_s != 0 {
        w.field(attr::MTIMER_THRESH, &to.options.mapping_max_age_s);
    }
    if let Some(dir) = to.options.direction {
        w.field(attr::SA_DIR, &dir);
    }
    w.finish()
}
