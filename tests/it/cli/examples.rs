//! The clients under `examples/` do what they say, each against a real API with a worker behind it.

use crate::support::installation::Installation;
use std::path::Path;
use std::process::Stdio;

/// What each says, line by line, before what differs from run to run.
const SAYS: [&str; 4] = ["created ", "repeated: still one payment", "cancelled", "completed: "];

#[tokio::test]
async fn every_example_creates_repeats_cancels_and_waits() {
    let mut site = Installation::new(&[]).await;
    for (role, name) in [("api", "api-1"), ("relay", "relay-1"), ("worker", "worker-1")] {
        site.start(role, name, &[]).await;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut charged = 0;
    for line in [
        &["bash", "examples/curl/pay.sh"][..],
        &["python3", "examples/python/pay.py"],
        &["node", "examples/typescript/pay.mjs"],
    ] {
        let mut command = tokio::process::Command::new(line[0]);
        command.args(&line[1..]).current_dir(root).stdin(Stdio::null());
        for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.env("PUNCTUAL_URL", site.url("api-1")).env("PUNCTUAL_API_KEY", &site.api_key);
        let output = command.output().await.unwrap_or_else(|error| panic!("{} runs: {error}", line[0]));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line:?}: {out}{err}");
        let said: Vec<&str> = out.lines().filter(|said| !said.starts_with("another amount")).collect();
        assert_eq!(said.len(), SAYS.len(), "{line:?}: {out}");
        assert!(said.iter().zip(SAYS).all(|(said, says)| said.starts_with(says)), "{line:?}: {out}");
        charged += 1;
        let ledger = site.ledger().await;
        assert_eq!(ledger.len(), charged, "one charge an example: {ledger:?}");
        let reference = format!("completed: ch_{}", ledger[charged - 1]["seq"]);
        assert_eq!(said[3], reference, "{line:?}");
    }
}
