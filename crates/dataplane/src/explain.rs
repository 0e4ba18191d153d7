//! Explanation of a packet's fate, without an effect: `culvert why`.
//!
//! The packet goes to [`resolve`](crate::resolve) as any other, and to nothing else: a decision looks everything
//! up and changes nothing, so nothing is sent, counted, or remembered.

use arrayvec::ArrayVec;
use forward::Resolution;
use io::tun::back::UNMARKED;
use outcome::DropReason;
use policy::WorkerIndex;
use wire::Headers;

use crate::features::explain_rare;
use crate::model::{Action, Came, Explanation, Fate, Origin, Probe, Step};
use crate::resolve::{Decision, Entry, resolve_aloud};
use crate::view::View;

/// Tells what would be done with a packet.
pub(crate) fn explain(view: &View, probe: &Probe) -> Explanation {
    let h = match wire::parse_ip(&probe.packet) {
        Ok(h) => h,
        Err(error) => {
            return Explanation { mark: 0, steps: Vec::new(), fate: Fate::Dropped(error.into()) };
        }
    };
    let mark_of = |ifindex| match view.topology.mark_rules.is_empty() {
        true => 0,
        false => view.topology.mark(ifindex, &(&h).into()),
    };
    let (mark, entry) = match probe.came {
        Came::Port { ifindex } => {
            let mark = mark_of(ifindex);
            (mark, Entry::Port { ifindex, mark, is_to_many: false })
        }
        Came::Linux { tunnel, mark } => {
            let origin = view.origin_of_linux(tunnel, mark).unwrap_or(Origin::Linux { mark });
            (mark, Entry::Outbound(origin))
        }
        Came::Inside { ifindex, mark } => {
            let via = ArrayVec::new();
            let entry =
                view.topology
                    .overlays
                    .index_inside(ifindex)
                    .map_or(Entry::Port { ifindex, mark, is_to_many: false }, |index| {
                        Entry::Stepped { index, mark, is_protected: false, via }
                    });
            (mark, entry)
        }
        Came::Decrypted { sa, ifindex } => {
            let sa = view.reader.sa_named(&sa).and_then(|sa| view.reader.sa(sa));
            let mark = mark_of(ifindex);
            (
                mark,
                Entry::Decrypted { ifindex, mark, via: sa.into_iter().collect::<ArrayVec<_, _>>() },
            )
        }
    };
    explain_arrival(view, &probe.packet, &h, (entry, view.owner(false)), mark)
}

/// Tells what would be done with a packet that has come. `owner` is the worker that may have SAs of its own for it.
pub(crate) fn explain_arrival(
    view: &View,
    packet: &[u8],
    h: &Headers,
    (entry, owner): (Entry<'_>, Option<WorkerIndex>),
    mark: u32,
) -> Explanation {
    let mut steps = Vec::new();
    let decided = resolve_aloud(view, packet, h, (entry, owner), &mut steps);
    let has_failed =
        |step: &Step| matches!(step, Step::Neighbour { resolution: Resolution::Failed, .. });
    let fate = match Fate::of(&decided.decision) {
        Fate::Forwarded | Fate::Protected { .. } if steps.iter().any(has_failed) => {
            Fate::Dropped(DropReason::NeighbourFailed)
        }
        fate => fate,
    };
    Explanation { mark, steps, fate }
}

impl Fate {
    fn of(decision: &Decision) -> Fate {
        match decision {
            Decision::Go(draft) => Fate::of_action(&draft.action, draft.cut),
            Decision::Translate(translation) => Fate::of_action(&translation.draft.action, None),
            Decision::SealAll(seal) => Fate::Protected { cut: seal.cut },
            Decision::Hold(wait, _) => Fate::WaitsForSa { policy: wait.policy },
            Decision::Gather(_) => Fate::WaitsForFragments,
            Decision::Error(cause, reason, _) => Fate::Answered(*cause, *reason),
            Decision::Drop(reason) => Fate::Dropped(*reason),
            Decision::Consume => Fate::Consumed,
        }
    }

    fn of_action(action: &Action, cut: Option<usize>) -> Fate {
        match *action {
            Action::OpenBare | Action::OpenUdp | Action::OpenNext => Fate::Opened,
            Action::ToLinux(_) => Fate::ToLinux { as_received: false },
            Action::BackToLinux { tag } if tag & UNMARKED != 0 => Fate::ThroughNat,
            Action::BackToLinux { .. } => Fate::ToLinux { as_received: true },
            Action::Seal(_) => Fate::Protected { cut },
            Action::HandOver { to } => Fate::HandedOver { to: to.into() },
            ref rare => explain_rare(rare, cut).unwrap_or(Fate::Forwarded),
        }
    }
}
