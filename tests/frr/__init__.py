"""FRR's own topotests of BFD, unmodified, with culvert as the data plane of some routers' `bfdd`.

The tests come from FRR's source package (scripts/fetch-frr-suite), with the library that makes their networks:
`python3 -m frr --help`, or `make frr-suite`.

`plugin` is loaded into their pytest and starts a culvert beside `bfdd`, `main` runs one pytest per topology and judges
what it and the culverts say.
"""
