# SPDX-License-Identifier: Apache-2.0
"""The rule of `./dev bench --latency` for times at which the machine stood still, and the tables of measurements."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

from suite import changes, data, latency, measure, pods, workloads  # noqa: E402

from harness.preset import ONCE, TREE  # noqa: E402

pytestmark = [ONCE, TREE]


def samples(*due_and_latency):
    return [number for pair in due_and_latency for number in pair]


def test_without_stalls_every_query_counts():
    assert latency.calm(samples((0, 30), (200, 10), (400, 20)), []) == ([10, 20, 30], 0)


def test_queries_that_were_due_around_a_stall_do_not_count():
    """A stall from 50 ms to 52 ms: what was due from 49 ms to 66 ms is left out, whatever its latency."""
    seen = samples((48_999, 1), (49_000, 2), (51_000, 3), (60_000, 4), (66_000, 5), (66_001, 6), (90_000, 7))
    assert latency.calm(seen, [(50_000, 52_000)]) == ([1, 6, 7], 1 - 3 / 7)


def test_a_slow_answer_that_was_due_long_before_a_stall_counts():
    assert latency.calm(samples((10_000, 60_000_000), (20_000, 5)), [(50_000, 52_000)]) == ([5, 60_000_000], 0)


def test_stalls_of_both_cores_may_overlap_and_come_in_any_order():
    ranges = latency.merge([(90_000, 91_000), (20_000, 21_000), (25_000, 40_000)])
    assert ranges == [[19_000, 80_000], [89_000, 103_000]]


def test_quantiles_are_those_of_the_ordered_latencies():
    ordered = list(range(1000))
    assert [latency.quantile(ordered, share) for share in (0.5, 0.99, 0.999)] == [500, 990, 999]
    assert latency.quantile([7], 0.999) == 7


def row_of(server, p99s):
    calm = [latency.Calm((20, p99, 900), 5_000, 0.1, p99 / 10) for p99 in p99s]
    return measure.Row(server, "vip-10k", by_rate={**dict.fromkeys(latency.RATES, calm), "half": calm})


def test_the_table_has_the_medians_of_the_rounds_and_the_best_server_first():
    workload = next(w for w in workloads.ALL if w.name == "vip-10k")
    missing = measure.Row("bind", "vip-10k", why_not="it is not installed")
    text = "\n".join(latency.section(workload, [row_of("slow", [90, 300, 200]), row_of("fast", [60]), missing]))
    assert text.index("| fast |") < text.index("| slow |")
    assert "20, 200 (90 to 300), 900" in text
    assert "5000: 20, 60 (60 to 60), 900 | 10% |" in text
    assert "| slow | 20.00 | 20.00 | 20.00 |" in text
    assert "bind was not measured: it is not installed" in text


def test_the_table_of_cpu_has_ratios_to_the_echo_server():
    assert latency.cpu_table([row_of("echo", [40]), row_of("other", [50, 50])])[3] == "| other | 5.00 (1.25) | 5.00 (1.25) | 5.00 (1.25) |"


def test_the_table_of_changes_compares_a_registry_at_rest_with_one_that_changes():
    load = {"cpu_seconds": 0.5, "answered": 200_000}
    seen = {"p50_ms": 1.5, "p99_ms": 3, "p999_ms": 5.25, "control_us_per_change": 118}
    costs = [changes.Cost("echo", 0, 0, 2.0, (), 0),
             changes.cost_of({"services": 1000, "rate": 1000, "changes": seen, "load": load}),
             changes.cost_of({"services": 1000, "rate": 1, "changes": seen, "load": {**load, "cpu_seconds": 0.46}})]
    lines = changes.section(costs)
    assert lines[-4:-1] == ["| echo |  |  | 2.00 | 1.00 |  |  |", "| meshdnsd | 1000 | 1 | 2.30 | 1.15 |  |  |",
                            "| meshdnsd | 1000 | 1000 | 2.50 | 1.25 | 1.50, 3.00, 5.25 | 118 |"]


def test_each_name_of_a_pod_bench_is_asked_by_one_client_and_the_clients_take_turns():
    names = data.Questions(1_000).of_views(10)
    asked_by = {}
    for number, name in enumerate(names):
        asked_by.setdefault(name, set()).add(number % 10)
    assert len(asked_by) == 1_000
    assert all(len(clients) == 1 for clients in asked_by.values())


def test_the_table_of_pods_has_medians_and_the_median_of_the_ratios_to_the_echo_server():
    def row(server, cpu, times, lost=0):
        return pods.Row(server, 10_000, 1, 8, False, [pods.Sample(c, t, 2 * t, lost) for c, t in zip(cpu, times)])

    lines = pods.section([row("echo", [4, 5, 10], [20, 30, 40]), row("fast", [1, 1, 5], [10, 15, 20], lost=1)])
    assert lines[0] == "### 10,000 names, 1 view, client and server on a core each"
    assert lines[-2] == "| 8 | fast (3 lost) | 1.0 (1.0 to 5.0) | 0.25 | 15.0 (10.0 to 20.0) | 0.50 | 30.0 |"
