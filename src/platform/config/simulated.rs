//! How the simulated gateway's richer settings read: latencies, outages, defects of its reports.
//!
//! **Promises**: each type reads one line of text and shows the same line again; what cannot happen
//! (an outage that never ends because it begins again before, a percentile above 100) is refused
//! here, so that the sandbox has nothing left to check. **If this is wrong**, a test or a rehearsal
//! measures another world than the one that was written down.

use super::value::Value;
use std::time::Duration;

/// Longest latency of one answer.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);

/// Most defects in one report, so that choosing them takes bounded memory.
const DEFECTS_MAX: u32 = 10_000;

/// One hundred per cent in the unit of [`Latency::Percentiles`].
pub const ALL: u32 = 100_000;

/// How long the sandbox takes before an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latency {
    /// `20ms`: always the same.
    Fixed(Duration),
    /// `10ms..50ms`: each length between them is as likely.
    Uniform(Duration, Duration),
    /// `p50=20ms,p99=300ms,p99.9=2s`: a measured table, straight lines between its points. Pairs of
    /// thousandths of a per cent and length, both rising. Below the first point: its length; above
    /// the last: its length.
    Percentiles(Vec<(u32, Duration)>),
}

impl Value for Latency {
    const KIND: &'static str = "duration, range or percentiles";

    fn read(text: &str) -> Result<Self, String> {
        let length = |text: &str| {
            let length = Duration::read(text.trim())?;
            if length <= LATENCY_MAX { Ok(length) } else { Err(format!("`{text}` is longer than 1h")) }
        };
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (length(from)?, length(to)?);
            return if from <= to { Ok(Self::Uniform(from, to)) } else { Err("the range falls".into()) };
        }
        if !text.trim_start().starts_with('p') {
            return length(text).map(Self::Fixed);
        }
        let mut points: Vec<(u32, Duration)> = Vec::new();
        for point in text.split(',') {
            let (share, value) = point.split_once('=').ok_or_else(|| format!("`{point}` is not p50=20ms"))?;
            let share = percentile(share.trim()).ok_or_else(|| format!("`{share}` is not p0 to p100"))?;
            let value = length(value)?;
            if points.last().is_some_and(|(before, shorter)| *before >= share || *shorter > value) {
                return Err(format!("`{point}` does not rise above the point before it"));
            }
            points.push((share, value));
        }
        Ok(Self::Percentiles(points))
    }

    fn show(&self) -> String {
        match self {
            Self::Fixed(length) => length.show(),
            Self::Uniform(from, to) => format!("{}..{}", from.show(), to.show()),
            Self::Percentiles(points) => {
                let point = |(share, length): &(u32, Duration)| {
                    let (whole, part) = (share / 1_000, share % 1_000);
                    let part = format!(".{part:03}");
                    format!("p{whole}{}={}", part.trim_end_matches('0').trim_end_matches('.'), length.show())
                };
                points.iter().map(point).collect::<Vec<_>>().join(",")
            }
        }
    }
}

/// `p99.9` in thousandths of a per cent.
fn percentile(text: &str) -> Option<u32> {
    let (whole, part) = text.strip_prefix('p')?.split_once('.').unwrap_or((&text[1..], "0"));
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if !digits(whole, 3) || !digits(part, 3) {
        return None;
    }
    let share = whole.parse::<u32>().ok()? * 1_000 + format!("{part:0<3}").parse::<u32>().ok()?;
    (share <= ALL).then_some(share)
}

/// How a gateway is away. The names are those of the setting and of `PUT /outage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageKind {
    /// Connections are refused and open ones reset. Nothing arrives, nothing is charged.
    Refuse,
    /// Answered 503. Nothing is charged.
    Unavailable,
    /// Executed, and answered 503.
    UnavailableCharged,
    /// Taken and never answered. Nothing is charged.
    Silent,
    /// Executed, and never answered.
    SilentCharged,
}

impl OutageKind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Refuse, "refuse"),
        (Self::Unavailable, "unavailable"),
        (Self::UnavailableCharged, "unavailable_charged"),
        (Self::Silent, "silent"),
        (Self::SilentCharged, "silent_charged"),
    ];

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own)| *own == name).map(|(kind, _)| *kind)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every kind is in the list; a test holds that.
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One window in which the sandbox is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// How.
    pub kind: OutageKind,
    /// When it begins, from the sandbox's start.
    pub from: Duration,
    /// How long it lasts.
    pub length: Duration,
    /// After how long it begins again; longer than `length`.
    pub every: Option<Duration>,
}

impl Value for Vec<Outage> {
    const KIND: &'static str = "list of outages";

    fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::new());
        }
        text.split(',').map(|part| outage(part.trim())).collect()
    }

    fn show(&self) -> String {
        let window = |outage: &Outage| {
            let every = outage.every.map_or_else(String::new, |every| format!("/{}", every.show()));
            format!("{}@{}+{}{every}", outage.kind.name(), outage.from.show(), outage.length.show())
        };
        self.iter().map(window).collect::<Vec<_>>().join(",")
    }
}

