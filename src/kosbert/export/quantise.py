"""int8 in a graph: matrix products with weights per channel, and token tables with one scale a row.

Products are quantised by ONNX Runtime (dynamically: activations are measured as they come). Its own way with tables
has one scale for all rows, so that rare tokens with small vectors lose most; here every token keeps its own scale.
"""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kosbert.errors import UsageError


def to_int8(graph: bytes) -> bytes:
    """The same graph with int8 weights: a quarter of the size, and faster where the processor can.

    Weights use seven bits of the eight: processors without VNNI would overflow where two products meet, and give other
    vectors than those on which the quality was measured.
    """
    onnx, quantization = _libraries()
    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(graph)
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.ERROR)  # it advises a preparation that does nothing for these graphs
        try:
            quantization.quantize_dynamic(
                before,
                after,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                reduce_range=True,
                weight_type=quantization.QuantType.QInt8,
                extra_options={"MatMulConstBOnly": True},
            )
        finally:
            root.setLevel(level)
        model = onnx.load(str(after))
    _quantise_tables(onnx, model)
    return bytes(model.SerializeToString())


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        from onnxruntime import quantization
    except ImportError:
        raise UsageError("int8 needs onnx and ONNX Runtime: pip install 'kosbert[onnx]'") from None
    return onnx, quantization


def _quantise_tables(onnx: Any, model: Any) -> None:
    """Every table that rows are looked up in: an int8 copy, and what to multiply each row with."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    graph = model.graph
    tables = {each.name: each for each in graph.initializer}
    nodes = []
    replaced: set[str] = set()
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != onnx.TensorProto.FLOAT or len(table.dims) != 2:
            nodes.append(node)
            continue
        if table.name not in replaced:
            whole, scales = rows_to_int8(numpy_helper.to_array(table))
            graph.initializer.append(numpy_helper.from_array(whole, f"{table.name}.int8"))
            graph.initializer.append(numpy_helper.from_array(scales, f"{table.name}.scale"))
            replaced.add(table.name)
        name, ids, out = table.name, node.input[1], node.output[0]
        axis = {"axis": 0}
        nodes += [
            helper.make_node("Gather", [f"{name}.int8", ids], [f"{out}.int8"], **axis),
            helper.make_node("Cast", [f"{out}.int8"], [f"{out}.float"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Gather", [f"{name}.scale", ids], [f"{out}.scale"], **axis),
            helper.make_node("Mul", [f"{out}.float", f"{out}.scale"], [out]),
        ]
    kept = [each for each in graph.initializer if each.name not in replaced]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    onnx.checker.check_model(model)


def rows_to_int8(table: np.ndarray[Any, np.dtype[np.float32]]) -> tuple[Any, Any]:
    """Whole numbers from -127 to 127 and a scale for each row, (rows, 1): their product is the table, nearly."""
    scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-12) / 127
    return np.round(table / scales).astype(np.int8), scales.astype(np.float32)
