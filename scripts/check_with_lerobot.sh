#!/bin/sh
# Does LeRobot load what `beacon data convert` writes? Builds LeRobot 0.4.4 (Python 3.11) and 0.6.1 (Python 3.12)
# in environments of their own, several GB, outside of this tree, and compares every frame of a dataset.
#
# usage: scripts/check_with_lerobot.sh [FOLDER for the environments, default ~/.cache/beacon/lerobot]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
home=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/beacon/lerobot}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$home"

python=${PYTHON:-$here/.venv/bin/python}
PYTHONPATH="$here/src" "$python" "$here/scripts/lerobot_comparison.py" write "$work"

check() { # name, interpreter, requirements...
    name=$1 interpreter=$2
    shift 2
    if ! "$interpreter" -c "" 2>/dev/null; then
        echo "$name: no $interpreter on this machine, left out"
        return
    fi
    if ! "$home/$name/bin/python" -c "import lerobot" 2>/dev/null; then # none yet, or an install that was cut off
        "$interpreter" -m venv --clear "$home/$name"
        "$home/$name/bin/pip" install --quiet "$@"
    fi
    HF_HUB_OFFLINE=1 HF_HOME="$work/hf-$name" "$home/$name/bin/python" \
        "$here/scripts/lerobot_comparison.py" read "$work"
}

check v044 "${PYTHON311:-python3.11}" "lerobot==0.4.4"
check v061 "${PYTHON312:-python3.12}" "lerobot[dataset]==0.6.1" "av<16" "torch<2.12"
