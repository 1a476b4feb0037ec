# %% [markdown]
# # Start here
#
# torchkata is a course on how PyTorch really works: why `x.t().view(-1)` is refused, which value a `scatter_` keeps,
# what a snapshot of the weights really contains. Each chapter is a notebook like this page. You read a little, predict
# what a few lines will do, run them and see. Then you write your own code, and the notebook tells you at once whether
# it is right. You need Python, and you should have run a training script once. You don't need a GPU.
#
# This folder is yours. Write whatever you like into it; the course never overwrites anything here without making a
# copy.

# %% [markdown]
# ## Your first exercise, in two minutes
#
# A notebook is a column of *cells*. Click on a cell and press **Shift + Enter** to run it and move to the next one. The
# first run in a notebook takes a few seconds, because torch is loaded. A cell that is running is marked `[*]`.
#
# **1. Run the first code cell of a notebook before all others.** It imports what the rest needs. JupyterLab folds it to
# one line; click on that line to see the others. Here it is:

# %% setup=true
import torch
from torch import Tensor

from torchkata.verdicts import check, mistake, observe

# %% [markdown]
# **2. Predict, then run.** Where the text says *Predict*, answer in your head (or better, on paper) before you run the
# cell below it. A wrong prediction is worth more than a right one, because you have found something to learn. The
# explanation below the cell is folded until you have run the cell; you can also open it yourself.
#
# **Predict.** What does the first line of the next cell print, `2` or `2.5`? And what does the second line print?

# %%
print(torch.tensor(5) / 2)
print(torch.tensor(5) // 2)

# %% [markdown]
# The first line prints `tensor(2.5000)`, that is, 2.5, because `/` divides and gives a fraction even for integers. The
# second prints 2, because `//` rounds down.
#
# **3. Solve an exercise.** It begins with its title and a line that says what to expect (the kind, the difficulty, the
# time, the points). Then come the task and the *contract*, which says exactly what your answer must do. Below are the
# hints, folded; click on one when you need it. Last come the *answer cell*, where you write your code, and the *check
# cell*, which tests it.

# %% exercise="warm-up"

# %% [markdown]
# `✓` means solved. `✗` names the test that failed, what was asked, what your code returned, and often the reason. Go
# back to the answer cell, change your code, run it, then run the check again. You may do this as often as you like;
# only the last verdict counts. *Not solved yet* means that the check found no answer, so run the answer cell first.
#
# Also try a wrong answer: write `return x // 2`, run both cells and read the verdict. All chapters tell you in this way
# what is wrong.

# %% [markdown]
# ## When you are stuck
#
# - Open Hint 1, which asks you a question. The last hint tells you the idea of the whole answer.
# - If a notebook has become confused, choose *Kernel → Restart Kernel…*, run the first code cell, then go on where you
#   were. You never need to have solved an earlier exercise of the chapter.
# - If a cell doesn't finish, stop it with the square button at the top.
#
# More help comes from commands. Type them in a second terminal, in this folder, while JupyterLab keeps running in the
# first one. If you started JupyterLab with `make lab`, go to the folder of the course instead, and write `.venv/bin/`
# before each command:
#
# | command | what it does |
# |---|---|
# | `torchkata solution segment-mean` | shows the author's solution, once yours is right (`--peek`: before that) |
# | `torchkata reset segment-mean` | restores the answer cell as it was at first; your answer stays below, as text |
# | `torchkata check 03` | runs your saved answers and shows a verdict and points for each exercise |
# | `torchkata review` | asks ten questions about what you have read (`--exercise`: a solved exercise again) |
# | `torchkata update` | brings your notebooks, with your answers, to a newer release |
# | `torchkata doctor` | says what is wrong with the installation, and what to do |
#
# `segment-mean` is the name of an exercise. Each verdict begins with that name.

# %% [markdown]
# ## The chapters
#
# The chapters build on each other, and each says at the top what you need from earlier ones. If you want to play first,
# open the [gallery of explorers](gallery.ipynb), which has every interactive picture of the course on one page. The
# [review page](review.ipynb) asks you ten questions about what you have read, timed so that you don't forget it.
#
# The course leads to your own language model. At the end of chapter 12 you have `my_model.py`, put together from your
# answers; the model that it trained, as an ONNX file; and `my_model.html`, a page with its loss curve and its texts.

# %% [markdown] tags=["progress"]
# | chapter | points | to read | to practise |
# | --- | --- | --- | --- |
# | [01 Install and backends](01_backends/backends.ipynb) | 20 | 55 min | 104 min |
# | [02 Tensors, memory and views](02_tensors_views/tensors_views.ipynb) | 20 | 50 min | 135 min |
# | [03 Gather and scatter](03_gather_scatter/gather_scatter.ipynb) | 20 | 55 min | 106 min |
# | [04 Autograd and leaf tensors](04_autograd/autograd.ipynb) | 20 | 70 min | 175 min |
# | [05 Custom Functions](05_custom_functions/custom_functions.ipynb) | 20 | 75 min | 162 min |
# | [06 Hooks](06_hooks/hooks.ipynb) | 20 | 65 min | 142 min |
# | [07 Modules and state_dict](07_modules_state_dict/modules_state_dict.ipynb) | 20 | 65 min | 146 min |
# | [08 Automatic mixed precision](08_amp/amp.ipynb) | 20 | 65 min | 190 min |
# | [09 ONNX export](09_onnx_export/onnx_export.ipynb) | 20 | 50 min | 138 min |
# | [10 Several devices, several processes](10_multi_gpu/multi_gpu.ipynb) | 20 | 65 min | 230 min |
# | [11 The training loop](11_training_loop/training_loop.ipynb) | 20 | 75 min | 189 min |
# | [12 A small language model, by hand](12_language_model/language_model.ipynb) | 20 | 40 min | 240 min |
# | [13 Where memory and time go](13_memory_time/memory_time.ipynb) | 20 | 45 min | 265 min |
# | [14 torch.compile: captured, guarded, broken](14_compile/compile.ipynb) | 20 | 40 min | 165 min |
# | [15 Attention that fits](15_attention/attention.ipynb) | 20 | 50 min | 205 min |
#
# To see your progress here, open this page with `torchkata lab` or `make lab`.
