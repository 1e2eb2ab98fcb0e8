//! How far an import has come: one small file beside the imported one.
//!
//! It saves time and keeps the count over an interruption; no payment depends on it. It is replaced as a
//! whole, by a rename, so a kill leaves the old one or the new one. It names the content that it belongs
//! to: a file that was changed in the middle of its import is refused, because its keys would be others
//! and what was created already would be created again.

use super::rejects::Rejects;
use super::sender::Outcome;
use super::source::Row;
use crate::cli::Ended;
use crate::platform::exit::Exit;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What has been done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// The last line that is done.
    pub(super) lines: u64,
    /// Rows, without blank lines and the headline.
    pub(super) rows: u64,
    /// Of them payments now.
    pub(super) payments: u64,
    /// Of the payments those that an earlier run had made.
    pub(super) known: u64,
    /// Rows that are no payments.
    pub(super) rejected: u64,
}

impl Counts {
    /// One more row is done.
    pub(super) fn add(&mut self, row: &Row, outcome: &Outcome) {
        self.lines = row.line;
        self.rows += 1;
        match outcome {
            Outcome::Created => self.payments += 1,
            Outcome::Known => {
                self.payments += 1;
                self.known += 1;
            }
            Outcome::Rejected(_) => self.rejected += 1,
        }
    }

    /// For the bar.
    pub(super) fn words(&self) -> String {
        format!("{} payments, {} rejected", self.payments, self.rejected)
    }
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    digest: String,
    api: String,
    /// The file of rejects, as it was named.
    rejects: String,
    rejects_length: u64,
    counts: Counts,
}

/// How far the import has come.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    digest: String,
    api: String,
    rejects: String,
    /// Bytes of the file of rejects that belong to `counts`; nothing if no earlier run wrote its place down.
    pub(super) rejects_kept: Option<u64>,
    /// What has been done.
    pub(super) counts: Counts,
}

impl Place {
    /// Where an earlier run stopped; the beginning, if there was none.
    ///
    /// # Errors
    /// [`Exit::Usage`]: it belongs to other content, another API or another file of rejects.
    pub(super) fn take(path: &Path, digest: &str, api: &str, rejects: &Path) -> Result<Self, Ended> {
        let fresh = Self {
            path: path.to_owned(),
            digest: digest.to_owned(),
            api: api.to_owned(),
            rejects: rejects.display().to_string(),
            rejects_kept: None,
            counts: Counts::default(),
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(fresh),
            Err(error) => return Err(Ended::with(Exit::Failed, format!("{}: {error}", path.display()))),
        };
        let refused = |why: &str| {
            let advice = "to begin anew, remove it";
            Err(Ended::with(Exit::Usage, format!("{} {why}; {advice}", path.display())))
        };
        let Ok(kept) = serde_json::from_str::<Kept>(&text) else { return refused("is not ours") };
        if kept.digest != digest {
            return refused(
                "says that the file had other content when its import was interrupted. Begun anew, rows that \
                 are payments already would be created again, unless --key-column names their keys",
            );
        }
        if kept.api != api {
            return refused(&format!(
                "is of an import to {}. To go on there, name that address again. Of the same API under another \
                 address nothing is paid twice: the keys stay the same. In any case move {} away first, since it \
                 holds what was refused until now",
                kept.api, kept.rejects
            ));
        }
        if kept.rejects != fresh.rejects {
            return refused(&format!(
                "says that its rejects go to {}: name that file again with --rejects",
                kept.rejects
            ));
        }
        Ok(Self { rejects_kept: Some(kept.rejects_length), counts: kept.counts, ..fresh })
    }

    /// Writes down how far it has come. The first time is before the first row is sent: from then on the file
    /// of rejects is this import's, however early it is killed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep(&self, rejects: &Rejects) -> Result<(), Ended> {
        let kept = Kept {
            digest: self.digest.clone(),
            api: self.api.clone(),
            rejects: self.rejects.clone(),
            rejects_length: rejects.length(),
            counts: self.counts,
        };
        let mut next = self.path.as_os_str().to_owned();
        next.push(".next");
        rejects.kept()?;
        // Numbers and texts: serde_json fails on none of them.
        let text = serde_json::to_vec(&kept).unwrap_or_default();
        std::fs::write(&next, text)
            .and_then(|()| std::fs::rename(&next, &self.path))
            .map_err(|error| Ended::with(Exit::Failed, format!("{}: {error}", self.path.display())))
    }

    /// The import is through.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn forget(&self) -> Result<(), Ended> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::import::rejects::Why;
    use crate::cli::import::source::CameAs;

    fn row(line: u64) -> Row {
        Row { line, ends_at: 0, draft: Err(Why::new("", "")), came_as: CameAs::Line(String::new()) }
    }

    #[test]
    fn an_import_goes_on_where_it_was_and_only_with_the_same_content_and_api() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv.import");
        let rejects = Rejects::open(folder.path().join("r"), None, None).unwrap();
        let to = Path::new("r");
        let mut place = Place::take(&path, "d", "http://h", to).unwrap();
        assert_eq!((place.counts, place.rejects_kept), (Counts::default(), None));
        for (line, outcome) in
            [(2, Outcome::Created), (3, Outcome::Known), (5, Outcome::Rejected(Why::new("c", "d")))]
        {
            place.counts.add(&row(line), &outcome);
        }
        place.keep(&rejects).unwrap();
        let again = Place::take(&path, "d", "http://h", to).unwrap();
        assert_eq!(again.counts, Counts { lines: 5, rows: 3, payments: 2, known: 1, rejected: 1 });
        assert_eq!(again.rejects_kept, Some(0));
        for (digest, api, rejects, told) in [
            ("e", "http://h", "r", "other content"),
            ("d", "http://i", "r", "import to http://h"),
            ("d", "http://i", "r", "nothing is paid twice: the keys stay the same. In any case move r away"),
            ("d", "http://h", "s", "go to r"),
        ] {
            let refused = Place::take(&path, digest, api, Path::new(rejects)).unwrap_err();
            assert!(refused.exit == Exit::Usage && refused.message.contains(told), "{}", refused.message);
        }
        again.forget().unwrap();
        again.forget().unwrap();
        assert_eq!(Place::take(&path, "e", "http://h", to).unwrap().counts, Counts::default());
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_taken_for_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.import");
        std::fs::write(&path, "{\"digest\": 1").unwrap();
        assert!(Place::take(&path, "d", "a", Path::new("r")).unwrap_err().message.contains("not ours"));
    }
}
