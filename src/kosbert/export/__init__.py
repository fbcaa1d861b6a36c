"""The export room: one ONNX graph from token ids to the final vector; int8 only where a quality gate lets it pass."""

from kosbert.export.release import Exported, export
from kosbert.export.verify import verify

__all__ = ["Exported", "export", "verify"]
