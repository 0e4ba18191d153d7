"""Prefixes that the guard keeps in the tunnel, while Linux translates what leaves by the uplink."""

import signal

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, ping

from .test_breakout import CLOUD_NET, DIRECT, PASSES, RULES, fixture_site, is_of_uplinks, sources, states  # noqa: F401

GUARD = '\n[guard]\nprefixes = ["10.2.0.0/24"]\n'

#: Whatever the head office's is, too.
WIDE = PASSES.replace(CLOUD_NET, "0.0.0.0/0")


def test_first_packets_for_a_guarded_prefix_reach_the_tunnel(site):
    """They go by Linux, as it has rules of NAT, and come back by the tunnel interface, which the guard spares."""
    net, cloud, _ = site(rules=RULES + GUARD)
    wire = Capture(net.mid, "west")
    for port in range(7000, 7003):
        stream = Stream(net.client, net.server, t.SERVER4, rate=100, count=40, port=port)
        stream.wait()
        assert_perfect(stream.finish())
    assert sources(cloud, net.client, 7100) == {DIRECT[0]}, "and the application leaves by the uplink"
    frames = [frame for frame in wire.stop() if not is_of_uplinks(frame)]
    assert_only_protected(frames, protected=t.PROTECTED)
    blocked = net.gwa.host.run("cat", "/proc/net/xfrm_stat").stdout
    counts = dict(line.split() for line in blocked.splitlines())
    assert {counts[name] for name in ("XfrmOutPolBlock", "XfrmInPolBlock")} == {"0"}, counts
    why = net.gwa.daemon.culvert("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--in", "lan").stdout
    assert "dropped" not in why, why


def test_a_guarded_prefix_stays_in_the_tunnel_whatever_policies_let_pass(site):
    """A rule leads all of it to the uplink, and then the daemon dies."""
    rules = RULES.replace('application = "cloud"\n', "").replace(', "mpls"', "")
    net, _, _ = site(passes=WIDE, rules=rules + GUARD)
    wire = Capture(net.mid, "west")
    stopped = ping(net.client, t.SERVER4, count=5)
    assert stopped["received"] == 0, stopped
    assert net.gwa.daemon.drops()["steer-cleartext"] >= 5
    net.gwa.daemon.process.kill(signal.SIGKILL)
    wait_for("its end", lambda: not net.gwa.daemon.process.alive())
    assert ping(net.client, t.SERVER4, count=5)["received"] == 0
    leaked = [frame for frame in wire.stop() if {str(frame.src), str(frame.dst)} & {t.SERVER4, t.CLIENT4}]
    assert not leaked, leaked
