"""Result files of other tools: what is taken, and what is refused rather than guessed. All figures are made up."""

from __future__ import annotations

import codecs
import contextlib
import copy
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine.adapters import READERS, Reading, Told
from k3_ledger.engine.adapters.write import Origin, bundle_reading
from k3_ledger.engine.machine import probe_node
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.validate import parse_bundle
from tests.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = "2026-01-31T12:00:00Z"
TOLD = Told(warmup=1, cache="none", inputs="fresh")
Json = dict[str, Any]


def llama(**changes: object) -> Json:
    test: Json = {
        "build_commit": "0123abcd",
        "build_number": 7000,
        "cpu_info": probe_node("here").cpu,
        "gpu_info": "",
        "backends": "CPU",
        "model_filename": "models/toy.gguf",
        "model_type": "toy F32",
        "model_size": 1_000_000,
        "model_n_params": 250_000,
        "n_prompt": 500,
        "n_gen": 0,
        "n_depth": 0,
        "test_time": "2026-01-31T12:00:00Z",
        "n_threads": 2,
        "type_k": "f16",
        "avg_ns": 112_500_000,
        "avg_ts": 4500.0,
        "samples_ns": [100_000_000, 125_000_000],
        "samples_ts": [5000.0, 4000.0],
    }
    return {**test, **changes}


DECODE = {
    "n_prompt": 0,
    "n_gen": 100,
    "avg_ns": 200_000_000,
    "avg_ts": 500.0,
    "samples_ns": [200_000_000],
    "samples_ts": [500.0],
}
LATENCY: Json = {
    "avg_latency": 1.5,
    "latencies": [1.0, 2.0],
    "percentiles": {"10": 1.1, "25": 1.25, "50": 1.5, "75": 1.75, "90": 1.9, "99": 1.99},
}
THROUGHPUT: Json = {
    "elapsed_time": 2.0,
    "num_requests": 10,
    "total_num_tokens": 3000,
    "requests_per_second": 5.0,
    "tokens_per_second": 1500.0,
}
SERVE: Json = {
    "date": "20260131-120000",
    "backend": "openai",
    "model_id": "toy",
    "num_prompts": 3,
    "duration": 2.0,
    "completed": 3,
    "total_input_tokens": 300,
    "total_output_tokens": 60,
    "request_throughput": 1.5,
    "output_throughput": 30.0,
    "total_token_throughput": 180.0,
    "input_lens": [100, 100, 100],
    "output_lens": [20, 20, 20],
    "itls": [[0.01, 0.02], [0.01], []],
    "errors": ["", "", ""],
}
BATCH: Json = {
    "run_name": "toy",
    "batch_size": 4,
    "input_len": 100,
    "output_len": 11,
    "prefill_latency": 0.5,
    "prefill_throughput": 800.0,
    "median_decode_latency": 0.05,
    "median_decode_throughput": 80.0,
    "total_latency": 1.0,
    "overall_throughput": 444.0,
}
SERVED: Json = {k: v for k, v in SERVE.items() if k != "num_prompts"} | {"total_output_tokens_retokenized": 55}


def bare(value: object, number: str) -> bytes:
    """JSON with a number in the place of ``"@"`` that no value of ours could be written as."""
    return json.dumps(value if "latencies" in json.dumps(value) else [value]).replace('"@"', number).encode()


SIZES = Told(warmup=2, cache="none", inputs="repeated", batch=8, input_tokens=32, output_tokens=128)


def read(tool: str, value: object, told: Told = TOLD) -> Reading:
    return READERS[tool](value if isinstance(value, bytes) else json.dumps(value).encode(), told)


def figures(reading: Reading) -> list[tuple[str, str, int | None, list[tuple[int, int]]]]:
    return [
        (one.metric, one.unit, one.context, [(sample.duration_ns, sample.count) for sample in one.samples])
        for one in reading.series
    ]


def test_llama_bench_times_are_taken_to_the_nanosecond() -> None:
    reading = read("llama-bench", [llama(), llama(**DECODE, n_depth=4096)])
    assert (reading.name, reading.version, reading.started) == ("llama.cpp", "7000 (0123abcd)", "2026-01-31T12:00:00Z")
    assert figures(reading) == [
        ("prefill", "token", 0, [(100_000_000, 500), (125_000_000, 500)]),
        ("decode", "token", 4096, [(200_000_000, 100)]),
    ]
    assert {one.observer for one in reading.series} == {"subject"}


