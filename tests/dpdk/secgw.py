"""ipsec-secgw's configuration, and the same as `ip xfrm` says it.

Port 0 is the one that ESP comes and goes by, port 1 the protected one, as in all scripts. Only what
the scripts use is known: anything else is an error, so that no rule is lost without a word.
"""

import ipaddress
from dataclasses import dataclass

#: The scripts' SAs have neither encryption nor integrity, which culvert refuses. They get this.
INTEGRITY = "HMAC-SHA1-96"
INTEGRITY_KEY = bytes(range(20))

_FAMILIES = {"ipv4": 4, "ipv6": 6}
_ANY_PORT = "0:65535"


class ConfigError(Exception):
    """A line that is not understood."""


@dataclass(frozen=True)
class Policy:
    """A line `sp`: what goes from `src` to `dst` in one direction is protected by the SA `spi`."""

    direction: str
    spi: int
    priority: int
    src: object
    dst: object


@dataclass(frozen=True)
class Sa:
    """A line `sa`. `src` and `dst` are None in transport mode: then they are those of the packet."""

    direction: str
    spi: int
    mode: str
    src: object = None
    dst: object = None


@dataclass(frozen=True)
class Route:
    """A line `rt`."""

    dst: object
    port: int


def first_host(network):
    """The host that stands for a network: the scripts have each just one there."""
    return network[0] if network.num_addresses == 1 else network[1]


class Config:
    """What a configuration says."""

    def __init__(self, text):
        self.policies, self.sas, self.routes = [], [], []
        for line in text.replace("\\\n", " ").splitlines():
            words = line.partition("#")[0].split()
            if words:
                try:
                    self._line(words)
                except (ConfigError, ValueError, IndexError, KeyError) as error:
                    raise ConfigError(f"{' '.join(words)}: {error}") from error

    def _line(self, words):
        kind = words.pop(0)
        if kind == "sp":
            self._policy(words)
        elif kind == "sa":
            self._sa(words)
        elif kind == "rt":
            family = _FAMILIES[words.pop(0)]
            options = _options(words, "dst", "port")
            self.routes.append(Route(_network(options["dst"], family), int(options["port"])))
        else:
            raise ConfigError(f"{kind} is not known here")

    def _policy(self, words):
        family, direction, protocol, action = words[:4]
        if direction not in ("in", "out") or (protocol, action) != ("esp", "protect"):
            raise ConfigError("only `in` and `out`, and `esp protect`, are known here")
        options = _options(words[5:], "pri", "src", "dst", "sport", "dport")
        if {options.get("sport", _ANY_PORT), options.get("dport", _ANY_PORT)} != {_ANY_PORT}:
            raise ConfigError("ports are not known here")
        src, dst = (_network(options[end], _FAMILIES[family]) for end in ("src", "dst"))
        self.policies.append(Policy(direction, int(words[4]), int(options["pri"]), src, dst))

    def _sa(self, words):
        direction, spi = words[:2]
        options = _options(words[2:], "cipher_algo", "auth_algo", "mode", "src", "dst")
        if (options["cipher_algo"], options["auth_algo"]) != ("null", "null"):
            raise ConfigError("only `cipher_algo null auth_algo null` is known here")
        mode = options["mode"]
        if mode == "transport":
            self.sas.append(Sa(direction, int(spi), mode))
            return
        family = {"ipv4-tunnel": 4, "ipv6-tunnel": 6}[mode]
        src, dst = (_address(options[end], family) for end in ("src", "dst"))
        self.sas.append(Sa(direction, int(spi), "tunnel", src, dst))

    def ends(self, sa):
        """An SA's outer addresses."""
        if sa.mode == "tunnel":
            return sa.src, sa.dst
        policy = next(p for p in self.policies if (p.direction, p.spi) == (sa.direction, sa.spi))
        return first_host(policy.src), first_host(policy.dst)

    def own(self):
        """The addresses that the gateway must have: those that its SAs end at."""
        near = {self.ends(sa)[0 if sa.direction == "out" else 1] for sa in self.sas}
        return sorted(near, key=lambda address: (address.version, address))

    def batch(self):
        """What `ip -batch` is told. Windows are 0: the scripts begin at number 1 again and again."""
        lines = []
        for sa in self.sas:
            src, dst = self.ends(sa)
            af_unspec = "flag af-unspec " if sa.mode == "tunnel" else ""
            lines.append(
                f"xfrm state add src {src} dst {dst} proto esp spi {sa.spi} reqid {sa.spi} "
                f"mode {sa.mode} replay-window 0 {af_unspec}"
                f'auth-trunc hmac(sha1) 0x{INTEGRITY_KEY.hex()} 96 enc ecb(cipher_null) ""'
            )
        by_id = {(sa.direction, sa.spi): sa for sa in self.sas}
        for policy in self.policies:
            sa = by_id[policy.direction, policy.spi]
            ends = "src {} dst {} ".format(*self.ends(sa)) if sa.mode == "tunnel" else ""
            # A larger number goes first there, a smaller one here.
            for way in ("out",) if policy.direction == "out" else ("in", "fwd"):
                lines.append(
                    f"xfrm policy add src {policy.src} dst {policy.dst} dir {way} "
                    f"priority {1000 - policy.priority} "
                    f"tmpl {ends}proto esp reqid {sa.spi} mode {sa.mode}"
                )
        return "\n".join([*lines, ""])


def _options(words, *known):
    """Pairs of words, each pair's first one of those that are known."""
    options = dict(zip(words[::2], words[1::2], strict=True))
    unknown = set(options) - set(known)
    if unknown:
        raise ConfigError(f"not known here: {', '.join(sorted(unknown))}")
    return options


def _network(text, family):
    network = ipaddress.ip_network(text)
    if network.version != family:
        raise ConfigError(f"{text} is not IPv{family}")
    return network


def _address(text, family):
    address = ipaddress.ip_address(text)
    if address.version != family:
        raise ConfigError(f"{text} is not IPv{family}")
    return address
