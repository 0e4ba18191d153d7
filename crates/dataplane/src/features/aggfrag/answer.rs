//! Ties between the two SAs of a pair: what one brings, the other reports.

use esp::Sa;
use policy::SaEntry;

use super::send::most_payload;
use super::state::Aggfrag;
use super::watch::Watch;
use crate::features::hands::Hands;

impl Aggfrag {
    /// Notes a payload as it arrives, before its turn has come: its number, and the outer header's traffic class.
    #[inline(never)]
    pub(super) fn watch(
        &mut self,
        hands: &mut Hands<'_>,
        watch: &mut Watch,
        sa: &SaEntry<Sa>,
        of: (u64, u8, &[u8]),
    ) {
        if watch.note(hands.view, sa, of) {
            self.begin_answer(hands, sa);
        }
    }

    /// Has the outbound SA of a pair send, which nobody has used yet: the other end waits for its reports.
    #[cold]
    fn begin_answer(&mut self, hands: &mut Hands<'_>, inbound: &SaEntry<Sa>) {
        let view = hands.view;
        let Some(handle) = view.reader.answering(inbound) else { return };
        let Some(sa) = view.reader.sa(handle) else { return };
        let me = view.worker.get();
        // Another worker that is its home has sent by it, and so has a sender.
        if sa.home().claim(me) != me {
            return;
        }
        let most_payload = most_payload(hands.out);
        let senders = self.senders.get_or_insert_default();
        let place = senders.place(handle, sa);
        let sender = senders.all.get_mut(place);
        // Without a way it is tried again with the next payload.
        if sender.is_some_and(|sender| sender.way(view, sa, most_payload).is_ok()) {
            senders.wake(place);
        }
    }
}
