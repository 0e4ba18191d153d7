"""Applications that share the gateway's address and have GTP-U by its TEID, whose messages scapy makes and reads; and osmo-ggsn and
sgsnemu, a node of a mobile network and one that plays its peer (scripts/fetch-ggsn; skipped without)."""

import socket

import pytest
from lab import topology as t
from lab.base import ROOT, wait_for
from lab.planes import Daemon
from scapy.contrib.gtp import (
    GTP_U_Header, GTPEchoRequest, GTPErrorIndication, GTPPDUSessionContainer, IE_TEIDI,
)  # fmt: skip
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

PORT = 2152
#: What applications have for a router: no host has it.
ROUTER4, ROUTER6 = "169.254.1.1", "fe80::1"

_CLIENT = """
name = "@NAME@"
[[port]]
interface = "eth0"
kind = "memif"
role = "client"
socket = "{path}"
queues = {queues}
mac = "{mac}"
"""


def application(network, lab, number, queues):
    """A host whose only interface is a memif to the gateway, with the gateway's address."""
    app = lab.host(f"app{number}h")
    daemon = Daemon(app, [])
    path, mac = lab.tmp / f"app{number}.sock", f"02:00:00:00:05:{number}2"
    daemon.write_config(_CLIENT.format(path=path, mac=mac, queues=queues))
    daemon.start()
    gateway_mac = network.gwa.host.mac(f"app{number}")
    app.address("eth0", f"{t.LAN_A4}/32", f"{t.LAN_A6}/128")
    for router in (ROUTER4, ROUTER6):
        app.ip("neigh", "replace", router, "lladdr", gateway_mac, "dev", "eth0")
    app.ip("route", "add", "default", "via", ROUTER4, "dev", "eth0", "onlink", "src", t.LAN_A4)
    app.ip("-6", "route", "add", "default", "via", ROUTER6, "dev", "eth0", "src", t.LAN_A6)
    row = lambda: next(port for port in network.gwa.daemon.json("port") if port["interface"] == f"app{number}")  # noqa: E731
    wait_for(f"application {number}", lambda: row()["state"].startswith("up"))
    return app


def ear(host, address):
    """A socket for GTP-U at a host."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ear = host.socket(family, socket.SOCK_DGRAM)
    ear.bind((address, PORT))
    ear.settimeout(2)
    return ear


def user(teid, *extensions):
    """A user's packet."""
    message = GTP_U_Header(teid=teid, gtp_type=255)
    for extension in extensions:
        message = message / extension
    return message / IP(src="10.60.0.1", dst="10.61.0.1") / UDP(sport=5, dport=6) / Raw(b"x" * 40)


def container():
    """The extension header that a 5G core puts in front of each user's packet."""
    return GTPPDUSessionContainer(type=0, QFI=9)


ECHO = GTP_U_Header(teid=0, gtp_type=1, S=1, seq=7) / GTPEchoRequest()
ERROR = GTP_U_Header(teid=0, gtp_type=26, S=1, seq=8) / GTPErrorIndication(IE_list=[IE_TEIDI(TEIDI=0x1234)])


def nothing(*ears):
    for one in ears:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(2048)
        one.settimeout(2)


def test_teids_lead_to_applications(network, lab):
    net = network(socket0=lab.tmp / "app0.sock", socket1=lab.tmp / "app1.sock").up()
    apps = [application(net, lab, number, queues) for number, queues in ((0, 2), (1, 1))]
    daemon = net.gwa.daemon
    server, linux = ear(net.server, t.SERVER4), ear(net.gwa.host, t.LAN_A4)
    first, second = (ear(app, t.LAN_A4) for app in apps)
    cases = [
        (user(0x1000), first),
        (user(0x2FFF), second),
        (user(0x1FFF, container()), first),
        (user(0x2000, container()), second),
        # Of nobody's tunnel, and what is of none.
        (user(0x3000), linux),
        (ECHO, first),
        (ERROR, linux),
        # The last one by a tunnel's old path.
        (GTP_U_Header(teid=0x2001, gtp_type=254), second),
    ]
    for message, receiver in cases:
        server.sendto(bytes(message), (t.LAN_A4, PORT))
        data, source = receiver.recvfrom(2048)
        assert (data, source) == (bytes(message), (t.SERVER4, PORT)), message
        read = GTP_U_Header(data)
        assert (read.teid, read.gtp_type) == (message.teid, message.gtp_type)
        if receiver is not linux:
            # The same road back, from the address that is the gateway's too.
            receiver.sendto(data, (t.SERVER4, PORT))
            assert server.recvfrom(2048) == (data, (t.LAN_A4, PORT))
    # Other traffic of the same ends is Linux's.
    other = net.gwa.host.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind((t.LAN_A4, 2123))
    other.settimeout(2)
    server.sendto(bytes(ECHO), (t.LAN_A4, 2123))
    assert other.recv(2048) == bytes(ECHO)
    # One that is cut on its way into the tunnel.
    long = bytes(user(0x1001) / Raw(b"y" * 1340))
    server.sendto(long, (t.LAN_A4, PORT))
    assert first.recv(4096) == long
    # By its second queue.
    server6, first6 = ear(net.server, t.SERVER6), ear(apps[0], t.LAN_A6)
    server6.sendto(bytes(user(0x7000, container())), (t.LAN_A6, PORT))
    assert first6.recv(2048) == bytes(user(0x7000, container()))
    row = next(port for port in daemon.json("port") if port["interface"] == "app0")
    assert row["by_queue"][1]["tx_packets"] >= 1, row
    # Malformed: nobody gets them.
    good = bytes(user(0x1000))
    for bad in (good[:7], b"\x50" + good[1:], b"\x20" + good[1:], good[:-1], b"\x34" + good[1:]):
        server.sendto(bad, (t.LAN_A4, PORT))
    wait_for("them to be dropped", lambda: daemon.drops().get("gtpu-malformed") == 5)
    nothing(first, second, linux)
    counted = daemon.json("stats")["gtpu"]
    kinds = ("short", "version", "protocol-type", "length", "extension")
    assert [counted[f"malformed-{kind}"] for kind in kinds] == [1] * 5, counted
    names = ("g-pdu", "end-marker", "path", "error-indication", "other", "unknown-teid")
    assert [counted[name] for name in names] == [7, 1, 1, 1, 0, 1], counted
    assert "gtpu unknown-teid" in daemon.culvert("stats").stdout
    assert 'culvert_gtpu_messages_total{kind="g-pdu"} 7' in daemon.culvert("metrics").stdout
    # Another configuration takes effect under the same flow.
    text = daemon.config.read_text()
    daemon.write_config(text.replace('teid = "0x1000-0x1fff"', 'teid = "0x3000-0x3fff"').replace("echo = true", "echo = false"))
    assert "reloaded" in daemon.reload()
    for message, receiver in ((user(0x3000), first), (user(0x1000), linux), (ECHO, linux)):
        server.sendto(bytes(message), (t.LAN_A4, PORT))
        assert receiver.recv(2048) == bytes(message)


