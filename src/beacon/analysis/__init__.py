"""Statistics as pure functions over arrays: no files, no drawing.

intervals      Wilson's interval of a proportion, Newcombe's of a difference
paired         two policies on the same initial states: McNemar's test
sequential     the same by an e-process, which may stop at any time
methods        two methods over training seeds and initial states: hierarchical bootstrap
multiple       several comparisons: Holm's adjustment, compact letter display
weights        effective sample size, means over demonstrations, shares of the mass
association    rank correlation, variance explained by phase, AUC against corruption labels
weight_bias    what the weights of a run follow: phase, coverage, corruption
coverage       distance to the nearest target demonstration
facility_location  which few points stand best for many
alignment      how well two domains mix in a feature space
"""

from __future__ import annotations

from beacon.analysis.alignment import cross_domain_neighbours
from beacon.analysis.association import area_under_curve, spearman, variance_explained
from beacon.analysis.coverage import distance_to_nearest
from beacon.analysis.facility_location import Chosen, greedy_facilities
from beacon.analysis.intervals import newcombe, wilson
from beacon.analysis.methods import MethodDifference, compare_methods, pairwise_p_values
from beacon.analysis.multiple import compact_letters, holm
from beacon.analysis.paired import mcnemar_exact, paired_test
from beacon.analysis.sequential import SequentialTest, detectable_difference, e_process, sequential_test
from beacon.analysis.weight_bias import WeightBias, weight_bias
from beacon.analysis.weights import demo_means, effective_sample_size

__all__ = [
    "Chosen",
    "MethodDifference",
    "SequentialTest",
    "WeightBias",
    "area_under_curve",
    "compact_letters",
    "compare_methods",
    "cross_domain_neighbours",
    "demo_means",
    "detectable_difference",
    "distance_to_nearest",
    "e_process",
    "effective_sample_size",
    "greedy_facilities",
    "holm",
    "mcnemar_exact",
    "newcombe",
    "paired_test",
    "pairwise_p_values",
    "sequential_test",
    "spearman",
    "variance_explained",
    "weight_bias",
    "wilson",
]
