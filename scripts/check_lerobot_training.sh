#!/bin/sh
# Does lerobot-train weigh samples as BEACON says? In the environment of LeRobot 0.6.1 that
# scripts/check_with_lerobot.sh builds: once with BEACON's weighter (the plug-in makes it known), once with LeRobot's
# own reward-aware weights. Both must give the same losses.
#
# usage: scripts/check_lerobot_training.sh [FOLDER of the environments, default ~/.cache/beacon/lerobot]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/beacon/lerobot}/v061/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONPATH="$here/src" "${PYTHON:-$here/.venv/bin/python}" "$here/scripts/lerobot_training_data.py" "$work"
cp -r "$here/lerobot_policy_beacon" "$work" # pip builds beside the sources
"$bin/pip" install --quiet --no-deps --target "$work/plugins" "$work/lerobot_policy_beacon"
if ! "$bin/python" -c "import diffusers" 2>/dev/null; then
    "$bin/pip" install --quiet diffusers
fi
if ! "$bin/python" -c "import accelerate" 2>/dev/null; then
    "$bin/pip" install --quiet --no-deps --target "$work/plugins" "$(grep ^accelerate== "$here/constraints.txt")"
fi

export PYTHONPATH="$here/src:$work/plugins" OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_HOME="$work/hf"
"$bin/python" -m lerobot_policy_beacon.convert "$work/policy" "$work/lerobot"

run() { # type, arguments...
    type=$1
    shift
    if ! "$bin/lerobot-train" --policy.path="$work/lerobot" --policy.device=cpu --policy.push_to_hub=false \
        --dataset.repo_id=beacon/check --dataset.root="$work/data" --dataset.video_backend=pyav --steps=3 \
        --batch_size=8 --num_workers=0 --log_freq=1 --save_checkpoint=false --output_dir="$work/out-$type" \
        --sample_weighting.type="$type" "$@" >"$work/$type.log" 2>&1; then
        cat "$work/$type.log"
        echo "lerobot-train failed"
        exit 1
    fi
    grep -o "step:.*sample_weight_num_zero_weight:[0-9.]*" "$work/$type.log" |
        sed -E 's/^step:([0-9]+).* loss:([0-9.]+).*mean_weight:([0-9.]+).*zero_weight:([0-9]+).*/step \1, loss \2, mean weight \3, \4 frames of weight 0/' >"$work/$type.txt"
}
run beacon --sample_weighting.extra_params="{\"weights_path\": \"$work/sample_weights.parquet\"}"
run rabc --sample_weighting.progress_path="$work/sarm_progress.parquet" --sample_weighting.kappa=1e9
test "$(wc -l <"$work/beacon.txt")" -eq 3
diff "$work/beacon.txt" "$work/rabc.txt"
cat "$work/beacon.txt"
echo "lerobot-train: the same with --sample_weighting.type=beacon and rabc"