def test_llama_bench_lines_are_taken_too() -> None:
    lines = b"\n".join(json.dumps(one).encode() for one in (llama(), llama(**DECODE)))
    assert figures(read("llama-bench", lines)) == figures(read("llama-bench", [llama(), llama(**DECODE)]))


def test_lengths_of_decode_at_one_depth_are_one_series_and_lengths_of_prefill_are_not() -> None:
    """Seal refuses two series of what is scored as one."""
    longer = {**DECODE, "n_gen": 200, "avg_ns": 400_000_000, "samples_ns": [400_000_000]}
    deep = {**DECODE, "n_depth": 64}
    prompt = llama(n_prompt=1000, avg_ns=225_000_000, samples_ns=[200_000_000, 250_000_000])
    reading = read("llama-bench", [llama(), prompt, llama(**DECODE), llama(**deep), llama(**longer)])
    assert figures(reading) == [
        ("prefill", "token", 0, [(100_000_000, 500), (125_000_000, 500)]),
        ("prefill", "token", 0, [(200_000_000, 1000), (250_000_000, 1000)]),
        ("decode", "token", 0, [(200_000_000, 100), (400_000_000, 200)]),
        ("decode", "token", 64, [(200_000_000, 100)]),
    ]
    starts = [[sample.start_ns for sample in one.samples] for one in reading.series]
    assert starts == [[0, 100_000_000], [0, 200_000_000], [0, 200_000_000], [0]]


def test_a_vllm_latency_counts_requests_since_it_holds_no_tokens() -> None:
    told = Told(warmup=2, cache="none", inputs="repeated", batch=8, input_tokens=32, output_tokens=128)
    assert figures(read("vllm", LATENCY, told)) == [
        ("generate-32-128", "request", None, [(1_000_000_000, 8), (2_000_000_000, 8)])
    ]


def test_vllm_throughput_and_serving_take_the_engines_own_totals() -> None:
    assert figures(read("vllm", THROUGHPUT)) == [("throughput", "token", None, [(2_000_000_000, 3000)])]
    assert figures(read("vllm", SERVE)) == [
        ("serve-input", "token", None, [(2_000_000_000, 300)]),
        ("serve-output", "token", None, [(2_000_000_000, 60)]),
        ("serve", "request", None, [(2_000_000_000, 3)]),
    ]


def test_tokens_are_never_counted_by_events() -> None:
    """One event of a stream may carry three tokens: 2 events in the first request, 60 tokens in all."""
    without = {k: v for k, v in SERVE.items() if k not in {"output_lens", "total_output_tokens"}}
    with pytest.raises(RunError):
        read("vllm", without)


def test_sglang_decode_is_the_total_less_prefill() -> None:
    lines = b"\n".join(json.dumps(one).encode() for one in (BATCH, BATCH))
    assert figures(read("sglang", lines)) == [
        ("prefill", "token", 0, [(500_000_000, 400)] * 2),
        ("decode", "token", 100, [(500_000_000, 40)] * 2),
    ]
    single = {**BATCH, "output_len": 1, "total_latency": 0.5, "overall_throughput": 808.0}
    assert [one[0] for one in figures(read("sglang", single))] == ["prefill"]


def test_sglang_serving_takes_the_engines_count_and_not_the_retokenised_one() -> None:
    assert figures(read("sglang", SERVED))[1] == ("serve-output", "token", None, [(2_000_000_000, 60)])


