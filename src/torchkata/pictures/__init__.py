"""Pictures and explorers: in each module a pure function computes a state, and a thin part draws it.

show         how a picture or an explorer reaches the notebook: SVG, alternative text, the words below it
style        the look they share: card, colours, fonts, cells
strides      strides_explorer(), draw_strip(views): which cells of memory a tensor looks at
bins         three_bins(x): same object, view or copy, found by running expressions
cuts         cut_ruler(n, calls): the sizes that split, chunk and tensor_split cut
index_steps  gather_scatter_stepper(), collision_map(index, dim, shape): reading and writing by index
nucleus      sort_decide_put_back(probabilities, p): a decision by rank, brought back to the tokens
"""
