//! Operations on the content and size of files in a folder: read, write, truncate, allocate, seek.

use super::node::Folder;
use super::{Access, Item};
use crate::change::{Change, NodeId};
use crate::history::Event;
use crate::tree::{Kind, PAGE_BYTES, pieces};
use fuser::{Errno, FileType};
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};

const PAGE: u64 = PAGE_BYTES as u64;

impl Folder {
    /// Size of a file. Tells the watcher that the operation depends on the size.
    fn size(&mut self, node: NodeId) -> Result<u64, Errno> {
        match self.kind(node)? {
            FileType::RegularFile => {
                self.see(&Item::Size(node), Access::Read);
                Ok(self.tree.size_bytes(node))
            }
            FileType::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn read(
        &mut self,
        node: NodeId,
        offset: u64,
        len_bytes: usize,
    ) -> Result<Vec<u8>, Errno> {
        let size = self.size(node)?;
        if self.watch.is_some() {
            let end = size.min(offset.saturating_add(len_bytes as u64));
            for number in offset / PAGE..end.div_ceil(PAGE) {
                self.see(&Item::Page { node, number }, Access::Read);
            }
        }
        Ok(self.tree.read(node, offset, len_bytes))
    }

    pub(super) fn write(&mut self, node: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let size = self.size(node)?;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        if data.is_empty() {
            return Ok(());
        }
        if end > size {
            self.drop_hidden(node, size, Some(offset));
        }
        if self.watch.is_some() {
            for piece in pieces(offset, data.len()) {
                let start = piece.page * PAGE;
                if start < size {
                    let visible = (size - start).min(PAGE) as usize;
                    let whole = piece.at == 0 && piece.len >= visible;
                    let access = if whole { Access::Overwrite } else { Access::Read };
                    self.see(&Item::Page { node, number: piece.page }, access);
                }
            }
        }
        if self.records() {
            self.change(Change::Write { node, offset, data: data.into() });
        } else {
            self.tree.put(node, offset, data);
            self.tree.grow(node, end);
        }
        self.touch(node);
        Ok(())
    }

    /// Drops bytes beyond a file's end before the file is extended. Such bytes exist where a power cut kept a write
    /// but lost the size. `write_at`: offset of the write that extends the file; `None` if no write does.
    fn drop_hidden(&mut self, node: NodeId, size: u64, write_at: Option<u64>) {
        let tail = (size % PAGE) as usize;
        let last = size / PAGE;
        // A write that begins in the last page uses it itself.
        if tail != 0 && write_at.is_none_or(|offset| offset / PAGE > last) {
            self.see(&Item::Page { node, number: last }, Access::Read);
        }
        self.see(&Item::PagesFrom { node, number: size.div_ceil(PAGE) }, Access::Overwrite);
        let Some(Kind::File { pages, .. }) = self.tree.node(node).map(|node| &node.kind) else {
            return;
        };
        let is_hidden = pages.range(size.div_ceil(PAGE)..).next().is_some()
            || tail != 0
                && pages
                    .get(&last)
                    .is_some_and(|page| page.bytes()[tail..].iter().any(|byte| *byte != 0));
        if is_hidden {
            self.change(Change::Resize { node, size_bytes: size });
        }
    }

    /// Truncates or extends a file.
    pub(super) fn set_size(&mut self, node: NodeId, size_bytes: u64) -> Result<(), Errno> {
        if size_bytes == 0 {
            if self.kind(node)? != FileType::RegularFile {
                return Err(Errno::EINVAL);
            }
            self.see(&Item::Size(node), Access::Overwrite);
            self.see(&Item::PagesFrom { node, number: 0 }, Access::Overwrite);
        } else {
            let size = self.size(node)?;
            if size_bytes > size {
                self.drop_hidden(node, size, None);
            } else {
                if !size_bytes.is_multiple_of(PAGE) {
                    self.see(&Item::Page { node, number: size_bytes / PAGE }, Access::Read);
                }
                let number = size_bytes.div_ceil(PAGE);
                self.see(&Item::PagesFrom { node, number }, Access::Overwrite);
            }
        }
        self.change(Change::Resize { node, size_bytes });
        self.touch(node);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        node: NodeId,
        offset: u64,
        len_bytes: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let size = self.size(node)?;
        let end = offset.checked_add(len_bytes).ok_or(Errno::EFBIG)?;
        let keep_size = mode & FALLOC_FL_KEEP_SIZE != 0;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 => {}
            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE if offset < size => {
                self.see_zeroed(node, offset, end, size);
                self.change(Change::Zero { node, offset, len_bytes });
                self.touch(node);
            }
            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if !keep_size && end > size {
            self.set_size(node, end)?;
        }
        if self.records() && mode & FALLOC_FL_PUNCH_HOLE == 0 {
            self.note(Event::Allocated { node, offset, len_bytes });
        }
        Ok(())
    }

    fn see_zeroed(&mut self, node: NodeId, offset: u64, end: u64, size: u64) {
        if self.watch.is_none() {
            return;
        }
        let end = end.min(size.next_multiple_of(PAGE));
        for piece in pieces(offset, end.saturating_sub(offset) as usize) {
            let visible = (size - piece.page * PAGE).min(PAGE) as usize;
            let whole = piece.at == 0 && piece.len >= visible;
            let access = if whole { Access::Overwrite } else { Access::Read };
            self.see(&Item::Page { node, number: piece.page }, access);
        }
    }

    /// Position of the next data (`wants_data`) or of the next hole, at or after `offset`. The end of a file counts as
    /// a hole. A watched file has no holes before its end, because its pages may still be undecided.
    pub(super) fn seek(
        &mut self,
        node: NodeId,
        offset: u64,
        wants_data: bool,
    ) -> Result<u64, Errno> {
        let size = self.size(node)?;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if self.watch.is_some() {
            return Ok(if wants_data { offset } else { size });
        }
        let Some(Kind::File { pages, .. }) = self.tree.node(node).map(|node| &node.kind) else {
            return Err(Errno::EIO);
        };
        let mut present = pages.range(offset / PAGE..size.div_ceil(PAGE)).map(|(page, _)| *page);
        if wants_data {
            let page = present.next().ok_or(Errno::ENXIO)?;
            return Ok(offset.max(page * PAGE));
        }
        let run = (offset / PAGE..).zip(present).take_while(|(at, page)| at == page).count() as u64;
        Ok(if run == 0 { offset } else { (offset / PAGE + run) * PAGE }.min(size))
    }
}
