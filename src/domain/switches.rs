//! Kill switches: what people have switched off, and what that stops.
//!
//! **Promises.** A switch stops new claims of everything that it names, and the first byte of every request
//! that could move money and was not written yet. It takes nothing back: what was written is asked about
//! as ever. What is switched off stays where it is (PENDING, UNKNOWN) and spends no budget.
//!
//! **Relies on** whoever claims asking the database in the claim's own statement, and on the worker's
//! copy ([`Board`]) being as old as its last beat at most: the claim is exact, the copy is for what was
//! claimed before the switch. **Why a switch is not a state of payments**: a million of them would have to
//! be written to throw it, and written again to take it back.

use super::ids::{ActorId, GatewayName};
use super::money::Currency;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use uuid::Uuid;

/// The one value of the switch that stops everything.
pub const EVERYTHING: &str = "all";

/// What a switch names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SwitchKind {
    /// Every payment.
    Global,
    /// The payments of one gateway.
    Gateway,
    /// The payments of one actor.
    Actor,
    /// The payments in one currency.
    Currency,
}

impl SwitchKind {
    /// All of them, the widest first.
    pub const ALL: [Self; 4] = [Self::Global, Self::Gateway, Self::Actor, Self::Currency];

    /// The text stored and used in paths.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Gateway => "gateway",
            Self::Actor => "actor",
            Self::Currency => "currency",
        }
    }

    /// Reads that text; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One switch. Its value is in the one form in which it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch {
    /// What it names.
    pub kind: SwitchKind,
    /// Which: [`EVERYTHING`], a gateway's name, an actor's id (lower-case UUID) or a currency's code.
    pub value: String,
}

impl Switch {
    /// Reads a switch; `None` for a value that names nothing of its kind.
    #[must_use]
    pub fn of(kind: SwitchKind, value: &str) -> Option<Self> {
        let value = match kind {
            SwitchKind::Global => (value == EVERYTHING).then(|| value.to_owned()),
            SwitchKind::Gateway => is_gateway_name(value).then(|| value.to_owned()),
            SwitchKind::Actor => Uuid::try_parse(value).ok().map(|id| id.as_hyphenated().to_string()),
            SwitchKind::Currency => Currency::from_code(value).map(|currency| currency.as_str().to_owned()),
        };
        value.map(|value| Self { kind, value })
    }

    /// Reads `kind:value`.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        Self::of(SwitchKind::from_text(kind)?, value)
    }

    /// Reads `kind:value` as it is stored: whatever it names, it was thrown on purpose, and is compared as the
    /// claim's own statement compares it. `None` only for a kind that this build does not know, and that
    /// statement neither.
    #[must_use]
    pub fn stored(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        Some(Self { kind: SwitchKind::from_text(kind)?, value: value.to_owned() })
    }
}

fn is_gateway_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=64).contains(&text.len()) && text.chars().all(legal)
}

/// Every switch that is thrown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Switches {
    thrown: BTreeSet<Switch>,
}

impl Switches {
    /// These.
    #[must_use]
    pub fn of(thrown: impl IntoIterator<Item = Switch>) -> Self {
        Self { thrown: thrown.into_iter().collect() }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.thrown.len()
    }

