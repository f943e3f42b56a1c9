# SPDX-License-Identifier: Apache-2.0
"""What the scenario and end-to-end tests share: the daemon as a process, DNS clients that say what
they saw, a scripted upstream, and real DNS servers of the distribution."""
