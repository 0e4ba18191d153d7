"""Dead-peer detection and inactivity: charon asks the kernel when an SA was last used."""

import signal
import socket
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.stream import MARK

PORT = 7800

#: The kernel counts use times in seconds, and culvert lets it see a packet every other second.
DPD_S = 5
IDLE_S = 6


def one_way(bed, near, far, to):
    """Sends datagrams that nobody answers; returns what to call for each second of them."""
    sink = far.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((to, PORT))
    source = near.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def second():
        for _ in range(50):
            source.sendto(MARK, (to, PORT))
            time.sleep(0.02)
        sink.setblocking(False)
        got = 0
        try:
            while sink.recv(4096):
                got += 1
        except BlockingIOError:
            pass
        assert got > 40, f"only {got} of 50 arrived"

    return second


def test_no_needless_probes(bed):
    """While traffic runs one way in, charon at the gateway with culvert asks the peer nothing; without traffic it asks,
    and finds a dead one."""
    net = bed.make(extra_connection=f"dpd_delay = {DPD_S}s", extra_child="dpd_action = clear")
    # What the other one asks is a sign of life.
    only_at_a(net, "dpd_delay")
    net.up()
    bed.start()
    second = one_way(bed, net.server, net.client, t.CLIENT4)

    def asked():
        return [f for f in bed.wire.frames() if f.kind == "ike" and str(f.src) == t.WAN_A4 and is_request(f)]

    second()
    begin = len(asked())
    for _ in range(2 * DPD_S + 2):
        second()
    assert len(asked()) == begin, f"{len(asked()) - begin} requests while traffic flowed in"
    wait_for("a question without traffic", lambda: len(asked()) > begin, timeout=3 * DPD_S)
    bed.excused |= {"XfrmOutNoStates", "XfrmInNoStates"}
    net.gwb.swan.process.kill(signal.SIGKILL)
    wait_for("A to give up", lambda: not net.gwa.swan.sas(), step=0.2)
    for gateway in bed.beside():
        wait_for("no SA left", lambda g=gateway: g.daemon.json("sa") == [], timeout=5)


def only_at_a(net, setting):
    """Takes a setting out of gateway B's configuration."""
    file = net.gwb.swan.etc / "swanctl.conf"
    file.write_text(file.read_text().replace(setting, f"# {setting}"))


def is_request(frame):
    """Whether an IKE packet is a request (RFC 7296 section 3.1: the flag R says response)."""
    marker = 4 if 4500 in frame.ports else 0
    return not frame.data[frame.payload + 8 + marker + 19] & 0x20


@pytest.mark.parametrize("way", ["in", "out"])
def test_inactivity(bed, way):
    """`inactivity` leaves a CHILD_SA with traffic one way alone, and closes an idle one."""
    net = bed.make(extra_child=f"inactivity = {IDLE_S}s")
    only_at_a(net, "inactivity")
    net.up()
    bed.start()
    ends = (net.server, net.client, t.CLIENT4) if way == "in" else (net.client, net.server, t.SERVER4)
    second = one_way(bed, *ends)
    for _ in range(2 * IDLE_S + 2):
        second()
        assert net.gwa.swan.children("net"), "closed although it was used"
    wait_for("the CHILD_SA to be closed", lambda: not net.gwa.swan.children("net"), timeout=4 * IDLE_S)
