//! The picture.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use report::units::{rate, si, span};
use report::{Left, Policy, Sa};

use super::limits::{Shares, bar};
use super::sample::{FLOW_BITS, Pair};
use super::sdwan::on_path;
use super::sheet::{Cell, Sheet};
use super::state::{Page, State};

/// Bits a second that ports received, one for each look.
pub type History = VecDeque<u64>;

const KEYS: &str = "1-7 page  Enter open  s sort  r turn  / filter  p hold  ? help  q end";
/// Flows of an SA that are shown.
const FLOWS: usize = 3;
/// Style of values that may be out of date.
const OLD: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws the page. `old` says so where the daemon has not answered for too long.
pub fn draw(
    frame: &mut Frame<'_>,
    pair: &Pair<'_>,
    state: &State,
    history: &History,
    old: Option<&str>,
) {
    let [head, graph, body, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(pair, state, old)), head);
    let levels: Vec<u64> = history.iter().copied().collect();
    let from = levels.len().saturating_sub(graph.width.into());
    frame.render_widget(Sparkline::default().data(levels.get(from..).unwrap_or_default()), graph);
    match state.shown(pair) {
        _ if state.is_help => {
            frame.render_widget(Paragraph::new(legend()).wrap(Wrap { trim: false }), body);
        }
        Some(sheet) if state.is_open => {
            frame.render_widget(
                Paragraph::new(opened(pair, &sheet, state)).wrap(Wrap { trim: false }),
                body,
            );
        }
        Some(sheet) if sheet.rows.is_empty() => {
            frame.render_widget(
                Paragraph::new(empty(pair, &sheet, &state.filter)).wrap(Wrap { trim: false }),
                body,
            );
        }
        Some(sheet) => table(frame, body, &sheet, Some(state)),
        None => overview(frame, body, pair),
    }
    let filter = match (state.is_typing, state.filter.is_empty()) {
        (true, _) => format!("/{}_", state.filter),
        (false, false) => format!("only {:?}; Esc shows all", state.filter),
        (false, true) => KEYS.into(),
    };
    frame.render_widget(Paragraph::new(filter), foot);
    if old.is_some() {
        frame.buffer_mut().set_style(graph.union(body), OLD);
    }
}

