# SPDX-License-Identifier: Apache-2.0
"""docs/reference/log-messages.md has the messages that the code logs. Needs no daemon."""

import re

from harness.daemon import ROOT
from harness.preset import ONCE, TREE
from harness.references import CPP, files, text_of

pytestmark = [ONCE, TREE]

LITERAL = r'(?:"(?:\\.|[^"\\])*"\s*)+'
CALL = re.compile(r"\b\w*log\w*(?:\(\))?(?:\.|->)(?P<level>info|warn|error|announce|write_folded|write)\(\s*"
                  rf"(?:LogLevel::(?P<given>\w+)\s*,\s*)?(?P<text>{LITERAL})")
ROW = re.compile(r"^\| `(.*?)` \| (\w+) \|", re.M)
LEVELS = {"info": "INFO", "announce": "INFO", "warn": "WARN", "error": "ERROR"}


def joined(literals):
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', literals)).replace('\\"', '"')


def sources():
    return [text_of(path) for path in files() if path.suffix in CPP and path.parts[0] in ("dnsd", "registry", "resolver")]


def logged():
    """{message: level} of the calls that have their message as a literal."""
    return {joined(call["text"]): LEVELS.get(call["level"]) or call["given"].upper()
            for text in sources() for call in CALL.finditer(text)}


def listed():
    return dict(ROW.findall((ROOT / "docs" / "reference" / "log-messages.md").read_text(encoding="utf-8")))


def test_each_message_of_the_code_is_listed_with_its_level():
    found = logged()
    assert len(found) > 40
    assert {message: level for message, level in found.items() if listed().get(message) != level} == {}


def test_each_listed_message_is_in_the_code():
    texts = {joined(literals) for text in sources() for literals in re.findall(LITERAL, text)}
    assert [message for message in listed() if not any(message in text for text in texts)] == []
