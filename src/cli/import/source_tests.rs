//! Files as people make them, and as they break them.

use super::*;

fn file(text: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn rows(text: &[u8], format: Format, key: Option<&str>) -> Vec<Row> {
    let file = file(text);
    let source = Source::open(file.path(), format, key, &"ab".repeat(32)).unwrap();
    source.map(|row| row.unwrap()).collect()
}

fn draft(row: &Row) -> (&str, Value) {
    let draft = row.draft.as_ref().unwrap();
    (&draft.key, Value::Object(draft.body.clone()))
}

fn code(row: &Row) -> &str {
    &row.draft.as_ref().unwrap_err().code
}

#[test]
fn a_csv_row_is_the_request_that_its_cells_say() {
    let text = "payee,amount,currency,dueAt,metadata.order,retry.maxSends,retry.onExhausted,description\r\n\
                acct_1,1250,EUR,2030-01-31T09:00:00Z,77,2,fail,\"two\nlines, \"\"quoted\"\"\"\r\n\
                acct_2,1,,2030-01-31T09:00:00Z,,,,\r\n";
    let rows = rows(text.as_bytes(), Format::Csv, None);
    assert_eq!(rows.len(), 2);
    let (key, body) = draft(&rows[0]);
    assert_eq!(key, format!("import-{}-2", "ab".repeat(16)));
    assert_eq!(
        body,
        json!({"payee": "acct_1", "amount": 1_250, "currency": "EUR", "dueAt": "2030-01-31T09:00:00Z",
            "metadata": {"order": "77"}, "retry": {"maxSends": 2, "onExhausted": "fail"},
            "description": "two\nlines, \"quoted\""})
    );
    let (key, body) = draft(&rows[1]);
    assert_eq!(key, format!("import-{}-4", "ab".repeat(16)), "a record may have several lines");
    assert_eq!(body, json!({"payee": "acct_2", "amount": 1, "dueAt": "2030-01-31T09:00:00Z"}));
    // The line feed after a carriage return is read with the next record.
    assert!(text.len() as u64 - rows[1].ends_at <= 1);
}

#[test]
fn every_row_has_a_line_of_its_own_however_lines_end() {
    let text = |ends: [&str; 5]| {
        let [a, b, c, d, e] = ends;
        format!("\u{feff}payee,amount,dueAt{a}x,1,t{b}y,2,\"t\nt\"{c}{d}z,3,t{e}")
    };
    for (ends, lines) in [
        (["\n", "\n", "\n", "\n", "\n"], [2, 3, 6]),
        (["\r\n", "\r\n", "\r\n", "\r\n", ""], [2, 3, 6]),
        (["\n", "\r\n", "\n", "\r\n", "\r\n"], [2, 3, 6]),
        (["\r", "\r", "\r", "", ""], [2, 3, 5]),
    ] {
        let rows = rows(text(ends).as_bytes(), Format::Csv, None);
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), lines, "{ends:?}");
    }
}

#[test]
fn a_broken_csv_row_is_rejected_at_its_place_and_the_rest_goes_on() {
    let mut text =
        b"payee,amount,dueAt\na,12.50,t\na,1\nb,\xff,t\na,+1,t\nc,9223372036854775808,t\n".to_vec();
    text.extend_from_slice(b"fine,1,t\n");
    let rows = rows(&text, Format::Csv, None);
    let codes: Vec<(u64, &str)> = rows[..5].iter().map(|row| (row.line, code(row))).collect();
    let wanted =
        [(2, "wrong_type"), (3, "wrong_length"), (4, "malformed_text"), (5, "wrong_type"), (6, "wrong_type")];
    assert_eq!(codes, wanted);
    assert_eq!((rows[5].line, draft(&rows[5]).1["payee"].as_str()), (7, Some("fine")));
}

