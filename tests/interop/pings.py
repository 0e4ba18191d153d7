"""Pings of several sizes at once."""

from concurrent.futures import ThreadPoolExecutor

from lab.pinger import ping


def pings(host, to, sizes, count=3, **how):
    """Pings with each of the payload sizes at the same time; lab.pinger's result for each."""
    with ThreadPoolExecutor(len(sizes)) as pool:
        # All requests of a size at once: what a network does to one, it does to three.
        how = {"count": count, "interval": 0.0, **how}
        return list(pool.map(lambda size: ping(host, to, size=size, **how), sizes))
