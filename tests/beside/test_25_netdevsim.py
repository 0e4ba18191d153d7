"""The kernel's own simulated offload device, netdevsim.

What `ip xfrm` is told about offload by a kernel with that device and by culvert's database with a model of a NIC, line by line;
and that what the kernel has placed on such a device stays there. `ip` is of Debian testing (make charon6): the machine's has no
word for packet offload.
"""

import os

import pytest
from lab import charon6, topology as t
from lab.beside import is_fast, reason
from lab.netdevsim import Answer, Database, add_device
from lab.planes import Daemon
from lab.traffic import assert_ping
from lab.xfrm import A, B, Tunnel, batch, states

#: The interfaces, of the same names on both hosts. The kernel has a netdevsim behind `sim0` and `pack0`, culvert a NIC with crypto
#: offload behind the one and a NIC with packet offload behind the other; `plain0` has nothing.
SIM, PACK, PLAIN = "sim0", "pack0", "plain0"

DEVICES = """
[device.nic0]
kind = "nic-model"
port = "sim0"
[device.nic1]
kind = "packet-nic-model"
port = "pack0"
"""

GCM = "aead 'rfc4106(gcm(aes))' 0x{key:040x} 128"
SUITES = {
    "a key of 256 bits": "aead 'rfc4106(gcm(aes))' 0x{key:072x} 128",
    "an ICV of 64 bits": "aead 'rfc4106(gcm(aes))' 0x{key:040x} 64",
    "ChaCha20-Poly1305": "aead 'rfc7539esp(chacha20,poly1305)' 0x{key:072x} 128",
    "AES-GMAC": "aead 'rfc4543(gcm(aes))' 0x{key:040x} 128",
    "AES-CBC": "enc 'cbc(aes)' 0x{key:032x} auth-trunc 'hmac(sha256)' 0x{key:064x} 128",
}
WINDOW = "replay-window 32"


def state(number, more, mode="transport", suite=GCM, proto="esp", window=WINDOW, ends=("192.0.2.1", "192.0.2.2"), act="add", sel=True):
    """As requirement and documents write it. `ip` gives the SA the direction that `offload` has, so an outbound one has no window."""
    src, dst = ends
    sel = f"sel src {src}/24 dst {dst}/24 proto tcp" if sel else ""
    window = "" if "dir out" in more and window == WINDOW or proto == "comp" else window
    return (
        f"xfrm state {act} proto {proto} src {src} dst {dst} spi {number:#x} mode {mode} reqid {number:#x} {window} "
        f"{suite.format(key=number)} {sel} {more}"
    )


def policy(number, direction, more, template=True):
    lines = f"tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid {number:#x} mode tunnel" if template else ""
    return f"xfrm policy add src 10.{number % 256}.0.0/24 dst 10.200.0.0/24 dir {direction} {more} {lines}"


class Cases:
    """By name: the lines, of which the last one counts."""

    def __init__(self):
        self.lines = {}

    def state(self, name, more, before="", **how):
        number = 0x100 + len(self.lines)
        first = {
            "": [],
            "same": [state(number, more)],
            "plain": [state(number, "")],
            "reserved": [
                f"xfrm state allocspi src 192.0.2.1 dst 192.0.2.2 proto esp mode transport min {number} max {number}"
            ],
        }[before]
        self.lines[name] = [*first, state(number, more, **how)]

    def policy(self, name, direction, more, **how):
        self.lines[name] = [policy(0x100 + len(self.lines), direction, more, **how)]

    def is_of(self, name, part):
        words = self.lines[name][-1].split()
        if words[1] == "policy":
            return f"src {words[4]} " in part and f"dir {words[8]} " in part
        return f"spi {int(words[words.index('spi') + 1], 16):#010x}" in part


