//! The file of rejects: every row that was refused, with where it stood and why, in the form of the file
//! that it came from, so that it can be mended and imported.
//!
//! What was refused as a card number is not copied: only its place and the refusal are.

use super::source::{CameAs, Row};
use super::strict::Strict;
use crate::cli::Ended;
use crate::platform::exit::Exit;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use csv::StringRecord;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a row is not a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Why {
    /// The API's code, or one of the same kind for what did not get that far.
    pub(super) code: String,
    /// For people.
    pub(super) detail: String,
}

impl Why {
    pub(super) fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into() }
    }

    /// Of a problem document; every broken rule stands in the detail.
    pub(super) fn of_problem(status: u64, problem: &Value) -> Self {
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        let errors = problem.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let details: Vec<String> = match errors {
            [] => vec![text(problem, "detail")],
            errors => {
                let one = |error: &Value| format!("{}: {}", text(error, "pointer"), text(error, "detail"));
                errors.iter().map(one).collect()
            }
        };
        let code = text(problem, "code");
        let code = if code.is_empty() { format!("http_{status}") } else { code };
        // A row without a key of its own has its content's: it is paid once as it stands already, and a second
        // time where it is imported under another key.
        let warning = match (code.as_str(), text(problem, "paymentId")) {
            ("idempotency_key_reused", id) if !id.is_empty() => {
                format!(
                    " This row is payment {id} already: look at that one, and do not import the row again."
                )
            }
            _ => String::new(),
        };
        Self::new(code, details.join(" ") + &warning)
    }

    fn holds_a_card_number(&self) -> bool {
        self.code == "raw_card_number" || self.detail.contains("card number")
    }
}

/// The file, made when the first row goes into it.
pub(super) struct Rejects {
    path: PathBuf,
    headline: Option<StringRecord>,
    open: Option<File>,
    length: u64,
}

