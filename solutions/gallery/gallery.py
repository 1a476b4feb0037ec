# %% [markdown]
# # Gallery of explorers
#
# An explorer is a picture with controls: change something, and see what PyTorch does with it. This page has all
# explorers of the course, each with something to try and a link to the chapter that explains it.
#
# Choose *Run → Run All Cells* once, which takes a minute at most. After that, the pictures work without Python, and
# when you come back tomorrow they react at once. Only rare settings and text that you type yourself need Python. The
# picture then says so, and you run its cell again. You can do everything with the keyboard: Tab goes from control to
# control, the arrow keys move a slider or a list, and Space presses a button or a switch. The words below a picture
# describe what it shows.
#
# [Back to the start page](start.ipynb)

# %% setup=true
import torch
from torch import nn

from torchkata.pictures.angle_dials import dials_explorer
from torchkata.pictures.attention_map import attention_explorer
from torchkata.pictures.backward_graph import graph_explorer
from torchkata.pictures.batch_anatomy import batch_anatomy_explorer
from torchkata.pictures.batch_norm import bn_explorer
from torchkata.pictures.cache_blocks import blocks_explorer
from torchkata.pictures.cache_fills import kv_cache_explorer
from torchkata.pictures.call_log import call_log_explorer
from torchkata.pictures.collectives import collective_explorer
from torchkata.pictures.compile_breaks import breaks_explorer
from torchkata.pictures.compile_cache import cache_explorer
from torchkata.pictures.compile_cut import cut_explorer
from torchkata.pictures.float_bits import float_explorer
from torchkata.pictures.gradient_window import window_explorer
from torchkata.pictures.hook_timeline import hook_explorer
from torchkata.pictures.index_steps import gather_scatter_stepper
from torchkata.pictures.loss_scale import scale_explorer
from torchkata.pictures.memory_bars import memory_explorer
from torchkata.pictures.number_formats import format_explorer
from torchkata.pictures.one_pass import one_pass_explorer
from torchkata.pictures.onnx_models import onnx_explorer
from torchkata.pictures.optimizer_path import optimizer_explorer
from torchkata.pictures.ring import ring_stepper
from torchkata.pictures.roofline import roofline_explorer
from torchkata.pictures.sampler_table import sampler_explorer
from torchkata.pictures.state_tree import state_explorer
from torchkata.pictures.step_memory import step_memory_explorer
from torchkata.pictures.step_surrogate import surrogate_explorer
from torchkata.pictures.strides import strides_explorer
from torchkata.pictures.timelines import timeline_explorer
from torchkata.pictures.two_lanes import lanes_explorer
from torchkata.pictures.who_sees import who_sees_explorer

# %% [markdown]
# ## 01 Install and backends
#
# ### The bits of a number
#
# Press *next above* and watch the fraction count, then choose float16 and see how much nearer the next number is.
# From [chapter 01](01_backends/backends.ipynb).

# %%
float_explorer()

# %% [markdown]
# ### What fills the memory of a training step
#
# Move *batch size* and see which bars grow, then change the optimizer and see which one appears.
# From [chapter 01](01_backends/backends.ipynb).

# %%
memory_explorer()

# %% [markdown]
# ## 02 Tensors, memory and views
#
# ### Shape, strides and the cells behind them
#
# Choose `t`, then `view` with the argument `12`, which is refused. Replace it by `reshape` and find the copy. From
# [chapter 02](02_tensors_views/tensors_views.ipynb).

# %%
strides_explorer()

# %% [markdown]
# ## 03 Gather and scatter
#
# ### Gather and scatter, entry by entry
#
# Press *step*, and before each press say which two cells will be outlined next. Then choose an example that writes.
# From [chapter 03](03_gather_scatter/gather_scatter.ipynb).

# %%
gather_scatter_stepper()

