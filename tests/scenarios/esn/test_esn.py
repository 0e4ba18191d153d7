"""RFC 4304: the high half of the number is not on the wire but in the ICV."""

import re

import pytest
from lab import topology as t
from lab.traffic import Stream, assert_perfect, assert_ping


@pytest.mark.sample_of_cases("32-aes128gcm16-esn", "4096-aes256-sha256-esn", "32-chacha20poly1305-esn")
@pytest.mark.parametrize("esp", ["aes128gcm16-esn", "aes256-sha256-esn", "chacha20poly1305-esn"])
@pytest.mark.parametrize("window", [32, 4096])
def test_esn(network, esp, window):
    net = network(esp=esp, extra_child=f"replay_window = {window}").up()
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.client, t.SERVER6, count=5)
    stream = Stream(net.client, net.server, t.SERVER4, rate=2000, count=2000)
    stream.wait()
    assert_perfect(stream.finish())
    assert net.gwa.swan.children("net")[0]["esn"] == "1"
    states = net.gwa.daemon.exec("ip", "xfrm", "state").stdout
    assert re.search(r"flag .*\besn\b", states), states
