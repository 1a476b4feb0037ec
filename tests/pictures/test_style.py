"""Colours stand out from what is behind them."""

from torchkata.pictures import style


def contrast(one, two):
    """Return the contrast of two colours as WCAG defines it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def test_text_stands_out_from_what_is_behind_it():
    fills = (*style.FILLS, style.BLANK, style.UNUSED, style.CARD)
    pairs = [(style.INK, fill) for fill in fills] + [(style.SOFT_INK, style.CARD), (style.ERROR_INK, style.CARD)]
    assert min(contrast(*pair) for pair in pairs) >= 4.5
