"""Random sets of policies of a small universe, and packets of the same one: so small that policies overlap, tie and
shadow each other, and that packets hit them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Universe:
    """The prefixes of either site, the wide ones first, and the hosts of one family."""

    family: int
    near: tuple
    far: tuple
    near_hosts: tuple
    far_hosts: tuple
    #: Of the gateway itself.
    own: str
    icmp: int
    icmp_name: str


V4 = Universe(
    4, ("10.1.0.0/24", "10.1.0.8/29", "10.1.0.10/32"), ("10.2.0.0/24", "10.2.0.8/29", "10.2.0.10/32"),
    ("10.1.0.10", "10.1.0.11", "10.1.0.20"), ("10.2.0.10", "10.2.0.11", "10.2.0.20"), "10.1.0.1", 1, "icmp",
)  # fmt: skip
V6 = Universe(
    6, ("2001:db8:1::/64", "2001:db8:1::10/125", "2001:db8:1::10/128"),
    ("2001:db8:2::/64", "2001:db8:2::10/125", "2001:db8:2::10/128"),
    ("2001:db8:1::10", "2001:db8:1::11", "2001:db8:1::20"),
    ("2001:db8:2::10", "2001:db8:2::11", "2001:db8:2::20"), "2001:db8:1::1", 58, "ipv6-icmp",
)  # fmt: skip
UNIVERSES = {universe.family: universe for universe in (V4, V6)}

UDP, TCP = 17, 6
PORTS = (7001, 7002)
PRIORITIES = (100, 100, 200, 300)

#: Marks of packets: whose class (DSCP) is the number of its mark here gets it. None has bits of culvert's own
#: (`tun.mark`, `tun.judged_mark`), by which it knows what it has decrypted.
MARKS = (0, 1, 5, 15, 0x2F, 0xFF, 0x8000_0001, 0xCFFF_FFFF)
MASKS = (0, 1, 0x0F, 0x0F, 0xF0, 0xFF, 0x8000_0000, 2**32 - 1)

#: SAs in each direction: how many there are, and how many more templates ask for in vain.
SAS, MISSING = 3, 1


@dataclass(frozen=True)
class Policy:
    """A policy; `sa` is the number of the SA that its template asks for, from 1, or 0 for none."""

    direction: str
    src: str
    dst: str
    upper: str
    priority: int
    action: str
    sa: int
    #: As `ip xfrm` has it: `mark 1 mask 255`.
    mark: str = ""

    def selector(self):
        return f"src {self.src} dst {self.dst} {self.upper}"


@dataclass(frozen=True)
class Packet:
    """A packet from client's side or the peer's; `sa` is the number of the SA that it comes by, 0: in clear."""

    way: str
    src: str
    dst: str
    protocol: int
    ports: tuple
    sa: int = 0
    #: The number of its mark.
    mark: int = 0


def mark(random):
    """A mark and a mask; often that of a packet, with more bits than the mask has."""
    mask = random.choice(MASKS)
    return random.choice(MARKS) & mask | random.choice((0, random.getrandbits(32))) & ~mask, mask


def policies(random, universe, marked=False):
    """A set of policies: (direction, selector, mark) is unique, as it is in the kernel."""
    found = {}
    for direction in ("out", "fwd", "in"):
        for _ in range(random.randint(2, 6)):
            # What is forwarded out is judged by `fwd` too.
            outward = direction == "out" or direction == "fwd" and random.random() < 0.25
            src, dst = (universe.near, universe.far) if outward else (universe.far, universe.near)
            upper = random.choice(("", "", "proto udp", "proto tcp", f"proto {universe.icmp_name}"))
            if upper in ("proto udp", "proto tcp") and random.random() < 0.6:
                upper += f" {random.choice(('sport', 'dport'))} {random.choice(PORTS)}"
            protects = random.random() < 0.6 and not (outward and direction == "fwd")
            action = "block" if not protects and random.random() < 0.5 else "allow"
            sa = random.randint(1, SAS + MISSING) if protects else 0
            # A missing SA is rare: it blocks.
            sa = sa if sa <= SAS or random.random() < 0.3 else SAS if protects else 0
            policy = Policy(
                direction, random.choice(src), random.choice(dst), upper, random.choice(PRIORITIES), action, sa
            )
            value, mask = mark(random) if marked else (0, 0)
            if mask:
                policy = replace(policy, mark=f"mark {value:#x} mask {mask:#x}")
            found.setdefault((direction, policy.selector(), value & mask, mask), policy)
    return list(found.values())


def packets(random, universe, count, marked=False):
    """Packets out of the client's site, and into it: in clear, and by each SA."""
    for _ in range(count):
        way = random.choice(("out", "in"))
        near, far = random.choice(universe.near_hosts), random.choice(universe.far_hosts)
        if way == "in" and random.random() < 0.25:
            near = universe.own
        src, dst = (near, far) if way == "out" else (far, near)
        protocol = random.choice((UDP, UDP, TCP, universe.icmp))
        ports = (random.choice((*PORTS, 9000)), random.choice((*PORTS, 9000)))
        sa = random.randint(0, SAS) if way == "in" else 0
        yield Packet(way, src, dst, protocol, ports, sa, random.randrange(len(MARKS)) if marked else 0)
