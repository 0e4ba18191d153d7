"""What each deployment promises, as sentences that captures and counters prove or refute."""

from dataclasses import dataclass

from ..capture import IvRecord
from . import network as n
from .evidence import udp_ports

_UP = n.user_plane.UPLINK
NR_TEIDS, LTE_TEIDS = {n.TEID_NR, n.TEID_NR | _UP}, {n.TEID_LTE, n.TEID_LTE | _UP}

#: What may not be in clear on the backhaul.
PROTECTED = ("10.45.0.0/24", n.CORE, "192.168.7.0/24")

#: The ports of the NAT in deployment 1.
_NAT_PORTS = range(20000, 30000)


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it held, and what was seen."""

    text: str
    holds: bool
    seen: str


def own_tunnels(run):
    """1: each modem has a tunnel of its own."""
    seen = run.seen
    child = run.net.lte.swan.children()[0]
    its_own = {int(child[end], 16) for end in ("spi-in", "spi-out")}
    bare, in_udp = seen.find("backhaul", "esp"), seen.find("backhaul", "esp-udp")
    by_nat = {a if str(f.src) == n.NR else b for f in in_udp for a, b in udp_ports([f])}
    at_lte = seen.count("lte", "esp-udp")
    return [
        *common(run, spis=4),
        Claim(
            "the LTE modem's ESP is in UDP, by a port of the NAT's, and not in another tunnel",
            bool(in_udp) and {f.spi for f in in_udp} == its_own and all(port in _NAT_PORTS for port in by_nat),
            f"SPIs {_hex(its_own)}, port {', '.join(map(str, by_nat))}",
        ),
        Claim(
            "each of these packets was the same on the LTE modem's link",
            at_lte == len(in_udp),
            f"{at_lte} there, {len(in_udp)} on the backhaul",
        ),
        Claim(
            "the NR modem's own ESP is not in UDP",
            bool(bare) and not its_own & {f.spi for f in bare},
            f"{len(bare)} packets",
        ),
    ]


def two_tunnels(run):
    """2: two tunnels, both of the NR modem."""
    return [*common(run, spis=4), *_handed_on(run), _bare(run), _by_sa(run)]


def two_addresses(run):
    """3: one tunnel with two inner addresses."""
    return [*common(run, spis=2), *_handed_on(run), _bare(run)]


def shared_address(run):
    """4: one tunnel with one inner address."""
    seen, address = run.seen, run.deployment.nr_address
    modems = seen.addresses("core", not_in=(n.UPF, n.OPERATIONS))
    there = seen.addresses("lte", not_in=(n.UPF, n.OPERATIONS))
    own, others = (seen.count("lte", "gtpu", teids=teids) for teids in (LTE_TEIDS, NR_TEIDS))
    return [
        *common(run, spis=2),
        _bare(run),
        Claim("the core network sees one address of both modems", modems == {address}, ", ".join(sorted(modems))),
        Claim(
            "the LTE modem has its own GTP-U, told by TEID, and its own address on its link",
            own == _sent(run, "LTE") and not others and there == {n.LTE},
            f"{own} packets with TEIDs {_hex(LTE_TEIDS)}, {others} of the NR modem's",
        ),
    ]


def common(run, spis):
    """What holds in all of them."""
    return [*_backhaul(run, spis), *_user_plane(run), *_operations(run)]


def _backhaul(run, spis):
    seen = run.seen
    clear, found = seen.clear(PROTECTED), seen.spis()
    numbers = IvRecord().add(f for f in seen.frames["backhaul"] if f.kind == "esp")
    twice = sum(times > 1 for table in (numbers.sequences, numbers.ivs) for used in table.values() for times in used.values())
    return [
        Claim(
            "on the backhaul there is nothing but IKE and ESP, and neighbour discovery",
            bool(found) and not clear,
            f"{len(clear)} in clear: {clear[0]}" if clear else _words(seen.kinds("backhaul")),
        ),
        Claim(
            f"under {spis} SAs, no number and no IV twice",
            len(found) == spis and not twice,
            ", ".join(f"{spi:#010x}: {count}" for spi, count in found.items()),
        ),
    ]


def _user_plane(run):
    seen = run.seen
    lost = {name: exchange.lost for name, (_, _, exchange) in run.exchanges.items()}
    sent, got = (seen.count("core", "gtpu", teids=NR_TEIDS, **end) for end in ({"src": n.UPF}, {"dst": n.UPF}))
    to_it, from_it = seen.counters["app_out"], seen.counters["app_in"]
    by_linux = seen.count("linux", "gtpu", teids=NR_TEIDS) + sum(f.kind == "ip" for f in seen.frames["app0"])
    return [
        Claim(
            "every G-PDU was answered, both ways, of both modems",
            len(lost) == 4 and not any(lost.values()),
            ", ".join(f"{name}: {count} lost" for name, count in lost.items()),
        ),
        Claim(
            "GTP-U of the NR modem went to its application and came from it, by shared memory",
            (to_it, from_it) == (sent, got) and min(sent, got) > 0,
            f"{to_it} to it and {from_it} from it; at the UPF {sent} and {got}",
        ),
        Claim("none of it passed Linux there", by_linux == 0, f"{by_linux} on culvert0 and app0"),
        Claim("culvert dropped nothing", seen.counters["drops"] == 0, f"{seen.counters['drops']} packets"),
    ]


def _operations(run):
    seen = run.seen
    ends = {"src": n.OPERATIONS, "dst": run.deployment.nr_address}
    tcp, dns = (seen.count("linux", kind, **ends) for kind in ("tcp", "dns"))
    return [
        Claim(
            "operations of the NR modem came to Linux there",
            min(tcp, dns) > 0,
            f"{tcp} packets of TCP and {dns} of DNS on culvert0",
        ),
        Claim(
            "names were resolved and all bytes of TCP came back, of both modems",
            list(run.resolved.values()) == ["10.60.1.9"] * 2 and list(run.transferred.values()) == [200_000] * 2,
            f"amf.core.test is {', '.join(map(str, run.resolved.values()))}; {run.transferred} bytes",
        ),
    ]


def _handed_on(run):
    """The LTE modem has its inner address in clear on its link, past Linux on the NR modem."""
    seen = run.seen
    at_link, by_linux = (seen.count(place, "gtpu", teids=LTE_TEIDS) for place in ("lte", "linux"))
    there = seen.addresses("lte", not_in=(n.SGW, n.OPERATIONS))
    return [
        Claim(
            "the LTE modem has its inner address on its own link, where its GTP-U is in clear",
            at_link == _sent(run, "LTE") and there == {n.INNER_LTE},
            f"{at_link} packets, {', '.join(sorted(there))}",
        ),
        Claim("they went from port to port, past Linux on the NR modem", by_linux == 0, f"{by_linux} on culvert0"),
    ]


def _bare(run):
    backhaul = run.seen.kinds("backhaul")
    return Claim("nothing is encapsulated in UDP", "esp-udp" not in backhaul, _words(backhaul))


def _by_sa(run):
    """Each modem's packets under SAs of its own."""
    found = run.seen.spis()
    least = {
        child["name"]: min(found[int(child[end], 16)] for end in ("spi-in", "spi-out"))
        for child in run.net.nr.swan.children()
    }
    enough = all(count >= _sent(run, name.upper()) // 2 for name, count in least.items())
    seen = ", ".join(f"{name}: {count} each way at least" for name, count in least.items())
    return Claim("each modem's packets are under SAs of its own", len(least) == 2 and enough, seen)


def _sent(run, modem):
    """G-PDUs of a modem: questions and answers."""
    return sum(2 * len(e.sent) for name, (_, _, e) in run.exchanges.items() if name.startswith(modem))


def _hex(numbers):
    return ", ".join(f"{number:#x}" for number in sorted(numbers))


def _words(counts):
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
