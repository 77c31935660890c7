"""Options of a program that tells a wrong one as all errors are: id, event, one thing to try."""

from __future__ import annotations

import argparse
from typing import NoReturn

from commitlog.advice import with_advice

USAGE = 2


class Arguments(argparse.ArgumentParser):
    """As its base, but for the text of a mistake; exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print how it is called and the mistake, and end the process."""
        said = with_advice(message, f"{self.prog} --help explains it")
        self.exit(USAGE, f"{self.format_usage()}dledger[usage]: {said}\n")
