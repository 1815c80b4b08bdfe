"""Tries a plain installation on every newer Python of this machine: each module of it, ``--version``, ``verify``.

Each gets an environment of its own in a temporary folder, which pip fills from the package index as it does for users.
Where there is no newer Python that is said, and nothing is wrong. Uses the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = ("engine", "kernels")
"""Packages that a plain installation cannot import: they need torch. Of the others what an extra needs is not there."""
EVERY_MODULE = """
import importlib, pkgutil, sys, k3_ledger
extras = {"fsspec", "aiohttp", "starlette", "uvicorn", "dcap_qvl", "rfc3161_client", "matplotlib", "datasette", "boto3"}
for found in pkgutil.walk_packages(k3_ledger.__path__, "k3_ledger."):
    if found.name.split(".")[1] not in sys.argv[1:] and not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] not in extras:
                raise
"""


def newer() -> dict[str, str]:
    """Interpreters newer than this one that start, by name."""
    found = {}
    for minor in range(sys.version_info.minor + 1, sys.version_info.minor + 6):
        name = f"python3.{minor}"
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        for path in filter(None, (shutil.which(name), *map(str, kept))):
            if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[name] = path
                break
    return found


def tried(name: str, python: str) -> bool:
    """Whether everything works there; what does not is shown."""
    with tempfile.TemporaryDirectory() as folder:
        bin_ = Path(folder, "env", "bin")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV"))}
        for step in (
            [python, "-m", "venv", f"{folder}/env"],
            [str(bin_ / "pip"), "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT)],
            [str(bin_ / "python"), "-c", EVERY_MODULE, *LEFT_OUT],
            [str(bin_ / "k3-ledger"), "--version"],
            [str(bin_ / "k3-ledger"), "verify", str(ROOT / "published"), "--trust", str(ROOT / "published.toml")],
        ):
            ran = subprocess.run(step, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if ran.returncode:
                print(f"{name}: {' '.join(step)[:200]} ended with {ran.returncode}")
                print(ran.stdout[-1500:], ran.stderr[-1500:])
                return False
    print(f"{name}: installed, every module imported, published/ verified")
    return True


def main() -> int:
    """Exit code: 1 where something does not work."""
    found = newer()
    if not found:
        print(f"skipped: no Python newer than {sys.version_info.major}.{sys.version_info.minor} is on this machine")
    return int(not all(tried(name, python) for name, python in found.items()))


if __name__ == "__main__":
    sys.exit(main())
