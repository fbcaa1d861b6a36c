"""Recipes and overlays that come with the package, addressed by name: `nli-sts`, `builtin/6-sts`, overlay `sample`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kosbert.errors import UsageError, did_you_mean

_DIRECTORY = Path(__file__).parent


@dataclass(frozen=True)
class ShippedRecipe:
    """A recipe or an overlay of the package."""

    name: str
    kind: Literal["recipe", "overlay"]
    description: str  # the first comment line of the file
    path: Path


def shipped_recipes() -> list[ShippedRecipe]:
    """List recipes, then overlays, then the steps of the built-in model in order."""
    recipes = []
    for path in _DIRECTORY.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(_DIRECTORY).with_suffix("").as_posix().removeprefix("overlays/")
        is_recipe = "\nstages:\n" in text  # an overlay has no list of stages
        description = text.partition("\n")[0].removeprefix("# ")
        recipes.append(ShippedRecipe(name, "recipe" if is_recipe else "overlay", description, path))
    return sorted(recipes, key=_order)


def find_recipe(name: str) -> Path:
    """Return the path of a recipe or an overlay by name."""
    paths = {recipe.name: recipe.path for recipe in shipped_recipes()}
    if name not in paths:
        raise UsageError(f"there is no recipe {name!r}: {did_you_mean(name, paths)}")
    return paths[name]


def _order(recipe: ShippedRecipe) -> tuple[bool, int, str]:
    _, is_step, step = recipe.name.partition("/")
    return bool(is_step), int(step.split("-")[0]) if is_step else recipe.kind == "overlay", recipe.name
