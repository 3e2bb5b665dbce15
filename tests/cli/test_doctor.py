"""``beacon doctor`` and ``beacon completion``: what they say is true of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from beacon.cli import doctor
from beacon.cli.completion import COMMANDS, script
from beacon.cli.main import VERBS, main
from beacon.errors import UserError


def test_doctor_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    findings = {finding["name"]: finding for finding in said["findings"]}
    assert said["works"] is True
    drawing = "OpenGL egl" if find_spec("mujoco") else "OpenGL"
    assert {"Python", "torch", "device", drawing, "H.264 video", "AV1 video"} <= set(findings)
    assert findings["dependencies"]["status"] == "ok"
    assert all(finding["advice"] for finding in said["findings"] if finding["status"] != "ok")


def test_what_is_not_installed_is_named_with_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declared = ["torch>=2.6", 'no-such-package>=1; extra == "zarr"', "no-such-codec; extra == 'sim'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: declared)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_packages,))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "missing  zarr          no no-such-package; for zarr datasets" in out
    assert "→ pip install 'beacon-cotraining[sim]'" in out
    declared.append("no-such-need")
    assert main(["doctor"]) == 1
    assert "broken   dependencies  no no-such-need" in capsys.readouterr().out


def test_every_extra_has_a_purpose() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(doctor.PURPOSES)
    assert project["name"] == doctor.DISTRIBUTION


def complete(*words: str) -> list[str]:
    """What Tab offers after these words, in a real bash."""
    line = " ".join(words)
    ask = (
        f'beacon() {{ "{sys.executable}" -m beacon "$@"; }}; COMP_WORDS=({line}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _beacon; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", f"{script('bash')}\n{ask}"], capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_verbs_commands_and_options() -> None:
    assert complete("beacon", "d") == [verb for verb in VERBS if verb.startswith("d")]
    assert complete("beacon", "data", "c") == ["check", "card", "convert"]
    assert complete("beacon", "doctor", "--j") == ["--json"]
    assert complete("beacon", "train", "--max-h") == ["--max-hours"]


def test_the_commands_that_are_completed_are_there() -> None:
    for verb, names in COMMANDS.items():
        for name in names.split():
            assert main([verb, name, "--help"]) == 0


def test_zsh_has_the_same_and_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("zsh").endswith(script("bash")) and "bashcompinit" in script("zsh")
    assert main(["completion", "fish"]) == 2
    assert "choose one of bash, zsh" in capsys.readouterr().err
    with pytest.raises(UserError):
        from beacon.cli import completion

        completion.main(["fish"])
