"""The pipelines around a BEACON policy: renaming and devices; the policy normalises by itself."""

from __future__ import annotations

from typing import Any

from lerobot_policy_beacon.configuration_beacon import BeaconConfig


def make_beacon_pre_post_processors(
    config: BeaconConfig, dataset_stats: dict[str, dict[str, Any]] | None = None
) -> tuple[Any, Any]:
    """The steps that LeRobot's commands expect by name."""
    try:
        from lerobot.processor import make_default_pre_post_processors
    except ImportError:  # LeRobot 0.4 and 0.5
        return _compose(config, dataset_stats)
    return make_default_pre_post_processors(config, dataset_stats)


def _compose(config: BeaconConfig, stats: dict[str, dict[str, Any]] | None) -> tuple[Any, Any]:
    from lerobot import processor
    from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action
    from lerobot.utils.constants import POLICY_POSTPROCESSOR_DEFAULT_NAME, POLICY_PREPROCESSOR_DEFAULT_NAME

    features = {**config.input_features, **config.output_features}
    mapping = config.normalization_mapping
    before = processor.PolicyProcessorPipeline(
        steps=[
            processor.RenameObservationsProcessorStep(rename_map={}),
            processor.AddBatchDimensionProcessorStep(),
            processor.DeviceProcessorStep(device=config.device),
            processor.NormalizerProcessorStep(features=features, norm_map=mapping, stats=stats),
        ],
        name=POLICY_PREPROCESSOR_DEFAULT_NAME,
    )
    after = processor.PolicyProcessorPipeline(
        steps=[
            processor.UnnormalizerProcessorStep(
                features=config.output_features, norm_map=mapping, stats=stats
            ),
            processor.DeviceProcessorStep(device="cpu"),
        ],
        name=POLICY_POSTPROCESSOR_DEFAULT_NAME,
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    return before, after
