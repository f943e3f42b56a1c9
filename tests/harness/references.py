# SPDX-License-Identifier: Apache-2.0
"""Finds the references in comments and pages: to files, sections of pages, tests and symbols.

Nothing here needs a build. A comment that runs over several lines counts as one text.
"""

import functools
import io
import re
import tokenize

import yaml

from harness.daemon import ROOT

FOLDERS = (".ci", "conf", "dnsd", "docs", "registry", "resolver", "scripts", "systemd", "tests")
# Parts of paths that are no source: what fuzzers begin with, and what a build or an editor leaves.
NO_SOURCE = {"build", "corpus", "__pycache__", ".git"}
CPP = {".cpp", ".hpp"}
HASH_COMMENTS = {".py", ".sh", ".yaml", ".txt", ".cmake", ".service", ".socket"}


@functools.cache
def files():
    """Every file of the project, as a path relative to ROOT."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(ROOT) for path in found
                  if not NO_SOURCE.intersection(part.split("-")[0] for part in path.relative_to(ROOT).parts))


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


@functools.cache
def pages():
    return [path for path in files() if path.suffix == ".md"]


def is_script(path):
    return path.suffix == "" and (ROOT / path).open("rb").read(2) == b"#!"


def is_source(path):
    return path.suffix in CPP | HASH_COMMENTS or path.name == "CMakeLists.txt" or is_script(path)


def _joined(lines):
    """[(line number, text)] of comments, from [(line number, column, text)] of lines."""
    blocks, last = [], None
    for number, column, text in lines:
        if last == (number - 1, column) and text:
            blocks[-1][1].append(text)
        else:
            blocks.append((number, [text]))
        last = (number, column)
    return [(number, " ".join(texts)) for number, texts in blocks]


# Strings go first, so that "//" in one begins no comment.
CPP_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//(?P<comment>[^\n]*)')


def _cpp_comments(text):
    found, line, at = [], 1, 0
    for match in CPP_COMMENT.finditer(text):
        if match["comment"] is None:
            continue
        line, at = line + text.count("\n", at, match.start()), match.start()
        found.append((line, at - text.rfind("\n", 0, at), match["comment"].strip()))
    return _joined(found)


def _python_comments(text):
    found, before = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and before in (
            None, tokenize.INDENT, tokenize.NEWLINE, tokenize.NL) and token.string.startswith('"""')
        if token.type == tokenize.COMMENT:
            found.append((token.start[0], token.start[1], token.string.lstrip("# ")))
        elif is_docstring:
            found.append((token.start[0], -1, " ".join(token.string.strip('"').split())))
        if token.type != tokenize.COMMENT:
            before = token.type
    return _joined(found)


def _hash_comments(text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"(?:^|\s)#+ (.*)", line)
        if match:
            found.append((number, match.start(1), match[1]))
    return _joined(found)


def comments(path):
    """[(line number, text)] of the comments of a source file, and its docstrings."""
    text = text_of(path)
    if path.suffix in CPP:
        return _cpp_comments(text)
    if path.suffix == ".py" or is_script(path) and "python" in text.split("\n", 1)[0]:
        return _python_comments(text)
    return _hash_comments(text)


@functools.cache
def paragraphs(path):
    """[(line number, text)] that people read in a file: comments of sources, all of a page but its code fences."""
    if path.suffix != ".md":
        return [(number, text) for number, text in comments(path)] if is_source(path) else []
    found, fenced = [], False
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if line.strip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            found.append((number, line.strip()))
    blocks = []
    for number, line in found:
        if blocks and line and blocks[-1][1] and not line.startswith(("|", "#", "- ")):
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]} {line}")
        else:
            blocks.append((number, line))
    return blocks


@functools.cache
def code():
    """{path: text} of the sources; those in C++ without comments and strings."""
    found = {}
    for path in files():
        if path.suffix in CPP:
            found[path] = CPP_COMMENT.sub("", text_of(path))
        elif path.suffix == ".py" or is_script(path):
            found[path] = text_of(path)
    return found


@functools.cache
def words():
    """Every word of the code and of the build files."""
    found = set()
    for text in [*code().values(), *(text_of(path) for path in files() if path.name == "CMakeLists.txt")]:
        found.update(re.findall(r"\w+", text))
    return found


def headings(page):
    return re.findall(r"^#+ (.*)$", text_of(page), re.M)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def named_file(name, beside):
    """The file or folder that a text in the file `beside` means, or None."""
    if "*" in name:
        return next(ROOT.glob(name), None)
    for base in (ROOT, ROOT / beside.parent, ROOT / "docs", ROOT / "dnsd", ROOT / "registry", ROOT / "tests"):
        if (base / name).exists():
            return base / name
    if "/" not in name:
        return next((ROOT / path for path in files() if path.name == name), None)
    return None


@functools.cache
def names_of_tests():
    """Every test, as pages write it."""
    found, folder = set(), ROOT / "tests"
    for source in folder.glob("**/*_test.cpp"):
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", source.read_text(), re.M):
            found.add(f"{suite}.{name}")
    for source in [*(folder / "e2e").glob("test_*.py"), *(folder / "chaos").glob("test_*.py")]:
        for name in re.findall(r"^def (test_\w+)", source.read_text(), re.M):
            found.add(f"{source.stem}::{name}")
    for source in (folder / "scenarios").glob("*/*.yaml"):
        for document in yaml.safe_load_all(source.read_text()):
            found.add(f"{source.parent.name}/{source.stem}: {document['name']}")
    for source in (folder / "fuzz").glob("*_fuzz.cpp"):
        found.add(f"fuzz/{source.stem.removesuffix('_fuzz')}")
    return found
