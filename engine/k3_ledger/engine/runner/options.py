"""Options of a run as its receipt holds them: each that decides what is measured or graded, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.measurement import Flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.engine.runner.run import Request

OPTIONS: Final[dict[str, tuple[str, Callable[[Request], object]]]] = {
    "context": ("run.context", lambda asked: asked.plan.context),
    "decode_tokens": ("run.decode-tokens", lambda asked: asked.plan.decode_tokens),
    "repetitions": ("run.least-repetitions", lambda asked: asked.plan.repetitions),
    "signal": ("run.signal-to-jitter", lambda asked: asked.plan.signal_to_jitter),
    "longest": ("run.longest-s", lambda asked: f"{asked.plan.longest_s:g}"),
    "depth": ("run.depth", lambda asked: ",".join(map(str, asked.depths))),
    "rows": ("run.rows", lambda asked: asked.rows),
    "prompts": ("run.graded-prompts", lambda asked: asked.prompts),
    "outputs": ("run.least-outputs", lambda asked: asked.outputs),
    "timeout": ("run.timeout-s", lambda asked: f"{asked.timeout_s:g}"),
}
"""Options by the name of their parameter: the flag's name, and what was asked for."""


def option_flags(asked: Request) -> tuple[Flag, ...]:
    """What was asked for, with the origin ``command`` where that is on the command line."""
    return tuple(
        Flag(name=flag, value=_short(str(value(asked))), origin="command" if name in asked.given else "default")
        for name, (flag, value) in OPTIONS.items()
    )


def _short(text: str) -> str:
    """A flag's value is a short text: a list of very many depths is cut, the parity record has them all."""
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


_MOST: Final = 200
