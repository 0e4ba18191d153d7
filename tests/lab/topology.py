"""The networks that the scenarios share.

    net4       client --lan-- gwa --wan--[ mid ]--wan-- gwb --lan-- server
    nat        the same, with a NAT box between gwa and the middle
    nat_responder  the same, with the NAT box between the middle and gwb, forwarding IKE to gwb
    host2host  gwa --wan--[ mid ]--wan-- gwb
    star       net4 with a third gateway and its site: gwc, and `third` behind it, on the same wire
    routers    net4 with three routers between the gateways: gwa --wan-- r1 -- mid -- r3 --wan-- gwb

    vlans      net4 whose networks are VLANs of their cables: the gateways have wan.v and lan.v, and each device keeps
               its name at the other ends

In `routers`, `mid` is the router in the middle. Elsewhere `mid` is the wire between the gateways: a host that bridges its two interfaces, `west` and `east`, and
nothing else. It stands there so that captures see what is really on the wire (a socket filter on a
gateway does not see what AF_XDP sends), and so that frames can be injected.

Addresses are fixed: every lab has its own namespaces, and the configuration files of the scenarios
can be read as they are.
"""

import re
from pathlib import Path

from .base import LabError
from .planes import planes_of

#: Addresses by host and interface.
CLIENT4, CLIENT6 = "10.1.0.10", "2001:db8:1::10"
SERVER4, SERVER6 = "10.2.0.10", "2001:db8:2::10"
LAN_A4, LAN_A6 = "10.1.0.1", "2001:db8:1::1"
LAN_B4, LAN_B6 = "10.2.0.1", "2001:db8:2::1"
WAN_A4, WAN_A6 = "192.0.2.1", "2001:db8:f::1"
WAN_B4, WAN_B6 = "192.0.2.2", "2001:db8:f::2"
#: Of the third site of `star`.
THIRD4, LAN_C4, WAN_C4 = "10.3.0.10", "10.3.0.1", "192.0.2.3"

NAT_IN4, NAT_OUT4 = "172.16.0.254", "192.0.2.9"
NAT_A4 = NAT_B4 = "172.16.0.1"

#: Of the topology `routers`, whose gateways are in networks of their own.
FAR_A4, FAR_A6 = "198.51.100.1", "2001:db8:a::1"
FAR_B4, FAR_B6 = "203.0.113.1", "2001:db8:b::1"

#: What must not be seen in the clear between the gateways.
PROTECTED = ("10.1.0.0/24", "10.2.0.0/24", "2001:db8:1::/64", "2001:db8:2::/64")

COMMON = Path(__file__).resolve().parents[1] / "scenarios" / "common"


class Gateway:
    """A host with a data plane and, if that does IPsec, a strongSwan."""

    def __init__(self, host, plane, ports):
        self.host, self.plane, self.ports = host, plane, ports
        self.swan = None
        self.daemon = None
        plane.attach(self)

    def start(self):
        self.plane.start(self)
        if self.swan:
            self.swan.start()

    def stop(self):
        if self.swan:
            self.swan.stop()
        self.plane.stop(self)


class Network:
    """A topology in use: hosts by name, the gateways, and the middle."""

    def __init__(self, lab, kind):
        self.lab, self.kind = lab, kind
        self.client = self.server = None
        self.gwa = self.gwb = self.gwc = None
        self.mid = None

    def gateways(self):
        return [g for g in (self.gwa, self.gwb, self.gwc) if g]

    def start(self):
        """Starts both gateways; responders first, so that an initiator finds them."""
        for gateway in reversed(self.gateways()):
            gateway.start()
        return self

    def up(self, child="net"):
        """Starts everything and negotiates a child from gateway A."""
        self.start()
        if self.gwa.swan:
            self.gwa.swan.initiate(child)
        return self

    def configure(self, folder, **values):
        """Gives each gateway its configuration: from the scenario's folder, else the common one.

        Files are named HOST.swanctl.conf, HOST.strongswan.conf (appended) and HOST.culvert.toml;
        `@word@` in them is replaced by `values["word"]`, or its default.
        """
        values = {**DEFAULTS, **values}
        for gateway in self.gateways():
            if not gateway.swan:
                continue
            name = gateway.host.name
            text = _read(folder, f"{name}.swanctl.conf")
            if text is None:
                raise LabError(f"{folder}: no {name}.swanctl.conf there or in {COMMON}")
            extra = _read(folder, f"{name}.strongswan.conf") or ""
            gateway.swan.configure(_fill(text, values), _fill(extra, values))
            daemon = _read(folder, f"{name}.culvert.toml")
            if gateway.daemon and daemon is not None:
                # One that people copy has no name.
                top = re.split(r"^\[", daemon, maxsplit=1, flags=re.MULTILINE)[0]
                name = "" if re.search(r"^name *=", top, re.MULTILINE) else 'name = "@NAME@"\n'
                gateway.daemon.write_config(name + _fill(daemon, values))
        return self


