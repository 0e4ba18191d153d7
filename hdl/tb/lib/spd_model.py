"""Software's view of a security policy database: hash chains to be loaded, and a slow look-up that
knows nothing of hashes."""

from pearson import pearson
from records import BUCKET_BITS, POLICY, POLICY_BUCKET, SHAPE, SHAPES, pack

BUCKETS, POLICIES, SHAPE_TABLE = range(3)


def masked(selector: dict, shape: dict) -> dict:
    """The bits of a selector that count in a shape."""
    def prefix(value, bits):
        return value >> 128 - bits << 128 - bits

    return {"v6": selector["v6"], "src": prefix(selector["src"], shape["src_bits"]),
            "dst": prefix(selector["dst"], shape["dst_bits"]),
            **{name: selector[name] if shape[name] else 0 for name in ("proto", "sport", "dport")}}


def text(selector: dict, number: int) -> bytes:
    """What is hashed of a masked selector in shape `number`."""
    size = 16 if selector["v6"] else 4
    return (bytes([selector["v6"]]) + selector["src"].to_bytes(16, "big")[:size]
            + selector["dst"].to_bytes(16, "big")[:size] + bytes([selector["proto"]])
            + selector["sport"].to_bytes(2, "big") + selector["dport"].to_bytes(2, "big")
            + bytes([number]))


def bucket_of(selector: dict, number: int) -> int:
    return pearson(text(selector, number), BUCKET_BITS)


class Spd:
    """Shapes, policies and their chains. Changes come back as writes, in an order in which the
    database is sound after each."""

    def __init__(self):
        self.shapes = [{name: 0 for name, _ in SHAPE} for _ in range(SHAPES)]
        self.policies = {}
        self.chains = {}  # bucket: indices of its policies

    def set_shape(self, number, **fields):
        self.shapes[number] = {name: 0 for name, _ in SHAPE} | {"valid": 1} | fields
        return [(SHAPE_TABLE, number, pack(SHAPE, self.shapes[number]))]

    def _link(self, index):
        """The fields that lead to the next policy of the chain."""
        policy = self.policies[index]
        chain = self.chains[bucket_of(policy["selector"], policy["shape"])]
        at = chain.index(index)
        return {"more": 1, "next": chain[at + 1]} if at + 1 < len(chain) else {}

    def _write(self, index):
        """The write of a policy, with its link."""
        return (POLICIES, index, pack(POLICY, self.policies[index] | self._link(index)))

    def insert(self, index, shape, selector, **fields):
        """A policy for the packets that look like `selector` in this shape; it becomes the first
        of its chain."""
        assert index not in self.policies
        selector = masked(selector, self.shapes[shape])
        self.policies[index] = {"valid": 1, "shape": shape, "selector": selector} | fields
        bucket = bucket_of(selector, shape)
        self.chains.setdefault(bucket, []).insert(0, index)
        return [self._write(index),
                (BUCKETS, bucket, pack(POLICY_BUCKET, {"valid": 1, "first": index}))]

    def delete(self, index):
        """Takes a policy out of its chain; the others of the chain stay in force all the time. Its
        link stays, for look-ups that have come that far."""
        policy, link = self.policies[index], self._link(index)
        bucket = bucket_of(policy["selector"], policy["shape"])
        chain = self.chains[bucket]
        at = chain.index(index)
        chain.remove(index)
        del self.policies[index]
        if at:
            unlink = self._write(chain[at - 1])
        else:
            first = {"valid": 1, "first": chain[0]} if chain else {}
            unlink = (BUCKETS, bucket, pack(POLICY_BUCKET, first))
        return [unlink, (POLICIES, index, pack(POLICY, link))]

    def look(self, selector):
        """The policy for a packet, or None: every policy is tried."""
        matches = [p for p in self.policies.values()
                   if self.shapes[p["shape"]]["valid"]
                   and self.shapes[p["shape"]]["v6"] == selector["v6"]
                   and masked(selector, self.shapes[p["shape"]]) == p["selector"]]
        return min(matches, key=lambda p: (p["priority"], p["shape"]), default=None)
