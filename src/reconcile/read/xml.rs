//! XML from outside, taken apart into elements with a path and a text, and nothing else of it.
//!
//! **Promises**: no document type, so no entity but XML's own five; no element deeper than [`DEPTH_MAX`], no piece of
//! markup beyond what the tap allows, no text beyond [`TEXT_MAX`]; UTF-8 only; one root, closed, with nothing behind
//! it. Elements of other namespaces than the root's are passed over, since banks put their own beside. **Relies on**
//! the library for well-formedness. **Why by path**: a report is mostly what we do not look at; what we do look at
//! reads as a table of paths.

use super::report::Stopped;
use super::tap::Tap;
use super::why::Why;
use quick_xml::Error;
use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use sha2::{Digest, Sha256};
use std::io::BufRead;

/// Deepest element that is read; a report's deepest is half of it.
const DEPTH_MAX: usize = 40;
/// Longest text of an element, in bytes.
const TEXT_MAX: usize = 16 * 1024;

/// What was seen; [`Xml::path`] says where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// An element begins.
    Opened,
    /// It ends. The text is of an element without others in it.
    Closed {
        /// Without the blanks around it.
        text: String,
        /// Its attribute `Ccy`.
        currency: Option<String>,
    },
    /// The root was closed and nothing follows.
    End,
}

/// Which piece of the file a digest is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// An entry of an account.
    Entry,
    /// A transaction inside one.
    Transaction,
}

pub(super) struct Xml<R> {
    reader: NsReader<Tap<R>>,
    buffer: Vec<u8>,
    /// Names of the open elements of the root's namespace, joined by `/`.
    path: String,
    /// How long the path was before each.
    lengths: Vec<usize>,
    /// Open elements that are passed over.
    foreign: usize,
    namespace: String,
    text: String,
    currency: Option<String>,
    is_leaf: bool,
    is_closed: bool,
    comes: Comes,
    line: u64,
    entry: Option<Sha256>,
    transaction: Option<Sha256>,
}

/// Where in the file something comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    First,
    Later,
}

/// What an event comes to, owned.
enum Got {
    Open { name: String, namespace: Option<String>, currency: Option<String> },
    Close,
    Text(String),
    Nothing,
    Eof,
}

impl<R: BufRead> Xml<R> {
    pub(super) fn new(mut tap: Tap<R>) -> Self {
        tap.keep_pieces();
        let mut reader = NsReader::from_reader(tap);
        reader.config_mut().expand_empty_elements = true;
        reader.config_mut().check_comments = true;
        Self {
            reader,
            buffer: Vec::new(),
            path: String::new(),
            lengths: Vec::new(),
            foreign: 0,
            namespace: String::new(),
            text: String::new(),
            currency: None,
            is_leaf: false,
            is_closed: false,
            comes: Comes::First,
            line: 1,
            entry: None,
            transaction: None,
        }
    }

    /// The element that was opened or closed, from the root on: `Document/BkToCstmrStmt/GrpHdr`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The root's namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The line of what was seen last.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Begins a digest with the element that was just opened.
    pub(super) fn begin(&mut self, piece: Piece) {
        let begun = Some(Sha256::new());
        match piece {
            Piece::Entry => self.entry = begun,
            Piece::Transaction => self.transaction = begun,
        }
    }

    /// The digest up to the end of the element that was just closed.
    pub(super) fn end(&mut self, piece: Piece) -> [u8; 32] {
        self.take_piece();
        let ended = match piece {
            Piece::Entry => self.entry.take(),
            Piece::Transaction => self.transaction.take(),
        };
        ended.map_or([0; 32], |digest| digest.finalize().into())
    }

    fn take_piece(&mut self) {
        self.reader.get_mut().take_piece(&mut [&mut self.entry, &mut self.transaction]);
    }

    /// The tap, after the end.
    pub(super) fn into_tap(self) -> Tap<R> {
        self.reader.into_inner()
    }

    pub(super) fn refused<E>(&self, why: Why) -> Stopped<E> {
        Stopped::refused(self.line, why)
    }

    /// The next element that begins or ends.
    pub(super) fn next<E>(&mut self) -> Result<Seen, Stopped<E>> {
        if self.is_closed {
            self.path.truncate(self.lengths.pop().unwrap_or(0));
            self.is_closed = false;
            // What stands now is behind a child.
            self.is_leaf = false;
        }
        loop {
            match self.got()? {
                Got::Open { name, namespace, currency } => {
                    if self.opened(&name, namespace, currency)? {
                        return Ok(Seen::Opened);
                    }
                }
                Got::Close if self.foreign > 0 => self.foreign -= 1,
                Got::Close => return self.closed(),
                Got::Text(text) => self.text(&text)?,
                Got::Nothing => {}
                Got::Eof => return self.ended(),
            }
        }
    }

    fn got<E>(&mut self) -> Result<Got, Stopped<E>> {
        self.take_piece();
        self.buffer.clear();
        self.line = self.reader.get_ref().line();
        let comes = std::mem::replace(&mut self.comes, Comes::Later);
        let read = match self.reader.read_resolved_event_into(&mut self.buffer) {
            Ok((namespace, event)) => got(&namespace, &event, comes),
            Err(error) => Err(Failed::Library(error)),
        };
        match read {
            Ok(got) => Ok(got),
            Err(Failed::Why(why)) => Err(self.refused(why)),
            Err(Failed::Library(Error::Io(_))) if self.reader.get_ref().is_too_long() => {
                Err(self.refused(Why::TooLong { what: "a piece of markup or text" }))
            }
            Err(Failed::Library(Error::Io(error))) => {
                Err(Stopped::Unread(std::io::Error::new(error.kind(), error.to_string())))
            }
            Err(Failed::Library(Error::Encoding(_))) => Err(self.refused(Why::NotUtf8)),
            Err(Failed::Library(error)) => Err(self.refused(Why::Xml(Why::shown(&error.to_string())))),
        }
    }

