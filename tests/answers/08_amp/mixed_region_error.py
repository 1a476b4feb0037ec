# corners: caller's modes

import contextlib


# %% right: converts inside the bfloat16 region, the head in a nested disabled one
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x).to(torch.float32)
        with torch.autocast("cpu", enabled=False):
            return head(h)


# %% right: two inner functions, decorated
def forward_mixed(backbone, head, x):
    @torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    def low(v):
        return backbone(v)

    @torch.autocast("cpu", enabled=False)
    def exact(v):
        return head(v)

    return exact(low(x).type(torch.float32))


# %% right: the switches by hand, put back in the end
def forward_mixed(backbone, head, x):
    before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    try:
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.clear_autocast_cache()
        h = backbone(x)
        torch.set_autocast_enabled("cpu", False)
        return head(h.float()).float()
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])


# %% right: the head outside the with statement, in an ExitStack
def forward_mixed(backbone, head, x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.amp.autocast("cpu", torch.bfloat16, cache_enabled=False))
        h = backbone(x)
    region = torch.amp.autocast("cpu", torch.bfloat16, enabled=False)
    with region:
        return head.forward(h * torch.ones((1, 1)))


# %% wrong: the given code
# says: h is still bfloat16 after the region, because nothing converts it back; the float32 head cannot multiply it.
# earns: 0 of 2
# lesson
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    return head(h)


# %% wrong: everything under autocast
# says: The head ran in bfloat16: its products rounded to 8 significant bits.
# earns: 0 of 2
# lesson
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        return head(backbone(x))


# %% wrong: everything under autocast, the result in float32
# says: Casting the result to float32 afterwards does not bring the digits back.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        return head(backbone(x)).float()


# %% wrong: converts inside the region only
# says: The head ran in bfloat16
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        return head(backbone(x).float()).float()


# %% wrong: casts the head to bfloat16
# says: The head's parameters changed dtype: convert the activation, not the weights.
# says: The head ran in bfloat16: its products rounded to 8 significant bits. Casting
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    return head.to(torch.bfloat16)(h).float()


# %% wrong: casts the head to bfloat16 and back
# says: The head ran in bfloat16
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    out = head.to(torch.bfloat16)(h).float()
    head.float()
    return out


# %% wrong: no disabled region for the head
# says: Called inside someone's autocast region the head runs in bfloat16 again: .float() is not enough
# earns: 1 of 2
# lesson
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    return head(h.float())


# %% wrong: detaches h
# says: The backbone gets no gradient: you detached h.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.detach().float())


# %% wrong: everything without gradients
# says: The backbone gets no gradient
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: drops autocast altogether
# says: The backbone no longer runs in bfloat16.
# says: Called inside someone's autocast region the head runs in bfloat16 again:
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    return head(backbone(x))


# %% wrong: the backbone in float32, rounded afterwards
# says: The backbone no longer runs in bfloat16.
# says: Called inside someone's autocast region the head runs in bfloat16 again:
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    return head(backbone(x).bfloat16().float())


# %% wrong: float16 in place of bfloat16
# says: The backbone no longer runs in bfloat16.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.float16):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: casts the result back to bfloat16
# says: Return float32.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float()).to(h.dtype)


# %% wrong: autocast without a dtype
# says: torch.autocast without a dtype uses the dtype that is set at that moment. Name bfloat16.
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu"):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: switches autocast off for the caller, too
# says: The autocast state of the caller was changed.
# earns: 1 of 2
# corner: caller's modes
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    torch.set_autocast_enabled("cpu", False)
    return head(h.float())


# %% wrong: leaves another dtype behind
# says: The autocast state of the caller was changed.
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: computes the backbone twice
# says: Each of the two parts must be run once.
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        backbone(x)
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: forgets to return
# says: Return the head's result, a tensor
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        head(h.float())


# %% wrong: returns what the head was given
# says: The result
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        head(h.float())
    return h.float()


# %% wrong: leaves the head out
# says: The head itself was never called.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        return backbone(x).float()


# %% wrong: the head's input in float64
# says: The input of the head must have the dtype of its weights, float32
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.double()).float()


# %% wrong: converts the backbone's weights
# says: The backbone's parameters changed dtype: convert the activation, not the weights.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", enabled=False):
        return head(backbone.bfloat16()(x.bfloat16()).float())


# %% wrong: tries the head as it is, converts only after an error
# says: Called inside someone's autocast region the head runs in bfloat16 again
# earns: 1 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    try:
        return head(h)
    except RuntimeError:
        return head(h.float())


# %% wrong: copies of weights stay in the caller's region
# says: Autocast keeps its copies of the weights until the outermost region ends,
# earns: 1 of 2
# corner: caller's modes
# caught: hidden
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: float() alone
# says: Called inside someone's autocast region the head runs in bfloat16 again: .float() is not enough,
# earns: 1 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        h = backbone(x)
    return head(h.float())


# %% wrong: rounds the backbone's weights for good
# says: Parameters were changed:
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.no_grad():
        for p in backbone.parameters():
            p.copy_(p.bfloat16())
    with torch.autocast("cpu", enabled=False):
        return head(h.float())


# %% wrong: twice the gradient for the backbone
# says: The gradient is wrong:
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        h = h.float()
        return head(2 * h - h.detach())


# %% wrong: switches a bfloat16 region off, and leaves a float16 region on
# says: Inside a float16 region the head did not run in float32: disable autocast for it.
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    half = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
    with torch.autocast("cpu", dtype=torch.float16, enabled=half):
        return head(h.float()).float()


# %% wrong: bfloat16 copies of the backbone's weights, and no autocast
# says: The backbone ran in bfloat16, but with autocast off.
# earns: 0 of 2
def forward_mixed(backbone, head, x):
    low = {name: p.to(torch.bfloat16) for name, p in backbone.named_parameters()}
    with torch.autocast("cpu", enabled=False):
        h = torch.func.functional_call(backbone, low, (x.to(torch.bfloat16),))
        return head(h.float())


# %% wrong: wraps the modules' forward for good
# says: The backbone no longer follows the region that it is called in
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    if "forward" not in vars(backbone):
        backbone.forward = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)(backbone.forward)
    if "forward" not in vars(head):
        head.forward = torch.autocast("cpu", enabled=False)(head.forward)
    return head(backbone(x).float())


# %% wrong: the switches by hand, not put back when the backbone raises
# says: If the backbone raises, the caller's autocast state must be restored
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    was = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(False)
    h = backbone(x)
    torch.set_autocast_enabled("cpu", False)
    out = head(h.float())
    torch.set_autocast_enabled("cpu", was[0])
    torch.set_autocast_dtype("cpu", was[1])
    torch.set_autocast_cache_enabled(was[2])
    return out


# %% wrong: an answer of zeros where the head raises
# says: What the head raises must reach the caller.
# earns: 1 of 2
# caught: hidden
def forward_mixed(backbone, head, x):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        try:
            return head(h.float())
        except ArithmeticError:
            return torch.zeros(len(x), 3)
