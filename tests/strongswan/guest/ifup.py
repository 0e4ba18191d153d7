#!/usr/bin/python3
"""ifup and ifdown for what the suite's /etc/network/interfaces say."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "/usr/local/lib/suite")
from network import how_added, interfaces  # noqa: E402

name = sys.argv[1]
interface = interfaces(Path("/etc/network/interfaces").read_text())[name]


def ip(*args):
    subprocess.run(["/bin/ip", *args], check=False)


if Path(sys.argv[0]).name == "ifdown":
    ip("addr", "flush", "dev", name)
    ip("link", "set", "dev", name, "down")
else:
    ip("link", "set", "dev", name, "up")
    for address in interface.addresses:
        ip("addr", "add", address, "dev", name, *how_added(address))
    if interface.gateway:
        ip("route", "add", "default", "via", interface.gateway, "dev", name)
