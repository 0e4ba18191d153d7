//! Test that a packet arrived protected as policy asks (RFC 4301 §5.2, step 4).

use std::sync::Arc;

use esp::{Mode, Protocol};
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
    /// `flow` is the packet as it goes on (decrypted), with the interface that it goes to; `via` the SAs
    /// that it came through, the outermost first, none for cleartext. Returns the policy that allowed it, for its
    /// counters, or `None` if no policy was there to ask.
    ///
    /// 1. The content must match each SA's own selector, and each SA be of the packet's XFRM interface.
    /// 2. Without a policy: a packet from a tunnel is refused, and any packet if the default is to
    ///    block.
    /// 3. The policy must not block, by its action or because packets cannot be matched.
    /// 4. One that is left to Linux ([`Action::Leave`]) allows cleartext, which Linux then judges, and nothing
    ///    that was decrypted, which Linux could not.
    /// 5. Every template that is not optional must have been applied, in the order of the templates, and
    ///    each tunnel must have been asked for by one.
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
        via: &[&SaEntry<S>],
    ) -> Result<Option<&Arc<PolicyEntry>>, DropReason> {
        let selectors = || via.iter().filter_map(|sa| sa.config.selector.as_ref());
        if selectors().any(|selector| !flow.is_selected(selector, false)) {
            return Err(DropReason::InSelector);
        }
        // Linux looks among the policies of the SA's interface. Here are those of the packet's.
        if via.iter().any(|sa| sa.config.if_id != flow.if_id) {
            return Err(DropReason::InPolicy);
        }
        let Some(policy) = self.policy(direction, flow) else {
            if via.iter().any(|sa| is_tunnel(sa)) {
                return Err(DropReason::InPolicy);
            }
            return match self.default_action(direction) {
                Action::Allow => Ok(None),
                Action::Block | Action::Leave => Err(DropReason::InPolicyBlock),
            };
        };
        match policy.config.action {
            Action::Allow => {}
            Action::Block => return Err(DropReason::InPolicyBlock),
            Action::Leave if via.is_empty() => return Ok(Some(policy)),
            Action::Leave => return Err(DropReason::InPolicy),
        }
        let mut unused = via;
        // Outermost protection first: the last template applied outbound.
        for template in policy.config.templates.iter().rev() {
            unused = match after(template, unused, flow.if_id) {
                Some(rest) => rest,
                None if template.optional => unused,
                None if via.is_empty() => return Err(DropReason::InCleartext),
                None => return Err(DropReason::InPolicy),
            };
        }
        match unused.iter().any(|sa| is_tunnel(sa)) {
            true => Err(DropReason::InPolicy),
            false => Ok(Some(policy)),
        }
    }
}

/// The SAs that are left behind the first that fulfils a template (Linux's `xfrm_policy_ok`).
/// `None` if none does. SAs of transport mode that no template asks for do no harm; behind a tunnel
/// that none asks for, nothing counts.
fn after<'v, 's, S>(
    template: &Template,
    via: &'v [&'s SaEntry<S>],
    if_id: u32,
) -> Option<&'v [&'s SaEntry<S>]> {
    if template.optional && template.mode == Mode::Transport {
        return None;
    }
    let mut rest = via;
    while let [sa, behind @ ..] = rest {
        if is_meant(template, sa, if_id) {
            return Some(behind);
        }
        if is_tunnel(sa) {
            break;
        }
        rest = behind;
    }
    None
}

fn is_tunnel<S>(sa: &SaEntry<S>) -> bool {
    sa.config.params.mode.is_tunnel()
}

/// Linux's `xfrm_state_ok`. The SA's destination is not compared: it brought the packet here.
///
/// IP in IP is what a tunnel of IPComp carries where compression saves nothing: it stands for any tunnel
/// that is optional.
fn is_meant<S>(template: &Template, sa: &SaEntry<S>, if_id: u32) -> bool {
    let config = &sa.config;
    let params = &config.params;
    if matches!(params.protocol, Protocol::IpInV4 | Protocol::IpInV6) {
        let is_from = template.src.is_unspecified() || template.src == params.src;
        return template.optional && template.mode == Mode::Tunnel && is_from;
    }
    template.protocol == config.id().protocol
        && (template.spi == 0 || template.spi == params.spi)
        && (template.reqid == 0 || template.reqid == config.reqid)
        && template.mode == params.mode
        && (params.mode == Mode::Transport
            || template.src.is_unspecified()
            || template.src == params.src)
        && (if_id == 0 || if_id == config.if_id)
}
