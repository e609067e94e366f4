"""Targets of a deployment."""

from enum import StrEnum


class Target(StrEnum):
    """Target of a deployment: the system that reads the files."""

    SHELL = "shell"
    MPS_STATIC = "mps-static"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    DRA = "dra"
    DEVICE_PLUGIN = "device-plugin"
    HAMI = "hami"
    MIG_PARTED = "mig-parted"
    TRITON = "triton"
