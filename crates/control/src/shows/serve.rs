//! Clients and events in a round of the control thread.

use std::os::fd::BorrowedFd;

use dataplane::{Came, Probe};
use report::{Occurrence, protocol};
use wire::Headers;

use super::control::Question;
use super::{Parts, Shows};
use crate::clock::Now;
use crate::early::{Early, Reported, wanting};
use crate::sa::Sas;
use crate::sources::SaChange;
use crate::workers::Crew;

impl Shows {
    /// Answers questions, and ends traces that nobody asks for. Commands are left for the next round, which follows at
    /// once.
    pub(crate) fn serve(&mut self, parts: Parts<'_>, questions: Vec<Question>) {
        for question in questions {
            let reply = self.answer(parts, question.request);
            // An error means that the client has gone.
            let _ = question.answer.send(reply);
        }
        self.traces.forget(parts.now);
    }

    /// Adds the descriptors that become readable when there is something to serve.
    pub(crate) fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.clients.fd());
        fds.extend(self.early.as_ref().map(Early::fd));
    }

    /// Asks for the SAs that packets want which a packet filter may drop.
    pub(crate) fn hear_early(&mut self, now: Now, sa: &mut Sas, crew: &Crew) {
        let reports = self.early.as_mut().map(Early::reports).unwrap_or_default();
        for Reported { mark, packet } in reports {
            let Ok(headers) = wire::parse_ip(&packet) else { continue };
            let came = Came::Linux { tunnel: 0, mark };
            let Ok((_, explanation)) = crew.ask(Probe { packet, came }) else { continue };
            if let Some(policy) = explanation.steps.iter().find_map(wanting) {
                self.note_acquire(now, policy, &headers);
                sa.acquire(now, policy, None, &headers);
            }
        }
    }

    /// Notes that a packet wants SAs that are not there.
    pub(crate) fn note_acquire(&mut self, now: Now, policy: u32, packet: &Headers) {
        let protocol = protocol::name(packet.protocol);
        let (src, dst) = (packet.src, packet.dst);
        self.event_log.add(now, Occurrence::Acquire { policy, src, dst, protocol });
        self.asked.add(now, policy);
    }

    /// Notes what has happened to SAs, ports and drop counters.
    pub(crate) fn note_events(&mut self, parts: Parts<'_>, history: Vec<SaChange>) {
        let now = parts.now;
        self.event_log.follow(now, history);
        let Some(passed) = self.watch.due(now.at) else { return };
        let troubles = parts.crew.ports.troubles().chain(parts.linux.memifs.troubles());
        let mut news = self.watch.ports.look(troubles);
        let workers = &parts.crew.workers;
        news.extend(self.watch.drops.look(passed, |reason| workers.dropped(reason)));
        news.into_iter().for_each(|what| self.event_log.add(now, what));
    }
}
