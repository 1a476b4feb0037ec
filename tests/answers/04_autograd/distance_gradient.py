# corners: equal values, empty
# %% right: torch.linalg.vector_norm of the differences
def pairwise_distance(x):
    return torch.linalg.vector_norm(x[:, None, :] - x[None, :, :], dim=-1)


# %% right: torch.cdist with compute_mode
def pairwise_distance(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


# %% right: takes the root only at the selected positive entries and puts them into zeros
def pairwise_distance(x):
    s = (x.unsqueeze(0) - x.unsqueeze(1)).pow(2).sum(dim=2)
    out = torch.zeros_like(s)
    positive = s > 0
    out[positive] = s[positive].sqrt()
    return out


# %% right: masked_fill twice
def pairwise_distance(x):
    s = ((x[:, None] - x) ** 2).sum(-1)
    zero = s == 0
    return s.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


# %% right: Tensor.norm
def pairwise_distance(x):
    return (x[:, None] - x[None]).norm(dim=-1)


# %% right: a tiny number under the root, and zeros selected afterwards
def pairwise_distance(x):
    s = ((x[:, None] - x) ** 2).sum(-1)
    return torch.where(s > 0, (s + torch.finfo(s.dtype).tiny).sqrt(), 0.0)


# %% wrong: sqrt of the sum of squares
# says: The value is right, but the gradient is nan: at distance 0 the root has slope infinity, and 0 * inf is nan.
# earns: 0 of 1
# lesson
def pairwise_distance(x):
    return (x[:, None] - x).square().sum(-1).sqrt()


# %% wrong: sqrt(s + 1e-12)
# says: Equal rows get a positive distance, and it must be 0: an eps added inside the root
# says: Equal rows get a positive distance, and it must be 0
# earns: 0 of 1
# lesson
def pairwise_distance(x):
    return ((x[:, None] - x).square().sum(-1) + 1e-12).sqrt()


# %% wrong: an eps in the root, taken off again
# says: Small distances are off by a constant: an eps inside the root must not be seen in the result.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    return ((x[:, None] - x).square().sum(-1) + 1e-16).sqrt() - 1e-8


# %% wrong: an eps in the root, zeros selected afterwards
# says: Small distances are off by a constant: an eps inside the root must not be seen in the result.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    s = (x[:, None] - x).square().sum(-1)
    return torch.where(s > 0, (s + 1e-14).sqrt(), 0.0)


# %% wrong: torch.where after the root
# says: Selecting or replacing after the root can't undo it; the zeros must not reach it.
# earns: 0 of 1
# lesson
def pairwise_distance(x):
    s = (x[:, None] - x).square().sum(-1)
    return torch.where(s > 0, s.sqrt(), 0.0)


# %% wrong: clamps the square from below
# says: Equal rows get a positive distance, and it must be 0: an eps added inside the root, or a bound from below
# says: Equal rows get a positive distance, and it must be 0
# earns: 0 of 1
def pairwise_distance(x):
    return (x[:, None] - x).square().sum(-1).clamp(min=1e-12).sqrt()


# %% wrong: nan_to_num on the result
# says: Selecting or replacing after the root can't undo it; the zeros must not reach it.
# earns: 0 of 1
# lesson
def pairwise_distance(x):
    return (x[:, None] - x).square().sum(-1).sqrt().nan_to_num()


# %% wrong: adds the identity before the root and removes the diagonal afterwards
# says: The diagonal is treated, other equal rows are not
# earns: 0.5 of 1
# corner: equal values
def pairwise_distance(x):
    eye = torch.eye(len(x), dtype=x.dtype)
    return ((x[:, None] - x).square().sum(-1) + eye).sqrt() * (1 - eye)


# %% wrong: a^2 + b^2 - 2ab, zeros treated well
# says: The formula a^2 + b^2 - 2ab loses all digits for close points
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    s = (x.double() * x.double()).sum(-1)
    s = (s[:, None] + s - 2 * (x[:, None].double() * x.double()).sum(-1)).to(x.dtype)
    far = s > 0
    return torch.where(far, torch.where(far, s, 1.0).sqrt(), 0.0)


# %% wrong: torch.cdist with its default mode
# says: The formula a^2 + b^2 - 2ab loses all digits for close points
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    return torch.cdist(x, x)


# %% wrong: forgets the root
# says: Those are squared distances.
# says: see the check above
# earns: 0 of 1
def pairwise_distance(x):
    return (x[:, None] - x).square().sum(-1)


# %% wrong: works without the graph
# says: No gradient reaches x.
# earns: 0 of 1
def pairwise_distance(x):
    return torch.tensor([[math.dist(a, b) for b in x.tolist()] for a in x.tolist()], dtype=x.dtype).view(len(x), len(x))


# %% wrong: treats every square below 1e-12 as 0
# says: Small distances became 0: only distance 0 itself is special.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    s = (x[:, None] - x).square().sum(-1)
    far = s > 1e-12
    return torch.where(far, torch.where(far, s, 1.0).sqrt(), 0.0)


# %% wrong: sums absolute differences
# says: That is the sum of absolute differences.
# says: see the check above
# earns: 0 of 1
def pairwise_distance(x):
    return (x[:, None] - x).abs().sum(-1)


# %% wrong: detaches one side of each pair
# says: Pairs at a distance above 0 must keep their exact gradient, and the others contribute 0
# earns: 0 of 1
def pairwise_distance(x):
    return torch.linalg.vector_norm(x[:, None] - x.detach(), dim=-1)


# %% wrong: blanks the gradient of the whole row that has nan
# says: Pairs at a distance above 0 must keep their exact gradient, and the others contribute 0
# earns: 0 of 1
def pairwise_distance(x):
    x = x * 1
    if x.requires_grad:
        x.register_hook(torch.nan_to_num)
    return (x[:, None] - x).square().sum(-1).sqrt()


# %% wrong: computes in float32
# says: The distances have the dtype of x: expected torch.float64, got torch.float32.
# earns: 0.5 of 1
def pairwise_distance(x):
    x = x.float()
    return torch.linalg.vector_norm(x[:, None] - x, dim=-1)


# %% wrong: returns the upper triangle as a vector
# says: All pairs make an (N, N) matrix
# says: see the check above
# earns: 0 of 1
def pairwise_distance(x):
    return F.pdist(x)


# %% wrong: divides by the norm, so an empty row breaks
# says: It must also work for no rows
# earns: 0.5 of 1
# corner: empty
# caught: hidden
def pairwise_distance(x):
    s = torch.stack([((row - x) ** 2).sum(-1) for row in x])
    apart = s > 0
    return torch.where(apart, torch.where(apart, s, 1.0).sqrt(), 0.0)


# %% right: a Function with its own backward
class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        between = x[:, None] - x
        distance = between.square().sum(-1).sqrt()
        ctx.save_for_backward(between, distance)
        return distance

    @staticmethod
    def backward(ctx, incoming):
        between, distance = (t[..., None] if t.dim() == 2 else t for t in ctx.saved_tensors)
        pull = torch.where(distance > 0, between / distance, 0.0) * incoming[..., None]
        return pull.sum(1) - pull.sum(0)


pairwise_distance = Distance.apply


# %% right: 1 added where rows are equal, and taken out again
def pairwise_distance(x):
    squares = (x[:, None] - x).square().sum(-1)
    same = (squares == 0).to(x.dtype)
    return (squares + same).sqrt() * (1 - same)


# %% right: a hook below the root
def pairwise_distance(x):
    squares = (x[:, None] - x).square().sum(-1)
    if squares.requires_grad:
        squares.register_hook(lambda gradient: gradient.masked_fill(squares == 0, 0.0))
    return squares.sqrt()


# %% wrong: zeros written into the result of the root
# says: A result that backward needs was changed in place
# earns: 0 of 1
def pairwise_distance(x):
    return (x[:, None] - x).square().sum(-1).sqrt().fill_diagonal_(0)


# %% wrong: a hook that repairs the gradient of x
# says: Pairs at a distance above 0 must keep their exact gradient
# earns: 0 of 1
def pairwise_distance(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient.nan_to_num(0.0))
    return (x[:, None] - x).square().sum(-1).sqrt()


# %% wrong: F.pairwise_distance adds an eps to the differences
# says: Equal rows get a positive distance, and it must be 0
# earns: 0 of 1
def pairwise_distance(x):
    return F.pairwise_distance(x[:, None], x)


# %% wrong: takes the mean over the columns
# says: you took their mean
# says: see the check above
# earns: 0 of 1
def pairwise_distance(x):
    squares = (x[:, None] - x).square().mean(-1)
    return torch.where(squares > 0, torch.where(squares > 0, squares, 1.0).sqrt(), 0.0)


# %% wrong: one triangle of the matrix
# says: Only one half of the matrix is filled
# says: see the check above
# earns: 0 of 1
def pairwise_distance(x):
    return torch.linalg.vector_norm(x[:, None] - x, dim=-1).triu()


# %% wrong: treats every square below 1e-20 as 0
# says: Small distances became 0: only distance 0 itself is special.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    s = (x[:, None] - x).square().sum(-1)
    far = s > 1e-20
    return torch.where(far, torch.where(far, s, 1.0).sqrt(), 0.0)


# %% wrong: a square divided by its root
# says: The result is nan somewhere.
# says: The distances themselves are not right yet: see the check above.
# earns: 0 of 1
def pairwise_distance(x):
    squares = (x[:, None] - x).square().sum(-1)
    return squares / squares.sqrt()


# %% wrong: computes in float32
# says: The distances have the dtype of x:
# earns: 0.5 of 1
def pairwise_distance(x):
    squares = (x.float()[:, None] - x.float()).square().sum(-1)
    apart = squares > 0
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)


