#!/usr/bin/env bash
# Installs a wheel into an empty environment and tries it outside of the repository: smoke-test-wheel.sh WHEEL
# It makes the data of the first tutorial, trains on it for a few steps, and reads the weights.
set -euo pipefail
wheel=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet -c "$root/constraints.txt" "$wheel"
cd "$folder"
unset PYTHONPATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # these networks are so small that a second thread only waits
PATH="$folder/venv/bin:$PATH"
beacon --version
beacon doctor
beacon train --help >/dev/null
python "$root/examples/plain_pytorch_loop.py"
sed -n '/^```python/,/^```/p' "$root/docs/tutorials/own-data.md" | sed '/^```/d' >make_data.py
python make_data.py
beacon data check sim.hdf5 real.hdf5
beacon train --source sim.hdf5 --target real.hdf5 --out run --steps 20 --steps-per-epoch 10 --device cpu
beacon verify run
beacon weights run --json | python -c 'import json, sys; print(len(json.load(sys.stdin)["demonstrations"]), "weights")'
