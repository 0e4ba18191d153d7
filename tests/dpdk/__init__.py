"""The packet tests of DPDK's example gateway, ipsec-secgw, unmodified, with culvert in its place.

The scripts come from DPDK's source package (scripts/fetch-dpdk-suite). Each says what gateway it
wants, in the format of ipsec-secgw's configuration, and then sends packets into one of its two
ports and judges what leaves by the other: `python3 -m dpdk --help`, or `make dpdk-suite`.

`secgw` reads such a configuration and says it as `ip` does, `gateway` makes the hosts, `play` runs a
script among them, `main` is the command line.
"""
