"""The results as a Markdown table."""

from .cases import COLUMNS, SUITES

MARKS = {"passed": "yes", "failed": "**no**", "skipped": "no, see below"}


def markdown(reports):
    """One table of suites, one of all else, a column for each kernel; then the reasons."""
    both = [({case["name"]: case for case in report["cases"]}, report) for report in reports]
    lines = [f"{report['culvert']}, against " + ", ".join(f"Linux {r['kernel']}" for r in reports)
             for report in reports[:1]]  # fmt: skip
    lines += ["", "| suite | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for suite in SUITES:
        cells = [_cell(f"{suite} {column}", both) for column in COLUMNS]
        lines.append(f"| {suite} | " + " | ".join(cells) + " |")
    lines += ["", "| case | " + " | ".join(f"Linux {r['kernel']}" for r in reports) + " |"]
    lines.append("|---" * (len(reports) + 1) + "|")
    names = dict.fromkeys(c["name"] for r in reports for c in r["cases"] if not c["column"])
    for name in names:
        cells = [_cell(name, [one]) for one in both]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    excuses = dict.fromkeys(
        c["excuse"] for r in reports for c in r["cases"] if c["verdict"] == "skipped"
    )
    return "\n".join([*lines, "", *(f"- {excuse}" for excuse in excuses)]).rstrip()


def _cell(name, both):
    """One word when all kernels agree, else one for each."""
    marks = [MARKS[cases[name]["verdict"]] if name in cases else "" for cases, _ in both]
    if len(set(marks)) == 1:
        return marks[0]
    return ", ".join(f"{report['kernel'].split('-')[0]}: {mark}" for mark, (_, report) in zip(marks, both))