#: What `@word@` in a configuration stands for unless a scenario says otherwise.
DEFAULTS = {
    "version": "2",
    "ike": "aes128-sha256-x25519",
    "esp": "aes128gcm16",
    "encap": "no",
    "mode": "tunnel",
    "start_action": "none",
    "extra_child": "",
    "extra_connection": "",
    "extra_charon": "",
    "local_a": WAN_A4,
    "remote_a": WAN_B4,
    "local_b": WAN_B4,
    "remote_b": "%any",
    "ts_a": "10.1.0.0/24,2001:db8:1::/64",
    "ts_b": "10.2.0.0/24,2001:db8:2::/64",
}


def _read(folder, name):
    for place in (folder, COMMON):
        if place and (Path(place) / name).exists():
            return (Path(place) / name).read_text()
    return None


def filled(text, **values):
    """A configuration as `Network.configure` writes it."""
    return _fill(text, {**DEFAULTS, **values})


def _fill(text, values):
    for word, value in values.items():
        text = text.replace(f"@{word}@", str(value))
    return text


def _middle(lab, wan_mtu):
    mid = lab.host("mid")
    mid.ip("link", "add", "br0", "mtu", wan_mtu, "type", "bridge", "mcast_snooping", "0")
    mid.ip("link", "set", "br0", "up")
    # The wire itself has no address and says nothing of its own.
    mid.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
    mid.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
    return mid


def _plug(lab, mid, port, host, dev, wan_mtu):
    lab.link(host, dev, mid, port, mtu=wan_mtu)
    mid.ip("link", "set", "dev", port, "master", "br0")


def _lans(lab, net, a, b, offload):
    """Client and server behind their gateways, with default routes."""
    net.client, net.server = lab.host("client"), lab.host("server")
    lab.link(net.client, "eth0", a, "lan", offload=offload)
    lab.link(net.server, "eth0", b, "lan", offload=offload)
    net.client.address("eth0", f"{CLIENT4}/24", f"{CLIENT6}/64")
    net.server.address("eth0", f"{SERVER4}/24", f"{SERVER6}/64")
    a.address("lan", f"{LAN_A4}/24", f"{LAN_A6}/64")
    b.address("lan", f"{LAN_B4}/24", f"{LAN_B6}/64")
    for host, via4, via6 in ((net.client, LAN_A4, LAN_A6), (net.server, LAN_B4, LAN_B6)):
        host.route("default", "via", via4)
        host.route("default", "via", via6)


def net4(lab, plane, wan_mtu=1500, offload=True, queues=None):
    """Two sites and their gateways. The routes to the other site exist in clear: whatever keeps
    the packets from taking them is what the tests are about."""
    lab.queues = queues or lab.queues
    plane_a, plane_b = planes_of(plane)
    net = Network(lab, "net4")
    net.mid = _middle(lab, wan_mtu)
    a, b = lab.host("gwa", forward=True), lab.host("gwb", forward=True)
    _plug(lab, net.mid, "west", a, "wan", wan_mtu)
    _plug(lab, net.mid, "east", b, "wan", wan_mtu)
    a.address("wan", f"{WAN_A4}/24", f"{WAN_A6}/64")
    b.address("wan", f"{WAN_B4}/24", f"{WAN_B6}/64")
    _lans(lab, net, a, b, offload)
    a.route("10.2.0.0/24", "via", WAN_B4)
    a.route("2001:db8:2::/64", "via", WAN_B6)
    b.route("10.1.0.0/24", "via", WAN_A4)
    b.route("2001:db8:1::/64", "via", WAN_A6)
    net.gwa = Gateway(a, plane_a, ["wan", "lan"])
    net.gwb = Gateway(b, plane_b, ["wan", "lan"])
    return net


#: VLANs of the topology `vlans`: (protocol, VLAN identifier) of each tag, the outermost first.
ONE_TAG = {"wan": [("802.1Q", 100)], "lan": [("802.1Q", 200)]}
TWO_TAGS = {"wan": [("802.1ad", 7), ("802.1Q", 100)], "lan": [("802.1Q", 9), ("802.1Q", 200)]}


def add_vlan(host, dev, tags, name, *qos):
    """VLAN devices above a device, one on the other; the uppermost gets the name."""
    for at, (protocol, number) in enumerate(tags):
        new = name if at == len(tags) - 1 else f"{dev}.{number}"
        host.ip("link", "add", "link", dev, "name", new, "mtu", 1500, "type", "vlan", "proto", protocol, "id", number, *qos)
        host.ip("link", "set", "dev", new, "up")
        dev = new


