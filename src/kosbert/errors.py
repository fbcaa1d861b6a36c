"""The two ways a call can go wrong, so that every entry point answers them alike.

A message is one sentence that ends with the fix. The command line prints it without a traceback.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class KosbertError(Exception):
    """The work failed: a file is corrupt, a download broke off, a loss became NaN (exit code 1)."""

    exit_code = 1


class UsageError(KosbertError, ValueError):
    """The call was wrong: an unknown name, a missing column, an impossible option (exit code 2)."""

    exit_code = 2


def nearest(word: str, choices: Iterable[str], *, most: int = 3) -> str:
    """Name the choices nearest to a mistyped word, as the end of an error message.

    >>> nearest("korst", ["korsts", "kornli"])
    'did you mean korsts or kornli?'
    """
    options = sorted(set(choices))
    close = get_close_matches(word.lower(), options, n=most, cutoff=0.5) or options
    if len(close) > 12:
        close = [*close[:12], "…"]
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    return f"did you mean {', '.join(close[:-1])} or {close[-1]}?" if close else "there is nothing to choose from"
