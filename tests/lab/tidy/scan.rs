//! The scanners: text in, findings out.

use std::collections::BTreeSet;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// From 1.
    pub line: usize,
    /// What, for people.
    pub what: String,
}

impl Finding {
    pub fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// Rust with every comment and literal blanked out, line for line.
#[derive(Debug)]
pub struct Code {
    text: Vec<char>,
}

/// A word of code with where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub line: usize,
    /// Index of its first character.
    pub at: usize,
}

impl Code {
    /// Blanks comments, strings and characters; lifetimes stay.
    pub fn of(source: &str) -> Self {
        let source: Vec<char> = source.chars().collect();
        let mut text = source.clone();
        let mut at = 0;
        while at < source.len() {
            let end = literal_end(&source, at);
            for blank in text.iter_mut().take(end).skip(at).filter(|c| **c != '\n') {
                *blank = ' ';
            }
            at = end.max(at + 1);
        }
        Self { text }
    }

    pub fn char(&self, at: usize) -> char {
        self.text.get(at).copied().unwrap_or(' ')
    }

    pub fn line(&self, at: usize) -> usize {
        self.text.iter().take(at).filter(|c| **c == '\n').count() + 1
    }

    /// Identifiers and keywords, in order.
    pub fn words(&self) -> Vec<Word> {
        let mut words: Vec<Word> = Vec::new();
        let mut line = 1;
        let mut open = false;
        for (at, c) in self.text.iter().enumerate() {
            let part = c.is_alphanumeric() || *c == '_';
            match words.last_mut().filter(|_| open && part) {
                Some(word) => word.text.push(*c),
                None if part => words.push(Word { text: c.to_string(), line, at }),
                None => {}
            }
            open = part;
            line += usize::from(*c == '\n');
        }
        words
    }

    /// The first position from `at` on that is not blank.
    pub fn skip_blank(&self, mut at: usize) -> usize {
        while at < self.text.len() && self.text[at].is_whitespace() {
            at += 1;
        }
        at
    }

    /// From an opening brace to just past its partner.
    pub fn block_end(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, c) in self.text.iter().enumerate().skip(open) {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return at + 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        self.text.len()
    }

    /// The first `{` or `;` from `at` on that stands in no bracket.
    fn body_or_end(&self, at: usize) -> usize {
        let mut depth = 0_i32;
        for (at, c) in self.text.iter().enumerate().skip(at) {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                '{' | ';' if depth == 0 => return at,
                _ => {}
            }
        }
        self.text.len()
    }

    /// Character ranges of the bodies of `impl Trait for Type`.
    fn trait_impls(&self) -> Vec<std::ops::Range<usize>> {
        let words = self.words();
        let mut found = Vec::new();
        for (index, word) in words.iter().enumerate().filter(|(_, word)| word.text == "impl") {
            // An item begins a file, or follows one, an attribute, or `unsafe`; `x: impl Fn()` does not.
            let before = self.text[..word.at].iter().rev().find(|c| !c.is_whitespace());
            let item = before.is_none_or(|c| ['}', '{', ';', ']'].contains(c))
                || words[..index].last().is_some_and(|before| before.text == "unsafe");
            let body = self.body_or_end(word.at);
            let head = words[index..].iter().take_while(|word| word.at < body);
            // `for<'a>` binds lifetimes and names no type.
            let mut names_type = head.filter(|word| {
                word.text == "for" && self.char(self.skip_blank(word.at + word.text.len())) != '<'
            });
            if item && self.char(body) == '{' && names_type.next().is_some() {
                found.push(body..self.block_end(body));
            }
        }
        found
    }

    /// Character ranges of modules that exist only under test.
    pub fn test_modules(&self) -> Vec<std::ops::Range<usize>> {
        let flat: String = self.text.iter().collect();
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = flat[from..].find("#[cfg(test)]") {
            // Positions are in characters; a blanked text may still hold others in identifiers.
            let start = flat[..from + at].chars().count();
            let body = self.body_or_end(start + "#[cfg(test)]".len());
            let end = if self.char(body) == '{' { self.block_end(body) } else { body };
            found.push(start..end);
            from += at + 1;
        }
        found
    }
}

