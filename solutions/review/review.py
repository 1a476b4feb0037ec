# %% [markdown]
# # Review
#
# Ten questions about what you have read, in about five minutes: is it so, not so, or only partly so? Or: what does this
# print? You are told at once what holds, where it stands, and by which proof. A card that you knew comes back later
# each time; one that you did not comes back tomorrow.
#
# Asked are the chapters in which you have run a check. Others that you have read you can name below the card.
#
# Run the cell below with **Shift + Enter**. Tab goes from button to button, and Space presses it; the first press of
# *I don't know* shows the answer. In a terminal, `torchkata review` asks the same cards, and
# `torchkata review --exercise` offers an exercise that you solved more than three weeks ago.
#
# [Back to the start page](start.ipynb)

# %% setup=true
from torchkata.tools.learning.review_page import review

review()
