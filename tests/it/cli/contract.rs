//! What every command promises about its output, its exit code and its readers.

use crate::support::installation::PUNCTUAL;
use crate::support::stub::{Ran, Reply, Stub, run};
use serde_json::{Value, json};
use std::process::Stdio;

fn payment(number: usize) -> Value {
    json!({"paymentId": format!("p-{number}"), "status": "COMPLETED", "amount": 1_250, "currency": "EUR",
        "dueAt": "2030-01-31T09:00:00Z", "gateway": "sandbox", "externalId": null, "statusReason": null})
}

/// Pages of two without an end.
async fn endless() -> Stub {
    Stub::start(|_, before| {
        let data = [payment(2 * before), payment(2 * before + 1)];
        Reply::json(200, &json!({"data": data, "nextCursor": "more"}))
    })
    .await
}

async fn empty() -> Stub {
    Stub::start(|_, _| Reply::json(200, &json!({"data": [], "nextCursor": null}))).await
}

/// The same line in a terminal of 80 columns, as `script` makes one.
async fn on_a_terminal(url: &str, line: &str, environment: &[(&str, &str)]) -> Ran {
    let mut command = tokio::process::Command::new("script");
    command.args(["-qec", &format!("'{PUNCTUAL}' {line}"), "/dev/null"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm");
    command.env("PUNCTUAL_URL", url).env("PUNCTUAL_API_KEY", "pk_test_stub");
    command.envs(environment.iter().copied()).stdin(Stdio::null());
    command.output().await.expect("script(1) is part of every Linux").into()
}

#[tokio::test]
async fn an_empty_list_is_an_empty_array_or_nothing() {
    let stub = empty().await;
    for (form, wanted) in [("json", "[]\n"), ("jsonl", ""), ("table", "")] {
        let ran = stub.run(&["payment", "list", "-o", form]).await;
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), wanted, ""), "{form}");
    }
}

