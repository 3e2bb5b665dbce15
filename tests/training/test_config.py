"""config.yaml: what was written is read, results keep their keys, and what is wrong is one line."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_runs import tiny_config

from beacon.cli.train import parse
from beacon.errors import UserError
from beacon.plain import to_plain
from beacon.report.reproduce import train_command
from beacon.training import OptimizationOptions, TrainConfig, preset_config
from beacon.training.config import preset_data, read_config


def key(part: Any) -> str:
    text = json.dumps(to_plain(part), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("preset", "policy", "optimization"),
    [
        ("cpu", "462a1c203a015491", "71f3ea703867cb5d"),
        ("paper", "c31a56a0a4ab62d5", "356c6bdbd544ea8e"),
    ],
)
def test_results_keep_their_keys(preset: str, policy: str, optimization: str) -> None:
    """Stored results are keyed by these; a change is a new preset, and needs a script that rekeys them."""
    assert tuple(map(key, preset_config(preset))) == (policy, optimization)


def test_older_results_have_a_free_camera_map() -> None:
    """They are those of the suites' preset free-view."""
    policy = preset_config("cpu")[0]
    assert key(replace(policy, encoder=replace(policy.encoder, view_prior=0.0))) == "72a2bae04902daa4"


def test_betas_are_written_only_when_they_are_not_the_default() -> None:
    usual = OptimizationOptions()
    assert "betas" not in to_plain(usual)
    assert to_plain(replace(usual, betas=(0.95, 0.999)))["betas"] == [0.95, 0.999]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    config = tiny_config("beacon", (Path("a"), Path("b")), Path("c"), betas=(0.8, 0.9), gradient_clip=2.0)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.to_dict()))
    assert read_config(tmp_path / "config.yaml") == config


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str], str]:
    """What is said of a config.yaml that cannot be read: one line with the file's name."""

    def refuse(text: str) -> str:
        file = tmp_path / "config.yaml"
        file.write_text(text)
        with pytest.raises(UserError) as error:
            read_config(file)
        message = str(error.value)
        assert message.startswith(f"{file}: ") and len(message) < 500 and "\n" not in message
        return message.removeprefix(f"{file}: ")

    return refuse


@pytest.mark.parametrize(
    ("section", "name", "value", "says"),
    [
        ("run", "keep", 1.5, "run.keep: a whole number expected, not 1.5"),
        ("run", "device", None, "run.device: a text expected, not None"),
        ("run", "keep", True, "run.keep: a whole number expected, not True"),
        ("run", "colour", 1, "run.colour: there is no such option; there are"),
        ("run", "kep", 1, "run.kep: there is no such option; did you mean keep?"),
        ("data", "cameras", 5, "data.cameras: a list expected, not 5"),
        ("data", "memory_limit", float("nan"), "data.memory_limit: a number expected, not nan"),
        ("data", "target", "x" * 300, "data.target: a name in the path is longer than 255 bytes"),
        ("data", "statistics", "some", "data.statistics: one of 'pooled', 'target', 'per-domain' expected"),
        ("policy", "mlp_blocks", 10_000_000, "policy: --policy.mlp-blocks 10000000: must be at most 1000"),
        ("policy", "train_timesteps", 10**9, "--policy.train-timesteps 1000000000: must be at most 10000"),
        ("policy", "channels", [65536, 65536], "billion parameters"),
        ("policy", "encoder", [], "policy.encoder: a mapping of options expected"),
        ("optimization", "seed", 10**22, "optimization.seed: a whole number of at most 9223372036854775807"),
        ("optimization", "weight_decay", float("inf"), "--weight-decay inf: must be at most 1e+06"),
        ("optimization", "learning_rate", "1e-4", "optimization.learning_rate: a number expected"),
        ("optimization", "betas", [0.9], "optimization.betas: a list of 2 expected"),
    ],
)
def test_fields_are_checked(
    section: str, name: str, value: Any, says: str, refused: Callable[[str], str]
) -> None:
    values = tiny_config("cotrain", Path("a"), Path("b")).to_dict()
    values[section][name] = value
    assert says in refused(yaml.safe_dump(values))


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bomb(), "aliases are not allowed"),
        ("[" * 50_000, "nested too deeply"),
        ("a: " + "9" * 50_000, "damaged"),
        ("a: " + "x" * 300_000, "larger than 200 kB"),
        ("a: 2001-99-99", "damaged"),
        ("!!python/object/apply:os.system ['true']", "damaged"),
        ("just text", "damaged, not a configuration"),
        ("method: cotrain", "options is missing"),
    ],
)
def test_files_that_are_none(text: str, says: str, refused: Callable[[str], str]) -> None:
    assert says in refused(text)


