"""Files of exports, as they are compared."""

from __future__ import annotations

import torch


def bytes_of(program: torch.onnx.ONNXProgram) -> bytes:
    """All of the file but the lines of code from which its nodes come."""
    model = program.model_proto
    for node in model.graph.node:
        for prop in node.metadata_props:
            if prop.key == "pkg.torch.onnx.stack_trace":
                prop.value = ""
    return model.SerializeToString()
