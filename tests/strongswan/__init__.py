"""strongSwan's own test scenarios, unmodified, as an acceptance suite for culvert.

The scenarios come from strongSwan's source package (scripts/fetch-strongswan-suite). Each runs in
network namespaces of its own, with culvert on every host that does IPsec, and is judged by the
suite's own lines: `python3 -m strongswan --help`, or `make strongswan-suite`.

`scenario`, `dat` and `lines` read what the suite's files say, `network` and `guest` make its
hosts, `job` runs one scenario, `excuses` knows what cannot run, `report` sums up.
"""
