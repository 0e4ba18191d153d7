//! Follows the sessions of L2TPv3: what Linux tells of them, and all that there are.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use netlink::{Dump, Fault, Heard, Listener, Protocol};

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
    /// process, which needs `CAP_NET_ADMIN`. Changes overtake a dump that is `Interrupted`: it is to be read again.
    ///
    /// # Errors
    /// Linux refuses, or its answer is damaged: it is to be asked again.
    pub(crate) fn read(&mut self) -> Result<(BTreeMap<String, Overlay>, Dump), Fault> {
        match self.try_read() {
            Err(fault) if fault.refusal() == Some(libc::EPERM) => {
                tracing::debug!(%fault, "L2TP sessions");
                Ok((BTreeMap::new(), Dump::Whole))
            }
            // A family that comes again has another number.
            Err(fault) => {
                self.is_family_old = true;
                Err(fault)
            }
            read => read,
        }
    }

    fn try_read(&mut self) -> Result<(BTreeMap<String, Overlay>, Dump), Fault> {
        if self.is_family_old {
            self.family = self.requests.family(NAME)?;
            // What happens from here on is heard.
            let groups = self.family.iter().flat_map(|family| &family.groups);
            groups
                .filter(|(name, _)| name == NAME)
                .try_for_each(|(_, id)| self.events.join(*id))?;
            self.is_family_old = false;
        }
        let Some(Family { number, .. }) = self.family else {
            return Ok((BTreeMap::new(), Dump::Whole));
        };
        let (mut tunnels, mut sessions) = (Vec::new(), Vec::new());
        let (all, kind) = (&mut self.requests, L2TP_CMD_TUNNEL_GET);
        let of_tunnels = all.dump(number, kind, |body| tunnels.extend(tunnel(body)))?;
        let kind = L2TP_CMD_SESSION_GET;
        let of_sessions = all.dump(number, kind, |body| sessions.extend(session(body)))?;
        let is_whole = [of_tunnels, of_sessions].iter().all(|dump| *dump == Dump::Whole);
        let dump = if is_whole { Dump::Whole } else { Dump::Interrupted };
        Ok((overlays(&tunnels, sessions), dump))
    }
}

/// Name of the family, and of the group that hears of tunnels and sessions.
const NAME: &str = "l2tp";

const DATAGRAMS_A_POLL: usize = 4096;

#[cfg(test)]
impl Sessions {
    /// Has Linux refuse what is asked next: nobody has the family's number.
    pub(crate) fn have_refused(&mut self) {
        let (name, number) = (NAME.to_owned(), u16::MAX);
        (self.family, self.is_family_old) =
            (Some(Family { name, number, groups: Vec::new() }), false);
    }
}
