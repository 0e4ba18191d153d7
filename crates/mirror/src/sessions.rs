//! Follows the sessions of L2TPv3: what Linux tells of them, and all that there are.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use netlink::{Fault, Heard, Listener, Protocol};

use crate::generic::{CONTROLLER, Family, Generic};
use crate::l2tp::{L2TP_CMD_SESSION_GET, L2TP_CMD_TUNNEL_GET, overlays, session, tunnel};
use crate::overlay::Overlay;

/// Sessions of the network namespace of the thread that opened it.
///
/// Linux has the family as soon as there is a tunnel, and tells when it comes. Each news of tunnels and sessions is taken
/// as a reason to read all of them: they are few.
pub(crate) struct Sessions {
    events: Listener,
    requests: Generic,
    family: Option<Family>,
    is_family_old: bool,
}

impl Sessions {
    /// Hears of families that come and go.
    ///
    /// # Errors
    /// The system has no generic netlink.
    pub(crate) fn open() -> io::Result<Sessions> {
        let events = Listener::open(Protocol::Generic)?;
        events.join(u32::from(CONTROLLER))?;
        let requests = Generic::controller()?;
        Ok(Sessions { events, requests, family: None, is_family_old: true })
    }

    /// Readable when there is something to hear.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.events.fd()
    }

    /// True if something was heard of tunnels or sessions, without waiting for it.
    pub(crate) fn have_changed(&mut self) -> bool {
        let (mut have_changed, mut is_family_old) = (false, false);
        let family = self.family.as_ref().map(|family| family.number);
        let heard = self.events.hear(DATAGRAMS_A_POLL, |heard| match heard {
            Heard::Message(header, body) if header.kind == CONTROLLER => {
                let about = crate::generic::family(body);
                is_family_old |= about.is_some_and(|about| about.name == NAME);
            }
            Heard::Message(header, _) => have_changed |= Some(header.kind) == family,
            Heard::Lost => (have_changed, is_family_old) = (true, true),
        });
        if let Err(error) = heard {
            tracing::warn!(%error, "news of L2TP sessions");
        }
        self.is_family_old |= is_family_old;
        have_changed || is_family_old
    }

    /// All sessions, as overlays by the names of their interfaces. None where Linux has no L2TP, or does not tell this
    /// process, which needs `CAP_NET_ADMIN`.
    pub(crate) fn read(&mut self) -> BTreeMap<String, Overlay> {
        match self.try_read() {
            Ok(overlays) => overlays,
            Err(fault) => {
                tracing::debug!(%fault, "L2TP sessions");
                BTreeMap::new()
            }
        }
    }

    fn try_read(&mut self) -> Result<BTreeMap<String, Overlay>, Fault> {
        if self.is_family_old {
            self.family = self.requests.family(NAME)?;
            // What happens from here on is heard.
            let groups = self.family.iter().flat_map(|family| &family.groups);
            groups
                .filter(|(name, _)| name == NAME)
                .try_for_each(|(_, id)| self.events.join(*id))?;
            self.is_family_old = false;
        }
        let Some(Family { number, .. }) = self.family else { return Ok(BTreeMap::new()) };
        let (mut tunnels, mut sessions) = (Vec::new(), Vec::new());
        self.requests.dump(number, L2TP_CMD_TUNNEL_GET, |body| tunnels.extend(tunnel(body)))?;
        self.requests.dump(number, L2TP_CMD_SESSION_GET, |body| sessions.extend(session(body)))?;
        Ok(overlays(&tunnels, sessions))
    }
}

/// Name of the family, and of the group that hears of tunnels and sessions.
const NAME: &str = "l2tp";

const DATAGRAMS_A_POLL: usize = 4096;
