"""The suites that come with the package: importing this registers them."""

from beacon.suites.definitions.comparisons import ALIGNMENT, CONTAMINATED, SIM2REAL, SIM2SIM
from beacon.suites.definitions.foreign import METAWORLD
from beacon.suites.definitions.repaired import REPAIRED
from beacon.suites.definitions.sensitivity import SENSITIVITY, SENSITIVITY_RECOMMENDED
from beacon.suites.definitions.studies import ABLATION, SCALING
from beacon.suites.suite import register_suite

for _suite in (
    SIM2SIM,
    SIM2REAL,
    ABLATION,
    SCALING,
    CONTAMINATED,
    METAWORLD,
    REPAIRED,
    ALIGNMENT,
    SENSITIVITY,
    SENSITIVITY_RECOMMENDED,
):
    register_suite(_suite)
