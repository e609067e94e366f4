"""DNN models for serving on hardware, by their names in the catalogue.

The architectures are those of the original publications, in the variants whose sizes torchvision states. Weights are
random and nothing is downloaded: times depend on shapes, not on the values of the weights.
"""

from bench.replay.nets.registry import build, example_input, input_shape, net_names, settle

__all__ = ["build", "example_input", "input_shape", "net_names", "settle"]
