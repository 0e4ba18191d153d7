//! Way of a packet through Linux before culvert gets it, if it ever does.

use dataplane::Came;
use policy::{Direction, Ends};
use report::{WhyQuestion, WhyStep};
use wire::{Headers, protocol};

use super::explainer::Explainer;
use super::guard::{Barred, IKE_PORTS};
use super::text;

/// Sender of a packet: this host, or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// This host's own programs.
    Host,
    /// Another host's, received by this interface, which is no port.
    Received(u32),
}

/// Effect of Linux on a packet.
pub enum Through {
    /// The packet comes to culvert.
    Comes(Came, Vec<WhyStep>),
    /// The packet never comes to culvert.
    Stays(Stays),
}

/// A packet that culvert never sees.
pub struct Stays {
    pub steps: Vec<WhyStep>,
    /// Fate of the packet if no barrier stops it.
    pub verdict: String,
    pub barred: Option<Barred>,
}

impl Explainer<'_> {
    /// Follows a packet through Linux, by its tables with culvert's rules and routes, and by the guard.
    pub(super) fn through_linux(&self, h: &Headers, sender: Sender, mark: u32) -> Through {
        let topology = self.crew.tables.topology.load();
        if topology.is_local_addr(h.dst) {
            let barred = match sender {
                // By the loopback, which no policy is for.
                Sender::Host => None,
                Sender::Received(_) => self.barred(h, Ends::Local, &[Direction::In], mark),
            };
            let steps = vec![text::step(WhyQuestion::For, "this host".into())];
            return Through::Stays(Stays { steps, verdict: "Linux delivers it".into(), barred });
        }
        let ends = match sender {
            Sender::Host => Ends::Local,
            Sender::Received(_) => Ends::Forwarded,
        };
        let stopped = match sender {
            Sender::Host => None,
            Sender::Received(_) => self.barred(h, ends, &[Direction::Forward], mark),
        };
        if stopped.is_some() {
            let steps = vec![text::step(WhyQuestion::For, "another host".into())];
            return Through::Stays(Stays { steps, verdict: String::new(), barred: stopped });
        }
        let is_ike = sender == Sender::Host
            && h.protocol == protocol::UDP
            && IKE_PORTS.iter().any(|port| [h.src_port, h.dst_port].contains(port));
        if let Some(led) = self.linux.private.leads(h.dst, mark, is_ike) {
            let to = self.linux.name_of(self.linux.private.ifindex());
            let prefix = format!("{}/{}", led.addr, led.len);
            let step =
                text::step(WhyQuestion::Linux, format!("a route to {prefix} leads it to {to}"));
            return Through::Comes(Came::Linux { tunnel: 0, mark }, vec![step]);
        }
        let Some(ifindex) = topology.way_out(h.src, h.dst) else {
            let step =
                text::step(WhyQuestion::Linux, format!("no route of Linux's leads to {}", h.dst));
            let verdict = "Linux has no way for it".into();
            return Through::Stays(Stays { steps: vec![step], verdict, barred: None });
        };
        let name = self.linux.name_of(ifindex);
        if topology.interfaces.get(&ifindex).is_some_and(|i| i.binding.is_some()) {
            let step = text::step(
                WhyQuestion::Linux,
                format!("a route leads it to tunnel interface {name}"),
            );
            return Through::Comes(Came::Linux { tunnel: ifindex, mark }, vec![step]);
        }
        let answer = format!("no policy leads it to culvert: it goes by {name}");
        let step =
            WhyStep { interface: Some(name.clone()), ..text::step(WhyQuestion::Linux, answer) };
        Through::Stays(Stays {
            steps: vec![step],
            verdict: format!("Linux sends it in clear by {name}"),
            barred: self.barred(h, ends, &[Direction::Out], mark),
        })
    }
}
