"""Field names as the locations of errors."""

import pickle

from instances import InputError
from instances.errors import FieldName


def test_an_error_states_the_field_and_its_suffix() -> None:
    error = InputError(FieldName("parameters", " a.b=1"), "is wrong")
    assert str(error) == "parameters a.b=1: is wrong"
    assert (error.where.field, error.where.suffix) == ("parameters", " a.b=1")  # type: ignore[attr-defined]


def test_text_can_be_added_to_the_suffix() -> None:
    place = FieldName("cluster", " tcp://a") + ": tcp://b"
    assert (place, place.field, place.suffix) == ("cluster tcp://a: tcp://b", "cluster", " tcp://a: tcp://b")


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(InputError(FieldName("seeds", " x"), "is wrong")))
    assert (error.where.field, error.where.suffix, str(error)) == ("seeds", " x", "seeds x: is wrong")
