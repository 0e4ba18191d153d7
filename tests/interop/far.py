"""The kernel's side of the static cases: runs in the guest, and does what it is asked.

    far.py FOLDER UDP-ADDRESS...

A request is a file FOLDER/N.request (JSON: "do" and arguments), its answer FOLDER/N.answer; each
appears there whole. One process for all of them, because starting one is what costs in a guest.

While it runs it holds a socket on port 4500 of each address that has the kernel take ESP out of UDP.
"""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from interop.pings import pings  # noqa: E402

UDP_ENCAP, UDP_ENCAP_ESPINUDP = 100, 2


class Here:
    """What the pinger takes for a host: this one."""

    @staticmethod
    def socket(*args):
        return socket.socket(*args)


def install(batch):
    """Has `ip` do a batch; returns what it said against it."""
    done = subprocess.run(["ip", "-batch", "-"], input=batch, capture_output=True, text=True)
    return done.stdout + done.stderr


def counters():
    """Packets of each SA that protects, in the order of the list; of each that compresses, and of those
    of IP in IP beside them; and the IPsec errors that were counted."""
    states = subprocess.run(["ip", "-s", "xfrm", "state"], capture_output=True, text=True).stdout
    current = r"^\s+proto (\w+) .*?lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)"
    of = {"packets": [], "compressed": [], "plain": []}
    kinds = {"esp": "packets", "ah": "packets", "comp": "compressed"}
    for proto, packets in re.findall(current, states, re.MULTILINE | re.DOTALL):
        of[kinds.get(proto, "plain")].append(int(packets))
    errors = dict(line.split() for line in Path("/proc/net/xfrm_stat").read_text().splitlines())
    return {**of, "errors": {k: int(v) for k, v in errors.items()}}


def ask(to, how):
    return pings(Here, to, **how)


CALLS = {"install": install, "counters": counters, "ping": ask}


def encap_socket(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, UDP_ENCAP_ESPINUDP)
    sock.bind((address, 4500))
    return sock


def main(folder, *addresses):
    keep = [encap_socket(address) for address in addresses]
    print("ready", len(keep), flush=True)
    number = 1
    while True:
        request = folder / f"{number}.request"
        while not request.exists():
            time.sleep(0.005)
        asked = json.loads(request.read_text())
        answer = CALLS[asked.pop("do")](**asked)
        part = folder / f"{number}.part"
        part.write_text(json.dumps(answer))
        part.rename(folder / f"{number}.answer")
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