/// Just past the comment or literal that begins at `at`; `at` itself if none does.
fn literal_end(source: &[char], at: usize) -> usize {
    let next = |ahead: usize| source.get(at + ahead).copied().unwrap_or('\0');
    let word_before = at > 0 && (source[at - 1].is_alphanumeric() || source[at - 1] == '_');
    match (next(0), next(1)) {
        ('/', '/') => source[at..].iter().position(|c| *c == '\n').map_or(source.len(), |end| at + end),
        ('/', '*') => comment_end(source, at),
        ('"', _) => quoted_end(source, at + 1, '"'),
        ('r', '"' | '#') if !word_before => raw_end(source, at + 1).unwrap_or(at),
        ('b', 'r') if !word_before => raw_end(source, at + 2).unwrap_or(at),
        // A lifetime has no closing quote after one character.
        ('\'', '\\') => quoted_end(source, at + 1, '\''),
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn comment_end(source: &[char], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = at;
    while at + 1 < source.len() {
        match (source[at], source[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    source.len()
}

fn quoted_end(source: &[char], mut at: usize, quote: char) -> usize {
    while at < source.len() {
        match source[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

/// `None` if what follows is no raw string (`r#type`).
fn raw_end(source: &[char], at: usize) -> Option<usize> {
    let hashes = source[at..].iter().take_while(|c| **c == '#').count();
    (source.get(at + hashes) == Some(&'"')).then_some(())?;
    let mut at = at + hashes + 1;
    while at < source.len() {
        let closes =
            source[at] == '"' && source[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(source.len())
}

pub fn opening(text: &str) -> Vec<Finding> {
    let opens = text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 12);
    if opens { Vec::new() } else { vec![Finding::new(1, "does not open with `//! ` and a sentence")] }
}

pub fn file_length(text: &str, most: usize) -> Vec<Finding> {
    let lines = text.lines().count();
    if lines <= most { Vec::new() } else { vec![Finding::new(lines, format!("{lines} lines, over {most}"))] }
}

pub fn long_functions(code: &Code, most: usize, excepted: impl Fn(&str) -> bool) -> Vec<Finding> {
    let words = code.words();
    let mut found = Vec::new();
    for pair in words.windows(2).filter(|pair| pair[0].text == "fn") {
        let name = &pair[1];
        // The type `fn(u8) -> bool` has no body of its own.
        if code.skip_blank(pair[0].at + 2) != name.at {
            continue;
        }
        let body = code.body_or_end(name.at);
        if code.char(body) != '{' || excepted(&name.text) {
            continue;
        }
        let lines = code.line(code.block_end(body)) - name.line + 1;
        if lines > most {
            found.push(Finding::new(name.line, format!("`{}` has {lines} lines, over {most}", name.text)));
        }
    }
    found
}

/// Words that say nothing about what a thing does.
const EMPTY_WORDS: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "manager", "misc"];

pub fn names(path: &str, code: &Code) -> Vec<Finding> {
    let mut found = Vec::new();
    for part in path.trim_end_matches(".rs").split('/') {
        if says_nothing("mod", part) {
            found.push(Finding::new(1, format!("a file or folder is named `{part}`")));
        }
    }
    let of_traits = code.trait_impls();
    for pair in code.words().windows(2) {
        let kind = pair[0].text.as_str();
        // What an `impl Trait for` defines was named by the trait.
        let chosen_by_trait =
            ["fn", "type"].contains(&kind) && of_traits.iter().any(|body| body.contains(&pair[0].at));
        if ["fn", "mod", "struct", "enum", "trait", "type"].contains(&kind)
            && !chosen_by_trait
            && says_nothing(kind, &pair[1].text)
        {
            found.push(Finding::new(pair[1].line, format!("{kind} `{}` says nothing", pair[1].text)));
        }
    }
    found
}

fn says_nothing(kind: &str, name: &str) -> bool {
    let snake: String = name
        .char_indices()
        .flat_map(|(at, c)| {
            let gap = (c.is_uppercase() && at > 0).then_some('_');
            gap.into_iter().chain(c.to_lowercase())
        })
        .collect();
    let words: BTreeSet<&str> = snake.split('_').collect();
    let vague_act = kind == "fn" && (snake.starts_with("process_") || snake.starts_with("handle_"));
    vague_act || snake == "data" || snake == "info" || EMPTY_WORDS.iter().any(|word| words.contains(word))
}

/// A module that exists only in tests and in builds with failpoints, with everything below it.
#[derive(Debug, PartialEq, Eq)]
pub struct GatedModule {
    /// Its path without `.rs`.
    stem: String,
}

impl GatedModule {
    /// Whether this file is the module or lies in it.
    pub fn covers(&self, path: &str) -> bool {
        path.strip_prefix(&self.stem).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

/// The `mod` lines of a file that stand right below a gate. A gate that also opens otherwise (a
/// feature of the product, a negation) is none. `simulation` is a feature that the production image is
/// built without, which `compose::image` holds.
pub fn gated_modules(path: &str, text: &str) -> Vec<GatedModule> {
    const GATES: [&str; 3] = [
        "#[cfg(test)]",
        "#[cfg(any(test, feature = \"faults\"))]",
        "#[cfg(any(test, feature = \"simulation\"))]",
    ];
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let mut found = Vec::new();
    let mut is_gated = false;
    for line in text.lines().map(str::trim) {
        if GATES.contains(&line) {
            is_gated = true;
        } else if !line.starts_with("#[") {
            let name = line.trim_start_matches("pub ").strip_prefix("mod ");
            if let Some(name) = name.and_then(|name| name.strip_suffix(';')).filter(|_| is_gated) {
                found.push(GatedModule { stem: format!("{folder}/{name}") });
            }
            is_gated = false;
        }
    }
    found
}

/// `unwrap` and `expect` outside tests need a comment on the same line or right above.
pub fn unproven_panics(path: &str, text: &str) -> Vec<Finding> {
    if path.ends_with("tests.rs") {
        return Vec::new();
    }
    let code = Code::of(text);
    let tests = code.test_modules();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for word in code.words().into_iter().filter(|word| word.text == "unwrap" || word.text == "expect") {
        let called =
            word.at > 0 && code.char(word.at - 1) == '.' && code.char(word.at + word.text.len()) == '(';
        let proven = |line: usize| lines.get(line - 1).is_some_and(|line| line.contains("// "));
        let has_proof = proven(word.line) || (word.line > 1 && proven(word.line - 1));
        if called && !has_proof && !tests.iter().any(|range| range.contains(&word.at)) {
            found.push(Finding::new(word.line, format!("`{}` without a proof in a comment", word.text)));
        }
    }
    found
}

pub fn left_for_later(text: &str) -> Vec<Finding> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
            found.push(Finding::new(at + 1, format!("{mark}: do it, or write down why not")));
        }
    }
    found
}

/// A test that is not run promises nothing.
pub fn ignored_tests(code: &Code) -> Vec<Finding> {
    let words = code.words();
    let opens = |word: &Word| word.at.checked_sub(1).is_some_and(|before| code.char(before) == '[');
    let ignored = words.iter().filter(|word| word.text == "ignore" && opens(word));
    ignored.map(|word| Finding::new(word.line, "an ignored test")).collect()
}

pub fn machine_paths(text: &str) -> Vec<Finding> {
    let paths =
        [concat!("/wo", "rk/"), concat!("/tmp", "/wt"), concat!("/tmp", "/pt"), concat!("/ro", "ot/")];
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(path) = paths.iter().find(|path| line.contains(**path)) {
            found.push(Finding::new(at + 1, format!("names {path}, which exists on one machine only")));
        }
    }
    found
}

/// One `.sql` file: opens with a comment, holds one statement, and is listed.
pub fn statement(path: &str, text: &str, list: &str) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut found = Vec::new();
    if !text.starts_with("-- ") {
        found.push(Finding::new(
            1,
            "does not open with who calls it, which index serves it, what zero rows means",
        ));
    }
    if !list.contains(&format!("/{name}\"")) {
        found.push(Finding::new(1, "is not listed in statements.rs"));
    }
    found
}

/// `YYYYMMDDHHMM_verb_object.sql`
pub fn migration_name(name: &str) -> Vec<Finding> {
    let (time, rest) = name.split_once('_').unwrap_or((name, ""));
    let stamped = time.len() == 12 && time.bytes().all(|byte| byte.is_ascii_digit());
    let purpose = rest.strip_suffix(".sql").is_some_and(|rest| rest.split('_').count() >= 2);
    let wrong = !(stamped && purpose);
    if wrong { vec![Finding::new(1, "is not YYYYMMDDHHMM_verb_object.sql")] } else { Vec::new() }
}
