//! What the receiver of a pair tells its sender.

/// All that there is to tell, as of now; a later one makes those before void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The inverse of the loss event rate of what comes, 0 for no loss.
    pub loss_event_rate: u32,
    /// Whether marks of congestion are part of it.
    pub is_congested: bool,
    /// The value to send back; 0 for none.
    pub echo: u32,
    /// When that came.
    pub came_us: u64,
    /// What the other end said last.
    pub heard: Option<Heard>,
}

/// What the other end says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The inverse of the loss event rate of what it gets, 0 for no loss.
    pub loss_event_rate: u32,
    /// How long a value took there and back, without the time that it stayed there.
    pub path_us: u32,
    /// The interval at which the other end sends.
    pub transmit_delay_us: u32,
    /// When it was heard; later than 0.
    pub at_us: u64,
}

impl Report {
    /// How many words it has.
    pub const WORDS: usize = 5;

    /// As words, for memory that two threads share.
    pub fn words(&self) -> [u64; Report::WORDS] {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let heard = self.heard.unwrap_or_default();
        [
            pair(self.loss_event_rate, self.echo),
            self.came_us << 1 | u64::from(self.is_congested),
            pair(heard.loss_event_rate, heard.path_us),
            heard.transmit_delay_us.into(),
            heard.at_us,
        ]
    }

    /// Of such words.
    pub fn of_words(words: [u64; Report::WORDS]) -> Report {
        let [losses, came, heard, delay, at_us] = words;
        let (high, low) = (|word: u64| (word >> 32) as u32, |word: u64| word as u32); // halves
        let heard = Heard {
            loss_event_rate: high(heard),
            path_us: low(heard),
            transmit_delay_us: low(delay),
            at_us,
        };
        Report {
            loss_event_rate: high(losses),
            is_congested: came & 1 != 0,
            echo: low(losses),
            came_us: came >> 1,
            heard: (at_us != 0).then_some(heard),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_read_back(words in any::<[u32; 5]>(), is_congested: bool, times in any::<[u32; 2]>()) {
            let [loss_event_rate, echo, theirs, path_us, transmit_delay_us] = words;
            let [came_us, at_us] = times.map(u64::from);
            let heard = Heard { loss_event_rate: theirs, path_us, transmit_delay_us, at_us };
            let heard = (at_us != 0).then_some(heard);
            let report = Report { loss_event_rate, is_congested, echo, came_us, heard };
            prop_assert_eq!(Report::of_words(report.words()), report);
        }
    }
}
