# %% [markdown]
# ### Exercise 12.13 · The writer that always says the same
#
# fix · solid · 15 min · 1 point
#
# This function generates text with a model. It runs, but its text is dull: whatever the prompt, the same few bytes come
# again and again. There is more than one reason. Fix it. This exercise builds on the nucleus of chapter 3.
#
# **Contract**
#
# - `logits` takes int64 ids (1, T), T at most `length`, and returns (1, T, V) float32, as a model does. `prompt` is
#   (T0,) int64, T0 at least 1. Return its ids followed by `n` more, (T0 + n,); `n` may be 0.
# - The softmax of the last position's logits, divided by `temperature`, is each id's probability. Nothing else, such as
#   top-k or a penalty, changes it. Each new id is drawn from the *nucleus*: the fewest most likely ids whose
#   probabilities add up to `top_p` or more. Their relative probabilities stay the same.
# - `top_p` is in (0, 1]. With a very small `top_p` only the likeliest id is left. With 1 no id is left out, except
#   perhaps one so unlikely that it doesn't change a float32 sum.
# - Temperature 0 chooses the likeliest id. Every other temperature draws; it is at least 1e-20.
# - The model is called once for each new id, with the last `length` ids of the text so far, or all of them if there are
#   fewer. One more call at the end does no harm.
# - All randomness comes from `generator`, which is not seeded again: equal generator states give equal texts, and the
#   generator advances from call to call. torch's global generator is left alone.
# - `prompt` is not changed, and the model runs without recording a graph. When `write_on` returns, the grad mode is the
#   same as before.
#
# <details><summary>Hint 1</summary>
#
# Which id crosses `top_p`: the first that is left out, or the last that is kept? After `sort`, is a drawn number an id
# or a rank? And which numbers does a generator give if it is seeded before each draw?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Four lines have a mistake, and one of them has two. Temperature 0 and `no_grad` are missing altogether. An id is left
# out if the ids *before* it reach `top_p`, so take the cumulative sum without the id's own probability.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Work without a graph, and give the model the end of the text so far, not its beginning. Temperature 0 is a case of its
# own, because you can't divide by it. Otherwise divide, sort, set everything outside the nucleus to 0, and draw. The
# drawn number is a place in the sorted order, so look up its id.
#
# </details>


# %% answer="write-on"
def write_on(
    logits: Callable[[Tensor], Tensor],
    prompt: Tensor,
    n: int,
    length: int,
    top_p: float,
    temperature: float,
    generator: torch.Generator,
) -> Tensor:
    """Append n ids to prompt (T0,), drawn from the nucleus of the last logits: (T0 + n,) int64.

    logits: (1, T) int64 -> (1, T, V), T at most length.
    """
    ### BEGIN SOLUTION
    out = prompt
    for _ in range(n):
        with torch.no_grad():
            scores = logits(out[None, -length:])[0, -1]
        if temperature == 0:
            new = scores.argmax(keepdim=True)
        else:
            p, order = (scores / temperature).softmax(-1).sort(descending=True)
            p[p.cumsum(-1) - p >= top_p] = 0
            new = order[torch.multinomial(p, 1, generator=generator)]
        out = torch.cat([out, new])
    return out
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # out = prompt
    # for _ in range(n):
    #     generator.manual_seed(0)
    #     p = (logits(out[None, :length])[0, -1] * temperature).softmax(-1)
    #     p, order = p.sort(descending=True)
    #     p[p.cumsum(-1) > top_p] = 0
    #     out = torch.cat([out, torch.multinomial(p, 1, generator=generator)])
    # return out
    ### END GIVEN


