//! A private server whose backups are real: the tools of its own version, and another server at the same address.

use super::eventually;
use punctual::dev::postgres::Postgres as Server;
use punctual::dev::{Durability, ports};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server that forgets nothing, at an address that stays.
pub struct PrivateServer {
    server: Server,
    port: u16,
    homes: tempfile::TempDir,
}

impl PrivateServer {
    /// An empty one.
    pub async fn new() -> Self {
        let homes = tempfile::tempdir().expect("a folder");
        // The server may run as another user than this one.
        open(homes.path());
        let port = ports::free();
        let home = homes.path().join("first");
        std::fs::create_dir(&home).expect("a folder");
        open(&home);
        let server = Server::start(&home, port, Durability::Durable).await.expect("a server");
        Self { server, port, homes }
    }

    /// Of the server that runs, as of the one after it.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A path of this test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.homes.path().join(name)
    }

    /// A home for another server.
    pub fn home(&self, name: &str) -> PathBuf {
        let home = self.path(name);
        std::fs::create_dir_all(&home).expect("a folder");
        open(&home);
        home
    }

    /// Runs one statement as the superuser.
    pub async fn run(&self, statement: &str) {
        let mut sql = eventually("the server answers", Duration::from_secs(30), || async {
            PgConnection::connect(&self.url()).await.ok()
        })
        .await;
        let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut sql).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// A tool of the server's own version.
    pub async fn tool(&self, name: &str) -> Command {
        let mut sql = PgConnection::connect(&self.url()).await.expect("the server answers");
        let folder: String = sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
            .fetch_one(&mut sql)
            .await
            .expect("its folder");
        let mut command = Command::new(Path::new(&folder).join(name));
        let port = self.port.to_string();
        command.args(["-h", "127.0.0.1", "-U", "punctual", "-p", &port]);
        command
    }

    /// `pg_basebackup` into a home of its own.
    pub async fn base_backup(&self, name: &str, options: &[&str]) -> PathBuf {
        let home = self.home(name);
        let folder = home.join("postgres");
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut tool = self.tool("pg_basebackup").await;
        tool.arg("-D").arg(folder.join("data")).args(["-c", "fast", "-X", "stream"]).args(options);
        succeeds(tool);
        self.give_away(&folder);
        home
    }

    /// To whoever the server runs as.
    pub fn give_away(&self, folder: &Path) {
        let mut own = Command::new("chown");
        own.arg("-R").arg(format!("--reference={}", self.path("first/postgres/data").display())).arg(folder);
        succeeds(own);
    }

    /// The server dies, and another takes its address.
    pub async fn replace(&mut self, home: &Path) {
        self.server.kill();
        let (port, home) = (self.port, home.to_owned());
        self.server = eventually("the other server runs", Duration::from_secs(60), || {
            let home = home.clone();
            async move { Server::start(&home, port, Durability::Durable).await.ok() }
        })
        .await;
    }
}

fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Runs it.
///
/// # Panics
/// Unless it exits 0.
pub fn succeeds(mut command: Command) {
    let output = command.env("LC_ALL", "C").output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
