//! State of the view, and what keys do to it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use report::PacketFilter;

use super::sample::{FLOW_BITS, Pair, SA_ENDS};
use super::sdwan::{APP_BITS, apps, paths};
use super::sheet::Sheet;
use crate::cli::number;

/// A page of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Ports, workers and drops.
    Overview,
    /// Page of SAs.
    Sas,
    /// Page of policies.
    Policies,
    /// Page of drops.
    Drops,
    /// Page of flows.
    Flows,
    /// Page of measured paths.
    Paths,
    /// Page of applications.
    Apps,
}

impl Page {
    /// All, in the order of their keys.
    pub const ALL: [Page; 7] = [
        Page::Overview,
        Page::Sas,
        Page::Policies,
        Page::Drops,
        Page::Flows,
        Page::Paths,
        Page::Apps,
    ];

    /// Title of the page.
    pub const fn title(self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Sas => "SAs",
            Page::Policies => "policies",
            Page::Drops => "drops",
            Page::Flows => "flows",
            Page::Paths => "paths",
            Page::Apps => "apps",
        }
    }

    /// Table of the page. `None` for the overview, which has several.
    pub fn sheet(self, pair: &Pair<'_>) -> Option<Sheet> {
        match self {
            Page::Overview => None,
            Page::Sas => Some(pair.sas()),
            Page::Policies => Some(pair.policies()),
            Page::Drops => Some(pair.drops()),
            Page::Flows => Some(pair.flows()),
            Page::Paths => Some(paths(pair)),
            Page::Apps => Some(apps(pair)),
        }
    }
}

/// State of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Page that is shown.
    pub page: Page,
    /// The column that it is sorted by.
    pub column: usize,
    /// The other way round.
    pub reversed: bool,
    /// The line that is chosen.
    pub line: usize,
    /// All of the chosen line is shown.
    pub is_open: bool,
    /// Only lines with this text are shown.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// Keys and columns are explained.
    pub is_help: bool,
    /// The picture is held.
    pub is_held: bool,
    /// True once the program is to end.
    pub is_over: bool,
}

impl Default for State {
    fn default() -> State {
        State::of(Page::Overview)
    }
}

impl State {
    fn of(page: Page) -> State {
        // What ends or is busy first.
        let column = match page {
            Page::Overview | Page::Paths => 0,
            Page::Sas => SA_ENDS,
            Page::Policies => 6,
            Page::Drops => 1,
            Page::Flows => FLOW_BITS,
            Page::Apps => APP_BITS,
        };
        State {
            page,
            column,
            reversed: false,
            line: 0,
            is_open: false,
            filter: String::new(),
            is_typing: false,
            is_help: false,
            is_held: false,
            is_over: false,
        }
    }

    /// Obeys a key; `columns` and `lines` are those of the page as it is shown.
    pub fn press(&mut self, key: KeyEvent, columns: usize, lines: usize) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.is_over = true;
            return;
        }
        if self.is_typing {
            return self.type_filter(key.code);
        }
        match key.code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?') => self.is_help = !self.is_help,
            KeyCode::Esc | KeyCode::Enter if self.is_help => self.is_help = false,
            KeyCode::Char(digit @ '1'..='7') => {
                let page = Page::ALL.get(digit as usize - '1' as usize);
                self.turn_to(page.copied().unwrap_or(Page::Overview));
            }
            KeyCode::Tab => {
                let at = Page::ALL.iter().position(|page| *page == self.page).unwrap_or(0);
                self.turn_to(Page::ALL[(at + 1) % Page::ALL.len()]);
            }
            KeyCode::Down => self.line = (self.line + 1).min(lines.saturating_sub(1)),
            KeyCode::Up => self.line = self.line.saturating_sub(1),
            KeyCode::PageDown => self.line = (self.line + 10).min(lines.saturating_sub(1)),
            KeyCode::PageUp => self.line = self.line.saturating_sub(10),
            KeyCode::Enter => self.is_open = lines > 0,
            KeyCode::Esc if self.is_open => self.is_open = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') if columns > 0 => self.column = (self.column + 1) % columns,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p') => self.is_held = !self.is_held,
            _ => {}
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.line = 0;
    }

    fn turn_to(&mut self, page: Page) {
        self.is_help = false;
        if page != self.page {
            let is_held = self.is_held;
            *self = State { is_held, ..State::of(page) };
        }
    }

    /// Which flows are looked at: all of them on their page, an SA's where it is open.
    pub fn flows(&self, pair: &Pair<'_>) -> Option<PacketFilter> {
        match self.page {
            Page::Flows => Some(PacketFilter::default()),
            Page::Sas if self.is_open => {
                let sheet = self.shown(pair)?;
                let row = sheet.rows.get(self.line.min(sheet.rows.len().saturating_sub(1)))?;
                let spi = number::spi(&row.first()?.text).ok()?;
                Some(PacketFilter { spi: Some(spi), ..PacketFilter::default() })
            }
            _ => None,
        }
    }

    /// The page's table as it is shown.
    pub fn shown(&self, pair: &Pair<'_>) -> Option<Sheet> {
        let mut sheet = self.page.sheet(pair)?;
        sheet.filter(&self.filter);
        sheet.sort(self.column, self.reversed);
        Some(sheet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(keys: &str) -> State {
        let mut state = State::default();
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                'v' if !state.is_typing => KeyCode::Down,
                '<' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            state.press(code.into(), 13, 3);
        }
        state
    }

    #[test]
    fn keys_turn_pages() {
        assert_eq!(pressed("\t").page, Page::Sas);
        assert_eq!(pressed("\t\t\t\t\t\t\t").page, Page::Overview);
        assert_eq!(pressed("5").page, Page::Flows);
        assert_eq!((pressed("6").page, pressed("7").page), (Page::Paths, Page::Apps));
        assert_eq!(pressed("3").page, Page::Policies);
        assert_eq!(pressed("2vv\n3").line, 0, "another page begins at its top");
        assert!(pressed("p2").is_held, "and is held as the one before");
    }

    #[test]
    fn the_chosen_line_stays_within_the_table() {
        assert_eq!(pressed("2vvvvvv").line, 2);
        assert!(pressed("2\n").is_open && !pressed("2\n<").is_open);
        let mut empty = pressed("2");
        empty.press(KeyCode::Enter.into(), 10, 0);
        assert!(!empty.is_open, "there is nothing to open");
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_elsewhere() {
        let typed = pressed("2/qvs\n");
        assert_eq!((typed.filter.as_str(), typed.is_typing, typed.is_over), ("qvs", false, false));
        assert_eq!(pressed("2/qs<").filter, "");
        assert_eq!(pressed("2/qs\n<").filter, "");
        assert!(pressed("q").is_over);
    }

    #[test]
    fn sorting_goes_round_the_columns() {
        assert_eq!(pressed("2").column, SA_ENDS);
        assert_eq!(pressed("2s").column, 0);
        assert_eq!(pressed("3").column, 6);
        assert!(pressed("2r").reversed);
    }
}
