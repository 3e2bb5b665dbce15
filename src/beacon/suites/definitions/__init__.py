"""The suites that come with the package: importing this registers them."""

from beacon.suites.definitions.comparisons import ALIGNMENT, CONTAMINATED, SIM2REAL, SIM2SIM
from beacon.suites.definitions.foreign import METAWORLD
from beacon.suites.definitions.pusht import PUSHT
from beacon.suites.definitions.repaired import REPAIRED
from beacon.suites.definitions.sensitivity import SENSITIVITY, SENSITIVITY_RECOMMENDED
from beacon.suites.definitions.several_sources import MULTISOURCE
from beacon.suites.definitions.studies import ABLATION, MIMIC, SCALING
from beacon.suites.suite import register_suite

for _suite in (
    SIM2SIM,
    SIM2REAL,
    ABLATION,
    SCALING,
    MIMIC,
    CONTAMINATED,
    MULTISOURCE,
    METAWORLD,
    REPAIRED,
    ALIGNMENT,
    SENSITIVITY,
    SENSITIVITY_RECOMMENDED,
    PUSHT,
):
    register_suite(_suite)
