# SPDX-License-Identifier: Apache-2.0
"""One SVG of the results: CPU per query of each server, a panel per workload, with a line for the bare echo."""

import statistics
from xml.sax.saxutils import escape

from suite import workloads

WIDTH = 760
LABEL = 150
BAR = 18
GAP = 6
HEAD = 46
OURS, ECHO, OTHERS = "#1f6feb", "#8c959f", "#c9d1d9"
DARK = ("<style>@media (prefers-color-scheme: dark) { text { fill: #dfe4ea } rect[fill=\"#ffffff\"] { fill: #14181c } "
        f"rect[fill=\"{OTHERS}\"] {{ fill: #4d5761 }} line {{ stroke: #9aa6b2 }} }}</style>")


def _cpu(row):
    return statistics.median(sample.cpu_us for sample in row.saturated)


def _text(x, y, text, size=12, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="#1f2328">{escape(text)}</text>')


def _panel(workload, rows, top):
    """The panel's elements and its height."""
    rows = sorted((r for r in rows if r.saturated), key=_cpu)
    longest = max(map(_cpu, rows))
    scale = (WIDTH - LABEL - 70) / longest
    out = [_text(8, top + 20, workload.title, 14, weight="bold"),
           _text(8, top + 37, "CPU microseconds per query, less is better", 11)]
    y = top + HEAD
    for row in rows:
        colour = OURS if row.server == "meshdnsd" else ECHO if row.server == "echo" else OTHERS
        length = max(1.0, _cpu(row) * scale)
        out += [_text(LABEL - 8, y + BAR - 5, row.server, anchor="end"),
                f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
                _text(LABEL + length + 6, y + BAR - 5, f"{_cpu(row):.2f}", 11)]
        y += BAR + GAP
    echo = next((r for r in rows if r.server == "echo"), None)
    if echo is not None:
        x = LABEL + _cpu(echo) * scale
        out.append(f'<line x1="{x:.1f}" y1="{top + HEAD - 4}" x2="{x:.1f}" y2="{y}" stroke="#57606a" '
                   'stroke-dasharray="3 3"/>')
    return out, y - top + 14


def svg(rows):
    """Returns the picture of all workloads with more than one server."""
    body = []
    top = 4
    for workload in workloads.ALL:
        measured = [r for r in rows if r.workload == workload.name and r.saturated]
        if len(measured) < 2:
            continue
        elements, height = _panel(workload, measured, top)
        body += elements
        top += height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
            'font-family="system-ui, sans-serif" role="img" aria-label="CPU per query of DNS servers">\n'
            f'{DARK}\n<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n")
