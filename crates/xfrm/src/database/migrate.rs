//! `MIGRATE`: the ends of a tunnel move, as Mobile IPv6 and libreswan's MOBIKE ask for it (RFC 4555).
//!
//! A policy's templates and the SAs that they name get other addresses; keys, SPIs, sequence numbers,
//! windows, counters and lifetimes stay (`xfrm_migrate`).

use core::net::IpAddr;

use super::Database;
use super::call::Call;
use super::fields::{if_id_of, mark_of};
use super::output::{Group, Output};
use super::policies::Replacement;
use super::sad::Sa;
use super::spd::{Policy, PolicyKey, direction};
use super::verify::policy_type;
use crate::backend::{Backend, SaEnd, Start};
use crate::clock::Now;
use crate::codec::{
    Attributes, Encap, Field, Id, MigrateEntry, PolicyId, Template, attr, constant as c, kind,
};
use crate::failure::Failure;

/// An SA and what it becomes.
struct Move {
    serial: u64,
    to: Sa,
}

impl<B: Backend> Database<B> {
    /// `MIGRATE`.
    ///
    /// 1. Check the entries.
    /// 2. Find the policy; one of its templates must be meant.
    /// 3. Find the SAs; entries without one move templates alone.
    /// 4. Move the SAs, and replace the policy. What fails moves everything back.
    pub(super) fn migrate(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<PolicyId>()?;
        let entries = entries(&attributes)?;
        policy_type(&attributes)?;
        direction(id.dir)?;
        let if_id = if_id_of(&attributes);
        let encap = attributes.value::<Encap>(attr::ENCAP);
        let key = PolicyKey {
            selector: id.selector.clone(),
            dir: id.dir,
            mark: mark_of(&attributes),
            if_id,
        };
        let (old_policy, policy) = match self.spd.by_key(&key) {
            Some((serial, policy)) => (serial, moved_policy(policy, &entries)?),
            None => return Err(Failure::MigratePolicy),
        };
        let mut moves = Vec::with_capacity(entries.len());
        for entry in &entries {
            let found = self.sad.iter().find(|(_, sa)| is_meant(sa, entry, if_id));
            if let Some((serial, sa)) = found {
                let to = moved_sa(sa, entry, encap.as_ref());
                let is_taken = self.sad.find(&to.spi_key(), to.mark_value());
                if is_taken.is_some_and(|(other, _)| other != serial) {
                    return Err(Failure::SaExists);
                }
                moves.push(Move { serial, to });
            }
        }
        self.move_all(moves, call.now, call.out)?;
        let replacement =
            Replacement { old: Some(old_policy), policy, generator: self.spd.generator() };
        // The data path has taken a policy with these templates before.
        let serial = self.replace_policy(replacement, call.now)?;
        call.out.extend(self.policy_change(serial).map(Output::Change));
        let mut w = call.notice().writer(kind::MIGRATE);
        w.fixed(&PolicyId { index: 0, ..id });
        for kind in [attr::KMADDRESS, attr::POLICY_TYPE, attr::ENCAP, attr::MIGRATE] {
            if let Some(bytes) = attributes.bytes(kind) {
                w.attribute(kind, bytes);
            }
        }
        call.event(Group::Migrate, w.finish());
        Ok(())
    }

