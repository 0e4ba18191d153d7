"""Traffic through a network: pings, numbered streams, iperf3."""

import json
import signal
import time
from pathlib import Path

from .base import PATIENCE_S, LabError
from .pinger import ping

__all__ = ["Iperf", "Stream", "assert_perfect", "assert_ping", "first_answer", "ping"]

STREAM = Path(__file__).with_name("stream.py")
PYTHON = "/usr/bin/python3"


def assert_ping(host, to, **how):
    """Every ping is answered, once; how long that takes is up to the machine."""
    result = ping(host, to, **{"wait": PATIENCE_S, **how})
    assert result["received"] == result["sent"] and not result["duplicates"], result["text"]
    return result


def first_answer(host, to, timeout=PATIENCE_S):
    """Seconds until a host gets its first answer. It asks every 100 ms; the answer may take longer
    than that."""
    start = time.monotonic()
    result = ping(host, to, count=int(timeout * 10), interval=0.1, enough=1)
    if result["received"] == 0:
        raise LabError(f"no answer of {to} within {timeout:g} s: {result['text']}")
    return time.monotonic() - start


class Stream:
    """A numbered UDP stream from one host to another and back, at a steady rate; with `most`, no more packets than
    that wait for an answer at a time, so that a machine that is too busy is sent less. The first may go `alone`, and the
    others when it is answered; or they are `held` until `go`.

    `finish` returns {"there": {...}, "back": {...}}: received, lost, duplicated, reordered.
    """

    def __init__(self, client, server, to, *, rate=1000, size=200, port=7000, count=0, most=0, alone=False, held=False):
        self.client, self.server, self.to, self.port = client, server, to, port
        self.rate, self.most = rate, most
        #: About when it began, by the monotonic clock.
        self.begun = self.ended = time.monotonic()
        self.echo = server.spawn(PYTHON, STREAM, "echo", "--port", port)
        self.echo.wait_output("ready")
        self.probe = client.spawn(
            PYTHON, STREAM, "probe", "--to", to, "--port", port, "--rate", rate, "--size", size,
            "--count", count, "--most", most, *(["--alone"] if alone else []), *(["--held"] if held else []),
        )  # fmt: skip
        self.probe.wait_output("ready")

    def go(self):
        """Lets a stream go on that is held."""
        self.probe.kill(signal.SIGUSR1)

    def wait(self):
        """Waits until a stream with a `count` has sent all of it."""
        self.probe.wait(2 * PATIENCE_S)

    def finish(self):
        self.ended = time.monotonic()
        self.probe.stop(signal.SIGTERM, timeout=PATIENCE_S)
        self.echo.stop(signal.SIGTERM, timeout=PATIENCE_S)
        back = _last_json(self.probe)
        there = _last_json(self.echo).get(str(back["stream"]), {"received": 0, "duplicated": 0})
        there["lost"] = back["sent"] - there["received"]
        return {"sent": back["sent"], "there": there, "back": back}


def assert_perfect(report):
    """Nothing lost, nothing doubled, in either direction, and something was sent."""
    assert report["sent"] > 0, report
    for way in ("there", "back"):
        assert report[way]["lost"] == 0, (way, report)
        assert report[way]["duplicated"] == 0, (way, report)


def _last_json(process):
    for line in reversed(process.output().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise LabError(f"{process.argv}: no report:\n{process.output()[-2000:]}")


class Iperf:
    """An iperf3 server on a host, and runs against it."""

    def __init__(self, server, port=5201):
        self.server, self.port = server, port
        self.process = server.spawn("iperf3", "-s", "-p", port, "--forceflush")
        self.process.wait_output("listening")

    def start(
        self, client, to, *, seconds=2, total=None, udp=None, reverse=False, length=None, streams=1
    ):
        """Starts a run in the background; `result` reads it. `udp`: bits per second to offer.

        With `total` it lasts until the system has taken so many bytes, however long that takes. What
        is in its buffers then is not waited for; they are kept small.
        """
        argv = ["iperf3", "-c", to, "-p", self.port, "-J", "-P", streams]
        argv += ["-n", total, "-w", "64K"] if total else ["-t", seconds]
        argv += ["-u", "-b", str(udp)] if udp else []
        argv += ["-R"] if reverse else []
        argv += ["-l", length] if length else []
        argv += ["--connect-timeout", PATIENCE_S * 1000]
        process = client.spawn(*argv)
        process.seconds, process.udp = seconds, bool(udp)
        return process

    def result(self, process):
        """Waits for a run; {"bits_per_second", "bytes" (that arrived) and "retransmits" (TCP),
        "lost_percent" (UDP)}."""
        process.wait(process.seconds + 2 * PATIENCE_S)
        text = process.output()
        try:
            report = json.loads(text[text.index("{") :])
        except ValueError as error:
            raise LabError(f"iperf3: {text[-1000:]}") from error
        if "error" in report:
            raise LabError(f"iperf3: {report['error']}")
        end = report["end"]
        if process.udp:
            # The sum's rate is what was offered. The receiver's own figures: its intervals where
            # the client receives, else the packets that the server did not miss.
            total = end["sum"]
            if report["start"]["test_start"]["reverse"]:
                arrived = sum(i["sum"]["bytes"] for i in report["intervals"]) * 8
            else:
                arrived = (total["packets"] - total["lost_packets"]) * 8
                arrived *= report["start"]["test_start"]["blksize"]
            return {
                "bits_per_second": arrived / total["seconds"],
                "lost_percent": total["lost_percent"],
            }
        return {
            "bits_per_second": end["sum_received"]["bits_per_second"],
            "bytes": end["sum_received"]["bytes"],
            "retransmits": end["sum_sent"].get("retransmits", 0),
        }

    def run(self, client, to, **how):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.result(self.start(client, to, **how))
            except LabError as error:
                # The client of the run before is done a moment before the server is.
                if "server is busy" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def stop(self):
        self.process.stop(timeout=2)
