//! A disk that is soon full: a tmpfs of its own size, unmounted with the value. Needs root.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs.
#[derive(Debug)]
pub struct TinyDisk {
    folder: tempfile::TempDir,
}

impl TinyDisk {
    /// Mounts one of this size (`"32k"`). `None`, and a loud word, when we are not root.
    ///
    /// # Panics
    /// When root cannot mount it.
    pub fn mount(size: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("######## NOT TESTED: a full disk. Mounting a tmpfs needs root. ########");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("punctual-disk-").tempdir().expect("a folder");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "punctual-test"])
            .arg(folder.path()));
        // Postgres, run by another user, passes through.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("its own mode");
        Some(Self { folder })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives it another size.
    pub fn resize(&self, size: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(self.path()));
    }

    /// Writes zeros until not a byte more fits.
    pub fn fill(&self) {
        let path = self.ballast();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
        for length in [1 << 20, 4_096] {
            while file.write_all(&vec![0; length]).is_ok() {}
        }
    }

    /// Takes back what [`TinyDisk::fill`] wrote.
    pub fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("the ballast");
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there ends with the test.
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.path().display());
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("mount is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
