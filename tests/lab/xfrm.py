"""Linux's own XFRM on a host: its SAs with their counters as `ip -s xfrm state` shows them, its statistics, and
tunnels made by hand."""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime

from . import topology as t


@dataclass
class State:
    """An SA of the kernel's."""

    src: str
    dst: str
    proto: str
    spi: int
    mode: str
    reqid: int
    #: Counters of the current lifetime.
    bytes: int
    packets: int
    #: When it was added and last used, in local time; the latter may be None.
    added: object
    used: object
    #: The kernel's last outbound and highest inbound number.
    oseq: int
    seq: int


_STATE = re.compile(
    r"src (?P<src>\S+) dst (?P<dst>\S+)\s+"
    r"proto (?P<proto>\w+) spi 0x(?P<spi>[0-9a-f]+)\S* reqid (?P<reqid>\d+)\S* mode (?P<mode>\w+)"
)
_CURRENT = re.compile(r"lifetime current:\s+(\d+)\(bytes\), (\d+)\(packets\)\s+add (\S+ \S+) use (\S+(?: \d\S+)?)")


def parse_states(text):
    """The SAs in what `ip -s xfrm state` prints, in its order, less those that wait for an SPI."""
    found = []
    for block in re.split(r"^(?=src )", text, flags=re.M):
        head, current = _STATE.match(block), _CURRENT.search(block)
        if not head or not current or int(head["spi"], 16) == 0:
            continue
        # Of the extended form (ESN, large windows) the high halves stand apart.
        high = {k: int(v, 16) << 32 for k, v in re.findall(r"(o?seq)-hi 0x([0-9a-f]+)", block)}
        low = {k: int(v, 16) for k, v in re.findall(r"\b(o?seq) 0x([0-9a-f]+)\b", block)}
        number = {k: high.get(k, 0) + low.get(k, 0) for k in ("seq", "oseq")}
        found.append(
            State(
                head["src"], head["dst"], head["proto"], int(head["spi"], 16), head["mode"],
                int(head["reqid"]), int(current[1]), int(current[2]),
                _when(current[3]), _when(current[4]), number["oseq"], number["seq"],
            )  # fmt: skip
        )
    return found


def _when(text):
    return None if text == "-" else datetime.strptime(text, "%Y-%m-%d %H:%M:%S")


def states(host):
    """The kernel's SAs of a host, by SPI. SAs of IPComp and IP in IP are not among them."""
    text = host.run("ip", "-s", "xfrm", "state").stdout
    return {s.spi: s for s in parse_states(text) if s.proto in ("esp", "ah")}


def policy_uses(host, *directions):
    """When each of the kernel's policies of some directions was last used, in local time; None: never."""
    text = host.run("ip", "-s", "xfrm", "policy").stdout
    uses = []
    for block in re.split(r"^(?=src )", text, flags=re.M):
        direction, current = re.search(r"\bdir (in|out|fwd)\b", block), _CURRENT.search(block)
        if direction and current and direction[1] in directions and "socket" not in block:
            uses.append(_when(current[4]))
    return uses


def statistics(host):
    """/proc/net/xfrm_stat of a host, by name."""
    lines = host.run("cat", "/proc/net/xfrm_stat").stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def errors(host):
    """What /proc/net/xfrm_stat of a host counts as errors, by name, where it is not zero."""
    # These count no error.
    return {n: v for n, v in statistics(host).items() if v and n not in ("XfrmAcquireError",)}


def batch(host, *lines):
    """Hands lines to `ip -batch` on a host; one that fails is an error."""
    return host.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")


def setdefault(daemon, text):
    """Sets default actions at a daemon: `in block fwd block out block`, or some of these."""
    daemon.exec("ip", "xfrm", "policy", "setdefault", *text.split())


def key(length, *words):
    """A key of so many bytes, always the same for the same words."""
    data, count = b"", 0
    while len(data) < length:
        data += hashlib.sha256(f"{count} {words}".encode()).digest()
        count += 1
    return "0x" + data[:length].hex()


