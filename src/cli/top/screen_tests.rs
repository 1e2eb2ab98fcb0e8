//! The screen, drawn into memory.

use super::super::seen::tests::documents;
use super::super::state::Next;
use super::*;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use std::time::Duration;

const NOW: &str = "2030-01-31T09:00:02Z";

fn state(documents: Option<Value>) -> State {
    let mut state = State::new("http://api:8080".into(), Duration::from_secs(2), Colour::No);
    state.now = NOW.parse().unwrap();
    if let Some(documents) = documents {
        state.answered(Look::read(documents).unwrap());
    }
    state
}

/// The rows of a screen of this size.
fn drawn(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn an_open_breaker_is_shown_with_its_cause() {
    let look = Look::read(documents()).unwrap();
    let notes = gateway_cells(&look.gateways[0])[6].clone();
    assert!(notes.starts_with("a server error (HTTP 503); until "), "{notes}");
}

#[test]
fn a_usual_terminal_shows_what_is_wrong_first_then_every_figure_curve_gateway_and_worker() {
    let rows = drawn(&state(Some(documents())), 80, 24);
    let at = |text: &str| {
        rows.iter().position(|row| row.contains(text)).unwrap_or_else(|| panic!("no {text}: {rows:#?}"))
    };
    assert_eq!(rows[0], "Punctual  2030-01-31 09:00:01 UTC  http://api:8080  asks every 2s");
    assert_eq!(rows[1], "▲ 1 problem: the breaker of acme is open");
    let order = [
        at("look at the gateway; it closes by itself"),
        at("▲ Due and waiting            7                   the oldest for 1 min"),
        at("△ Parked                     10,000+             wait for a person"),
        at("Last hour: completed 1,770, will be tried again 5, were unknown for a while 4,"),
        at("due (59)"),
        at("completed (59)"),
        at("next hour (20)"),
        at("p99 (< 10 min)"),
        at("acme            breaker open    open"),
        at("worker-1             acme"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(rows[23], "q quit  r ask now  ? help  [1 everything]  2 gateways  3 workers  4 problems");
    let coming = &rows[at("next hour (20)")];
    assert_eq!(coming.chars().filter(|c| *c == '█').count(), 60, "each minute at its height: {coming}");
}

#[test]
fn a_large_terminal_has_room_for_taller_curves_and_why_a_gateway_stands_still() {
    let rows = drawn(&state(Some(documents())), 160, 40);
    let at = |text: &str| rows.iter().position(|row| row.contains(text)).unwrap();
    assert_eq!(at("completed (59)") - at("due (59)"), 2);
    assert!(rows.iter().any(|row| row.contains("key:alice: ticket 7")), "{rows:#?}");
    let narrower = drawn(&state(Some(documents())), 120, 40);
    assert!(
        narrower
            .iter()
            .any(|row| row.contains("1 relay, 1 publisher leads; 9 due notices are not published")),
        "{narrower:#?}"
    );
}

#[test]
fn without_a_worker_it_says_what_that_means_and_who_finds_the_others() {
    let mut documents = documents();
    documents["workers"]["workers"] = json!([]);
    let mut seen = state(Some(documents));
    seen.view = View::Workers;
    let rows = drawn(&seen, 120, 30).join(" ");
    for text in ["No worker is at work on a payment now.", "`punctual doctor`"] {
        assert!(rows.contains(text), "{text}: {rows}");
    }
}

#[test]
fn no_size_is_a_reason_to_panic_and_what_is_wrong_is_left_out_last() {
    let mut seen = state(Some(documents()));
    let rows = drawn(&seen, 40, 10);
    assert!(rows[1].starts_with("▲ 1 problem"), "{rows:#?}");
    for view in View::ALL {
        seen.view = view;
        for is_explaining in [true, false] {
            seen.is_explaining = is_explaining;
            for (width, height) in [(1, 1), (2, 3), (19, 2), (20, 5), (21, 24), (40, 10), (300, 90)] {
                let rows = drawn(&seen, width, height);
                assert!(rows.iter().any(|row| !row.is_empty()), "{width}x{height}");
            }
        }
    }
    drawn(&state(None), 1, 1);
}

#[test]
fn an_api_that_is_away_is_said_with_since_when_and_the_last_figures_are_marked_as_old() {
    let mut state = state(Some(documents()));
    state.asked_at = Some("2030-01-31T09:00:04Z".parse().unwrap());
    state.now = "2030-01-31T09:00:19Z".parse().unwrap();
    assert!(drawn(&state, 100, 24)[0].ends_with("asked 15 s ago, no answer yet"));
    state.failed("no answer from the API: refused\u{1b}[2J");
    state.asked_at = Some("2030-01-31T09:00:20Z".parse().unwrap());
    state.failed("no answer from the API: refused");
    let rows = drawn(&state, 120, 24);
    assert_eq!(rows[1], "▲ The API does not answer since 2030-01-31 09:00:04 UTC (15 s ago)");
    let old = "  no answer from the API: refused. What follows is OLD, of 2030-01-31 09:00:01 UTC";
    assert_eq!(rows[2], old);
    assert!(rows.iter().any(|row| row.contains("1,770")), "{rows:#?}");
    state.answered(Look::read(documents()).unwrap());
    assert!(!drawn(&state, 120, 24).iter().any(|row| row.contains("is OLD")));
    let mut never = super::tests::state(None);
    never.failed("no answer from the API: refused");
    let rows = drawn(&never, 80, 24);
    assert!(
        rows[0].contains("nothing seen yet") && rows[1].contains("since 2030-01-31 09:00:02"),
        "{rows:#?}"
    );
}

#[test]
fn what_could_not_be_found_out_is_never_shown_as_fine() {
    let mut documents = documents();
    documents["problems"] = Value::Null;
    let rows = drawn(&state(Some(documents.clone())), 80, 24);
    assert_eq!(rows[1], format!("△ {PROBLEMS_UNKNOWN}"));
    documents["problems"] = json!({"data": []});
    assert_eq!(drawn(&state(Some(documents)), 80, 24)[1], "✓ no problem is known");
}

#[test]
fn each_view_shows_its_own_in_full() {
    let mut state = state(Some(documents()));
    for (pressed, text) in [
        ('2', "bank: key:alice: ticket 7 (2030-01-31 08:00:00 UTC); switch gateway bank"),
        ('3', "relay relay-1: 4 partitions, leads until 2030-01-31 09:00:11 UTC"),
        ('4', "Do: look at the gateway; it closes by itself"),
        ('1', "▲ Due and waiting"),
    ] {
        assert_eq!(state.pressed(key(KeyCode::Char(pressed))), Next::Stay);
        let rows = drawn(&state, 100, 30);
        assert!(rows.iter().any(|row| row.contains(text)), "{pressed}: no {text}: {rows:#?}");
    }
}

#[test]
fn keys_quit_ask_explain_and_go_around() {
    let mut state = state(None);
    assert_eq!(state.pressed(key(KeyCode::Char('r'))), Next::Ask);
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert_eq!(state.pressed(key(code)), Next::Quit);
    }
    assert_eq!(state.pressed(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Quit);
    assert_eq!(state.pressed(key(KeyCode::Char('c'))), Next::Stay);
    assert_eq!(state.pressed(key(KeyCode::Char('?'))), Next::Stay);
    assert!(drawn(&state, 100, 24).iter().any(|row| row.contains("beyond 60 s")));
    assert_eq!(state.pressed(key(KeyCode::Esc)), Next::Stay, "it ends the explanation first");
    for view in [View::Gateways, View::Workers, View::Problems, View::Everything] {
        state.pressed(key(KeyCode::Tab));
        assert_eq!(state.view, view);
    }
    let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
    assert_eq!(state.pressed(released), Next::Stay);
}

#[test]
fn without_colour_nothing_is_coloured() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut seen = state(Some(documents()));
    let mut colours = |state: &State| {
        terminal.draw(|frame| draw(state, frame.area(), frame.buffer_mut())).unwrap();
        terminal.backend().buffer().content().iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colours(&seen), 0);
    seen.colour = Colour::Yes;
    assert!(colours(&seen) > 50);
}