GGSN = ROOT / "build/ggsn"
GGSN4 = "10.1.5.2"

_GGSN_CONFIG = """
log stderr
 logging level set-all notice
ggsn ggsn0
 gtp state-dir {folder}
 gtp bind-ip {address}
 apn internet
  gtpu-mode tun
  tun-device tun4
  type-support v4
  ip prefix dynamic 192.168.42.0/24
  ip ifconfig 192.168.42.0/24
  no shutdown
 default-apn internet
 no shutdown ggsn
"""


@pytest.mark.skipif(not (GGSN / "usr/bin/sgsnemu").exists(), reason="osmo-ggsn is missing (scripts/fetch-ggsn)")
def test_a_ggsn_is_the_application(network, lab):
    """Its control plane is forwarded as any traffic, its GTP-U by [[gtpu]]: a mobile's pings through both tunnels."""
    config = "\n".join(
        ("[[port]]", 'interface = "wan"', "[[port]]", 'interface = "lan"', "[[port]]", 'interface = "app0"', 'kind = "memif"',
         f'socket = "{lab.tmp}/app0.sock"', "[[gtpu]]", f'address = "{GGSN4}"', 'port = "app0"')
    )  # fmt: skip
    net = network(ts_a=f"10.1.0.0/24,{GGSN4}/32", socket0="@", socket1="@")
    net.gwa.daemon.write_config(f'name = "@NAME@"\n{config}\n')
    net.gwb.host.route(f"{GGSN4}/32", "via", t.WAN_A4)
    net.up()
    app = application(net, lab, 0, 1)
    app.ip("address", "add", f"{GGSN4}/32", "dev", "eth0")
    net.gwa.host.ip("route", "add", f"{GGSN4}/32", "dev", "app0")
    net.gwa.host.ip("neigh", "replace", GGSN4, "lladdr", "02:00:00:00:05:02", "dev", "app0")
    for host in (app, net.server):
        (lab.tmp / host.name).mkdir()
    file = lab.tmp / "ggsn.cfg"
    file.write_text(_GGSN_CONFIG.format(folder=lab.tmp / app.name, address=GGSN4))
    libraries = {"LD_LIBRARY_PATH": f"{GGSN}/usr/lib/x86_64-linux-gnu"}
    ggsn = app.spawn(GGSN / "usr/bin/osmo-ggsn", "-c", file, env=libraries)
    wait_for("the GGSN's network", lambda: app.ip("link", "show", "tun4", check=False).returncode == 0)
    mobile = net.server.spawn(
        "stdbuf", "-oL", GGSN / "usr/bin/sgsnemu", "--listen", t.SERVER4, "--remote", GGSN4, "--statedir", lab.tmp / net.server.name,
        "--pidfile", lab.tmp / "sgsnemu.pid", "--pinghost", "192.168.42.0", "--pingcount", "5", "--pingrate", "10",
        "--timelimit", "8", env=libraries,
    )  # fmt: skip
    wait_for("its pings", lambda: "5 packets transmitted" in mobile.output() or not mobile.alive())
    assert "5 packets received" in mobile.output(), mobile.output() + ggsn.output()
    counted = net.gwa.daemon.json("stats")["gtpu"]
    assert counted["g-pdu"] >= 5 and not any(n for name, n in counted.items() if name.startswith("malformed")), counted
