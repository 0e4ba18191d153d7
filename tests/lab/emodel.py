"""Quality of speech by the E-model (ITU-T G.107), from delay and loss.

For G.711 with concealment of lost packets (G.113 Appendix I: Ie 0, Bpl 25.1, losses at random), and no echo: as planning tools do.
"""

#: G.107's R with all other parameters at their defaults.
BEST_R = 93.2

#: Robustness of the codec against loss, in percent.
BPL = 25.1


def rating(delay_ms, loss_percent):
    """R, from 0 to 93.2. `delay_ms` is from mouth to ear."""
    of_delay = 0.024 * delay_ms + (0.11 * (delay_ms - 177.3) if delay_ms > 177.3 else 0)
    of_loss = 95 * loss_percent / (loss_percent + BPL)
    return max(BEST_R - of_delay - of_loss, 0)


def mos(delay_ms, loss_percent):
    """Mean opinion score, from 1 (bad) to 4.41 (G.107 Annex B)."""
    r = rating(delay_ms, loss_percent)
    return 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6 if r > 0 else 1.0