    /// Is it an element that is looked at?
    fn opened<E>(
        &mut self,
        name: &str,
        namespace: Option<String>,
        currency: Option<String>,
    ) -> Result<bool, Stopped<E>> {
        if self.lengths.len() + self.foreign >= DEPTH_MAX {
            return Err(self.refused(Why::TooDeep));
        }
        self.stray()?;
        let namespace = namespace.unwrap_or_default();
        if self.lengths.is_empty() {
            if !self.namespace.is_empty() {
                return Err(self.refused(Why::AfterEnd));
            }
            if namespace.is_empty() {
                return Err(self.refused(Why::missing("the namespace of the root")));
            }
            self.namespace = namespace;
        } else if self.foreign > 0 || namespace != self.namespace {
            self.foreign += 1;
            return Ok(false);
        }
        self.lengths.push(self.path.len());
        if !self.path.is_empty() {
            self.path.push('/');
        }
        self.path.push_str(name);
        self.text.clear();
        self.currency = currency;
        self.is_leaf = true;
        Ok(true)
    }

    fn closed<E>(&mut self) -> Result<Seen, Stopped<E>> {
        if !self.is_leaf {
            self.stray()?;
        }
        self.is_closed = true;
        let text = self.text.trim().to_owned();
        self.text.clear();
        Ok(Seen::Closed { text, currency: self.currency.take() })
    }

    /// Text beside elements says something that we would not read.
    fn stray<E>(&mut self) -> Result<(), Stopped<E>> {
        if self.foreign == 0 && !self.text.trim().is_empty() {
            let element = Why::shown(self.path.rsplit('/').next().unwrap_or(""));
            return Err(self.refused(Why::StrayText { element }));
        }
        self.text.clear();
        Ok(())
    }

    fn text<E>(&mut self, text: &str) -> Result<(), Stopped<E>> {
        if text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
            return Err(self.refused(Why::ControlCharacter { what: "a text" }));
        }
        if self.lengths.is_empty() && !text.trim().is_empty() {
            let why = if self.namespace.is_empty() { NOT_XML } else { Why::AfterEnd };
            return Err(self.refused(why));
        }
        if self.foreign == 0 {
            if self.text.len() + text.len() > TEXT_MAX {
                return Err(self.refused(Why::TooLong { what: "a text" }));
            }
            self.text.push_str(text);
        }
        Ok(())
    }

    fn ended<E>(&self) -> Result<Seen, Stopped<E>> {
        if self.namespace.is_empty() {
            return Err(self.refused(Why::cut_short("it has no element")));
        }
        if !self.lengths.is_empty() {
            let open = Why::shown(self.path.rsplit('/').next().unwrap_or(""));
            return Err(self.refused(Why::cut_short(&format!("the element {open} is not closed"))));
        }
        Ok(Seen::End)
    }
}

const NOT_XML: Why = Why::NotThisFormat { expected: "XML" };

enum Failed {
    Why(Why),
    Library(Error),
}

impl From<Why> for Failed {
    fn from(why: Why) -> Self {
        Self::Why(why)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

fn got(namespace: &ResolveResult<'_>, event: &Event<'_>, comes: Comes) -> Result<Got, Failed> {
    Ok(match event {
        Event::Start(start) | Event::Empty(start) => {
            let namespace = match namespace {
                ResolveResult::Bound(Namespace(uri)) => Some((*uri).to_owned()),
                ResolveResult::Unbound => None,
                ResolveResult::Unknown(prefix) => {
                    return Err(
                        Why::Xml(format!("the prefix {:?} is not declared", Why::shown(prefix))).into()
                    );
                }
            };
            Got::Open {
                name: start.local_name().into_inner().to_owned(),
                namespace,
                currency: currency(start)?,
            }
        }
        Event::End(_) => Got::Close,
        Event::Text(text) => Got::Text(text.xml10_content().into_owned()),
        Event::CData(text) => Got::Text(text.xml10_content().into_owned()),
        Event::GeneralRef(named) => Got::Text(resolved(named)?.to_string()),
        Event::DocType(_) => return Err(Why::DocumentType.into()),
        Event::Decl(declared) => {
            declaration(declared, comes)?;
            Got::Nothing
        }
        Event::Comment(_) | Event::PI(_) => Got::Nothing,
        Event::Eof => Got::Eof,
    })
}

/// Looks at every attribute, so that one that is there twice or is not closed is seen.
fn currency(start: &BytesStart<'_>) -> Result<Option<String>, Failed> {
    let mut found = None;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(Error::from)?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?;
        if attribute.key.as_ref() == "Ccy" {
            found = Some(value.into_owned());
        }
    }
    Ok(found)
}

fn resolved(named: &BytesRef<'_>) -> Result<char, Failed> {
    if let Some(character) = named.resolve_char_ref()? {
        return Ok(character);
    }
    match &**named {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        other => Err(Why::Entity { value: Why::shown(other) }.into()),
    }
}

fn declaration(declared: &BytesDecl<'_>, comes: Comes) -> Result<(), Failed> {
    if comes == Comes::Later {
        return Err(Why::Xml("a declaration stands in the middle".into()).into());
    }
    let version = declared.version()?;
    if version != "1.0" {
        return Err(Why::bad("the version of XML", &version).into());
    }
    if let Some(encoding) = declared.encoding() {
        let encoding = encoding.map_err(Error::from)?;
        if !["utf-8", "us-ascii"].iter().any(|known| encoding.eq_ignore_ascii_case(known)) {
            return Err(Why::NotUtf8.into());
        }
    }
    Ok(())
}