fn heading(pair: &Pair<'_>, state: &State, old: Option<&str>) -> Vec<Line<'static>> {
    let status = &pair.seen().status;
    let (rx, tx) = pair.throughput();
    let warnings = match status.warnings.len() {
        0 => String::new(),
        n => format!("  {n} warnings (culvert status)"),
    };
    let held = if state.is_held { "  HELD" } else { "" };
    let first = format!(
        "culvert {}  up {}  {} SAs  {} policies  drops {}/s{warnings}{held}",
        status.name,
        span(status.uptime_s),
        status.sas,
        status.policies,
        rate(pair.drop_rate()),
    );
    let first = match old {
        Some(old) => Line::styled(format!("culvert {}  {old}", status.name), REVERSED),
        None => Line::from(first),
    };
    let rates = format!(" in {}bit/s  out {}bit/s", rate(rx), rate(tx));
    let pages = Page::ALL.iter().enumerate().flat_map(|(n, page)| {
        let style = if *page == state.page { REVERSED } else { Style::new() };
        [Span::styled(format!(" {} {} ", n + 1, page.title()), style)]
    });
    vec![first, pages.collect(), rates.into()]
}

fn overview(frame: &mut Frame<'_>, area: Rect, pair: &Pair<'_>) {
    // Few gateways have devices.
    let devices = Some(pair.devices()).filter(|sheet| !sheet.rows.is_empty());
    let sheets = [Some(pair.ports()), devices, Some(pair.workers()), Some(pair.drops())];
    let sheets: Vec<Sheet> = sheets.into_iter().flatten().collect();
    let heights = sheets.iter().map(|sheet| Constraint::Length(sheet.rows.len() as u16 + 2));
    let areas = Layout::vertical(heights).split(area);
    for (sheet, &area) in sheets.iter().zip(areas.iter()) {
        match sheet.rows.is_empty() {
            true => frame.render_widget(Paragraph::new(empty(pair, sheet, "")), area),
            false => table(frame, area, sheet, None),
        }
    }
}

/// Text where there is nothing to list.
fn empty(pair: &Pair<'_>, sheet: &Sheet, filter: &str) -> String {
    let seen = pair.seen();
    let too_many = |count: usize, title: &str| {
        format!("{count} {title} are too many to list: --max is the most that are")
    };
    match (sheet.title, pair.flow_trouble()) {
        ("flows", Some(trouble)) => trouble.to_owned(),
        ("SAs", _) if seen.sas.is_none() => too_many(seen.status.sas, "SAs"),
        ("policies", _) if seen.policies.is_none() => too_many(seen.status.policies, "policies"),
        (title, _) if !filter.is_empty() => {
            format!("none of the {title} has {filter:?} in it; Esc shows all")
        }
        ("flows", None) => "no packet in the last interval".to_owned(),
        ("drops", _) => "nothing was dropped".to_owned(),
        ("paths", _) => "no paths; [[path]] of the configuration names them".to_owned(),
        ("applications", _) if !seen.apps.enabled => {
            "applications are not told apart: enabled = true in [applications]".to_owned()
        }
        ("applications", _) => "no flow so far".to_owned(),
        (title, _) => format!("there are no {title}"),
    }
}

/// Legend: keys, and the meaning of columns.
fn legend() -> Vec<Line<'static>> {
    let keys = crate::cli::TOP_KEYS.lines().map(|line| match line.strip_prefix("  ") {
        Some(line) => Line::from(line),
        None => Line::styled(line, BOLD),
    });
    let columns = COLUMNS.iter().map(|(name, meaning)| Line::from(format!("{name:<14} {meaning}")));
    keys.chain([Line::styled("Columns:", BOLD)]).chain(columns).collect()
}

const COLUMNS: [(&str, &str); 9] = [
    ("*", "the table is sorted by this one; the graph is what ports received"),
    ("DIR", "in: from the peer; out: to it; fwd: decrypted, for another host"),
    ("REFUSED", "packets/s that were late, came twice, or had a wrong ICV"),
    ("REKEY, SOFT", "when the soft limit comes, and how much of it is used"),
    ("ENDS, HARD", "the same of the hard limit, at which the SA ends"),
    ("TO LINUX", "packets/s that XDP left to Linux"),
    ("HITS, MISSES", "packets/s of flows that are known, and that are not"),
    ("FLOWS", "rules whose flows take the path, and its part of them"),
    ("HANDED ON", "packets/s that another worker's SA was needed for"),
];

/// A table; with a state its chosen line is marked, and the column that it is sorted by.
fn table(frame: &mut Frame<'_>, area: Rect, sheet: &Sheet, state: Option<&State>) {
    let columns = columns(sheet, area.width.into());
    let is_right = |column: usize| sheet.head.get(column).is_some_and(|h| h.starts_with('>'));
    let cell = |column: usize, text: String| {
        let side = if is_right(column) { Alignment::Right } else { Alignment::Left };
        Line::from(text).alignment(side)
    };
    let heads = columns.iter().map(|(column, _)| {
        let is_sorted = state.is_some_and(|state| state.column == *column);
        let mark = if is_sorted { "*" } else { "" };
        let head = sheet.head.get(*column).map_or("", |head| head.trim_start_matches('>'));
        cell(*column, format!("{mark}{head}"))
    });
    let rows = sheet.rows.iter().map(|row| {
        let text = |column: usize| row.get(column).map_or_else(String::new, |c| c.text.clone());
        Row::new(columns.iter().map(|(column, _)| cell(*column, text(*column))).collect::<Vec<_>>())
    });
    let widths: Vec<Constraint> =
        columns.iter().map(|(_, width)| Constraint::Length(*width as u16)).collect();
    let table = Table::new(rows, widths)
        .header(Row::new(heads).style(BOLD))
        .column_spacing(1)
        .row_highlight_style(REVERSED)
        .block(Block::new());
    let mut chosen = TableState::new().with_selected(state.map(|state| state.line));
    frame.render_stateful_widget(table, area, &mut chosen);
}

