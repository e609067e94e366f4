"""Texts of many files, made by forked processes on all cores."""

import multiprocessing
import os
import signal
import time
from functools import partial
from multiprocessing.context import ForkProcess

import pytest

from instances import InputError
from reports.page import files
from reports.page.files import file_contents

# Python 3.12 and later warn if other tests have left threads; the processes that are forked here do not use them.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: request.param)
    return request.param


def text(number):
    return f"text {number} by {os.getpid()}"


def test_every_file_has_its_text_on_any_number_of_cores(cores):
    writers = {f"{number}.html": partial(text, number) for number in range(120)}
    texts = file_contents(writers)
    assert list(texts) == list(writers)
    assert [words.split()[1] for words in texts.values()] == [str(number) for number in range(120)]


def test_two_processes_write_at_once(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    barrier = multiprocessing.get_context("fork").Barrier(2)

    def wait_for_the_other():
        barrier.wait(timeout=60)
        return str(os.getpid())

    writers = (
        {"first.html": wait_for_the_other}
        | {f"{n}.html": partial(text, n) for n in range(120)}
        | {"last.html": wait_for_the_other}
    )
    texts = file_contents(writers)
    assert texts["first.html"] != texts["last.html"] == str(os.getpid())


def test_few_files_are_made_in_this_process():
    assert {words.split()[-1] for words in file_contents({"a": partial(text, 1)}).values()} == {str(os.getpid())}


def refuse():
    raise InputError("runs.sqlite: run 00ff", "is damaged")


def test_the_error_of_a_writer_is_raised_in_this_process(cores):
    writers = {"bad.html": refuse} | {f"{number}.html": partial(text, number) for number in range(120)}
    with pytest.raises(InputError, match="run 00ff: is damaged") as caught:
        file_contents(writers)
    assert (caught.value.where, caught.value.problem) == ("runs.sqlite: run 00ff", "is damaged")


def test_if_a_process_is_killed_this_process_makes_the_other_files(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    here = os.getpid()

    def killed_in_a_child():
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"

    writers = {"first.html": killed_in_a_child} | {f"{number}.html": partial(text, number) for number in range(120)}
    assert file_contents(writers) == {"first.html": "alive"} | {f"{n}.html": text(n) for n in range(120)}


def test_if_no_process_can_be_started_this_process_makes_all_files(monkeypatch):
    def refuse_to_start(_process):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(files, "usable_cores", lambda: 3)
    monkeypatch.setattr(ForkProcess, "start", refuse_to_start)
    writers = {f"{n}.html": partial(text, n) for n in range(120)}
    assert file_contents(writers) == {f"{n}.html": text(n) for n in range(120)}


def test_no_process_is_left_when_this_one_is_interrupted(monkeypatch):
    monkeypatch.setattr(files, "usable_cores", lambda: 2)
    here, children_before = os.getpid(), multiprocessing.active_children()

    def interrupted_here_and_slow_elsewhere():
        if os.getpid() == here:
            raise KeyboardInterrupt
        time.sleep(600)
        return ""

    with pytest.raises(KeyboardInterrupt):
        file_contents({f"{number}.html": interrupted_here_and_slow_elsewhere for number in range(120)})
    assert multiprocessing.active_children() == children_before
