"""Cases with IKE: strongSwan over culvert against strongSwan over the kernel's ESP."""

import time
from dataclasses import dataclass, field

from lab import topology as t
from lab.base import LabError, wait_for
from lab.traffic import Stream

from .pings import pings

#: Packets a second of the load while there is rekeying. A guest does not make many more.
RATE = 300

#: What Linux counts of its own packets that come to an SA which is deleted under them.
DELETED = "XfrmOutStateInvalid"


@dataclass(frozen=True)
class IkeCase:
    """One case: what it fills into tests/scenarios/common."""

    name: str
    values: dict = field(default_factory=dict)
    column: str = ""
    suite: str = ""

    @property
    def transport(self):
        return self.values.get("mode") == "transport"


def ike_cases():
    yield IkeCase("ike aes128gcm16, rekeys under load", {"esp": "aes128gcm16"})
    yield IkeCase("ike chacha20poly1305, rekeys under load", {"esp": "chacha20poly1305"})
    yield IkeCase("ike aes256-sha512 esn, rekeys under load", {"esp": "aes256-sha512-esn"})
    yield IkeCase(
        "ike aes128gcm16 udp-encap, rekeys under load", {"esp": "aes128gcm16", "encap": "yes"}
    )
    yield IkeCase(
        "ike aes128-sha256 transport, rekeys under load",
        {"esp": "aes128-sha256", "mode": "transport", "ts_a": "dynamic", "ts_b": "dynamic"},
    )


def negotiated(lane, case):
    """Runs a case; returns a list of what is wrong with it."""
    lane.far_down()
    net, guest, daemon = lane.net, lane.guest, lane.net.gwa.daemon
    for what in ("state", "policy"):
        guest.ip("xfrm", what, "flush")
        daemon.exec("ip", "xfrm", what, "flush")
    net.configure(None, **case.values)
    stood, errors = daemon.drops(), _errors(guest)
    try:
        for gateway in (net.gwb, net.gwa):
            gateway.swan.start()
        net.gwa.swan.initiate()
        bad = list(_traffic(lane, case, errors))
        # Before the daemons end: who hears from a port that nobody has any more answers in clear.
        bad += _counted(daemon.drops(), stood, "culvert drops")
        bad += _counted({**_errors(guest), DELETED: errors[DELETED]}, errors, "the kernel counts")
    except LabError as error:
        bad = [str(error)[-600:]]
    finally:
        for gateway in (net.gwa, net.gwb):
            if gateway.swan.process:
                gateway.swan.stop()
    return bad


def _counted(now, before, who):
    return [
        f"{who} {name} {value - before.get(name, 0)}"
        for name, value in now.items()
        if value != before.get(name, 0)
    ]


def _traffic(lane, case, errors):
    """Pings, then rekeys from both sides while a stream runs; yields what went wrong."""
    net = lane.net
    near = net.gwa.host if case.transport else net.client
    targets = (t.WAN_B4,) if case.transport else (t.SERVER4, t.SERVER6)
    for to in targets:
        for got in pings(near, to, (56, 1000, 1300), wait=4):
            if got["received"] != got["sent"] or got["duplicates"]:
                yield got["text"]
    stream = Stream(near, net.server, targets[0], rate=RATE)
    for swan in (net.gwa.swan, net.gwb.swan):
        time.sleep(0.3)
        before = {child["spi-in"] for child in swan.children("net")}
        swan.rekey(child="net")
        wait_for(
            "a new CHILD_SA",
            lambda swan=swan, before=before: (
                {child["spi-in"] for child in swan.children("net")} - before
            ),
        )
    for swan in (net.gwb.swan, net.gwa.swan):
        time.sleep(0.3)
        before = swan.sas()[0][1]["initiator-spi"]
        swan.rekey(ike="gw")
        wait_for(
            "a new IKE_SA",
            lambda swan=swan, before=before: any(
                sa["initiator-spi"] != before for _, sa in swan.sas()
            ),
        )
    time.sleep(0.3)
    report = stream.finish()
    # Linux drops what has found an SA that is deleted before it is used.
    own = _errors(lane.guest)[DELETED] - errors[DELETED]
    for way, lost in (("there", 0), ("back", own)):
        if report[way]["lost"] != lost or report[way]["duplicated"] or not report["sent"]:
            yield f"{way}, while rekeying: {report}"
    sas = [child for gateway in net.gateways() for child in gateway.swan.children("net")]
    if any(int(child["packets-in"]) == 0 for child in sas[:1]):
        yield f"a CHILD_SA without packets: {sas}"


def _errors(guest):
    lines = guest.run("cat", "/proc/net/xfrm_stat").stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}
