"""The help of ``beacon train``: the options that matter; ``--help-all`` has the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

DESCRIPTION = """Train a diffusion policy from source and target demonstrations.

Examples:
  beacon train --source sim.hdf5 --target real.hdf5 --out runs/beacon
  beacon train --source sim.hdf5 --target real.hdf5 --method cotrain --ratio 0.9 --out runs/cotrain
  beacon train --source a.hdf5 --source b.hdf5 --target real.hdf5 --out runs/two-sources
  beacon train --source sim.hdf5 --target real.hdf5 --preset paper --out runs/full
  beacon train --source sim.hdf5 --target real.hdf5 --out runs/beacon --watch
  beacon train --out runs/beacon --resume

Methods: {methods}.
beacon is BEACON as we recommend it, beacon-paper as the paper has it. The run folder gets config.yaml,
metrics.jsonl (also as TensorBoard), checkpoints/ and weights/. A resumed run on the CPU ends with the same
policy, bit for bit."""

# Options that choose among the others, and so are not in their list.
FIRST_OPTIONS = """Beside the options below:
  --policy.variant NAME  with --preset paper: robomimic (default) or diffusion-policy, for the sizes that the
                         paper does not state
  --audit DIR            what beacon audit --out DIR found in these data; nothing is audited again
  --decisions FILE       of beacon desk: dropped demonstrations are left out, kept ones weigh at least
                         --kept-floor times the mean weight of their domain"""

# The options that most runs need; a test holds that each of them exists.
ESSENTIAL = {
    "data": {
        "--source FILE": "source demonstrations; repeat the option for several source domains",
        "--target FILE": "target demonstrations",
        "--validation FILE": "further target demonstrations, for the held-out loss alone",
        "--cameras NAME ...": "cameras to use; default: all that the domains share",
        "--decisions FILE": "of beacon desk: dropped demonstrations are left out, kept ones keep weight",
    },
    "training": {
        "--method NAME": "how source data is used; default: beacon",
        "--preset cpu|gpu|paper": "sizes of policy and training, for minutes on one core or for a GPU",
        "--steps N": "gradient steps in all",
        "--seed N": "decides the initial parameters, the data order and all noise",
        "--device NAME": "cpu, cuda, cuda:1, ...; default: a GPU when there is one",
    },
    "run": {
        "--out DIR": "folder of the run",
        "--resume": "continue the run in --out",
        "--max-hours X": "stop at a checkpoint before this many hours have passed",
        "--processes N": "train with N processes of this machine, a GPU or a share of the cores each",
        "--dry-run": "print data, parameters, memory and time of the run, and do not start it",
        "--evaluate-every N": "measure success every N epochs, in another process; needs --evaluate-task",
        "--watch": "serve the run's report on this machine while it trains",
    },
}
WIDTH = 100


def short_help(methods: Sequence[str], method: str, options: Sequence[str], parts: str) -> str:
    """The text of ``beacon train --help``.

    Args:
        methods: names of all methods.
        method: the one that was chosen.
        options: names of its options.
        parts: what parts can be chosen, as `beacon.cli.parts.describe` says; may be empty.
    """
    blocks = ["usage: beacon train --source FILE --target FILE --out DIR [options]"]
    blocks.append(DESCRIPTION.format(methods=", ".join(methods)))
    column = max(len(option) for group in ESSENTIAL.values() for option in group) + 2
    for title, group in ESSENTIAL.items():
        lines = [f"  {name:<{column}}{text}" for name, text in group.items()]
        blocks.append("\n".join([f"{title}:", *lines]))
    if parts:
        blocks.append(parts)
    # Options of parts have a dot in their names; parts themselves are listed above.
    own = [name for name in options if "." not in name and f" {name} " not in parts]
    named = textwrap.fill(
        " ".join(own) or "none", WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    blocks.append(f"further options of --method {method} (--help-all explains them):\n{named}")
    blocks.append("All options: beacon train --method NAME --preset NAME --help-all")
    return "\n\n".join(blocks)
