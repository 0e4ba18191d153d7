//! ICMP errors about this host's own ESP: what is reported of them.

use crate::out::Out;
use crate::resolve::{Quote, TooBig};
use crate::view::View;

/// Reports the MTU of an SA's path if an error quotes what was sent, unless too many have quoted what was not.
#[cold]
#[inline(never)]
pub(super) fn hear_of_path(view: &View, out: &mut Out, quote: Quote) {
    let (work, reports) = (&out.counters.work, &mut out.reports);
    match quote {
        Quote::Guess { dst } => {
            work.path_mtu_guesses.add(1);
            reports.guessed(dst, view.now.ns);
        }
        Quote::Sent(TooBig { dst, .. }) if !reports.may_be_told(dst, view.now.ns) => {
            work.path_mtu_ignored.add(1);
        }
        Quote::Sent(TooBig { sa, dst, mtu }) => {
            let Some(sa) = view.reader.sa(sa) else { return };
            work.path_mtu_reports.add(1);
            reports.too_big(sa.config.id(), dst, mtu, view.now.ns);
        }
    }
}
