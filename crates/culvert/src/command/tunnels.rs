//! Text about tunnels, or their absence: from what the daemon knows, and what the process table adds.

use doctor::processes::{IkeProcess, ike_processes_beside};
use report::paths;
use report::{Status, TunnelState};

/// Adds what only a look at processes tells: an IKE daemon that runs past culvert.
pub fn look_beside(status: &mut Status) {
    if status.tunnels.why.is_some() && !status.tunnels.has_ike {
        let running = ike_processes_beside(&status.pid.to_string());
        judge(&mut status.tunnels, &status.name, &running);
    }
}

fn judge(tunnels: &mut TunnelState, name: &str, running: &[IkeProcess]) {
    let ours = paths::xfrm_socket(name);
    if let Some(own) = running.iter().find(|process| process.socket.as_ref() == Some(&ours)) {
        tunnels.why =
            Some(format!("{own} was started through culvert exec, and has not connected"));
        tunnels.next = Some("see its log: journalctl -u strongswan".into());
    } else if let Some(past) = running.iter().find(|process| process.socket.is_none()) {
        let start = tunnels.next.take().unwrap_or_default();
        tunnels.why =
            Some(format!("{past} runs past culvert: its SAs and policies go to the kernel"));
        tunnels.next = Some(format!("{}, then: {start}", past.stopped_by()));
    }
}

/// A line of `culvert status`, and what to do in a second one.
pub fn lines(tunnels: &TunnelState) -> Vec<String> {
    let TunnelState { up, why, next, .. } = tunnels;
    let first = match why {
        Some(why) => format!("none: {why}"),
        None => format!("{up} up"),
    };
    std::iter::once(first).chain(next.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(socket: Option<&str>) -> IkeProcess {
        let unit = Some("strongswan.service".to_owned());
        IkeProcess { name: "charon-systemd".into(), pid: 812, socket: socket.map(Into::into), unit }
    }

    fn judged(running: &[IkeProcess]) -> TunnelState {
        let mut tunnels = TunnelState {
            why: Some("no IKE daemon is connected".into()),
            next: Some("culvert exec -- /usr/sbin/charon-systemd".into()),
            ..TunnelState::default()
        };
        judge(&mut tunnels, "default", running);
        tunnels
    }

    #[test]
    fn a_daemon_past_culvert_is_named_with_its_end() {
        let tunnels = judged(&[process(None)]);
        assert_eq!(
            lines(&tunnels),
            [
                "none: charon-systemd (process 812, strongswan.service) runs past culvert: its SAs and policies go to \
                 the kernel",
                "systemctl stop strongswan, then: culvert exec -- /usr/sbin/charon-systemd",
            ]
        );
    }

    #[test]
    fn one_of_another_instance_changes_nothing() {
        let tunnels = judged(&[process(Some("/run/culvert/other/xfrm.sock"))]);
        assert_eq!(tunnels.why.as_deref(), Some("no IKE daemon is connected"));
        let own = judged(&[process(Some("/run/culvert/default/xfrm.sock"))]);
        assert!(own.why.is_some_and(|why| why.contains("has not connected")));
    }

    #[test]
    fn tunnels_that_are_up_are_counted() {
        assert_eq!(lines(&TunnelState { up: 2, ..TunnelState::default() }), ["2 up"]);
    }
}
