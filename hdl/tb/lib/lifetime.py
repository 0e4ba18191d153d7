"""What the SAD keeps of an SA's lifetime, in Python: volumes, limits, and the events that tell."""

from records import EVENT_HARD, EVENT_NUMBERS, EVENT_SOFT, Drop


class Lifetime:
    """Volumes of one SA; `events` is where (kind, index) of each event goes."""

    def __init__(self, index, events, limits=None):
        self.index, self.events = index, events
        self.limits = limits or {}
        self.bytes = self.packets = self.soft_told = self.hard_told = 0

    def _reached(self, which):
        return any(0 < self.limits.get(f"{which}_{name}", 0) <= getattr(self, name)
                   for name in ("bytes", "packets"))

    def _tell(self, kind):
        """Each once; what says that packets are dropped stands for the soft limit too."""
        if self.hard_told if kind != EVENT_SOFT else self.soft_told:
            return
        self.events.append((kind, self.index))
        self.soft_told, self.hard_told = 1, int(self.hard_told or kind != EVENT_SOFT)

    def refusal(self):
        """Why the SA carries nothing more."""
        return Drop.HARD_LIMIT if self._reached("hard") else Drop.NONE

    def ran_out(self):
        """A packet found no number."""
        self._tell(EVENT_NUMBERS)

    def carry(self, packets=0, bytes_=0):
        self.packets += packets
        self.bytes += bytes_
        if self._reached("hard"):
            self._tell(EVENT_HARD)
        elif self._reached("soft"):
            self._tell(EVENT_SOFT)

    def state(self):
        return {name: getattr(self, name) for name in ("bytes", "packets", "soft_told", "hard_told")}