#[test]
fn a_headline_that_cannot_be_meant_is_refused_whole() {
    let file = file(b"payee,amonut,payee\n");
    let refused = Source::open(file.path(), Format::Csv, Some("invoice"), "").err().unwrap();
    assert_eq!(refused.exit, Exit::Usage);
    for part in [
        "\"amonut\" is not known",
        "\"payee\" is there twice",
        "\"amount\" is missing",
        "\"invoice\" is missing",
    ] {
        assert!(refused.message.contains(part), "{part} in {}", refused.message);
    }
}

#[test]
fn a_key_comes_from_its_column_whether_the_api_knows_that_or_not() {
    let rows_of = |key: Option<&str>, text: &str| rows(text.as_bytes(), Format::Csv, key);
    let headline = "payee,amount,dueAt,externalId,idempotencyKey,invoice";
    let own = rows_of(None, &format!("{}\na,1,t,e-1,k-1\n", headline.trim_end_matches(",invoice")));
    assert_eq!(draft(&own[0]).0, "k-1");
    assert_eq!(draft(&own[0]).1, json!({"payee": "a", "amount": 1, "dueAt": "t", "externalId": "e-1"}));
    let line = format!("{}\na,1,t,e-1,k-1\n", headline.trim_end_matches(",invoice"));
    assert_eq!(draft(&rows_of(Some("externalId"), &line)[0]), ("e-1", draft(&own[0]).1));
    let line = format!("{headline}\na,1,t,e-1,k-1,i-1\n");
    assert_eq!(draft(&rows_of(Some("invoice"), &line)[0]).0, "i-1");
    let without = rows_of(Some("invoice"), &format!("{headline}\na,1,t,e,k,\nb,1,t,e,k,two words\n"));
    assert_eq!(without.iter().map(code).collect::<Vec<_>>(), ["invalid_idempotency_key"; 2]);
}

#[test]
fn ndjson_lines_count_also_where_they_are_blank_broken_or_too_long() {
    let long = format!("{{\"payee\": \"{}\"}}", "x".repeat(70_000));
    let text = format!(
        "{{\"payee\":\"a\",\"amount\":1}}\n\n{long}\n[1]\nnot json\n{{\"a\":1,\"a\":2}}\n\
         {{\"payee\":\"b\",\"idempotencyKey\":\"k\"}}"
    );
    let rows = rows(text.as_bytes(), Format::Ndjson, None);
    let lines: Vec<u64> = rows.iter().map(|row| row.line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 6, 7]);
    assert_eq!(
        draft(&rows[0]),
        (&*format!("import-{}-1", "ab".repeat(16)), json!({"payee": "a", "amount": 1}))
    );
    let codes: Vec<&str> = rows[1..5].iter().map(code).collect();
    assert_eq!(codes, ["body_too_large", "wrong_type", "malformed_json", "malformed_json"]);
    assert_eq!(draft(&rows[5]), ("k", json!({"payee": "b"})));
    assert_eq!(rows[5].ends_at, text.len() as u64);
}

#[test]
fn a_key_field_of_ndjson_is_a_text_that_is_there() {
    let text = "{\"externalId\":\"e\"}\n{\"payee\":\"x\"}\n{\"externalId\":7}\n";
    let rows = rows(text.as_bytes(), Format::Ndjson, Some("externalId"));
    assert_eq!(draft(&rows[0]), ("e", json!({"externalId": "e"})));
    assert_eq!((code(&rows[1]), code(&rows[2])), ("missing_idempotency_key", "invalid_idempotency_key"));
}

#[test]
fn a_file_has_one_digest_and_a_folder_none() {
    let one = file(b"abc");
    assert_eq!(digest(one.path()).unwrap(), hex::encode(Sha256::digest(b"abc")));
    assert_eq!(digest(std::env::temp_dir().as_path()).unwrap_err().exit, Exit::Usage);
    assert_eq!(digest(Path::new("no-such-file.csv")).unwrap_err().exit, Exit::Usage);
}

fn refused(text: &[u8]) -> Ended {
    let file = file(text);
    Source::open(file.path(), Format::Csv, None, "").err().unwrap()
}

