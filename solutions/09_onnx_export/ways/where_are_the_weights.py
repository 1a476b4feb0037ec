# %% right: reads the sizes that the file states
# The file states the length of an external weight, and `to_array` returns the others as arrays, so no size per element
# is needed. Every weight inside the file is decoded. A length may be missing in a valid file, and then it raises
# KeyError.
def onnx_size(path):
    """What must be deployed, from stated lengths and decoded arrays."""
    model, folder = onnx.load(path, load_external_data=False), Path(path).parent
    files, inside, outside = {Path(path).name}, 0, 0
    for one in model.graph.initializer:
        if one.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in one.external_data}
            files.add(entries["location"])
            outside += int(entries["length"])
        else:
            inside += onnx.numpy_helper.to_array(one).nbytes
    for name in files:
        if not (folder / name).exists():
            raise FileNotFoundError(name)
    return {
        "graph": os.path.getsize(path) - inside,
        "weights": inside + outside,
        "files": sorted(files),
    }


# %% wrong: loads the whole model
# says: Loading with external data erases the references: load_external_data=False.
# `onnx.load` reads all external files by default and turns their weights into weights of the graph. Then nothing says
# any more where they came from.
def onnx_size(path):
    """What must be deployed, after all weights were loaded."""
    model = onnx.load(path)
    files, weights, inside = {Path(path).name}, 0, 0
    for one in model.graph.initializer:
        size = int(np.prod(one.dims)) * onnx.helper.tensor_dtype_to_np_dtype(one.data_type).itemsize
        weights += size
        if one.data_location == onnx.TensorProto.EXTERNAL:
            files.add(next(entry.value for entry in one.external_data if entry.key == "location"))
        else:
            inside += size
    return {"graph": os.path.getsize(path) - inside, "weights": weights, "files": sorted(files)}
