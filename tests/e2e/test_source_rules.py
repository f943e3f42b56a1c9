# SPDX-License-Identifier: Apache-2.0
"""Rules that every C++ file keeps, and that no compiler checks."""

import pathlib
import re

import pytest

from harness.daemon import ROOT
from harness.preset import ONCE, TREE
from harness.references import CPP, files, is_script

pytestmark = [ONCE, TREE]

SOURCES = sorted(path for folder in ("dnsd", "registry", "resolver") for path in (ROOT / folder).rglob("*.[ch]pp"))
LOOP_CALL = re.compile(r"(?<![\w:.>])(?:::)?((?:uv|epoll|inotify|eventfd|timerfd|signalfd)_?[a-z0-9_]*)\s*\(")
# Those without a result, and those that libuv documents or implements as never failing.
NEVER_FAIL = {
    "uv_async_send", "uv_check_init", "uv_close", "uv_hrtime", "uv_now", "uv_pipe_init", "uv_poll_stop",
    "uv_prepare_init", "uv_ref", "uv_run", "uv_stop", "uv_timer_init", "uv_timer_stop", "uv_unref", "uv_update_time",
}


def without_comments_and_strings(text):
    """The text with comments and literals blanked out, line by line as before."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)


def is_statement(before):
    """Whether an expression that follows `before` is a statement of its own: nobody takes its result."""
    before = before.rstrip()
    if before.endswith((";", "{", "}", "else", "do")):
        return True
    if not before.endswith(")"):
        return False
    depth = 0
    for at in range(len(before) - 1, -1, -1):  # the keyword in front of the parentheses
        depth += {")": 1, "(": -1}.get(before[at], 0)
        if depth == 0:
            return re.search(r"\b(if|for|while|switch)\s*(constexpr)?$", before[:at].rstrip()) is not None
    return False


def ignored_results(text):
    """(line, function) of each call of the event loop whose result nobody takes."""
    text = without_comments_and_strings(text)
    return [(text.count("\n", 0, call.start()) + 1, call.group(1)) for call in LOOP_CALL.finditer(text)
            if call.group(1) not in NEVER_FAIL and is_statement(text[:call.start()])]


@pytest.mark.parametrize("text, functions", [
    ("void f() { uv_poll_start(&p, 1, g); }", ["uv_poll_start"]),
    ("{ if (ready)\n  uv_poll_start(&p, 1, g); }", ["uv_poll_start"]),
    ("{ if (a) b();\n  else\n  uv_signal_init(&l, &s); }", ["uv_signal_init"]),
    ("{ for (x : all()) epoll_ctl(e, 1, 2, 3); }", ["epoll_ctl"]),
    ("{ ::epoll_ctl(e, 1, 2, 3); inotify_rm_watch(i, 1); }", ["epoll_ctl", "inotify_rm_watch"]),
    ("{ check_loop(uv_timer_start(&t, f, 1, 0), why); }", []),
    ("{ return uv_timer_start(&t, f, 1, 0); }", []),
    ("{ const int error = uv_poll_init(l, &p, 3); }", []),
    ("{ if (uv_loop_init(&l) != 0) return; uv_close(h, f); }", []),
    ("{ (void)epoll_ctl(e, 1, 2, 3); // uv_poll_start(1);\n }", []),
])
def test_finds_ignored_results(text, functions):
    assert [function for _, function in ignored_results(text)] == functions


def test_no_result_of_the_event_loop_is_ignored():
    found = [f"{path.relative_to(ROOT)}:{line}: {function}" for path in SOURCES
             for line, function in ignored_results(path.read_text())]
    assert not found, "check each result, or pass it to check_loop():\n" + "\n".join(found)


COMMENTED = [ROOT / path for path in files() if path.suffix in CPP | {".py", ".sh"} or is_script(path)]
COMMENT = re.compile(r'^\s*(?://+|#(?!!)|""")\s*(.*)')
NOUN = r"(?:What|Whatever|Who|Whoever|Whom|Whose)\b(?![^.]*\?)"
BEGINS_COMMENT = re.compile(rf"{NOUN}|(?:Which|Whichever|Where|Wherever)\b(?![^.]*\?)")
BEGINS_SENTENCE = re.compile(NOUN)
HAS_SENTENCE = re.compile(rf"[.;:] {{1,2}}{NOUN}")


def comments_without_subject(text):
    """The numbers of lines with a comment or a sentence that begins with a clause such as "What it reads"."""
    found, before = [], None  # the text of the comment's line before; None outside of comments
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line)
        words = comment[1] if comment else ""
        is_first = before is None or '"""' in line
        is_sentence = is_first or before == "" or before.endswith((".", ":"))
        if (is_first and BEGINS_COMMENT.match(words) or is_sentence and BEGINS_SENTENCE.match(words)
                or HAS_SENTENCE.search(words)):
            found.append(number)
        before = words if comment and '"""' not in line and not words.startswith("SPDX-") else None
    return found


