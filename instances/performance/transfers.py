"""Transfers between host and GPU, linear in the batch (iGniter equation 3; InSS Sec. 4.1)."""

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType


def pcie_transfers_ms(gpu: GpuType, model: DnnModel, batch: Floats) -> tuple[Floats, Floats]:
    """Return upload and feedback time of a batch over PCIe."""
    per_ms = gpu.hardware.pcie_bytes_per_ms
    return model.input_bytes * batch / per_ms, model.output_bytes * batch / per_ms