def cases():
    c = Cases()
    for way in ("out", "in"):
        for form in ("", "crypto ", "packet "):
            for dev in (SIM, PLAIN):
                c.state(f"offload {form}dev {dev} dir {way}", f"offload {form}dev {dev} dir {way}")
        off = f"offload dev {SIM} dir {way}"
        c.state(f"{way}: tunnel mode", off, mode="tunnel")
        c.state(f"{way}: IPv6", off, ends=("2001:db8::1", "2001:db8::2"), sel=False)
        for name, suite in SUITES.items():
            c.state(f"{way}: {name}", off, suite=suite)
        c.state(f"{way}: ESN", f"{off} flag esn")
        c.state(f"{way}: ESP in UDP", f"{off} encap espinudp 4500 4500 0.0.0.0")
        c.state(f"{way}: TFC padding", f"{off} tfcpad 100", mode="tunnel")
        c.state(f"{way}: no window", off, window="")
        c.state(f"{way}: a window of 1024", off, window="replay-window 1024")
        c.state(f"{way}: a mark", f"{off} mark 5 mask 0xff")
        c.state(f"{way}: a mark that is set", f"{off} output-mark 7")
        c.state(f"{way}: an interface id", f"{off} if_id 7")
        c.state(f"{way}: a limit", f"{off} limit packet-hard 1000")
        c.state(f"{way}: AH", off, proto="ah", suite="auth-trunc 'hmac(sha256)' 0x{key:064x} 128")
        c.state(f"{way}: IPComp", off, proto="comp", suite="comp deflate")
        c.state(f"{way}: AH, no device", f"offload dev {PLAIN} dir {way}", proto="ah",
                suite="auth-trunc 'hmac(sha256)' 0x{key:064x} 128")  # fmt: skip
        c.state(f"{way}: TFC padding, no device", f"offload dev {PLAIN} dir {way} tfcpad 100", mode="tunnel")
        c.state(f"{way}: an interface id, no device", f"offload dev {PLAIN} dir {way} if_id 7")
        pack = f"offload packet dev {PACK} dir {way}"
        c.state(f"packet {way}", pack, mode="tunnel")
        c.state(f"packet {way}: TFC padding", f"{pack} tfcpad 100", mode="tunnel")
        c.state(f"packet {way}: an interface id", f"{pack} if_id 7")
        c.state(f"packet {way}: AH", pack, proto="ah", suite="auth-trunc 'hmac(sha256)' 0x{key:064x} 128")
        c.state(f"packet {way}: ESP in UDP", f"{pack} encap espinudp 4500 4500 0.0.0.0")
        c.state(f"added twice, {way}", off, before="same")
        c.state(f"updated, {way}", off, before="same", act="update")
        # `ip` gives a direction to the second of these alone.
        c.state(f"updated to be offloaded, {way}", off, before="plain", act="update")
        c.state(f"reserved, then updated, {way}", off, before="reserved", act="update")
    c.state("a window on what goes out", f"offload dev {SIM} dir out", window="replay-window  32")
    for direction in ("out", "in", "fwd"):
        for form in ("packet ", "", "crypto "):
            c.policy(f"policy {direction}: offload {form}dev {SIM}", direction, f"offload {form}dev {SIM}")
        c.policy(f"policy {direction}: offload packet dev {PLAIN}", direction, f"offload packet dev {PLAIN}")
        c.policy(f"policy {direction}: offload packet dev {PACK}", direction, f"offload packet dev {PACK}")
    c.policy(f"policy out: block, offload packet dev {PACK}", "out", f"action block offload packet dev {PACK}", template=False)
    return c


INVALID, UNSUPPORTED = "Invalid argument", "Operation not supported"

#: Of what is known to differ (see `differences`, and docs/internals/offload.md, which has the reasons).
_KEYS = Answer(INVALID, "netdevsim: Failed to get key data for SA table")
_TYPE = Answer(INVALID, "netdevsim: Unsupported ipsec offload type")
_SOFTWARE = Answer()


def in_device(way, dev=SIM, mode="crypto"):
    return Answer(shows=f"dev {dev} dir {way} mode {mode}")


def differences():
    """By case: Linux's answer, and culvert's."""
    found = {}
    for way in ("out", "in"):
        found[f"{way}: a key of 256 bits"] = in_device(way), _SOFTWARE
        for suite in ("an ICV of 64 bits", "ChaCha20-Poly1305", "AES-CBC"):
            found[f"{way}: {suite}"] = _KEYS, _SOFTWARE
        found[f"{way}: AES-GMAC"] = _KEYS, in_device(way)
        found[f"{way}: ESN"] = Answer(INVALID, "Device doesn't support offload with ESN"), _SOFTWARE
        found[f"{way}: ESP in UDP"] = in_device(way), _SOFTWARE
        found[f"packet {way}"] = _TYPE, in_device(way, PACK, "packet")
        lacks = "culvert: nic1: the device does not do this: "
        found[f"packet {way}: ESP in UDP"] = _TYPE, Answer(UNSUPPORTED, f"{lacks}UDP encapsulation")
    found["packet out: an interface id"] = _TYPE, Answer(UNSUPPORTED, f"{lacks}interface id")
    none = Answer(INVALID, "Policy offload is not supported")
    in_pack = Answer(shows=f"dev {PACK} mode packet")
    for direction in ("out", "in"):
        found[f"policy {direction}: offload packet dev {PACK}"] = none, in_pack
    found[f"policy fwd: offload packet dev {PACK}"] = none, Answer(UNSUPPORTED, f"{lacks}policy direction Forward")
    found[f"policy out: block, offload packet dev {PACK}"] = none, in_pack
    return found


