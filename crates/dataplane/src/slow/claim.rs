//! SAs that have no home yet, or not one for each worker.

use wire::Headers;

use crate::model::{Action, Draft};
use crate::out::AnyOut;
use crate::resolve::{Decision, homes};
use crate::view::View;

/// Asks the owner of a policy for SAs of the worker's own (RFC 9611).
pub(crate) fn ask_for_own(
    (view, out): (&View, &mut impl AnyOut),
    policy: Option<u32>,
    h: &Headers,
) {
    if let Some(policy) = policy {
        let asked = out.reports().own_sas(policy, view.worker, h, view.now.ns);
        out.counters().work.acquires.add(u64::from(asked));
    }
}

/// Makes the worker the home of the SAs that a decision seals with, if they have none. If another worker has
/// been faster, the packet is for that one.
pub(super) fn claim_all(view: &View, decision: &mut Decision) {
    match decision {
        Decision::Go(draft) => claim(view, draft),
        Decision::Translate(translation) => {
            claim(view, &mut translation.draft);
            if let Action::HandOver { .. } = translation.draft.action {
                *decision = Decision::Go(translation.draft);
            }
        }
        Decision::SealAll(seal) => match homes::claim(view, seal.sas.as_slice()) {
            Ok(own) => seal.own = own as u8,
            Err(home) => *decision = Decision::Go(Draft::hand_over(home)),
        },
        _ => {}
    }
}

/// The same for a draft.
pub(crate) fn claim(view: &View, draft: &mut Draft) {
    let sa = draft.action.sa().and_then(|sa| view.reader.sa(sa));
    if let Some(sa) = sa {
        let me = view.worker.get();
        let home = sa.home().claim(me);
        if home != me {
            *draft = Draft::hand_over(home);
        }
    }
}