#[test]
fn a_file_whose_quotes_take_rows_for_text_is_refused_before_a_row_of_it_is_read() {
    let headline = "payee,amount,dueAt,description\n";
    for (rows, line) in [
        ("a,1,t,\"never closed\nb,2,t,x\nc,3,t,y\n", 2),
        ("a,1,t,x\nb,2,t,\"17\" pipe\nc,3,t,\"a \"\"\nd,4,t,\"z\"\n", 4),
        ("a,1,t,\"17 pipe\nb,2,t,\"5 inch\" hose\n", 2),
    ] {
        let ended = refused(format!("{headline}{rows}").as_bytes());
        assert_eq!(ended.exit, Exit::Usage);
        assert!(ended.message.contains(&format!("line {line}: a quote opens")), "{}", ended.message);
    }
}

#[test]
fn a_broken_cell_and_one_that_holds_a_row_are_rejected_at_their_places() {
    let text = "payee,amount,dueAt,description\na,1,t,\"17\" pipe\nb,2,t,17\" pipe\nc,3,t,\"open\nd,4,t,5\"\n\
                e,5,t,\"two\nlines, 7, of text\"\nf,6,t,\"fine \"\"x\"\"\"\n";
    let rows = rows(text.as_bytes(), Format::Csv, None);
    assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 3, 4, 6, 8]);
    assert_eq!((code(&rows[0]), code(&rows[2])), ("malformed_csv", "malformed_csv"));
    let CameAs::Cells(cells) = &rows[0].came_as else { panic!("cells") };
    assert_eq!(cells.get(3), Some(&b"\"17\" pipe"[..]));
    let text = |row: &Row| draft(row).1["description"].as_str().unwrap().to_owned();
    assert_eq!(
        [&rows[1], &rows[3], &rows[4]].map(text),
        ["17\" pipe", "two\nlines, 7, of text", "fine \"x\""]
    );
}

#[test]
fn a_row_that_ends_behind_the_cell_that_took_it_is_seen_and_text_is_not_taken_for_one() {
    for text in [
        "payee,amount,dueAt,description,metadata.order\na,1,t,\"open,o-1\nb,2,t,5\",o-2\n",
        "payee,description,amount,dueAt\r\na,\"open,1,t\r\nb,5\",2,t\r\n",
    ] {
        assert_eq!(code(&rows(text.as_bytes(), Format::Csv, None)[0]), "malformed_csv", "{text:?}");
    }
    let fine = "payee,description,amount,dueAt\na,\"hello\nDear Ann, thanks\",2,t\n";
    assert_eq!(draft(&rows(fine.as_bytes(), Format::Csv, None)[0]).1["amount"], 2);
}

#[test]
fn the_second_row_of_a_key_is_rejected_whatever_else_it_says() {
    let text = "payee,amount,dueAt,idempotencyKey\na,1,t,k\nb,x,t,l\nb,2,t,l\na,1,t,k\na,1,t,\"\"\"k\"\"\"\n";
    let csv = rows(text.as_bytes(), Format::Csv, None);
    assert_eq!((draft(&csv[0]).0, code(&csv[1]), draft(&csv[2]).0), ("k", "wrong_type", "l"));
    assert_eq!((code(&csv[3]), code(&csv[4])), ("duplicate_item_key", "duplicate_item_key"));
    let text = "payee,amount,dueAt,idempotencyKey\na,1,t,\"a\"\"b\"\na,1,t,\"\"\"a\\\"\"b\"\"\"\n";
    assert_eq!(code(&rows(text.as_bytes(), Format::Csv, None)[1]), "duplicate_item_key", "{text}");
    let lines =
        rows(b"{\"idempotencyKey\":\"k\"}\n{\"idempotencyKey\":\"k\"}\n{}\n{}\n", Format::Ndjson, None);
    assert_eq!(code(&lines[1]), "duplicate_item_key");
    assert!(lines[2].draft.is_ok() && lines[3].draft.is_ok(), "keys of lines are their own");
}
