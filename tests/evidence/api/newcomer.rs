//! A new user with the README and curl: `punctual dev` prints names, they are pasted into a second shell, and
//! the README's own commands are run there as they stand, up to one payment that is cancelled and one that is
//! paid.

use crate::dev::{Dev, LONGEST};
use crate::figures::{Figures, Holds};
use crate::readme::{README, answers, block, broken, promises};
use serde_json::Value;
use std::time::Instant;
use tokio::process::Command;

/// Printed between the README's two blocks.
const BETWEEN: &str = "== one that is paid";

/// Everything that a reader would do.
pub async fn the_readme_s_curls_pay_and_cancel(figures: &mut Figures) {
    figures.part("A new user: punctual dev, and the README's own curls in a second shell");
    let began = Instant::now();
    let dev = Dev::start(&[]).await;
    let started = began.elapsed();
    figures.holds(
        "until it was ready",
        format!("{} ms", started.as_millis()),
        "≤ 60 s",
        Holds(started.as_secs() < 60),
    );
    let (curls, paid) = (block(README, "api"), block(README, "paid"));
    let code = format!("{}\n{curls}\necho '{BETWEEN}'\n{paid}", dev.names);
    let home = tempfile::tempdir().expect("a folder");
    std::fs::write(home.path().join(".curlrc"), "noproxy = \"*\"\n").expect("curl's settings can be written");
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &code]).env_clear().current_dir(home.path()).kill_on_drop(true);
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("CURL_HOME", home.path());
    let began = Instant::now();
    let output =
        tokio::time::timeout(LONGEST, shell.output()).await.expect("the shell ends").expect("bash runs");
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let clean = output.status.success() && said.is_empty();
    figures.holds(
        "the shell",
        format!("{}, {} ms", output.status, took.as_millis()),
        "exit status: 0, nothing said",
        Holds(clean),
    );
    if !clean {
        println!("{said}");
    }
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, second) = shown.split_once(BETWEEN).unwrap_or((shown.as_str(), ""));
    let (promised, seen) = (promises(curls), answers(first.as_bytes()));
    let wrong: Vec<String> =
        promised.iter().zip(&seen).filter_map(|(promised, seen)| broken(promised, seen)).collect();
    let missing = promised.len().abs_diff(seen.len());
    figures.violations(
        "answers of the curls that are not as the README says",
        promised.len(),
        wrong.len() + missing,
        &wrong,
    );
    for (number, answer) in seen.iter().enumerate() {
        println!("      {}. {:.150}", number + 1, answer.body.to_string());
    }
    let cancelled = seen.iter().map(|it| &it.body).find(|body| body["status"] == "CANCELLED");
    let completed: Option<Value> = second.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    println!("      {:.150}", second.trim());
    in_the_ledger(figures, &dev, "CANCELLED", cancelled, 0).await;
    in_the_ledger(figures, &dev, "COMPLETED", completed.as_ref(), 1).await;
    let code = dev.end().await;
    figures.holds(
        "the end of punctual dev",
        format!("exit {code:?}"),
        "exit Some(0)",
        Holds(code == Some(0)),
    );
}

/// What the API said of a payment, beside what the gateway charged for it.
async fn in_the_ledger(
    figures: &mut Figures,
    dev: &Dev,
    state: &str,
    payment: Option<&Value>,
    wanted: usize,
) {
    let none = Value::Null;
    let payment = payment.unwrap_or(&none);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let ledger =
        http.get(format!("{}/ledger", dev.value("SANDBOX_URL"))).send().await.expect("the sandbox answers");
    let ledger = ledger.text().await.expect("a body");
    let charged = ledger.lines().filter(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["charged"] == true && line["paymentId"] == payment["paymentId"]
    });
    let charged = charged.count();
    let status = payment["status"].as_str().unwrap_or("none");
    let holds = status == state && payment["paymentId"].is_string() && charged == wanted;
    let shown = format!("{status}, {charged} charges in the ledger");
    figures.holds("a payment of theirs", shown, &format!("{state}, {wanted}"), Holds(holds));
}