impl Rejects {
    /// `kept`: of an import that goes on, the bytes that were counted; what was written after them is
    /// written again. `None` for one that begins.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a file that an import which begins would write over.
    pub(super) fn open(
        path: PathBuf,
        kept: Option<u64>,
        headline: Option<StringRecord>,
    ) -> Result<Self, Ended> {
        let mut rejects = Self { path, headline, open: None, length: kept.unwrap_or(0) };
        match kept {
            None if rejects.path.exists() => {
                let why = format!(
                    "{} is there already, perhaps of an earlier import: move it away, or name another with --rejects",
                    rejects.path.display()
                );
                return Err(Ended::with(Exit::Usage, why));
            }
            None => {}
            // Killed between the first row of it and the place that counts it: it begins anew.
            Some(0) => match std::fs::remove_file(&rejects.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(rejects.failed(&error)),
                Ok(()) | Err(_) => {}
            },
            Some(length) => {
                let file =
                    OpenOptions::new().write(true).open(&rejects.path).map_err(|e| rejects.failed(&e))?;
                let there = file.metadata().map_err(|e| rejects.failed(&e))?.len();
                if there < length {
                    let why = format!(
                        "{} has {there} bytes, and {length} were written: rows that were refused are not in it any \
                         more. Put it back, or remove the file of the place beside the imported one to begin anew",
                        rejects.path.display()
                    );
                    return Err(Ended::with(Exit::Usage, why));
                }
                file.set_len(length).map_err(|e| rejects.failed(&e))?;
                rejects.open = Some(file);
            }
        }
        Ok(rejects)
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Ended {
        Ended::with(Exit::Failed, format!("{}: {error}", self.path.display()))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written to it.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Sees that the disk has what was written: a place that counts it must not outlive it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn kept(&self) -> Result<(), Ended> {
        self.open.as_ref().map_or(Ok(()), File::sync_data).map_err(|error| self.failed(&error))
    }

    /// Writes a row.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, row: &Row, why: &Why) -> Result<(), Ended> {
        let mut text = Vec::new();
        if self.open.is_none() {
            // Never over a file that somebody made meanwhile.
            let made = OpenOptions::new().write(true).create_new(true).open(&self.path);
            self.open = Some(made.map_err(|error| self.failed(&error))?);
            if let Some(headline) = &self.headline {
                let own = beside(headline).map(str::as_bytes);
                text = cells(["rejectedLine", "rejectedCode", "rejectedDetail"], own);
            }
        }
        text.extend(self.written(row, why));
        let mut file = self.open.as_ref().ok_or_else(|| self.failed(&"not open"))?;
        let done = file.seek(SeekFrom::Start(self.length)).and_then(|_| file.write_all(&text));
        done.map_err(|error| self.failed(&error))?;
        self.length += text.len() as u64;
        Ok(())
    }

    fn written(&self, row: &Row, why: &Why) -> Vec<u8> {
        let line = row.line.to_string();
        let told = json!({"line": row.line, "code": why.code, "detail": why.detail});
        match (&row.came_as, &self.headline) {
            (CameAs::Cells(came), Some(headline)) => {
                // As many cells as came: what has the wrong length keeps it until a person mends it.
                let own = came.iter().enumerate();
                let own =
                    own.filter(|(at, _)| !headline.get(*at).is_some_and(|name| name.starts_with("rejected")));
                let kept = own.map(|(_, cell)| if why.holds_a_card_number() { &b""[..] } else { cell });
                cells([&line, &why.code, &why.detail], kept)
            }
            (CameAs::Cells(_), None) => cells([&line, &why.code, &why.detail], std::iter::empty()),
            (CameAs::Bytes(came), _) => {
                // JSON has no other way to keep bytes that are no text.
                let object = json!({"base64": STANDARD.encode(came), "rejected": told});
                format!("{object}\n").into_bytes()
            }
            (CameAs::Line(came), _) => {
                let kept = if why.holds_a_card_number() { "{}" } else { came.as_str() };
                let mut object = match serde_json::from_str(kept) {
                    Ok(Strict(Value::Object(object))) => object,
                    // It is no object, or says something twice, so it is kept as the text that it is.
                    Ok(_) | Err(_) => [("text".to_owned(), json!(kept))].into_iter().collect(),
                };
                object.insert("rejected".to_owned(), told);
                format!("{}\n", Value::Object(object)).into_bytes()
            }
        }
    }
}

/// The names of a headline that are not our own of an earlier time.
fn beside(headline: &StringRecord) -> impl Iterator<Item = &str> {
    headline.iter().filter(|name| !name.starts_with("rejected"))
}

/// One record of CSV.
fn cells<'a>(first: [&str; 3], rest: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for cell in first {
        // Writing into memory fails only for records of uneven length, which are allowed here.
        let _ = writer.write_field(cell);
    }
    rest.for_each(|cell| drop(writer.write_field(cell)));
    let _ = writer.write_record(None::<&[u8]>);
    writer.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::import::Format;
    use crate::cli::import::source::Source;
    use csv::ByteRecord;

    fn row(line: u64, came_as: CameAs) -> Row {
        Row { line, ends_at: 0, draft: Err(Why::new("", "")), came_as }
    }

    fn written(rejects: &Rejects) -> String {
        std::fs::read_to_string(rejects.path()).unwrap()
    }

    #[test]
    fn rejects_of_a_csv_file_can_be_mended_and_imported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv.rejects");
        let headline = StringRecord::from(vec!["rejectedCode", "payee", "amount", "dueAt"]);
        let mut rejects = Rejects::open(path.clone(), None, Some(headline)).unwrap();
        assert!(!path.exists(), "nothing was rejected yet");
        let cells = ByteRecord::from(vec!["old", "a, b", "1", "2030-01-31T09:00:00Z"]);
        rejects.add(&row(7, CameAs::Cells(cells)), &Why::new("due_in_past", "Too \"late\".")).unwrap();
        // One is too short, one too long: what is missing or too much is a person's to say.
        for (line, cells) in [(9, vec!["", "c"]), (11, vec!["", "c", "12", "50", "x"])] {
            rejects.add(&row(line, CameAs::Cells(ByteRecord::from(cells))), &Why::new("x", "y")).unwrap();
        }
        assert_eq!(
            written(&rejects),
            "rejectedLine,rejectedCode,rejectedDetail,payee,amount,dueAt\n\
             7,due_in_past,\"Too \"\"late\"\".\",\"a, b\",1,2030-01-31T09:00:00Z\n9,x,y,c\n11,x,y,c,12,50,x\n"
        );
        let again = Source::open(&path, Format::Csv, None, &"a".repeat(64)).unwrap();
        let drafts: Vec<_> = again.map(|row| row.unwrap().draft).collect();
        assert_eq!(drafts[0].as_ref().unwrap().body["payee"], "a, b");
        for unmended in &drafts[1..] {
            assert_eq!(unmended.as_ref().unwrap_err().code, "wrong_length");
        }
        assert_eq!(drafts.len(), 3);
    }

    #[test]
    fn rejects_of_ndjson_keep_the_object_or_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let mut rejects = Rejects::open(folder.path().join("r"), None, None).unwrap();
        let line = |text: &str| CameAs::Line(text.to_owned());
        rejects.add(&row(1, line(r#"{"payee":"a"}"#)), &Why::new("c", "d")).unwrap();
        rejects.add(&row(2, line("not json")), &Why::new("malformed_json", "d")).unwrap();
        let twice = r#"{"payee":"a","amount":1,"amount":100}"#;
        rejects.add(&row(3, line(twice)), &Why::new("malformed_json", "d")).unwrap();
        let lines: Vec<Value> =
            written(&rejects).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({"payee": "a", "rejected": {"line": 1, "code": "c", "detail": "d"}}));
        assert_eq!((&lines[1]["text"], &lines[1]["rejected"]["line"]), (&json!("not json"), &json!(2)));
        assert_eq!((&lines[2]["text"], &lines[2]["amount"]), (&json!(twice), &Value::Null));
    }

    #[test]
    fn rows_that_cannot_be_read_are_kept_as_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("x.csv");
        std::fs::write(&broken, b"payee,amount,dueAt,description\na,1,t,M\xfcller\nb,2,t,\"17\" pipe\n")
            .unwrap();
        let source = Source::open(&broken, Format::Csv, None, "").unwrap();
        let mut rejects = Rejects::open(folder.path().join("r"), None, source.headline()).unwrap();
        for row in source {
            let row = row.unwrap();
            let why = row.draft.as_ref().unwrap_err().clone();
            rejects.add(&row, &Why::new(why.code, "")).unwrap();
        }
        let kept = std::fs::read(rejects.path()).unwrap();
        let wanted = b"rejectedLine,rejectedCode,rejectedDetail,payee,amount,dueAt,description\n\
            2,malformed_text,,a,1,t,M\xfcller\n3,malformed_csv,,b,2,t,\"\"\"17\"\" pipe\"\n";
        assert_eq!(kept, wanted, "{}", String::from_utf8_lossy(&kept));

        std::fs::write(&broken, b"{\"payee\":\"M\xfcller\"}\r\n").unwrap();
        let row = Source::open(&broken, Format::Ndjson, None, "").unwrap().next().unwrap().unwrap();
        let why = row.draft.as_ref().unwrap_err().clone();
        assert!(why.code == "malformed_text" && why.detail.contains("as UTF-8"), "{why:?}");
        let mut rejects = Rejects::open(folder.path().join("n"), None, None).unwrap();
        rejects.add(&row, &why).unwrap();
        let kept: Value = serde_json::from_str(&written(&rejects)).unwrap();
        let bytes = STANDARD.decode(kept["base64"].as_str().unwrap()).unwrap();
        assert_eq!(
            (bytes.as_slice(), &kept["rejected"]["line"]),
            (&b"{\"payee\":\"M\xfcller\"}"[..], &json!(1))
        );
    }

    #[test]
    fn a_row_that_is_a_payment_already_is_not_offered_to_be_imported_again() {
        let problem = json!({"code": "idempotency_key_reused", "detail": "d", "paymentId": "p-1"});
        let why = Why::of_problem(409, &problem);
        assert!(why.detail.contains("p-1") && why.detail.contains("do not import"), "{}", why.detail);
        assert_eq!(Why::of_problem(422, &json!({"code": "due_in_past", "detail": "d"})).detail, "d");
    }

    #[test]
    fn a_card_number_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let why = Why::new("raw_card_number", "A card number was sent.");
        let headline = Some(StringRecord::from(vec!["payee", "amount"]));
        let mut cells = Rejects::open(folder.path().join("c"), None, headline).unwrap();
        let came = ByteRecord::from(vec!["4111111111111111", "1"]);
        cells.add(&row(2, CameAs::Cells(came)), &why).unwrap();
        let mut lines = Rejects::open(folder.path().join("l"), None, None).unwrap();
        lines.add(&row(1, CameAs::Line(r#"{"payee":"4111111111111111"}"#.to_owned())), &why).unwrap();
        for text in [written(&cells), written(&lines)] {
            assert!(!text.contains("4111") && text.contains("raw_card_number"), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over_and_one_that_goes_on_is_cut_to_what_was_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        std::fs::write(&path, "kept\nnot counted\n").unwrap();
        assert_eq!(Rejects::open(path.clone(), None, None).err().unwrap().exit, Exit::Usage);
        let mut rejects = Rejects::open(path, Some(5), None).unwrap();
        rejects.add(&row(3, CameAs::Line("{}".to_owned())), &Why::new("c", "d")).unwrap();
        let text = written(&rejects);
        assert!(text.starts_with("kept\n{\"rejected\"") && text.lines().count() == 2, "{text}");
        assert_eq!(rejects.length(), text.len() as u64);
    }

    #[test]
    fn one_that_has_become_shorter_than_what_was_counted_is_not_filled_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        std::fs::write(&path, "kep").unwrap();
        let refused = Rejects::open(path.clone(), Some(5), None).err().unwrap();
        assert!(refused.exit == Exit::Usage && refused.message.contains("3 bytes"), "{}", refused.message);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kep");
    }

    #[test]
    fn one_that_was_killed_before_its_first_row_was_counted_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        std::fs::write(&path, "not counted\n").unwrap();
        let mut rejects = Rejects::open(path.clone(), Some(0), None).unwrap();
        assert!(!path.exists(), "nothing is counted");
        rejects.add(&row(3, CameAs::Line("{}".to_owned())), &Why::new("c", "d")).unwrap();
        assert!(written(&rejects).starts_with("{\"rejected\"") && written(&rejects).lines().count() == 1);
    }

    #[test]
    fn a_refusal_is_told_with_every_broken_rule() {
        let problem = json!({"code": "due_in_past", "detail": "x", "errors": [
            {"pointer": "/dueAt", "code": "due_in_past", "detail": "Past."},
            {"pointer": "/amount", "code": "amount_not_positive", "detail": "Too little."},
        ]});
        assert_eq!(
            Why::of_problem(422, &problem),
            Why::new("due_in_past", "/dueAt: Past. /amount: Too little.")
        );
        assert_eq!(Why::of_problem(502, &json!("gone")), Why::new("http_502", ""));
    }
}