/// `unavailable@10m+30s/1h`.
fn outage(text: &str) -> Result<Outage, String> {
    let shape = || format!("`{text}` is not kind@from+length or kind@from+length/every");
    let (kind, window) = text.split_once('@').ok_or_else(shape)?;
    let (from, length) = window.split_once('+').ok_or_else(shape)?;
    let (length, every) = length.split_once('/').map_or((length, None), |(length, e)| (length, Some(e)));
    let kind = OutageKind::named(kind).ok_or_else(|| {
        let names: Vec<&str> = OutageKind::ALL.iter().map(|(_, name)| *name).collect();
        format!("`{kind}` is none of {}", names.join(", "))
    })?;
    let every = every.map(Duration::read).transpose()?;
    let outage = Outage { kind, from: Duration::read(from)?, length: Duration::read(length)?, every };
    if outage.length.is_zero() || every.is_some_and(|every| every <= outage.length) {
        return Err(format!("`{text}` must last, and end before it begins again"));
    }
    Ok(outage)
}

/// What may be wrong with one line of a settlement report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The line is missing.
    Missing,
    /// The line stands there twice.
    Doubled,
    /// The line names another amount.
    Amount,
    /// The line names another currency.
    Currency,
    /// After the line stands one for a charge that nobody made, under a key that nobody used.
    Unknown,
    /// The line is booked a day later and stands in that day's report.
    Late,
    /// As `Unknown`, under a key that looks like one of ours.
    Orphan,
    /// The line of a refund names another amount.
    Refund,
}

impl Defect {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Missing, "missing"),
        (Self::Doubled, "doubled"),
        (Self::Amount, "amount"),
        (Self::Currency, "currency"),
        (Self::Unknown, "unknown"),
        (Self::Late, "late"),
        (Self::Orphan, "orphan"),
        (Self::Refund, "refund"),
    ];

    /// It befalls refunds, and no charge.
    #[must_use]
    pub fn is_of_refunds(self) -> bool {
        match self {
            Self::Refund => true,
            Self::Missing
            | Self::Doubled
            | Self::Amount
            | Self::Currency
            | Self::Unknown
            | Self::Late
            | Self::Orphan => false,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every defect is in the list; a test holds that.
        Self::ALL.iter().find(|(defect, _)| *defect == self).map_or("", |(_, name)| name)
    }
}

/// How many lines of a day's report have which defect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defects(pub Vec<(Defect, u32)>);

impl Value for Defects {
    const KIND: &'static str = "list of defects";

    fn read(text: &str) -> Result<Self, String> {
        let mut defects: Vec<(Defect, u32)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, count) =
                part.split_once(':').ok_or_else(|| format!("`{part}` is not defect:count"))?;
            let known = Defect::ALL.iter().find(|(_, own)| *own == name);
            let (defect, _) = known.ok_or_else(|| {
                let names: Vec<&str> = Defect::ALL.iter().map(|(_, name)| *name).collect();
                format!("`{name}` is none of {}", names.join(", "))
            })?;
            if defects.iter().any(|(other, _)| other == defect) {
                return Err(format!("`{name}` is there twice"));
            }
            defects.push((*defect, u32::read(count)?));
        }
        let total = defects.iter().fold(0_u32, |total, (_, count)| total.saturating_add(*count));
        if total > DEFECTS_MAX {
            return Err(format!("more than {DEFECTS_MAX} defects in one report"));
        }
        Ok(Self(defects))
    }

    fn show(&self) -> String {
        let part = |(defect, count): &(Defect, u32)| format!("{}:{count}", defect.name());
        self.0.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_text<V: Value>(texts: &[&str]) {
        for text in texts {
            let read = V::read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(read.show(), *text);
        }
    }

    fn refused<V: Value>(texts: &[&str]) {
        for text in texts {
            assert!(V::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_latency_shows_in_the_form_it_is_read() {
        same_text::<Latency>(&["0s", "20ms", "10ms..50ms", "p50=20ms", "p0=5ms,p50=20ms,p99.9=2s,p100=1m"]);
        let ms = Duration::from_millis;
        let wanted = Latency::Percentiles(vec![(50_000, ms(20)), (99_950, ms(2_000))]);
        assert_eq!(Latency::read("p50=20ms, p99.95=2s"), Ok(wanted));
    }

    #[test]
    fn a_latency_that_cannot_be_is_refused() {
        refused::<Latency>(&[
            "",
            "20",
            "2h",
            "50ms..10ms",
            "10ms..",
            "p",
            "p101=1s",
            "p50",
            "p50=20",
            "p50=1s,p50=2s",
            "p50=2s,p99=1s",
            "p99.9999=1s",
        ]);
    }

    #[test]
    fn outages_show_in_the_form_they_are_read_and_impossible_ones_are_refused() {
        same_text::<Vec<Outage>>(&["", "refuse@30s+10s", "unavailable@10m+30s/1h,silent_charged@0s+1s"]);
        for (kind, name) in OutageKind::ALL {
            assert_eq!((OutageKind::named(name), kind.name()), (Some(kind), name));
        }
        refused::<Vec<Outage>>(&[
            "down@1s+1s",
            "refuse@1s",
            "refuse+1s",
            "refuse@1+1",
            "silent@1s+0s",
            "silent@1s+5s/5s",
        ]);
    }

    #[test]
    fn defects_show_in_the_form_they_are_read_and_impossible_ones_are_refused() {
        let all = "missing:1,doubled:2,amount:3,currency:4,unknown:5,late:6,orphan:7,refund:8";
        same_text::<Defects>(&["", all]);
        refused::<Defects>(&[
            "missing",
            "missing:-1",
            "lost:1",
            "late:1,late:2",
            "late:10001",
            "late:9999,amount:2",
        ]);
    }
}
