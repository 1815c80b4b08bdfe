"""The witness: somebody else's program, which remembers the last head of each log and cosigns what extends it.

``state`` keeps what was cosigned, ``cosign`` decides, ``server`` speaks HTTP, ``client`` is the log's side. It stands
on the pure core and on the writer's way to the disk and to key files, and knows nothing of ledgers: any C2SP log will
do.
"""
