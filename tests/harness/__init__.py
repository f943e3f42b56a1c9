# SPDX-License-Identifier: Apache-2.0
"""Shared by the scenario and end-to-end tests: the daemon as a process, DNS clients that report
their answers, a scripted upstream, and real DNS servers of the distribution."""
