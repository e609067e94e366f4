"""Labels inside boxes, shortened to fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Page
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text


@dataclass(frozen=True, slots=True)
class Wording:
    """One way to write a label."""

    text: str
    size_pt: float
    rotation_deg: float = 0.0


def fit_labels(sheet: "Page", labels: "Iterable[tuple[Text, Rectangle, Sequence[Wording]]]") -> None:
    """Write each label in its first wording that fits into its box, or leave it empty.

    Call it last: later additions to the page move the boxes.
    """
    sheet.draw_without_rendering()  # lays the page out
    for text, box, wordings in labels:
        room = box.get_window_extent()
        for wording in (*wordings, Wording("", 1.0)):
            text.set(text=wording.text, fontsize=wording.size_pt, rotation=wording.rotation_deg)
            extent = text.get_window_extent()
            if extent.width <= room.width and extent.height <= room.height:
                break
