//! The folder that one `punctual dev` lives in: temporary by default, or `--data-dir`.
//!
//! **Promise.** One owner at a time; a temporary folder is gone when the owner is gone, and if the
//! owner was killed, the next `punctual dev` of the same user removes it.
//!
//! **How.** The owner holds an exclusive lock on `owner.lock`, which the kernel releases with the
//! process, however it ends. A folder whose lock can be taken has no owner.
//! Only folders of our own user with our own name are ever removed.

use super::children::User;
use super::failure::Failure;
use super::{kafka, postgres};
use rustix::process::geteuid;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const PREFIX: &str = "punctual-dev-";
const LOCK: &str = "owner.lock";

/// A folder with an owner: us.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    _lock: File,
    /// Gone with us.
    temporary: Option<TempDir>,
}

impl Home {
    /// A new temporary folder, or the given one, locked. Stops what an earlier owner left running.
    ///
    /// # Errors
    /// [`Failure::InUse`], [`Failure::Foreign`], [`Failure::Io`].
    pub(super) async fn open(data_dir: Option<&Path>) -> Result<Self, Failure> {
        let home = match data_dir {
            Some(path) => {
                DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(making(path))?;
                let path = path.canonicalize().map_err(making(path))?;
                Self { _lock: lock(&path)?, path, temporary: None }
            }
            None => {
                sweep(&std::env::temp_dir()).await;
                // Others may pass through it (Postgres runs as another user when we are root).
                let folder = tempfile::Builder::new()
                    .prefix(PREFIX)
                    .permissions(Permissions::from_mode(0o755))
                    .tempdir()
                    .map_err(making(&std::env::temp_dir()))?;
                let path = folder.path().canonicalize().map_err(making(folder.path()))?;
                Self { _lock: lock(&path)?, path, temporary: Some(folder) }
            }
        };
        stop_left_overs(&home.path).await?;
        Ok(home)
    }

    /// Where it is, absolute.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes away with us.
    #[must_use]
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

impl Drop for Home {
    /// Tries for two seconds: a tool that was just killed may still be writing.
    fn drop(&mut self) {
        let Some(folder) = self.temporary.take().map(TempDir::keep) else { return };
        for _ in 0..100 {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                _ => return,
            }
        }
        // Left for the next `punctual dev`.
    }
}

/// Makes a folder (and those above it), owned by `user`.
pub(crate) fn make_folder(path: &Path, user: Option<User>) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(making(path))?;
    match user {
        Some(user) => std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(making(path)),
        None => Ok(()),
    }
}

fn making(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::io(format!("make the folder {}", path.display()))
}

fn lock(folder: &Path) -> Result<File, Failure> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(Failure::io(format!("open {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => {
            Err(Failure::Io { doing: format!("lock {}", path.display()), source })
        }
    }
}

async fn stop_left_overs(folder: &Path) -> Result<(), Failure> {
    kafka::stop_left_over(folder).await?;
    postgres::stop_left_over(folder).await
}

/// Removes temporary folders whose owner is gone. Best effort: what cannot be removed is left.
async fn sweep(temp: &Path) {
    let Ok(entries) = std::fs::read_dir(temp) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let named_so = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // `symlink_metadata`, so that a link planted in a shared folder is not followed.
        let ours =
            path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw());
        // A folder without the file is one that its owner is just making.
        if !named_so || !ours || !path.join(LOCK).is_file() {
            continue;
        }
        let Ok(_lock) = lock(&path) else { continue };
        if stop_left_overs(&path).await.is_ok() {
            let _left_for_the_next_one = std::fs::remove_dir_all(&path);
        }
    }
}
