# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""


def table(head, lines):
    """The lines of a table, and an empty line after it."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(x) + " |" for x in lines), ""]
