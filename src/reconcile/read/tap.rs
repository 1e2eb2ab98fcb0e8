//! The bytes of a file on their way to whoever reads them: hashed, counted, bounded.
//!
//! **Promises**: the digest is of every byte, in order; a reader above never gets more than [`CHUNK`] at once, so a
//! bound that is asked between two chunks holds; a byte order mark is taken off, since each reader above would
//! deal with it in its own way. **If this dies here**, nothing was used.

use super::report::Stopped;
use super::why::Why;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read};

/// Most bytes handed up at once.
pub(super) const CHUNK: usize = 8 * 1024;
/// Most bytes of one record: a line of text or one piece of markup.
pub(super) const RECORD_MAX: usize = 64 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";
/// What a file begins with that is text of another encoding.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// A file while it is being read.
pub(super) struct Tap<R> {
    from: R,
    /// Bytes that were looked at for a mark and are none; handed up first.
    front: Vec<u8>,
    front_at: usize,
    digest: Sha256,
    size_bytes: u64,
    line_ends: u64,
    /// What was handed up and taken since [`Tap::take_piece`], where somebody wants it.
    piece: Option<Vec<u8>>,
    is_too_long: bool,
}

/// Where a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With a line end.
    Line,
    /// With the file.
    File,
}

impl<R: BufRead> Tap<R> {
    /// Looks at the first bytes.
    pub(super) fn new<E>(from: R) -> Result<Self, Stopped<E>> {
        let mut tap = Self {
            from,
            front: Vec::new(),
            front_at: 0,
            digest: Sha256::new(),
            size_bytes: 0,
            line_ends: 0,
            piece: None,
            is_too_long: false,
        };
        let mut front = Vec::with_capacity(BOM.len());
        (&mut tap.from).take(BOM.len() as u64).read_to_end(&mut front).map_err(Stopped::Unread)?;
        if front.is_empty() {
            return Err(Stopped::refused(1, Why::Empty));
        }
        if UTF_16.iter().any(|mark| front.starts_with(mark)) {
            return Err(Stopped::refused(1, Why::NotUtf8));
        }
        if front == BOM {
            tap.count(BOM);
        } else {
            tap.front = front;
        }
        Ok(tap)
    }

    /// Keeps the pieces from now on.
    pub(super) fn keep_pieces(&mut self) {
        self.piece = Some(Vec::new());
    }

    /// What was taken since the last call, into `digests`.
    pub(super) fn take_piece(&mut self, digests: &mut [&mut Option<Sha256>]) {
        if let Some(piece) = self.piece.as_mut() {
            for digest in digests.iter_mut().filter_map(|digest| digest.as_mut()) {
                digest.update(&*piece);
            }
            piece.clear();
        }
    }

    /// The line of the next byte, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line_ends + 1
    }

    /// A piece grew beyond its bound, which the reader above takes for an error of the disk.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Appends the bytes up to the next line end, and that too, bounded by [`RECORD_MAX`].
    pub(super) fn line_into<E>(&mut self, record: &mut Vec<u8>, begun_on: u64) -> Result<Ended, Stopped<E>> {
        loop {
            let available = match self.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stopped::Unread(error)),
            };
            if available.is_empty() {
                return Ok(Ended::File);
            }
            let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            record.extend_from_slice(&available[..taken]);
            self.consume(taken);
            if record.len() > RECORD_MAX {
                return Err(Stopped::refused(begun_on, Why::TooLong { what: "a record" }));
            }
            if end.is_some() {
                return Ok(Ended::Line);
            }
        }
    }

    /// Digest and size of all that was read.
    pub(super) fn finish(self) -> ([u8; 32], u64) {
        (self.digest.finalize().into(), self.size_bytes)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.size_bytes += bytes.len() as u64;
        self.line_ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

impl<R: BufRead> Read for Tap<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let taken = available.len().min(into.len());
        into[..taken].copy_from_slice(&available[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl<R: BufRead> BufRead for Tap<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece.as_ref().is_some_and(|piece| piece.len() > RECORD_MAX) {
            self.is_too_long = true;
            return Err(io::Error::other("longer than allowed"));
        }
        if self.front_at < self.front.len() {
            return Ok(&self.front[self.front_at..]);
        }
        let available = self.from.fill_buf()?;
        Ok(&available[..available.len().min(CHUNK)])
    }

    fn consume(&mut self, taken: usize) {
        if self.front_at < self.front.len() {
            let bytes: Vec<u8> = self.front[self.front_at..][..taken].to_vec();
            self.count(&bytes);
            self.front_at += taken;
            if let Some(piece) = self.piece.as_mut() {
                piece.extend_from_slice(&bytes);
            }
            return;
        }
        // The same bytes as a moment ago: `fill_buf` reads again only when they are taken.
        let Self { from, digest, size_bytes, line_ends, piece, .. } = self;
        if let Ok(available) = from.fill_buf() {
            let bytes = &available[..taken.min(available.len())];
            digest.update(bytes);
            *size_bytes += bytes.len() as u64;
            *line_ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            if let Some(piece) = piece.as_mut() {
                piece.extend_from_slice(bytes);
            }
        }
        from.consume(taken);
    }
}
