# corners: caller's modes

import contextlib
import functools


def no_cuda(device):
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError("no CUDA here")


def chosen(kind, dtype):
    if dtype is None:
        dtype = (
            torch.bfloat16
            if kind == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
            else torch.float16
        )
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"not {dtype}")
    return dtype


# %% right: functools.partial of torch.autocast
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = torch.device(device).type
    dtype = chosen(kind, dtype)
    scaler = torch.GradScaler(kind, enabled=dtype == torch.float16)
    if dtype == torch.float32:
        return functools.partial(torch.autocast, kind, enabled=False), scaler
    return functools.partial(torch.autocast, kind, dtype), scaler


# %% right: a generator context manager around autocast
def make_amp(device, dtype=None):
    kind, _, _ = device.partition(":")
    if kind == "cuda" and torch.cuda.device_count() == 0:
        raise RuntimeError("CUDA was asked for, but there is none")
    dtype = chosen(kind, dtype)

    @contextlib.contextmanager
    def autocast():
        with torch.amp.autocast(device_type=kind, dtype=dtype, enabled=dtype is not torch.float32):
            yield

    return autocast, torch.amp.GradScaler(kind, init_scale=1024.0, enabled=dtype is torch.float16)


# %% right: a list in place of the tuple, scaler without a device where it is off
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind) if dtype is torch.float16 else torch.amp.GradScaler(enabled=False)
    on = dtype is not torch.float32
    return [lambda: torch.autocast(kind, dtype=dtype if on else None, enabled=on), scaler]


# %% wrong: the given code
# says: FutureWarning: torch.cuda.amp.* is deprecated
# earns: 0 of 2
# lesson
def make_amp(device, dtype=None):
    scaler = torch.cuda.amp.GradScaler()
    return lambda: torch.cuda.amp.autocast(), scaler


# %% wrong: autocast("cuda") whatever the device
# says: Nothing was autocast on this device: the context belongs to another device type, or is switched off.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast("cuda", dtype=dtype), scaler


# %% wrong: the old twins for the CPU
# says: FutureWarning: torch.cuda.amp.* is deprecated
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    old = torch.cuda.amp if device.startswith("cuda") else torch.cpu.amp
    dtype = chosen(device.split(":")[0], dtype)
    return lambda: old.autocast(dtype=dtype), old.GradScaler(enabled=dtype is torch.float16)


# %% wrong: GradScaler() without a device
# says: (GradScaler() without a device means cuda and disables itself elsewhere.)
# earns: 0 of 2
# lesson
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: scaler enabled for bfloat16, too
# says: bfloat16 has the range of float32: a scaler is needed for float16 only.
# earns: 0 of 2
# lesson
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is not torch.float32)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: scaler never enabled
# says: float16 without an enabled GradScaler: small gradients underflow.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=False)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: no scaler for bfloat16
# says: The second part must be a torch.amp.GradScaler (disabled where none is needed); yours is missing (None).
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind) if dtype is torch.float16 else None
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: lets torch warn and disable
# says: raise RuntimeError instead of quietly computing in float32.
# earns: 1 of 2
def make_amp(device, dtype=None):
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: quietly uses the cpu instead
# says: raise RuntimeError instead of quietly computing in float32.
# earns: 1 of 2
# lesson
def make_amp(device, dtype=None):
    kind = device.split(":")[0] if torch.cuda.is_available() else "cpu"
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: refuses only when the region is entered
# says: raise RuntimeError instead of quietly computing in float32.
# earns: 1 of 2
def make_amp(device, dtype=None):
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)

    def autocast():
        no_cuda(device)
        return torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32)

    return autocast, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: an assertion in place of RuntimeError
