"""Device memory of the known DNN models (context, weights, activations), and the bytes that a request transfers."""

from instances.errors import unknown_name

MEMORY_ASSUMED = "memory assumed to be the largest of all listed models (instances/memory.py)"
MEMORY_CALIBRATED = "memory calibrated (instances/memory.py)"
MEMORY_MEASURED = "memory measured"
"""Origins of a model's memory; each is the end of a ``Provenance.source``."""

CONTEXT_MIB = 500.0
"""Memory of the CUDA context of a process."""

# Parameters in millions, and activations in MiB per item. The parameters of iGniter's four models are from its Table 3;
# those of the other models are from torchvision and the original publications. Most activations follow from the totals
# at batch 32 in gpulet's configuration (MiB: GoogLeNet 1720, ResNet-50 1820, SSD-MobileNet 640, VGG-16 2920,
# DenseNet-161 1220, MnasNet 1550). The activations of AlexNet and SSD follow from the sizes of their layers' outputs at
# four bytes each. A model without a total has the activations of a related model; deeper ResNets have more activations,
# in proportion to their operations. The totals of MobileNetV2 (464), BERT (500) and LeNet (50) are too small for a CUDA
# context with weights: these models get context and weights, and no activations.
_PARAMETERS_AND_ACTIVATIONS = {
    "alexnet": (61.10, 4.0),
    "bert": (109.48, 0.0),
    "convnext": (88.59, 107.0),
    "densenet121": (7.98, 21.6),
    "densenet161": (28.68, 19.1),
    "densenet169": (14.15, 21.6),
    "densenet201": (20.01, 21.6),
    "efficientnet": (5.29, 32.3),
    "googlenet": (6.62, 37.3),
    "inception": (27.16, 37.3),
    "lenet": (0.06, 0.0),
    "mnasnet": (4.38, 32.3),
    "mnasnet-wide": (6.28, 32.3),
    "mobilenet": (3.50, 0.0),
    "regnet": (83.59, 107.0),
    "resnet18": (11.69, 17.0),
    "resnet50": (25.56, 38.2),
    "resnet101": (44.55, 72.6),
    "resnet152": (60.19, 107.0),
    "shufflenet-half": (1.37, 32.3),
    "ssd": (26.29, 100.0),
    "ssd-mobilenet": (6.80, 3.6),
    "vgg16": (138.36, 59.1),
    "vgg19": (143.67, 59.1),
}

IMAGE_BYTES = 3 * 224 * 224 * 4
"""Bytes of the input image of most models, in single precision."""

CLASSES_BYTES = 4 * 1000
"""Bytes of the output of most models: a thousand classes, in single precision."""

# Bytes of input and output of one request, for models whose input is not an image of 224 x 224 pixels or whose output
# is not a thousand classes.
_BYTES = {
    "bert": (3 * 128 * 8, 4 * 2),
    "inception": (3 * 299 * 299 * 4, CLASSES_BYTES),
    "lenet": (28 * 28 * 4, 4 * 10),
    "ssd": (3 * 300 * 300 * 4, 4 * 8732 * 25),
    "ssd-mobilenet": (3 * 300 * 300 * 4, 4 * 1917 * 95),
}


def memory_mib(model: str, where: str = "model") -> tuple[float, float]:
    """Return the calibrated memory (base, per item) of ``model`` in MiB: at batch b it is ``base + b * per_item``.

    Raises
    ------
    InputError
        If the model is not listed; ``where`` is the place that the error names.
    """
    if model not in _PARAMETERS_AND_ACTIVATIONS:
        raise unknown_name(where, "model with known memory", model, list(_PARAMETERS_AND_ACTIVATIONS))
    parameters_millions, per_item_mib = _PARAMETERS_AND_ACTIVATIONS[model]
    return round(CONTEXT_MIB + parameters_millions * 4e6 / 2**20, 1), per_item_mib


def most_memory_mib() -> tuple[float, float]:
    """Return the largest base and the largest memory per item of the listed models, in MiB, for an unlisted model."""
    base_mib, per_item_mib = zip(*map(memory_mib, _PARAMETERS_AND_ACTIVATIONS), strict=True)
    return max(base_mib), max(per_item_mib)


def is_listed(model: str) -> bool:
    """Return whether the memory of ``model`` is listed."""
    return model in _PARAMETERS_AND_ACTIVATIONS


def request_bytes(model: str) -> tuple[int, int]:
    """Return the bytes that a request to ``model`` uploads and downloads; by default those of an image classifier."""
    return _BYTES.get(model, (IMAGE_BYTES, CLASSES_BYTES))
