#!/usr/bin/env bash
# Tests another Python, or the oldest dependencies that are allowed, in an environment of its own:
#   scripts/test-python.sh PYTHON [--minimal] [argument of pytest ...]
# robosuite needs NumPy 1, which has no wheels from Python 3.13 on: there everything but the simulation is tested.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?name a Python, such as python3.12}
shift
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
environment=.venv-$version
extras=export,report,serve,zarr
tests=()
if [ "${version#3.}" -lt 13 ]; then
  extras=$extras,sim,metaworld
else
  while read -r test; do # a folder, a file, or one test of a file
    case $test in *::*) tests+=("--deselect=$test") ;; *) tests+=("--ignore=$test") ;; esac
  done <scripts/tests-of-simulation.txt
fi
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
if [ "${1:-}" = --minimal ]; then
  shift
  environment=$environment-minimal
  "$python" scripts/minimal_versions.py ${extras//,/ } >"$constraints"
elif [ "${version#3.}" -lt 13 ]; then
  cp constraints.txt "$constraints"
else
  grep -v '^numpy==\|^rerun-sdk==' constraints.txt >"$constraints" # those that need NumPy 1
fi
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
install=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints")
"${install[@]}" ".[dev,docs,$extras]"
"${install[@]}" --no-deps openpi-client # it declares that it needs NumPy 1, and does not
# The tests run on the sources, not on the copy that was installed.
OMP_NUM_THREADS=1 PYTHONPATH=src "$environment/bin/python" -m pytest "${tests[@]}" "$@"
