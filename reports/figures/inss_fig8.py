"""InSS, Fig. 8: reward of the agent during training."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.training_curves import draw_curves


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the curves that come with the policies into ``folder``; it needs no runs."""
    return draw_curves(FIGURE, {"reward": "Reward of a step"}, folder)


FIGURE = Figure(
    name="inss-fig8",
    title="Reward of InSS's agent during training",
    paper="InSS, Fig. 8",
    shows="The rewards of both stages grow and are stable after 400 (SACD) and 800 (TD3) episodes.",
    look_for="The reward of a step is that of the whole cluster; the paper has one curve per stage. Most is learned "
    "within 250 and 400 episodes, each of 64 clusters. Left, many requests are late until exploration fades, halved "
    "every 120 episodes. Right, the agent admits hardly any request that would be late. The paper has one training.",
    cost="no runs",
    needs=(),
    draw=draw,
)
