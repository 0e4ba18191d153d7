"""`culvert top` on a terminal, and its rates against a stream of a known one."""

import fcntl
import os
import pty
import select
import struct
import termios
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import Stream

RATE = 500
BLOCKED = "10.2.0.77"
LINES, COLUMNS = 24, 80


class Terminal:
    """A program on a terminal, whose screen another's emulator keeps."""

    def __init__(self, host, *argv):
        pyte = pytest.importorskip("pyte")
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            argv = [str(arg) for arg in host.argv(*argv)]
            os.execvp(argv[0], argv)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def lines(self):
        """The screen as it is by now."""
        while select.select([self.fd], [], [], 0.05)[0]:
            try:
                self.stream.feed(os.read(self.fd, 65536))
            except OSError:
                break
        return self.screen.display

    def shows(self, *texts):
        return all(any(text in line for line in self.lines()) for text in texts)

    def wait(self, *texts):
        try:
            wait_for(f"{texts} on the screen", lambda: self.shows(*texts))
        except Exception as error:
            raise AssertionError("\n".join(self.lines())) from error

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def status(self):
        """How it ended."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.lines()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it does not end")


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
