//! Apache Kafka itself, as the ordinary Maven artifacts that its project publishes.
//!
//! **Promise.** A folder of jars for [`VERSION`], complete or absent: they are gathered in a
//! temporary folder beside it and renamed into place, one process at a time (a lock file), and used
//! again by every later run of this user.
//!
//! **Why this way.** The broker's release archive is 130 MB on a download site; the same classes are
//! a dozen artifacts (43 MB with what they need) on the registry that every Java build can reach.
//!
//! **If this dies here**: the temporary folder stays in the cache until the next fetch removes it.

use super::children::run_tool;
use super::failure::Failure;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of Apache Kafka that development and tests run on.
pub const VERSION: &str = "4.4.0";
/// The logging back end that this version names in its own distribution's log4j2 family.
const LOG4J: &str = "2.25.5";
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// What runs a broker: a Java and a class path.
#[derive(Debug, Clone)]
pub struct Kafka {
    /// The `java` executable, 17 or newer.
    pub java: PathBuf,
    /// The class path: every jar of the cache folder.
    pub class_path: OsString,
}

/// Finds or fetches everything that a broker needs. `tell` is called before a fetch, which takes
/// some ten seconds on a good line.
///
/// # Errors
/// [`Failure::Missing`] with the command that installs Java or Maven; [`Failure::Refused`] with
/// Maven's words when the artifacts cannot be had.
pub async fn obtain(tell: impl FnOnce(&str)) -> Result<Kafka, Failure> {
    let java = find_java().await?;
    let folder = cache_folder()?.join(format!("kafka-{VERSION}"));
    if !folder.is_dir() {
        tell(&format!("Fetching Apache Kafka {VERSION} into {} (once)", folder.display()));
        fetch(&folder).await?;
    }
    let mut class_path = folder.into_os_string();
    class_path.push("/*");
    Ok(Kafka { java, class_path })
}

/// `PUNCTUAL_CACHE`, else `punctual` in the user's cache folder.
fn cache_folder() -> Result<PathBuf, Failure> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("PUNCTUAL_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("punctual")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/punctual")))
        .ok_or_else(|| Failure::Missing {
            what: "A folder to keep Apache Kafka in (HOME is not set)".to_owned(),
            install: "export PUNCTUAL_CACHE=/some/folder".to_owned(),
        })
}

async fn fetch(folder: &Path) -> Result<(), Failure> {
    let cache = folder.parent().unwrap_or(folder);
    let io = |doing: &str| Failure::io(format!("{doing} {}", cache.display()));
    fs::create_dir_all(cache).map_err(io("make the folder"))?;
    let lock = fs::File::create(cache.join("fetch.lock")).map_err(io("write into"))?;
    // Waits for another process that is fetching; on a blocking thread, as it may take a minute.
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await;
    let _lock = lock.map_err(std::io::Error::other).and_then(|lock| lock).map_err(io("lock"))?;
    if folder.is_dir() {
        return Ok(());
    }
    let work = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache).map_err(io("write into"))?;
    fs::write(work.path().join("pom.xml"), pom()).map_err(io("write into"))?;
    let mut maven = Command::new(find_maven());
    maven.current_dir(work.path()).args([
        "-B",
        "-q",
        PLUGIN,
        "-DincludeScope=runtime",
        "-DoutputDirectory=jars",
    ]);
    match run_tool(maven, None, b"").await {
        Err(Failure::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::Missing {
                what: "Maven, which fetches Apache Kafka,".to_owned(),
                install: "apt-get install -y maven".to_owned(),
            })
        }
        Err(other) => Err(other),
        Ok(_) => fs::rename(work.path().join("jars"), folder).map_err(io("rename a folder in")),
    }
}

fn find_maven() -> PathBuf {
    std::env::var_os("MAVEN_HOME").map_or_else(|| "mvn".into(), |home| PathBuf::from(home).join("bin/mvn"))
}

fn pom() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>punctual</groupId><artifactId>broker</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{}{}</dependencies></project>",
        dependency("org.apache.kafka", "kafka_2.13", VERSION),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
    )
}

async fn find_java() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let java = home.filter(|java| java.is_file()).unwrap_or_else(|| "java".into());
    let missing = |what: String| Failure::Missing {
        what,
        install: "apt-get install -y default-jre-headless".to_owned(),
    };
    let mut ask = Command::new(&java);
    ask.arg("--version");
    let said = run_tool(ask, None, b"").await.map_err(|_| missing("Java 17 or newer".to_owned()))?;
    // "openjdk 17.0.15 2025-04-15"
    let major = said
        .split_whitespace()
        .nth(1)
        .and_then(|version| version.split(['.', '-', '+']).next()?.parse().ok());
    match major {
        Some(17..=u32::MAX) => Ok(java),
        _ => Err(missing(format!("Java 17 or newer (found: {})", said.lines().next().unwrap_or("nothing")))),
    }
}
