"""``llama-bench -o json`` and ``-o jsonl``: one object a test, with the nanoseconds of every repetition.

Each repetition takes new random tokens and no result is cached. A test of prompt and generation together is refused:
its time belongs to neither. Tests that decode other numbers of tokens at one depth are one series, end to end: decode
is known by its depth alone. A file is refused too whose tests ran with different settings: a receipt has one list of
them. The standard deviations are not looked at, since the tool reckons them in whole numbers that may overflow.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from k3_ledger.engine.adapters.reading import (
    Fields,
    Named,
    Reading,
    Told,
    agree,
    load_json,
    load_lines,
    make_series,
    per_second,
    refuse,
)
from k3_ledger.schemas.canonical import MAX_INTEGER
from k3_ledger.schemas.repetitions import PREFILL

_OF_A_TEST: Final = frozenset(
    {
        "n_prompt",
        "n_gen",
        "n_depth",
        "test_time",
        "avg_ns",
        "stddev_ns",
        "avg_ts",
        "stddev_ts",
        "samples_ns",
        "samples_ts",
    }
)
"""What may differ between tests of one file: what was done and what came of it. All else is how."""


def read_llama_bench(data: bytes, told: Told) -> Reading:
    """Read a result file.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    listed = load_json(data, "file") if data.lstrip().startswith(b"[") else load_lines(data)
    tests = [Fields(one, f"test {number}") for number, one in enumerate(listed)]
    if not tests:
        raise refuse("file", "no test in it")
    builds = {(test.text("build_commit"), test.count("build_number", 0)) for test in tests}
    models = {_named(test) for test in tests}
    processors = {test.text("cpu_info") for test in tests}
    if len(builds) != 1 or len(models) != 1 or len(processors) != 1:
        raise refuse("file", "more than one build, model or machine in one file", "one of each", sorted(builds))
    settings = tests[0].rest(_OF_A_TEST)
    done: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    seen = set()
    for test in tests:
        if (other := test.rest(_OF_A_TEST)) != settings:
            names = sorted(name for name in {*other, *settings} if other.get(name) != settings.get(name))
            raise refuse(f"{test.where}.{names[0]}", "another setting than in the first test: split the file")
        metric, count, depth = _what(test)
        if (metric, count, depth) in seen:
            raise refuse(test.where, "the same test twice: split the file")
        seen.add((metric, count, depth))
        done.setdefault((metric, count if metric == PREFILL else 0, depth), []).extend(_repetitions(test, count))
    ((commit, number),) = builds
    return Reading(
        name="llama.cpp",
        version=f"{number} ({commit})",
        started=min(test.timestamp("test_time") for test in tests),
        cpu=processors.pop(),
        series=tuple(
            make_series(metric, "token", pairs, told, context=depth, inputs="fresh", cache="none")
            for (metric, _, depth), pairs in done.items()
        ),
        model=models.pop(),
    )


def _named(test: Fields) -> Named:
    parameters = test.count("model_n_params") if "model_n_params" in test else None
    return Named("model_filename", test.text("model_filename"), test.count("model_size"), parameters)


def _what(test: Fields) -> tuple[str, int, int]:
    """Metric, tokens and depth of one test."""
    prompt, generated = test.count("n_prompt", 0), test.count("n_gen", 0)
    # Without n_depth the build had no such option, and every test began with an empty context.
    depth = test.count("n_depth", 0) if "n_depth" in test else 0
    if (prompt > 0) == (generated > 0):
        raise refuse(test.where, "prompt and generation in one time", "one of n_prompt and n_gen")
    return (PREFILL, prompt, depth) if prompt else ("decode", generated, depth)


def _repetitions(test: Fields, count: int) -> list[tuple[int, int]]:
    """The repetitions of one test, held against the rates and means that it states."""
    samples = test.list("samples_ns")
    if not all(type(one) is int and 0 < one <= MAX_INTEGER for one in samples):
        raise refuse(f"{test.where}.samples_ns", "not nanoseconds", f"integers above 0, at most {MAX_INTEGER}", samples)
    stated = test.list("samples_ts")
    if len(stated) != len(samples):
        raise refuse(f"{test.where}.samples_ts", "not as many rates as times", str(len(samples)), len(stated))
    rates = [per_second(count, duration) for duration in samples]
    for one, rate in zip(stated, rates, strict=True):
        agree(f"{test.where}.samples_ts", one, rate, "a rate")
    test.agree("avg_ns", Fraction(sum(samples), len(samples)), "the mean time")
    test.agree("avg_ts", sum(rates, Fraction(0)) / len(rates), "the mean rate")
    return [(duration, count) for duration in samples]