@pytest.mark.parametrize("text, lines", [
    ("// What the server was seen to do.", [1]),
    ("int a;\n  // Who joins takes no place.\n", [2]),
    ("# Where the daemon looks for its servers.", [1]),
    ('def f():\n    """What the command prints."""', [2]),
    ("// Reads the file.  What is wrong with it is said.", [1]),
    ("// SPDX-License-Identifier: Apache-2.0\n// Where answers go.", [2]),
    ('# SPDX-License-Identifier: Apache-2.0\n"""What clients notice."""', [2]),
    ("// Parses one line.\n// Who calls judges the ports.", [2]),
    ("// Reports to the client\n// Who asks.", []),  # in the middle of a sentence
    ("// The names of the zone,\n// which the server has.", []),
    ("// If the text ends, where it ends is reported.", []),
    ("// Whether it may still answer.", []),
    ("// Which one is first?  The oldest.", []),
    ('const char* text = "// What is it";', []),
])
def test_finds_comments_without_subject(text, lines):
    assert comments_without_subject(text) == lines


def test_comments_begin_with_their_subject():
    found = [f"{path.relative_to(ROOT)}:{line}" for path in COMMENTED if path.name != pathlib.Path(__file__).name
             for line in comments_without_subject(path.read_text())]
    assert not found, "begin the comment with its subject, or with a verb:\n" + "\n".join(found)


UNKEYED = re.compile(r"std::hash<std::string(_view)?>|std::unordered_(map|set)<std::string(_view)?\b(?![^;]*TextHash)")


def test_finds_tables_of_text_without_a_key():
    assert UNKEYED.search("std::unordered_map<std::string, int> names_;")
    assert UNKEYED.search("std::unordered_set<std::string_view> seen;")
    assert UNKEYED.search("std::hash<std::string>()(name)")
    assert not UNKEYED.search("using TextSet = std::unordered_set<std::string, TextHash, std::equal_to<>>;")


def test_tables_of_text_have_the_keyed_hash():
    """Names come from resources, queries and replies: nobody may choose a bucket (registry/base/hash.hpp)."""
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path in SOURCES
             for match in UNKEYED.finditer(without_comments_and_strings(path.read_text()))]
    assert found == []


def libraries():
    """Folder -> (name of its library, the libraries of the project that CMake links to it)."""
    read = {}
    for path in (ROOT / folder / "CMakeLists.txt" for folder in {path.parent for path in SOURCES}):
        text = path.read_text() if path.exists() else ""
        for name in re.findall(r"meshdns_library\((\w+)", text):
            links = re.search(rf"target_link_libraries\({name}\s([^)]*)\)", text)
            read[path.parent] = name, set(links[1].split() if links else [])
    known = {name for name, _ in read.values()}
    return {folder: (name, links & known) for folder, (name, links) in read.items()}


COUNTED_NOUNS = ("addresses answers changes clients clusters collections directories endpoints entries errors files findings hits hosts lines "
                 "messages misses names namespaces networks notes objects queries records resources servers services sources "
                 "timeouts warnings workers zones Pods").split()
COUNT = re.compile(r'(?:to_string\(([^;"]*)\)\s*\+\s*"|<< ([^;"<]+) << "|\{\})\s(?:more )?(' + "|".join(COUNTED_NOUNS) + r")\b(?!=)")


def counts_without_singular(text):
    """The nouns that are plural whatever the number.  A limit is above one."""
    return [match[3] for match in COUNT.finditer(re.sub(r"^\s*//.*$", "", text, flags=re.M))
            if not re.match(r"k[A-Z]|.*(limits_|options_|max_)", match[1] or match[2] or "")]


@pytest.mark.parametrize("text, nouns", [
    ('std::to_string(errors) + " errors"', ["errors"]), ('std::to_string(n) +\n  " more hosts"', ["hosts"]), ('"{} entries"', ["entries"]),
    ('out << n << " files"', ["files"]), ('counted(n, "file")', []), ('std::to_string(kMaxNames) + " names"', []), ('// {} errors', []),
    ('" hosts=" + std::to_string(hosts)', []), ('std::to_string(n) + " hosts="', [])])
def test_finds_counts_without_singular(text, nouns):
    assert counts_without_singular(text) == nouns


def test_numbers_of_things_have_a_singular():
    assert [f"{path.relative_to(ROOT)}: {noun}" for path in SOURCES for noun in counts_without_singular(path.read_text())] == []


def test_each_room_links_what_it_includes():
    """A file sees the headers of the rooms that its own one links, and CMake's lists say no more than that."""
    rooms = libraries()

    def room_of(path):
        return next((rooms[folder][0] for folder in path.parents if folder in rooms), None)

    used = {name: set() for name, _ in rooms.values()}
    for path in SOURCES:
        if path.parent in rooms:
            name = rooms[path.parent][0]
            used[name] |= {room_of(ROOT / header) for header in re.findall(r'#include "([^"]+)"', path.read_text())}
    # The module for istiod is loaded: it has the types of the daemon, and none of its code.
    found = {name: (sorted(used[name] - {name, None} - links), sorted(links - used[name]))
             for name, links in rooms.values() if name != "istiod_session"}
    assert {name: lists for name, lists in found.items() if lists != ([], [])} == {}, "library: (not linked, not used)"


def test_rooms_have_no_circle():
    """What a room links lies below it."""
    below = {name: links for name, links in libraries().values()}
    while below:
        lowest = [name for name, links in below.items() if not links & set(below)]
        assert lowest, f"a circle: {below}"
        for name in lowest:
            del below[name]
