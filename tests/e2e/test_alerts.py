# SPDX-License-Identifier: Apache-2.0
"""Each alert comes for what it is for, after its time, and for nothing else.  Prometheus' own program judges."""

import shutil
import subprocess

import pytest
import yaml

from harness.daemon import ROOT
from harness.preset import ONCE, TREE
from harness.waiting import seconds

pytestmark = [ONCE, TREE]

RULES = yaml.safe_load((ROOT / "conf" / "prometheus" / "meshdns.rules.yaml").read_text())
RULE = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
# A daemon that is well: series and their values, one a minute, for two hours.
WELL = {
    "up": "1x120", "meshdns_build_info": "1x120", "meshdns_ready": "1x120", "meshdns_degraded": "0x120",
    "meshdns_workers_stuck": "0x120", "meshdns_resolver_names_failed": "0x120", "meshdns_snapshot_write_failures_total": "3x120",
    'meshdns_dns_responses_total{rcode="NOERROR"}': "0+600x120", 'meshdns_dns_responses_total{rcode="SERVFAIL"}': "0+6x120",
    'meshdns_dns_request_duration_seconds_bucket{le="0.1"}': "0+600x120",
    'meshdns_dns_request_duration_seconds_bucket{le="2"}': "0+600x120",
    'meshdns_dns_request_duration_seconds_bucket{le="+Inf"}': "0+600x120",
    'meshdns_proxy_request_duration_seconds_bucket{to="192.0.2.53:53",le="0.512"}': "0+600x120",
    'meshdns_proxy_request_duration_seconds_bucket{to="192.0.2.53:53",le="1.024"}': "0+600x120",
    'meshdns_proxy_request_duration_seconds_bucket{to="192.0.2.53:53",le="+Inf"}': "0+600x120",
    'meshdns_proxy_healthy{to="192.0.2.53:53"}': "1x120", 'meshdns_proxy_failing{to="192.0.2.53:53"}': "0x120",
    'meshdns_proxy_looped{to="192.0.2.53:53"}': "0x120", 'meshdns_source_failing{name="files:a"}': "0x120",
    'meshdns_source_broken{name="files:a"}': "0x120", "meshdns_config_last_reload_ok": "1x120",
    "meshdns_udp_socket_overflow_total": "7x120", "meshdns_dns_rejected_total": "0x120",
    'meshdns_kubernetes_reachable{name="kubernetes"}': "1x120",
    'meshdns_kubernetes_forbidden{name="kubernetes",collection="services"}': "0x120",
}
# Another daemon, which only its target shows.
OTHER = "meshdns_build_info of another node"
GONE = {name: "_x90" for name in WELL}
# {alert: what is otherwise from the 30th minute on}
ILL = {
    "MeshdnsTargetDown": [GONE | {"up": "0x90"}],
    "MeshdnsTargetsAbsent": [GONE | {OTHER: "_x90"}],
    "MeshdnsNotReady": [{"meshdns_ready": "0x90"}],
    "MeshdnsDegraded": [{"meshdns_degraded": "2x90"}],
    "MeshdnsWorkerStuck": [{"meshdns_workers_stuck": "1x90"}],
    "MeshdnsManyServfail": [{'meshdns_dns_responses_total{rcode="SERVFAIL"}': "180+60x90"}],
    "MeshdnsSlow": [{'meshdns_dns_request_duration_seconds_bucket{le="0.1"}': "18000+580x90"}],
    "MeshdnsUpstreamSlow": [{'meshdns_proxy_request_duration_seconds_bucket{to="192.0.2.53:53",le="0.512"}': "18000+200x90"}],
    "MeshdnsUpstreamDown": [{'meshdns_proxy_healthy{to="192.0.2.53:53"}': "0x90"}],
    "MeshdnsUpstreamFailing": [{'meshdns_proxy_failing{to="192.0.2.53:53"}': "1x90"}],
    "MeshdnsForwardingLoop": [{'meshdns_proxy_looped{to="192.0.2.53:53"}': "1x90"}],
    "MeshdnsSourceFailing": [{'meshdns_source_failing{name="files:a"}': "1x90"}, {'meshdns_source_broken{name="files:a"}': "1x90"}],
    "MeshdnsStateNotSaved": [{"meshdns_snapshot_write_failures_total": "3+1x90"}],
    "MeshdnsEndpointNamesFailing": [{"meshdns_resolver_names_failed": "4x90"}],
    "MeshdnsConfigReloadFailed": [{"meshdns_config_last_reload_ok": "0x90"}],
    "MeshdnsDropsQueries": [{"meshdns_udp_socket_overflow_total": "7+60x90"}, {"meshdns_dns_rejected_total": "0+60x90"}],
    "MeshdnsKubernetesUnreachable": [{'meshdns_kubernetes_reachable{name="kubernetes"}': "0x90"}],
    "MeshdnsKubernetesForbidden": [{'meshdns_kubernetes_forbidden{name="kubernetes",collection="services"}': "1x90"}],
}
# Also a node that has left the cluster: Prometheus no longer has its target.
CASES = [(None, {}), (None, GONE), *((alert, change) for alert, changes in ILL.items() for change in changes)]


def series(name, value, change):
    head, _, labels = name.partition("{")
    labels = ['job="dns"', 'instance="node-1"', *([labels.rstrip("}")] if labels else [])]
    if name == OTHER:
        head, labels = "meshdns_build_info", ['job="dns"', 'instance="node-2"']
    values = value if change is None else f"{value.removesuffix('x120')}x29 {change}"
    return {"series": f"{head}{{{','.join(labels)}}}", "values": values}


def minutes(text):
    return int(text.removesuffix("m")) if text.endswith("m") else 1


def test_every_alert_has_a_case():
    assert set(ILL) == set(RULE)


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs the package prometheus")
@pytest.mark.parametrize("alert, change", CASES, ids=lambda value: "" if isinstance(value, dict) else str(value))
def test_an_alert_comes_for_its_cause_alone(tmp_path, alert, change):
    """Not before its time, and no other one comes."""
    fires = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    expected = {29: [], 100: fires}
    if alert and "for" in RULE[alert]:
        expected[29 + minutes(RULE[alert]["for"])] = []
    shutil.copy(ROOT / "conf" / "prometheus" / "meshdns.rules.yaml", tmp_path)
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({
        "rule_files": ["meshdns.rules.yaml"], "evaluation_interval": "15s",
        "tests": [{"interval": "1m",
                   "input_series": [series(name, value, change.get(name)) for name, value in {**WELL, OTHER: "1x120"}.items()],
                   "promql_expr_test": [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{minute}m",
                                         "exp_samples": samples} for minute, samples in expected.items()]}]}))
    ran = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False,
                         timeout=seconds(60))
    assert ran.returncode == 0, ran.stdout + ran.stderr
