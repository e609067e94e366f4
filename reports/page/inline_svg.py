"""Pictures of ``reports.charts`` as SVG elements in a page, with the page's theme and with titles of their marks."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup, escape

from reports.charts.page import Page
from reports.charts.palette import ALARM, GREEN, QUIET, pale
from reports.page.styles import light_and_dark

_THEME = {
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#d9d9d9": "var(--faint)",  # the grid
    QUIET.lower(): "var(--soft)",
    GREEN.lower(): "var(--good)",
    ALARM.lower(): "var(--alarm)",
}
"""Colours of the page by the figures' colours."""

_HALF_COLOUR = "color-mix(in srgb, currentColor 45%, var(--paper))"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_SKIPPED_KINDS = ("metadata", "style")
_BACKGROUNDS = ("patch_1", "patch_2")
"""Matplotlib's ids of the backgrounds of the figure and of the axes."""

_OMITTED_STYLES = ("stroke-dashoffset: 0", "stroke-linecap: square")
"""Parts of Matplotlib's styles that the page leaves out."""

_COPIED_ATTRIBUTES = ("x", "y", "width", "height", "clip-path")


def inline_svg(
    sheet: Page,
    name: str,
    label: str,
    colour_of: Mapping[str, str],
    titles: Mapping[str, Sequence[str]],
    hidden: Container[str] = (),
) -> Markup:
    """Return a picture as an SVG element.

    Parameters
    ----------
    sheet
        The picture. The style sheet sets size and colour of its text.
    name
        Name of the picture, unique on the page. All ids are derived from the name.
    label
        Text alternative.
    colour_of
        Colour of an artist by its gid (Matplotlib's group id). Each of these artists becomes a group ``.series`` with
        its gid in ``data-series``.
    titles
        Titles of an artist's marks by its gid, in the order of the points.
    hidden
        Gids in ``colour_of`` that are hidden until the reader switches them on.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = StringIO()
    with rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(sheet).print_svg(text, metadata={"Date": None})  # type: ignore[no-untyped-call]
    root = ElementTree.fromstring(text.getvalue())  # noqa: S314 - Matplotlib has written it
    inner = _SvgWriter(colour_of, titles, hidden).inner(root, {})
    box = f"0 0 {sheet.get_figwidth() * 72.0:g} {sheet.get_figheight() * 72.0:g}"
    return Markup(  # noqa: S704 - all texts are escaped
        f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}">{inner}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _SvgWriter:
    """Colours, titles and visibility of the artists with gids; see ``inline_svg``."""

    colour_of: Mapping[str, str]
    titles: Mapping[str, Sequence[str]]
    hidden: Container[str]

    def inner(self, node: Element, colours: Mapping[str, str]) -> str:
        """Return the children of one of Matplotlib's elements, without backgrounds and metadata."""
        children = (
            child for child in node if _kind(child) not in _SKIPPED_KINDS and child.get("id") not in _BACKGROUNDS
        )
        return "".join(
            self.group(child, colours) if _kind(child) == "g" else self.leaf(child, colours) for child in children
        )

    def group(self, node: Element, colours: Mapping[str, str]) -> str:
        """Return a group, or only its children if the group has no attributes."""
        gid, attributes = node.get("id", ""), {}
        if gid in self.colour_of:
            colour = self.colour_of[gid]
            light, dark = light_and_dark(colour)
            colours = {colour.lower(): "currentColor", pale(colour).lower(): _HALF_COLOUR}
            attributes = {"class": "series off" if gid in self.hidden else "series", "data-series": gid}
            attributes["style"] = f"color:light-dark({light},{dark})"
        inner = self._path(node, colours) or self.inner(node, colours)
        if gid in self.titles:
            inner = _titled(inner, self.titles[gid])
        if "clip-path" in node.attrib:
            attributes["clip-path"] = node.attrib["clip-path"]
        if len(node) and _kind(node[0]) == "use":  # the marks of a series have one style
            attributes["style"] = _themed(node[0].attrib["style"], colours)
        return _tag("g", attributes, inner) if attributes and inner else inner

    def _path(self, node: Element, colours: Mapping[str, str]) -> str:
        """Return a group of lines with one style as one path; an empty text for any other group."""
        styles = {
            child.get("style", "") if _kind(child) == "path" and "id" not in child.attrib else "" for child in node
        }
        if len(styles) != 1 or "" in styles:
            return ""
        path_data = "".join(_rounded_path(child.attrib["d"], digits=1) for child in node)
        clip = {"clip-path": node[0].attrib["clip-path"]} if colours and "clip-path" in node[0].attrib else {}
        return _tag("path", {"d": path_data, **clip, "style": _themed(styles.pop(), colours)}, "")

    def leaf(self, node: Element, colours: Mapping[str, str]) -> str:
        """Return an element that is no group: a path, a mark, a text or a definition."""
        tag = _kind(node)
        attributes = {key: _short(node.attrib[key], digits=1) for key in _COPIED_ATTRIBUTES if key in node.attrib}
        if not colours:
            attributes.pop("clip-path", None)  # the grid and its guide lines end with the axes
        if tag == "text":
            style = node.attrib["style"]
            if text_anchor := re.search(r"text-anchor: (\w+)", style):
                attributes["text-anchor"] = text_anchor[1]
            if "fill:" not in style:  # black text is the name of a mark
                attributes["class"] = "name"
            return _tag(tag, attributes, escape(node.text or ""))
        if tag in ("path", "clipPath") and "id" in node.attrib:
            attributes["id"] = node.attrib["id"]
        if "d" in node.attrib:
            attributes["d"] = _rounded_path(node.attrib["d"], digits=2 if "id" in attributes else 1)
        if tag == "use":
            attributes["href"] = node.attrib[_XLINK]
        elif "style" in node.attrib:
            attributes["style"] = _themed(node.attrib["style"], colours)
        inner = self.inner(node, colours)
        return "" if tag == "defs" and not inner else _tag(tag, attributes, inner)


def _kind(node: Element) -> str:
    return str(node.tag).rpartition("}")[2]


def _titled(marks: str, titles: Sequence[str]) -> str:
    """Return marks, each with its title."""
    parts = re.split(r"(<use [^>]*)/>", marks)
    if len(parts) == 1:
        return marks  # without marks: the spans of a series, which have the same gid as its marks
    titled_marks = [
        f"{mark}><title>{escape(title)}</title></use>" for mark, title in zip(parts[1::2], titles, strict=True)
    ]
    return "".join(part for pair in zip_longest(parts[::2], titled_marks, fillvalue="") for part in pair)


def _themed(style: str, colours: Mapping[str, str]) -> str:
    """Return a style with the colours of the page."""
    page_colours = {**_THEME, **colours}
    parts = [part for part in style.split("; ") if part not in _OMITTED_STYLES]
    return re.sub("#[0-9a-f]{6}", lambda match: page_colours.get(match[0], match[0]), ";".join(parts)).replace(
        ": ", ":"
    )


def _rounded_path(path: str, digits: int) -> str:
    """Return path data with rounded numbers, and without spaces around commands."""
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", _short(path, digits)).strip()


def _short(numbers: str, digits: int) -> str:
    """Return a text with its numbers rounded."""
    return re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.{digits}f}".rstrip("0").rstrip("."), numbers)


def _tag(tag: str, attributes: Mapping[str, str], inner: str) -> str:
    attribute_text = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{attribute_text}>{inner}</{tag}>" if inner else f"<{tag}{attribute_text}/>"
