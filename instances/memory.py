"""Device memory of a serving process: CUDA context, weights, and activations of each item of a batch."""

from instances.errors import unknown_name

CONTEXT_MIB = 500.0

# Parameters in millions as iGniter's Table 3 lists them. Activations in MiB per item: ResNet-50 and VGG from the totals
# that gpulet's configuration states at batch 32 (1,820 and 2,920 MiB); AlexNet and SSD from the sizes of their layers'
# outputs at four bytes each.
_PARAMETERS_AND_ACTIVATIONS = {
    "alexnet": (61.10, 4.0),
    "resnet50": (25.56, 38.2),
    "vgg19": (143.67, 59.1),
    "ssd": (26.29, 100.0),
}


def memory_mib(model: str, where: str = "model") -> tuple[float, float]:
    """Return (base, per item) of ``model`` in MiB: memory at batch b is ``base + b * per_item``. Calibrated.

    Raises
    ------
    InputError
        If the model is not listed; ``where`` names the place that asked.
    """
    if model not in _PARAMETERS_AND_ACTIVATIONS:
        raise unknown_name(where, "model with known memory", model, list(_PARAMETERS_AND_ACTIVATIONS))
    parameters_millions, per_item_mib = _PARAMETERS_AND_ACTIVATIONS[model]
    return round(CONTEXT_MIB + parameters_millions * 4e6 / 2**20, 1), per_item_mib