# %% [markdown]
# ## 04 Autograd and leaf tensors
#
# ### The graph that a few lines record
#
# Write `z = (y * w).sum()` in *next line*, press Enter and count the arrows that end at `w`; then press *backward*.
# From [chapter 04](04_autograd/autograd.ipynb).

# %%
graph_explorer()

# %% [markdown]
# ## 05 Custom Functions
#
# ### Who calls whom when a custom Function runs
#
# Switch *x requires grad* off and see which call is still made although no node is recorded.
# From [chapter 05](05_custom_functions/custom_functions.ipynb).

# %%
call_log_explorer()

# %% [markdown]
# ### A step function and its surrogate gradient
#
# Move *steepness* up: where is the gradient still different from 0?
# From [chapter 05](05_custom_functions/custom_functions.ipynb).

# %%
surrogate_explorer()

# %% [markdown]
# ## 06 Hooks
#
# ### Hooks in the order in which they fire
#
# Switch *x requires grad* off and see where the calls of `net`, `block` and `a` end. From [chapter
# 06](06_hooks/hooks.ipynb).

# %%
hook_explorer()

# %% [markdown]
# ## 07 Modules and state_dict
#
# ### What a module trains, saves and moves
#
# Switch `.double()` on and find the rows that don't change, then show only what is saved. From [chapter
# 07](07_modules_state_dict/modules_state_dict.ipynb).

# %%
state_explorer()

# %% [markdown]
# ### Batch norm in train and in eval mode
#
# Press *one forward* a few times in each mode: in which one do the running lines move?
# From [chapter 07](07_modules_state_dict/modules_state_dict.ipynb).

# %%
bn_explorer(steps=6)

# %% [markdown]
# ## 08 Automatic mixed precision
#
# ### A number in the formats of mixed precision
#
# 1e-8 is 0 in fp16. Move *scale* up until it no longer is.
# From [chapter 08](08_amp/amp.ipynb).

# %%
format_explorer("1e-8", "fp16")

# %% [markdown]
# ### Which gradients a format loses
#
# Move *scale* and find the value at which the fewest gradients of this net become 0 and none becomes inf.
# From [chapter 08](08_amp/amp.ipynb).

# %%
torch.manual_seed(1)
layers = [layer for _ in range(10) for layer in (nn.Linear(32, 32), nn.Sigmoid())]
net = nn.Sequential(*layers, nn.Linear(32, 1))
net(torch.randn(64, 32)).square().mean().backward()
window_explorer([layer.weight.grad for layer in net[::2]])

# %% [markdown]
# ### How a GradScaler moves its scale
#
# Make an inf likely and *interval* long. Where does the scale end up? From [chapter 08](08_amp/amp.ipynb).

# %%
scale_explorer()

# %% [markdown]
# ## 09 ONNX export
#
# ### PyTorch and the exported file, side by side
#
# Move *rows to run*: for which numbers of rows do the two differ, and why there?
# From [chapter 09](09_onnx_export/onnx_export.ipynb).

# %%
onnx_explorer()

# %% [markdown]
# ## 10 Several devices, several processes
#
# ### What each rank sends and gets
#
# Choose `reduce_scatter`, say what each rank will have at the end, then press *step* until each rank has it. From
# [chapter 10](10_multi_gpu/multi_gpu.ipynb).

# %%
collective_explorer()

# %% [markdown]
# ### Which samples each rank gets
#
# Find a number of samples and a number of ranks for which no sample occurs twice, then switch *drop_last* on for the
# others. From [chapter 10](10_multi_gpu/multi_gpu.ipynb).

# %%
sampler_explorer()

# %% [markdown]
# ### Who works when, and who waits
#
# Raise *micro-batches m* and see how the share of waiting falls. Which other slider raises it again? From [chapter
# 10](10_multi_gpu/multi_gpu.ipynb).

# %%
timeline_explorer()

