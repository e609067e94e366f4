"""A toy GPU type with the round coefficients that the four performance models need."""

from dataclasses import replace

from instances.gpu import Company, PairFactor, SoloProfile
from tests.instances.reference import LARGE, SMALL, TOY

SOLO = SoloProfile(
    batch=(1, 2, 4, 8),
    share_pct=(20.0, 50.0, 100.0),
    gpu_ms=((5.0, 2.0, 2.0), (10.0, 4.0, 2.0), (20.0, 8.0, 4.0), (40.0, 16.0, 8.0)),
    l2_pct=(10.0, 20.0, 30.0, 30.0),
    dram_pct=(20.0, 40.0, 50.0, 60.0),
    l2=(0.02, 2.0),
    dram=(0.04, 1.0),
    span=0.5,
)
COMPANY = Company(((8.0, 4.0, 3.0), (12.0, 5.0, 2.5), (20.0, 8.8, 4.4), (40.0, 16.0, 8.0)), 0.002, 0.003)
PROFILED = replace(
    TOY,
    name="profiled",
    models={
        "small": replace(SMALL, solo=SOLO, inss=(0.01, 0.02), company=COMPANY),
        "large": replace(LARGE, solo=SOLO, inss=(0.005, 0.01), company=Company(SOLO.gpu_ms, 0.001, 0.0)),
    },
    pair=PairFactor(0.1, 0.5, 0.2, 0.4, 0.9),
)
