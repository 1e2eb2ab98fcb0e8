//! `punctual dev`: one command that brings up everything on one machine.
//!
//! **Promise.** When the names are printed, everything behind them is ready. Whatever ends the
//! command — Ctrl-C, a termination signal, a service that dies, the end of standard input if asked,
//! or a kill that cannot be caught — leaves no process, and no file unless `--data-dir` was given
//! (after a kill: until the next `punctual dev`).
//!
//! The parts: `services` (both together), `postgres`, `kafka` with `artifacts` (where the broker
//! comes from), `home` (the folder and its owner), `children` (processes that cannot outlive us),
//! `orphans` (what an earlier run left), `ports`, `failure`.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes, never for payments")]

pub mod artifacts;
pub mod children;
mod everything;
mod failure;
mod home;
pub mod kafka;
mod orphans;
pub mod ports;
pub mod postgres;
mod seed;
mod services;

pub use failure::Failure;
pub use postgres::Durability;
pub use services::{Endpoints, KafkaChoice, Ports, Services, ServicesOptions};

use crate::cli::SettingsArgs;
use everything::Everything;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How the names are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// `NAME=value`, one a line, for scripts; the last line is `PUNCTUAL_READY=1`.
    Env,
    /// One object on one line.
    Json,
    /// For people.
    Table,
}

/// `punctual dev`
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Start only Postgres and Kafka.
    #[arg(long)]
    pub services_only: bool,
    /// How many workers to run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub workers: u16,
    /// Post no payments of our own.
    #[arg(long)]
    pub no_seed: bool,
    /// How to print where everything is.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
    /// Use free ports instead of 15432 and 19092.
    #[arg(long)]
    pub random_ports: bool,
    /// Keep the data here instead of in a temporary folder that is removed at the end.
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Also stop when standard input closes, so that a parent's death ends everything.
    #[arg(long)]
    pub until_stdin_closes: bool,
    /// Let commits survive a power cut, as in production (slower).
    #[arg(long)]
    pub durable: bool,
    /// How many Kafka brokers to start.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub brokers: u16,
    /// `real` (Apache Kafka, started here; the default of --services-only), `in-process` (a stand-in,
    /// the default otherwise) or somebody's servers.
    #[arg(
        long,
        env = "KAFKA_BOOTSTRAP_SERVERS",
        hide_env_values = true,
        value_name = "real|in-process|HOST:PORT,…"
    )]
    pub kafka: Option<String>,
}

impl Args {
    fn services(&self) -> ServicesOptions {
        ServicesOptions {
            data_dir: self.data_dir.clone(),
            ports: if self.random_ports { Ports::Random } else { Ports::Usual },
            durability: if self.durable { Durability::Durable } else { Durability::TestOnly },
            kafka: match self.kafka.as_deref() {
                // What tests stand on is the real thing; what people look at starts in seconds.
                None | Some("") if !self.services_only => KafkaChoice::InProcess,
                None | Some("" | "real") => KafkaChoice::Real(self.brokers),
                Some("in-process") => KafkaChoice::InProcess,
                Some(servers) => KafkaChoice::External(servers.to_owned()),
            },
        }
    }
}