# %% wrong: a Function whose backward lets view work out a size
# says: Backward raised for an empty x.
# earns: 0.5 of 1
# corner: empty
# caught: hidden
class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        between = x[:, None] - x
        lengths = between.square().sum(-1).sqrt()
        ctx.save_for_backward(between, lengths)
        return lengths

    @staticmethod
    def backward(ctx, g):
        between, lengths = ctx.saved_tensors
        weights = torch.where(lengths > 0, g / lengths, 0.0)
        pulls = weights.reshape(len(g), -1, 1) * between
        return pulls.sum(1) - pulls.sum(0)


def pairwise_distance(x):
    return Distance.apply(x)


# %% wrong: F.pdist, also for no rows
# says: For an x without rows, PyTorch's backward of F.pdist ends the whole process.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    i, j = torch.triu_indices(len(x), len(x), offset=1)
    out = x.new_zeros(len(x), len(x)).index_put((i, j), F.pdist(x))
    return out + out.t()


# %% wrong: squares below the square of eps count as 0
# says: Small distances became 0: only distance 0 itself is special.
# earns: 0.5 of 1
# caught: hidden
def pairwise_distance(x):
    squares = (x[:, None] - x).square().sum(-1)
    near = squares <= torch.finfo(x.dtype).eps ** 2
    return torch.where(near, 0.0, torch.where(near, 1.0, squares).sqrt())