# says: This must raise RuntimeError; it raised AssertionError.
# earns: 1 of 2
def make_amp(device, dtype=None):
    kind = device.split(":")[0]
    assert kind == "cpu" or torch.cuda.is_available(), "CUDA is not available"
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: bfloat16 without asking the GPU
# says: A GPU without bfloat16 gets float16.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen("cpu", dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: float16 on every GPU
# says: Ask the GPU: use bfloat16 if it computes in bfloat16
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    if dtype is None and kind == "cuda":
        dtype = torch.float16
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: accepts exactly "cpu" and "cuda"
# says: A device with an index ('cuda:1') must be accepted; take its type for autocast and scaler.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    if device not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {device}")
    no_cuda(device)
    dtype = chosen(device, dtype)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    return lambda: torch.autocast(device, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: gives the index on to the scaler
# says: A device with an index ('cuda:1') must be accepted; take its type for autocast and scaler.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: one context object reused
# says: autocast() must return a new context each time, so that regions can follow and contain each other.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    region = torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32)
    return lambda: region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: one generator context manager, used up after the first region
# says: autocast() must return a new context each time, so that regions can follow and contain each other.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)

    @contextlib.contextmanager
    def region():
        with torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32):
            yield

    only = region()
    return lambda: only, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: the context manager itself in place of a function
# says: The first part must be a function that returns a context manager
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    region = contextlib.nullcontext() if dtype is torch.float32 else contextlib.suppress()
    return region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: one autocast object in place of a function
# says: The first part must be a function without arguments that returns a new context manager, not a context manager.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    region = torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32)
    return region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: accepts any dtype
# says: Only float16, bfloat16 and float32 make sense: raise ValueError for others.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = dtype or chosen(kind, None)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32), scaler


# %% wrong: float32 still autocasts
# says: dtype=torch.float32 means: autocast disabled, scaler disabled.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=None if dtype is torch.float32 else dtype), scaler


# %% wrong: float32 warns and is switched off by torch
# says: Autocast doesn't accept float32 and warns
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype), scaler


# %% wrong: float32 is refused
# says: dtype=torch.float32 means: autocast disabled, scaler disabled.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    if dtype is torch.float32:
        raise ValueError("float32 is no low precision")
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(kind, dtype=dtype), scaler


# %% wrong: only the scaler
# says: Return the pair (autocast, scaler), not a value of type GradScaler.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    return torch.amp.GradScaler(device, enabled=False)


# %% wrong: ends the program
# says: raised SystemExit
# earns: 0 of 2
def make_amp(device, dtype=None):
    raise SystemExit(1)


# %% wrong: builds the scaler before it refuses
# says: Raise the error before you build anything: UserWarning
# earns: 1 of 2
def make_amp(device, dtype=None):
    kind = device.split(":")[0]
    scaler = torch.amp.GradScaler(kind)
    no_cuda(device)
    dtype = chosen(kind, dtype)
    off = torch.amp.GradScaler(kind, enabled=False)
    return (
        lambda: torch.autocast(kind, dtype=dtype, enabled=dtype is not torch.float32),
        scaler if dtype is torch.float16 else off,
    )


# %% wrong: a context that does nothing for float32
# says: a context that does nothing can't.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    if dtype is torch.float32:
        return contextlib.nullcontext, scaler
    return lambda: torch.autocast(kind, dtype=dtype), scaler


# %% wrong: bfloat16 where it is only emulated
# says: is_bf16_supported() says yes where bfloat16 is only emulated
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    if dtype is None and kind == "cuda" and torch.cuda.is_bf16_supported():
        dtype = torch.bfloat16
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16)
    return lambda: torch.autocast(
        kind, dtype=None if dtype is torch.float32 else dtype, enabled=dtype.itemsize == 2
    ), scaler


# %% wrong: the scaler of the CPU on a GPU
# says: The scaler works on cpu and the region on cuda
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    return lambda: torch.autocast(
        kind, dtype=None if dtype is torch.float32 else dtype, enabled=dtype.itemsize == 2
    ), scaler


# %% wrong: the scaler without a device
# says: float16 without an enabled GradScaler: small gradients underflow. (GradScaler() without a device
# earns: 0 of 2
def make_amp(device, dtype=None):
    kind = torch.device(device).type
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("CUDA is missing")
    if dtype is None:
        dtype = (
            torch.bfloat16
            if kind == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
            else torch.float16
        )
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("dtype")
    on = dtype != torch.float32
    return (
        lambda: torch.autocast(kind, dtype=dtype if on else None, enabled=on),
        torch.amp.GradScaler(enabled=dtype == torch.float16),
    )


