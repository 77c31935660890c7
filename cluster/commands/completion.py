"""`dledger completion bash|zsh|fish`: the script by which a shell completes our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM, VARIABLE = "dledger", "_DLEDGER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    bash: dledger completion bash > ~/.local/share/bash-completion/completions/dledger

    zsh: dledger completion zsh > a file _dledger in a folder of $fpath

    fish: dledger completion fish > ~/.config/fish/completions/dledger.fish
    """
    root = click.get_current_context().find_root().command
    made = get_completion_class(shell)
    assert made is not None, "click knows the shells of the choice"
    click.echo(made(root, {}, PROGRAM, VARIABLE).source())
