#!/bin/sh
# Do lerobot-eval and lerobot-rollout run a BEACON policy? In the environment of LeRobot 0.6.1 that
# scripts/check_with_lerobot.sh builds, on PushT: as an environment, and as a robot (lerobot_robot_pusht).
#
# usage: scripts/check_lerobot_commands.sh [FOLDER of the environments, default ~/.cache/beacon/lerobot]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/beacon/lerobot}/v061/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! "$bin/python" -c "import diffusers, gym_pusht" 2>/dev/null; then
    "$bin/pip" install --quiet diffusers "gym-pusht<0.2"
fi
cp -r "$here/lerobot_policy_beacon" "$here/scripts/lerobot_robot_pusht" "$work" # pip builds beside the sources
"$bin/pip" install --quiet --no-deps --target "$work/plugins" \
    "$work/lerobot_policy_beacon" "$work/lerobot_robot_pusht"

export PYTHONPATH="$here/src:$work/plugins" OMP_NUM_THREADS=1
export HF_HUB_OFFLINE=1 HF_HOME="$work/hf" HF_LEROBOT_HOME="$work/lerobot-home"
"$bin/python" - "$work/policy" <<'PYTHON'
import dataclasses, sys
from pathlib import Path
from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec, save_policy
from beacon.policy.deployment import DeploymentInfo

spec = ObservationSpec({"observation.images.front": (96, 96, 3)}, {"observation.state": 2}, action_dim=2)
config = dataclasses.replace(PRESETS["cpu"], obs_steps=2, sampling_steps=4)
board = {"offset": [256.0] * 2, "scale": [256.0] * 2}
save_policy(
    Path(sys.argv[1]),
    state=DiffusionPolicy(spec, config, seed=1).state_dict(),  # nobody has taught it anything
    ema_state=None,
    spec=spec,
    config=config,
    normalization={"actions": board, "proprio": {"observation.state": board}},
    deployment=DeploymentInfo(control_rate=10.0, action_names=("x.pos", "y.pos")),
)
PYTHON
"$bin/python" -m lerobot_policy_beacon.convert "$work/policy" "$work/lerobot"

run() { # name, arguments...
    name=$1
    shift
    if ! "$bin/$name" --policy.path="$work/lerobot" --policy.device=cpu "$@" >"$work/$name.log" 2>&1; then
        cat "$work/$name.log"
        echo "$name failed"
        exit 1
    fi
}
run lerobot-eval --env.type=pusht --env.episode_length=30 --eval.n_episodes=2 --eval.batch_size=1 \
    --output_dir="$work/eval" --rename_map='{"observation.image": "observation.images.front"}'
echo "lerobot-eval: $(find "$work/eval" -name '*.mp4' | wc -l) episodes of PushT filmed"
run lerobot-rollout --robot.type=pusht --robot.id=simulated --task=push --duration=5 --fps=10
grep "driven as a robot" "$work/lerobot-rollout.log" | sed 's/^/lerobot-rollout: /'