/// The columns that are shown, each with its width: those that can be spared only where there is room.
fn columns(sheet: &Sheet, room: usize) -> Vec<(usize, usize)> {
    let width = |column: usize| {
        let head = sheet.head.get(column).map_or(0, |head| head.trim_start_matches('>').len() + 1);
        let cells = sheet.rows.iter().filter_map(|row| row.get(column));
        head.max(cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0))
    };
    let mut columns: Vec<_> = (0..sheet.head.len()).map(|column| (column, width(column))).collect();
    for spare in sheet.spare {
        let all: usize = columns.iter().map(|(_, width)| width + 1).sum();
        if all <= room + 1 {
            break;
        }
        columns.retain(|(column, _)| column != spare);
    }
    // What is last is cut, and nothing before it: a drop's meaning, and not its reason.
    let all: usize = columns.iter().map(|(_, width)| width + 1).sum();
    if let Some((_, width)) = columns.last_mut() {
        *width = width.saturating_sub(all.saturating_sub(room + 1));
    }
    columns
}

/// All of the chosen line, and what belongs to it.
fn opened(pair: &Pair<'_>, sheet: &Sheet, state: &State) -> Vec<Line<'static>> {
    let seen = pair.seen();
    let Some(row) = sheet.rows.get(state.line.min(sheet.rows.len().saturating_sub(1))) else {
        return vec![Line::from("it has gone; Esc goes back")];
    };
    let first = row.first().map_or("", |cell| cell.text.as_str());
    let mut lines = if state.page == Page::Sas { identity(row) } else { all_cells(sheet, row) };
    let policies = seen.policies.iter().flatten();
    match state.page {
        Page::Sas => {
            let sa = seen.sas.iter().flatten().find(|sa| sa.spi == first);
            lines.extend(sa.into_iter().flat_map(of_sa));
            let reqid = sa.map(|sa| format!("reqid {}", sa.reqid));
            let is_its = |p: &&Policy| {
                reqid
                    .as_ref()
                    .is_some_and(|id| p.templates.iter().any(|t| t.ends_with(id.as_str())))
            };
            lines.extend(of_flows(pair));
            lines.push(Line::styled("policies that ask for it", BOLD));
            lines.extend(policies.filter(is_its).map(|policy| {
                Line::from(format!(
                    "  {} {} {} > {}, {} packets",
                    policy.index, policy.direction, policy.src, policy.dst, policy.packets
                ))
            }));
        }
        Page::Policies => {
            let policy = policies.into_iter().find(|policy| policy.index.to_string() == first);
            let templates = policy.into_iter().flat_map(|policy| policy.templates.iter());
            lines.push(Line::styled("protected by", BOLD));
            lines.extend(templates.map(|template| Line::from(format!("  {template}"))));
        }
        Page::Paths => {
            lines.push(Line::styled("applications on it", BOLD));
            lines.extend(on_path(pair, first).into_iter().map(Line::from));
        }
        Page::Drops | Page::Flows | Page::Overview | Page::Apps => {
            lines.push(Line::from("culvert why ... tells what would be done with a packet"));
        }
    }
    lines
}

fn all_cells(sheet: &Sheet, row: &[Cell]) -> Vec<Line<'static>> {
    let cells = sheet.head.iter().zip(row);
    let line = |(head, cell): (&&str, &Cell)| {
        Line::from(format!("{:<12} {}", head.trim_start_matches('>').to_lowercase(), cell.text))
    };
    cells.map(line).collect()
}

