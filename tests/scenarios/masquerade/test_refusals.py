"""Linux has no port left: who asks hears why."""

import os
import socket

import pytest
from lab import topology as t
from lab.masquerade import build

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=masquerade"
)

#: Four ports for everybody.
FEW = """
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat
    oifname "wan" ip saddr 10.1.0.0/24 meta l4proto udp masquerade to :20000-20003
  }
}
"""


def test_ports_run_out(network):
    """As many get through as there are ports; the others' packets are dropped, none is in clear, and doctor has the next step."""
    net = build(network, FEW)

    def findings():
        found = net.gwa.daemon.json("doctor", "--config", str(net.gwa.daemon.config))
        return [f for f in found if f["check"] == "nat" and f["result"] == "warning"]

    assert not findings()
    with net.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", 9000))
        server.settimeout(1)
        clients = [net.client.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(12)]
        sources = set()
        for client in clients:
            client.sendto(b"x", (t.SERVER4, 9000))
        try:
            while True:
                sources.add(server.recvfrom(10)[1])
        except TimeoutError:
            pass
        assert sources == {(t.WAN_A4, port) for port in range(20000, 20004)}, sources
        for client in clients:
            client.close()
    told = net.gwa.daemon.json("nat")["table"]
    assert told["insert_failed"] >= 8 and told["entries"] >= 4 and told["most"] > 4, told
    assert f"{told['insert_failed']} did not come into it" in net.gwa.daemon.culvert("nat").stdout
    [finding] = findings()
    assert "insert_failed" in finding["seen"] and "more addresses or ports" in finding["next"], finding
