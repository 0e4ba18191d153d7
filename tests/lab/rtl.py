"""The simulated gateway in hardware as an offload device of a daemon: for the demo and its scenario."""

import functools
import subprocess
import tempfile
import time
from pathlib import Path

from . import topology as t
from .packet_offload import Offload
from .planes import culvert_binary

DEVICE = '[device.rtl0]\nkind = "rtl-simulation"\nport = "wan"\n'

#: Gateway A runs strongSwan 6, which knows packet offload; its peer is a plain culvert with the machine's strongSwan.
PLANE = "culvert6+culvert"

#: gwa.swanctl.conf that asks for it.
FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "offload-rtl"


@functools.cache
def missing():
    """Why the binary has no such device; an empty text where it has."""
    if not culvert_binary().exists():
        return f"{culvert_binary()} is not built (make build-rtl)"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(f'[[port]]\ninterface = "wan"\n{DEVICE}')
        file.flush()
        done = subprocess.run(
            [culvert_binary(), "check", "--offline", "--config", file.name], capture_output=True, text=True, check=False
        )
    return "" if done.returncode == 0 else f"{culvert_binary()} has no simulated gateway (make build-rtl)"


def in_hardware(net):
    """Gives gateway A the device."""
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + DEVICE)
    return net


def by_hand(net):
    """A tunnel without an IKE daemon, as netlink requests: gateway A's in the hardware, gateway B's in software."""
    nets, out, back = ("10.1.0.0/24", "10.2.0.0/24"), (t.WAN_A4, t.WAN_B4), (t.WAN_B4, t.WAN_A4)

    def policy(direction, nets, ends):
        return (
            f"xfrm policy add src {nets[0]} dst {nets[1]} dir {direction} priority 100 "
            f"tmpl src {ends[0]} dst {ends[1]} proto esp reqid 1 mode tunnel"
        )

    def state(spi, ends):
        return (
            f"xfrm state add src {ends[0]} dst {ends[1]} proto esp spi {spi:#x} reqid 1 mode tunnel "
            f"aead rfc4106(gcm(aes)) 0x{spi:040x} 128 replay-window 32"
        )

    lines = [state(0x1000, out), state(0x2000, back), policy("out", nets[::-1], back)]
    batch(net.gwb, [*lines, *(policy(direction, nets, out) for direction in ("in", "fwd"))])
    offload = Offload(net.gwa)
    answers = [
        offload.policy(*nets, "out", out), offload.policy(*nets[::-1], "in", back),
        offload.state(0x2000, *back, "in"), offload.state(0x1000, *out, "out"),
    ]  # fmt: skip
    assert all(answer == (0, "") for answer in answers), answers
    batch(net.gwa, [policy("fwd", nets[::-1], back)])


def batch(gateway, lines):
    file = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    file.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", file)


def device(daemon):
    """What the device has counted."""
    (row,) = daemon.json("device")
    return row


def both_ends(net):
    """Packets by what the hardware has counted and by the peer's SAs: ((sealed, opened by the peer), (sealed by the
    peer, opened)), once nothing is under way: the simulation takes tens of milliseconds for a packet."""
    last, give_up = None, time.monotonic() + 10
    while (now := _both_ends(net)) != last and time.monotonic() < give_up:
        last = now
        time.sleep(0.5)
    return now


def _both_ends(net):
    row, peer = device(net.gwa.daemon), net.gwb.daemon.json("sa")
    there = sum(sa["packets"] for sa in peer if sa["src"] == t.WAN_A4)
    back = sum(sa["packets"] for sa in peer if sa["src"] == t.WAN_B4)
    return (row["sealed"], there), (back, row["opened"])
