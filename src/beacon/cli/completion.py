"""``beacon completion bash|zsh``: a script that completes verbs, options and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tyro

from beacon.cli import parsing

DESCRIPTION = """Print a completion script for your shell.

Once, for bash or for zsh:
  echo 'source <(beacon completion bash)' >> ~/.bashrc
  echo 'source <(beacon completion zsh)' >> ~/.zshrc

Options are taken from the verb's own help when you press Tab, so they are always those of the version that is
installed, and of the method that the line names."""

COMMANDS = {"data": "inspect check card convert repair", "suite": "run list table"}
SCRIPT = """\
_beacon() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" asked=--help
  local -a before=("${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
    return
  fi
  if [[ "$word" == -* ]]; then
    [ "$verb" = train ] && asked=--help-all
    local options
    options=$(NO_COLOR=1 beacon "${{before[@]}}" "$asked" 2>/dev/null |
      grep -oE -- '--[a-z][a-z0-9.-]*' | sort -u)
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    return
  fi
  if [ "$COMP_CWORD" -eq 2 ]; then
    case "$verb" in
{commands}
    esac
  fi
  COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _beacon beacon"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True)
class CompletionOptions:
    """What the command line takes."""

    # bash or zsh.
    shell: tyro.conf.Positional[Literal["bash", "zsh"]]


def script(shell: str) -> str:
    """The completion script of a shell.

    Args:
        shell: ``bash`` or ``zsh``.
    """
    from beacon.cli.main import VERBS

    commands = "\n".join(
        f'      {verb}) COMPREPLY=($(compgen -W "{names}" -- "$word")); return ;;'
        for verb, names in COMMANDS.items()
    )
    text = SCRIPT.format(verbs=" ".join(VERBS), commands=commands)
    return ZSH + text if shell == "zsh" else text


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: CompletionOptions = parsing.parse(
            CompletionOptions, arguments, prog="beacon completion", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    print(script(options.shell))
    return 0
