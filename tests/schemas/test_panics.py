"""A panic of a Rust library is an error about the bytes; everything else passes as it is."""

from __future__ import annotations

import pytest

from k3_ledger.schemas.panics import panics_as_errors

PANIC = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})


def test_a_panic_becomes_an_error_that_says_so():
    with pytest.raises(ValueError, match="gave up: called `unwrap`"), panics_as_errors():
        raise PANIC("called `unwrap`")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, KeyError, ValueError])
def test_what_is_no_panic_passes(error):
    with pytest.raises(error), panics_as_errors():
        raise error


def test_nothing_happens_where_nothing_happens():
    with panics_as_errors():
        pass