# %% [markdown]
# ### All-reduce as a ring
#
# Press *step* until each rank has one complete chunk: how many steps, for how many ranks?
# From [chapter 10](10_multi_gpu/multi_gpu.ipynb).

# %%
ring_stepper()

# %% [markdown]
# ## 11 The training loop
#
# ### Which samples share a padded batch
#
# Sort the lengths in the text field and see how much less is padded.
# From [chapter 11](11_training_loop/training_loop.ipynb).

# %%
batch_anatomy_explorer()

# %% [markdown]
# ### The path of an optimizer
#
# Move *lr* up by one notch, and SGD diverges. Then find the momentum that reaches the minimum soonest with half that
# rate. From [chapter 11](11_training_loop/training_loop.ipynb).

# %%
optimizer_explorer()

# %% [markdown]
# ## 12 A small language model, by hand
#
# ### What a head looks at
#
# Move *position* along the text in layer 0, head by head. Which head attends to the previous letter? At which position
# is the model most certain of what comes next? From [chapter 12](12_language_model/language_model.ipynb).

# %%
attention_explorer()

# %% [markdown]
# ## 13 Where memory and time go
#
# ### Memory over a training step
#
# Move *batch size* down until the peak is in the optimizer's step. Does checkpointing still help there?
# From [chapter 13](13_memory_time/memory_time.ipynb).

# %%
step_memory_explorer()

# %% [markdown]
# ### A caching allocator and its blocks
#
# Press *next event* until the last one fails, out of memory with 2 MiB in use. Then choose *emptied early*. From
# [chapter 13](13_memory_time/memory_time.ipynb).

# %%
blocks_explorer()

# %% [markdown]
# ### Python and the GPU in two lanes
#
# Choose a batch of 64 and stop reading the loss. Which of the two waits for the other now? From [chapter
# 13](13_memory_time/memory_time.ipynb).

# %%
lanes_explorer()

# %% [markdown]
# ### Arithmetic against traffic
#
# Move *rows* until the product is bound by arithmetic. Then choose GELU. Can it ever be bound by arithmetic? From
# [chapter 13](13_memory_time/memory_time.ipynb).

# %%
roofline_explorer()

# %% [markdown]
# ## 14 torch.compile: captured, guarded, broken
#
# ### The cache of a compiled function
#
# Choose *sizes* and press *next call*. Which sizes use the second entry, and which never do? From [chapter
# 14](14_compile/compile.ipynb).

# %%
cache_explorer()

# %% [markdown]
# ### Where a function breaks
#
# Choose *print*, then put it in a loop. What is left? From [chapter 14](14_compile/compile.ipynb).

# %%
breaks_explorer()

# %% [markdown]
# ### Forward and backward, cut apart
#
# Choose the min-cut for the three sines. What is computed twice?
# From [chapter 14](14_compile/compile.ipynb).

# %%
cut_explorer()

# %% [markdown]
# ## 15 Attention that fits
#
# ### Who sees whom
#
# Choose *causal_lower_right* and see which keys the last query gains. Then set *queries* to 8 and *left padding* to 3.
# Which queries see no key? From [chapter 15](15_attention/attention.ipynb).

# %%
who_sees_explorer()

# %% [markdown]
# ### Softmax in one pass
#
# Switch *forget to rescale* on and press *next block*. Why does the same mistake do no harm with the scores *largest
# first*? From [chapter 15](15_attention/attention.ipynb).

# %%
one_pass_explorer()

# %% [markdown]
# ### The cache fills
#
# Choose 24 *kv heads* and move *tokens* until the memory no longer fits on the card. Then choose *taken once*. At how
# many tokens does it stop fitting now? From [chapter 15](15_attention/attention.ipynb).

# %%
kv_cache_explorer()

# %% [markdown]
# ### Positions as angles, in two formats
#
# Move *position* from 256 to 257. Which pairs are off now, and which are never? From [chapter
# 15](15_attention/attention.ipynb).

# %%
dials_explorer()
