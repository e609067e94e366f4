"""From counts of patterns to a plan."""

from collections import defaultdict, deque
from collections.abc import Mapping

from formulations.colgen.generation import Generation
from instances import Plan
from instances.one_gpu import Resident


def plan_of(generation: Generation, counts: Mapping[int, int]) -> Plan:
    """Build the plan that uses each pattern ``counts`` times; a workload covered twice is placed once.

    Parameters
    ----------
    generation
        Whose master knows the patterns.
    counts
        GPUs by pattern.
    """
    class_of = generation.class_of
    waiting: dict[int, deque[int]] = defaultdict(deque)
    for workload, group in enumerate(class_of):
        waiting[int(group)].append(workload)
    gpus = []
    for column in sorted(counts):
        pattern = generation.master.patterns[column]
        for _ in range(counts[column]):
            residents = [
                Resident(waiting[int(class_of[w])].popleft(), batch, rate)
                for w, batch, rate in pattern.members
                if waiting[int(class_of[w])]
            ]
            if residents:
                gpu = generation.placed(pattern, residents)
                assert gpu is not None, "a pattern stays feasible when residents leave it"
                gpus.append(gpu)
    return Plan(generation.instance.name, tuple(gpus))
