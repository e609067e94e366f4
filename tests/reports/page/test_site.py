"""Files of a report: they are complete and self-contained, and hostile names in the ledger are only text."""

import csv
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from urllib.parse import unquote

import pytest

from bench.cli import main
from bench.ledger.row import columns
from bench.ledger.store import Ledger
from reports.page.site import site_files
from reports.placement import pieces
from tests.reports.page.runs_made_here import HOSTILE, TWELVE


class Page(HTMLParser):
    """Parser of an HTML file for its tags with attributes, the text of its scripts, and its words."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.get_starttag_text().startswith("<script"):
            self.scripts[-1] += data
        self.words.append(data)

    @property
    def data(self):
        texts = zip([a for t, a in self.tags if t == "script"], self.scripts, strict=True)
        return {a["id"]: json.loads(text) for a, text in texts if a.get("type") == "application/json"}


def pages(site):
    return [Page(path) for path in sorted(site.rglob("*.html"))]


def page_of(site, name):
    return next(site.glob(f"instances/{name}-{'?' * 12}.html"))


def values_of(text, picture):
    """Return the rows of the CSV that a picture's link saves."""
    (address,) = re.findall(rf'href="data:text/csv;charset=utf-8,([^"]*)" download="{picture}.csv"', text)
    return list(csv.reader(StringIO(unquote(unescape(address)))))


def test_there_is_a_page_for_every_instance(site):
    assert len(list(site.glob("instances/*.html"))) == 6
    assert {"index.html", "runs.html", "assets"} < {path.name for path in site.iterdir()}


def test_pages_load_only_files_of_the_report(site):
    for page in pages(site):
        for _, attributes in page.tags:
            for name in ("src", "href", "action", "data", "poster", "srcset"):
                assert not re.match(r"([a-z]+:)?//", attributes.get(name) or ""), attributes
    for asset in site.glob("assets/*"):
        text = asset.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*|\s//\s.*", "", text, flags=re.M), asset
        assert not re.search(r"\b(fetch|XMLHttpRequest|import|innerHTML|eval)\b", text), asset


def test_every_link_leads_to_a_file(site):
    for path in site.rglob("*.html"):
        for _, attributes in Page(path).tags:
            for name in ("src", "href"):
                target = (attributes.get(name) or "#").partition("#")[0]
                assert not target or target.startswith("data:") or (path.parent / target).is_file(), target


def test_hostile_names_are_only_text(site):
    (path,) = site.glob("instances/__script*")
    assert "alert(1)" in path.read_text(encoding="utf-8")
    for page in pages(site):
        assert not any("onerror" in attributes for _, attributes in page.tags)
        assert not any("alert" in text for text in page.scripts if not text.startswith(("{", "[")))
        assert not any(tag == "img" for tag, _ in page.tags)
    text = path.read_text(encoding="utf-8")
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, flags=re.S):
        assert not set(block) & set("<>&\u2028\u2029'")
    assert Page(path).data["page-data"]["instance"]["name"] == HOSTILE


def test_the_picture_of_a_plan_has_a_box_for_each_slot(site, rows):
    text = page_of(site, "igniter-12").read_text(encoding="utf-8")
    for row, instance in rows[:3]:
        card = re.search(rf"<article(?:(?!</article>).)*{row.key[:8]}.*?</article>", text, flags=re.S)
        boxes = re.findall(
            r'<i class="(m\d+)( bad)?" style="--o:([\d.]+);--s:([\d.]+)[^>]*><b>(\w+)</b> <small>(\d+)', card[0]
        )
        drawn = [(float(o), float(s), name, int(batch), bool(bad)) for _, bad, o, s, name, batch in boxes]
        expected = [(p.start_pct, p.share_pct, p.workload, p.batch, p.violating) for p in pieces(row, instance)]
        assert drawn == expected
    ffd = re.search(r"<article(?:(?!</article>).)*<bdi>ffd\+</bdi>.*?</article>", text, flags=re.S)[0]
    assert ffd.count('class="missing"') == 1  # the plan has five GPUs, and six are proven to be needed
    assert '<li class="bound" aria-label="6 GPUs are proven to be needed"' in ffd
    assert "9 broken constraints" in ffd


def test_every_run_is_listed_with_its_command_and_machine(site, rows):
    runs = Page(site / "runs.html").data["runs-data"]
    columns = {name: c if isinstance(c, list) else [c["values"][at] for at in c["at"]] for name, c in runs.items()}
    assert set(columns["key"]) == {row.key for row, _ in rows}
    assert all(json.loads(host)["cpu"] == "AMD EPYC" for host in columns["host"])
    assert all(command.startswith(("bench run ", "bench show ")) for command in columns["command"])


def test_pages_with_a_replay_have_predicted_against_measured_latencies(site):
    text = page_of(site, "igniter-12").read_text(encoding="utf-8")
    _, *lines = values_of(text, "measured")
    assert [line[-1] for line in lines] == [workload.id for workload in TWELVE.workloads]
    assert all(
        float(measured) == pytest.approx(1.1 * float(predicted), rel=1e-5) for *_, predicted, measured, _ in lines
    )
    assert 'id="measured-chart"' not in page_of(site, "gpulet-game").read_text(encoding="utf-8")


def test_the_same_rows_give_the_same_files(ledger_file):
    with Ledger(ledger_file) as ledger:
        assert site_files(ledger) == site_files(ledger)


def test_a_ledger_without_runs_has_a_page(tmp_path):
    with Ledger(tmp_path / "empty.sqlite", create=True) as ledger:
        assert "This ledger has no runs" in site_files(ledger)["index.html"]


@pytest.mark.parametrize("signs", [(1.0,), (-1.0,), (1.0, -1.0)])
def test_the_largest_numbers_have_a_page(rows, tmp_path, signs):
    numbers = [column.name for column in columns() if column.type is float]
    with Ledger(tmp_path / "l.sqlite", create=True) as ledger:
        for position, (row, instance) in enumerate(rows):
            largest = 1.7e308 * signs[position % len(signs)]
            ledger.add(replace(row, **{n: largest for n in numbers if getattr(row, n) is not None}), instance)
        assert {"index.html", "runs.html"} < site_files(ledger).keys()


def test_an_instance_of_another_catalogue_has_runs_but_no_page(tmp_path, rows):
    path = tmp_path / "l.sqlite"
    with Ledger(path, create=True) as ledger:
        ledger.add(rows[0][0], TWELVE)
        ledger.file.database.execute("UPDATE instances SET json = replace(json, '1200', '1201')")
        site_files_ = site_files(ledger)
    assert [name for name in site_files_ if name.startswith("instances/")] == []
    assert rows[0][0].key in site_files_["runs.html"]


@pytest.mark.parametrize("what", ["no ledger", "a full folder"])
def test_a_missing_ledger_and_a_folder_with_other_files_are_errors_of_one_line(what, ledger_file, tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    ledger = ledger_file if what == "a full folder" else tmp_path / "none.sqlite"
    folder = tmp_path if what == "a full folder" else tmp_path / "new"
    assert main(["report", str(ledger), "-o", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert ("letter.txt" in line) == (what == "a full folder")
    assert (tmp_path / "letter.txt").read_text() == "dear"
