# SPDX-License-Identifier: Apache-2.0
"""Changes around the daemon: its configuration, its resource files and the moods of its upstream servers.

Steps for harness.load.Load, as in clients.py.  Each draws from its own generator, so that a seed gives the same steps;
their timing is the machine's.
"""

import os
import pathlib
import signal
import shutil

import yaml

import truth
from harness.daemon import merge
from harness.scenario import to_yaml, write_atomically
from unruly_upstream import MOODS

_POLICIES = ("fastest", "sequential", "round_robin", "random", "parallel")
_LONGEST_TIMEOUT = 4  # seconds; of upstream.timeout in random_config


def longest_answer_time():
    """Seconds within which a forwarded query is answered under any of the configurations."""
    return _LONGEST_TIMEOUT + 2


def random_config(chance, base, upstreams, extra_listeners, scratch):
    """`base` with what a reload may change, changed."""
    servers = [make(i) for i in range(len(upstreams)) for make in (upstreams.plain, upstreams.tls)]
    chance.shuffle(servers)
    servers = servers[:chance.choice((1, 1, 1, 2, 3, 8))]
    change = {
        "server": {
            "listen": base["server"]["listen"] + chance.sample(extra_listeners, chance.randrange(len(extra_listeners) + 1)),
            "tcp": {"max_connections": chance.choice((100, 4096)), "max_connections_per_client": chance.choice((50, 128))},
            "rate_limit": {"responses_per_second": chance.choice((0, 0, 100000))},
            "cookies": {"mode": chance.choice(("auto", "on", "off"))},
            "nsid": chance.choice(("", "a", "b" * 128)),
        },
        "log": {"queries": {"class": chance.choice(("off", "off", "errors"))},
                "dnstap": chance.choice(("", "", f"file:{scratch / 'tap'}"))},
        "mesh": {"ttl": {"vip": chance.randrange(60)}, "endpoint_answers": chance.random() < 0.8,
                 "search_shortcut": chance.choice(("off", "known", "all"))},
        "upstream": {
            "servers": servers, "policy": chance.choice(_POLICIES),
            "timeout": chance.choice(("300ms", "1s", "2s", f"{_LONGEST_TIMEOUT}s")),
            "max_in_flight": chance.choice((2, 64, 4096)), "case_randomization": chance.random() < 0.5,
            "cookies": chance.choice(("auto", "off")),
            "zones": chance.choice(({}, {"wild.example.net": [chance.choice(servers)]},
                                    {"short.wild.example.net": servers[:2], "example.org": servers[:1]})),
            "deny_answers": chance.choice(([], [], ["198.18.0.0/15"])),
        },
        "cache": {"size": chance.choice(("0", "64KiB", "512KiB", "8MiB")), "min_ttl": chance.choice(("0s", "5s")),
                  "max_ttl": chance.choice(("5s", "1h")), "serve_stale": chance.choice(("0s", "1h")),
                  "prefetch": chance.random() < 0.5, "nxdomain_cut": chance.random() < 0.3},
        "overrides": chance.choice(({}, {"ads.example.net": "nxdomain", "dev.example.net": ["192.0.2.80"]})),
        "hosts": {"file": chance.choice(("", str(scratch / "hosts")))},
        "dns64": {"prefix": chance.choice(("", "64:ff9b::/96"))},
    }
    return merge(base, change)


def _cut(text, chance):
    """A first part of the text that cannot be read: one that can would be another configuration."""
    return text[:chance.randrange(len(text))] + '\n["'


def reloads(chance, state, path, pid, base, upstreams, extra_listeners, fixed):
    """Another configuration, at times a broken one, and SIGHUP: once, twice, or before the file is whole.  `fixed` is in all
    that are not broken."""
    path = pathlib.Path(path)
    (path.parent / "hosts").write_text("".join(f"192.0.2.{i} h{i}.example.net\n" for i in range(chance.randrange(20))))
    text = yaml.safe_dump(merge(random_config(chance, base, upstreams, extra_listeners, path.parent), fixed))
    kind = chance.randrange(8)
    if kind == 0:
        text = _cut(text, chance)
    elif kind == 1:
        text += "nonsense: true\n"
    if kind == 2:
        path.write_text(_cut(text, chance))
        os.kill(pid, signal.SIGHUP)
        path.write_text(text)
    else:
        write_atomically(path, text)
    for _ in range(chance.choice((1, 1, 2, 5))):
        os.kill(pid, signal.SIGHUP)
    state["pause"] = chance.choice((0.05, 0.2, 1, 3))


def _half_written(text, chance):
    """The beginning of the text.  It does not end inside a number: part of an address is another address."""
    beginning = text[:chance.randrange(len(text))]
    whole_lines, _, last = beginning.rpartition("\n")
    return whole_lines + "\n" if any(c.isdigit() for c in last) else beginning


def _written_in_place(file):
    """The file, which is no link: a link that was moved to this name may lead nowhere, or to itself."""
    if file.is_symlink():
        file.unlink()
    return file


def file_changes(chance, state, folder):
    """Resource files that come, go, move, are half written, or hold something else."""
    folder = pathlib.Path(folder)
    names = truth.moving_names()
    file = folder / f"moving-{chance.randrange(6)}{chance.choice(('.yaml', '.yml', '.json'))}"
    chosen = chance.sample(names, chance.randrange(1, 12))
    entries = [truth.entry(name) for name in chosen]
    entries += [truth.resolved_entry(name, chance.choice(truth.forwarded_names())) for name in chosen[:3]]
    text = to_yaml(entries)
    kind = chance.randrange(10)
    if kind <= 2:
        write_atomically(file, text)
    elif kind == 3:
        _written_in_place(file).write_text(_half_written(text, chance))
    elif kind == 4:
        file.unlink(missing_ok=True)
    elif kind == 5:
        for other in folder.glob("moving-*"):
            if other.is_file() and chance.random() < 0.5:
                os.replace(other, folder / f"moving-{chance.randrange(6)}.yaml")
                break
    elif kind == 6:
        _written_in_place(file).write_bytes(chance.randbytes(chance.randrange(5000)))
    elif kind == 7:
        with _written_in_place(file).open("a") as out:  # grows as it is read
            for part in text.split("---"):
                out.write("---" + part)
                out.flush()
    elif kind == 8:
        below = folder / f"below-{chance.randrange(3)}"
        if below.exists():
            shutil.rmtree(below)
        else:
            write_atomically(below / "deeper" / "moving.yaml", text)
    else:
        link = folder / "moving-link.yaml"
        link.unlink(missing_ok=True)
        link.symlink_to(chance.choice(("moving-0.yaml", "nowhere.yaml", "moving-link.yaml", ".")))


def moods(chance, state, upstreams):
    """All servers in one mood at times: what one of them does wrong shows only when no other answers."""
    if chance.random() < 0.5:
        mood = chance.choice(list(MOODS))
        for i in range(len(upstreams)):
            upstreams.be(i, mood)
    else:
        for i in range(len(upstreams)):
            upstreams.be(i, chance.choice(list(MOODS)))
    state["pause"] = chance.choice((0.2, 2, 4))