    /// None is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.thrown.is_empty()
    }

    /// Throws one, or takes it back.
    pub fn set(&mut self, switch: Switch, turned: Turned) {
        match turned {
            Turned::Off => drop(self.thrown.insert(switch)),
            Turned::On => drop(self.thrown.remove(&switch)),
        }
    }

    fn has(&self, kind: SwitchKind, value: &str) -> bool {
        // The one allocation is for the few payments that are looked at while something is thrown.
        !self.thrown.is_empty() && self.thrown.contains(&Switch { kind, value: value.to_owned() })
    }

    /// Is the whole gateway stopped?
    #[must_use]
    pub fn stops_gateway(&self, gateway: &GatewayName) -> bool {
        self.has(SwitchKind::Global, EVERYTHING) || self.has(SwitchKind::Gateway, &gateway.0)
    }

    /// Is what this actor pays in this currency stopped, at whatever gateway?
    #[must_use]
    pub fn stops_payer(&self, actor: ActorId, currency: Currency) -> bool {
        let names = |kind| match kind {
            SwitchKind::Actor => self.has(kind, &actor.0.as_hyphenated().to_string()),
            SwitchKind::Currency => self.has(kind, currency.as_str()),
            SwitchKind::Global | SwitchKind::Gateway => false,
        };
        !self.thrown.is_empty() && SwitchKind::ALL.into_iter().any(names)
    }

    /// The values of the switches of one kind, in order.
    #[must_use]
    pub fn values(&self, kind: SwitchKind) -> Vec<String> {
        let of_kind = self.thrown.iter().filter(|switch| switch.kind == kind);
        of_kind.map(|switch| switch.value.clone()).collect()
    }
}

/// Which way a switch is turned: off is the dangerous thing, on is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// What it names is stopped.
    Off,
    /// It goes on.
    On,
}

/// Why a whole gateway is closed by people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// A kill switch: nothing is sent any more, not even what was claimed.
    Killed,
    /// A pause: nothing is claimed any more; what was claimed ends.
    Paused,
}

/// What people ordered about one gateway, as a beat brings it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// The gateway as a whole.
    pub closed: Option<Closed>,
    /// Everything that is switched off.
    pub switches: Switches,
}

/// Whether an operator has paused a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// He has.
    Held,
    /// He has not.
    None,
}

impl Orders {
    /// For this gateway. A kill switch says more than a pause.
    #[must_use]
    pub fn of(gateway: &GatewayName, pause: Pause, switches: Switches) -> Self {
        let closed = match (switches.stops_gateway(gateway), pause) {
            (true, _) => Some(Closed::Killed),
            (false, Pause::Held) => Some(Closed::Paused),
            (false, Pause::None) => None,
        };
        Self { closed, switches }
    }
}

/// One worker's copy of the orders about one gateway, shared with the check right before each write.
#[derive(Debug, Default)]
pub struct Board(RwLock<Orders>);

impl Board {
    /// The newest.
    pub fn set(&self, orders: Orders) {
        // Whoever panicked under this lock left a whole value.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = orders;
    }

    /// Why the whole gateway is closed.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Whether some payments of it are passed over and others are not.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        let orders = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let named = |kind| !orders.switches.values(kind).is_empty();
        orders.closed.is_none() && (named(SwitchKind::Actor) || named(SwitchKind::Currency))
    }

    fn stops(&self, actor: ActorId, currency: Currency) -> bool {
        let orders = self.0.read().unwrap_or_else(PoisonError::into_inner);
        orders.closed == Some(Closed::Killed) || orders.switches.stops_payer(actor, currency)
    }
}

/// A board as it concerns one payment; asked at the last moment, and not before.
#[derive(Debug, Clone)]
pub struct Watch {
    board: Arc<Board>,
    actor: ActorId,
    currency: Currency,
}

impl Watch {
    /// Over what this actor pays in this currency.
    #[must_use]
    pub fn new(board: &Arc<Board>, actor: ActorId, currency: Currency) -> Self {
        Self { board: Arc::clone(board), actor, currency }
    }

    /// Must it not be sent?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.board.stops(self.actor, self.currency)
    }
}

impl PartialEq for Watch {
    /// The same question to the same board.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.board, &other.board) && (self.actor, self.currency) == (other.actor, other.currency)
    }
}