# %% check="write-on" points=1
"""The right ids in the right proportions, from the given generator; temperature, window, no graph."""
with check("write-on") as test:
    chances = torch.tensor([0.08, 0.45, 0.05, 0.2, 0.12, 0.1])  # of the ids 0 to 5

    def drawn(write, seed, n, top_p, temperature, ahead=0):
        """Let a model write that gives the ids 0 to 5 the probabilities .08 .45 .05 .2 .12 .1, whatever it is shown."""
        dice, start = torch.Generator().manual_seed(seed), torch.get_rng_state()
        prompt, odds = torch.tensor([5, 0]), torch.tensor([0.08, 0.45, 0.05, 0.2, 0.12, 0.1])

        def model(ids):
            return (odds.log() + ahead).repeat(1, ids.shape[1], 1)

        def call(n):
            with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                return write(model, prompt, n, 8, top_p, temperature, dice)  # without the modes that record operations

        fresh = dice.get_state()
        facts = {"text": call(n)}
        facts["unused"] = torch.equal(dice.get_state(), fresh)
        facts["global"] = not torch.equal(torch.get_rng_state(), start)
        facts["went on"] = call(20)
        dice.set_state(fresh)
        facts["again"] = call(20)
        after = dice.get_state()
        dice.set_state(fresh)
        facts["once more"] = call(20)
        call(7)
        facts["each time"] = torch.equal(dice.get_state(), after) and not facts["unused"]
        facts["seeded"] = dice.initial_seed() != seed
        facts["prompt"] = torch.equal(prompt, torch.tensor([5, 0]))
        return facts

    def judge(seen, shares, *known, n=240, shifted=()):
        """Judge the n ids that were drawn; `shares` are the probabilities of those in the nucleus."""
        text = seen["text"]
        whole = isinstance(text, Tensor) and text.dtype == torch.int64 and text.shape == (2 + n,)
        seen.that(whole, "The text must be int64, (T0 + n,): the prompt followed by n ids.", stage="shape")
        seen.that(text[:2].tolist() == [5, 0] and seen["prompt"], "The text must begin with the prompt, unchanged.")
        ids = text[2:].tolist()
        share = {one: ids.count(one) / n for one in set(ids)}
        seen.that(
            not seen["each time"],
            "You seed the generator for every id, so it gives the same number each time.",
        )
        seen.that(
            not seen["seeded"], "You seed the generator, so the random numbers are no longer those of the caller."
        )
        seen.that(not seen["global"], "You drew from torch's global generator. Draw from the given generator.")
        ranks = set(range(len(share))) if len(share) < len(chances) else None
        seen.that(
            share.keys() == shares.keys(),
            "You drew ids outside the nucleus, or not all ids of the nucleus.",
            mistake(
                "You append a rank in the sorted list, not an id. Look up the id in the order of the sort.",
                when=lambda seen: share.keys() == ranks,
            ),
            mistake(
                "Nothing was drawn, because you take the same id each time.",
                when=lambda seen: seen["unused"] and seen.args[-1] != 0,
            ),
            *known,
            mistake(
                "The id that crosses top_p belongs to the nucleus (otherwise nothing is left if the first id is "
                "very likely).",
                when=lambda seen: share.keys() == set(sorted(shares, key=shares.get)[1:]),
            ),
            mistake(
                "You drew ids that are not needed to reach top_p. Either your nucleus is too wide, or its "
                "probabilities are not the softmax of the logits divided by the temperature.",
                when=lambda seen: share.keys() > shares.keys(),
            ),
        )
        total = sum(shares.values())
        seen.that(
            all(abs(share[one] - shares[one] / total) < 0.15 for one in shares),
            "The ids of the nucleus are not drawn in proportion to their probabilities. Likelier ids must come "
            "more often.",
            mistake("Nothing was drawn from the generator.", when=lambda seen: seen["unused"]),
            *shifted,
        )

    nothing_left = mistake(
        "The id that crosses top_p belongs to the nucleus (otherwise nothing is left if the first id is very likely).",
        raises="invalid multinomial|sum of probabilities|must contain|prob",
    )

    test("top_p 0.7: the three ids 1, 3 and 4, in their proportions")
    seen = observe_scenario(drawn, write_on, 7, 240, 0.7, 1.0).expecting(nothing_left)
    judge(seen, {1: 0.45, 3: 0.2, 4: 0.12})

    test("equal states of the generator give equal texts, and it goes on from call to call")
    seen.that(torch.equal(seen["once more"], seen["again"]), "The same state of the generator gave another text.")
    seen.that(not torch.equal(seen["went on"], seen["again"]), "The second text with one generator is the first again.")

    ### BEGIN HIDDEN TESTS
    test.hidden("a tiny top_p, and 1")
    judge(observe_scenario(drawn, write_on, 1, 60, 1e-6, 1.0).expecting(nothing_left), {1: 0.45}, n=60)
    judge(observe_scenario(drawn, write_on, 1, 240, 1.0, 1.0), dict(enumerate(chances.tolist())))

    test.hidden("logits around 60: the same probabilities")
    not_softmax = mistake(
        "You don't draw with the softmax of these logits. All of them are larger by 60 here, which doesn't change "
        "their softmax. Leave them as they are, without a limit, and divide by the temperature only.",
        when=lambda seen: True,
    )
    seen = observe_scenario(drawn, write_on, 5, 240, 1.0, 1.0, 60)
    judge(seen, dict(enumerate(chances.tolist())), shifted=[not_softmax])

    too_hot = mistake(
        "Divide the logits by the temperature.", when=lambda seen: len(set(seen["text"][2:].tolist())) in (1, 6)
    )
    not_at_this = mistake(
        "The nucleus must be that of the distribution at this temperature. Divide the logits first.",
        when=lambda seen: set(seen["text"][2:].tolist()) in ({0, 1, 3, 4, 5}, {1, 3}),
    )
    greedy = "temperature 0 must take the most likely id."
    divides = mistake(greedy, raises="prob|nan|ZeroDivision", when=lambda seen: not seen.args[-1])
    test.hidden("temperatures 0, 0.5 and 3")
    seen = observe_scenario(drawn, write_on, 9, 60, 0.7, 0).expecting(divides)
    judge(seen, {1: 0.45}, mistake(greedy, when=lambda seen: True), n=60)
    seen = observe_scenario(drawn, write_on, 2, 240, 0.91, 0.5)
    judge(seen, {1: 0.734, 3: 0.145, 4: 0.052}, too_hot, not_at_this)
    seen = observe_scenario(drawn, write_on, 3, 240, 0.5, 3.0)
    judge(seen, {1: 0.247, 3: 0.188, 4: 0.159}, too_hot, not_at_this)

    def followed(write, prompt, n, length, temperature):
        """Let a model write whose next id is 3 times the last one, plus 1 (of 7); what it was shown."""
        shown, dice, weight = [], torch.Generator().manual_seed(4), torch.tensor(20.0, requires_grad=True)
        tracked, kinds = [], []

        def model(ids):
            shown.append(ids.tolist())
            kinds.append(ids.dtype)
            given = F.one_hot((ids.long() * 3 + 1) % 7, 7) * weight
            tracked.append(given.requires_grad)
            return given

        text = write(model, prompt, n, length, 0.5, temperature, dice)
        facts = {"text": text, "shown": list(shown), "tracked": any(tracked), "recording": torch.is_grad_enabled()}
        with torch.no_grad():
            write(model, prompt, 1, length, 0.5, temperature, dice)
            facts["switched on"] = torch.is_grad_enabled()
        return facts | {"int64": all(kind == torch.int64 for kind in kinds)}

    for idea, prompt, n, length, temperature in [
        ("temperature 0", [2, 5, 1], 6, 16, 0),
        ("a window of four ids", [2, 5, 1], 6, 4, 1.0),
        ("a prompt that is longer than the window", [6, 3, 2, 0, 4], 3, 2, 0.0),
        ("one id at a time", [5], 4, 1, 0.7),
        ("nothing to write", [3, 1], 0, 4, 1.0),
    ]:
        test.hidden(idea)
        seen = observe_scenario(followed, write_on, torch.tensor(prompt), n, length, temperature).expecting(divides)
        expected = list(prompt)
        for _ in range(n):
            expected.append((expected[-1] * 3 + 1) % 7)
        text = seen["text"]
        seen.that(
            isinstance(text, Tensor) and text.shape == (len(expected),) and text.dtype == torch.int64,
            "The text must be int64, (T0 + n,): the prompt followed by n ids.",
            stage="shape",
        )
        seen.that(
            seen["int64"],
            "The model must be called with int64 ids. one_hot, for example, accepts no other dtype.",
            stage="dtype",
        )
        ends, calls = range(len(prompt), len(prompt) + n + 1), len(seen["shown"])
        last = [[text[max(0, end - length) : end].tolist()] for end in ends]
        seen.that(
            seen["shown"] == last[:calls] and calls >= n,
            "The model must see the LAST `length` ids.",
            mistake(
                "Call the model once for each new id.",
                when=lambda seen, n=n, calls=calls: calls not in (n, n + 1),
            ),
        )
        seen.that(text.tolist() == expected, "The text doesn't follow from the logits of the last position.")
        seen.that(not seen["tracked"], "Your code built a graph. Run the model under no_grad.", stage="gradient")
        seen.that(seen["recording"], "After the call, gradients are no longer recorded.", stage="gradient")
        switched_on = "Your code switches gradients on, though the caller had them off. Restore the grad mode."
        seen.that(not seen["switched on"], switched_on, stage="gradient")
        seen.leaves_arguments_alone()

    def among_equals(write, n, temperature, choice=4, top_p=0.5, ahead=0.0):
        """Write n ids where all are about equally likely, or all but id 0, whose logit is ahead."""
        dice, scores = torch.Generator().manual_seed(6), torch.arange(choice) * 1e-5 * (choice > 4)
        scores[0] += ahead
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            model, prompt = (lambda ids: scores.repeat(1, ids.shape[1], 1)), torch.tensor([2])
            text = write(model, prompt, n, 4, top_p, temperature, dice)
        return {"kinds": len(set(text[1:].tolist()))}

    def one_ahead(write, n, temperature):
        """Write n ids where the logit of id 1 is ahead of that of id 0 by twice the temperature; id 2 is far behind."""
        dice, scores = torch.Generator().manual_seed(8), torch.tensor([0.0, 2 * temperature, -5.0])
        text = write(lambda ids: scores.repeat(1, ids.shape[1], 1), torch.tensor([2]), n, 4, 0.95, temperature, dice)
        return {"share": text[1:].eq(1).sum().item() / n}

    test.hidden("a temperature of 0.01, where two ids are equally likely")
    seen = observe_scenario(among_equals, write_on, 24, 0.01)
    drawn_too = "At temperature 0.01 all equally likely ids must be drawn. Only temperature 0 chooses the likeliest id."
    seen.that(seen["kinds"] > 1, drawn_too)

    test.hidden("a temperature of 1e-20, where one id is ahead by two of it")
    seen = observe_scenario(one_ahead, write_on, 240, 1e-20)
    seen.that(
        abs(seen["share"] - 0.88) < 0.1,
        "At temperature 1e-20 a logit that is ahead by 2e-20 makes its id 7.4 times as likely, so it is drawn in 88 % "
        f"of the steps. You drew it in {seen['share']:.0%}.",
        mistake(
            "You drew the same id in each step, as at temperature 0. But at temperature 1e-20 two ids whose logits "
            "differ by 2e-20 must both be drawn.",
            when=lambda seen: seen["share"] in (0, 1),
        ),
        mistake(
            "You divide by more than the temperature. At 1e-20 a logit that is ahead by 2e-20 must make its id 7.4 "
            "times as likely, but you draw both ids about equally often. Set no lower limit, and add nothing.",
            when=lambda seen: abs(seen["share"] - 0.5) < 0.15,
        ),
    )

    test.hidden("1000 about equally likely ids, top_p 1: none is left out")
    seen = observe_scenario(among_equals, write_on, 400, 1.0, 1000, 1.0)
    seen.that(
        seen["kinds"] > 250,
        f"In 400 draws from 1000 about equally likely ids only {seen['kinds']} different ones came. With top_p 1 no id "
        "is left out, so set no other limit.",
    )

    test.hidden("one id of probability 0.5 and fifty of 0.01, top_p 1: none is left out")
    seen = observe_scenario(among_equals, write_on, 100, 1.0, 51, 1.0, math.log(50))
    seen.that(
        seen["kinds"] > 12,
        f"In 100 draws from an id of probability 0.5 and fifty of 0.01 only {seen['kinds']} of the 51 ids came. Those "
        "of 0.01 also belong to the nucleus, because top_p alone decides. Set no other limit.",
    )

    test.hidden("four equally likely ids, top_p 0.5: two of them reach it")
    seen = observe_scenario(among_equals, write_on, 24, 1.0)
    seen.that(
        seen["kinds"] == 2,
        "Two of four equally likely ids add up to 0.5, so two can be drawn.",
        mistake(
            "You also keep all ids that are as likely as the last one of the nucleus. Cut at a place in the sorted "
            "order, not at a probability.",
            when=lambda seen: seen["kinds"] == 4,
        ),
        mistake(
            "An id is also left out if the ids before it add up to exactly top_p. Compare with >=.",
            when=lambda seen: seen["kinds"] > 2,
        ),
    )
    ### END HIDDEN TESTS