#: The same, said in other words: Linux's, culvert's.
WORDS = {
    "": ("", "an SA with this destination, SPI, protocol and mark exists",
         "the SA of this destination, SPI, protocol and mark has another direction",
         "culvert: no packet offload device for this state behind the interface"),
    "netdevsim: Unsupported ipsec offload type": ("culvert: no packet offload device for this state behind the interface",),
    "Type doesn't support offload": (
        "type doesn't support offload: devices have SAs of ESP alone",
        "culvert: no packet offload device for this state behind the interface",
    ),
    "TFC padding can't be offloaded": ("TFC padding can't be offloaded",),
    "XFRM if_id is not supported in RX path": ("an XFRM interface id is not supported for offload of what is received",),
    "Replay window should be 0 for output SA": ("an outbound SA (dir out) has no replay window",),
    "Policy offload is not supported": ("culvert: no packet offload device for this policy behind the interface",),
}  # fmt: skip


def agree(linux, ours):
    """Whether two answers mean the same; `ip` itself refuses some lines, with the same words for both."""
    if (linux.error, linux.shows) != (ours.error, ours.shows):
        return False
    return linux.words == ours.words or ours.words in WORDS.get(linux.words, ())


@pytest.fixture
def newest_ip():
    if charon6.missing():
        pytest.skip(f"the `ip` of Debian testing: {charon6.missing()}")


def test_answers_are_linux_s(lab, plane, newest_ip, culvert_is_off):
    """A kernel with netdevsim and culvert's database answer the same to offload by `ip xfrm`, but for what is known."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (7, 2):
        pytest.skip("the answers are Linux 7.2's: 6.12 takes an interface id, and refuses AH by an interface without a device")
    kernel = lab.host("kernel")
    add_device(kernel, SIM, 0)
    add_device(kernel, PACK, 1)
    kernel.ip("link", "add", PLAIN, "type", "dummy")
    c = cases()
    linux = Database(kernel).answers(c.lines, c.is_of)
    known = differences()
    # Also without culvert: what the documents say of Linux.
    wrong = [f"{name}: Linux says {linux[name]}, known is {of_linux}" for name, (of_linux, _) in known.items()
             if linux[name] != of_linux]  # fmt: skip
    if not culvert_is_off:
        ours = Database(*with_devices(lab)).answers(c.lines, c.is_of)
        for name in c.lines:
            is_known = name in known and ours[name] == known[name][1]
            if not (is_known or name not in known and agree(linux[name], ours[name])):
                wrong.append(f"{name}: Linux says {linux[name]}, culvert {ours[name]}")
    assert not wrong, "\n".join(wrong)


def with_devices(lab):
    """A host with culvert, and models of NICs behind its ports."""
    host, far = lab.host("culvert"), lab.host("far")
    for name in (SIM, PACK, PLAIN):
        lab.link(far, name, host, name)
    daemon = Daemon(host, [SIM, PACK, PLAIN])
    daemon.settings = DEVICES
    daemon.write_config()
    daemon.start()
    return host, daemon


def test_a_full_table_is_told(lab, plane):
    """netdevsim has room for 33 SAs, and refuses the next one."""
    host = lab.host("kernel")
    add_device(host, SIM, 0)
    lines = [state(number, f"offload dev {SIM} dir in") for number in range(1, 34)]
    batch(host, *lines)
    done = host.run("ip", *state(34, f"offload dev {SIM} dir in").replace("'", "").split(), check=False)
    assert done.returncode and "No space" in done.stderr, done


#: At the first gateway the kernel's, in a device that packets do not go through: software of the kernel's does them.
PLACED = Tunnel(spi=0x5000, reqid=5)
TAKEN = Tunnel(spi=0x7000, reqid=7, priority=500, select="proto udp dport 7300", select_back="proto udp sport 7300")


def test_what_a_device_has_stays_there(bed):
    """SAs that the kernel has placed on netdevsim stay there when culvert comes and goes, beside others that it takes."""
    net = bed.make()
    add_device(net.gwa.host, SIM, 0)
    batch(net.gwb.host, *PLACED.states(B), *PLACED.policies(B))
    ways = (f" offload dev {SIM} dir {way}" for way in ("out", "in"))
    lines = [line.replace("replay-window 32", "") + way for line, way in zip(PLACED.states(A), ways)]
    batch(net.gwa.host, *lines, *PLACED.policies(A))
    TAKEN.install(net)
    for act in (lambda: None, lambda: bed.start(taken=False), bed.stop):
        act()
        bed.settle()
        assert_ping(net.client, t.SERVER4, count=5, wait=3)
        stream = bed.stream(port=7300, rate=300, count=100)
        stream.wait()
        bed.perfect(stream)
        text = net.gwa.host.run("ip", "xfrm", "state").stdout
        assert all(f"dev {SIM} dir {way}" in text for way in ("out", "in")), text
        for gateway in (g for g in bed.beside() if g is net.gwa and g.daemon.alive()):
            for spi in (PLACED.spi, PLACED.spi + 1):
                sa = bed.placement(gateway, spi)
                assert not is_fast(sa) and "a device has it" in reason(sa), sa
            assert all(is_fast(bed.placement(gateway, spi)) for spi in (TAKEN.spi, TAKEN.spi + 1))
    bed.assert_counted()
    assert all(sa.packets for sa in states(net.gwa.host).values())
