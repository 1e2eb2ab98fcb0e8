//! A private Postgres cluster from the binaries of this machine.
//!
//! **Promise.** One server on 127.0.0.1 and a Unix socket, with its data in the given folder, run
//! by an unprivileged user when we are root (the server refuses root), trusting the role `punctual`.
//! It is ready when [`Postgres::start`] returns and gone when the value is dropped.
//!
//! **Why our own cluster.** Tests need `fsync = off`, hundreds of partitions and a server that may
//! be killed; nobody wants that done to the cluster that the machine already has.
//!
//! **Durability.** [`Durability::TestOnly`] turns fsync and synchronous commit off: fast, and a
//! power cut loses it all. Nothing measured with it may be called durable; figures use
//! [`Durability::Durable`].
//!
//! **If this dies here**: see `children`; the next run stops what is left by the server's pid file.

use super::children::{Child, LastWord, Launch, User, run_tool};
use super::failure::Failure;
use super::home::make_folder;
use super::{orphans, ports};
use rustix::process::{Pid, Signal, geteuid};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The role and the database that a new cluster has.
const NAME: &str = "punctual";
/// The oldest major version that the schema works on.
const OLDEST: u32 = 15;
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A killed server's own children may hold its shared memory for a moment.
const RESTART_WITHIN: Duration = Duration::from_secs(15);

/// Whether a commit survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As in production.
    Durable,
    /// Fast, for tests.
    TestOnly,
}

/// A server with its data folder.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    folder: PathBuf,
    port: u16,
    durability: Durability,
    user: Option<User>,
    server: Option<Child>,
}

impl Postgres {
    /// Makes the cluster in `home/postgres` unless it is there, and starts it on `port`.
    ///
    /// # Errors
    /// [`Failure::Missing`] without server binaries; otherwise why it is not up.
    pub async fn start(home: &Path, port: u16, durability: Durability) -> Result<Self, Failure> {
        let user = unprivileged_user()?;
        let folder = home.join("postgres");
        let wanted = fs::read_to_string(folder.join("data/PG_VERSION")).ok();
        let binaries = find_binaries(wanted.as_deref().map(str::trim))?;
        let mut this = Self { binaries, folder, port, durability, user, server: None };
        if wanted.is_none() {
            this.create().await?;
        }
        this.launch().await?;
        Ok(this)
    }

    /// `postgres://…` for the database `punctual` as its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.port)
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// [`Failure::NotUp`] if the server has ended by itself.
    pub(crate) fn still_up(&mut self) -> Result<(), Failure> {
        self.server.as_mut().map_or(Ok(()), Child::still_up)
    }