impl Eq for Watch {}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTOR: ActorId = ActorId(Uuid::from_u128(0xAC));

    fn euro() -> Currency {
        Currency::from_code("EUR").expect("in the table")
    }

    fn thrown(texts: &[&str]) -> Switches {
        Switches::of(texts.iter().map(|text| Switch::from_text(text).unwrap_or_else(|| panic!("{text}"))))
    }

    #[test]
    fn a_switch_is_read_in_the_one_form_in_which_it_is_compared() {
        let id = "000000AC-0000-0000-0000-0000000000AC";
        let switch = Switch::from_text(&format!("actor:{id}")).expect("a switch");
        assert_eq!(switch.value, id.to_lowercase());
        for text in ["global:all", "gateway:sandbox", "currency:EUR"] {
            let switch = Switch::from_text(text).expect("a switch");
            assert_eq!(format!("{}:{}", switch.kind.as_str(), switch.value), text);
        }
        for text in [
            "global:sandbox",
            "global",
            "gateway:",
            "gateway:Upper",
            "gateway:a b",
            "actor:shop",
            "currency:eur",
            "currency:ZZZ",
            "bank:all",
            "",
        ] {
            assert_eq!(Switch::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn each_switch_stops_what_it_names_and_nothing_else() {
        let (sandbox, other) = (GatewayName("sandbox".into()), GatewayName("other".into()));
        let (stranger, dollar) = (ActorId(Uuid::nil()), Currency::from_code("USD").expect("in the table"));
        let actor = format!("actor:{}", ACTOR.0);
        for (texts, at_sandbox, at_other, payer, stranger_pays, in_dollars) in [
            (&[][..], false, false, false, false, false),
            (&["global:all"], true, true, false, false, false),
            (&["gateway:sandbox"], true, false, false, false, false),
            (&[actor.as_str()], false, false, true, false, true),
            (&["currency:EUR"], false, false, true, true, false),
            (&["currency:USD", "gateway:other"], false, true, false, false, true),
        ] {
            let switches = thrown(texts);
            assert_eq!(switches.stops_gateway(&sandbox), at_sandbox, "{texts:?}");
            assert_eq!(switches.stops_gateway(&other), at_other, "{texts:?}");
            assert_eq!(switches.stops_payer(ACTOR, euro()), payer, "{texts:?}");
            assert_eq!(switches.stops_payer(stranger, euro()), stranger_pays, "{texts:?}");
            assert_eq!(switches.stops_payer(ACTOR, dollar), in_dollars, "{texts:?}");
        }
    }

    #[test]
    fn a_switch_is_thrown_and_taken_back() {
        let mut switches = Switches::default();
        let all = Switch::of(SwitchKind::Global, EVERYTHING).expect("a switch");
        for turned in [Turned::Off, Turned::Off, Turned::On, Turned::On] {
            switches.set(all.clone(), turned);
            assert_eq!(
                (switches.len(), switches.is_empty()),
                match turned {
                    Turned::Off => (1, false),
                    Turned::On => (0, true),
                }
            );
        }
    }

    #[test]
    fn a_kill_switch_says_more_than_a_pause_and_a_pause_lets_what_was_claimed_end() {
        let sandbox = GatewayName("sandbox".into());
        for (texts, pause, closed, stopped) in [
            (&[][..], Pause::None, None, false),
            (&[], Pause::Held, Some(Closed::Paused), false),
            (&["gateway:sandbox"], Pause::Held, Some(Closed::Killed), true),
            (&["global:all"], Pause::None, Some(Closed::Killed), true),
            (&["gateway:other"], Pause::None, None, false),
            (&["currency:EUR"], Pause::Held, Some(Closed::Paused), true),
        ] {
            let board = Arc::new(Board::default());
            let watch = Watch::new(&board, ACTOR, euro());
            assert!(!watch.is_stopped());
            let orders = Orders::of(&sandbox, pause, thrown(texts));
            board.set(orders);
            assert_eq!((board.closed(), watch.is_stopped()), (closed, stopped), "{texts:?} {pause:?}");
        }
    }

    #[test]
    fn a_board_passes_payments_over_only_while_it_is_open_and_names_some() {
        let board = Board::default();
        let sandbox = GatewayName("sandbox".into());
        for (texts, selective) in [
            (&[][..], false),
            (&["currency:EUR"], true),
            (&["gateway:other"], false),
            (&["currency:EUR", "global:all"], false),
        ] {
            board.set(Orders::of(&sandbox, Pause::None, thrown(texts)));
            assert_eq!(board.is_selective(), selective, "{texts:?}");
        }
    }
}
