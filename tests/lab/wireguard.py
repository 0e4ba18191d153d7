"""The data plane `wireguard-go`: WireGuard in user space behind a TUN device, for comparison.

There is no IKE daemon: each gateway has a key of its own and its peer's, and routes the other site to the device.
"""

import shutil
import subprocess

from .base import ROOT, sh, wait_for
from .planes import PLANES, Plane, resident_bytes

#: Each gateway's peer: its name, its address, and the networks behind it.
_PEERS = {
    "gwa": ("gwb", "192.0.2.2", ("10.2.0.0/24", "2001:db8:2::/64")),
    "gwb": ("gwa", "192.0.2.1", ("10.1.0.0/24", "2001:db8:1::/64")),
}

_PORT = 51820

_CONF = """\
[Interface]
PrivateKey = {private}
ListenPort = {port}

[Peer]
PublicKey = {public}
Endpoint = {endpoint}:{port}
AllowedIPs = {networks}
"""


#: Where `scripts/fetch-wireguard-go` builds it, with its version.
_BUILT = ROOT / "build/wireguard-go"


def program():
    """The one that was built, else Debian's; None where there is neither."""
    built = _BUILT / "wireguard-go"
    return str(built) if built.exists() else shutil.which("wireguard-go")


def version():
    """Which of them it is, for a table; None where there is neither."""
    if program() == str(_BUILT / "wireguard-go"):
        return (_BUILT / "version").read_text().strip()
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "wireguard-go"], capture_output=True, text=True)
    return f"{done.stdout.strip()} (Debian's)" if done.returncode == 0 else None


def missing():
    """Why there is no such plane here; an empty text when there is."""
    there = {"wireguard-go": program(), "wg": shutil.which("wg")}
    lacking = [name for name, where in there.items() if not where]
    return f"not installed: {', '.join(lacking)} (packages wireguard-go and wireguard-tools)" if lacking else ""


class WireGuard(Plane):
    """wireguard-go between the gateways of the topology `net4`."""

    name = "wireguard-go"
    ipsec = False

    def attach(self, gateway):
        gateway.swan = None
        gateway.wireguard = None

    def start(self, gateway):
        host = gateway.host
        peer, endpoint, networks = _PEERS[host.name]
        # Its control socket has the device's name, in a folder that all hosts share.
        device = f"w{host.lab.run_id}{host.name[-1]}"[:15]
        host.lab.owns(f"/run/wireguard/{device}.sock")
        gateway.wireguard = host.spawn(program(), "-f", device, env={"LOG_LEVEL": "error"})
        wait_for(f"wireguard-go on {host.name}", lambda: host.run("wg", "show", device, check=False).returncode == 0)
        text = _CONF.format(
            private=_key(host.lab, host.name), public=sh("wg", "pubkey", stdin=_key(host.lab, peer)).stdout.strip(),
            endpoint=endpoint, port=_PORT, networks=", ".join(networks),
        )  # fmt: skip
        host.run("wg", "setconf", device, "/dev/stdin", stdin=text)
        host.ip("link", "set", "dev", device, "up")
        for network in networks:
            host.ip("-6" if ":" in network else "-4", "route", "replace", network, "dev", device)

    def stop(self, gateway):
        gateway.wireguard.stop()

    def rss_bytes(self, gateway):
        return resident_bytes(gateway.wireguard.pid)


def _key(lab, name):
    """A gateway's private key, made when it is asked for first."""
    file = lab.tmp / f"{name}.wireguard-key"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(sh("wg", "genkey").stdout)
    return file.read_text().strip()


PLANES[WireGuard.name] = WireGuard()
