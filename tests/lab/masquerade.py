"""A gateway that translates what its LAN sends, by rules of nftables, and what it says of that (`[nat]`)."""

import contextlib

from .base import wait_for
from .traffic import Stream, assert_perfect

RULES = """
table ip nat {
  chain pre {
    type nat hook prerouting priority dstnat
    iifname "wan" udp dport 8000 dnat to 10.1.0.10
  }
  chain post {
    type nat hook postrouting priority srcnat
    oifname "wan" ip saddr 10.1.0.0/24 masquerade
  }
}
table ip6 nat {
  chain post {
    type nat hook postrouting priority srcnat
    oifname "wan" ip6 saddr 2001:db8:1::/64 masquerade
  }
}
"""


def build(network, rules=RULES, queues=None, **sysctls):
    """Both gateways without a tunnel; A learns what Linux translates."""
    net = network(build={"queues": queues})
    net.gwa.daemon.settings = '[nat]\nlearn = "conntrack"\n'
    net.gwa.daemon.write_config()
    for key, value in sysctls.items():
        net.gwa.host.sysctl(f"net.netfilter.nf_conntrack_{key}", value)
    net.gwa.host.run("nft", "-f", "-", stdin=rules)
    return net.start()


def work(net):
    return net.gwa.daemon.json("stats")["work"]


@contextlib.contextmanager
def carries(net, least):
    """At least so many packets go by the fast path, translated."""
    before = work(net)["translated"]
    yield
    carried = work(net)["translated"] - before
    assert carried >= least, (carried, net.gwa.daemon.json("stats"))


def entries(net, *how):
    """Connections as Linux has them, a line each."""
    return net.gwa.host.run("conntrack", "-L", "-o", "id", *how, check=False).stdout.splitlines()


def known(net, port=None, protocol=None):
    """Translated connections that the fast path carries both ways, as `culvert nat` tells them."""
    found = net.gwa.daemon.json("nat")["connections"]
    of_port = lambda one: port is None or port in (one["original"]["dst_port"], one["original"]["src_port"])  # noqa: E731
    return [c for c in found if c["both"] and of_port(c) and protocol in (None, c["protocol"])]


def stream(net, client, server, to, **how):
    """All but the first packet when its connection is known: how long that takes a busy machine is not counted."""
    before = [one["original"] for one in known(net)]
    run = Stream(client, server, to, most=50, held=True, **{"count": 200, **how})
    wait_for("the connection", lambda: any(one["original"] not in before for one in known(net)))
    run.go()
    run.wait()
    assert_perfect(run.finish())
