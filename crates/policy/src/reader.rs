//! The workers' side: look-ups without lock, allocation or shared memory traffic.

use core::net::IpAddr;
use core::sync::atomic::{Ordering::Acquire, fence};
use std::sync::Arc;

use esp::Mode;

use crate::databases::{InboundKey, OutboundKey, SaList, Shared};
use crate::flow::Flow;
use crate::model::{Action, Direction, Template};
use crate::policy_entry::{PolicyEntry, Treatment};
use crate::sa_entry::{SaEntry, SaState};
use crate::shards::View;
use crate::spd::Spd;

/// One worker's view of the databases.
///
/// Between two calls of [`refresh`](Reader::refresh) the view stands still: all packets of a burst
/// are judged by one state of the databases, and the references handed out stay good for the
/// burst. A worker refreshes before each burst and when idle: one atomic load if nothing has
/// changed. An SA that was deleted is freed, its keys wiped, once every reader was refreshed.
pub struct Reader<S> {
    shared: Arc<Shared<S>>,
    /// The generation that the view shows; odd when it may be a mixture of two.
    seen: u64,
    inbound: View<InboundKey, SaList<S>>,
    outbound: View<OutboundKey, SaList<S>>,
    spd: Arc<Spd>,
}

/// What the policy database says about a packet that leaves.
#[derive(Debug)]
pub enum Outbound<'r, S> {
    /// No policy matches, and such packets pass.
    NoPolicy,
    /// No policy matches, and such packets are blocked.
    DefaultBlock,
    /// The policy lets the packet pass unprotected.
    Bypass(&'r Arc<PolicyEntry>),
    /// The policy blocks the packet.
    Block(&'r Arc<PolicyEntry>),
    /// The policy protects in a way that culvert cannot do; the packet must not leave.
    Unsupported(&'r Arc<PolicyEntry>),
    /// The policy protects, but there is no SA for its template: the owner has to be asked for one
    /// (ACQUIRE), and the packet waits or is dropped.
    ///
    /// For a template with `optional` set Linux asks too, but lets the packet pass unprotected;
    /// whoever does the same must mean it.
    NoState(&'r Arc<PolicyEntry>, &'r Template),
    /// The policy protects with this SA.
    Protect(&'r Arc<PolicyEntry>, &'r Arc<SaEntry<S>>),
}

impl<S> Reader<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>) -> Reader<S> {
        let mut reader = Reader {
            // Never equal to a generation that the view could have: the refresh below reads all.
            seen: MIXED,
            inbound: View::new(Arc::clone(&shared.inbound)),
            outbound: View::new(Arc::clone(&shared.outbound)),
            spd: shared.spd.load_full(),
            shared,
        };
        reader.refresh();
        reader
    }

    /// Takes over what has changed; returns whether anything had. Before each burst and when idle.
    ///
    /// The view is then the databases as they were between two changes. Only a writer that changes
    /// things faster than they can be read can prevent that; then the view holds each SA and the
    /// policies as they were at some moment of this call, and the next call tries again.
    pub fn refresh(&mut self) -> bool {
        if self.shared.generation.load(Acquire) == self.seen {
            return false;
        }
        for _ in 0..ATTEMPTS {
            let before = self.shared.generation.load(Acquire);
            self.spd = self.shared.spd.load_full();
            self.inbound.refresh();
            self.outbound.refresh();
            fence(Acquire);
            let settled =
                before.is_multiple_of(2) && self.shared.generation.load(Acquire) == before;
            self.seen = if settled { before } else { MIXED };
            if settled {
                break;
            }
        }
        true
    }

    /// The SA of an arriving packet, in whatever state: outer destination, SPI in host byte order,
    /// IP protocol, and the packet's mark.
    ///
    /// Of several whose marks match, the youngest (`xfrm_state_lookup`).
    pub fn inbound_sa(
        &self,
        dst: IpAddr,
        spi: u32,
        protocol: u8,
        mark: u32,
    ) -> Option<&Arc<SaEntry<S>>> {
        let list = self.inbound.get(&InboundKey { dst, spi, protocol })?;
        list.as_slice().iter().find(|sa| sa.config.mark.matches(mark))
    }

    /// The policy that decides about a packet, if any.
    pub fn policy(&self, direction: Direction, flow: &Flow<'_>) -> Option<&Arc<PolicyEntry>> {
        self.spd.find(direction, flow)
    }

    /// What happens to packets that no policy matches.
    pub fn default_action(&self, direction: Direction) -> Action {
        self.spd.defaults[direction as usize]
    }

    /// What is to be done with a packet that leaves; `flow.ifindex` is the egress interface.
    pub fn outbound(&self, flow: &Flow<'_>) -> Outbound<'_, S> {
        let Some(policy) = self.spd.find(Direction::Out, flow) else {
            return match self.default_action(Direction::Out) {
                Action::Allow => Outbound::NoPolicy,
                Action::Block => Outbound::DefaultBlock,
            };
        };
        match (policy.treatment, policy.config.templates.first()) {
            (Treatment::Block, _) => Outbound::Block(policy),
            (Treatment::Bypass, None) => Outbound::Bypass(policy),
            (Treatment::Protect, Some(template)) => match self.resolve(policy, template, flow) {
                Some(sa) => Outbound::Protect(policy, sa),
                None => Outbound::NoState(policy, template),
            },
            _ => Outbound::Unsupported(policy),
        }
    }

    /// The SA that protects a packet under a policy's template (Linux's `xfrm_state_find`).
    ///
    /// 1. End points: the template's in tunnel mode, the packet's own in transport mode. An
    ///    unspecified source in template or SA stands for any; an SA with the very source wins.
    /// 2. Protocol, mode, reqid, SPI (0 for any), the policy's mark and XFRM interface.
    /// 3. The SA's own selector, if any.
    /// 4. Valid before dying, then the youngest.
    fn resolve(
        &self,
        policy: &PolicyEntry,
        template: &Template,
        flow: &Flow<'_>,
    ) -> Option<&Arc<SaEntry<S>>> {
        let (src, dst) = match template.mode {
            Mode::Tunnel => (template.src, template.dst),
            Mode::Transport => (flow.headers.src, flow.headers.dst),
        };
        let if_id = policy.config.if_id;
        let list = self.outbound.get(&OutboundKey { dst, reqid: template.reqid, if_id })?;
        let mark = policy.config.mark.value & policy.config.mark.mask;
        let mut best = None;
        let mut best_penalty = u8::MAX;
        for sa in list.as_slice() {
            let config = &sa.config;
            let from_any = config.params.src.is_unspecified();
            let is_candidate = (from_any || src.is_unspecified() || config.params.src == src)
                && config.params.mode == template.mode
                && (template.spi == 0 || config.params.spi == template.spi)
                && config.mark.matches(mark)
                && config.selector.as_ref().is_none_or(|s| flow.is_selected(s, true));
            let dying = match sa.state() {
                SaState::Valid => 0,
                SaState::Dying => 1,
                SaState::Expired => continue,
            };
            let penalty = 2 * u8::from(from_any) + dying;
            // The list is youngest first: among equals the first stays.
            if is_candidate && penalty < best_penalty {
                best = Some(sa);
                best_penalty = penalty;
                if penalty == 0 {
                    break;
                }
            }
        }
        best
    }
}

/// How often a refresh starts over when the writer has changed something meanwhile.
const ATTEMPTS: usize = 4;

/// As the generation that was seen: the view may be a mixture. Odd, so no generation at rest.
const MIXED: u64 = u64::MAX;
