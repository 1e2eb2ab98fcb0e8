//! The receivers under `examples/` take what we sign, and nothing that is not exactly that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use punctual::domain::webhook::{WebhookSecret, test_message};
use sha2::Sha256;
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

const RECEIVERS: [[&str; 2]; 3] = [
    ["bash", "examples/curl/verify_webhook.sh"],
    ["python3", "examples/python/verify_webhook.py"],
    ["node", "examples/typescript/verify_webhook.mjs"],
];

/// As Standard Webhooks has it, written here a second time.
fn signature(secret: &WebhookSecret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut signer = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("any length");
    signer.update(format!("{id}.{timestamp}.").as_bytes());
    signer.update(body);
    format!("v1,{}", STANDARD.encode(signer.finalize().into_bytes()))
}

/// Whether the receiver takes it, and what it says.
async fn takes(
    receiver: [&str; 2],
    secret: &str,
    (id, timestamp, signatures): (&str, i64, &str),
    body: &[u8],
) -> (bool, String) {
    let mut command = Command::new(receiver[0]);
    command.arg(receiver[1]).args([id, &timestamp.to_string(), signatures]).env("WEBHOOK_SECRET", secret);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    // One that refuses at once reads nothing.
    let _ = input.write_all(body).await;
    drop(input);
    let output = child.wait_with_output().await.expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).trim().to_owned())
}

#[tokio::test]
async fn every_receiver_takes_what_we_sign_and_nothing_else() {
    let (secret, next) = (WebhookSecret::new([0xfb; 32]), WebhookSecret::new([1; 32]));
    let now = chrono::Utc::now();
    let body = test_message(Uuid::from_u128(1), Uuid::from_u128(2), now);
    let id = format!("{}/0", Uuid::from_u128(2));
    let at = now.timestamp();
    let good = signature(&secret, &id, at, &body);
    let both = format!("{} {good}", signature(&next, &id, at, &body));
    let long_ago = signature(&secret, &id, at - 400, &body);
    let mut changed = body.clone();
    changed.push(b' ');
    for receiver in RECEIVERS {
        for (why, takes_it, headers, body) in [
            ("as it was sent", true, (id.as_str(), at, good.as_str()), &body),
            ("signed by two secrets", true, (&id, at, &both), &body),
            ("another body", false, (&id, at, &good), &changed),
            ("another id", false, ("x/0", at, &good), &body),
            ("another time", false, (&id, at - 1, &good), &body),
            ("sent long ago", false, (&id, at - 400, &long_ago), &body),
            ("no signature", false, (&id, at, "v1, v1"), &body),
            ("a part of one", false, (&id, at, &good[..good.len() - 4]), &body),
            ("of another version", false, (&id, at, &good.replacen("v1,", "v2,", 1)), &body),
        ] {
            let (taken, said) = takes(receiver, &secret.text(), headers, body).await;
            assert_eq!(taken, takes_it, "{receiver:?}: {why}: {said}");
            let says = if takes_it { "webhook.test " } else { "refused: " };
            assert!(said.starts_with(says), "{receiver:?}: {why}: {said}");
        }
    }
}
