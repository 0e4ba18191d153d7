"""Software's view of a security association database, and the receiver's window written down with a
set of every number that was accepted."""

from pearson import pearson
from records import BUCKET_BITS, SA, SA_BUCKET, WINDOW, Drop, pack

SAS, STATES, BUCKETS = range(3)


def random_sa(rng, **fields):
    """An SA without limits, every other field random."""
    v6 = rng.randrange(2)
    record = {
        "valid": 1, "tunnel": rng.randrange(2), "v6": v6, "esn": rng.randrange(2),
        "cipher": rng.randrange(5), "key_len": rng.randrange(3), "auth": rng.randrange(3),
        "spi": rng.getrandbits(32), "src": rng.getrandbits(128), "dst": rng.getrandbits(128),
        "hop_limit": rng.randrange(256), "copy_df": rng.randrange(2), "key": rng.getrandbits(256),
        "salt": rng.getrandbits(32), "auth_keys": rng.getrandbits(512),
        "reqid": rng.getrandbits(10), "limits": {}} | fields
    if not record["v6"]:
        record["src"], record["dst"] = (record[n] >> 96 << 96 for n in ("src", "dst"))
    return record


def bucket_of(sa) -> int:
    """The bucket of an inbound SA."""
    size = 16 if sa["v6"] else 4
    return pearson(sa["dst"].to_bytes(16, "big")[:size] + sa["spi"].to_bytes(4, "big"), BUCKET_BITS)


class Sad:
    """Inbound SAs and their chains; changes come back as writes, sound after each."""

    def __init__(self):
        self.sas, self.chains = {}, {}

    def _link(self, index):
        """The fields that lead to the next SA of the chain."""
        chain = self.chains[bucket_of(self.sas[index])]
        at = chain.index(index)
        return {"more": 1, "next": chain[at + 1]} if at + 1 < len(chain) else {}

    def _write(self, index):
        return (SAS, index, pack(SA, self.sas[index] | self._link(index)))

    def insert(self, index, sa):
        assert index not in self.sas
        self.sas[index] = sa
        bucket = bucket_of(sa)
        self.chains.setdefault(bucket, []).insert(0, index)
        return [(STATES, index, 0), self._write(index),
                (BUCKETS, bucket, pack(SA_BUCKET, {"valid": 1, "first": index}))]

    def delete(self, index):
        """As Spd.delete."""
        bucket, link = bucket_of(self.sas[index]), self._link(index)
        chain = self.chains[bucket]
        at = chain.index(index)
        chain.remove(index)
        del self.sas[index]
        if at:
            unlink = self._write(chain[at - 1])
        else:
            unlink = (BUCKETS, bucket,
                      pack(SA_BUCKET, {"valid": 1, "first": chain[0]} if chain else {}))
        return [unlink, (SAS, index, pack(SA, link))]

    def find(self, v6, spi, dst):
        """Index of the SA, or None: every SA is tried."""
        for index, sa in self.sas.items():
            if (sa["v6"], sa["spi"], sa["dst"]) == (v6, spi, dst):
                return index
        return None


class Window:
    """A receiver: the full numbers that it has accepted."""

    def __init__(self, esn, top=0):
        self.esn, self.top, self.accepted = esn, top, {top} if top else set()

    def number(self, low):
        """The full number that belongs to the lower half: the first one not left of the window."""
        if not self.esn:
            return low
        left = self.top - WINDOW + 1
        base = (left >> 32) << 32 | low
        return base if base >= left else base + (1 << 32)

    def check(self, number):
        """What is to become of the packet with this number."""
        if not 0 < number < 1 << 64 or number <= self.top - WINDOW:
            return Drop.REPLAY_LATE
        return Drop.REPLAY if number in self.accepted else Drop.NONE

    def accept(self, number):
        self.accepted.add(number)
        self.top = max(self.top, number)

    def seen(self):
        return sum(1 << i for i in range(WINDOW) if self.top - i in self.accepted)
