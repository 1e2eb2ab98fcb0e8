//! A disk that is soon full: a tmpfs of its own size, unmounted with the value.

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
    /// Mounts one of this size (`"32k"`). `None`, and a loud word, where that is not allowed: to others
    /// than root, and in most containers.
    ///
    /// # Panics
    /// When it fails for another reason.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("punctual-disk-").tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "punctual-test"]);
        let output = mount.arg(folder.path()).env("LC_ALL", "C").output().expect("mount is there");
        let words = String::from_utf8_lossy(&output.stderr).to_lowercase();
        if ["permission denied", "not permitted", "superuser"].iter().any(|no| words.contains(no)) {
            // Past the test harness, which keeps what a passing test prints to itself.
            let _ =
                writeln!(std::io::stderr(), "######## NOT TESTED on a full disk: {} ########", words.trim());
            return None;
        }
        assert!(output.status.success(), "{mount:?}: {words}");
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
        let mut mount = Command::new("mount");
        let status = mount.args(["-o", &format!("remount,size={size}")]).arg(self.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "{mount:?}");
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
