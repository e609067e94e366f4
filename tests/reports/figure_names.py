"""Names of figures that several tests speak of."""

OF_MODELS = (
    "gpulet-fig10",
    "gpulet-fig7",
    "igniter-fig11",
    "igniter-fig12",
    "igniter-fig13",
    "inss-table3",
    "inss-table4",
    "mediator-fig4",
)
"""Those of performance models: they need no runs."""

OF_COURSES = ("gpulet-arxiv-fig14", "gpulet-fig15", "igniter-fig15", "igniter-fig16", "igniter-fig17", "inss-fig11")
"""Those of loads that are served online while they are drawn."""

OF_TRAININGS = ("inss-fig8", "inss-fig9")
"""Those of the curves that come with InSS's trained agents: they need no runs."""
