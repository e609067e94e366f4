"""The texts of many files, on all cores."""

import multiprocessing
import os
import signal
import time
from functools import partial
from multiprocessing.context import ForkProcess

import pytest

from instances import InputError
from reports.page import files
from reports.page.files import written_texts

# Python 3.12 and later warn where other tests have left threads; the processes that are forked here use none of theirs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: request.param)
    return request.param


def text(number):
    return f"text {number} by {os.getpid()}"


def test_every_file_has_its_text_on_any_number_of_cores(cores):
    writers = {f"{number}.html": partial(text, number) for number in range(120)}
    found = written_texts(writers)
    assert list(found) == list(writers)
    assert [words.split()[1] for words in found.values()] == [str(number) for number in range(120)]


def test_two_processes_write_at_once(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    both = multiprocessing.get_context("fork").Barrier(2)

    def met():
        both.wait(timeout=60)
        return str(os.getpid())

    writers = {"first.html": met} | {f"{n}.html": partial(text, n) for n in range(120)} | {"last.html": met}
    found = written_texts(writers)
    assert found["first.html"] != found["last.html"] == str(os.getpid())


def test_few_files_are_written_here():
    assert {words.split()[-1] for words in written_texts({"a": partial(text, 1)}).values()} == {str(os.getpid())}


def refuse():
    raise InputError("runs.sqlite: run 00ff", "is damaged")


def test_what_a_writer_refuses_is_said_here(cores):
    writers = {"bad.html": refuse} | {f"{number}.html": partial(text, number) for number in range(120)}
    with pytest.raises(InputError, match="run 00ff: is damaged") as caught:
        written_texts(writers)
    assert (caught.value.where, caught.value.problem) == ("runs.sqlite: run 00ff", "is damaged")


def test_where_a_process_is_killed_this_one_writes_what_is_left(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    here = os.getpid()

    def alive():
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"

    writers = {"first.html": alive} | {f"{number}.html": partial(text, number) for number in range(120)}
    assert written_texts(writers) == {"first.html": "alive"} | {f"{n}.html": text(n) for n in range(120)}


def test_where_no_process_can_begin_this_one_writes_all(monkeypatch):
    def none_left(_process):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(files, "usable_cores", lambda: 3)
    monkeypatch.setattr(ForkProcess, "start", none_left)
    writers = {f"{n}.html": partial(text, n) for n in range(120)}
    assert written_texts(writers) == {f"{n}.html": text(n) for n in range(120)}


def test_no_process_is_left_when_this_one_is_interrupted(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    here, before = os.getpid(), multiprocessing.active_children()

    def long():
        if os.getpid() == here:
            raise KeyboardInterrupt
        time.sleep(600)
        return ""

    with pytest.raises(KeyboardInterrupt):
        written_texts({f"{number}.html": long for number in range(120)})
    assert multiprocessing.active_children() == before