def test_sections_are_complete_and_no_more(refused: Callable[[str], str]) -> None:
    values = tiny_config("cotrain", Path("a"), Path("b")).to_dict()
    assert "more: there is no such part" in refused(yaml.safe_dump(values | {"more": 1}))
    assert "method: there is no 'magic'" in refused(yaml.safe_dump(values | {"method": "magic"}))
    assert "preset: one of 'cpu', 'gpu', 'paper' expected" in refused(
        yaml.safe_dump(values | {"preset": "huge"})
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("weight_decay", float("nan")), ("learning_rate", float("inf")), ("steps", 0), ("ema_max", 1.5)],
)
def test_numbers_out_of_range(name: str, value: float) -> None:
    option = f"--{name.replace('_', '-')} {value}: must be "
    with pytest.raises(UserError, match=option):
        replace(OptimizationOptions(), **{name: value})


def test_the_papers_two_readings() -> None:
    robomimic, same = preset_config("paper"), preset_config("paper", "robomimic")
    policy, optimization = preset_config("paper", "diffusion-policy")
    assert robomimic == same
    assert (policy.channels, policy.step_dim) == ((512, 1024, 2048), 128)
    assert (optimization.betas, optimization.batch_size) == ((0.95, 0.999), 64)
    with pytest.raises(UserError, match=r"--policy\.variant robomimic: is of --preset paper"):
        preset_config("cpu", "robomimic")
    with pytest.raises(UserError, match=r"--policy\.variant huge: choose one of robomimic, diffusion-policy"):
        preset_config("paper", "huge")
    assert preset_data("paper").image_size == 96 and preset_data("cpu").image_size is None


def test_the_digest_tells_configurations_apart() -> None:
    config = tiny_config("cotrain", Path("a"), Path("b"))
    assert TrainConfig.from_dict(config.to_dict()).digest() == config.digest()
    assert tiny_config("cotrain", Path("a"), Path("b"), betas=(0.8, 0.9)).digest() != config.digest()
    assert tiny_config("cotrain", Path("a"), Path("b"), run={"keep": 3}).digest() == config.digest()


@pytest.mark.parametrize("preset", ["cpu", "paper"])
@pytest.mark.parametrize("image_size", [None, 64, 96])
def test_a_reports_command_repeats_the_configuration(preset: str, image_size: int | None) -> None:
    policy, optimization = preset_config(preset)
    config = tiny_config(
        "cotrain",
        Path("a"),
        Path("b"),
        policy=replace(policy, clip_sample=False),
        data={"image_size": image_size},
        run={"tensorboard": True, "max_hours": 2.5},
    )
    config = replace(
        config, preset=preset, optimization=replace(optimization, betas=(0.8, 0.9), gradient_clip=None)
    )
    words = shlex.split(train_command(config, Path("out")))
    assert parse(words[2:]).config() == config


def test_the_old_name_of_automatic_precision_is_read(source: Path, target: Path) -> None:
    config = tiny_config("cotrain", source, target)
    values = config.to_dict()
    values["run"]["precision"] = "bfloat16"  # on a GPU, and float32 on the CPU: what "auto" is now
    assert TrainConfig.from_dict(values).run.precision == "auto"
