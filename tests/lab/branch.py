"""A branch with three uplinks, and a data centre: `net4` whose gateways have a tunnel over each uplink.

    client -- branch (gwa) ==[ mpls | internet | lte ]== data centre (gwb) -- server

The uplinks are three networks on one wire, which `Impaired` makes bad one by one. Each has an IKE connection of its own, and an
XFRM interface; the routes lead to the first.
"""

from dataclasses import dataclass

from .impair import Impaired


@dataclass(frozen=True)
class Uplink:
    """An uplink: its network, and the tunnel over it."""

    name: str
    #: First three bytes of its network, and of its tunnel's.
    outer: str
    inner: str
    if_id: int

    @property
    def net(self):
        return f"{self.outer}.0/24"


UPLINKS = (
    Uplink("mpls", "198.51.100", "10.9.1", 101),
    Uplink("internet", "203.0.113", "10.9.2", 102),
    Uplink("lte", "198.18.3", "10.9.3", 103),
)

_CONNECTION = """
  {name} {{
    version = 2
    local_addrs = {outer}.{here}
    remote_addrs = {outer}.{there}
    proposals = aes128-sha256-x25519
    local {{
      auth = psk
      id = {name}.{me}
    }}
    remote {{
      auth = psk
      id = {name}.{other}
    }}
    children {{
      {name} {{
        local_ts = {ts}
        remote_ts = {ts}
        esp_proposals = aes128gcm16
        if_id_in = {if_id}
        if_id_out = {if_id}
      }}
    }}
  }}
"""

_TUNNEL = """
[[tunnel]]
interface = "{name}"
if_id = {if_id}
"""

_PATH = """
[[path]]
name = "{name}"
tunnel = "{name}"
source = "{inner}.{here}"
to = "{inner}.{there}"
{settings}
"""

_REFLECTOR = """
[paths]
reflector = true
"""


def _swanctl(here, there, me, other, more, ts):
    connections = "".join(
        _CONNECTION.format(**vars(uplink), here=here, there=there, me=me, other=other, ts=ts) for uplink in UPLINKS
    )
    return f'connections {{{connections}{more}}}\nsecrets {{ ike {{ secret = "a secret for tests only" }} }}\n'


def branch(net, *, path="", config="", probes=True, reflector="", near="", near_connections="", ts="0.0.0.0/0"):
    """Gives both gateways of a `net4` the uplinks, tunnels and paths, and starts them; the impaired wire.

    `path` is added to each `[[path]]`, `reflector` to `[paths]`, `config` to both configurations; `near` and `near_connections` to those
    of gateway A. `ts` are the traffic selectors of the tunnels, in both directions."""
    for gateway, here, there, me, other in (
        (net.gwa, 1, 2, "branch", "dc"), (net.gwb, 2, 1, "dc", "branch"),
    ):  # fmt: skip
        gateway.host.address("wan", *(f"{uplink.outer}.{here}/24" for uplink in UPLINKS))
        is_near = gateway is net.gwa
        gateway.swan.configure(_swanctl(here, there, me, other, near_connections if is_near else "", ts))
        more = "".join(_TUNNEL.format(**vars(uplink)) for uplink in UPLINKS)
        if probes:
            paths = (_PATH.format(**vars(uplink), here=here, there=there, settings=path) for uplink in UPLINKS)
            more += f"{_REFLECTOR}{reflector}\n" + "".join(paths)
        more += config + (near if is_near else "")
        gateway.daemon.write_config(gateway.daemon.config.read_text() + more)
    net.start()
    for uplink in UPLINKS:
        net.gwa.swan.initiate(uplink.name)
    for gateway, here, site in ((net.gwa, 1, "10.2.0.0/24"), (net.gwb, 2, "10.1.0.0/24")):
        for uplink in UPLINKS:
            gateway.host.address(uplink.name, f"{uplink.inner}.{here}/24")
        gateway.host.ip("route", "replace", site, "dev", UPLINKS[0].name)
    return Impaired(net.mid)


def carried(gateway):
    """Packets that the outbound SA of each uplink has carried, by the uplink's name."""
    names = {uplink.if_id: uplink.name for uplink in UPLINKS}
    found = dict.fromkeys(names.values(), 0)
    for sa in gateway.daemon.json("sa"):
        if sa["direction"] == "out" and sa.get("if_id") in names:
            found[names[sa["if_id"]]] += sa["packets"]
    return found


def impaired(**impairments):
    """Rules of `Impaired.set`, by the uplink's name."""
    nets = {uplink.name: uplink.net for uplink in UPLINKS}
    return [{"net": nets[name], **rule} for name, rule in impairments.items()]


