#!/usr/bin/env bash
# Installs a wheel into an empty environment and tries it outside of the repository: smoke-test-wheel.sh WHEEL
set -euo pipefail
wheel=$(realpath "$1")
constraints=$(realpath "$(dirname "$0")/../constraints.txt")
example=$(realpath "$(dirname "$0")/../examples/plain_pytorch_loop.py")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet -c "$constraints" "$wheel"
cd "$folder"
venv/bin/beacon --version
venv/bin/beacon doctor
venv/bin/beacon train --help >/dev/null
venv/bin/python "$example"
