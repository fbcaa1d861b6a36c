"""The two error classes that every entry point handles in the same way.

A message is one sentence that ends with the fix. The command line prints it without a traceback.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class KosbertError(Exception):
    """The work failed: a file is corrupt, a download was interrupted, a loss became NaN (exit code 1)."""

    exit_code = 1


class UsageError(KosbertError, ValueError):
    """The call was wrong: an unknown name, a missing column, an impossible option (exit code 2)."""

    exit_code = 2


def did_you_mean(word: str, choices: Iterable[str], *, limit: int = 3) -> str:
    """Return the end of an error message that suggests the choices closest to a mistyped word.

    >>> did_you_mean("korst", ["korsts", "kornli"])
    'did you mean korsts or kornli?'
    """
    choices = sorted(set(choices))
    suggestions = get_close_matches(word.lower(), choices, n=limit, cutoff=0.5) or choices
    if not suggestions:
        return "there is nothing to choose from"
    if len(suggestions) > 12:
        suggestions = [*suggestions[:12], "…"]
    if len(suggestions) == 1:
        return f"did you mean {suggestions[0]}?"
    return f"did you mean {', '.join(suggestions[:-1])} or {suggestions[-1]}?"
