# SPDX-License-Identifier: Apache-2.0
"""Everything that a comment or a page refers to exists: files, sections, tests and symbols. Needs no daemon."""

import os
import re
from pathlib import Path

import pytest

from harness import references
from harness.daemon import ROOT
from harness.preset import ONCE, TREE
from harness.references import anchors, code, files, headings, named_file, names_of_tests, pages, paragraphs, words

pytestmark = [ONCE, TREE]

CHANGELOG = Path("CHANGELOG.md")  # tells of earlier versions, so of names that are gone
READ_BY_PEOPLE = [path for path in files()
                  if path != CHANGELOG and (path.suffix == ".md" or references.is_source(path))]

# `docs/PAGE.md, "SECTION" and "SECTION"`
SECTIONS = re.compile(r'([\w./-]*\w\.md)`?((?:(?:, | and |, sections? )"[^"]*")+)')
FILE = re.compile(r"(?<![\w/.:*{}$<>-])(?:[\w.-]+/)*[\w.-]+\.(?:cpp|hpp|py|md)\b(?![\w/-])")
IN_FOLDER = re.compile(r"(?<![\w/.:@-])(?:" + "|".join(map(re.escape, references.FOLDERS)) + r")/[\w./*-]*[\w*/]")
TEST = re.compile(r"\b[A-Z]\w*Test\.[A-Z]\w+|\btest_[a-z0-9_]+::test_[a-z0-9_]+")
QUALIFIED = re.compile(r"(?<![\w:])(?![0-9a-f:]+\b)([A-Za-z]\w*(?:::~?[A-Za-z]\w*)+)")
FUNCTION = re.compile(r"(?<![\w:.>/-])([a-z]\w*_\w+)\(\)")
PLACEHOLDER = re.compile(r"(?:^|/)(?:CONFIGURATION|FILE|NAME|PAGE)\b|NAME_|_FILE\b")
NOT_IN_GIT = {"report.md"}  # tests/bench/run writes it
OTHERS = {"std", "testing", "YAML", "Event", "absl", "base", "folly"}  # namespaces of other projects

# Documents that are not in the repository: a number of a requirement, or a section of something without a name.
NOWHERE = re.compile(r"\bR[0-9]{1,2}\b(?!\.)|\bdesign,? section|\(design\b|\bissues? [0-9]{1,2}\b|-semantics,")


def missing_links(page):
    text = re.sub(r"^```.*?^```$", "", references.text_of(page), flags=re.M | re.S)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = Path(os.path.normpath(page.parent / target)) if target else page
        if not (ROOT / path).exists():
            yield f"{page}: {target}"
        elif anchor and anchor not in anchors(path):
            yield f"{page}: {target}#{anchor}"


def missing_sections(path):
    for number, text in paragraphs(path):
        text = re.sub(r"docs/PAGE\.md, \"SECTION\"( and \"SECTION\")?", "", text)
        for name, sections in SECTIONS.findall(text):
            page = named_file(name, path)
            have = headings(page.relative_to(ROOT)) if page else []
            for section in re.findall(r'"([^"]*)"', sections):
                if section not in have and f'row "{section}"' not in text:
                    yield f'{path}:{number}: {name}, "{section}"'


def missing_files(path):
    for number, text in paragraphs(path):
        for name in {*FILE.findall(text), *IN_FOLDER.findall(text)}:
            is_example = PLACEHOLDER.search(name) or name in NOT_IN_GIT
            if not is_example and named_file(name.rstrip("/"), path) is None:
                yield f"{path}:{number}: {name}"


def missing_tests(path):
    for number, text in paragraphs(path):
        yield from (f"{path}:{number}: {name}" for name in TEST.findall(text) if name not in names_of_tests())


def is_defined(symbol):
    """Whether the code has the name with its last scope, or the name in a file that declares this scope."""
    parts = [part.removeprefix("~") for part in symbol.split("::")]
    scope, name = parts[-2:]
    declared = re.compile(rf"\b(?:class|struct|enum|namespace|union|using)\b[^;{{()]*\b{scope}\b")
    return parts[0] in OTHERS or any(
        f"{scope}::{name}" in text or re.search(rf"\b{name}\b", text) and declared.search(text)
        for path, text in code().items() if path.suffix in references.CPP)


def missing_symbols(path):
    for number, text in paragraphs(path):
        text = re.sub(r"`test_\w+::test_\w+`", "", text)
        yield from (f"{path}:{number}: {name}" for name in QUALIFIED.findall(text)
                    if not is_defined(name))
        yield from (f"{path}:{number}: {name}()" for name in FUNCTION.findall(text) if name not in words())


def references_to_nowhere(path):
    for number, text in paragraphs(path):
        yield from (f"{path}:{number}: {match}" for match in NOWHERE.findall(text))


@pytest.mark.parametrize("missing", [missing_sections, missing_files, missing_tests, missing_symbols,
                                     references_to_nowhere])
def test_comments_and_pages_refer_to_things_that_exist(missing):
    assert [found for path in READ_BY_PEOPLE for found in missing(path)] == []


def test_links_lead_somewhere():
    assert [found for page in pages() for found in missing_links(page)] == []


@pytest.mark.parametrize("page", ["conformance.md", "threats.md"])
def test_tests_in_tables_exist(page):
    """The last column of these tables has names of tests only, scenarios and fuzz targets included."""
    rows = re.findall(r"^\|.*\|.*\|(.*)\|$", (ROOT / "docs" / "reference" / page).read_text(), re.M)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 100
    assert sorted(named - names_of_tests()) == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_of_queries_and_resources_name_real_code(page):
    """Every identifier of the drawings on these pages is one of the code."""
    drawings = re.findall(r"^    (.*->.*|\s*[\w:]+(?: \w+\(\))?  .*)$", references.text_of(Path(page)), re.M)
    assert drawings
    named = {name for line in drawings
             for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w*|\b[a-z]+_\w+|\b\w+(?=::)|(?<=::)\w+", line)}
    assert sorted(named - words() - set(references.FOLDERS)) == []
