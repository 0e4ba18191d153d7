//! `culvert top`: rates, live.
//!
//! | file | what it has |
//! | --- | --- |
//! | `sample` | two looks at the daemon, and the rates between them |
//! | `sdwan` | paths, and the applications on them |
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
mod sdwan;
mod sheet;
mod state;
mod watch;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use report::client::{Client, ClientError};
use report::units::{span, time_text};

use super::collect::{Limits, collect};
use crate::cli::TopArgs;
use draw::{History, draw};
use sample::{Look, Pair};
use state::State;
use watch::Watch;

/// Looks of which the graph tells.
const HISTORY: usize = 512;

/// Without an answer for so long, beyond the interval, what is shown is old.
const LATE: Duration = Duration::from_secs(2);

/// How often it is drawn at least: an answer, and how old one is, is seen as soon.
const DRAWN: Duration = Duration::from_millis(200);

/// Shows rates until the user ends it, or prints those of one interval.
pub fn top(name: &str, json: bool, args: &TopArgs) -> Result<String, Box<dyn Error>> {
    let limits = Limits { sas: args.max, policies: args.max };
    let daemon = Client::control(name);
    let look = move || collect(&daemon, limits).map(|seen| Look { at: Instant::now(), seen });
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
    let looks = follow(look, interval)?;
    let mut terminal = ratatui::try_init()?;
    let ended = live(&mut terminal, name, first, &looks, interval);
    ratatui::restore();
    ended.map(|()| String::new())
}

/// Looks at the daemon from a thread of its own, so that keys are obeyed while it does not answer.
fn follow(
    look: impl Fn() -> Result<Look, ClientError> + Send + 'static,
    interval: Duration,
) -> io::Result<Receiver<Result<Look, ClientError>>> {
    let (put, looks) = mpsc::channel();
    thread::Builder::new().name("culvert-looks".into()).spawn(move || {
        // The view ends when nobody takes one any more.
        while put.send(look()).is_ok() {
            thread::sleep(interval);
        }
    })?;
    Ok(looks)
}

fn live(
    terminal: &mut DefaultTerminal,
    name: &str,
    first: Look,
    looks: &Receiver<Result<Look, ClientError>>,
    interval: Duration,
) -> Result<(), Box<dyn Error>> {
    let (mut before, mut now) = (first.clone(), first);
    let mut state = State::default();
    let mut history = History::new();
    let mut watch = Watch::new();
    // When the daemon was last heard of, and why not since.
    let mut heard = Instant::now();
    let mut trouble = None;
    loop {
        for look in looks.try_iter() {
            let look = match look {
                Ok(look) => look,
                Err(error) => {
                    trouble = Some(error.to_string());
                    continue;
                }
            };
            (heard, trouble) = (look.at, None);
            if state.is_held {
                continue;
            }
            before = std::mem::replace(&mut now, look);
            let (rx, _) = Pair::new(&before, &now).throughput();
            history.push_back(rx as u64);
            history.drain(..history.len().saturating_sub(HISTORY));
        }
        let old = old(heard, trouble.as_deref(), interval);
        let pair = Pair::new(&before, &now).old_if(old.is_some());
        let wanted = state.flows(&pair).filter(|_| old.is_none());
        if !state.is_held {
            watch.look(name, wanted, interval);
        }
        let pair = pair.with_flows(&watch.seen);
        terminal.draw(|frame| draw(frame, &pair, &state, &history, old.as_deref()))?;
        if event::poll(interval.min(DRAWN))?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let (columns, lines) =
                state.shown(&pair).map_or((0, 0), |sheet| (sheet.head.len(), sheet.rows.len()));
            state.press(key, columns, lines);
        }
        if state.is_over {
            return Ok(());
        }
    }
}

/// Says of when what is shown is, once the daemon says nothing any more.
fn old(heard: Instant, trouble: Option<&str>, interval: Duration) -> Option<String> {
    let silent = heard.elapsed();
    if trouble.is_none() && silent < interval + LATE {
        return None;
    }
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = time_text(at.saturating_sub(silent).as_millis() as u64);
    let time = at.split('.').next().unwrap_or_default();
    let why = trouble.and_then(|trouble| trouble.lines().next()).map(|why| format!(": {why}"));
    Some(format!(
        "as of {time} UTC, no answer for {}{}",
        span(silent.as_secs()),
        why.unwrap_or_default()
    ))
}
