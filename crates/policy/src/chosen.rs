//! The SAs that policies choose, as the writer of the databases sees it.

use core::net::IpAddr;
use std::sync::Arc;

use crate::databases::Databases;
use crate::model::{PolicyConfig, SaConfig};
use crate::policy_entry::is_ipcomp;
use crate::sa_entry::SaEntry;
use crate::selector::Prefix;

/// Key of the index of outbound SAs: all that a template asks for and a hash can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutboundKey {
    /// Outer destination of the SA.
    pub dst: IpAddr,
    /// The number that ties templates to SAs.
    pub reqid: u32,
    /// XFRM interface id.
    pub if_id: u32,
}

impl OutboundKey {
    /// The key of an SA.
    pub const fn of_sa(config: &SaConfig) -> OutboundKey {
        let SaConfig { params, reqid, if_id, .. } = config;
        OutboundKey { dst: params.dst, reqid: *reqid, if_id: *if_id }
    }

    /// The keys of a policy's SAs, one for each template. `None` if they differ from host to host.
    pub fn of_policy(config: &PolicyConfig) -> Option<Vec<OutboundKey>> {
        let of = |dst, reqid| OutboundKey { dst, reqid, if_id: config.if_id };
        let templates = config.templates.iter().zip(ends(config)?);
        Some(templates.map(|(template, (_, dst))| of(dst, template.reqid)).collect())
    }
}

/// The ends of the SAs for each template of a policy, as of [`crate::bundle::with_ends`]; none if they differ
/// from host to host.
fn ends(config: &PolicyConfig) -> Option<Vec<(IpAddr, IpAddr)>> {
    let host = |Prefix { addr, len }: Prefix| {
        let width = if addr.is_ipv4() { 32 } else { 128 };
        (len == width).then_some(addr)
    };
    let mut ends = host(config.selector.src).zip(host(config.selector.dst));
    let mut all = Vec::new();
    for template in &config.templates {
        if template.mode.is_tunnel() {
            ends = Some((template.src, template.dst));
        }
        all.push(ends?);
    }
    Some(all)
}

impl<S> Databases<S> {
    /// The SAs that protect packets under a policy now, the innermost first: of those for a template the
    /// youngest that is valid, else one that is dying. None if one is missing, or if they differ from packet
    /// to packet.
    pub fn protecting(&self, config: &PolicyConfig) -> Option<Vec<Arc<SaEntry<S>>>> {
        let mark = config.mark.value & config.mark.mask;
        let mut all = Vec::new();
        for (template, (src, dst)) in config.templates.iter().zip(ends(config)?) {
            let tag = self.view().seeds.outbound(dst, template.reqid, config.if_id);
            let suits = |sa: &SaEntry<S>| {
                (sa.is_between(src, dst) && sa.suits(template, config.if_id, mark)).then_some(0)
            };
            match self.view().best_outbound(tag, suits) {
                Some((_, sa)) => all.push(Arc::clone(sa)),
                // Then packets go without.
                None if template.optional && is_ipcomp(template) => {}
                None => return None,
            }
        }
        Some(all).filter(|all| !all.is_empty())
    }
}
