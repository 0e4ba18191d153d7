"""One network, the suites one after the other: each is negotiated, used and deleted.

Of the suites with a cipher and an integrity algorithm only so many that each of these is there. With
CULVERT_SUITES=sample, each cipher with one length of the ICV, and one integrity algorithm, in fewer sizes.
"""

import os

from lab import LabError
from lab import topology as t
from lab.base import PATIENCE_S, wait_for
from lab.capture import Capture, IvRecord, leaks
from lab.inject import Injector, ether, xfrm_states
from lab.suites import COVERING, open_esp, sample, seal
from lab.traffic import ping

IS_SAMPLE = os.environ.get("CULVERT_SUITES") == "sample"
WANTED = sample(COVERING) if IS_SAMPLE else COVERING

#: The largest fits libipsec's TUN, which has an MTU of 1400.
SIZES = (0, 13, 1300) if IS_SAMPLE else (0, 1, 13, 56, 247, 1024, 1300)

#: What strongSwan's libipsec has no code for.
LIBIPSEC_LACKS = ("gmac", "sha256_96")


def known_to(plane):
    """The suites that every gateway of a plane has."""
    for name, suite in WANTED.items():
        if "libipsec" not in plane or not name.endswith(LIBIPSEC_LACKS):
            yield name, suite


def reconfigure(net, folder, esp):
    net.configure(folder, esp=esp)
    for gateway in net.gateways():
        gateway.swan.load()


def drop_tunnel(net):
    net.gwa.swan.terminate(ike="gw")
    wait_for("no SAs", lambda: not net.gwa.swan.sas() and not net.gwb.swan.sas())


def try_suite(net, suite):
    """Returns what went wrong, or an empty text."""
    try:
        net.gwa.swan.initiate()
    except LabError as error:
        return f"not negotiated: {error}"
    wire = Capture(net.mid, "west", "ip")
    for to in (t.SERVER4, t.SERVER6):
        for size in SIZES:
            result = ping(net.client, to, size=size, count=2, interval=0.002, wait=PATIENCE_S)
            if result["received"] != 2 or result["duplicates"]:
                return f"ping {to} size {size}: {result['text']}"
    frames = wire.stop()
    if suite.crypt not in ("NULL", "GMAC") and leaks(frames):
        return "cleartext on the wire"
    IvRecord(suite.iv_len).add(frames).assert_no_repeat()
    return ""


def test_every_suite(network, plane, request):
    """Between gateways, and frame by frame against scapy where the keys are known: culvert's XFRM database shows them."""
    net = network().start()
    injector = Injector(net.mid, "east") if plane == "culvert" else None
    wrong = {}
    for name, suite in known_to(plane):
        reconfigure(net, request.path.parent, name)
        problem = try_suite(net, suite)
        if injector and not problem:
            problem = try_scapy(net, suite, injector)
        if problem:
            wrong[name] = problem
        drop_tunnel(net)
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


def try_scapy(net, suite, injector):
    """scapy opens what culvert sealed, and culvert opens what scapy sealed. Returns what went wrong, or an empty text."""
    from scapy.layers.inet import ICMP, IP

    states = xfrm_states(net.gwa.daemon.exec("ip", "xfrm", "state").stdout)
    state = next(s for s in states if s.dst == t.WAN_B4)
    wire = Capture(net.mid, "west", f"ip proto 50 and dst {t.WAN_B4}")
    for size in SIZES:
        ping(net.client, t.SERVER4, size=size, count=1, wait=PATIENCE_S)
    sealed = [bytes(f.data[14:]) for f in wire.stop()]
    try:
        assert len(sealed) == len(SIZES), f"{len(sealed)} frames for {len(SIZES)} pings"
        for outer, size in zip(sealed, SIZES, strict=True):
            inner = open_esp(suite, state, outer)
            assert len(inner) == 28 + size, f"inner length {len(inner)}, expected {28 + size}"
            packet = IP(inner)
            assert (packet.src, packet.dst) == (t.CLIENT4, t.SERVER4)
            assert packet.ttl == 63, f"TTL {packet.ttl}"
        arrived = Capture(net.server, "eth0", f"icmp and src {t.CLIENT4}")
        for number, size in enumerate(SIZES):
            inner = IP(src=t.CLIENT4, dst=t.SERVER4, ttl=60) / ICMP(id=77, seq=number)
            outer = seal(suite, state, inner / (b"x" * size), 1000 + number)
            injector.send(ether(net.gwa.host.mac("wan"), net.gwb.host.mac("wan"), outer))
        wait_for("scapy's packets", lambda: len(arrived.frames()) == len(SIZES))
        arrived.stop()
    except Exception as error:  # noqa: BLE001 - the other suites are worth knowing, too
        return f"{type(error).__name__}: {error}"
    return ""