REFUSED = {
    "not JSON": ("llama-bench", b"[{"),
    "a key twice": ("llama-bench", b'[{"n_gen": 1, "n_gen": 2}]'),
    "NaN": ("vllm", b'{"avg_latency": NaN, "latencies": [NaN]}'),
    "deep": ("vllm", b"[" * 100_000),
    "no test": ("llama-bench", []),
    "not objects": ("llama-bench", [1]),
    "both at once": ("llama-bench", [llama(n_gen=100)]),
    "neither": ("llama-bench", [llama(n_prompt=0)]),
    "two builds": ("llama-bench", [llama(), llama(**DECODE, build_number=7001)]),
    "two models": ("llama-bench", [llama(), llama(**DECODE, model_size=5)]),
    "twice": ("llama-bench", [llama(), llama()]),
    "microseconds": ("llama-bench", [llama(samples_ns=[100_000, 125_000])]),
    "fractions": ("llama-bench", [llama(samples_ns=[1e8, 1.25e8])]),
    "zero": ("llama-bench", [llama(samples_ns=[0], samples_ts=[0])]),
    "negative": ("llama-bench", [llama(n_prompt=-1)]),
    "no samples": ("llama-bench", [{k: v for k, v in llama().items() if k != "samples_ns"}]),
    "a rate missing": ("llama-bench", [llama(samples_ts=[5000.0])]),
    "true for one": ("llama-bench", [llama(n_prompt=True)]),
    "a time beyond any receipt": ("llama-bench", [llama(samples_ns=[10**30], samples_ts=[500 * 1e9 / 10**30])]),
    "times beyond any receipt together": (
        "llama-bench",
        [llama(samples_ns=[2**52] * 4, samples_ts=[500 * 1e9 / 2**52] * 4)],
    ),
    "a rate of 400 digits": ("llama-bench", [llama(samples_ts=[10**400, 4000.0])]),
    "a rate of a huge exponent": ("llama-bench", bare(llama(samples_ts=["@", 4000.0]), "1e99999999")),
    "a rate of no digits": ("llama-bench", bare(llama(samples_ts=["@", 4000.0]), "1e999999999999999999999")),
    "a rate that is text": ("llama-bench", [llama(samples_ts=["5000.0", "4000.0"])]),
    "a negative rate": ("llama-bench", [llama(samples_ts=[-5000.0, 4000.0])]),
    "a time of 5,000 digits": ("llama-bench", bare(llama(samples_ns=["@"]), "9" * 5000)),
    "a count of 400 digits": ("llama-bench", [llama(n_prompt=10**400)]),
    "a text of two million characters": ("llama-bench", [llama(build_commit="a" * 2_000_000)]),
    "digits of another script": ("llama-bench", [llama(n_prompt="\u0665\u0660\u0660")]),
    "a latency of 400 digits": ("vllm", {**LATENCY, "latencies": [10**400]}, SIZES),
    "a latency of a huge exponent": ("vllm", bare({**LATENCY, "latencies": ["@"]}, "1e99999999"), SIZES),
    "a latency of a small exponent": ("vllm", bare({**LATENCY, "latencies": ["@"]}, "1e-99999999"), SIZES),
    "a mean of 400 digits": ("vllm", {**LATENCY, "avg_latency": 10**400}, SIZES),
    "a mean that is none": ("vllm", {**LATENCY, "avg_latency": None}, SIZES),
    "a negative latency": ("vllm", {**LATENCY, "latencies": [-1.0, 4.0]}, SIZES),
    "infinity": ("vllm", b'{"avg_latency": 1, "latencies": [Infinity]}', SIZES),
    "a rate of 400 digits, served": ("vllm", {**SERVE, "output_throughput": 10**400}),
    "tokens of 400 digits": ("vllm", {**THROUGHPUT, "total_num_tokens": 10**400}),
    "lengths of 400 digits": ("vllm", {**SERVE, "output_lens": [10**400]}),
    "batches beyond any receipt": (
        "sglang",
        {**BATCH, "batch_size": 2**52, "input_len": 2**52, "prefill_throughput": 2.0**105},
    ),
    "a latency of 400 digits, batched": ("sglang", {**BATCH, "prefill_latency": 10**400}),
    "a rate of 400 digits, batched": ("sglang", {**BATCH, "prefill_throughput": 10**400}),
    "a byte order mark": ("vllm", codecs.BOM_UTF8 + json.dumps(SERVE).encode()),
    "a byte order mark in front of lines": ("sglang", codecs.BOM_UTF8 + json.dumps(BATCH).encode()),
    "UTF-16": ("vllm", json.dumps(SERVE).encode("utf-16")),
    "too many": ("llama-bench", [llama(samples_ns=[10**8] * 513, samples_ts=[5000.0] * 513)]),
    "no sizes": ("vllm", LATENCY),
    "milliseconds": ("vllm", {**THROUGHPUT, "elapsed_time": 2000.0}),
    "no duration": ("vllm", {**THROUGHPUT, "elapsed_time": 0}),
    "shorter than a nanosecond": ("vllm", {**THROUGHPUT, "elapsed_time": 1e-12}),
    "unknown": ("vllm", {"tokens": 5}),
    "a list": ("vllm", [SERVE]),
    "failed requests": ("vllm", {**SERVE, "completed": 2}),
    "counted failures": ("vllm", {**SERVE, "failed": 1}),
    "lengths that do not add up": ("vllm", {**SERVE, "output_lens": [1, 1, 0]}),
    "another rate": ("vllm", {**SERVE, "output_throughput": 90.0}),
    "empty": ("sglang", b"\n"),
    "two served runs": ("sglang", (json.dumps(SERVED) + "\n" + json.dumps(SERVED)).encode()),
    "two shapes": ("sglang", (json.dumps(BATCH) + "\n" + json.dumps({**BATCH, "batch_size": 8})).encode()),
    "total shorter than prefill": ("sglang", {**BATCH, "total_latency": 0.4}),
    "another mean time": ("llama-bench", [llama(avg_ns=100_000_000)]),
    "another mean rate": ("llama-bench", [llama(avg_ts=9000.0)]),
    "a mean rate that is the last": ("llama-bench", [llama(avg_ts=4000.0)]),
    "times in no calendar": ("llama-bench", [llama(test_time="2026-02-30T12:00:00Z")]),
    "times of somewhere": ("llama-bench", [llama(test_time="2026-01-31T12:00:00+01:00")]),
    "another rate of requests": ("vllm", {**THROUGHPUT, "requests_per_second": 9999.0}),
    "another rate of requests, served": ("vllm", {**SERVE, "request_throughput": 9999.0}),
    "another rate of all tokens": ("vllm", {**SERVE, "total_token_throughput": 9999.0}),
    "another rate of input": ("sglang", {**SERVED, "input_throughput": 9999.0}),
    "another rate of all tokens, by another name": ("sglang", {**SERVED, "total_throughput": 9999.0}),
    "no rate": ("vllm", {k: v for k, v in SERVE.items() if k != "output_throughput"}),
    "another median": ("vllm", {**LATENCY, "percentiles": {**LATENCY["percentiles"], "50": 77.0}}, SIZES),
    "percentiles the wrong way round": ("vllm", {**LATENCY, "percentiles": {"10": 1.9, "90": 1.1}}, SIZES),
    "percentiles of what": ("vllm", {**LATENCY, "percentiles": {"p50": 1.5}}, SIZES),
    "percentiles that are none": ("vllm", {**LATENCY, "percentiles": [1.5]}, SIZES),
    "an error of a request": ("vllm", {**SERVE, "errors": ["", "no memory", ""]}),
    "a length too few": ("vllm", {**SERVE, "output_lens": [40, 20]}),
    "a length too many": ("vllm", {**SERVE, "output_lens": [20, 20, 20, 0]}),
    "a length that is true": ("vllm", {**SERVE, "output_lens": [20, 39, True]}),
    "failures that are false": ("vllm", {**SERVE, "failed": False}),
    "prompts that are a fraction": ("vllm", {**SERVE, "num_prompts": 3.0}),
    "latency and throughput": ("vllm", {**LATENCY, **THROUGHPUT}, SIZES),
    "throughput and serving": ("vllm", {**THROUGHPUT, **SERVE}),
    "all three": ("vllm", {**LATENCY, **THROUGHPUT, **SERVE}, SIZES),
    "batch and serving": ("sglang", {**BATCH, **SERVED}),
    "batch and then serving": ("sglang", (json.dumps(BATCH) + "\n" + json.dumps(SERVED)).encode()),
    "another rate of the whole": ("sglang", {**BATCH, "overall_throughput": 9999.0}),
    "another median rate": ("sglang", {**BATCH, "median_decode_throughput": 9999.0}),
    "a median step that is none": ("sglang", {**BATCH, "median_decode_latency": 1e-12}),
    "a median step that is too long": (
        "sglang",
        {**BATCH, "median_decode_latency": 0.2, "median_decode_throughput": 20.0},
    ),
    "a prefill rate of one sequence": ("sglang", {**BATCH, "prefill_throughput": 200.0}),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_could_be_wrong_is_refused(case: tuple[Any, ...]) -> None:
    with pytest.raises(RunError) as caught:
        read(*case)
    finding = caught.value.finding
    assert finding.code is Code.RUN_FOREIGN_FILE
    assert finding.position.field
    assert max(map(len, (finding.message, finding.expected or "", finding.found or ""))) < 300


SETTINGS = {
    "n_threads": 8,
    "type_k": "q8_0",
    "gpu_info": "another",
    "n_params": None,
    "flash_attn": True,
    "a setting of a later build": [1],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_tests_that_ran_in_another_way_are_not_one_measurement(name: str) -> None:
    assert read("llama-bench", [llama(**{name: SETTINGS[name]}), llama(**DECODE, **{name: SETTINGS[name]})])
    with pytest.raises(RunError, match=r"another setting|more than one") as caught:
        read("llama-bench", [llama(**DECODE), llama(**{name: SETTINGS[name] or 5})])
    assert name in (caught.value.finding.position.field or "")


def _leaves(value: object) -> Iterator[tuple[object, ...]]:
    """Paths to every number and text of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(inner, dict | list):
            yield from ((key, *rest) for rest in _leaves(inner))
        else:
            yield (key,)


def _with(value: Any, path: tuple[object, ...], put: object) -> Any:
    made = copy.deepcopy(value)
    where = made
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = put
    return made


WHOLE: dict[str, tuple[str, Any, Told]] = {
    "llama-bench": ("llama-bench", [llama(stddev_ns=17_677_669, stddev_ts=707.1)], TOLD),
    "latency": ("vllm", LATENCY, SIZES),
    "throughput": ("vllm", THROUGHPUT, TOLD),
    "serve": ("vllm", {**SERVE, "failed": 0}, TOLD),
    "batch": ("sglang", BATCH, TOLD),
    "served": ("sglang", SERVED, TOLD),
}
NUMBERS = ("0", "-1", "1e400", "-1e400", "1e-400", "1e99999999", "9" * 17, "9" * 400, "9" * 5000, "0." + "9" * 5000)
OTHERS = ("true", "null", '""', '"\u0000"', "[]", "{}", "[[1]]", '"' + "9" * 5000 + '"', "-0.0")


@pytest.mark.parametrize("shape", WHOLE)
def test_whatever_stands_in_whichever_field_is_taken_or_refused(shape: str) -> None:
    """Numbers of any size and values of any type: one finding, never a traceback."""
    tool, value, told = WHOLE[shape]
    assert read(tool, value, told).series
    taken = 0
    for path in _leaves(value):
        for text in (*NUMBERS, *OTHERS):
            data = json.dumps(_with(value, path, "@@")).replace('"@@"', text).encode()
            with contextlib.suppress(RunError):
                read(tool, data, told)
                taken += 1
    assert taken, "no field is left alone"


def test_a_byte_order_mark_is_said_with_what_to_do() -> None:
    with pytest.raises(RunError, match="a byte order mark in front of the JSON") as caught:
        read("vllm", codecs.BOM_UTF8 + json.dumps(SERVE).encode())
    assert caught.value.finding.advice == "save it again as UTF-8 without such a mark"


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("llama-bench", [llama(samples_ns=[10**30], samples_ts=[500 * 1e9 / 10**30])]),
        ("llama-bench", [llama(samples_ts=[10**400, 4000.0])]),
        ("sglang", {**BATCH, "prefill_throughput": 10**400}),
        ("vllm", {**SERVE, "output_throughput": 10**400}),
    ],
)
def test_a_number_out_of_range_ends_the_command_as_unreadable(
    tool: str,
    value: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file.json").write_text(json.dumps(value))
    run = runner(monkeypatch, capsys)
    words = ("--node", "n", "--ran", "x", "--warmup", "0", "--cache", "none", "--inputs", "fresh", "--version", "1")
    out = tmp_path / "out"
    done = run("bundle", "from", tool, tmp_path / "file.json", "--out", out, "--started", NOW, *words)
    assert (done.code, done.out) == (3, ""), done.err
    assert done.err.startswith("error: ")
    assert "[K3L-RUN-FOREIGN-FILE]" in done.err
    assert not out.exists()


@pytest.mark.parametrize("version", ["", " ", "\x1b[31m", "1\n2", "x" * 4097])
def test_a_version_that_could_not_stand_in_a_file_is_none_on_the_command_line(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.json").write_text(json.dumps(SERVE))
    words = ("--node", "n", "--ran", "x", "--warmup", "0", "--cache", "none", "--inputs", "fresh", "--started", NOW)
    run, out = runner(monkeypatch, capsys), tmp_path / "out"
    done = run("bundle", "from", "vllm", tmp_path / "file.json", "--out", out, "--version", version, *words)
    assert done.code == 2, done.err
    assert not out.exists()


def test_what_neither_file_nor_operator_says_is_not_made_up() -> None:
    with pytest.raises(RunError):
        read("vllm", SERVE, Told(warmup=0))


def test_the_bundle_keeps_the_file_and_says_who_timed_it(tmp_path: Path) -> None:
    data = json.dumps([llama()]).encode()
    reading = READERS["llama-bench"](data, TOLD)
    origin = Origin("here", ("llama-bench", "-o", "json"))
    _, measurement = bundle_reading(reading, data, "llama-bench.json", origin, tmp_path / "b")
    read_back = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes())
    assert read_back.body == measurement
    assert (measurement.role, measurement.parity, measurement.model) == ("reference", None, None)
    assert measurement.machine.started == "2026-01-31T12:00:00Z"
    assert (tmp_path / "b" / "blobs" / measurement.artifacts[0].sha256).read_bytes() == data


@pytest.mark.parametrize(
    ("tool", "value", "origin"),
    [
        ("llama-bench", [llama(cpu_info="Another Processor")], Origin("here", ("x",))),
        ("llama-bench", [llama()], Origin("here", ("x",), version="6999")),
        ("vllm", SERVE, Origin("here", ("x",), started="2026-01-31T12:00:00Z")),
        ("vllm", SERVE, Origin("here", ("x",), version="0.9")),
        ("vllm", SERVE, Origin("here", ("x",), version="0.9", started="yesterday")),
        ("vllm", SERVE, Origin("here", ("x",), version="0" * 5000, started=NOW)),
    ],
)
def test_another_machine_or_a_missing_word_leaves_nothing(
    tool: str, value: object, origin: Origin, tmp_path: Path
) -> None:
    with pytest.raises(RunError):
        bundle_reading(read(tool, value), b"{}", "f.json", origin, tmp_path / "b")
    assert not list(tmp_path.iterdir())


DETAILED: Json = {
    **SERVE,
    "itls": [[0.01, 0.02], [0.01, 0.03], [0.02, 0.03]],
    "ttfts": [0.1, 0.2, 0.6],
    "errors": [],
    "mean_ttft_ms": 300.0,
    "median_ttft_ms": 200.0,
    "std_ttft_ms": 216.0,
    "p99_ttft_ms": 592.0,
    "p99.9_ttft_ms": 599.2,
    "mean_itl_ms": 20.0,
    "median_itl_ms": 20.0,
    "max_itl_ms": 30.0,
    "mean_tpot_ms": 20.0,
    "p50_tpot_ms": 19.0,
    "p90_tpot_ms": 25.0,
    "mean_e2el_ms": 330.0,
    "median_e2el_ms": 240.0,
    "mean_e2e_latency_ms": 330.0,
}
"""A served run as both tools write it with details."""
CONTRADICTIONS: list[tuple[Json, str, str]] = [
    ({"mean_ttft_ms": 1.0}, "mean_ttft_ms", "the figure of the list"),
    ({"median_ttft_ms": 300.0}, "median_ttft_ms", "the figure of the list"),
    ({"p99_ttft_ms": 600.5}, "p99_ttft_ms", "the figure of the list"),
    ({"p99.9_ttft_ms": 580.0}, "p99.9_ttft_ms", "the figure of the list"),
    ({"mean_itl_ms": 0.02}, "mean_itl_ms", "the figure of the list"),
    ({"max_itl_ms": 31.0}, "max_itl_ms", "the figure of the list"),
    ({"mean_e2el_ms": -5}, "mean_e2el_ms", "not a duration"),
    ({"mean_tpot_ms": "20"}, "mean_tpot_ms", "not a duration"),
    ({"mean_tpot_ms": True}, "mean_tpot_ms", "not a duration"),
    ({"mean_tpot_ms": 1e9}, "mean_tpot_ms", "not a duration"),
    ({"mean_tpot_ms": 2100.0}, "mean_tpot_ms", "longer than the whole run"),
    ({"mean_e2e_latency_ms": 2100.0}, "mean_e2e_latency_ms", "longer than the whole run"),
    ({"p90_tpot_ms": 18.0}, "p90_tpot_ms", "shorter than p50_tpot_ms"),
    ({"min_tpot_ms": 19.5}, "p50_tpot_ms", "shorter than min_tpot_ms"),
    ({"max_tpot_ms": 24.0}, "max_tpot_ms", "shorter than p90_tpot_ms"),
    ({"p90_tpot_ms": None, "max_tpot_ms": 19.5}, "max_tpot_ms", "shorter than mean_tpot_ms"),
    ({"mean_e2el_ms": 290.0}, "mean_e2el_ms", "ends before its first token"),
    ({"mean_e2e_latency_ms": 290.0}, "mean_e2e_latency_ms", "ends before its first token"),
    (
        {"ttfts": [0.1, 0.2, 100.0], **dict.fromkeys(key for key in DETAILED if key.endswith("_ms"))},
        "itls[2]",
        "longer",
    ),
    ({"ttfts": [0.1, 0.2, 100.0], "itls": None}, "ttfts[2]", "longer"),
    ({"ttfts": [0.1, 0.2]}, "ttfts", "not one for each request"),
    ({"ttfts": [0.1, 0.2, -0.6]}, "ttfts", "not a duration"),
    ({"ttfts": 0.1}, "ttfts", "not a list"),
    ({"itls": [[0.01], [0.01]]}, "itls", "not one for each request"),
    ({"itls": [[0.01], [0.01], 0.01]}, "itls", "not a list"),
    ({"itls": [[0.01], [0.01], [None]]}, "itls[2]", "not a duration"),
    ({"itls": [[], [], [0.9] * 3]}, "itls[2]", "longer"),
    ({"errors": ["", "", "gone"]}, "errors", "some requests failed"),
]


@pytest.mark.parametrize("tool", ["vllm", "sglang"])
@pytest.mark.parametrize(("changes", "where", "why"), CONTRADICTIONS)
def test_a_served_run_whose_latencies_contradict_it_is_refused(changes: Json, where: str, why: str, tool: str) -> None:
    with pytest.raises(RunError, match=why) as caught:
        read(tool, {**DETAILED, **changes})
    assert caught.value.code is Code.RUN_FOREIGN_FILE
    assert str(caught.value.finding.position.field).endswith(f".{where}")


@pytest.mark.parametrize(
    ("changes", "where", "expected", "found"),
    [({"failed": 1, "num_prompts": None}, "failed", "0", "1"), ({"num_prompts": 4}, "completed", "4", "3")],
)
def test_requests_that_failed_are_told_where_they_are_counted(
    changes: Json, where: str, expected: str, found: str
) -> None:
    fields = {key: value for key, value in {**SERVE, **changes}.items() if value is not None}
    with pytest.raises(RunError, match="some requests failed") as caught:
        read("vllm", fields)
    told = caught.value.finding
    assert (str(told.position.field).rsplit(".", 1)[-1], told.expected, told.found) == (where, expected, found)


@pytest.mark.parametrize("tool", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mean_ttft_ms": 302.0},
        {"ttfts": None, "itls": None},
        {"ttfts": []},
        {"itls": [[], [], []], "mean_itl_ms": 0.0, "median_itl_ms": 0, "max_itl_ms": 0.0},
        {"std_ttft_ms": 1e9, "goodput": "none", "p99_other_ms": -1, "p_ttft_ms": -1},
        {"mean_e2el_ms": 299.0},
        {"model_id": None, "model": "n" * 1001},
        {"model_id": 7, "model": ["toy"]},
    ],
)
def test_a_served_run_that_holds_together_is_taken(changes: Json, tool: str) -> None:
    """The control: to 1 %, with what is not there left out, and whatever is not known not looked at."""
    assert len(read(tool, {**DETAILED, **changes}).series) == 3


@pytest.mark.parametrize(("name", "unit"), [("ttfts", "seconds"), ("mean_ttft_ms", "milliseconds")])
def test_a_duration_is_asked_for_in_the_unit_of_its_field(name: str, unit: str) -> None:
    with pytest.raises(RunError) as caught:
        read("vllm", {**DETAILED, name: [-1, 0, 0] if name == "ttfts" else -1})
    assert caught.value.finding.expected == f"{unit}, 0 or above"


def test_a_file_that_names_another_model_than_is_given_is_refused(
    synthetic: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = runner(monkeypatch, capsys)
    model = tmp_path / "k3.gguf"
    model.write_bytes(synthetic("tiny").read_bytes())
    (tmp_path / "link.gguf").symlink_to("k3.gguf")
    from k3_ledger.engine.gguf import open_model_file  # the rest of this file needs no gguf

    with open_model_file(model) as opened:
        size = sum(info.size for info in opened.tensors.values())
        parameters = sum(math.prod(info.shape) for info in opened.tensors.values())
    same = {"model_filename": "/elsewhere/k3.gguf", "model_size": size, "model_n_params": parameters}
    served = {"--version": "1", "--started": NOW, "--cache": "none", "--inputs": "fresh"}
    cases: list[tuple[str, object, Json, str, str | None]] = [
        ("llama-bench", [llama(**same)], {}, "k3.gguf", None),
        ("llama-bench", [llama(**same)], {}, "link.gguf", None),
        ("llama-bench", [llama(**{**same, "model_filename": "link.gguf"})], {}, "link.gguf", None),
        ("llama-bench", [llama(**{**same, "model_filename": "link.gguf"})], {}, "k3.gguf", "names another model"),
        ("llama-bench", [llama(**{**same, "model_filename": "C:\\models\\k3.gguf"})], {}, "k3.gguf", None),
        ("llama-bench", [llama(**{**same, "model_n_params": None})], {}, "k3.gguf", None),
        ("llama-bench", [llama()], {}, "", None),
        ("llama-bench", [llama(**{**same, "model_filename": "m"})], {}, "k3.gguf", "names another model"),
        ("llama-bench", [llama(**{**same, "model_filename": "xk3.gguf"})], {}, "k3.gguf", "names another model"),
        ("llama-bench", [llama(**{**same, "model_size": 1})], {}, "k3.gguf", "other bytes of tensors"),
        ("llama-bench", [llama(**{**same, "model_size": size + 1})], {}, "k3.gguf", "other bytes of tensors"),
        ("llama-bench", [llama(**{**same, "model_n_params": 1})], {}, "k3.gguf", "other parameters"),
        ("vllm", {**SERVE, "model_id": "/m/k3.gguf"}, served, "k3.gguf", None),
        ("vllm", {**SERVE, "model_id": "some/name"}, served, "k3.gguf", None),
        ("vllm", {**SERVE, "model_id": "/m/other.gguf"}, served, "k3.gguf", "names another model"),
        ("vllm", {**SERVE, "model_id": "/m/other.GGUF"}, served, "k3.gguf", "names another model"),
        ("sglang", {**SERVED, "model": "/m/other.gguf"}, served, "k3.gguf", "names another model"),
        ("sglang", {**SERVED, "model_id": "/m/k3.gguf"}, served, "k3.gguf", None),
    ]
    for number, (tool, value, options, given, why) in enumerate(cases):
        (tmp_path / "r.json").write_text(json.dumps(value))
        words = [word for pair in options.items() for word in pair]
        words += ["--model", str(tmp_path / given)] if given else []
        out = tmp_path / f"b{number}"
        base = (
            "bundle",
            "from",
            tool,
            tmp_path / "r.json",
            "--out",
            out,
            "--node",
            "here",
            "--ran",
            "x",
            "--warmup",
            "0",
        )
        done = run(*base, *words)
        assert done.code == (0 if why is None else 3), (number, done.err)
        assert out.exists() == (why is None)
        assert why is None or why in done.err
