# SPDX-License-Identifier: Apache-2.0
"""The regression guard: instructions per query, counted by callgrind, against the budgets of tests/bench/budgets.json.

The count of a build is the same on a quiet and on a loaded machine.  It moves with the compiler and the libraries:
budgets are for Debian 12's, and a commit that moves one says why.
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile

QUERIES = 6400
TOLERANCE = 0.05
BUDGETS = pathlib.Path(__file__).resolve().parent.parent / "budgets.json"


def count(programs):
    """Workload -> instructions per query."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("bench: valgrind is not installed")
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind"
        subprocess.run(
            [valgrind, "-q", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=meshdns::dnsd::QueryHandler::on_batch*", f"--callgrind-out-file={out}",
             str(programs / "bench_hot_path"), str(QUERIES)], check=True)
        counts = {}
        for path in pathlib.Path(directory).glob("callgrind.*"):
            text = path.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.M)
            total = re.search(r"^totals: (\d+)", text, re.M)
            if name and total:
                counts[name.group(1)] = int(total.group(1)) / QUERIES
    return counts


def judge(counts, budgets):
    """Lines of a table, and whether all is within budget."""
    lines = []
    good = True
    for name in [*budgets, *(n for n in counts if n not in budgets)]:
        have, budget = counts.get(name), budgets.get(name)
        if have is None or budget is None:
            verdict, good = ("NOT COUNTED" if have is None else "NO BUDGET"), False
        elif have > budget * (1 + TOLERANCE):
            verdict, good = f"OVER by {have / budget - 1:.0%}", False
        elif have < budget * (1 - TOLERANCE):
            verdict = f"{1 - have / budget:.0%} below: lower the budget"
        else:
            verdict = "ok"
        lines.append(f"{name:16}{_number(have):>8} of {_number(budget):>8}   {verdict}")
    return lines, good


def _number(value):
    return "-" if value is None else f"{value:.0f}"


def check(programs):
    """Prints the table; the exit status."""
    lines, good = judge(count(programs), json.loads(BUDGETS.read_text()))
    print("instructions per query, and their budgets (tests/bench/budgets.json)\n")
    print("\n".join(lines))
    if good:
        return 0
    print(f"\nA workload is more than {TOLERANCE:.0%} over its budget.  Where its instructions are spent:\n"
          "  valgrind --tool=callgrind build/bench_hot_path, then callgrind_annotate --inclusive=yes\n"
          "If the cost is worth it, run `./dev bench --set-budgets` and say in the commit what it buys.")
    return 1


def set_budgets(programs):
    budgets = {name: round(value) for name, value in sorted(count(programs).items())}
    BUDGETS.write_text(json.dumps(budgets, indent=2) + "\n")
    print(f"{len(budgets)} budgets written to tests/bench/budgets.json")
    return 0
