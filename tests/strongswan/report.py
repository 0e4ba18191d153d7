"""What a run says: a line per scenario, failures by cause, and the result as JSON."""

import collections
import json
import re


def first_failure(result):
    """The first line that did not hold, shortened for a terminal."""
    if result["failures"]:
        return result["failures"][0]["line"]
    return result["error"]


def line(result, number, total):
    """The progress line of a finished scenario."""
    text = f"[{number}/{total}] {result['seconds']:5.1f} s  {result['verdict']:7} {result['name']}"
    if result["verdict"] == "failed":
        text += f"\n        {first_failure(result)[:220]}"
    elif result.get("reason"):
        text += f"  ({result['reason']})"
    return text


def judge(result, excuse):
    """Adds the verdict: passed, failed, or skipped with a reason."""
    if result["passed"]:
        result["verdict"] = "passed"
        if excuse:
            result["reason"] = f"excuse no longer needed: {excuse.reason}"
            result["stale"] = True
    elif excuse:
        result["verdict"], result["reason"] = "skipped", excuse.reason
    elif lacking(result):
        result["verdict"] = "skipped"
        result["reason"] = f"strongSwan's plugins here lack: {lacking(result)}"
    else:
        result["verdict"] = "failed"
    return result


def lacking(result):
    """The algorithm that the IKE daemon says none of its plugins has: neither's nor culvert's doing."""
    for text in result["refused"]:
        match = re.search(r"\[(?:IKE|LIB|CFG)\] (\S+ with \S+|\S+) not supported", text)
        if match:
            return match.group(1)
    return ""


def skipped(name, excuse):
    return {"name": name, "seconds": 0.0, "verdict": "skipped", "reason": excuse.reason,
            "failures": [], "error": "", "drops": {}, "refused": [], "filtered": {}}  # fmt: skip


#: Kinds of checks, by what stands in the line; the first that fits.
_KINDS = (
    ("no SA or policy left at the end", r"nothing left"),
    ("seen on the wire", r"::tcpdump::"),
    ("a ping, or another program's traffic", r"::\s*(ping|ssh|traceroute|wget)"),
    ("IKE_SA and CHILD_SA as swanctl lists them", r"swanctl --list-sa"),
    ("other things that swanctl lists", r"swanctl"),
    ("the legacy daemon's status", r"::\s*ipsec "),
    ("databases (ip xfrm)", r"ip (-s )?xfrm"),
    ("IKE daemon's log", r"/var/log/"),
    ("addresses and routes", r"::\s*ip "),
    ("packet filter", r"iptables"),
)


def kind(text):
    for name, pattern in _KINDS:
        if re.search(pattern, text):
            return name
    return "other"


def cause(result):
    """What most likely stands behind a failure, from the evidence that says most about it."""
    refused = [text for text in result["refused"] if "[KNL]" in text]
    if refused:
        errors = [text.split("[KNL] ")[1] for text in refused if "netlink error" in text]
        return f"culvert refused a request ({(errors or ['see the log'])[0]})"
    if not result["failures"]:
        return "did not run to its end"
    if result["filtered"]:
        return "the packet filter of a host that does IPsec dropped packets"
    return f"first failed at: {kind(first_failure(result))}"


def causes(results):
    """Failed results by cause, the largest group first."""
    groups = collections.defaultdict(list)
    for result in results:
        if result["verdict"] == "failed":
            groups[cause(result)].append(result)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def summary(results):
    """The text at the end of a run."""
    lines = []
    for what, group in causes(results).items():
        lines.append(f"\n{len(group)} failed: {what}")
        for result in sorted(group, key=lambda r: r["name"]):
            lines.append(f"  {result['name']}")
            lines.append(f"      {first_failure(result)[:300]}")
            for host, drops in result["drops"].items():
                counts = ", ".join(f"{reason} {count}" for reason, count in drops.items())
                lines.append(f"      drops on {host}: {counts}")
            for host, chains in result["filtered"].items():
                counts = ", ".join(f"{chain} {count}" for chain, count in chains.items())
                lines.append(f"      dropped by default policy on {host}: {counts}")
            for refused in result["refused"][:3]:
                lines.append(f"      refused on {refused[:200]}")
    reasons = collections.Counter(r["reason"] for r in results if r["verdict"] == "skipped")
    if reasons:
        lines.append("\nskipped:")
        lines += [f"  {count:4} {reason}" for reason, count in reasons.most_common()]
    stale = [r for r in results if r.get("stale")]
    for result in stale:
        lines.append(f"\n{result['name']}: {result['reason']}")
    return "\n".join(lines)


def counts(results):
    """How many of each verdict."""
    return {v: sum(r["verdict"] == v for r in results) for v in ("passed", "failed", "skipped")}


def write(results, file, **more):
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(results, key=lambda r: r["name"])
    file.write_text(json.dumps({**more, **counts(results), "results": ordered}, indent=1) + "\n")
