"""The deployments as pictures of text: the hosts side by side, what connects them, and how many packets took each way."""

from . import network as n
from .claims import LTE_TEIDS, NR_TEIDS

#: Columns of a line: what a terminal, and a page of the documentation, show.
WIDTH = 100

#: Widths of the columns: LTE modem, link, NR modem, backhaul, security gateway, link, core network.
_WIDTHS = 13, 16, 21, 19, 13, 3, 15

#: Who is on the core network's side.
_CORE_SIDE = {n.SEGW, n.UPF, n.SGW, n.OPERATIONS}


class Ways:
    """How many packets took each way: `>` to the core network, `<` to the modems."""

    def __init__(self, run):
        seen = run.seen
        spis = {c["name"]: {int(c["spi-in"], 16), int(c["spi-out"], 16)} for c in run.net.nr.swan.children()}
        self.esp = _both(seen.find("backhaul", "esp"))
        self.esp_of = {name: _both(f for f in seen.find("backhaul", "esp") if f.spi in own) for name, own in spis.items()}
        self.in_udp = _both(seen.find("backhaul", "esp-udp"))
        self.lte_in_udp = _both(seen.find("lte", "esp-udp"))
        self.lte = _both(f for kind in ("gtpu", "tcp", "dns") for f in seen.find("lte", kind))
        self.linux = _both(f for kind in ("gtpu", "tcp", "dns") for f in seen.find("linux", kind) if n.LTE not in _ends(f))
        self.nr_core = _both(seen.find("core", "gtpu", teids=NR_TEIDS))
        self.lte_core = _both(seen.find("core", "gtpu", teids=LTE_TEIDS))
        self.operations = _both(f for kind in ("tcp", "dns") for f in seen.find("core", kind))
        self.app = f">{seen.counters['app_in']} <{seen.counters['app_out']}"


class Unknown:
    """In place of `Ways` where nothing has run."""

    esp_of = {"nr": "", "lte": ""}

    def __getattr__(self, _):
        return ""


def _ends(frame):
    return str(frame.src), str(frame.dst)


def _both(frames):
    down = [str(frame.src) in _CORE_SIDE for frame in frames]
    return f">{down.count(False)} <{down.count(True)}"


def draw(name, ways):
    """The picture of a deployment, as lines."""
    border = _line(*(None if at % 2 else "-" for at in range(7)), boxed="+-+")
    titles = "LTE modem", "", "NR modem", "backhaul", "security gw", "", "core network"
    title = "".join(f"{text:^{width}}" for text, width in zip(titles, _WIDTHS))
    return [title.rstrip(), border, *(_line(*row) for row in _ROWS[name](ways)), border]


def _line(*cells, boxed="| |"):
    """A line: hosts at even places, in boxes; links between them, in clear (`-`) or encrypted (`=`)."""
    texts = []
    for at, (text, width) in enumerate(zip(cells, _WIDTHS)):
        if at % 2 == 0:
            texts.append(boxed[0] + f"{text or '':{boxed[1]}^{width - 2}}" + boxed[2])
        elif text and text[0] in "-=":
            texts.append(f"{text[1:]:{text[0]}^{width}}")
        else:
            texts.append(" " * width)
    return "".join(texts).rstrip()


def _label(sign, *words):
    """What stands on a link; its counts with blanks around."""
    text = " ".join(word for word in words if word)
    return f"{sign} {text} " if text else sign


def _application(w, backhaul, address=n.INNER_NR):
    """The application of the NR modem and its peer."""
    return [
        ("", "", "application", "", "", "", "UPF " + n.UPF),
        ("", "", f"{address} GTP-U", "", "", "", "GTP-U"),
        ("", "", w.app, backhaul, "", "-", w.nr_core),
        ("", "", "", "", "", "", ""),
        ("", "", "Linux: DNS, TCP", "", "", "", "operations"),
        ("", "", w.linux, "", "", "-", n.OPERATIONS),
        ("", "", "", "", "", "", w.operations),
    ]


def _own_tunnels(w):
    return [
        *_application(w, _label("=", "ESP", w.esp)),
        (n.INNER_LTE, "", "", "", "", "", "SGW " + n.SGW),
        ("libipsec", "= ESP in UDP ", "Linux: NAT", "= ESP in UDP ", "", "-", "GTP-U"),
        (n.LTE, _label("=", w.lte_in_udp), n.NR, _label("=", w.in_udp), n.SEGW, "", w.lte_core),
    ]


def _two_tunnels(w):
    return [
        *_application(w, _label("=", "ESP", w.esp_of["nr"])),
        ("", "", "from port to port", "", "", "", "SGW " + n.SGW),
        (n.INNER_LTE, "- in clear ", "", _label("=", "ESP", w.esp_of["lte"]), "", "-", "GTP-U"),
        ("", _label("-", w.lte), n.NR, "", n.SEGW, "", w.lte_core),
    ]


def _two_addresses(w):
    return [
        *_application(w, _label("=", "ESP", w.esp)),
        ("", "", "from port to port", "", "", "", "SGW " + n.SGW),
        (n.INNER_LTE, "- in clear ", "", "= the same ESP ", "", "-", "GTP-U"),
        ("", _label("-", w.lte), n.NR, "", n.SEGW, "", w.lte_core),
    ]


def _shared(address):
    def rows(w):
        return [
            *_application(w, _label("=", "ESP", w.esp), address),
            ("", "", "Linux: NAT", "", "", "", "UPF " + n.UPF),
            (n.LTE, "- in clear ", f"to {address}", "= the same ESP ", "", "-", "GTP-U, TEIDs"),
            ("", _label("-", w.lte), n.NR, "", n.SEGW, "", w.lte_core),
        ]

    return rows


_ROWS = {"1": _own_tunnels, "2": _two_tunnels, "3": _two_addresses, "4": _shared(n.INNER_NR), "4-backhaul": _shared(n.NR)}
