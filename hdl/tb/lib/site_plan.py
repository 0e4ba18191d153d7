"""The network around a gateway under test: its SAs and policies, in both directions, and the table
writes that load them.

Each flow has a network of either version on the far side: destinations of what goes out, sources of
what comes in. Some ports have a policy of their own, wherever they are.
"""

from dataclasses import dataclass, field

import esp
from open_model import AES_CBC, DES, GCM, NONE, SHA1, SHA256, TDES, OpenSa
from records import BYPASS, DISCARD, PROTECT, STATE, pack
from sad_model import SAS, STATES

CIPHERS = ("CipherAesCbc", "CipherAesGcm", "CipherDes", "Cipher3Des")
AUTHS = ("AuthNone", "AuthSha1", "AuthSha256")
# The ports that have policies, and an SA that does not exist.
BYPASS_PORT, DISCARD_PORT, NO_SA_PORT, NO_SA = 500, 9, 7, 1000
NOBODY = 100  # a flow that has no policy
UDP = 17
SAME_BYTES = 60  # payload of flows whose packets are all alike
SAD_TABLES = 3  # number of the SAD's first table among a direction's tables


@dataclass(frozen=True)
class Spec:
    """What one flow is to be."""

    cipher: int
    key_bytes: int
    auth: int
    tunnel: bool
    v6: bool
    esn: bool = False
    top: int = 5000  # the last number that was used
    limits: dict = field(default_factory=dict)
    same: bool = False  # all its packets are good and of one size


WRAP = (1 << 32) - 12  # the lower half of the number wraps soon
SPECS = (
    Spec(AES_CBC, 16, SHA1, tunnel=True, v6=False),
    Spec(AES_CBC, 32, SHA256, tunnel=True, v6=True, esn=True, top=WRAP),
    Spec(GCM, 16, NONE, tunnel=True, v6=False, esn=True, top=WRAP + (5 << 32)),
    Spec(GCM, 32, NONE, tunnel=False, v6=True),
    Spec(TDES, 24, SHA1, tunnel=False, v6=False, limits={"soft_bytes": 100}),
    Spec(AES_CBC, 24, SHA1, tunnel=False, v6=True, esn=True),
    Spec(DES, 8, SHA256, tunnel=True, v6=False, limits={"soft_packets": 2}),
    Spec(AES_CBC, 16, SHA256, tunnel=False, v6=False),
    Spec(AES_CBC, 16, SHA1, tunnel=False, v6=False, same=True,
         limits={"soft_packets": 3, "hard_packets": 6}),
)
# Outbound only: numbers that end, a limit in bytes, and a cipher without a HMAC, which is refused.
SPECS_OUT = (
    Spec(GCM, 24, NONE, tunnel=True, v6=True, same=True, top=(1 << 32) - 5),
    Spec(AES_CBC, 32, SHA1, tunnel=True, v6=False, same=True, limits={"hard_bytes": 500}),
    Spec(AES_CBC, 16, NONE, tunnel=True, v6=False),
)


def network(flow, v6):
    """The flow's network, 10.1.n.0/24 or 2001:db8:1:n::/64. No two n differ in one bit alone, so a packet
    with a wrong bit in its address is nobody's."""
    number = flow << 1 | flow.bit_count() & 1
    return 0x20010DB8_00010000 << 64 | number << 64 if v6 else 10 << 24 | 1 << 16 | number << 8


def selector(v6, **fields):
    zero = {"v6": int(v6), "src": 0, "dst": 0, "proto": 0, "sport": 0, "dport": 0}
    return zero | fields


def policies(spd, inbound):
    """Shapes and the ports' policies: the writes."""
    writes = []
    far, port = ("src", "sport") if inbound else ("dst", "dport")
    for v6 in (False, True):
        writes += spd.set_shape(2 * v6, v6=v6, **{f"{far}_bits": 64 if v6 else 24})
        writes += spd.set_shape(2 * v6 + 1, v6=v6, proto=1, **{port: 1})
        for number, (value, action) in enumerate(
                ((BYPASS_PORT, BYPASS), (DISCARD_PORT, DISCARD), (NO_SA_PORT, PROTECT))):
            writes += spd.insert(900 + 2 * number + v6, 2 * v6 + 1,
                                 selector(v6, proto=UDP, **{port: value}), action=action,
                                 priority=10, sa=NO_SA)
    return writes


def protect(spd, inbound, flow, sa, rng):
    """The policies of a flow's networks: the writes. Both are of one priority class: packets of another
    class may overtake. In transport mode the SA carries one version, and policy names it for both."""
    writes, low = [], rng.randrange(2)
    for v6 in (False, True):
        address = network(flow, v6) << (0 if v6 else 96)
        far = selector(v6, **{"src" if inbound else "dst": address})
        writes += spd.insert(2 * flow + v6, 2 * v6, far, action=PROTECT, priority=20, low=low, sa=sa)
    return writes


def add_outbound(model, flow, spec, rng):
    """Adds a flow to the outbound model: the writes, in a direction's tables."""
    size = 16 if spec.v6 else 4
    sa = esp.Sa(
        cipher=CIPHERS[spec.cipher], key=rng.randbytes(spec.key_bytes), auth=AUTHS[spec.auth],
        auth_key=rng.randbytes(20), salt=rng.randbytes(4), iv_salt=rng.getrandbits(64),
        spi=0x1000 + flow, tunnel=spec.tunnel,
        src=rng.randbytes(size), dst=rng.randbytes(size), esn=spec.esn,
        hop_limit=rng.randint(1, 255), copy_df=bool(rng.randrange(2)))
    model.add(flow, sa, spec.top, spec.limits)
    record = esp.LAYOUT.pack("sa_t", **sa.record(), limits=spec.limits)
    writes = [(SAD_TABLES + STATES, flow, pack(STATE, {"top": spec.top, "seen": sa.iv_salt})),
              (SAD_TABLES + SAS, flow, record)]
    return writes + protect(model.spd, False, flow, flow, rng)


def add_inbound(model, flow, spec, rng):
    """Adds a flow to the inbound model: the writes, in a direction's tables."""
    size = 16 if spec.v6 else 4
    src = (network(flow, spec.v6) + 1).to_bytes(size, "big")
    sa = OpenSa(index=flow, spi=0x2000 + flow, cipher=spec.cipher, auth=spec.auth,
                tunnel=spec.tunnel, v6=spec.v6, esn=spec.esn, key_bytes=spec.key_bytes, src=src,
                dst=rng.randbytes(size), seed=rng.random())
    writes = model.add(sa, spec.top, spec.limits)
    # The place's state is written before its SA (registers.md), with the number that was used last.
    writes[0] = (STATES, flow, pack(STATE, {"top": spec.top, "seen": 1}))
    writes = [(SAD_TABLES + table, index, data) for table, index, data in writes]
    return writes + protect(model.spd, True, flow, sa.reqid, rng)
