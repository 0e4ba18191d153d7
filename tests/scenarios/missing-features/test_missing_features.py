"""Capabilities, devices, tools and driver features that are not there."""

import shutil

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping


def refuses(net, *before):
    """Starts the daemon behind a command that takes something away; returns what it says."""
    host = net.gwa.host
    links = host.ip("-o", "link").stdout
    done = host.run(
        *before, culvert_binary(), "run", "--config", net.gwa.daemon.config,
        check=False,
    )  # fmt: skip
    message = done.stdout + done.stderr
    assert done.returncode not in (0, 101), message
    assert "culvert: ready" not in message
    # Nothing half set up.
    assert host.ip("-o", "link").stdout == links
    assert "219" not in host.ip("rule").stdout
    assert host.run("ip", "xfrm", "policy").stdout == ""
    return message


def test_a_capability_is_missing(network):
    net = network()
    for name in ("bpf", "net_admin", "net_raw"):
        assert f"CAP_{name.upper()}" in refuses(net, "setpriv", "--bounding-set", f"-{name}")


def test_no_tun_device(network):
    net = network()
    hide = 'mount --bind /dev/null /dev/net/tun && exec "$@"'
    message = refuses(net, "unshare", "--mount", "sh", "-c", hide, "sh")
    assert "/dev/net/tun" in message or "TUNSETIFF" in message, message


def test_native_xdp_where_there_is_none(network):
    """A bridge has generic XDP alone: the port says so, the others work, the daemon stays."""
    net = network()
    daemon = net.gwa.daemon
    if net.gwa.host.ip("link", "add", "odd0", "type", "bridge", check=False).returncode != 0:
        pytest.skip("the kernel has no bridges")
    net.gwa.host.ip("link", "set", "dev", "odd0", "up")
    text = 'name = "@NAME@"\n' + "".join(
        f'[[port]]\ninterface = "{name}"\nmode = "{mode}"\n'
        for name, mode in (("wan", "auto"), ("lan", "auto"), ("odd0", "native"))
    )
    daemon.write_config(text)
    net.up()
    states = {p["interface"]: p["state"] for p in daemon.json("port")}
    assert states["wan"] == states["lan"] == "up", states
    assert "native" in states["odd0"], states
    assert any("odd0" in w and "native" in w for w in daemon.json("status")["warnings"])
    assert_ping(net.client, t.SERVER4, count=5)


def test_generic_xdp_is_said_aloud_and_works(network):
    net = network()
    for gateway in net.gateways():
        gateway.daemon.write_config(
            'name = "@NAME@"\n'
            + "".join(
                f'[[port]]\ninterface = "{i}"\nmode = "generic"\n' for i in ("wan", "lan")
            )
        )
    net.up()
    assert all("generic" in p["mode"] for p in net.gwa.daemon.json("port") if p["kind"] == "af-xdp")
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=20)


def test_no_nft(network):
    """IPv4 is guarded and carried; that IPv6 is not guarded is said, with what to install."""
    net = network(ts_a="10.1.0.0/24,2001:db8:1::/64", ts_b="10.2.0.0/24,2001:db8:2::/64")
    daemon = net.gwa.daemon
    tools = net.lab.tmp / "tools"
    tools.mkdir()
    # What the lab itself needs to start it.
    for tool in ("setpriv", "ip"):
        (tools / tool).symlink_to(shutil.which(tool))
    daemon.environment = {"PATH": str(tools)}
    net.up()
    assert_ping(net.client, t.SERVER4, count=5)
    warned = lambda: any("nftables" in w for w in daemon.json("status")["warnings"])  # noqa: E731
    wait_for("the warning", warned)
    assert "block" in net.gwa.host.run("ip", "xfrm", "policy").stdout