def _tagged_cable(lab, tags, one, one_name, one_vlan, two, two_name, two_vlan):
    """A cable whose ends have a VLAN each. Tags beside the frame would be lost in AF_XDP."""
    lab.link(one, one_name, two, two_name, mtu=1500 + 4 * (len(tags) - 1))
    for host, dev, vlan in ((one, one_name, one_vlan), (two, two_name, two_vlan)):
        host.run("ethtool", "-K", dev, "tx-vlan-offload", "off", "tx-vlan-stag-hw-insert", "off")
        add_vlan(host, dev, tags, vlan)


def vlans(lab, plane, tags=None):
    """net4 over VLANs. Captures at west, east and the hosts' eth0 see no tags; `under` and the like do."""
    tags = tags or ONE_TAG
    plane_a, plane_b = planes_of(plane)
    net = Network(lab, "vlans")
    net.mid = _middle(lab, 1500)
    a, b = lab.host("gwa", forward=True), lab.host("gwb", forward=True)
    for gateway, port in ((a, "west"), (b, "east")):
        _tagged_cable(lab, tags["wan"], gateway, "wan", "wan.v", net.mid, f"{port}0", port)
        net.mid.ip("link", "set", "dev", port, "master", "br0")
    net.client, net.server = lab.host("client"), lab.host("server")
    for host, gateway in ((net.client, a), (net.server, b)):
        _tagged_cable(lab, tags["lan"], gateway, "lan", "lan.v", host, "cable", "eth0")
    for host, *all_of in (
        (net.client, ("eth0", CLIENT4, CLIENT6)), (net.server, ("eth0", SERVER4, SERVER6)),
        (a, ("lan.v", LAN_A4, LAN_A6), ("wan.v", WAN_A4, WAN_A6)),
        (b, ("lan.v", LAN_B4, LAN_B6), ("wan.v", WAN_B4, WAN_B6)),
    ):  # fmt: skip
        for dev, v4, v6 in all_of:
            host.address(dev, f"{v4}/24", f"{v6}/64")
    for host, *routes in (
        (net.client, ("default", LAN_A4), ("default", LAN_A6)),
        (net.server, ("default", LAN_B4), ("default", LAN_B6)),
        (a, ("10.2.0.0/24", WAN_B4), ("2001:db8:2::/64", WAN_B6)),
        (b, ("10.1.0.0/24", WAN_A4), ("2001:db8:1::/64", WAN_A6)),
    ):  # fmt: skip
        for prefix, via in routes:
            host.route(prefix, "via", via)
    net.gwa = Gateway(a, plane_a, ["wan", "lan"])
    net.gwb = Gateway(b, plane_b, ["wan", "lan"])
    return net


def nat(lab, plane, wan_mtu=1500, offload=True):
    """net4 with gateway A behind a NAT box, which masquerades (nftables)."""
    net, a, b = _nat(lab, plane, wan_mtu, offload, inside="gwa")
    b.route("10.1.0.0/24", "via", NAT_OUT4)
    a.route("default", "via", NAT_IN4)
    return net


def nat_responder(lab, plane, wan_mtu=1500, offload=True):
    """net4 with gateway B behind a NAT box that forwards IKE and NAT-T to it."""
    net, a, b = _nat(lab, plane, wan_mtu, offload, inside="gwb")
    a.route("10.2.0.0/24", "via", NAT_OUT4)
    b.route("default", "via", NAT_IN4)
    return net


_NAT_RULES = """
table ip nat {{
  chain post {{
    type nat hook postrouting priority srcnat
    oifname "out" masquerade
  }}
  chain pre {{
    type nat hook prerouting priority dstnat
    {forward}
  }}
}}
"""


def _nat(lab, plane, wan_mtu, offload, inside):
    plane_a, plane_b = planes_of(plane)
    net = Network(lab, "nat")
    net.mid = _middle(lab, wan_mtu)
    a, b = lab.host("gwa", forward=True), lab.host("gwb", forward=True)
    box = net.nat = lab.host("nat", forward=True)
    hidden, shown = (a, b) if inside == "gwa" else (b, a)
    box_port, shown_port = ("west", "east") if inside == "gwa" else ("east", "west")
    lab.link(hidden, "wan", box, "in", mtu=wan_mtu)
    _plug(lab, net.mid, box_port, box, "out", wan_mtu)
    _plug(lab, net.mid, shown_port, shown, "wan", wan_mtu)
    hidden.address("wan", f"{NAT_A4}/24")
    box.address("in", f"{NAT_IN4}/24")
    box.address("out", f"{NAT_OUT4}/24")
    shown.address("wan", f"{WAN_B4 if inside == 'gwa' else WAN_A4}/24")
    forward = f'iifname "out" udp dport {{ 500, 4500 }} dnat to {NAT_B4}'
    rules = _NAT_RULES.format(forward=forward if inside == "gwb" else "")
    box.run("nft", "-f", "-", stdin=rules)
    _lans(lab, net, a, b, offload)
    net.gwa = Gateway(a, plane_a, ["wan", "lan"])
    net.gwb = Gateway(b, plane_b, ["wan", "lan"])
    return net, a, b


