"""Checks of replay and profiling that need no GPU."""

from reports.experiments.facts import measured_once

CHECKED = measured_once("hardware")
