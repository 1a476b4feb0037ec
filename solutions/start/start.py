# %% [markdown]
# # Start here
#
# torchkata is a course on how PyTorch really works: why `x.t().view(-1)` is refused, which value a `scatter_` keeps,
# what a snapshot of the weights really holds. Each chapter is a notebook like this page: you read a little, predict
# what a few lines will do, run them and see; then you write code of your own, and the notebook tells you at once
# whether it is right. You need Python, and to have run a training script once. You need no GPU.
#
# This folder is yours. Write into it what you like: nothing in it is ever overwritten without a copy.

# %% [markdown]
# ## Your first exercise, in two minutes
#
# A notebook is a column of *cells*. Click on a cell, and **Shift + Enter** runs it and goes on to the next one. The
# first run in a notebook takes some seconds, because torch is loaded; while a cell runs it is marked `[*]`.
#
# **1. Run the first code cell of a notebook before all others.** It imports what the rest needs. JupyterLab folds it to
# one line, and a click on that line shows the others. Here it is:

# %% setup=true
import torch
from torch import Tensor

from torchkata.verdicts import check, mistake, observe

# %% [markdown]
# **2. Predict, then run.** Where the text says *Predict*, answer in your head (or better, on paper) before you run the
# cell below it. A wrong prediction is worth more than a right one: you have found something to learn. The explanation
# below the cell is folded until you have run it; you can also open it yourself.
#
# **Predict.** What does the next cell print: `2` or `2.5`? And for the second line?

# %%
print(torch.tensor(5) / 2)
print(torch.tensor(5) // 2)

# %% [markdown]
# `/` divides, and gives a fraction also for whole numbers; `//` divides and rounds down.
#
# **3. Solve an exercise.** It begins with its title, a line that says what awaits you (the kind, the difficulty, the
# time, the points), the task, and the *contract*: what an answer must keep, exactly. Below are two hints, folded; click
# on one when you need it. Then come the *answer cell*, where you write, and the *check cell*, which judges.

# %% exercise="warm-up"

# %% [markdown]
# `✓` means solved. `✗` names the test that failed, what was asked, what came, and often the reason: go back to the
# answer cell, change your line, run it, then run the check again. You may do so as often as you like; only the last
# verdict counts. *Not solved yet* means that the check still sees the stub: run the answer cell first.
#
# Try a wrong answer as well: write `return x // 2`, run both cells and read the verdict. That is how you will be told
# what is wrong in all chapters.

# %% [markdown]
# ## When you are stuck
#
# - Open Hint 1: it is a question. Hint 2 is nearly the answer.
# - In a notebook that has become confused, choose *Kernel → Restart Kernel…*, run the first code cell, then go on
#   where you were: nothing in a chapter needs an earlier exercise to be solved.
# - A cell that does not end is stopped by the square button at the top.
#
# The other helps are commands. Type them in a second terminal, in this folder, while JupyterLab goes on running in the
# first one. If that was started with `make lab`, go to the folder of the course instead, and write `.venv/bin/` before
# each of them:
#
# | command | what it does |
# |---|---|
# | `torchkata solution segment-mean` | the author's solution, once yours is right (`--peek`: before) |
# | `torchkata reset segment-mean` | the stub again; your answer stays below, as a text |
# | `torchkata check 03` | runs your saved answers: a verdict and points for each exercise |
# | `torchkata review` | ten questions on what you have read (`--exercise`: a solved exercise once more) |
# | `torchkata update` | brings your notebooks up to a newer release, with your answers |
# | `torchkata doctor` | what is wrong with the installation, and what to do |
#
# `segment-mean` is the name of an exercise; each verdict begins with it.

# %% [markdown]
# ## The chapters
#
# They build on each other, and each says at its top what you need from the ones before. To play first, open the
# [gallery of explorers](gallery.ipynb): every picture of the course that you can change, on one page. What you have
# read comes back as ten questions, just before you would forget it, on the [review page](review.ipynb).
#
# They lead to a language model of your own. At the end of chapter 12 you have `my_model.py`, put together from your
# answers; the model that it trained, as an ONNX file; and `my_model.html`, a page with its curve and its texts.

# %% [markdown] tags=["progress"]
# | chapter | points | to read | to practise |
# | --- | --- | --- | --- |
# | [01 Install and backends](01_backends/backends.ipynb) | 20 | 40 min | 104 min |
# | [02 Tensors, memory and views](02_tensors_views/tensors_views.ipynb) | 20 | 40 min | 135 min |
# | [03 Gather and scatter](03_gather_scatter/gather_scatter.ipynb) | 20 | 45 min | 106 min |
# | [04 Autograd and leaf tensors](04_autograd/autograd.ipynb) | 20 | 50 min | 175 min |
# | [05 Custom Functions](05_custom_functions/custom_functions.ipynb) | 20 | 50 min | 160 min |
# | [06 Hooks](06_hooks/hooks.ipynb) | 20 | 50 min | 130 min |
# | [07 Modules and state_dict](07_modules_state_dict/modules_state_dict.ipynb) | 20 | 50 min | 142 min |
# | [08 Automatic mixed precision](08_amp/amp.ipynb) | 20 | 50 min | 184 min |
# | [09 ONNX export](09_onnx_export/onnx_export.ipynb) | 20 | 35 min | 138 min |
# | [10 Several devices, several processes](10_multi_gpu/multi_gpu.ipynb) | 20 | 50 min | 230 min |
# | [11 The training loop](11_training_loop/training_loop.ipynb) | 20 | 55 min | 189 min |
# | [12 A small language model, by hand](12_language_model/language_model.ipynb) | 20 | 30 min | 245 min |
# | [13 Where memory and time go](13_memory_time/memory_time.ipynb) | 20 | 35 min | 265 min |
# | [14 torch.compile: captured, guarded, broken](14_compile/compile.ipynb) | 20 | 30 min | 209 min |
#
# Progress shows when you open this page with `torchkata lab` or `make lab`.