/// Which SA it is, and how busy; what follows has the rest in full.
fn identity(row: &[Cell]) -> Vec<Line<'static>> {
    let text = |column: usize| row.get(column).map_or("", |cell| cell.text.as_str());
    let [spi, way, src, dst, reqid, state, pps, bits] = [0, 1, 2, 3, 4, 5, 6, 7].map(text);
    vec![
        Line::from(format!("{spi}   {way}, {src} > {dst}, reqid {reqid}, {state}")),
        Line::from(format!("rate         {pps} pps, {bits}bit/s")),
    ]
}

/// The busiest flows, and why packets of theirs are dropped.
fn of_flows(pair: &Pair<'_>) -> Vec<Line<'static>> {
    let mut flows = pair.flows();
    flows.sort(FLOW_BITS, false);
    let mut lines = vec![Line::styled("flows", BOLD)];
    lines.extend(flows.rows.iter().take(FLOWS).map(|row| {
        let text = |column: usize| row.get(column).map_or("", |cell| cell.text.as_str());
        let [from, to, protocol, pps, bits] = [0, 1, 2, FLOW_BITS - 1, FLOW_BITS].map(text);
        Line::from(format!("  {from} > {to} {protocol}, {pps} pps, {bits}bit/s"))
    }));
    match flows.rows.len() {
        0 => lines.push(Line::from(format!("  {}", empty(pair, &flows, "")))),
        n if n > FLOWS => lines.push(Line::from(format!("  and {} more", n - FLOWS))),
        _ => {}
    }
    let drops = pair.flow_drops();
    let drops: Vec<String> =
        drops.iter().map(|(reason, pps)| format!("{reason} {}/s", rate(*pps))).collect();
    lines.extend(
        (!drops.is_empty()).then(|| Line::from(format!("  dropped: {}", drops.join(", ")))),
    );
    lines
}

fn of_sa(sa: &Sa) -> Vec<Line<'static>> {
    let mut lines = vec![
        format!("suite        {}, {}", sa.suite, sa.mode),
        format!("packets      {}, {} bytes", sa.packets, sa.bytes),
        format!(
            "sequence     {} sent, {} received, window {}",
            sa.sent_seq, sa.received_seq, sa.replay_window
        ),
        format!(
            "refused      {} late, {} duplicate, {} with a wrong ICV",
            sa.late_drops, sa.duplicate_drops, sa.integrity_drops
        ),
    ];
    lines.push(format!("age          {}", span(sa.age_s)));
    lines.extend(limits("rekey in", &sa.until_rekey, &Shares::soft(sa)));
    lines.extend(limits("expires in", &sa.until_expiry, &Shares::hard(sa)));
    lines.extend(sa.inner_mtu.map(|mtu| format!("inner mtu    {mtu}")));
    lines.extend(sa.why.as_ref().map(|why| format!("kernel       {why}")));
    lines.into_iter().map(Line::from).collect()
}

