//! The RFCs' meters in rational numbers, one paragraph a line.

use limit::{Algorithm, Colour, Fill, Settings};

/// A fraction of tokens, with a common denominator of nothing in particular.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    num: i128,
    den: i128,
}

impl Ratio {
    fn new(num: i128, den: i128) -> Ratio {
        let (mut a, mut b) = (num.abs(), den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let gcd = a.max(1);
        Ratio { num: num / gcd, den: den / gcd }
    }

    fn plus(self, other: Ratio) -> Ratio {
        Ratio::new(self.num * other.den + other.num * self.den, self.den * other.den)
    }

    fn minus(self, other: Ratio) -> Ratio {
        self.plus(Ratio { num: -other.num, ..other })
    }

    fn is_at_least(self, other: Ratio) -> bool {
        self.minus(other).num >= 0
    }

    fn min(self, other: Ratio) -> Ratio {
        if self.is_at_least(other) { other } else { self }
    }
}

fn whole(n: u64) -> Ratio {
    Ratio::new(n.into(), 1)
}

/// `rate` for so many nanoseconds.
fn filled(fill: Fill, ns: u64) -> Ratio {
    Ratio::new(i128::from(fill.rate) * i128::from(ns), 1_000_000_000)
}

/// Both buckets of the RFCs.
pub struct Model {
    settings: Settings,
    first: Ratio,
    second: Ratio,
    at_ns: u64,
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        let second = settings.second().map_or(0, |fill| fill.burst);
        Model { settings, first: whole(settings.first().burst), second: whole(second), at_ns: 0 }
    }

    /// A packet of so many tokens.
    pub fn meter(&mut self, tokens: u64, came: Colour, now_ns: u64) -> Colour {
        use Colour::{Green, Red, Yellow};
        let passed = now_ns - self.at_ns;
        self.at_ns = now_ns;
        let came = if self.settings.is_aware { came } else { Green };
        let size = whole(tokens);
        match self.settings.algorithm {
            Algorithm::Single(fill) => {
                self.first = self.first.plus(filled(fill, passed)).min(whole(fill.burst));
                if came == Red || !self.first.is_at_least(size) {
                    return Red;
                }
                self.first = self.first.minus(size);
                Green
            }
            Algorithm::OneRate { committed, excess_burst } => {
                // RFC 2697 §3: Tc first; when it is full, Te.
                let level = self.first.plus(filled(committed, passed));
                self.first = level.min(whole(committed.burst));
                self.second = self.second.plus(level.minus(self.first)).min(whole(excess_burst));
                self.either(size, came)
            }
            Algorithm::Differentiated { committed, excess } => {
                self.first = self.first.plus(filled(committed, passed)).min(whole(committed.burst));
                self.second = self.second.plus(filled(excess, passed)).min(whole(excess.burst));
                self.either(size, came)
            }
            Algorithm::TwoRates { committed, peak } => {
                self.first = self.first.plus(filled(committed, passed)).min(whole(committed.burst));
                self.second = self.second.plus(filled(peak, passed)).min(whole(peak.burst));
                // RFC 2698 §3.
                if came == Red || !self.second.is_at_least(size) {
                    return Red;
                }
                self.second = self.second.minus(size);
                if came == Yellow || !self.first.is_at_least(size) {
                    return Yellow;
                }
                self.first = self.first.minus(size);
                Green
            }
        }
    }

    fn either(&mut self, size: Ratio, came: Colour) -> Colour {
        use Colour::{Green, Red, Yellow};
        if came == Green && self.first.is_at_least(size) {
            self.first = self.first.minus(size);
            return Green;
        }
        if came != Red && self.second.is_at_least(size) {
            self.second = self.second.minus(size);
            return Yellow;
        }
        Red
    }
}