    /// Moves SAs; where one cannot be moved, those before it move back.
    fn move_all(
        &mut self,
        moves: Vec<Move>,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Result<(), Failure> {
        let mut done: Vec<Move> = Vec::with_capacity(moves.len());
        for Move { serial, to } in moves {
            let Some(from) = self.sad.get(serial).cloned() else { continue };
            match self.move_sa(serial, to, now, out) {
                Ok(serial) => done.push(Move { serial, to: from }),
                Err(failure) => {
                    for Move { serial, to } in done.into_iter().rev() {
                        if let Err(lost) = self.move_sa(serial, to, now, out) {
                            tracing::warn!("an SA is lost that could not move back: {lost}");
                        }
                    }
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Moves one SA; returns its new serial number. One that cannot be moved is as it was.
    pub(super) fn move_sa(
        &mut self,
        serial: u64,
        to: Sa,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Result<u64, Failure> {
        let Some(from) = self.sad.get(serial).cloned() else { return Err(Failure::NoSa) };
        // Both are sound before anything is removed.
        to.config(serial)?;
        let live = self.live(&from);
        let start = Start::At { replay: live.replay, counters: live.counters };
        self.remove_sa(serial, SaEnd::Deleted, out);
        let result = self.install(Sa { deadline: None, ..to }, &start, None);
        let installed = match &result {
            Ok(installed) => Some(*installed),
            Err(_) => self.install(Sa { deadline: None, ..from }, &start, None).ok(),
        };
        if let Some(serial) = installed {
            self.rearm_sa(serial, now);
            out.extend(self.sa_change(serial).map(Output::Change));
        }
        result
    }
}

/// The entries of a request, sound and each once.
fn entries(attributes: &Attributes<'_>) -> Result<Vec<MigrateEntry>, Failure> {
    let bytes = attributes.bytes(attr::MIGRATE).ok_or(Failure::MigrateMissing)?;
    let whole = bytes.chunks_exact(MigrateEntry::LEN);
    if whole.len() == 0 || whole.len() > c::MAX_DEPTH {
        return Err(Failure::MigrateCount);
    }
    let mut entries: Vec<MigrateEntry> = Vec::with_capacity(whole.len());
    for chunk in whole {
        let entry = MigrateEntry::decode(chunk).map_err(|_| Failure::MigrateMissing)?;
        let ends = [entry.new_dst.ip(entry.new_family), entry.new_src.ip(entry.new_family)];
        let is_one_host = |ip: &Option<IpAddr>| ip.is_some_and(|ip| !ip.is_unspecified());
        if !ends.iter().all(is_one_host) || from(&entry).is_none() {
            return Err(Failure::MigrateAddress);
        }
        if entries.iter().any(|other| is_same(other, &entry)) {
            return Err(Failure::MigrateTwice);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// True if two entries concern the same SA.
fn is_same(a: &MigrateEntry, b: &MigrateEntry) -> bool {
    let key = |e: &MigrateEntry| (e.old_dst, e.old_src, e.protocol, e.mode, e.reqid, e.old_family);
    key(a) == key(b)
}

/// Where an entry's SA is from: source and destination.
fn from(entry: &MigrateEntry) -> Option<(IpAddr, IpAddr)> {
    Some((entry.old_src.ip(entry.old_family)?, entry.old_dst.ip(entry.old_family)?))
}

/// True if an entry means this SA (`xfrm_migrate_state_find`).
fn is_meant(sa: &Sa, entry: &MigrateEntry, if_id: u32) -> bool {
    !sa.larval()
        && !sa.is_companion()
        && sa.info.mode == entry.mode
        && sa.info.id.protocol == entry.protocol
        && (entry.reqid == 0 || sa.info.reqid == entry.reqid)
        && (if_id == 0 || sa.options.if_id == if_id)
        && from(entry) == Some((sa.src(), sa.dst()))
}

/// An SA with an entry's new ends, and the encapsulation that goes with them.
fn moved_sa(sa: &Sa, entry: &MigrateEntry, encap: Option<&Encap>) -> Sa {
    let mut to = sa.clone();
    to.info.family = entry.new_family;
    to.info.src = entry.new_src;
    to.info.id.dst = entry.new_dst;
    if let Some(encap) = encap {
        to.options.encap = Some(Box::new(encap.clone()));
    }
    to.mapping = None;
    to
}

/// A policy with the new ends in those templates that the entries mean (`xfrm_policy_migrate`).
fn moved_policy(policy: &Policy, entries: &[MigrateEntry]) -> Result<Policy, Failure> {
    let mut moved = policy.clone();
    moved.deadline = None;
    let mut meant = 0;
    for template in &mut moved.templates {
        for entry in entries {
            let is_tunnel = template.mode == c::MODE_TUNNEL;
            if !is_template_meant(template, entry, is_tunnel) {
                continue;
            }
            meant += 1;
            if is_tunnel {
                template.id = Id { dst: entry.new_dst, ..template.id.clone() };
                (template.src, template.family) = (entry.new_src, entry.new_family);
                break;
            }
        }
    }
    if meant == 0 { Err(Failure::MigrateTemplate) } else { Ok(moved) }
}

fn is_template_meant(template: &Template, entry: &MigrateEntry, is_tunnel: bool) -> bool {
    let ends = || Some((template.src.ip(template.family)?, template.id.dst.ip(template.family)?));
    template.mode == entry.mode
        && template.id.protocol == entry.protocol
        && (entry.reqid == 0 || template.reqid == entry.reqid)
        && (!is_tunnel || ends() == from(entry))
}