#[tokio::test]
async fn in_a_pipe_a_table_is_tabs_without_headline_and_colour() {
    let stub = endless().await;
    let ran = stub.run(&["payment", "list", "--limit", "3"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let line =
        |number: usize| format!("p-{number}\tCOMPLETED\t12.50 EUR\t2030-01-31T09:00:00Z\tsandbox\t\t\n");
    assert_eq!(ran.out, (0..3).map(line).collect::<String>());
    assert_eq!(ran.err, "punctual: there are more: ask for all, or for more with --limit\n");
    let asked: Vec<String> = stub.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(asked, ["/v1/scheduled-payments?limit=3", "/v1/scheduled-payments?limit=1&cursor=more"]);
    let json = stub.run(&["payment", "list", "--limit", "3", "-o", "json"]).await;
    let items: Vec<Value> = serde_json::from_str(&json.out).expect("one document");
    assert_eq!(items.len(), 3);
    let lines = stub.run(&["payment", "list", "--limit", "3", "-o", "jsonl"]).await;
    assert!(lines.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", lines.out);
}

#[tokio::test]
async fn on_a_terminal_a_table_has_a_headline_and_colours_unless_nobody_wants_them() {
    let stub = endless().await;
    let ran = on_a_terminal(&stub.url, "payment list --limit 2", &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(
        ran.out.contains("PAYMENT  STATUS     AMOUNT") && ran.out.contains("\u{1b}[32mCOMPLETED"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains('\t'), "{}", ran.out);
    for unwanted in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let ran = on_a_terminal(&stub.url, "payment list --limit 2", &[unwanted]).await;
        assert!(ran.out.contains("PAYMENT") && !ran.out.contains('\u{1b}'), "{unwanted:?}: {:?}", ran.out);
    }
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_ends_the_walk_quietly() {
    let stub = endless().await;
    for form in ["jsonl", "table", "json"] {
        let line =
            format!("'{PUNCTUAL}' payment list --all -o {form} | head -n 1; echo \"${{PIPESTATUS[0]}}\"");
        let mut bash = tokio::process::Command::new("bash");
        bash.args(["-c", &line]).env("PUNCTUAL_URL", &stub.url).env("PUNCTUAL_API_KEY", "pk_test_stub");
        let ran = Ran::from(bash.output().await.expect("bash runs"));
        let lines: Vec<&str> = ran.out.lines().collect();
        assert_eq!(
            (lines.len(), lines[lines.len() - 1], ran.err.as_str()),
            (2, "0", ""),
            "{form}: {lines:?}"
        );
    }
    // The list has no end, so each walk ended because nobody read it.
    assert!(stub.seen().len() >= 3);
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_not_done_where_nobody_can_be_asked() {
    let stub = empty().await;
    let reason = ["--reason", "because"];
    for line in [
        &["payment", "cancel", "p-1"][..],
        &["parked", "redrive", "p-1", reason[0], reason[1]],
        &["parked", "resolve", "p-1", "--as", "not_charged", "--source", "x", reason[0], reason[1]],
        &["refund", "create", "p-1", "--gateway-reference", "g", reason[0], reason[1]],
        &["approvals", "approve", "a-1", reason[0], reason[1]],
        &["gateway", "pause", "sandbox", reason[0], reason[1]],
        &["switch", "on", "global", reason[0], reason[1]],
        &["api-keys", "revoke", "k-1", reason[0], reason[1]],
    ] {
        let ran = stub.run(line).await;
        assert!(ran.code == Some(2) && ran.err.contains("--yes"), "{line:?}: {ran:?}");
        let without_reason: Vec<&str> = line.iter().copied().filter(|word| !reason.contains(word)).collect();
        if without_reason.len() < line.len() {
            let ran = stub.run(&[&without_reason[..], &["--yes"]].concat()).await;
            assert!(ran.code == Some(2) && ran.err.contains("--reason"), "{without_reason:?}: {ran:?}");
        }
    }
    assert_eq!(stub.seen().len(), 0, "nothing was asked of the API");
}

#[tokio::test]
async fn a_person_at_a_terminal_is_asked_and_only_yes_is_yes() {
    let cancelled = json!({"paymentId": "p-1", "status": "CANCELLED"});
    let stub = Stub::start(move |_, _| Reply::json(200, &cancelled)).await;
    for (typed, code, asked) in [("no", Some(1), 0), ("", Some(1), 0), ("yes", Some(0), 1)] {
        let before = stub.seen().len();
        let mut command = tokio::process::Command::new("script");
        command.args(["-qec", &format!("'{PUNCTUAL}' payment cancel p-1"), "/dev/null"]);
        command.env("PUNCTUAL_URL", &stub.url).env("PUNCTUAL_API_KEY", "pk_test_stub").stdin(Stdio::piped());
        command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("script runs");
        let mut input = child.stdin.take().expect("a pipe");
        tokio::io::AsyncWriteExt::write_all(&mut input, format!("{typed}\n").as_bytes())
            .await
            .expect("typed");
        let ran = Ran::from(child.wait_with_output().await.expect("it ends"));
        assert!(ran.out.contains("Type yes"), "{ran:?}");
        assert_eq!((ran.code, stub.seen().len() - before), (code, asked), "{typed:?}: {ran:?}");
        drop(input);
    }
}

#[tokio::test]
async fn the_exit_code_says_what_the_api_answered() {
    for (status, code) in
        [(401, 4), (403, 4), (404, 5), (409, 6), (400, 2), (422, 2), (429, 1), (500, 1), (503, 1)]
    {
        let stub = Stub::start(move |_, _| Reply::problem(status, "some_code")).await;
        for line in [&["payment", "show", "p"][..], &["payment", "list"], &["payment", "explain", "p"]] {
            let ran = stub.run(line).await;
            assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{status} {line:?}: {}", ran.err);
            assert_eq!(ran.err, "punctual: some_code: It is so.\npunctual: Request r-1.\n");
        }
    }
}

#[tokio::test]
async fn what_is_not_the_api_is_said_to_be_none() {
    let page = "<html>\u{1b}[2Jsorry</html>";
    let stub = Stub::start(move |_, _| Reply { status: 200, headers: Vec::new(), body: page.into() }).await;
    let ran = stub.run(&["payment", "show", "p"]).await;
    assert!(
        ran.code == Some(1) && ran.err.contains("no JSON: <html>") && !ran.err.contains('\u{1b}'),
        "{ran:?}"
    );
    let gone = run("http://127.0.0.1:1", &["payment", "show", "p"]).await;
    assert!(gone.code == Some(1) && gone.err.contains("no answer from the API"), "{gone:?}");
    let wrong = run("127.0.0.1:8080", &["payment", "list"]).await;
    assert!(wrong.code == Some(2) && wrong.err.contains("client.url"), "{wrong:?}");
}

#[tokio::test]
async fn the_key_comes_from_the_environment_or_a_setting_and_is_never_shown() {
    let stub = empty().await;
    stub.run(&["payment", "list"]).await;
    stub.run(&["payment", "list", "--set", "client.api_key=pk_test_other"]).await;
    let sent: Vec<Option<String>> = stub.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(sent, [Some("Bearer pk_test_stub".to_owned()), Some("Bearer pk_test_other".to_owned())]);
    let without = stub.run(&["payment", "list", "--set", "client.api_key="]).await;
    assert!(without.code == Some(2) && without.err.contains("PUNCTUAL_API_KEY"), "{without:?}");
    let shown = stub.run(&["config", "show"]).await;
    assert!(shown.out.contains("client.api_key") && !shown.out.contains("pk_test"), "{}", shown.out);
}

#[tokio::test]
async fn completions_know_every_command_and_need_no_settings() {
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef punctual"), ("fish", "complete -c punctual")]
    {
        let ran = run("not an address", &["completions", shell]).await;
        assert!(ran.code == Some(0) && ran.err.is_empty(), "{ran:?}");
        for word in [sign, "payment", "redrive", "api-keys"] {
            assert!(ran.out.contains(word), "{shell}: no {word}");
        }
    }
    let bash = format!("eval \"$('{PUNCTUAL}' completions bash)\" && complete -p punctual");
    let output = tokio::process::Command::new("bash").args(["-c", &bash]).output().await.expect("bash runs");
    assert!(output.status.success(), "{output:?}");
}
