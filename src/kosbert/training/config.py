"""Helpers shared by recipes and studies: strict models, overlays, YAML, and one-sentence validation errors."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from kosbert.errors import UsageError


class StrictModel(BaseModel):
    """A frozen model that rejects unknown keys, so that a typo never trains something else."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def as_list(value: Any) -> Any:
    """Wrap a single string or mapping in a list; `dev: korsts-dev` is short for `dev: [korsts-dev]`."""
    return [value] if isinstance(value, str | Mapping) else value


Names = Annotated[list[str], BeforeValidator(as_list)]


class YamlLoader(yaml.SafeLoader):
    """Safe YAML loader that reads 3e-5 as a number; YAML 1.1 would need 3.0e-5."""


YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def read_yaml(path: Path, missing: str) -> dict[str, Any]:
    """Read a YAML mapping.

    Args:
        path: the file.
        missing: error message for a file that does not exist.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), YamlLoader)
    except FileNotFoundError:
        raise UsageError(missing) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} is not a readable YAML file ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} is not a mapping of keys to values: `kosbert train --list` names examples")
    return document


def merge(base: Any, overlay: Any) -> Any:
    """Return `base` with an overlay applied: mappings merge by key, a mapping applies to every item of a list.

    >>> merge({"train": {"lr": 1, "warmup": 0}, "stages": [{"a": 1}, {}]}, {"train": {"lr": 3}, "stages": {"a": 2}})
    {'train': {'lr': 3, 'warmup': 0}, 'stages': [{'a': 2}, {'a': 2}]}
    """
    if isinstance(base, dict) and isinstance(overlay, dict):
        return base | {key: merge(base.get(key), value) for key, value in overlay.items()}
    if isinstance(base, list) and isinstance(overlay, dict):
        return [merge(item, overlay) for item in base]
    return overlay


def set_value(document: dict[str, Any], setting: str) -> None:
    """Apply one `--set key=value` in place, for example `train.lr=3e-5` or `stages.0.epochs=2`."""
    path, equals, text = setting.partition("=")
    if not equals:
        raise UsageError(f"--set {setting}: write it as key=value, for example train.lr=3e-5")
    try:
        value = yaml.load(text, YamlLoader)
    except yaml.YAMLError:
        value = text
    *parents, last = path.split(".")
    node: Any = document
    for key in parents:
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict):
            node = node.setdefault(key, {})
        else:
            raise UsageError(f"--set {setting}: there is nothing at {key!r} in the recipe")
    if isinstance(node, list) and last.isdigit() and int(last) < len(node):
        node[int(last)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise UsageError(f"--set {setting}: there is nothing at {last!r} in the recipe")


def first_error(error: ValidationError) -> tuple[list[int | str], str, bool]:
    """Return the location of the first error, its message, and whether it is an unknown key; those come first."""
    errors = sorted(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
    details = errors[0]
    return [*details["loc"]], details["msg"].removeprefix("Value error, "), details["type"] == "extra_forbidden"


def dotted(location: Sequence[int | str]) -> str:
    """Return a location as the user writes it: stages.0.train.lr."""
    return ".".join(map(str, location))
