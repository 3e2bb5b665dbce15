#!/usr/bin/env bash
# Tests another Python, or the oldest dependencies that are allowed, in an environment of its own:
#   scripts/test-python.sh PYTHON [--minimal] [argument of pytest ...]
# robosuite needs NumPy 1, which has no wheels from Python 3.13 on: there everything but the simulation is tested.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?name a Python, such as python3.12}
shift
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
minor=${version#3.}
environment=.venv-$version
extras=export,report,serve,zarr
tools=(pytest pytest-xdist)
for tool in cvxpy faiss-cpu hypothesis nbformat; do tools+=("$tool"); done # what tests compare with
tests=()
[ "$minor" -lt 13 ] && extras=$extras,sim,metaworld
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
if [ "${1:-}" = --minimal ]; then
  shift
  environment=$environment-minimal
  "$python" scripts/minimal_versions.py ${extras//,/ } >"$constraints"
elif [ "$minor" -lt 13 ]; then
  cp constraints.txt "$constraints"
else
  grep -v '^numpy==' constraints.txt >"$constraints" # the one that robosuite needs
fi
if [ "$minor" -ge 13 ]; then
  while read -r file; do tests+=("--ignore=$file"); done < <(grep -v '^#' scripts/tests-of-simulation.txt)
fi
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" ".[$extras]" "${tools[@]}"
# The tests run on the sources, not on the copy that was installed.
OMP_NUM_THREADS=1 PYTHONPATH=src "$environment/bin/python" -m pytest "${tests[@]}" "$@"
