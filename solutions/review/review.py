# %% [markdown]
# # Review
#
# This page asks ten questions about what you have read, which takes about five minutes. A card has a statement (is it
# so, not so, or only partly so?), a few lines of code (what do they print?), two short functions (do they ever return
# different results?) or lines to put in order. After each answer you see what is true, which section teaches it, and
# the proof. A card that you knew comes back after a longer time, a card that you didn't know tomorrow.
#
# The cards come from the chapters in which you have run a check. If you have read other chapters, name them below the
# card.
#
# Run the cell below with **Shift + Enter**. Tab goes from button to button, and Space presses it; the first press of
# *I don't know* shows the answer. In a terminal, `torchkata review` asks the same cards, and
# `torchkata review --exercise` offers an exercise that you solved more than three weeks ago.
#
# [Back to the start page](start.ipynb)

# %% setup=true
from torchkata.tools.learning.review_page import review

review()
