"""The rules that strongSwan's script `_updown iptables` makes ask for IPsec (`-m policy`), which the
kernel knows nothing of here; the preload library says them in culvert's words.
"""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping, ping

VIP = "10.3.0.1"
UPDOWN = "/usr/lib/ipsec/_updown iptables"

#: IKE alone; ESP never comes to the stack.
FIREWALL = """\
*filter
-P INPUT DROP
-P OUTPUT DROP
-P FORWARD DROP
-A INPUT -i wan -p udp --dport 500 -j ACCEPT
-A OUTPUT -o wan -p udp --sport 500 -j ACCEPT
-A INPUT -i wan -p udp --dport 4500 -j ACCEPT
-A OUTPUT -o wan -p udp --sport 4500 -j ACCEPT
COMMIT
"""


def build(network, updown=UPDOWN):
    net = network(updown=updown)
    for gateway in net.gateways():
        gateway.host.run("iptables-restore", stdin=FIREWALL)
    # The server's site knows the way to the virtual addresses by its gateway.
    return net.start()


def rules(host):
    """What _updown added."""
    shown = host.run("iptables", "-S").stdout.splitlines()
    return [rule for rule in shown if rule.startswith("-A") and "--dport" not in rule
            and "--sport" not in rule]  # fmt: skip


def test_only_while_the_tunnel_is_up(network):
    net = build(network)
    a, b = net.gwa.host, net.gwb.host
    assert rules(a) == [] == rules(b)
    assert ping(a, t.SERVER4, count=2)["received"] == 0
    wire = Capture(net.mid, "west")
    net.gwa.swan.initiate()
    wait_for("the virtual address", lambda: VIP in a.ip("addr").stdout)
    wait_for("the rules at both ends", lambda: rules(a) and rules(b))
    own = [rule for rule in rules(a) if rule.startswith(("-A INPUT", "-A OUTPUT"))]
    assert len(own) == 2 and all("culvert0" in rule for rule in own), own
    assert not [rule for rule in rules(a) + rules(b) if "policy" in rule or " wan" in rule]
    # Local traffic of the road warrior, there and back.
    assert_ping(a, t.SERVER4, count=10)
    assert_ping(net.server, VIP, count=10)
    stream = Stream(a, net.server, t.SERVER4, count=300)
    stream.wait()
    assert_perfect(stream.finish())
    # What the rules do not name stays out: another address of the road warrior.
    assert ping(net.server, t.WAN_A4, count=2)["received"] == 0
    # The other gateway itself, which `hostaccess` opens.
    assert_ping(a, t.LAN_B4, count=5)
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.3.0.0/28"))
    net.gwa.swan.terminate(ike="rw")
    wait_for("the rules to go", lambda: rules(a) == [] == rules(b))
    assert ping(a, t.SERVER4, count=2)["received"] == 0


def test_ip_xfrm_of_scripts_goes_to_culvert(network):
    """A script of one's own, whose environment strongSwan makes anew."""
    script = "/bin/sh -c '/sbin/ip xfrm state'"
    net = network(updown=script)
    net.start()
    net.gwa.swan.initiate()
    wait_for("the script's words", lambda: "proto esp" in net.gwa.swan.output())


def test_left_alone_on_request(network):
    net = network(updown=UPDOWN)
    for gateway in net.gateways():
        gateway.host.run("iptables-restore", stdin=FIREWALL)
        gateway.swan.environment = {"CULVERT_POLICY_MATCH": "keep"}
    net.start()
    net.gwa.swan.initiate()
    wait_for("the rules", lambda: rules(net.gwa.host))
    assert all("--pol ipsec" in rule for rule in rules(net.gwa.host)), rules(net.gwa.host)
