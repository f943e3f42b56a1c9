# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

import statistics


def table(head, lines):
    """The lines of a table, and an empty line after it."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(x) + " |" for x in lines), ""]


def spread(values, digits):
    """The median, the least and the most."""
    values = sorted(values)
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
