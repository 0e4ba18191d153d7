"""SAs and policies by the thousand, as lines for `ip -batch`: one set for each tunnel, by kind.

    sites   a network of 256 addresses behind each peer, the same network on this side
    hosts   one address behind each peer, anything on this side: road warriors
    out     as sites, and outbound policies alone: each has a route of its own
    v6      as sites, in IPv6: /64 behind each peer

SAs come in pairs, policies in threes (out, in, forward).
"""

import ipaddress

LOCAL4, LOCAL6 = "192.0.2.1", "2001:db8:f::1"
BASES = {
    "sites": (24, int(ipaddress.ip_address("10.0.0.0")), "172.16.0.0/12"),
    "hosts": (32, int(ipaddress.ip_address("10.0.0.0")), "0.0.0.0/0"),
    "out": (24, int(ipaddress.ip_address("10.0.0.0")), "172.16.0.0/12"),
    "v6": (64, int(ipaddress.ip_address("fd00::")), "fd80::/16"),
}


class Objects:
    """The requests of one kind, as lines for `ip -batch`."""

    def __init__(self, kind):
        self.kind = kind
        self.directions = ("out",) if kind == "out" else ("out", "in", "fwd")
        self.len, self.base, self.near = BASES[kind]
        self.address = ipaddress.IPv6Address if kind == "v6" else ipaddress.IPv4Address
        self.local = LOCAL6 if kind == "v6" else LOCAL4

    def peer(self, tunnel):
        base = "2001:db8:e::" if self.kind == "v6" else "198.18.0.0"
        return str(self.address(int(ipaddress.ip_address(base)) + tunnel))

    def sa(self, number):
        """Destination, source and SPI; spread over the range, as IKE daemons choose them."""
        ends = (self.peer(number // 2), self.local)
        src, dst = ends if number % 2 else reversed(ends)
        return f"src {src} dst {dst} proto esp spi {0x100 + number * 40503 % 0xFFFFFF:#x}"

    def add_sa(self, number):
        key = f"{number:040x}"
        return (
            f"xfrm state add {self.sa(number)} reqid {number // 2 + 1} mode tunnel "
            f"replay-window 32 aead rfc4106(gcm(aes)) 0x{key} 128"
        )

    def delete_sa(self, number):
        return f"xfrm state delete {self.sa(number)}"

    def place(self, number):
        """The tunnel of a policy, and its direction."""
        tunnel, direction = divmod(number, len(self.directions))
        return tunnel, self.directions[direction]

    def policy(self, number):
        width = 32 if self.address is ipaddress.IPv4Address else 128
        tunnel, direction = self.place(number)
        far = f"{self.address(self.base + (tunnel << (width - self.len)))}/{self.len}"
        src, dst = (self.near, far) if direction == "out" else (far, self.near)
        return f"src {src} dst {dst} dir {direction}"

    def add_policy(self, number):
        tunnel, direction = self.place(number)
        ends = (self.local, self.peer(tunnel))
        src, dst = ends if direction == "out" else reversed(ends)
        return (
            f"xfrm policy add {self.policy(number)} priority 375423 tmpl src {src} dst {dst} "
            f"proto esp reqid {tunnel + 1} mode tunnel"
        )

    def delete_policy(self, number):
        return f"xfrm policy delete {self.policy(number)}"
