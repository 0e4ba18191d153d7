"""Linux changes the source of packets before they go into a tunnel.

The client's address is in no policy; the gateway's virtual address is. strongSwan tells a script that its tunnel is at
`culvert0`, so the script's rule is about what goes into the tunnel.
"""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping, first_answer, ping

VIP = "10.3.0.1"

SCRIPT = """\
#!/bin/sh
# Of the gateway that has a virtual address; the other one has nothing to do.
[ -n "$PLUTO_MY_SOURCEIP" ] || exit 0
case $PLUTO_VERB in
    up-client) what=-A ;;
    down-client) what=-D ;;
    *) exit 0 ;;
esac
exec iptables -t nat $what POSTROUTING -o "$PLUTO_INTERFACE" -s 10.1.0.0/24 -d "$PLUTO_PEER_CLIENT" \
    -j SNAT --to-source "$PLUTO_MY_SOURCEIP"
"""

SETTINGS = """
[tun]
mark = 0

[guard]
prefixes = ["10.2.0.0/24"]
"""

#: What must not be seen in clear between the gateways.
PROTECTED = (*t.PROTECTED, "10.3.0.0/28")


def rules(host):
    shown = host.run("iptables", "-t", "nat", "-S", "POSTROUTING").stdout.splitlines()
    return [rule for rule in shown if rule.startswith("-A")]


def start(network, lab, settings=SETTINGS):
    script = lab.tmp / "nat_updown"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    net = network(updown=script)
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + settings)
    net.start()
    net.gwa.swan.initiate()
    wait_for("the virtual address", lambda: VIP in net.gwa.host.ip("addr").stdout)
    wait_for("the rule", lambda: rules(net.gwa.host))
    return net


def test_the_new_source_is_what_a_policy_protects(network, lab):
    net = start(network, lab)
    assert ["-o", "culvert0"] == [w for w in rules(net.gwa.host)[0].split() if w in ("-o", "culvert0")]
    wire = Capture(net.mid, "west")
    arrived = Capture(net.server, "eth0", "icmp")
    assert_ping(net.client, t.SERVER4, count=10)
    sources = {str(frame.src) for frame in arrived.stop()}
    assert sources == {VIP, t.SERVER4}, sources
    stream = Stream(net.client, net.server, t.SERVER4, count=300)
    stream.wait()
    assert_perfect(stream.finish())
    # The gateway's own packets have the virtual address by themselves.
    assert_ping(net.gwa.host, t.SERVER4, count=5)
    assert_only_protected(wire.stop(), protected=PROTECTED)


def test_a_packet_socket_gives_back_once(network, lab, monkeypatch):
    """A port that is a packet socket sees what is given back to it again: it comes to Linux once, and without a mark."""
    monkeypatch.setenv("CULVERT_PORTS", "packet")
    net = start(network, lab)
    assert {port["kind"] for port in net.gwa.daemon.json("port")} == {"packet", "tun"}
    net.gwa.host.run(*"iptables -t mangle -A PREROUTING -i lan -p icmp -m mark ! --mark 0 -j DROP".split())
    before = net.gwa.daemon.stats()["outcomes"]["to-linux"]
    assert_ping(net.client, t.SERVER4, count=10)
    given = net.gwa.daemon.stats()["outcomes"]["to-linux"] - before
    assert 10 <= given < 40, net.gwa.daemon.stats()


def test_nothing_leaves_without_the_daemon_or_the_tunnel(network, lab):
    net = start(network, lab)
    first_answer(net.client, t.SERVER4)
    wire = Capture(net.mid, "west")
    net.gwa.daemon.kill9()
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert ping(net.gwa.host, t.SERVER4, count=3, source=VIP)["received"] == 0
    net.gwa.daemon.start()
    first_answer(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER4, count=10)
    net.gwa.swan.terminate(ike="rw")
    wait_for("the rule to go", lambda: not rules(net.gwa.host))
    assert ping(net.client, t.SERVER4, count=3)["received"] == 0
    assert_only_protected(wire.stop(), protected=PROTECTED)


def test_a_script_may_keep_the_name_of_the_peers_interface(network, lab):
    script = lab.tmp / "say_updown"
    script.write_text(f'#!/bin/sh\necho "$PLUTO_INTERFACE" >>{lab.tmp}/said.$PLUTO_ME\n')
    script.chmod(0o755)
    net = network(updown=script)
    net.gwa.swan.environment = {"CULVERT_POLICY_MATCH": "keep"}
    net.start()
    net.gwa.swan.initiate()
    said = lambda me: (lab.tmp / f"said.{me}").exists() and (lab.tmp / f"said.{me}").read_text().split()  # noqa: E731
    wait_for("what the script was told at A", lambda: said(t.WAN_A4))
    wait_for("what the script was told at B", lambda: said(t.WAN_B4))
    assert set(said(t.WAN_A4)) == {"wan"} and set(said(t.WAN_B4)) == {"culvert0"}
