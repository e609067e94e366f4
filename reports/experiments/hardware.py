"""Plans and profiles on hardware: what was checked without a GPU."""

from reports.experiments.facts import measured_once

CHECKED = measured_once("hardware")
