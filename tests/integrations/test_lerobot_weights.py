"""Weights by frame number, as LeRobot asks for them; scripts/check_with_lerobot.sh uses LeRobot itself."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from beacon.data.sample_weights import write_lerobot_weights
from beacon.errors import UserError
from beacon.integrations.lerobot import FrameWeights, install


def test_weights_of_a_batch(tmp_path: Path) -> None:
    index, weight = np.array([7, 3, 5]), np.array([0.5, 0.0, 2.0])
    write_lerobot_weights(tmp_path / "w.parquet", index, weight)
    weighter = FrameWeights.from_file(tmp_path / "w.parquet", fallback=0.25)
    weights, stats = weighter.compute_batch_weights({"index": torch.tensor([3, 5, 7, 4, 99])})
    assert weights.dtype == torch.float32 and weights.tolist() == [0.0, 2.0, 0.5, 0.25, 0.25]
    assert stats == {"mean_weight": pytest.approx(0.6), "num_zero_weight": 1.0}
    assert weighter.get_stats()["frames"] == 3
    losses = torch.arange(5.0)
    # What LeRobot's loop does with them.
    loss = (losses * weights).sum() / (weights.sum() + 1e-6)
    assert float(loss) == pytest.approx((2 * 1 + 0.5 * 2 + 0.25 * 3 + 0.25 * 4) / 3.0, rel=1e-5)


def test_live_weights_follow_a_refresh() -> None:
    weighter = FrameWeights([0, 1, 2], [1, 1, 1])
    weighter.update([0, 1, 2], [0, 0.5, 2])
    assert weighter.weights_of([2, 1, 0]).tolist() == [2.0, 0.5, 0.0]


def test_refusals(tmp_path: Path) -> None:
    for index, weight, message in (
        ([0, 1], [1], "1 weights for 2 frames"),
        ([0, 0], [1, 1], "each once"),
        ([-1], [1], "at least 0"),
        ([0], [float("nan")], "finite"),
    ):
        with pytest.raises(UserError, match=message):
            FrameWeights(index, weight)
    (tmp_path / "w.parquet").write_text("no")
    with pytest.raises(UserError, match="not a file of sample weights"):
        FrameWeights.from_file(tmp_path / "w.parquet")
    with pytest.raises(UserError, match="no 'index'"):
        FrameWeights([0], [1]).compute_batch_weights({})


def test_lerobots_factory_learns_one_type_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the place of LeRobot's; scripts/check_lerobot_training.sh does it with LeRobot itself."""
    package: Any = ModuleType("lerobot")
    module: Any = ModuleType("lerobot.utils.sample_weighting")
    module.SampleWeighter = weighter = MagicMock()
    module.make_sample_weighter = lambda config, *_: f"own {config}"
    package.__version__ = "0.5.1"
    for name, stand_in in (("lerobot", package), ("lerobot.utils.sample_weighting", module)):
        monkeypatch.setitem(sys.modules, name, stand_in)
    with pytest.raises(UserError, match=r"LeRobot 0\.5\.1"):
        install()
    package.__version__ = "0.6.1"
    install()
    make = module.make_sample_weighter
    install()
    assert module.make_sample_weighter is make, "a second time changes nothing"
    weighter.register.assert_called_with(FrameWeights)
    write_lerobot_weights(tmp_path / "w.parquet", np.arange(3), np.array([0.5, 0.0, 1.0]))
    chosen = SimpleNamespace(type="beacon", extra_params={"weights_path": str(tmp_path / "w.parquet")})
    assert make(chosen, None, "cpu").weights_of([2, 1, 9]).tolist() == [1.0, 0.0, 1.0]
    assert make("other") == "own other"
    with pytest.raises(UserError, match="weights_path"):
        make(SimpleNamespace(type="beacon", extra_params=None))
