//! Packets that arrive: ESP and AH for this host, cleartext that policy may forbid, and what was decrypted.

use esp::Sa;
use outcome::DropReason;
use policy::{Direction, Ends, Flow, Marks, Outbound, SaEntry};
use wire::{Fragment, protocol};

use super::decision::ErrorCame;
use super::gtpu::of_applications;
use super::{Decision, Question, too_big};
use crate::model::{Action, Draft, Gather, LinuxWay, Notes, Origin, Step};
use crate::tables::tunnel::Tunnel;

impl<N: Notes> Question<'_, N> {
    /// A packet from an Ethernet port: ESP and AH for us are opened; the rest was taken because a policy
    /// may apply to it.
    pub(super) fn arrival(&mut self, ifindex: u32, mark: u32, is_to_many: bool) -> Decision {
        let (view, h) = (self.view, self.h);
        let is_local = !self.is_translated() && view.is_local(h, ifindex);
        self.tell(|| Step::Ends { is_local });
        if !is_to_many
            && !view.is_possible_source(h.src, is_local)
            && !self.is_from_application(ifindex)
        {
            return Decision::Drop(DropReason::MartianSource);
        }
        if !is_local {
            // What was sent to all stations is not for routers (RFC 1812 §5.3.4).
            if is_to_many {
                return Decision::Drop(DropReason::OtherHost);
            }
            return self.cleartext(ifindex, mark, Direction::Forward);
        }
        match h.protocol {
            // ESP in UDP of others, perhaps: this host only translates it.
            _ if self.is_for_conntrack() => self.cleartext(ifindex, mark, Direction::In),
            protocol::ESP => Decision::Go(Draft::of_flow(Action::OpenBare)),
            protocol::AH => Decision::Go(Draft::of_flow(Action::OpenNext)),
            // Fragments of UDP wait until the first one has told the port.
            protocol::UDP if self.may_be_natt() => Decision::Go(Draft::of_flow(Action::OpenUdp)),
            protocol::ICMP | protocol::ICMPV6 => {
                self.too_big = self.quoted_too_big();
                // Each error of that router may be about another packet.
                self.is_for_flow &= !too_big::says_too_big(h);
                self.note_segment_error(ErrorCame::InClear { ifindex });
                self.cleartext(ifindex, mark, Direction::In)
            }
            _ => self.cleartext(ifindex, mark, Direction::In),
        }
    }

    /// True if UDP to this host is to a NAT traversal port, or may be.
    pub(super) fn may_be_natt(&self) -> bool {
        match self.h.fragment {
            Fragment::Whole => self.view.topology.is_natt_port(self.h.dst_port),
            Fragment::First | Fragment::Later => !self.knows_ports,
        }
    }

    /// A packet that arrived in clear: policy must allow that.
    ///
    /// So must Linux's reverse path filter, which does not see what culvert takes: a forged source on
    /// the outside would go into a tunnel. What Linux gets as received by the same interface it
    /// checks, and counts, itself.
    fn cleartext(&mut self, ifindex: u32, mark: u32, direction: Direction) -> Decision {
        if self.needs_ports() {
            return Decision::Gather(Gather::Ports);
        }
        let (view, h) = (self.view, self.h);
        let ends = match direction {
            Direction::Forward => Ends::Forwarded,
            Direction::In | Direction::Out => Ends::Local,
        };
        let (mut is_barred, mut is_left) = (false, false);
        if !policy::always_bypass(h, ends, false) {
            let flow = Flow::marked(h, view.leads_to(h, ifindex), Marks::of_mark(mark));
            let verified = view.reader.verify(direction, &flow, &[]);
            self.tell(|| {
                let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
                Step::inbound(
                    direction,
                    Marks::of_mark(mark),
                    found,
                    verified.as_ref().err().copied(),
                )
            });
            let policy = match verified {
                Ok(policy) => policy.map(|policy| &**policy),
                Err(reason) => return Decision::Drop(reason),
            };
            let config = policy.map(|policy| &policy.config);
            is_left = config.is_some_and(|config| config.action == policy::Action::Leave);
            let templates = config.map_or(&[][..], |config| &config.templates);
            // Linux judges what it gets as received by the port, and not what comes in otherwise.
            if is_left
                && view.back(ifindex).is_none()
                && templates.iter().any(|template| !template.optional)
            {
                return Decision::Drop(DropReason::InCleartext);
            }
            // It wants protection, and does not insist; the guard knows only the first.
            is_barred = !is_left && !templates.is_empty();
            self.note(direction, &flow, policy);
        }
        let check = view.topology.interfaces.get(&ifindex).map(|i| i.source_check);
        if !view.topology.fib.is_way_back(h, 0, ifindex, check.unwrap_or_default())
            && (is_barred || !self.is_checked_by_linux((ifindex, mark), direction, is_left))
            && !self.is_from_application(ifindex)
        {
            return Decision::Drop(DropReason::ReversePath);
        }
        match direction {
            // The way out is Linux's to find as well.
            _ if is_left => Decision::Go(self.leave_to_linux(ifindex, false)),
            Direction::In => {
                self.note_local();
                Decision::Go(self.leave_to_linux(ifindex, is_barred))
            }
            Direction::Forward | Direction::Out => self
                .onward(Origin::Port { ifindex, mark, is_barred }, |question| {
                    Decision::Go(question.leave_for_nat((ifindex, mark), is_barred))
                }),
        }
    }

    /// True if a packet that arrived in clear goes back to Linux as it came.
    #[cold]
    fn is_checked_by_linux(
        &self,
        (ifindex, mark): (u32, u32),
        direction: Direction,
        is_left: bool,
    ) -> bool {
        self.view.back(ifindex).is_some()
            && (is_left || direction == Direction::In || self.leaves_in_clear((ifindex, mark)))
    }

    /// True if a packet that arrived by this interface leaves in clear, by the addresses that it
    /// has.
    #[cold]
    pub(super) fn leaves_in_clear(&self, (ifindex, mark): (u32, u32)) -> bool {
        let flow = Flow::marked(self.h, self.view.leads_to(self.h, ifindex), Marks::of_mark(mark));
        let verdict = self.view.reader.outbound(&flow);
        matches!(verdict, Outbound::NoPolicy | Outbound::Bypass(_) | Outbound::Leave(_))
    }

    /// A packet that came in clear and is Linux's: culvert only took it to ask the policy database.
    /// One that the guard's barrier would stop comes in by the private interface, which has none.
    pub(super) fn leave_to_linux(&self, ifindex: u32, is_barred: bool) -> Draft {
        Draft::of_flow(match self.view.back(ifindex).filter(|_| !is_barred) {
            Some(tag) => Action::BackToLinux { tag },
            None => Action::ToLinux(LinuxWay::Private),
        })
    }

    /// A decrypted packet: policy must allow it (RFC 4301 §5.2). If it is ESP, AH or IPComp for this host
    /// again, or IP in IP of an IPComp tunnel, policy is asked about what is inside.
    pub(super) fn decrypted(&mut self, ifindex: u32, mark: u32, via: &[&SaEntry<Sa>]) -> Decision {
        let (view, h) = (self.view, self.h);
        let Some(sa) = via.last() else { return Decision::Drop(DropReason::InStateExpired) };
        // Without its interface a packet belongs to none, and no policy of that `if_id` allows it
        // (`xfrmi_rcv_cb`).
        let bound = view.topology.tunnels.of_sa(&sa.config);
        let tunnel = bound.map(|(_, tunnel)| tunnel);
        let marks = Marks {
            // As Linux's rules do it: after the SAs.
            mark: match mark {
                0 => via.iter().fold(0, |mark, sa| sa.config.set_mark.set_in(mark)),
                mark => mark,
            },
            if_id: tunnel.map_or(0, |_| sa.config.if_id),
        };
        let asked = bound.map_or(marks, |(binding, _)| binding.inbound(marks));
        let ifindex = tunnel.map_or(ifindex, |tunnel| tunnel.ifindex);
        if let Some(tunnel) = tunnel.filter(|tunnel| tunnel.is_elsewhere) {
            return self.decrypted_elsewhere(ifindex, asked, tunnel, via);
        }
        let is_local = !self.is_translated() && view.is_local(h, ifindex);
        self.tell(|| Step::Ends { is_local });
        if !view.is_possible_source(h.src, is_local) {
            return Decision::Drop(DropReason::MartianSource);
        }
        if is_local && self.is_wrapped() {
            return Decision::Go(Draft::of_flow(Action::OpenNext));
        }
        if let Some(gather) = self.is_cut_gtpu() {
            return gather;
        }
        if self.needs_ports() {
            return Decision::Gather(Gather::Ports);
        }
        let direction = if is_local { Direction::In } else { Direction::Forward };
        if let Err(reason) = self.verify(direction, ifindex, asked, via) {
            return Decision::Drop(reason);
        }
        let as_local = |question: &Self| match marks.mark == mark {
            // A rule's mark: Linux may mark it again by rules of its own.
            true => question.to_linux(question.as_told(marks), tunnel),
            false => question.to_linux(marks, tunnel),
        };
        if let Some(service) = self.service() {
            let linux = is_local.then(|| as_local(self));
            return of_applications(service, linux);
        }
        if is_local {
            self.note_local();
            self.note_segment_error(ErrorCame::Protected);
        }
        match is_local {
            true => as_local(self),
            // The SA's mark is for Linux's rules.
            false if marks.mark != mark => self.to_linux(marks, tunnel),
            false => self.onward(Origin::Decrypted { ifindex, mark }, |question| {
                question.to_linux(question.as_told(marks), tunnel)
            }),
        }
    }

    /// A decrypted packet of a tunnel interface in another network namespace, which it goes to without a mark,
    /// whatever its destination: the policies here judge it as one for this host (`xfrmi_rcv_cb`).
    fn decrypted_elsewhere(
        &mut self,
        ifindex: u32,
        asked: Marks,
        tunnel: Tunnel,
        via: &[&SaEntry<Sa>],
    ) -> Decision {
        self.tell(|| Step::Ends { is_local: true });
        if self.needs_ports() {
            return Decision::Gather(Gather::Ports);
        }
        match self.verify(Direction::In, ifindex, asked, via) {
            Ok(()) => self.to_linux(Marks::default(), Some(tunnel)),
            Err(reason) => Decision::Drop(reason),
        }
    }

    /// Checks that policy allows the packet that these SAs have decrypted.
    fn verify(
        &mut self,
        direction: Direction,
        ifindex: u32,
        asked: Marks,
        via: &[&SaEntry<Sa>],
    ) -> Result<(), DropReason> {
        let (view, h) = (self.view, self.h);
        let flow = Flow::marked(h, view.leads_to(h, ifindex), asked);
        let verified = match view.reader.verify(direction, &flow, via) {
            Ok(policy) => Ok(policy.map(|policy| &**policy)),
            Err(reason) => self.verify_by_quoted(direction, &flow, via).map_err(|_| reason),
        };
        self.tell(|| {
            let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
            Step::inbound(direction, asked, found, verified.as_ref().err().copied())
        });
        self.note(direction, &flow, verified?);
        Ok(())
    }

    /// True if a packet for this host is to be opened by an SA. Other IP in IP belongs to Linux's
    /// own tunnels.
    fn is_wrapped(&self) -> bool {
        match self.h.protocol {
            protocol::ESP | protocol::AH | protocol::IPCOMP => true,
            protocol::IPV4 | protocol::IPV6 => self.view.ip_in_ip(self.h.src, self.h.dst).is_some(),
            _ => false,
        }
    }

    /// A mark that a rule gives, where Linux can be told of it: with the kernel's IPsec a packet has the mark
    /// that its ESP packet was given.
    fn as_told(&self, marks: Marks) -> Marks {
        let is_known = self.view.topology.marks.contains_key(&marks);
        Marks { mark: if is_known { marks.mark } else { 0 }, ..marks }
    }

    /// A decrypted packet that is Linux's: by the tunnel interface that it came in by, if there is one,
    /// and with the mark that its SA gives it.
    fn to_linux(&self, marks: Marks, tunnel: Option<Tunnel>) -> Decision {
        let way = match (marks.mark, tunnel) {
            (0, None) => LinuxWay::Private,
            (0, Some(Tunnel { slot: Some(slot), .. })) => LinuxWay::Tunnel(slot),
            // One of Linux's own.
            (0, Some(Tunnel { slot: None, .. })) => match self.view.topology.marks.get(&marks) {
                Some(tag) => LinuxWay::Marked(*tag),
                None => LinuxWay::Private,
            },
            _ => match self.view.topology.marks.get(&marks) {
                Some(tag) => LinuxWay::Marked(*tag),
                None => return Decision::Drop(DropReason::InMark),
            },
        };
        Decision::Go(Draft::of_flow(Action::ToLinux(way)))
    }
}
