"""A setting: what all methods of a column share. A method variant in a setting is an experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from beacon.sim.domains import DOMAINS, SOURCE
from beacon.suites.experiment import DatasetSpec, EvaluationSpec, Experiment
from beacon.suites.presets import SuitePreset
from beacon.suites.variants import VARIANTS, MethodVariant
from beacon.training.config import preset_config

SOURCE_SEED, SECOND_SOURCE_SEED = 0, 1
TARGET_SEED = 101  # plus the seed of the run: every seed has target demonstrations of its own
SECOND_SOURCE = "texture"  # domain of the second source: another table


@dataclass(frozen=True)
class TableEntry:
    """Where one evaluation of an experiment stands in a suite's table."""

    row: str
    title: str
    task: str
    gap: str
    experiment: Experiment
    evaluation: int = 0  # which of the experiment's
    detail: str = ""  # what else tells two columns apart, as n=5
    extra: bool = False

    @property
    def column(self) -> tuple[str, str, str]:
        """Task, gap and detail."""
        return self.task, self.gap, self.detail


@dataclass(frozen=True)
class Setting:
    """A task, a gap and a seed, with demonstrations and evaluations.

    Args:
        preset: how much of everything.
        task: name of the task.
        gap: domain of the target demonstrations.
        seed: of the run, and of which target demonstrations there are.
        evaluations: each is a column of the table.
        details: one an evaluation, what else tells their columns apart; none: nothing does.
        target_demos: how many; None: as many as the preset has.
        region: where objects start in target demonstrations.
        corruptions: of the source, names and shares.
        repaired: whether the source is audited against the target demonstrations and repaired.
        expanded_from: expand the source from so many demonstrations of the expert; 0: all are his.
        align: also measure how well source and target mix in the embeddings.
        sources: several, the best first, in place of the one that other suites have.
    """

    preset: SuitePreset
    task: str
    gap: str
    seed: int
    evaluations: tuple[EvaluationSpec, ...]
    details: tuple[str, ...] = ()
    target_demos: int | None = None
    region: str = "train"
    corruptions: tuple[tuple[str, float], ...] = ()
    repaired: bool = False
    expanded_from: int = 0
    align: bool = False
    sources: tuple[DatasetSpec, ...] = ()

    @classmethod
    def same_domain(cls, preset: SuitePreset, task: str, gap: str, seed: int, **more: Any) -> Setting:
        """Evaluated where the target demonstrations are: in their domain, over the whole region."""
        evaluation = EvaluationSpec(gap, "train", preset.episodes, preset.states_seed)
        return cls(preset, task, gap, seed, **{"evaluations": (evaluation,), **more})

    def source(self) -> DatasetSpec:
        """The one source."""
        return DatasetSpec(
            self.task,
            "source",
            self.preset.source_demos,
            self.preset.size,
            seed=SOURCE_SEED,
            corruptions=self.corruptions,
            repaired_for=self.target() if self.repaired else None,
            repaired_demos=self._target_demos if self.repaired else 0,
            expanded_from=self.expanded_from,
        )

    @property
    def _target_demos(self) -> int:
        return self.preset.target_demos if self.target_demos is None else self.target_demos

    def two_sources(self) -> tuple[DatasetSpec, DatasetSpec]:
        """Half of the demonstrations from the source domain, half with another table."""
        half = replace(self.source(), demos=self.preset.source_demos // 2)
        return half, replace(half, domain=SECOND_SOURCE, seed=SECOND_SOURCE_SEED)

    def target(self) -> DatasetSpec:
        """All target demonstrations of the seed, of which an experiment takes the first ones."""
        preset = self.preset
        pool = max(*preset.scaling, preset.target_demos, preset.real_demos)
        return DatasetSpec(self.task, self.gap, pool, preset.size, self.region, TARGET_SEED + self.seed)

    def experiment(self, variant: MethodVariant) -> Experiment:
        """A method variant in this setting."""
        preset = self.preset
        return Experiment(
            method=variant.method,
            sources=self._sources_of(variant),
            target=self.target(),
            target_demos=self._target_demos,
            evaluations=self.evaluations,
            preset=preset.train_preset,
            seed=self.seed,
            options=dict(variant.options),
            auxiliary=variant.auxiliary,
            optimization=dict(preset.optimization),
            policy=self._policy(),
            image_size=preset.image_size,
            match=None if variant.match is None else self.experiment(VARIANTS[variant.match]),
            match_noise=variant.match_noise and self._sensors_differ(),
            align=self.align,
        )

    def _policy(self) -> dict[str, Any]:
        """What differs from the preset of `beacon train`.

        Where both cameras stand at the same place the map between them is not held: results there are older
        than that, and what holds it moves it hardly (docs/lab-notes.md).
        """
        policy, known = dict(self.preset.policy), DOMAINS.get(self.gap)
        encoder = preset_config(self.preset.train_preset)[0].encoder
        if encoder.view_prior and known is not None and known.view == SOURCE.view:
            policy["encoder"] = {**policy.get("encoder", {}), "view_prior": 0.0}
        return policy

    def _sensors_differ(self) -> bool:
        """Whether the target's readings may be noisier than the source's; where not, nothing is matched."""
        known = DOMAINS.get(self.gap)
        return known is None or not (known.sensing.neutral and known.camera.neutral)

    def _sources_of(self, variant: MethodVariant) -> tuple[DatasetSpec, ...]:
        if self.sources:
            return self.sources[:1] if variant.best_source else self.sources
        return self.two_sources() if variant.sources == 2 else (self.source(),)

    def entries(self, variant: MethodVariant) -> list[TableEntry]:
        """The variant's places in the table, one an evaluation."""
        experiment = self.experiment(variant)
        details = self.details or ("",)
        return [
            TableEntry(
                variant.name, variant.title, self.task, self.gap, experiment, number, detail, variant.extra
            )
            for number, detail in enumerate(details)
        ]
