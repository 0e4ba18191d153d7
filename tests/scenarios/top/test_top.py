"""`culvert top` on a terminal, and its rates against a stream of a known one."""

import os
import re
import signal
import time

from lab import topology as t
from lab.planes import culvert_binary
from lab.terminal import Terminal
from lab.traffic import Stream

RATE = 500
BLOCKED = "10.2.0.77"


def test_once_tells_the_rates(network):
    net = network().up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    time.sleep(1)
    told = net.gwa.daemon.json("top", "--once", "--interval", "2")
    stream.finish()
    [sa] = [sa for sa in told["sas"] if sa["src"] == t.WAN_A4]
    [policy] = [p for p in told["policies"] if p["dir"] == "out" and p["dst"].startswith("10.2")]
    # The machine may be busy; the three are of the same packets.
    assert 0.5 * RATE < sa["pps"] < 1.5 * RATE, told
    assert abs(sa["pps"] - policy["pps"]) < 0.2 * RATE, told
    # charon's own times: rekeyed within the hour, gone 10 % later.
    [shown] = [s for s in net.gwa.daemon.json("sa") if s["spi"] == sa["spi"]]
    assert 3000 < shown["until_rekey"]["s"] <= 3600 < shown["until_expiry"]["s"] <= 3960, shown
    assert 3000 < sa["rekey"] <= 3600, sa
    # A second or two of them is used, and the other SA ends within a second of it.
    assert 3000 < sa["ends"] <= 3960 and 0 < sa["hard"] < sa["soft"] < 0.1, sa
    assert sa["limits"] == {
        "soft": {"time": sa["soft"], "bytes": None, "packets": None},
        "hard": {"time": sa["hard"], "bytes": None, "packets": None},
    }
    ends = [sa["ends"] for sa in told["sas"]]
    assert ends == sorted(ends), told["sas"]
    assert sum(worker["encrypted"] for worker in told["workers"]) > 0.5 * RATE, told
    text = net.gwa.daemon.culvert("top", "--once", "--interval", "0.2").stdout
    assert "PORT" in text and "WORKER" in text and "SPI" in text and "\x1b" not in text, text


def test_a_terminal_of_80_by_24(network):
    net = network().up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    top = Terminal(
        net.gwa.host, culvert_binary(), "--name", net.gwa.daemon.name, "top", "--interval", "0.5"
    )
    top.wait(f"culvert {net.gwa.daemon.name}", "2 SAs", "WORKER", "nothing was dropped")
    [out] = [sa for sa in net.gwa.daemon.json("sa") if sa["src"] == t.WAN_A4]
    top.press("2")
    top.wait(out["spi"], "REKEY", "SOFT", "HARD", "*ENDS")
    top.press(f"/{out['spi']}\r")
    top.wait(f'only "{out["spi"]}"')
    assert top.lines()[6].startswith(out["spi"]), top.lines()
    top.press("\r")
    top.wait("sequence", "rekey in", "expires in", "time [-", "policies that ask for it")
    top.wait(f"{t.CLIENT4}:", f"> {t.SERVER4}:7000 udp, ")
    top.press("5")
    top.wait("*BIT/S", f"{t.SERVER4}:7000", "protected")
    top.press("3/fwd\r")
    top.wait('only "fwd"')
    assert not any(" out " in line for line in top.lines()[5:]), top.lines()
    top.press("q")
    assert top.status() == 0
    stream.finish()


def test_flows_are_counted_with_their_sa_and_drops(network):
    net = network().up()
    gwa = net.gwa
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    blocked = net.client.spawn("ping", "-q", "-i", "0.1", BLOCKED)
    gwa.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", t.CLIENT4, "dst", BLOCKED, "dir", "out", "priority", "1", "action", "block"
    )
    time.sleep(1)
    told = gwa.daemon.json("flows", "--interval", "2")
    [out] = [f for f in told["flows"] if f["dst"] == t.SERVER4]
    [back] = [f for f in told["flows"] if f["src"] == t.SERVER4]
    spis = {sa["src"]: sa["spi"] for sa in gwa.daemon.json("sa")}
    assert (out["spi"], back["spi"]) == (spis[t.WAN_A4], spis[t.WAN_B4]), told
    assert (out["direction"], out["fate"], back["direction"]) == ("out", "protected", "in"), told
    assert 0.5 * RATE < out["packets"] / told["seconds"] < 1.5 * RATE and told["lost"] == 0, told
    assert abs(out["packets"] - back["packets"]) < 0.2 * RATE, told
    [held_up] = [f for f in told["flows"] if f["dst"] == BLOCKED]
    assert held_up["drops"] == {"out-policy-block": held_up["packets"]}, told
    # One SA's alone, as text.
    text = gwa.daemon.culvert("flows", "--spi", out["spi"]).stdout
    assert f"{t.SERVER4}:7000" in text and BLOCKED not in text and len(text.splitlines()) == 2, text
    wrong = gwa.daemon.culvert("flows", "--interface", "nope", check=False)
    assert wrong.returncode == 1 and "there is no such interface" in wrong.stderr, wrong
    blocked.stop()
    stream.finish()


def test_without_a_terminal_it_says_what_to_do(network):
    done = network().start().gwa.daemon.culvert("top", check=False)
    assert done.returncode == 1 and "--once" in done.stderr, done


def test_it_lives_through_a_restart_and_says_what_is_old(network):
    net = network().up()
    gwa = net.gwa
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    top = Terminal(gwa.host, culvert_binary(), "--name", gwa.daemon.name, "top", "--interval", "0.5")
    top.wait("2 SAs", "WORKER", "Mbit/s")
    gwa.daemon.stop()
    top.wait("no answer for 2s", "was up", "in -bit/s")
    assert re.search(r"as of \d\d:\d\d:\d\d UTC, no answer for \d+s: no daemon answers", top.lines()[0]), top.lines()
    # Keys are obeyed meanwhile.
    top.press("2")
    top.wait("DIR", "SPI", "no answer for")
    assert not any(re.search(r"\d[kM]\b", line) for line in top.lines()[5:]), top.lines()
    gwa.daemon.start()
    top.wait("drops", " out ", "Mbit/s")
    assert not top.shows("no answer"), top.lines()
    stream.finish()
    # The daemon hangs: nobody says no.
    os.kill(gwa.daemon.process.pid, signal.SIGSTOP)
    try:
        top.wait("no answer for 4s", "in -bit/s")
        top.press("/nope\r")
        top.wait("none of the SAs has \"nope\" in it; Esc shows all")
        top.press("?")
        top.wait("hold the picture", "HANDED ON")
    finally:
        os.kill(gwa.daemon.process.pid, signal.SIGCONT)
    top.press("q")
    assert top.status() == 0