/// Runs until told to stop. Exit codes: 0 stopped as told, 1 something failed, 2 bad usage.
pub async fn run(args: Args, settings: SettingsArgs) -> ExitCode {
    match serve(&args, &settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("punctual dev: {failure}");
            match failure {
                Failure::Part(ended) => ended.exit.into(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn serve(args: &Args, settings: &SettingsArgs) -> Result<(), Failure> {
    let mut told = std::pin::pin!(told_to_stop(args.until_stdin_closes)?);
    let tell = |line: &str| eprintln!("{line}");
    // Told to stop while starting: dropping the future kills what it has started.
    let mut services = tokio::select! {
        biased;
        () = &mut told => return Ok(()),
        started = Services::start(args.services(), tell) => started?,
    };
    let mut everything = None;
    if !args.services_only {
        tell("Starting every role");
        everything = tokio::select! {
            biased;
            () = &mut told => None,
            started = Everything::start(args, settings, &services) => Some(started?),
        };
    }
    let ours = everything.as_ref().map_or(&[][..], Everything::names);
    let sets = everything.as_ref().map_or(&[][..], Everything::sets);
    print(args.output, (ours, sets), services.endpoints())
        .map_err(Failure::io("print where everything is"))?;
    let ended = loop {
        tokio::select! {
            biased;
            () = &mut told => break Ok(()),
            failure = ended(&mut everything) => break Err(failure),
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        if let Err(failure) = services.still_up() {
            break Err(failure);
        }
    };
    if let Some(everything) = everything {
        everything.stop().await;
    }
    services.stop().await;
    ended
}

async fn ended(everything: &mut Option<Everything>) -> Failure {
    match everything {
        Some(everything) => everything.ended().await,
        None => std::future::pending().await,
    }
}

/// Completes at Ctrl-C, SIGTERM, SIGHUP or, if asked, the end of standard input.
fn told_to_stop(until_stdin_closes: bool) -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(Failure::io("listen for signals"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    let (close, closed) = tokio::sync::oneshot::channel::<()>();
    let watch = until_stdin_closes.then_some(closed);
    if until_stdin_closes {
        // A plain thread: the runtime would wait for a blocking read at its own end.
        std::thread::spawn(move || {
            let mut byte = [0];
            while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
            drop(close);
        });
    }
    Ok(async move {
        let stdin = async {
            match watch {
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
            () = stdin => {}
        }
    })
}

/// `ours` are the names of what runs here, with the settings that another process needs to be told.
fn print(
    output: Output,
    (ours, sets): (&[(&str, String)], &[String]),
    endpoints: &Endpoints,
) -> std::io::Result<()> {
    let ours = ours.iter().map(|(name, value)| (*name, value.as_str()));
    let pairs: Vec<(&str, &str)> = ours.chain(endpoints.pairs()).collect();
    let mut out = std::io::stdout().lock();
    match output {
        Output::Env => {
            for (name, value) in &pairs {
                writeln!(out, "{name}={value}")?;
            }
            writeln!(out, "PUNCTUAL_READY=1")?;
        }
        Output::Json => {
            let object: serde_json::Map<_, _> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            writeln!(out, "{}", serde_json::Value::Object(object))?;
        }
        Output::Table => {
            // As a shell takes them; not exported, since the next `dev` there would take this Kafka for its own.
            writeln!(out, "Where everything is; paste it into a second shell:\n")?;
            for (name, value) in &pairs {
                writeln!(out, "{name}={value}")?;
            }
            if pairs.iter().any(|(name, _)| *name == "PUNCTUAL_URL") {
                recipes(&mut out, &pairs, sets)?;
            }
            writeln!(out, "\nCtrl-C stops everything.")?;
        }
    }
    out.flush()
}

/// What to try, ready to paste.
fn recipes(out: &mut impl Write, pairs: &[(&str, &str)], sets: &[String]) -> std::io::Result<()> {
    let of = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| value);
    let (url, key) = (of("PUNCTUAL_URL"), of("PUNCTUAL_API_KEY"));
    let (sandbox, kafka) = (of("SANDBOX_URL"), of("KAFKA_BOOTSTRAP_SERVERS"));
    let sets: String = sets.iter().map(|set| format!(" --set {set}")).collect();
    writeln!(
        out,
        r#"
Look at it in a browser, and log in with the key:
  {url}/ui
Create a payment due in 20 seconds, look at it, cancel it:
  curl -s {url}/v1/scheduled-payments -H "Authorization: Bearer {key}" \
    -H "Idempotency-Key: try-$(date +%s)" -H "Content-Type: application/json" \
    -d '{{"payee":"sim_ok","amount":1250,"currency":"EUR","dueAt":"'$(date -u -d '+20 seconds' +%FT%TZ)'"}}'
  curl -s {url}/v1/scheduled-payments/PAYMENT_ID -H "Authorization: Bearer {key}"
  curl -s -X DELETE {url}/v1/scheduled-payments/PAYMENT_ID -H "Authorization: Bearer {key}"
Watch the notices:
  kcat -C -b {kafka} -t payments.due.now -e -f '%k %s\n'
What the gateway charged:
  curl -s {sandbox}/ledger
Break the gateway for ten minutes, and mend it (create some payments meanwhile, and look at the pages):
  curl -s -X PUT {sandbox}/outage -H "Authorization: Bearer sandbox-secret" -d '{{"kind":"unavailable","forMs":600000}}'
  curl -s -X DELETE {sandbox}/outage -H "Authorization: Bearer sandbox-secret"
What is wrong, and what mends it:
  DATABASE_URL={} KAFKA_BOOTSTRAP_SERVERS={kafka} SANDBOX_URL={sandbox} \
    punctual doctor{sets}"#,
        of("DATABASE_URL"),
    )
}
