"""A small cell: an NR and an LTE modem behind one backhaul, in several deployments (docs/guides/small-cell.md).

    network      the hosts, their links, and what runs on them
    gtpu, user_plane, operations   the programs of modems and core network
    deployments  the four ways, brought up and used
    evidence     what was seen while traffic ran; `learning`: when `culvert flows` knew it
    claims       what each deployment promises, proved by evidence
    picture      hosts, ways and packet counts as text
"""
