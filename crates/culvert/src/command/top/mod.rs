//! `culvert top`: rates, live.
//!
//! | file | what it has |
//! | --- | --- |
//! | `sample` | two looks at the daemon, and the rates between them |
//! | `limits` | how much of its limits an SA has used |
//! | `sheet` | rows of cells, sorted and filtered |
//! | `state` | what is looked at, and what keys do to it |
//! | `watch` | flows, looked at while they are shown |
//! | `draw` | the picture on a terminal |
//! | `once` | the same as text or JSON |

mod draw;
mod limits;
mod once;
mod sample;
mod sheet;
mod state;
mod watch;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::collect::{Limits, collect};
use crate::cli::TopArgs;
use crate::client::{Client, ClientError};
use draw::{History, draw};
use sample::{Look, Pair};
use state::State;
use watch::Watch;

/// Looks of which the graph tells.
const HISTORY: usize = 512;

/// Shows rates until the user ends it, or prints those of one interval.
pub fn top(name: &str, json: bool, args: &TopArgs) -> Result<String, Box<dyn Error>> {
    let limits = Limits { sas: args.max, policies: args.max };
    let daemon = Client::control(name);
    let look = || collect(&daemon, limits).map(|seen| Look { at: Instant::now(), seen });
    let interval = Duration::from_secs_f64(args.interval);
    if args.once || json {
        let before = look()?;
        std::thread::sleep(interval);
        let now = look()?;
        let pair = Pair::new(&before, &now);
        return Ok(if json { once::json(&pair) } else { once::text(&pair) });
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(
            "this is no terminal; `culvert top --once` prints the rates of one interval".into()
        );
    }
    // A daemon that does not answer is told of as by other commands.
    let first = look()?;
    let mut terminal = ratatui::try_init()?;
    let ended = live(&mut terminal, name, first, look, interval);
    ratatui::restore();
    ended.map(|()| String::new())
}

fn live(
    terminal: &mut DefaultTerminal,
    name: &str,
    first: Look,
    look: impl Fn() -> Result<Look, ClientError>,
    interval: Duration,
) -> Result<(), Box<dyn Error>> {
    let (mut before, mut now) = (first.clone(), first);
    let mut state = State::default();
    let mut history = History::new();
    let mut watch = Watch::new();
    loop {
        let pair = Pair::new(&before, &now);
        let wanted = state.flows(&pair);
        if !state.is_held {
            watch.look(name, wanted, interval);
        }
        let pair = pair.with_flows(&watch.seen);
        terminal.draw(|frame| draw(frame, &pair, &state, &history))?;
        let left = interval.saturating_sub(now.at.elapsed());
        let wait = if state.is_held { interval } else { left };
        if event::poll(wait)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let (columns, lines) =
                    state.shown(&pair).map_or((0, 0), |sheet| (sheet.head.len(), sheet.rows.len()));
                state.press(key, columns, lines);
            }
        } else if !state.is_held {
            before = std::mem::replace(&mut now, look()?);
            let (rx, _) = Pair::new(&before, &now).throughput();
            history.push_back(rx as u64);
            history.drain(..history.len().saturating_sub(HISTORY));
        }
        if state.is_over {
            return Ok(());
        }
    }
}