# %% wrong: forgets to return
# says: Nothing came back (None): is a `return` missing? Return the pair (autocast, scaler).
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    functools.partial(torch.autocast, kind, dtype=dtype), torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: float16 on the CPU, too
# says: A product inside must be
# says: Ask the GPU: use bfloat16 if it computes in bfloat16, and float16 only if it does not.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    return functools.partial(torch.autocast, kind, dtype=torch.float16), torch.amp.GradScaler(
        kind, enabled=dtype is torch.float16
    )


# %% wrong: a scale of 1
# says: The scaler does not scale a loss.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    region = functools.partial(torch.autocast, kind, dtype=dtype, enabled=dtype is not torch.float32)
    return region, torch.amp.GradScaler(kind, init_scale=1.0, enabled=dtype is torch.float16)


# %% wrong: does not say what is missing
# says: The message must say that CUDA is missing.
# earns: 1 of 2
def make_amp(device, dtype=None):
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError("not available here")
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)
    region = functools.partial(torch.autocast, kind, dtype=dtype, enabled=dtype is not torch.float32)
    return region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: asks the GPU, whatever the caller has asked for
# says: The dtype that the caller asked for was not used.
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, None if kind == "cuda" and dtype is torch.float16 else dtype)
    region = functools.partial(torch.autocast, kind, dtype=dtype, enabled=dtype is not torch.float32)
    return region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: autocast stays off afterwards where float32 was asked for
# says: After the region the caller's own region must be on again.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)

    @contextlib.contextmanager
    def off():
        torch.set_autocast_enabled(kind, False)
        yield

    region = off if dtype is torch.float32 else functools.partial(torch.autocast, kind, dtype=dtype)
    return region, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: switches autocast on and not off
# says: Autocast is still on after the region.
# earns: 0 of 2
def make_amp(device, dtype=None):
    no_cuda(device)
    kind = device.split(":")[0]
    dtype = chosen(kind, dtype)

    @contextlib.contextmanager
    def on():
        torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_enabled(kind, dtype is not torch.float32)
        yield

    return on, torch.amp.GradScaler(kind, enabled=dtype is torch.float16)


# %% wrong: leaves the CPU's dtype to torch.autocast
# says: Without a dtype, `torch.autocast` takes the one that is set at that moment
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def make_amp(device, dtype=None):
    kind = device.split(":")[0]
    if dtype not in (None, torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"unsupported dtype: {dtype}")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError("CUDA is not available")
        if dtype is None:
            dtype = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16

    def autocast():
        if dtype == torch.float32:
            return torch.autocast(kind, enabled=False)
        return torch.autocast(kind) if dtype is None else torch.autocast(kind, dtype=dtype)

    return autocast, torch.amp.GradScaler(kind, enabled=dtype == torch.float16)


# %% wrong: asks for the dtype that autocast has at the moment
# says: and so does `torch.get_autocast_dtype`: None means bfloat16, so name it.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def make_amp(device, dtype=None):
    kind = torch.device(device).type
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("CUDA is not available")
    if dtype is None:
        low = kind == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = torch.get_autocast_dtype("cpu") if kind == "cpu" else torch.bfloat16 if low else torch.float16
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(dtype)
    on = dtype != torch.float32
    region = partial(torch.autocast, kind, dtype=dtype if on else None, enabled=on)
    return region, torch.amp.GradScaler(kind, enabled=dtype == torch.float16)


# %% wrong: asks for CUDA only where autocast is on
# says: make_amp("cuda", torch.float32) must also raise RuntimeError without CUDA
# earns: 1 of 2
# caught: hidden
def make_amp(device, dtype=None):
    kind = torch.device(device).type
    if dtype not in (None, torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"unsupported dtype {dtype}")
    if kind == "cuda" and dtype != torch.float32 and not torch.cuda.is_available():
        raise RuntimeError("CUDA was requested, but torch.cuda.is_available() is False")
    if dtype is None:
        low = kind == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = torch.bfloat16 if low else torch.float16
    on = dtype != torch.float32
    region = partial(torch.autocast, kind, dtype=dtype if on else None, enabled=on)
    return region, torch.amp.GradScaler(kind, enabled=dtype == torch.float16)
