"""``beacon doctor``: what works on this machine, what is missing, and how to install it."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import tyro

from beacon import __version__
from beacon.cli import parsing

DESCRIPTION = """Check this machine: Python, torch, device, OpenGL, video codecs, disk, optional packages.

Every line that is not ok says what it is needed for and how to fix it. Exit code: 1 if something is missing
that every run needs, 0 otherwise."""
DISTRIBUTION = "beacon-cotraining"
TESTED_PYTHONS = ((3, 11), (3, 12), (3, 13))
LITTLE_DISK = 5 * 2**30  # checkpoints, decoded frames and films of a few runs
PURPOSES = {
    "sim": "simulation: generate, evaluate, suite, demo",
    "metaworld": "Meta-World's tasks",
    "pusht": "the task pusht",
    "report": "beacon report",
    "serve": "beacon serve",
    "export": "beacon export --onnx",
    "zarr": "zarr datasets",
    "rerun": "beacon desk --rerun",
    "cluster": "suites on a Ray cluster",
    "docs": "this documentation as a site",
    "dev": "the project's own tests",
}
# Decoders of FFmpeg for each codec; its own "av1" works with some graphics cards only.
DECODERS = {"H.264": ("h264",), "AV1": ("libdav1d", "libaom-av1")}
OPENGL = """
from mujoco.{backend} import GLContext
context = GLContext(64, 64)
context.make_current()
context.free()
"""

Status = Literal["ok", "warning", "missing", "broken"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    status: Status  # broken: no run works; missing: something optional does not
    detail: str
    advice: str = ""  # how to fix it


@dataclass(frozen=True)
class DoctorOptions:
    """What the command line takes."""

    # Print one JSON object instead of lines.
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: DoctorOptions = parsing.parse(
            DoctorOptions, arguments, prog="beacon doctor", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    findings = [finding for check in CHECKS for finding in check()]
    broken = any(finding.status == "broken" for finding in findings)
    if options.json:
        print(json.dumps({"beacon": __version__, "works": not broken, "findings": [*map(asdict, findings)]}))
        return int(broken)
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{finding.status:<8} {finding.name:<{width}}  {finding.detail}")
        if finding.advice:
            print(f"{'':<8} {'':<{width}}  → {finding.advice}")
    return int(broken)


def check_python() -> Iterator[Finding]:
    """The interpreter and this package."""
    said = f"{platform.python_version()} on {platform.platform(terse=True)}, beacon {__version__}"
    here = sys.version_info[:2]
    if here < TESTED_PYTHONS[0]:
        yield Finding("Python", "broken", said, "install Python 3.11 or later")
    elif here not in TESTED_PYTHONS:
        yield Finding("Python", "warning", said, "this Python is not tested; 3.11, 3.12 and 3.13 are")
    else:
        yield Finding("Python", "ok", said)


def check_torch() -> Iterator[Finding]:
    """torch, and what it can compute on."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("torch", "broken", _line(error), f"pip install {DISTRIBUTION}")
        return
    yield Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} CPU threads")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        yield Finding("device", "ok", f"cuda: {', '.join(names)}")
    else:
        built = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch is CPU-only"
        advice = "--preset cpu works without; for a GPU install a driver and torch for it (pytorch.org)"
        yield Finding("device", "warning", f"cpu; no GPU is seen, {built}", advice)


def check_opengl() -> Iterator[Finding]:
    """Off-screen rendering by each backend, in a process of its own: a bad driver may end it."""
    if not _version("mujoco"):
        install = f"pip install '{DISTRIBUTION}[sim]'"
        yield Finding("OpenGL", "missing", "not tried without mujoco; for simulation alone", install)
        return
    packages = {
        "egl": "apt-get install libegl1 libgl1 libgl1-mesa-dri",
        "osmesa": "apt-get install libosmesa6; needed only where EGL is missing",
    }
    works = {backend: _renders(backend) for backend in packages}
    for backend, usable in works.items():
        if usable:
            yield Finding(f"OpenGL {backend}", "ok", f"renders; MUJOCO_GL={backend} chooses it")
        else:
            status: Status = "warning" if any(works.values()) else "missing"
            yield Finding(f"OpenGL {backend}", status, "does not render here", packages[backend])


def check_codecs() -> Iterator[Finding]:
    """Videos of LeRobot datasets are in these codecs."""
    try:
        from av.codec import Codec, codecs_available
    except (ImportError, OSError) as error:
        yield Finding("video", "broken", _line(error), f"pip install {DISTRIBUTION}")
        return
    for codec, decoders in DECODERS.items():
        usable = [name for name in decoders if name in codecs_available and Codec(name, "r").is_decoder]
        if usable:
            yield Finding(f"{codec} video", "ok", f"decoded by {usable[0]}, PyAV {_version('av')}")
        else:
            advice = "pip install --force-reinstall av (its wheels have the decoder)"
            yield Finding(f"{codec} video", "missing", "LeRobot datasets with it cannot be read", advice)


def check_disk() -> Iterator[Finding]:
    """Room for runs here and for decoded frames in the cache."""
    for name, folder in (("disk here", Path.cwd()), ("disk of ~/.cache", Path.home())):
        free = shutil.disk_usage(folder).free
        detail = f"{free / 2**30:.1f} GiB free in {folder}"
        if free < LITTLE_DISK:
            yield Finding(name, "warning", detail, f"runs want about {LITTLE_DISK / 2**30:.0f} GiB")
        else:
            yield Finding(name, "ok", detail)


def check_packages() -> Iterator[Finding]:
    """What this package declares: its dependencies, then extra by extra."""
    try:
        declared = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", "warning", f"{DISTRIBUTION} is not installed", "pip install .")
        return
    for extra, names in _by_extra(declared).items():
        absent = [name for name in names if not _version(name)]
        title = extra or "dependencies"
        if not absent:
            yield Finding(title, "ok", f"{len(names)} package{'s' if len(names) > 1 else ''}")
        elif not extra:
            yield Finding(title, "broken", f"no {', '.join(absent)}", f"pip install {DISTRIBUTION}")
        else:
            purpose = PURPOSES.get(extra, "optional")
            advice = f"pip install '{DISTRIBUTION}[{extra}]'"
            yield Finding(title, "missing", f"no {', '.join(absent)}; for {purpose}", advice)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_torch,
    check_opengl,
    check_codecs,
    check_disk,
    check_packages,
)


def _by_extra(requirements: list[str]) -> dict[str, list[str]]:
    """Names of packages by the extra that asks for them; '' is what is always needed."""
    names: dict[str, list[str]] = {"": []}
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", requirement)
        if name:
            names.setdefault(extra[1] if extra else "", []).append(name[0])
    return names


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _renders(backend: str) -> bool:
    code = f"import os; os.environ['MUJOCO_GL'] = {backend!r}\n{OPENGL.format(backend=backend)}"
    try:
        return not subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode
    except subprocess.TimeoutExpired:
        return False


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
