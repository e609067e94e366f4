"""Names of fields as the places of errors."""

import pickle

from instances import InputError
from instances.errors import FieldName


def test_a_name_with_its_rest_is_the_place_of_an_error() -> None:
    error = InputError(FieldName("parameters", " a.b=1"), "is wrong")
    assert str(error) == "parameters a.b=1: is wrong"
    assert (error.where.field, error.where.suffix) == ("parameters", " a.b=1")  # type: ignore[attr-defined]


def test_more_of_the_rest_can_follow() -> None:
    place = FieldName("cluster", " tcp://a") + ": tcp://b"
    assert (place, place.field, place.suffix) == ("cluster tcp://a: tcp://b", "cluster", " tcp://a: tcp://b")


def test_errors_pass_between_processes() -> None:
    error = pickle.loads(pickle.dumps(InputError(FieldName("seeds", " x"), "is wrong")))
    assert (error.where.field, error.where.suffix, str(error)) == ("seeds", " x", "seeds x: is wrong")
