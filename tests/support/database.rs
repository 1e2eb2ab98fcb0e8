//! A fresh, migrated database for each test.
//!
//! The template is made once per server and per content of `migrations/`, under an advisory lock,
//! by whichever test process comes first; a database is then a copy of its files. It is built
//! under another name and renamed when complete, so that a half-made one is never copied.

use super::emitted;
use super::services::services;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::OnceCell;

/// Any number: the key of the lock under which the template is made.
const TEMPLATE_LOCK: i64 = 0x7075_6e63_7431;

/// A database of this test's own; dropped with the value.
#[derive(Debug)]
pub struct TestDatabase {
    /// For the code under test.
    pub url: String,
    name: String,
}

/// Brings a new database to the current schema. The one place that knows how.
async fn prepare_template(url: &str) {
    let config = punctual::platform::config::Database {
        url: url.into(),
        partition_days_ahead: 10,
        ..Default::default()
    };
    punctual::schedule::migrate(&config).await.expect("the migrations run");
}

/// A connection to the database for administration.
pub async fn admin() -> PgConnection {
    options().connect().await.expect("Postgres answers")
}

/// A new database, a copy of the migrated template with a secret of its own, as every installation has:
/// a ring is shared by many tests, one after another, and what one wrote is not another's. It is at home where it is,
/// as if the migrations had run there: otherwise it would be seen as what a copy is, a restore.
pub async fn database() -> TestDatabase {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    let database = copy_of(TEMPLATE.get_or_init(template).await).await;
    let options: PgConnectOptions = database.url.parse().expect("a URL");
    let mut session = options.connect().await.expect("the copy can be reached");
    let fresh = "UPDATE installation SET released_lineage = current_home(),
                 secret = sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))";
    run(&mut session, fresh.to_owned()).await;
    run(&mut session, "UPDATE database_runs SET lineage = current_home()".to_owned()).await;
    session.close().await.expect("goodbye");
    database
}

/// A new database without any schema.
pub async fn empty_database() -> TestDatabase {
    copy_of("template0").await
}

async fn copy_of(template: &str) -> TestDatabase {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("punctual_test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut admin = admin().await;
    run(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    run(&mut admin, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    TestDatabase { url: url_of(&name), name }
}

async fn template() -> String {
    let name = format!("punctual_template_{:016x}", migrations_hash());
    let mut admin = admin().await;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut admin).await.expect("a lock");
    let found = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1").bind(&name);
    if found.fetch_optional(&mut admin).await.expect("a look at the databases").is_none() {
        let building = format!("{name}_building");
        run(&mut admin, format!("DROP DATABASE IF EXISTS {building} WITH (FORCE)")).await;
        run(&mut admin, format!("CREATE DATABASE {building}")).await;
        prepare_template(&url_of(&building)).await;
        run(&mut admin, format!("ALTER DATABASE {building} RENAME TO {name}")).await;
    }
    // Ends the session and with it the lock.
    admin.close().await.expect("goodbye");
    name
}

/// Names and contents, so that a server that is kept never serves yesterday's schema.
fn migrations_hash() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

impl Drop for TestDatabase {
    /// On a thread with a runtime of its own, since the test's may be shutting down.
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                if let Some(folder) = emitted::folder() {
                    emitted::keep(&folder, &name, &url_of(&name)).await;
                }
                let mut admin = admin().await;
                run(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            });
        });
        if dropped.join().is_err() && !std::thread::panicking() {
            panic!("the test's database could not be dropped");
        }
    }
}

fn options() -> PgConnectOptions {
    services().database_url.parse().expect("DATABASE_URL is a URL of Postgres")
}

fn url_of(database: &str) -> String {
    options().database(database).to_url_lossy().to_string()
}

async fn run(connection: &mut PgConnection, statement: String) {
    let shown = statement.clone();
    if let Err(error) = connection.execute(AssertSqlSafe(statement)).await {
        panic!("{shown}: {error}");
    }
}