/// Rest of the limits, and the share that is used, if there are any.
fn limits(name: &str, left: &Left, shares: &Shares) -> Option<String> {
    let parts = [
        left.s.map(span),
        left.bytes.map(|bytes| format!("{} bytes", si(bytes))),
        left.packets.map(|packets| format!("{} packets", si(packets))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let used = shares.all().into_iter().filter_map(|(what, share)| Some((what, share?)));
    let used: Vec<String> = used.map(|(what, share)| format!("{what} {}", bar(share))).collect();
    (!parts.is_empty()).then(|| format!("{name:<12} {}  {}", parts.join(", or "), used.join("  ")))
}

#[cfg(test)]
mod tests {
    use outcome::DropReason;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use report::{Flow, Flows};

    use super::*;
    use crate::command::top::sample::tests::looks;

    /// The lines of a terminal of this size, after these keys.
    fn screen((width, height): (u16, u16), keys: &[KeyCode]) -> Vec<String> {
        let (before, now) = looks();
        let pair = Pair::new(&before, &now);
        let mut state = State::default();
        for key in keys {
            let shown = state.shown(&pair).map_or((0, 0), |s| (s.head.len(), s.rows.len()));
            state.press((*key).into(), shown.0, shown.1);
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
        let history = [1, 2, 3].into();
        terminal.draw(|frame| draw(frame, &pair, &state, &history, None)).expect("in memory");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn has(screen: &[String], text: &str) -> bool {
        screen.iter().any(|line| line.contains(text))
    }

    #[test]
    fn a_terminal_of_80_by_24_has_room_for_every_page() {
        let overview = screen((80, 24), &[]);
        assert!(overview[0].starts_with("culvert gw  up 0s  1 SAs  1 policies  drops 0/s"));
        for text in ["1 overview", "in 1.00Mbit/s", "wan", "WORKER", "in-integrity", "q end"] {
            assert!(has(&overview, text), "{text}: {overview:#?}");
        }
        let sas = screen((80, 24), &[KeyCode::Char('2')]);
        assert!(has(&sas, "0x00001001") && has(&sas, "*ENDS"), "{sas:#?}");
        let policies = screen((80, 24), &[KeyCode::Char('3')]);
        assert!(has(&policies, "10.1.0.0/24") && has(&policies, "protect"), "{policies:#?}");
    }

    #[test]
    fn reasons_of_drops_are_whole() {
        let drops = screen((80, 24), &[KeyCode::Char('4')]);
        assert!(has(&drops, "REASON") && has(&drops, "MEANING"), "{drops:#?}");
        let reason = DropReason::ALL.iter().max_by_key(|reason| reason.text().len());
        let reason = reason.expect("there are some");
        let (before, mut now) = looks();
        now.seen.drops.drops = [(reason.name().to_owned(), 7)].into();
        let pair = Pair::new(&before, &now);
        let widths = columns(&pair.drops(), 80);
        let all: usize = widths.iter().map(|(_, width)| width + 1).sum();
        assert!(widths[0].1 >= reason.name().len() && all <= 81, "{widths:?}");
    }

    #[test]
    fn an_open_line_shows_what_belongs_to_it() {
        let sa = screen((80, 24), &[KeyCode::Char('2'), KeyCode::Enter]);
        assert!(
            has(&sa, "packets      7000") && has(&sa, "17 out 10.1.0.0/24 > 10.2.0.0/24"),
            "{sa:#?}"
        );
        let policy = screen((80, 24), &[KeyCode::Char('3'), KeyCode::Enter]);
        assert!(has(&policy, "tunnel 192.0.2.1 - 192.0.2.2 reqid 7"), "{policy:#?}");
    }

    #[test]
    fn an_open_sa_shows_its_flows_and_drops() {
        let (before, now) = looks();
        let flow = Flow {
            src: "10.1.0.5".parse().unwrap(),
            dst: "10.2.0.9".parse().unwrap(),
            protocol: 17,
            src_port: 1000,
            dst_port: 53,
            direction: "out".into(),
            spi: Some("0x00001001".into()),
            reqid: Some(7),
            policy: Some(17),
            application: None,
            path: None,
            packets: 500,
            bytes: 125_000,
            fate: "protected".into(),
            drops: [("out-sequence-exhausted".to_owned(), 4)].into(),
        };
        let flows = Flows { seconds: 2.0, flows: vec![flow], ..Flows::default() };
        let flows = Ok(Some(flows));
        let pair = Pair::new(&before, &now).with_flows(&flows);
        let lines: Vec<String> = of_flows(&pair).iter().map(ToString::to_string).collect();
        assert_eq!(lines[1], "  10.1.0.5:1000 > 10.2.0.9:53 udp, 250 pps, 500.0kbit/s");
        assert_eq!(lines[2], "  dropped: out-sequence-exhausted 2.0/s");
        let state = State { is_open: true, page: Page::Sas, ..State::default() };
        assert_eq!(state.flows(&pair).and_then(|filter| filter.spi), Some(0x1001));
        assert!(State::default().flows(&pair).is_none(), "nothing is looked at for other pages");
    }

    #[test]
    fn columns_that_can_be_spared_make_room_for_limits() {
        let wide = screen((120, 24), &[KeyCode::Char('2')]);
        assert!(has(&wide, "REQID") && has(&wide, "REFUSED"), "{wide:#?}");
        let narrow = screen((80, 24), &[KeyCode::Char('2')]);
        assert!(!has(&narrow, "REQID"), "{narrow:#?}");
        for head in ["SPI", "PPS", "REKEY", "SOFT", "HARD", "*ENDS"] {
            assert!(has(&narrow, head), "{head}: {narrow:#?}");
        }
    }

    #[test]
    fn bars_show_what_is_used() {
        let left = Left { s: Some(25), packets: Some(0), bytes: None };
        let sa = Sa { age_s: 75, until_rekey: left, ..Sa::default() };
        let lines: Vec<String> = of_sa(&sa).iter().map(ToString::to_string).collect();
        let bars =
            "rekey in     25s, or 0 packets  time [#######---]  75%  packets [##########] 100%";
        assert!(lines.iter().any(|line| line == bars), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.starts_with("expires")), "no hard limit");
    }

    #[test]
    fn a_filter_that_fits_nothing_leaves_an_empty_page() {
        let keys = ['2', '/', 'x', 'y'].map(KeyCode::Char);
        let none = screen((80, 24), &keys);
        assert!(!has(&none, "0x00001001") && has(&none, "/xy_"), "{none:#?}");
        assert!(has(&none, "none of the SAs has \"xy\" in it; Esc shows all"), "{none:#?}");
        let (before, mut now) = looks();
        now.seen.sas = None;
        now.seen.status.sas = 20_000;
        let pair = Pair::new(&before, &now);
        assert!(empty(&pair, &pair.sas(), "xy").starts_with("20000 SAs are too many to list"));
        now.seen.sas = Some(Vec::new());
        let pair = Pair::new(&before, &now);
        assert_eq!(empty(&pair, &pair.sas(), ""), "there are no SAs");
    }

    #[test]
    fn help_explains_keys_and_columns() {
        let help = screen((80, 24), &[KeyCode::Char('2'), KeyCode::Char('?')]);
        for text in ["hold the picture", "DIR", "HANDED ON", "REKEY, SOFT"] {
            assert!(has(&help, text), "{text}: {help:#?}");
        }
        let back = screen((80, 24), &[KeyCode::Char('2'), KeyCode::Char('?'), KeyCode::Esc]);
        assert!(has(&back, "0x00001001") && !has(&back, "HANDED ON"), "{back:#?}");
    }

    #[test]
    fn what_is_old_has_no_rates() {
        let (before, now) = looks();
        let pair = Pair::new(&before, &now).old_if(true);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("in memory");
        let drawn = |frame: &mut Frame<'_>| {
            let old = Some("as of 03:04:05 UTC, no answer for 12s");
            draw(frame, &pair, &State::default(), &History::new(), old);
        };
        terminal.draw(drawn).expect("in memory");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let lines: Vec<String> = (0..24).map(line).collect();
        assert!(
            lines[0].starts_with("culvert gw  as of 03:04:05 UTC, no answer for 12s"),
            "{lines:#?}"
        );
        assert!(has(&lines, "in -bit/s") && has(&lines, "was up"), "{lines:#?}");
        assert!(!has(&lines, "kbit") && !has(&lines, "1.00M"), "{lines:#?}");
    }

    #[test]
    fn the_smallest_terminal_does_not_break_it() {
        for size in [(1, 1), (5, 3), (20, 4), (300, 80)] {
            for page in ['1', '2', '3', '4', '5', '6', '7'] {
                screen(size, &[KeyCode::Char(page), KeyCode::Enter]);
            }
        }
    }
}
