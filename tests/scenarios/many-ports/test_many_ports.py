"""A gateway with many interfaces: ten networks behind ports of their own, and as many ports as there may be."""

import json

import pytest
from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping

SITES = 10
MOST = 64

#: A network behind the last port that no policy protects.
CLEAR4 = "10.77.0.10"


RULES = f"""
table ip seen {{
  chain in {{
    type filter hook forward priority 0;
    iifname "s{SITES - 1}" ip saddr {CLEAR4} counter
  }}
}}
"""


def site4(number, host=10):
    return f"10.50.{number}.{host}"


def port(name):
    return f'[[port]]\ninterface = "{name}"\n'


def build(network, monkeypatch, kind, unused):
    """Gateway A with ports to the wire, to `unused` networks that nobody uses, to the client, and to ten sites."""
    monkeypatch.setenv("CULVERT_PORTS", kind)
    net = network(ts_a="10.1.0.0/24,10.50.0.0/16,2001:db8:1::/64")
    a = net.gwa.host
    sites = []
    for number in range(SITES):
        site = net.lab.host(f"site{number}")
        net.lab.link(site, "eth0", a, f"s{number}")
        site.address("eth0", f"{site4(number)}/24")
        site.route("default", "via", site4(number, 1))
        a.address(f"s{number}", f"{site4(number, 1)}/24")
        sites.append(site)
    if unused:
        nobody = net.lab.host("nobody")
        for number in range(unused):
            net.lab.link(nobody, f"u{number}", a, f"u{number}")
    net.gwb.host.route("10.50.0.0/16", "via", t.WAN_A4)
    names = ["wan", *(f"u{number}" for number in range(unused)), "lan", *(f"s{number}" for number in range(SITES))]
    net.gwa.daemon.ports = names
    net.gwa.daemon.write_config()
    return net, sites, names


def add_clear_network(site, a, net):
    """Gives the last site a second network, and routes to it."""
    site.address("eth0", f"{CLEAR4}/24")
    a.address(f"s{SITES - 1}", "10.77.0.1/24")
    net.gwb.host.route("10.77.0.0/24", "via", t.WAN_A4)


@pytest.mark.parametrize(
    "kind, unused", [("packet", 0), ("xdp", 0), ("auto", MOST - SITES - 2)], ids=["12-packet", "12-xdp", "64"]
)
def test_each_port_works(network, monkeypatch, kind, unused):
    net, sites, names = build(network, monkeypatch, kind, unused)
    add_clear_network(sites[-1], net.gwa.host, net)
    net.up()
    daemon = net.gwa.daemon
    ports = {p["interface"]: p for p in daemon.json("port") if p["kind"] != "tun"}
    assert list(ports) == names and {p["state"] for p in ports.values()} == {"up"}, ports
    wire = Capture(net.mid, "west", snap=256)
    for number, site in enumerate(sites):
        # Protected by one port, decrypted and forwarded by another.
        assert_ping(site, t.SERVER4, count=3)
        assert_ping(net.server, site4(number), count=3)
        # Between two ports, in clear.
        assert_ping(site, site4((number + 1) % SITES), count=2)
        assert_ping(site, t.CLIENT4, count=2)
    assert_ping(net.client, t.SERVER6, count=3)
    assert_only_protected(wire.stop())
    after = {p["interface"]: p for p in daemon.json("port") if p["kind"] != "tun"}
    for name in names[-SITES:]:
        assert min(after[name]["rx_packets"], after[name]["tx_packets"]) >= 6, after[name]
    # Cleartext to a protected network: Linux has it come by the port that it came by.
    a = net.gwa.host
    a.run("nft", "-f", "-", stdin=RULES)
    assert_ping(sites[-1], t.SERVER4, source=CLEAR4, count=3)
    counted = a.run("nft", "list", "table", "ip", "seen").stdout
    assert "packets 3 " in counted, counted
    # A port that goes takes no other with it.
    a.ip("link", "set", "dev", "s4", "down")
    assert ping(net.server, site4(4), count=1)["received"] == 0
    assert_ping(sites[5], t.SERVER4, count=3)
    a.ip("link", "set", "dev", "s4", "up")


def test_one_more_is_refused_everywhere(network, monkeypatch):
    net, sites, names = build(network, monkeypatch, "auto", 0)
    net.up()
    daemon = net.gwa.daemon
    run = lambda *command: daemon.host.run(culvert_binary(), *command, check=False)  # noqa: E731
    absent = [f"absent{number}" for number in range(MOST - len(names))]
    head = f'name = "{daemon.name}"\n'
    daemon.config.write_text(head + "".join(port(name) for name in names + absent))
    checked = run("check", "--json", "--config", daemon.config)
    assert checked.returncode == 0 and json.loads(checked.stdout)["valid"], checked
    assert daemon.culvert("reload").returncode == 0
    assert len([p for p in daemon.json("port") if p["kind"] != "tun"]) == MOST
    assert_ping(sites[-1], t.SERVER4, count=3)
    daemon.config.write_text(head + "".join(port(name) for name in [*names, *absent, "more0"]))
    checked = run("check", "--config", daemon.config)
    reloaded = daemon.culvert("reload", check=False)
    for done in (checked, reloaded):
        assert done.returncode == 1, done
        for words in ("port[64].interface", '"more0"', "at most 64 ports"):
            assert words in done.stderr, (words, done.stderr)
    assert "nothing was changed" in reloaded.stderr
    assert_ping(sites[-1], t.SERVER4, count=3)
    daemon.stop()
    started = run("run", "--config", daemon.config)
    assert started.returncode == 1 and "at most 64 ports" in started.stderr, started
