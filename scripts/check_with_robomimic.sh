#!/bin/sh
# Does robomimic 0.3 read what BEACON writes? Builds it in an environment of its own, a few GB, outside of this
# tree, and compares every sequence of its SequenceDataset with the demonstrations.
#
# usage: scripts/check_with_robomimic.sh [FOLDER for the environment, default ~/.cache/beacon/lerobot]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
home=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/beacon/lerobot}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$home"

python=${PYTHON:-$here/.venv/bin/python}
PYTHONPATH="$here/src" "$python" "$here/scripts/robomimic_comparison.py" write "$work"
if ! "$home/robomimic/bin/python" -c "import robomimic" 2>/dev/null; then # none yet, or an install that was cut off
    "${PYTHON311:-python3.11}" -m venv --clear "$home/robomimic"
    # Without its simulators, renderers and policies: only what its datasets import.
    "$home/robomimic/bin/pip" install --quiet "$(grep ^torch== "$here/constraints.txt")" "numpy<2" h5py psutil termcolor tqdm
    "$home/robomimic/bin/pip" install --quiet --no-deps robomimic==0.3.0
fi
"$home/robomimic/bin/python" "$here/scripts/robomimic_comparison.py" read "$work"
