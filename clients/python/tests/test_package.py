"""The package itself: generated types, one surface for both clients, schemas, a wheel that installs."""

from __future__ import annotations

import inspect
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

import askance
from conftest import PATIENCE, find_tie, start_process

HERE = Path(__file__).resolve().parents[1]


def test_types_are_generated() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "scripts" / "generate_types.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("sync", "other"),
    [
        (askance.Client, askance.AsyncClient),
        (askance.Gate, askance.AsyncGate),
        (askance.RunnableCall, askance.AsyncRunnableCall),
        (askance.Worker, askance.AsyncWorker),
    ],
)
def test_both_clients_have_one_surface(sync: type, other: type) -> None:
    def surface(of: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(of, inspect.isfunction)
        return {n: list(inspect.signature(m).parameters) for n, m in methods if not n.startswith("_")}

    extra = {"spawn", "take_grant", "post"}  # parts of the worker that both clients share
    assert surface(sync) == {n: p for n, p in surface(other).items() if n not in extra}


def test_version_is_python() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", askance.__version__)


LEFT = """
import pathlib, signal, sys
import conftest

print(conftest.Server(pathlib.Path(sys.argv[1])).address, flush=True)
signal.pause()
"""


def test_a_server_ends_with_killed_tests(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    tests = start_process(sys.executable, "-c", LEFT, tmp_path, env=env, stdin=subprocess.PIPE)
    assert tests.stdout
    assert tests.stdout.readline()
    tests.kill()
    assert tests.wait(PATIENCE) != 0
    if find_tie():  # elsewhere the server is left behind
        readers = select.poll()
        readers.register(tests.stdin or 0, 0)
        assert readers.poll(PATIENCE * 1000), "the server still has its standard input"
    tests.communicate()


def test_wheel_installs_and_imports_without_extras(tmp_path: Path) -> None:
    """The wheel is built as pip builds it, and installed into an environment that contains only httpx."""
    alone = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}  # otherwise its packages count as installed
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path / "dist"), str(HERE)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    env = tmp_path / "env"
    python = env / ("Scripts" if os.name == "nt" else "bin") / "python"
    for args in (
        ["venv", "--python", sys.executable, str(env)],
        ["pip", "install", "--python", str(python), str(wheel)],
    ):
        subprocess.run([sys.executable, "-m", "uv", "--quiet", *args], check=True, env=alone)
    program = """
import sys, importlib.metadata as m, importlib.resources as r, askance
assert askance.Client and askance.AsyncClient and (r.files("askance") / "py.typed").is_file()
needed = [q for q in m.requires("askance") if "extra ==" not in q]
assert needed == ["httpx<1,>=0.27"], needed
print("installed", askance.__version__)
"""
    done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"installed {askance.__version__}\n", done.stderr
