"""``llama-bench -o json`` and ``-o jsonl``: one object a test, with the nanoseconds of every repetition.

Each repetition takes new random tokens and no result is cached. A test of prompt and generation together is refused:
its time belongs to neither.
"""

from __future__ import annotations

from k3_ledger.engine.adapters.reading import (
    Fields,
    Reading,
    Told,
    agree,
    load_json,
    load_lines,
    make_series,
    refuse,
)


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
    models = {(test.text("model_filename"), test.count("model_size")) for test in tests}
    processors = {test.text("cpu_info") for test in tests}
    if len(builds) != 1 or len(models) != 1 or len(processors) != 1:
        raise refuse("file", "more than one build, model or machine in one file", "one of each", sorted(builds))
    series, seen = [], set()
    for test in tests:
        prompt, generated = test.count("n_prompt", 0), test.count("n_gen", 0)
        # Without n_depth the build had no such option, and every test began with an empty context.
        depth = test.count("n_depth", 0) if "n_depth" in test else 0
        if (prompt > 0) == (generated > 0):
            raise refuse(test.where, "prompt and generation in one time", "one of n_prompt and n_gen")
        metric, count = ("prefill", prompt) if prompt else ("decode", generated)
        if (metric, count, depth) in seen:
            raise refuse(test.where, "the same test twice with other settings: split the file")
        seen.add((metric, count, depth))
        samples = test.list("samples_ns")
        if not all(type(one) is int and one > 0 for one in samples):
            raise refuse(f"{test.where}.samples_ns", "not nanoseconds", "integers above 0", samples)
        rates = test.list("samples_ts")
        if len(rates) != len(samples):
            raise refuse(f"{test.where}.samples_ts", "not as many rates as times", str(len(samples)), len(rates))
        for duration, rate in zip(samples, rates, strict=True):
            agree(f"{test.where}.samples_ts", rate, count * 1e9 / duration, "a rate")
        pairs = [(duration, count) for duration in samples]
        series.append(make_series(metric, "token", pairs, told, context=depth, inputs="fresh", cache="none"))
    ((commit, number),) = builds
    return Reading(
        name="llama.cpp",
        version=f"{number} ({commit})",
        started=min(test.text("test_time") for test in tests),
        cpu=processors.pop(),
        series=tuple(series),
    )
