"""Policies that ask for what culvert does not do: charon says established, and nothing leaves in clear."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping, ping


def assert_stopped(net, tries):
    """Nothing comes through, and nothing of the protected networks is on the wire in clear."""
    wire = Capture(net.mid, "west")
    for host, to, source in tries:
        assert ping(host, to, count=3, source=source)["received"] == 0, (host, to)
    assert_only_protected(wire.stop())


def every_way(net):
    return [
        (net.client, t.SERVER4, None),
        (net.client, t.SERVER6, None),
        (net.server, t.CLIENT4, None),
        (net.gwa.host, t.SERVER4, t.LAN_A4),
        (net.gwa.host, t.SERVER6, t.LAN_A6),
    ]


def warned(gateway, *words):
    """Told by `culvert status` and in the log."""

    def told():
        warnings = gateway.daemon.json("status")["warnings"]
        return any(all(word in warning for word in words) for warning in warnings)

    wait_for(f"a warning of {words}", told)
    assert words[0] in gateway.daemon.log(), gateway.daemon.log()


def test_ipcomp_alone(network):
    """Compression is for what is protected: a policy without ESP or AH carries nothing."""
    net = network()
    net.start()
    for src, dst, ends in (
        ("10.1.0.0/24", "10.2.0.0/24", (t.WAN_A4, t.WAN_B4)),
        ("2001:db8:1::/64", "2001:db8:2::/64", (t.WAN_A6, t.WAN_B6)),
    ):
        net.gwa.daemon.exec(
            "ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", "out",
            "tmpl", "src", ends[0], "dst", ends[1], "proto", "comp", "mode", "tunnel",
        )  # fmt: skip
    assert_stopped(net, every_way(net)[:2])
    assert_ping(net.client, t.WAN_B4)
    warned(net.gwa, "IPComp alone or too many SAs", "10.1.0.0/24 to 10.2.0.0/24")


def weak_sa(gateway):
    """Adds an SA with 3DES and MD5 by `ip xfrm`; returns what came of it."""
    keys = ("enc", "des3_ede", "0x" + "0123456789abcdef" * 3, "auth", "md5", "0x" + "5a" * 16)
    return gateway.daemon.exec(
        "ip", "xfrm", "state", "add", "src", t.WAN_A4, "dst", t.WAN_B4, "proto", "esp",
        "spi", "0x1000", "mode", "tunnel", *keys, check=False,
    )  # fmt: skip


def test_weak_algorithms_need_leave(network):
    net = network()
    config = net.gwb.daemon.config
    config.write_text(config.read_text() + "\n[crypto]\nallow_weak = true\n")
    net.start()
    refused = weak_sa(net.gwa)
    assert refused.returncode != 0
    assert "3DES+MD5 is weak" in refused.stderr and "crypto.allow_weak" in refused.stderr, refused
    assert "crypto.allow_weak" in net.gwa.daemon.log()
    assert not any("weak" in w for w in net.gwa.daemon.json("status")["warnings"])

    taken = weak_sa(net.gwb)
    assert taken.returncode == 0, taken
    suites = [sa["suite"] for sa in net.gwb.daemon.json("sa")]
    assert suites == ["3des-md5"], suites
    warnings = net.gwb.daemon.json("status")["warnings"]
    assert any("crypto.allow_weak" in w and "1 SAs use them" in w for w in warnings), warnings
