# %% right: two decorated functions
# `torch.autocast` is a decorator too: each function carries its own region, wherever it is called from.
def forward_mixed(backbone, head, x):
    """head(backbone(x)), each in a region of its own."""

    @torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    def low(v):
        return backbone(v)

    @torch.autocast("cpu", enabled=False)
    def exact(v):
        return head(v)

    return exact(low(x).float())


# %% wrong: no region for the head
# says: Called inside someone's autocast region the head runs in bfloat16 again: .float() is not enough
# It works until somebody calls the function within a region of their own.
def forward_mixed(backbone, head, x):
    """Right outside of any region."""
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    return head(h.float())
