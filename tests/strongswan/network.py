"""The suite's networks: three switches in a namespace of their own, and what is plugged into them.

    vnet1  192.168.0.0/24, fec0::/16    moon, sun, carol, dave, winnetou; alice's eth1
    vnet2  10.1.0.0/16,    fec1::/16    moon's eth1, alice, venus
    vnet3  10.2.0.0/16,    fec2::/16    sun's eth1, bob

The suite's own files (config/kvm) say so; they are read. A switch has the address .254, which the
hosts have as their default gateway; it forwards nothing and says so. Captures are taken at the switch's
end of a host's cable: that is what is on the wire, which a socket on a host with AF_XDP is not.
"""

import ipaddress
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field


@dataclass
class Interface:
    """An interface as /etc/network/interfaces has it."""

    name: str
    auto: bool = False
    addresses: list = field(default_factory=list)
    gateway: str = ""


def interfaces(text):
    """Reads /etc/network/interfaces: by name, without the loopback."""
    found = {}
    current = None
    auto = set()
    pending = None
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "auto":
            auto.update(words[1:])
        elif words[0] == "iface":
            current = found.setdefault(words[1], Interface(words[1]))
        elif words[0] == "address" and current:
            pending = words[1]
            if "/" in pending:
                current.addresses.append(pending)
        elif words[0] == "netmask" and current and pending and "/" not in pending:
            length = ipaddress.ip_network(f"{'::' if ':' in pending else '0.0.0.0'}/{words[1]}")
            current.addresses.append(f"{pending}/{length.prefixlen}")
        elif words[0] == "gateway" and current:
            current.gateway = words[1]
    found.pop("lo", None)
    for name, interface in found.items():
        interface.auto = name in auto
    return found


def cables(kvm, host):
    """The interfaces of a host: (name, network, hardware address), from its machine's definition."""
    root = ElementTree.parse(kvm / f"{host}.xml").getroot()
    found = []
    for interface in root.iter("interface"):
        name = interface.find("target").get("dev").removeprefix(f"{host}-")
        found.append(
            (name, interface.find("source").get("network"), interface.find("mac").get("address"))
        )
    return sorted(found)


def processors(kvm, host):
    """How many processors a host has, from its machine's definition."""
    return int(ElementTree.parse(kvm / f"{host}.xml").getroot().findtext("vcpu"))


def switch_addresses(kvm):
    """The switches' own addresses, by network."""
    found = {}
    for file in sorted(kvm.glob("vnet*.xml")):
        ip = ElementTree.parse(file).getroot().find("ip")
        length = ipaddress.ip_network(f"0.0.0.0/{ip.get('netmask')}").prefixlen
        found[file.stem] = f"{ip.get('address')}/{length}"
    return found


class Switches:
    """The three switches."""

    def __init__(self, lab, suite):
        self.lab, self.kvm = lab, suite.testing / "config" / "kvm"
        self.host = lab.host("net")
        self.host.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
        self.host.sysctl("net.ipv4.ip_forward", 1)
        for name, address in switch_addresses(self.kvm).items():
            self.host.ip("link", "add", name, "type", "bridge", "mcast_snooping", "0")
            self.host.ip("addr", "add", address, "dev", name)
            self.host.ip("link", "set", name, "up")
            # What comes to the default gateway to be forwarded draws an ICMP error.
            self.host.ip("rule", "add", "iif", name, "pref", "100", "type", "unreachable")

    def plug(self, host):
        """Cables up a host; returns the names of its interfaces."""
        names = []
        for name, network, mac in cables(self.kvm, host.name):
            port = f"{host.name}-{name}"
            self.lab.link(host, name, self.host, port)
            host.ip("link", "set", "dev", name, "down")
            host.ip("link", "set", "dev", name, "address", mac)
            self.host.ip("link", "set", "dev", port, "master", network)
            names.append(name)
        return names


def how_added(address):
    """What ifup adds to an address: IPv4's broadcast address, which programs ask for; IPv6 is ready at once."""
    return ["nodad"] if ":" in address else ["brd", "+"]


def bring_up(host, configured):
    """What a host's start does: the interfaces marked `auto`, with addresses and default route."""
    for interface in configured.values():
        if interface.auto:
            host.ip("link", "set", "dev", interface.name, "up")
            for address in interface.addresses:
                host.ip("addr", "add", address, "dev", interface.name, *how_added(address))
            if interface.gateway:
                host.route("default", "via", interface.gateway, "dev", interface.name)


def forwarding(text):
    """The settings of a sysctl.conf, as pairs."""
    return re.findall(r"^\s*(net\.[\w.]+)\s*=\s*(\S+)", text, re.MULTILINE)
