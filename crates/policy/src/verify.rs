//! Whether a packet that arrived was protected as policy asks (RFC 4301 §5.2, step 4).

use std::sync::Arc;

use esp::Mode;
use outcome::DropReason;

use crate::flow::Flow;
use crate::model::{Action, Direction, Template};
use crate::policy_entry::PolicyEntry;
use crate::reader::Reader;
use crate::sa_entry::SaEntry;

impl<S> Reader<S> {
    /// Judges a packet that arrived, for this host ([`Direction::In`]) or to be forwarded
    /// ([`Direction::Forward`]), as Linux's `__xfrm_policy_check` does.
    ///
    /// `flow` is the packet as it goes on (decrypted), with the interface that it goes to; `via` the SA
    /// that it came through, `None` for cleartext. Returns the policy that allowed it, for its
    /// counters, or `None` if no policy was there to ask.
    ///
    /// 1. The content must match the SA's own selector, and the SA be of the packet's XFRM interface.
    /// 2. Without a policy: a packet from a tunnel is refused, and any packet if the default is to
    ///    block.
    /// 3. The policy must not block, for what it says or for what cannot be told of packets.
    /// 4. Every template that is not optional must have been applied, and a tunnel must have been
    ///    asked for by a template.
    ///
    /// IKE and neighbour discovery are the caller's first question
    /// ([`always_bypass`](crate::always_bypass)).
    ///
    /// # Errors
    /// [`DropReason::InSelector`], [`DropReason::InPolicy`], [`DropReason::InPolicyBlock`] or
    /// [`DropReason::InCleartext`].
    pub fn verify(
        &self,
        direction: Direction,
        flow: &Flow<'_>,
        via: Option<&SaEntry<S>>,
    ) -> Result<Option<&Arc<PolicyEntry>>, DropReason> {
        let selector = via.and_then(|sa| sa.config.selector.as_ref());
        if selector.is_some_and(|selector| !flow.is_selected(selector, false)) {
            return Err(DropReason::InSelector);
        }
        // Linux looks among the policies of the SA's interface. Here are those of the packet's.
        if via.is_some_and(|sa| sa.config.if_id != flow.if_id) {
            return Err(DropReason::InPolicy);
        }
        let from_tunnel = via.is_some_and(is_tunnel);
        let Some(policy) = self.policy(direction, flow) else {
            if from_tunnel {
                return Err(DropReason::InPolicy);
            }
            return match self.default_action(direction) {
                Action::Allow => Ok(None),
                Action::Block => Err(DropReason::InPolicyBlock),
            };
        };
        if policy.config.action == Action::Block {
            return Err(DropReason::InPolicyBlock);
        }
        let mut unused = via;
        // Outermost protection first: the last template applied outbound.
        for template in policy.config.templates.iter().rev() {
            if template.optional && template.mode == Mode::Transport {
                continue;
            }
            if unused.is_some_and(|sa| is_meant(template, sa, flow.if_id)) {
                unused = None;
            } else if !template.optional {
                return Err(match via {
                    Some(_) => DropReason::InPolicy,
                    None => DropReason::InCleartext,
                });
            }
        }
        if unused.is_some_and(is_tunnel) { Err(DropReason::InPolicy) } else { Ok(Some(policy)) }
    }
}

fn is_tunnel<S>(sa: &SaEntry<S>) -> bool {
    sa.config.params.mode == Mode::Tunnel
}

/// Linux's `xfrm_state_ok`. The SA's destination is not compared: it brought the packet here.
fn is_meant<S>(template: &Template, sa: &SaEntry<S>, if_id: u32) -> bool {
    let config = &sa.config;
    let params = &config.params;
    template.protocol == config.id().protocol
        && (template.spi == 0 || template.spi == params.spi)
        && (template.reqid == 0 || template.reqid == config.reqid)
        && template.mode == params.mode
        && (params.mode == Mode::Transport
            || template.src.is_unspecified()
            || template.src == params.src)
        && (if_id == 0 || if_id == config.if_id)
}