    /// Fast shutdown: sessions are cut, everything committed is kept.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Signal::INT, Duration::from_secs(20)).await;
        }
    }

    /// As a crash: no shutdown, no checkpoint.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Stops the server if it runs, and starts it on the same port and data.
    ///
    /// # Errors
    /// Why it is not up.
    pub async fn restart(&mut self) -> Result<(), Failure> {
        self.stop().await;
        let deadline = Instant::now() + RESTART_WITHIN;
        loop {
            match self.launch().await {
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(200)).await,
                done => return done,
            }
        }
    }

    async fn create(&self) -> Result<(), Failure> {
        make_folder(&self.folder, self.user)?;
        self.check_passage().await?;
        let data = self.folder.join("data");
        let mut initdb = self.tool("initdb");
        initdb.args(["--username", NAME, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]);
        initdb.args(["--no-instructions", "--no-sync", "--pgdata"]).arg(&data);
        run_tool(initdb, self.user, b"").await?;
        // Single-user mode makes the database without a client program or a running server.
        let mut single = self.tool("postgres");
        single.args(["--single", "-F", "-D"]).arg(&data).arg("postgres");
        run_tool(single, self.user, format!("CREATE DATABASE {NAME}\n").as_bytes()).await?;
        Ok(())
    }

    /// A home folder of mode 0700, for one, keeps the server's user out of everything below it.
    async fn check_passage(&self) -> Result<(), Failure> {
        let mut enter = Command::new("/bin/sh");
        enter.args(["-c", "cd \"$0\""]).arg(&self.folder).current_dir("/");
        run_tool(enter, self.user, b"").await.map(drop).map_err(|_| Failure::Io {
            doing: format!(
                "let the system user of Postgres pass through every folder of {}; choose another --data-dir",
                self.folder.display()
            ),
            source: io::ErrorKind::PermissionDenied.into(),
        })
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command.current_dir(&self.folder).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }

    async fn launch(&mut self) -> Result<(), Failure> {
        if !ports::is_free(self.port) {
            return Err(Failure::PortTaken { name: "Postgres", port: self.port });
        }
        let data = self.folder.join("data");
        let configuration = data.join("postgresql.conf");
        fs::write(&configuration, self.settings())
            .map_err(Failure::io(format!("write {}", configuration.display())))?;
        let mut server = Child::start(Launch {
            name: "Postgres".to_owned(),
            program: self.binaries.join("postgres"),
            args: vec!["-D".into(), data.clone().into()],
            log: self.log(),
            folder: self.folder.clone(),
            user: self.user,
            last_word: LastWord::Interrupt,
        })?;
        let start = Instant::now();
        while !is_ready(&data, server.id()) {
            server.still_up()?;
            if start.elapsed() > READY_WITHIN {
                let how = format!("was not ready after {} s", READY_WITHIN.as_secs());
                return Err(Failure::not_up("Postgres", how, server.log()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.server = Some(server);
        Ok(())
    }

    /// The whole `postgresql.conf`, written anew at each start, since port and durability may change.
    fn settings(&self) -> String {
        let mut settings = vec![
            format!("port = {}", self.port),
            "listen_addresses = '127.0.0.1'".to_owned(),
            format!("unix_socket_directories = '{}'", self.socket_folder()),
            "max_connections = 300".to_owned(),
            "shared_buffers = '256MB'".to_owned(),
            // Each day partition and each of its indexes is a lock; the horizon has hundreds.
            "max_locks_per_transaction = 512".to_owned(),
            "max_wal_size = '2GB'".to_owned(),
            "random_page_cost = 1.1".to_owned(),
            "jit = off".to_owned(),
            "timezone = 'UTC'".to_owned(),
            "log_timezone = 'UTC'".to_owned(),
            "log_line_prefix = '%m [%p] %a '".to_owned(),
            // Bind values are personal data; keep them out of the log even when a statement fails.
            "log_parameter_max_length = 0".to_owned(),
            "log_parameter_max_length_on_error = 0".to_owned(),
            // In files of the data folder, so that a killed server leaves nothing in /dev/shm.
            "dynamic_shared_memory_type = mmap".to_owned(),
        ];
        if self.has_statement_statistics() {
            settings.push("shared_preload_libraries = 'pg_stat_statements'".to_owned());
        }
        if self.durability == Durability::TestOnly {
            settings.extend(
                ["fsync", "synchronous_commit", "full_page_writes"].map(|name| format!("{name} = off")),
            );
        }
        settings.push(String::new());
        settings.join("\n")
    }

    /// The folder of the socket, or nothing when its path would pass the system's 107 bytes.
    fn socket_folder(&self) -> String {
        let folder = self.folder.display().to_string();
        if folder.len() < 85 { folder } else { String::new() }
    }

    fn has_statement_statistics(&self) -> bool {
        let beside = ["../lib", "../lib/postgresql"].map(|lib| self.binaries.join(lib));
        let told = Command::new(self.binaries.join("pg_config")).arg("--pkglibdir").output();
        let told = told.ok().map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        told.into_iter().chain(beside).any(|folder| {
            ["so", "dylib"]
                .iter()
                .any(|ending| folder.join("pg_stat_statements").with_extension(ending).is_file())
        })
    }
}

/// The server writes its id as the first and its state as the eighth line of `postmaster.pid`.
/// Source: `src/include/utils/pidfile.h` of Postgres 10 and later; `pg_ctl -w` reads the same.
fn is_ready(data: &Path, id: u32) -> bool {
    let Ok(text) = fs::read_to_string(data.join("postmaster.pid")) else { return false };
    let mut lines = text.lines();
    lines.next() == Some(id.to_string().as_str()) && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

/// Stops the server that an earlier run left in `home`, if its process is certainly that server.
///
/// # Errors
/// [`Failure::Foreign`] when the process named by the pid file is alive and not recognised.
pub(crate) async fn stop_left_over(home: &Path) -> Result<(), Failure> {
    let data = home.join("postgres/data");
    let file = data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&file) else { return Ok(()) };
    let Some(pid) = orphans::named_in(&text) else { return Ok(()) };
    // A server's working directory is its data folder.
    let is_ours = |proc: &Path| fs::read_link(proc.join("cwd")).is_ok_and(|cwd| cwd == data);
    match orphans::stop(pid, &file, Signal::INT, is_ours).await {
        // The server itself copes with a pid file whose number was given to a stranger.
        Err(Failure::Foreign { .. }) if !is_postgres(pid) => Ok(()),
        done => done,
    }
}

fn is_postgres(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
        .map_or(true, |name| name.trim().starts_with("postgres"))
}

/// `None` when we are not root; otherwise `PUNCTUAL_PG_USER`, `postgres` or `nobody`.
fn unprivileged_user() -> Result<Option<User>, Failure> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(Failure::io("read /etc/passwd"))?;
    let chosen = std::env::var("PUNCTUAL_PG_USER").ok();
    let names = chosen.iter().map(String::as_str).chain(["postgres", "nobody"]);
    let user = names.filter_map(|name| user_named(&users, name)).find(|user| user.uid != 0);
    user.map(Some).ok_or_else(|| Failure::Missing {
        what: "An unprivileged system user for Postgres".to_owned(),
        install: "useradd --system postgres".to_owned(),
    })
}

fn user_named(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some(User { uid: numbers.next()?.parse().ok()?, gid: numbers.next()?.parse().ok()? })
}

/// The folder with `postgres` and `initdb`: `PUNCTUAL_PG_BIN`, else the newest versioned folder of
/// the usual packagers (of major version `wanted`, if given), else `pg_config --bindir`, else PATH.
fn find_binaries(wanted: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(chosen) = std::env::var_os("PUNCTUAL_PG_BIN").map(PathBuf::from) {
        return if is_server_folder(&chosen) {
            Ok(chosen)
        } else {
            let doing = format!("use PUNCTUAL_PG_BIN={}, which has no postgres and initdb", chosen.display());
            Err(Failure::Io { doing, source: io::ErrorKind::NotFound.into() })
        };
    }
    let mut versioned = Vec::new();
    for (folder, prefix) in
        [("/usr/lib/postgresql", ""), ("/usr", "pgsql-"), ("/opt/homebrew/opt", "postgresql@")]
    {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version =
                name.strip_prefix(prefix).filter(|version| wanted.is_none_or(|wanted| wanted == *version));
            let version = version.and_then(|version| version.parse::<u32>().ok());
            if let Some(version) = version.filter(|version| *version >= OLDEST) {
                versioned.push((version, entry.path().join("bin")));
            }
        }
    }
    versioned.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders =
        versioned.into_iter().map(|(_, folder)| folder).chain(told).chain(std::env::split_paths(&path));
    folders.find(|folder| is_server_folder(folder)).ok_or_else(|| Failure::Missing {
        what: wanted
            .map_or("A Postgres 15+ server".to_owned(), |version| format!("A Postgres {version} server")),
        install: wanted.map_or("apt-get install -y postgresql".to_owned(), |version| {
            format!("apt-get install -y postgresql-{version}")
        }),
    })
}

fn is_server_folder(folder: &Path) -> bool {
    folder.join("postgres").is_file() && folder.join("initdb").is_file()
}
