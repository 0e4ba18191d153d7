//! `culvert why`: what would be done with a packet.
//!
//! The packet is made here, and a worker [explains](dataplane::Command::Explain) it: by its own view, so what is
//! told is what would be done. Nothing is sent, counted or remembered.

mod explainer;
mod guard;
mod hint;
mod linux;
mod near_miss;
mod packet;
mod text;

pub(crate) use text::{packet, step, verdict};

use dataplane::{Came, Explanation, Fate, Probe, Step};
use policy::{Ends, SaEntry, SaId};
use report::{PacketFate, Why, WhyAnswer, WhyPacket, WhyQuestion, WhyRequest, WhyStep};
use wire::{Headers, protocol};

pub(crate) use self::explainer::Explainer;
use self::guard::IKE_PORTS;
use self::linux::{Sender, Stays, Through};

impl Explainer<'_> {
    /// Explains a packet.
    pub(crate) fn why(&self, request: &WhyRequest) -> WhyAnswer {
        self.explained(request).map_or_else(|error| WhyAnswer::Refused { error }, WhyAnswer::Why)
    }

    fn explained(&self, request: &WhyRequest) -> Result<Why, String> {
        let bytes = packet::packet(&request.packet)?;
        let h = wire::parse_ip(&bytes).map_err(|error| format!("no such packet: {error}"))?;
        let (came, sender, how) = self.came(request)?;
        let through = sender.map(|sender| self.through_linux(&h, sender, request.mark));
        let (came, before) = match through {
            None => (came, Vec::new()),
            Some(Through::Comes(came, steps)) => (came, steps),
            Some(Through::Stays(stays)) => {
                let exempt = self.is_key_exchange(&h).then(exempt);
                return Ok(left_to_linux(&request.packet, how, stays, exempt));
            }
        };
        let steering = self.steered(&came, &h);
        let (worker, explanation) = match steering {
            Some((_, false)) => (0, passed()),
            _ => self.crew.ask(Probe { packet: bytes, came })?,
        };
        let Explanation { mark, steps: answers, fate } = explanation;
        let mut steps = before;
        steps.extend(steering.into_iter().map(|(step, _)| step));
        if mark != 0 {
            steps.push(text::step(WhyQuestion::Mark, format!("{mark:#x}")));
        }
        steps.extend(answers.iter().map(|step| self.step(step, &h)));
        steps.extend(self.application(&h));
        let is_key_exchange = self.is_key_exchange(&h);
        if is_key_exchange && !answers.iter().any(|step| matches!(step, Step::Exempt)) {
            steps.push(exempt());
        }
        let answer = Why {
            packet: text::packet(&request.packet),
            came: how,
            fate: text::word(&fate),
            verdict: text::verdict(&fate, &steps) + &text::delay(&answers),
            drop_reason: text::reason(&fate).map(|reason| reason.name().into()),
            hints: self.hints(&fate, &answers, &came, is_key_exchange),
            steps,
            worker,
        };
        // As it came, it meets the kernel's barriers.
        let barred = match fate {
            Fate::ToLinux { as_received: true } => self.barred_as_received(&h, &answers),
            _ => None,
        };
        let is_guarded = answers.iter().any(|step| matches!(step, Step::Guard(_)));
        Ok(if barred.is_some() || is_guarded { guard::stopped(answer, barred) } else { answer })
    }

    /// Application of the packet's flow, where flows are told apart.
    fn application(&self, h: &Headers) -> Option<WhyStep> {
        let names = self.crew.recognition.names(self.crew.workers.now_ns());
        names.expected(h).map(|answer| text::step(WhyQuestion::Application, answer))
    }

    /// True of IKE between this host and a peer. With UDP's port 4500 it is IKE too: what is asked about begins with the
    /// non-ESP marker (RFC 3948 §2.2).
    fn is_key_exchange(&self, h: &Headers) -> bool {
        let topology = self.crew.tables.topology.load();
        let is_own = topology.is_local_addr(h.src) || topology.is_local_addr(h.dst);
        let ends = if is_own { Ends::Local } else { Ends::Forwarded };
        let is_natt = IKE_PORTS.iter().any(|port| [h.src_port, h.dst_port].contains(port));
        h.protocol == protocol::UDP && policy::always_bypass(h, ends, is_natt)
    }

    /// How the packet comes, whose it is if Linux has it first, and how it comes in words.
    fn came(&self, request: &WhyRequest) -> Result<(Came, Option<Sender>, String), String> {
        let WhyRequest { packet: WhyPacket { src, dst, .. }, interface, spi, mark } = request;
        if let Some(spi) = spi {
            return self.decrypted(*spi).map(|(came, how)| (came, None, how));
        }
        let (snapshot, topology) =
            (self.linux.observer.snapshot(), self.crew.tables.topology.load());
        let from_linux = |tunnel, how: String| (Came::Linux { tunnel, mark: *mark }, how);
        let ifindex = match interface {
            Some(name) => {
                let link = snapshot.link_by_name(name);
                link.ok_or_else(|| self.linux.no_such_interface("--in", name))?.index
            }
            None if topology.is_local_addr(*src) => {
                let (came, how) = from_linux(0, "sent by this host".into());
                return Ok((came, Some(Sender::Host), how));
            }
            None => topology.way_out(*dst, *src).ok_or_else(|| {
                format!(
                    "no route leads to {src}, so name where the packet comes in: --in INTERFACE"
                )
            })?,
        };
        let name = snapshot.link(ifindex).map_or("?", |link| link.name.as_str());
        if *mark != 0 && topology.interfaces.get(&ifindex).is_some_and(|i| i.port.is_some()) {
            return Err(format!(
                "--mark: what {name} receives has the mark of a [[mark]] rule, or none"
            ));
        }
        let guessed = if interface.is_none() { ", as the route to its source says" } else { "" };
        let mut sender = None;
        let (came, how) = match topology.interfaces.get(&ifindex) {
            Some(i) if i.binding.is_some() => {
                from_linux(ifindex, format!("from Linux, by tunnel interface {name}"))
            }
            _ if ifindex == self.linux.private.ifindex() => {
                from_linux(0, format!("from Linux, by {name}"))
            }
            Some(i) if i.port.is_some() => {
                (Came::Port { ifindex }, format!("received by port {name}{guessed}"))
            }
            _ if topology.overlays.has_interface(ifindex) => {
                let how = format!("received inside of overlay {name}{guessed}");
                (Came::Inside { ifindex, mark: *mark }, how)
            }
            _ if snapshot.link(ifindex).is_some_and(|link| link.overlay.is_some()) => {
                sender = Some(Sender::Received(ifindex));
                let linuxs = "which Linux carries out: `culvert route` says why";
                from_linux(0, format!("received inside of overlay {name}{guessed}, {linuxs}"))
            }
            _ => {
                sender = Some(Sender::Received(ifindex));
                from_linux(0, format!("received by {name}{guessed}, which is no port"))
            }
        };
        Ok((came, sender, how))
    }

    fn decrypted(&self, spi: u32) -> Result<(Came, String), String> {
        let topology = self.crew.tables.topology.load();
        let databases = self.sa.source.databases();
        let mut sas = databases.sas().filter(|sa| sa.config.params.spi == spi);
        let inbound = sas.find(|sa| topology.is_local_addr(sa.config.params.dst));
        let Some(sa) = inbound else {
            return Err(format!(
                "--spi {spi:#010x}: no inbound SA of the fast path has it; `culvert sa` lists them"
            ));
        };
        let params = &sa.config.params;
        let ifindex = topology.way_out(params.dst, params.src).unwrap_or(0);
        let how = format!("decrypted by SA {spi:#010x} from {}", params.src);
        Ok((Came::Decrypted { sa: sa.config.id(), ifindex }, how))
    }

    /// Verdict of a port's steering program on the packet: taken or not, in words too.
    fn steered(&self, came: &Came, h: &Headers) -> Option<(WhyStep, bool)> {
        let Came::Port { ifindex } = came else { return None };
        let is_local = self.crew.tables.topology.load().is_local_addr(h.dst);
        let is_ipsec = [protocol::ESP, protocol::AH].contains(&h.protocol);
        let (answer, is_taken) = match self.crew.ports.taken_by(h.dst) {
            _ if is_local && is_ipsec => ("taken, if an SA has its SPI".into(), true),
            _ if self.linux.nat.as_ref().is_some_and(|nat| nat.takes(h)) => {
                ("taken: of a connection that Linux translates".into(), true)
            }
            Some(prefix) => (format!("taken: a policy is about {prefix}"), true),
            None => (format!("left to Linux: no policy protects or blocks {}", h.dst), false),
        };
        let interface = Some(self.linux.name_of(*ifindex));
        Some((WhyStep { interface, ..text::step(WhyQuestion::Steering, answer) }, is_taken))
    }

    fn entry(&self, id: &SaId) -> Option<std::sync::Arc<SaEntry<esp::Sa>>> {
        self.sa.source.databases().sa(id)
    }
}

/// The answer about a packet that goes through Linux, and never comes to culvert.
fn left_to_linux(packet: &WhyPacket, came: String, stays: Stays, exempt: Option<WhyStep>) -> Why {
    let Stays { mut steps, verdict, barred } = stays;
    steps.extend(exempt);
    let answer = Why {
        packet: text::packet(packet),
        came,
        steps,
        fate: PacketFate::ToLinux,
        verdict,
        drop_reason: None,
        hints: Vec::new(),
        worker: 0,
    };
    match barred {
        Some(barred) => guard::stopped(answer, Some(barred)),
        None => answer,
    }
}

/// Of IKE, which policies would keep from setting up the very SAs that they ask for.
fn exempt() -> WhyStep {
    text::step(WhyQuestion::Policy, "not asked: key exchange goes past all policies".into())
}

/// Of a packet that Linux has and culvert never sees.
fn passed() -> Explanation {
    Explanation { mark: 0, steps: Vec::new(), fate: Fate::ToLinux { as_received: true } }
}
