# SPDX-License-Identifier: Apache-2.0
"""Changes on disk are in the answers within one second, however they are made."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness.daemon import merge
from harness.dns_client import Question, ask
from harness.ports import free_port
from harness.preset import ONE_THREAD
from harness.scenario import to_yaml
from harness.waiting import eventually, seconds

pytestmark = ONE_THREAD

WITHIN = 1.0


def entry(address, name="api", host="api.example.org"):
    return {"kind": "ServiceEntry", "metadata": {"name": name},
            "spec": {"hosts": [host], "addresses": [address], "resolution": "STATIC"}}


def answers(daemon, address, host="api.example.org."):
    found = daemon.ask(host).addresses()
    assert found == ([address] if address else []), found


def wait_for(daemon, address, host="api.example.org."):
    eventually(lambda: answers(daemon, address, host), WITHIN)


def stays(daemon, address, duration=0.7):
    """Nothing marks that a change was rightly ignored; so watch for longer than any change takes."""
    until = time.monotonic() + duration
    while time.monotonic() < until:
        answers(daemon, address)
        time.sleep(0.02)


@pytest.fixture
def daemon(workspace):
    workspace.write("api.yaml", entry("10.0.0.1"))
    upstream = workspace.upstream()
    return workspace.daemon(upstreams=[upstream])


def test_follows_an_editor_that_renames(workspace, daemon):
    for i in range(2, 12):
        workspace.write("api.yaml", entry(f"10.0.0.{i}"))
        wait_for(daemon, f"10.0.0.{i}")


def test_follows_a_file_written_in_place(workspace, daemon):
    for i in range(2, 12):
        (workspace.resources / "api.yaml").write_text(to_yaml([entry(f"10.0.0.{i}")]))
        wait_for(daemon, f"10.0.0.{i}")


def test_follows_new_removed_and_nested_files(workspace, daemon):
    workspace.write("more.yaml", entry("10.0.0.2", "more", "more.example.org"))
    wait_for(daemon, "10.0.0.2", "more.example.org.")
    workspace.write("a/b/c/deep.yaml", entry("10.0.0.3", "deep", "deep.example.org"))
    wait_for(daemon, "10.0.0.3", "deep.example.org.")
    workspace.write("a/b/c/deep.yaml", entry("10.0.0.4", "deep", "deep.example.org"))
    wait_for(daemon, "10.0.0.4", "deep.example.org.")
    os.rename(workspace.resources / "a", workspace.resources / "z")
    workspace.write("z/b/c/deep.yaml", entry("10.0.0.5", "deep", "deep.example.org"))
    wait_for(daemon, "10.0.0.5", "deep.example.org.")
    shutil.rmtree(workspace.resources / "z")
    wait_for(daemon, None, "deep.example.org.")
    (workspace.resources / "more.yaml").unlink()
    wait_for(daemon, None, "more.example.org.")
    answers(daemon, "10.0.0.1")


def test_follows_a_resource_that_moves_to_another_file(workspace, daemon):
    """At no moment is it gone."""
    workspace.write("other.yaml", entry("10.0.0.2"))
    (workspace.resources / "api.yaml").unlink()
    wait_for(daemon, "10.0.0.2")


def swap_config_map(mount, generation, files):
    """Writes as the kubelet does: a new directory, then the symlink `..data` replaced in one step."""
    fresh = mount / f"..2026_01_01_00_00_00.{generation}"
    fresh.mkdir(parents=True)
    for name, text in files.items():
        (fresh / name).write_text(text)
        link = mount / name
        if not link.is_symlink():
            link.symlink_to(f"..data/{name}")
    before = (mount / "..data").resolve() if (mount / "..data").is_symlink() else None
    (mount / "..data_tmp").symlink_to(fresh.name)
    os.replace(mount / "..data_tmp", mount / "..data")
    if before:
        shutil.rmtree(before)


def test_follows_a_mounted_config_map(workspace):
    mount = workspace.resources
    swap_config_map(mount, 0, {"api.yaml": to_yaml([entry("10.1.0.1")])})
    daemon = workspace.daemon(upstreams=[workspace.upstream()])
    answers(daemon, "10.1.0.1")
    for i in range(1, 30):
        swap_config_map(mount, i, {"api.yaml": to_yaml([entry(f"10.1.{i}.1")])})
        wait_for(daemon, f"10.1.{i}.1")
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for i in range(30, 60):
        swap_config_map(mount, i, {"api.yaml": to_yaml([entry(f"10.1.{i}.1")])})
    wait_for(daemon, "10.1.59.1")
    assert len(os.listdir(f"/proc/{daemon.pid}/fd")) <= descriptors + 2, "descriptors leak"


def test_keeps_its_state_while_the_whole_directory_is_away(workspace, daemon):
    shutil.rmtree(workspace.resources)
    stays(daemon, "10.0.0.1")
    workspace.resources.mkdir()
    workspace.write("api.yaml", entry("10.0.0.2"))
    wait_for(daemon, "10.0.0.2")
    workspace.write("api.yaml", entry("10.0.0.3"))
    wait_for(daemon, "10.0.0.3")


def test_follows_a_directory_that_is_replaced_by_another(workspace, daemon):
    beside = workspace.path / "beside"
    beside.mkdir()
    (beside / "api.yaml").write_text(to_yaml([entry("10.0.0.2")]))
    os.rename(workspace.resources, workspace.path / "old")
    os.rename(beside, workspace.resources)
    wait_for(daemon, "10.0.0.2")
    workspace.write("api.yaml", entry("10.0.0.3"))
    wait_for(daemon, "10.0.0.3")


def test_a_half_written_file_never_replaces_a_good_one(workspace, daemon):
    text = to_yaml([entry("10.0.0.2"), entry("10.0.0.9", "last", "last.example.org")])
    path = workspace.resources / "api.yaml"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text[:text.index("10.0.0.2") - 14])
        stream.flush()
        stays(daemon, "10.0.0.1")
        stream.write(text[text.index("10.0.0.2") - 14:])
    wait_for(daemon, "10.0.0.2")
    wait_for(daemon, "10.0.0.9", "last.example.org.")


def test_an_empty_file_takes_its_objects_away(workspace, daemon):
    workspace.write_text("api.yaml", "# nothing left\n")
    wait_for(daemon, None)


def test_a_single_file_can_be_the_source(workspace):
    workspace.write("one.yaml", entry("10.0.0.1"))
    path = workspace.resources / "one.yaml"
    daemon = workspace.daemon({"sources": [{"files": {"path": str(path)}}]}, upstreams=[workspace.upstream()])
    answers(daemon, "10.0.0.1")
    workspace.write("one.yaml", entry("10.0.0.2"))
    wait_for(daemon, "10.0.0.2")
    path.unlink()
    stays(daemon, "10.0.0.2")
    workspace.write("one.yaml", entry("10.0.0.3"))
    wait_for(daemon, "10.0.0.3")


def wake_ups(daemon):
    """How often the control thread has slept."""
    status = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])


def test_a_file_that_is_written_beside_a_single_file_wakes_nobody(workspace):
    workspace.write("one.yaml", entry("10.0.0.1"))
    path = workspace.resources / "one.yaml"
    with open(workspace.resources / "other.log", "w", encoding="ascii", buffering=1) as log:
        daemon = workspace.daemon({"sources": [{"files": {"path": str(path)}}]}, upstreams=[workspace.upstream()])
        before = wake_ups(daemon)
        for _ in range(1000):
            log.write("a line\n")
            time.sleep(0.0002)
        assert wake_ups(daemon) - before < 200
    workspace.write("one.yaml", entry("10.0.0.2"))
    wait_for(daemon, "10.0.0.2")


def test_a_burst_of_changes_ends_in_its_last_state(workspace, daemon):
    for i in range(300):
        workspace.write("api.yaml", entry(f"10.9.{i // 250}.{i % 250 + 1}"))
    wait_for(daemon, "10.9.1.50")


def test_sighup_rereads_sources_and_listeners(workspace, daemon):
    """New sockets are bound before old ones close; a listener that cannot be bound changes nothing."""
    old, port = daemon.server, free_port()
    daemon.write_config(merge(daemon.config, {"server": {"listen": [f"127.0.0.1:{port}"]}}))
    daemon.reload()
    eventually(lambda: ask(("127.0.0.1", port), Question("api.example.org."), timeout=0.3)
               .addresses() == ["10.0.0.1"], 3)
    assert ask(("127.0.0.1", port), Question("api.example.org."), "tcp").addresses() == ["10.0.0.1"]

    def old_is_closed():
        with socket.socket() as tcp:
            return tcp.connect_ex(old) != 0

    eventually(old_is_closed, 3)
    daemon.server = ("127.0.0.1", port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        busy = taken.getsockname()[1]
        daemon.write_config(merge(daemon.config, {"server": {"listen": [f"127.0.0.1:{busy}"]}}))
        position = daemon.log_position()
        daemon.reload()
        daemon.wait_for_log(rf"127\.0\.0\.1:{busy}.*in use", after=position)
        answers(daemon, "10.0.0.1")


def test_changes_cost_no_query(workspace, daemon):
    """Asked without pause while the file changes 100 times, every answer is one of its versions."""
    allowed = {"10.0.0.1"}
    newest = 1
    until = time.monotonic() + seconds(10)
    while newest < 100 and time.monotonic() < until:
        newest += 1
        allowed.add(f"10.0.0.{newest}")
        workspace.write("api.yaml", entry(f"10.0.0.{newest}"))
        while True:
            found = daemon.ask("api.example.org.").addresses()
            assert len(found) == 1 and found[0] in allowed
            if found == [f"10.0.0.{newest}"]:
                break
            assert time.monotonic() < until, "the change is not visible"
    assert newest == 100


def run(*command, **options):
    environment = {**os.environ, "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "TERM": "dumb"}
    subprocess.run(command, check=True, timeout=seconds(30), env=environment, stdout=subprocess.DEVNULL,
                   stdin=subprocess.DEVNULL, **options)


def replace_with_git(path, fresh):
    directory = path.parent
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    if not (directory / ".git").exists():
        run(*git, "init", "--quiet", cwd=directory)
        run(*git, "add", path.name, cwd=directory)
        run(*git, "commit", "--quiet", "-m", "first", cwd=directory)
    blob = subprocess.run([*git, "hash-object", "-w", fresh], cwd=directory, check=True, capture_output=True,
                          text=True).stdout.strip()
    run(*git, "update-index", "--cacheinfo", f"100644,{blob},{path.name}", cwd=directory)
    run(*git, "checkout-index", "--force", path.name, cwd=directory)


# How each of them replaces a file with the text of another.
REPLACEMENTS = {
    "sed": lambda path, fresh: run("sed", "-i", "-n", f"1{{r {fresh}\n}}", path),
    "vim": lambda path, fresh: run("vim", "-u", "NONE", "-es", "-c", f"%d|0r {fresh}|$d|x", path),
    "ed": lambda path, fresh: run("sh", "-c", f"printf '%s\\n' ',d' '0r {fresh}' w q | ed -s {path}"),
    "rsync": lambda path, fresh: run("rsync", "--checksum", fresh, path),
    "rsync in place": lambda path, fresh: run("rsync", "--inplace", "--checksum", fresh, path),
    "cp": lambda path, fresh: run("cp", "--preserve", fresh, path),
    "cp after removal": lambda path, fresh: run("cp", "--remove-destination", fresh, path),
    "install": lambda path, fresh: run("install", "-m", "0644", fresh, path),
    "mv": lambda path, fresh: run("sh", "-c", f"cp {fresh} {path}.new && mv {path}.new {path}"),
    "tee": lambda path, fresh: run("sh", "-c", f"tee {path} < {fresh}"),
    "git": replace_with_git,
}


@pytest.mark.parametrize("tool", REPLACEMENTS)
def test_no_query_sees_a_missing_name_while_a_tool_replaces_a_file(workspace, daemon, tool):
    """Asked without pause, the answer is the old address or the new one."""
    command = tool.split()[0]
    if not shutil.which(command):
        pytest.skip(f"needs {command}")
    path = workspace.resources / "api.yaml"
    fresh = workspace.path / "fresh.yaml"
    seen, ended = [], threading.Event()

    def keep_asking():
        is_last = False
        while not is_last:
            is_last = ended.is_set()  # one question more: the change may just have come
            found = daemon.ask("api.example.org.").addresses()
            if not seen or found != seen[-1]:
                seen.append(found)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        for i in range(2, 7):
            fresh.write_text(to_yaml([entry(f"10.0.0.{i}")]) + "# longer\n" * (i % 3) * 100)
            REPLACEMENTS[tool](path, fresh)
            wait_for(daemon, f"10.0.0.{i}")
    finally:
        ended.set()
        asking.join()
    assert seen == [[f"10.0.0.{i}"] for i in range(1, 7)]


@pytest.mark.timing
def test_a_replaced_file_is_in_the_answers_at_once(workspace, daemon):
    """The median of several: each may meet a look at the tree that was due."""
    times = []
    for i in range(2, 13):
        fresh = workspace.path / "fresh.yaml"
        fresh.write_text(to_yaml([entry(f"10.0.0.{i}")]))
        time.sleep(0.1)  # each change is a burst of its own
        start = time.monotonic()
        os.replace(fresh, workspace.resources / "api.yaml")
        while daemon.ask("api.example.org.").addresses() != [f"10.0.0.{i}"]:
            assert time.monotonic() < start + seconds(10)
        times.append(time.monotonic() - start)
    assert sorted(times)[len(times) // 2] < 0.02, times


def test_a_burst_that_the_kernel_cannot_queue_loses_no_change(workspace):
    """Some 20,000 events while the daemon stands still; fs.inotify.max_queued_events is 16,384 unless told otherwise."""
    workspace.write("api.yaml", entry("10.0.0.7"))
    daemon = workspace.daemon(upstreams=[workspace.upstream()])
    assert daemon.ask("api.example.org.").addresses() == ["10.0.0.7"]
    daemon.process.send_signal(signal.SIGSTOP)
    for i in range(10_000):
        (workspace.resources / f"n{i}.yaml").write_text("")
    workspace.write("api.yaml", entry("10.0.0.8"))
    workspace.write("new.yaml", entry("10.0.0.9", "new", "new.example.org"))
    daemon.process.send_signal(signal.SIGCONT)
    eventually(lambda: answers(daemon, "10.0.0.8"), 10)
    eventually(lambda: answers(daemon, "10.0.0.9", "new.example.org."), 10)
