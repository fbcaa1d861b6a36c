"""Export: one ONNX graph from token ids to the embedding, with int8 weights only behind a quality gate."""

from kosbert.export.exporter import ExportResult, QualityGate, export
from kosbert.export.verify import verify

__all__ = ["ExportResult", "QualityGate", "export", "verify"]
