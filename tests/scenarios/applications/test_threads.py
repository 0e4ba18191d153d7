"""Applications beside threads that encrypt and decrypt for the worker: the same verdicts, and every packet counted once."""

import socket
import time
from pathlib import Path

from lab import topology as t
from lab.applications import apps, client_hello, nameless, send_stream, verdict
from lab.base import wait_for

CONFIG = (Path(__file__).parent / "gwa.culvert.toml").read_text() + "[worker]\ncrypto_cpus = [0, 1]\n"


def test_helpers_and_applications(network):
    net = network()
    net.gwa.daemon.write_config(CONFIG)
    net.up()
    gwa = net.gwa
    tasks = Path(f"/proc/{gwa.daemon.process.pid}/task").iterdir()
    names = [(task / "comm").read_text().strip() for task in tasks]
    assert {"culvert-apps", "culvert-crypto0", "culvert-crypto1"} <= set(names), names

    # A rule tells the first packet, so all of them count, whichever thread had them.
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for n in range(1000):
        mouth.sendto(n.to_bytes(4, "big"), (t.SERVER4, 873))
        if n % 20 == 19:
            # No queue on the way is to overflow.
            time.sleep(0.01)
    wait_for("all packets", lambda: apps(gwa).get("backup", {}).get("packets", 0) >= 1000)
    backup = apps(gwa)["backup"]
    assert (backup["packets"], backup["bytes"], backup["flows"]) == (1000, 1000 * 32, 1), backup

    # Names are put together from packets that helpers leave to the worker until the verdict is there.
    mouth, other = send_stream(net, 4431, client_hello("a.erp.example"), cuts=(3, 60, 200))
    assert verdict(gwa, 4431) == ("erp", "a.erp.example", "tls-name")
    before = apps(gwa)["erp"]["bytes"]
    data = bytes(1 << 20)
    for source, sink in ((mouth, other), (other, mouth)):
        sink.settimeout(30)
        left = len(data)
        source.settimeout(30)
        for at in range(0, len(data), 1 << 16):
            source.sendall(data[at : at + (1 << 16)])
            want = min(left, 1 << 16)
            while want > 0:
                got = len(sink.recv(want))
                want, left = want - got, left - got
    # Both directions, with their headers.
    wait_for("its bytes", lambda: apps(gwa)["erp"]["bytes"] - before >= 2 * len(data))
    assert apps(gwa)["erp"]["bytes"] - before < 3 * len(data)
    nameless(net, 9001)
    assert verdict(gwa, 9001) == ("unknown", None, "nothing")
    drops = gwa.daemon.drops()
    assert not {name: count for name, count in drops.items() if count and name.startswith("in-replay")}, drops
