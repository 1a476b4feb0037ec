"""Pictures and explorers: in each module a pure function computes a state, and a thin part draws it.

kit                 what all draw with: a card, cells, plots, graphs in layers
show                how a picture or an explorer reaches the notebook: SVG, alternative text, the words below it
style               the look they share: colours, fonts, sizes
controls            the controls that explorers share: one look, labels, keys, names for screen readers
programs            runs typed lines of Python, statement by statement, for pictures of what autograd recorded

Backends
call_path           call_path(lit): the way of x + y, from Python to the bytes; chapters 1 to 4 share it
float_bits          float_explorer(): a number's bits, its neighbours and its error in each float format
late_error          late_error(calls): why an error of the GPU is reported late
memory_bars         memory_explorer(): what fills the memory of a training step, measured

Tensors and views
strides             strides_explorer(), draw_strip(views): which cells of memory a tensor looks at
bins                three_bins(x): same object, view or copy, found by running expressions
cuts                cut_ruler(n, calls): the sizes that split, chunk and tensor_split cut

Gather and scatter
index_steps         gather_scatter_stepper(), collision_map(index, dim, shape): reading and writing by index
nucleus             sort_decide_put_back(probabilities, p): a decision by rank, brought back to the tokens

Autograd
backward_graph      graph_explorer(), graph_picture(program): what autograd recorded, and where gradients are
version_strip       version_strip(program, watch): a tensor's life in version numbers
row_by_row          row_by_row(jacobian, v): a vector times a Jacobian

Custom Functions
call_log            call_log_explorer(): who calls whom when a custom Function runs
step_surrogate      surrogate_explorer(): a step, and the gradient that is chosen for it
saved_for_backward  saved_for_backward(formulas, inputs): what a formula keeps for its backward pass

Hooks
hook_timeline       hook_explorer(): hooks in the order in which they fire
old_hook            old_and_full_hook(...): what the deprecated backward hook reports, in the graph of a layer
gradient_bars       gradient_bars(activations, depth, seed): how a gradient shrinks on its way back
feature_maps        feature_maps(features): what each channel of a layer shows of an image

Modules and state_dict
registry_walk       registry_walk(): a module with its three registries, and what each walk takes along
state_tree          state_explorer(): every tensor of a module, and who trains, saves and moves it
batch_norm          bn_explorer(): a batch before and after batch norm, and the running statistics
checkpoint_layout   checkpoint_anatomy(checkpoint): what a checkpoint holds, with the bytes of each part

Automatic mixed precision
amp_step            amp_step(lit): one training step in mixed precision, and how wide its numbers are
number_formats      format_explorer(): a number in the formats of mixed precision, tf32 and 8 bits included
gradient_window     window_explorer(gradients): which gradients a format loses at a given scale
loss_scale          scale_explorer(): how the scale of a GradScaler moves
dtype_flow          dtype_flow(net, x): which dtype flows between layers under autocast

ONNX export
onnx_graph          graph_picture(model, title): the operators and weights in a file
onnx_models         onnx_explorer(): what PyTorch and onnxruntime make of inputs of other sizes

Several devices
collectives         collective_explorer(): what each rank gives and gets
ring                ring_stepper(): all-reduce as a ring, chunk by chunk
sampler_table       sampler_explorer(): which samples each rank gets, and which come twice
timelines           timeline_explorer(): who works when, and who waits

The training loop
optimizer_path      optimizer_explorer(): the path of an optimizer down a bowl
batch_anatomy       batch_anatomy_explorer(): who comes together in a padded batch
loop_effects        loop_effects(): which call of an iteration changes what
loss_curve          LiveCurve: curves of losses that grow during training

Attention
who_sees            who_sees_explorer(), packed_documents(): which query sees which key, and why not
one_pass            one_pass_explorer(): softmax in one pass, block by block
kept_bytes          kept_bars(): what is kept for backward by length, measured
cache_fills         kv_cache_explorer(): the bytes of keys and values by token, and the end of the card
angle_dials         dials_explorer(): the angles of a position, in float32 and in bfloat16
"""