#: Suites by short names, as `ip xfrm` wants them: text with `{N}` for a key of N bytes.
SUITES = {
    "gcm": 'aead "rfc4106(gcm(aes))" {20} 128',
    "gcm256": 'aead "rfc4106(gcm(aes))" {36} 128',
    "chacha": 'aead "rfc7539esp(chacha20,poly1305)" {36} 128',
    "cbc-sha256": 'enc "cbc(aes)" {16} auth-trunc "hmac(sha256)" {32} 128',
    "cbc-sha512": 'enc "cbc(aes)" {32} auth-trunc "hmac(sha512)" {64} 256',
    "null-sha256": 'enc "ecb(cipher_null)" "" auth-trunc "hmac(sha256)" {32} 128',
    "ah-sha256": 'auth-trunc "hmac(sha256)" {32} 128',
    # What culvert has not, and what it refuses as weak.
    "cbc-sha512-128": 'enc "cbc(aes)" {16} auth-trunc "hmac(sha512)" {64} 128',
    "3des-md5": 'enc "cbc(des3_ede)" {24} auth-trunc "hmac(md5)" {16} 96',
}

#: Without an IV that may not repeat.
NO_IV = {"null-sha256", "ah-sha256"}


def algorithms(suite, spi):
    """The algorithms of a suite with the keys of an SPI."""
    text = SUITES[suite]
    return re.sub(r"\{(\d+)\}", lambda m: key(int(m[1]), suite, spi, m.start()), text)


@dataclass(frozen=True)
class Side:
    """One end of a tunnel: outer addresses and what lies behind it, by family."""

    outer: dict
    inner: dict


A = Side({4: t.WAN_A4, 6: t.WAN_A6}, {4: "10.1.0.0/24", 6: "2001:db8:1::/64"})
B = Side({4: t.WAN_B4, 6: t.WAN_B6}, {4: "10.2.0.0/24", 6: "2001:db8:2::/64"})


@dataclass(frozen=True)
class Tunnel:
    """A pair of SAs made by hand, with the policies that lead to it. From A to B it has the SPI `spi`, back `spi` + 1.

    `select` is put behind source and destination of the selectors: protocol and ports, for packets from A to B;
    `select_back` for the others. `limits` is for the SA out of A alone.
    """

    suite: str = "gcm"
    spi: int = 0x1000
    reqid: int = 1
    mode: str = "tunnel"
    outer: int = 4
    inner: int = 4
    flags: str = ""
    window: int = 32
    priority: int = 1000
    select: str = ""
    select_back: str = ""
    state_extra: str = ""
    policy_extra: str = ""
    limits: str = ""
    encap: str = ""

    @property
    def proto(self):
        return "ah" if self.suite.startswith("ah") else "esp"

    def states(self, side):
        """The lines for `ip -batch` that make the SAs, at A or B."""
        ends = A.outer[self.outer], B.outer[self.outer]
        for number, (src, dst) in enumerate((ends, ends[::-1])):
            words = [self.flags] if self.flags else []
            # Without it the SA is for packets of the outer family alone.
            words += ["af-unspec"] if self.inner != self.outer else []
            flags = f"flag {' '.join(words)}" if words else ""
            # `ip` takes a window for one of the outbound SA's too; strongSwan sets one.
            line = f"xfrm state add src {src} dst {dst} proto {self.proto} spi {self.spi + number:#x} " \
                   f"reqid {self.reqid} mode {self.mode} replay-window {self.window} {flags} " \
                   f"{algorithms(self.suite, self.spi + number)} {self.encap} {self.state_extra}"  # fmt: skip
            yield line + (f" {self.limits}" if number == 0 and side is A else "")

    def policies(self, side):
        """The lines that make the policies, at A or B."""
        ends = A.outer[self.outer], B.outer[self.outer]
        both = A.inner[self.inner], B.inner[self.inner]
        if self.mode != "tunnel" and self.mode != "beet":
            both = ends
        ways = [(both, ends, self.select), (both[::-1], ends[::-1], self.select_back)]
        for number, ((src, dst), (tsrc, tdst), select) in enumerate(ways):
            is_out = (number == 0) == (side is A)
            for direction in ("out",) if is_out else ("in", "fwd"):
                yield (
                    f"xfrm policy add src {src} dst {dst} {select} dir {direction} priority {self.priority} "
                    f"{self.policy_extra} tmpl src {tsrc} dst {tdst} proto {self.proto} reqid {self.reqid} "
                    f"mode {self.mode}"
                )

    def install(self, net):
        """Makes it at both gateways; B first, so that nothing that A sends is lost."""
        batch(net.gwb.host, *self.states(B), *self.policies(B))
        batch(net.gwa.host, *self.states(A), *self.policies(A))
        return self