def routers(lab, plane, narrow=1500, offload=True):
    """net4 with three routers in a row between the gateways, and links of the MTU `narrow` (1280 at least,
    for IPv6) around the one in the middle. Only the routers know how wide these are."""
    plane_a, plane_b = planes_of(plane)
    net = Network(lab, "routers")
    a, b = lab.host("gwa", forward=True), lab.host("gwb", forward=True)
    r1, mid, r3 = (lab.host(name, forward=True) for name in ("r1", "mid", "r3"))
    net.mid = mid
    lab.link(a, "wan", r1, "site")
    lab.link(r1, "core", mid, "west", mtu=narrow)
    lab.link(mid, "east", r3, "core", mtu=narrow)
    lab.link(r3, "site", b, "wan")
    a.address("wan", f"{FAR_A4}/24", f"{FAR_A6}/64")
    b.address("wan", f"{FAR_B4}/24", f"{FAR_B6}/64")
    r1.address("site", "198.51.100.254/24", "2001:db8:a::254/64")
    r1.address("core", "192.168.1.1/24", "2001:db8:c1::1/64")
    mid.address("west", "192.168.1.2/24", "2001:db8:c1::2/64")
    mid.address("east", "192.168.3.2/24", "2001:db8:c3::2/64")
    r3.address("core", "192.168.3.3/24", "2001:db8:c3::3/64")
    r3.address("site", "203.0.113.254/24", "2001:db8:b::254/64")
    a.route("default", "via", "198.51.100.254")
    a.route("default", "via", "2001:db8:a::254")
    b.route("default", "via", "203.0.113.254")
    b.route("default", "via", "2001:db8:b::254")
    r1.route("default", "via", "192.168.1.2")
    r1.route("default", "via", "2001:db8:c1::2")
    r3.route("default", "via", "192.168.3.2")
    r3.route("default", "via", "2001:db8:c3::2")
    mid.route("198.51.100.0/24", "via", "192.168.1.1")
    mid.route("2001:db8:a::/64", "via", "2001:db8:c1::1")
    mid.route("203.0.113.0/24", "via", "192.168.3.3")
    mid.route("2001:db8:b::/64", "via", "2001:db8:c3::3")
    _lans(lab, net, a, b, offload)
    net.gwa = Gateway(a, plane_a, ["wan", "lan"])
    net.gwb = Gateway(b, plane_b, ["wan", "lan"])
    return net


#: What `@word@` stands for where the gateways are those of `routers`, by the outer family.
FAR = {
    4: {"local_a": FAR_A4, "remote_a": FAR_B4, "local_b": FAR_B4},
    6: {"local_a": FAR_A6, "remote_a": FAR_B6, "local_b": FAR_B6},
}


def host2host(lab, plane, wan_mtu=1500):
    """Two hosts that speak for themselves, as in transport mode."""
    plane_a, plane_b = planes_of(plane)
    net = Network(lab, "host2host")
    net.mid = _middle(lab, wan_mtu)
    a, b = lab.host("gwa"), lab.host("gwb")
    _plug(lab, net.mid, "west", a, "wan", wan_mtu)
    _plug(lab, net.mid, "east", b, "wan", wan_mtu)
    a.address("wan", f"{WAN_A4}/24", f"{WAN_A6}/64")
    b.address("wan", f"{WAN_B4}/24", f"{WAN_B6}/64")
    net.gwa = Gateway(a, plane_a, ["wan"])
    net.gwb = Gateway(b, plane_b, ["wan"])
    return net


def star(lab, plane, wan_mtu=1500, offload=True):
    """net4 and one more site. Sites B and C have no route to each other."""
    net = net4(lab, plane, wan_mtu, offload)
    c = lab.host("gwc", forward=True)
    _plug(lab, net.mid, "south", c, "wan", wan_mtu)
    c.address("wan", f"{WAN_C4}/24")
    net.third = lab.host("third")
    lab.link(net.third, "eth0", c, "lan", offload=offload)
    net.third.address("eth0", f"{THIRD4}/24")
    c.address("lan", f"{LAN_C4}/24")
    net.third.route("default", "via", LAN_C4)
    net.gwa.host.route("10.3.0.0/24", "via", WAN_C4)
    c.route("10.1.0.0/24", "via", WAN_A4)
    net.gwc = Gateway(c, planes_of(plane)[1], ["wan", "lan"])
    return net
