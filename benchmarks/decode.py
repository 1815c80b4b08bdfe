"""Reading an entry: the fast decoder and the explaining parser beside the standard library's JSON parser.

    python benchmarks/decode.py [--rounds 9] [--bundle FOLDER]

The fast decoder checks types, ranges, patterns and canonical form; the explaining parser does the same and says what is
wrong; ``json.loads`` is the floor and checks none of it. All read the same run entries of about 1.5 KB.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from common import Recorder, finish, parser
from verify import build

from k3_ledger.schemas.structs import decode_entry
from k3_ledger.schemas.validate import parse_entry

ENTRIES = 500


def main() -> None:
    """Measure, print, and leave a bundle when asked to."""
    arguments = parser(__doc__)
    arguments.set_defaults(rounds=9)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), ENTRIES, 1500)
        entries = [raw[9:-99] for raw in (Path(folder) / "ledger.jsonl").read_bytes().splitlines(keepends=True)]
    recorder = Recorder("decode-entry", "entry")
    actors = {"floor": json.loads, "subject": decode_entry, "explaining": parse_entry}
    for _ in range(options.rounds + recorder.warmup):
        for actor, read in actors.items():
            recorder.record(actor, len(entries), lambda read=read: [read(entry) for entry in entries])
    finish([recorder], "k3-ledger-decode", options)


if __name__ == "__main__":
    main()
