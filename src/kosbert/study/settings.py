"""Changes of a study from the command line: `--set KEY=VALUE` and `--limit ROWS`.

    --set train.batch_size=8 --set stages.nli.epochs=0.1 --set data.nli=my-nli.tsv --limit 64

A setting applies to every stage of every variant, over the preset. What defines a variant (its own overrides) stays.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from kosbert.errors import UsageError, did_you_mean
from kosbert.study.config import Preset, Probe, StudyConfig, Variant
from kosbert.training.config import dotted, first_error, merge, set_value
from kosbert.training.recipe import DataSource, Stage, TrainingArguments

_PRESET_KEYS = ("data", "dev", "test", "topics", "probe")
_RECIPE_KEYS = ("pooling", "max_length", "dropout", "train", "stages")
_OPTIONS = {"seed": "--seeds", "seeds": "--seeds", "backbone": "--backbone", "limit": "--limit"}
Key = tuple[str, ...]


def parse_settings(settings: Sequence[str], study: StudyConfig, preset: Preset) -> dict[str, Any]:
    """Return the settings as nested mappings; an unknown key, or one that changes nothing, is an error."""
    changes: dict[str, Any] = {}
    for setting in settings:
        set_value(changes, setting)
    for key in _leaves(changes):
        _check_key(key, study, preset)
        _check_effect(key, study, preset)
    return changes


def _check_effect(key: Key, study: StudyConfig, preset: Preset) -> None:
    """Raise an error if a key would change nothing."""
    variants = study.variants_of(preset)
    if key[0] == "train":
        variants = [variant for variant in variants if variant.stages]
    elif key[0] == "stages":
        variants = [variant for variant in variants if key[1] in variant.stages]
    if not variants:
        raise UsageError(f"--set {dotted(key)}: no variant of this preset is trained with it, so drop this setting")
    if all(_overrides(variant, key) for variant in variants):
        raise UsageError(f"--set {dotted(key)}: the variants of {study.name} differ in it, so drop this setting")


def _leaves(node: dict[str, Any], prefix: Key = ()) -> Iterator[Key]:
    """Yield the path of every value."""
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*prefix, str(name)))
        else:
            yield (*prefix, str(name))


def _check_key(key: Key, study: StudyConfig, preset: Preset) -> None:
    """Raise an error that suggests the nearest key if a part of the key does not exist, or if the key is a group."""
    if key[0] in _OPTIONS:
        raise UsageError(f"--set {dotted(key)}: use the option {_OPTIONS[key[0]]}")
    for end in range(len(key) + 1):
        allowed = _allowed(key[:end], study, preset)
        if allowed is None:
            return
        if end == len(key):
            if key[-1] != "data" or len(key) == 1:  # the data of a stage may be a name
                raise UsageError(f"--set {dotted(key)}: this is a group of keys; {did_you_mean('', allowed, limit=99)}")
        elif key[end] not in allowed:
            hint = did_you_mean(key[end], allowed)
            raise UsageError(f"--set {dotted(key)}: there is no key {dotted(key[: end + 1])!r}; {hint}")


def _allowed(key: Key, study: StudyConfig, preset: Preset) -> Iterable[str] | None:
    """Return the names that may follow a key; None if the key takes a value."""
    match key:
        case ():
            return [*_RECIPE_KEYS, *(name for name in _PRESET_KEYS if name != "probe" or preset.probe)]
        case ("data",):
            return preset.data
        case ("probe",):
            return Probe.model_fields
        case ("stages",):
            return study.stages
        case ("train",) | ("stages", _, "train"):
            return TrainingArguments.model_fields
        case ("stages", _):
            return set(Stage.model_fields) - {"name"}
        case ("stages", _, "data"):
            return DataSource.model_fields
    return None


def _overrides(variant: Variant, key: Key) -> bool:
    """Return whether a variant sets a key itself."""
    node: Any = variant.overrides
    for name in key:
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


def changed_preset(preset: Preset, changes: dict[str, Any]) -> Preset:
    """Return the preset with the data, dev and test sets of the settings."""
    update = {name: value for name, value in changes.items() if name in _PRESET_KEYS}
    if not update:
        return preset
    try:
        return Preset.model_validate(merge(preset.model_dump(), update))
    except ValidationError as error:
        location, message, _ = first_error(error)
        raise UsageError(f"--set {dotted(location)}: {message}") from None


def changed_recipe(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe of a preset, its stages by label, with the settings.

    `train.lr` applies to all stages, so it replaces the value of a stage; `stages.sts.train.lr` applies to one.
    """
    changes = {name: value for name, value in changes.items() if name in _RECIPE_KEYS}
    stages = {}
    train = changes.get("train", {})
    for label, values in document["stages"].items():
        change = changes.get("stages", {}).get(label, {})
        stage = dict(values)
        for name, other in (("steps", "epochs"), ("epochs", "steps")):  # a stage has one of them
            if name in change and other not in change:
                stage.pop(other, None)
        if "train" in stage:
            stage["train"] = {key: value for key, value in stage["train"].items() if key not in train}
        if isinstance(change.get("data"), dict):
            stage["data"] = [{"rows": item} if isinstance(item, str) else item for item in _listed(stage["data"])]
        stages[label] = stage
    changed: dict[str, Any] = merge(document | {"stages": stages}, changes)
    return changed


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
