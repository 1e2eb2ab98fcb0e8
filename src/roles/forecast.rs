//! `punctual forecast`: what falls due, counted now, and when it is worked off.

use super::{failed, refused};
use crate::cli::{self, Ended, Output};
use crate::domain::forecast::{Drained, Precision, drain};
use crate::domain::ids::GatewayName;
use crate::intake::{Account, forecast_as_json};
use crate::platform::config::Config;
use crate::schedule::{self, Access, Forecast};
use chrono::{DateTime, SecondsFormat, Utc};
use std::fmt::Write;

/// Counts and prints.
///
/// # Errors
/// What failed.
pub async fn forecast(output: Output, config: Config) -> Result<(), Ended> {
    config.require(&["database.url"])?;
    let schedule = schedule::connect(&config.database, Access::Api).await.map_err(refused)?;
    let counted = schedule.forecast(&[GatewayName(config.gateway.name.clone())]).await.map_err(failed);
    schedule.close().await;
    let (forecast, account) = (counted?, Account::of(&config.gateway));
    let document = || forecast_as_json(&forecast, &account);
    cli::print(&output.shown(|| as_table(&forecast, &account), document))
}

/// A paragraph a gateway; minutes and days without work are left out.
fn as_table(forecast: &Forecast, account: &Account) -> String {
    let mut text = String::new();
    for of in &forecast.gateways {
        let rate = account.rate_of(of);
        let permitted =
            rate.map_or_else(|| "no rate is set".to_owned(), |rate| format!("{rate} charges a second"));
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "gateway {}: {permitted}; overdue {}; counted at {}",
            of.gateway.0,
            number(of.overdue.count, of.overdue.precision),
            second(forecast.taken_at)
        );
        for (title, spans, form) in
            [("minute", &of.minutes, "%Y-%m-%dT%H:%MZ"), ("day", &of.days, "%Y-%m-%d")]
        {
            let counted = if title == "day" { "         counted at" } else { "" };
            let _ = writeln!(text, "{title:<18}{:>14}{:>14}  worked off at{counted}", "due", "left at end");
            for one in drain(forecast.taken_at, of.overdue.count, spans, rate) {
                if one.has_work() {
                    let counted = if title == "day" { second(one.due.counted_at) } else { String::new() };
                    let line = format!("{}  {counted}", line(&one, form, rate));
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            }
        }
    }
    text
}

fn line(one: &Drained, form: &str, rate: Option<u32>) -> String {
    let from = one.due.from.format(form).to_string();
    let left = rate.map_or_else(|| "?".to_owned(), |_| one.left_at_end.to_string());
    let at = one.drained_at.map_or_else(|| "?".to_owned(), second);
    format!("{from:<18}{:>14}{left:>14}  {at:<20}", number(one.due.count, one.due.precision))
}

fn number(count: i64, precision: Precision) -> String {
    match precision {
        Precision::Exact => count.to_string(),
        Precision::AtLeast => format!(">={count}"),
        Precision::About => format!("~{count}"),
    }
}

fn second(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::forecast::Due;
    use crate::platform::config::Gateway;
    use crate::schedule::GatewayForecast;
    use chrono::TimeDelta;

    #[test]
    fn a_spike_is_shown_with_the_minutes_that_it_spills_into() {
        let at: DateTime<Utc> = "2030-01-31T23:59:00Z".parse().unwrap();
        let due = |n: i32, count, precision| {
            let from = at + TimeDelta::minutes(1) * n;
            Due {
                from,
                until: from + TimeDelta::minutes(1),
                count,
                precision,
                first_at: None,
                counted_at: at,
            }
        };
        let of = GatewayForecast {
            gateway: GatewayName("sandbox".into()),
            rate_limit: None,
            overdue: due(-1, 0, Precision::Exact),
            minutes: (0..5).map(|n| due(n, if n == 1 { 12_000 } else { 0 }, Precision::Exact)).collect(),
            days: vec![due(0, 3_000_000, Precision::About)],
        };
        let forecast = Forecast { taken_at: at, gateways: vec![of] };
        let mut gateway = Gateway { rate: 125, lookup_share: 20, ..Gateway::default() };
        let text = as_table(&forecast, &Account::of(&gateway));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "gateway sandbox: 100 charges a second; overdue 0; counted at 2030-01-31T23:59:00Z",
                "minute                       due   left at end  worked off at",
                "2030-02-01T00:00Z          12000          6000  2030-02-01T00:02:00Z",
                "day                          due   left at end  worked off at         counted at",
                "2030-01-31              ~3000000       2994000  2030-02-01T08:19:00Z  2030-01-31T23:59:00Z",
            ]
        );
        gateway.rate = 0;
        let text = as_table(&forecast, &Account::of(&gateway));
        assert!(text.contains("no rate is set") && text.contains("12000             ?  ?"), "{text}");
    }
}
