"""The settings of a saved model in the layout that sentence-transformers has read since version 2.

sentence-transformers 6 writes class paths and keys that versions up to 5 do not know; it reads the classic ones as
well. text-embeddings-inference needs them: `pooling_mode_*` and `max_seq_length`.
"""

import json
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

# Version 5.1 has these classes under this name, and version 6 still accepts it.
_CLASSIC_CLASSES = {
    *("Transformer", "Pooling", "Normalize", "Dense", "WeightedLayerPooling", "Dropout", "LayerNorm", "CNN", "LSTM"),
    *("BoW", "StaticEmbedding", "WordEmbeddings", "WordWeights", "CLIPModel"),
}
_POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
"""In the order in which sentence-transformers concatenates several poolings."""
_NEW_TOKENIZER_CLASS = "TokenizersBackend"  # transformers 5; version 4 calls the same thing PreTrainedTokenizerFast


def write_classic_layout(directory: Path, model: SentenceTransformer) -> None:
    """Rewrite the settings of a directory that `model.save` wrote; weights and tokenizer.json stay as they are."""
    modules: list[dict[str, Any]] = _read(directory / "modules.json")
    for description, module in zip(modules, model, strict=True):
        kind = type(module).__name__
        if type(module).__module__.startswith("sentence_transformers.") and kind in _CLASSIC_CLASSES:
            description["type"] = f"sentence_transformers.models.{kind}"
            _rewrite_module(kind, directory / description["path"], module)
    _write(directory / "modules.json", modules)


def _rewrite_module(kind: str, folder: Path, module: Any) -> None:
    config = folder / "config.json"
    match kind:
        case "Transformer" if (module.transformer_task, *module.modality_config) == ("feature-extraction", "text"):
            settings = {"max_seq_length": module.max_seq_length, "do_lower_case": bool(module.do_lower_case)}
            _write(folder / "sentence_bert_config.json", settings)
            _rewrite_tokenizer(folder / "tokenizer_config.json", module.tokenizer)
        case "Pooling":
            modes = (module.pooling_mode,) if isinstance(module.pooling_mode, str) else tuple(module.pooling_mode)
            if list(modes) == [mode for mode in _POOLING_KEYS if mode in modes]:  # another order has no classic form
                flags = {key: mode in modes for mode, key in _POOLING_KEYS.items()}
                size = {"word_embedding_dimension": module.embedding_dimension}
                _write(config, size | flags | {"include_prompt": module.include_prompt})
        case "WeightedLayerPooling":
            settings = _read(config)
            settings["word_embedding_dimension"] = settings.pop("embedding_dimension")
            _write(config, settings)
        case "Dense" if module.module_input_name == module.module_output_name == "sentence_embedding":
            settings = _read(config)
            _write(config, {key: settings[key] for key in settings if not key.startswith("module_")})


def _rewrite_tokenizer(file: Path, tokenizer: Any) -> None:
    if not file.is_file():
        return
    settings = _read(file)
    if settings.get("tokenizer_class") == _NEW_TOKENIZER_CLASS:
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings["model_input_names"] = list(tokenizer.model_input_names)  # the defaults differ between versions
    if settings.get("extra_special_tokens") == []:
        del settings["extra_special_tokens"]
    for key in ("is_local", "local_files_only"):  # arguments of the call that loaded it
        settings.pop(key, None)
    _write(file, settings)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
