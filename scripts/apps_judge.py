"""Compares verdicts of culvert's classifier with those of nfstream's nDPI: see apps-judge."""

import collections
import ipaddress
import json
import multiprocessing
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import dpkt

ROOT = Path(__file__).resolve().parents[1]

#: The protocols that are compared: nDPI's names, and the words for what names the host in them.
FAMILIES = {"TLS": "tls", "QUIC": "quic", "DNS": "dns", "HTTP": "http"}
BY = {"tls-name": "tls", "quic-name": "quic", "dns-question": "dns", "http-host": "http"}


def ip_of(link, frame):
    """The IP packet of a frame; none of a link that is not known, or of what is no IP packet."""
    if link in (12, 14, 101, 228, 229):
        return frame
    if link == 0:
        return frame[4:]
    if link == 113:
        kind, frame = int.from_bytes(frame[14:16], "big"), frame[16:]
    elif link == 276:
        kind, frame = int.from_bytes(frame[:2], "big"), frame[20:]
    elif link == 9:
        frame = frame.removeprefix(b"\xff\x03")
        return frame[2:] if frame[:2] in (b"\x00\x21", b"\x00\x57") else None
    elif link == 1:
        kind, frame = int.from_bytes(frame[12:14], "big"), frame[14:]
    else:
        return None
    while kind in (0x8100, 0x88A8, 0x9100):
        kind, frame = int.from_bytes(frame[2:4], "big"), frame[4:]
    if kind == 0x8864:
        return frame[8:]
    return frame if kind in (0x0800, 0x86DD) else None


def packets(path):
    """Each IP packet of a capture, with its time in nanoseconds."""
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        link = reader.datalink()
        for time, frame in reader:
            if packet := ip_of(link, frame):
                yield int(time * 1_000_000_000), packet


def key(protocol, one, other):
    end = lambda end: (str(ipaddress.ip_address(end[0])), int(end[1]))  # noqa: E731
    return protocol, *sorted((end(one), end(other)))


def ours(path, classify):
    """Verdicts by flow."""
    framed = bytearray()
    for time, packet in packets(path):
        framed += (time & (1 << 63) - 1).to_bytes(8, "little") + len(packet).to_bytes(4, "little") + packet
    said = subprocess.run([classify], input=bytes(framed), capture_output=True, check=True).stdout
    verdicts = {}
    for line in said.decode().splitlines():
        row = json.loads(line)
        verdicts.setdefault(key(row["protocol"], row["client"], row["server"]), row)
    return verdicts


def theirs(path):
    """nDPI's verdicts by flow: protocol and host, of the protocols that are compared."""
    from nfstream import NFStreamer

    verdicts = {}
    for flow in NFStreamer(source=str(path), n_dissections=40, n_meters=1, accounting_mode=1):
        family = FAMILIES.get(flow.application_name.split(".")[0])
        host = (flow.requested_server_name or "").lower().rstrip(".")
        # A guess by port or address names no host.
        if family and host and not flow.application_is_guessed:
            ends = (flow.src_ip, flow.src_port), (flow.dst_ip, flow.dst_port)
            verdicts.setdefault(key(flow.protocol, *ends), (family, host))
    return verdicts


def told(path, queue):
    queue.put(theirs(path))


def theirs_apart(path):
    """The same in a process of its own: nDPI may crash on its own captures, or hang."""
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=told, args=(path, queue))
    process.start()
    try:
        return queue.get(timeout=120)
    except Exception:  # noqa: BLE001
        return None
    finally:
        process.kill()
        process.join()


def differs(ours, family, host):
    """How a verdict differs from nDPI's; none if it does not."""
    if ours is None:
        return "no flow"
    if ours["host"] is None:
        return f"no host ({ours['application']})"
    if ours["host"] != host:
        return f"another host, {ours['host']}"
    return None if BY.get(ours["known_by"]) == family or ours["known_by"] == "encrypted-hello" else f"known by {ours['known_by']}"


def main():
    folder, classify, *names = sys.argv[1:]
    judged = tomllib.loads((ROOT / "tests/apps-judge.toml").read_text())
    paths = sorted(path for path in Path(folder).iterdir() if path.suffix in (".pcap", ".pcapng"))
    if names:
        paths = [path for path in paths if path.stem in names]
    assert paths, "no such capture"
    # Hosts that are known to have been asked for, of captures that were made for this.
    told = Path(folder) / "hosts.json"
    hosts = json.loads(told.read_text()) if told.exists() else {}
    counts, excused = collections.Counter(), collections.Counter()
    wrong, unread = [], []
    for path in paths:
        try:
            mine = ours(path, classify)
        except (ValueError, dpkt.Error) as error:
            unread.append(f"{path.name}: {error}")
            continue
        if (host := hosts.get(path.stem)) and host not in {row["host"] for row in mine.values()}:
            wrong.append(f"{path.name}: no flow to {host}")
        verdicts = theirs_apart(path)
        if verdicts is None:
            unread.append(f"{path.name}: nDPI gave no answer")
            continue
        for flow, (family, host) in verdicts.items():
            counts[family] += 1
            difference = differs(mine.get(flow), family, host)
            if difference is None:
                counts["same"] += 1
                continue
            text = f"{path.name} {family} {host}: {difference}"
            reason = next((d["reason"] for d in judged["difference"] if re.fullmatch(d["match"], text)), None)
            if reason:
                excused[reason] += 1
            else:
                wrong.append(text)
    total = sum(counts[family] for family in BY.values())
    print(f"{len(paths)} captures, {total} flows with a host: "
          + ", ".join(f"{family} {counts[family]}" for family in BY.values()))  # fmt: skip
    judged_apart = sum(excused.values())
    print(f"the same host: {counts['same']} ({100 * counts['same'] / max(total, 1):.2f} %); "
          f"without the differences that were judged {100 * counts['same'] / max(total - judged_apart, 1):.2f} %")  # fmt: skip
    for reason, count in excused.most_common():
        print(f"  {count} differ: {reason}")
    for line in unread:
        print(f"  not read: {line}")
    for line in wrong[:200]:
        print(f"DIFFERS {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
