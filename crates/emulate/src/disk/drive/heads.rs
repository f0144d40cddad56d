//! The heads: they serve foreground requests, destage, and read ahead. Whenever they become free, the next access is
//! chosen from the requests that wait at that instant, and runs to its end. Only read-ahead can be interrupted: it
//! yields to other work unless a read waits for its data.

use super::super::buffer::Extent;
use super::super::journal::{Step, WriteRange};
use super::super::layout::{Access, Layout, Place};
use super::{Disk, NEVER};
use iodyno_units::OpKind;

/// Block size of the link in bytes. The link can send a block as soon as the head has read it.
const LINK_PIECE_BYTES: u64 = 4096;

/// Current activity of the heads.
#[derive(Clone, Debug)]
pub(in crate::disk) enum Heads {
    /// Free for the next access.
    Idle,
    /// Serving a read, or a write that is acknowledged once it is on the medium.
    Serve { slot: u32, access: Access },
    /// Destaging a range of the buffer.
    Destage { extent: Extent, access: Access },
    /// Reading ahead.
    Stream(Stream),
    /// Cleaning the band that contains this byte.
    Clean { byte: u64, access: Access },
    /// Idle on a shingled disk, until the time at which it cleans bands.
    Resting,
}

/// Read-ahead in progress: a run along one track.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    segment: usize,
    /// Start of the read-ahead, including positioning, ns.
    begun_ns: u64,
    /// Time at which the first byte of the run passes the head.
    from_ns: u64,
    /// Offset of the first byte of the run.
    from_byte: u64,
    /// Location of the first byte on the platters.
    place: Place,
    /// End offset of the run (exclusive), on the same track.
    stop: u64,
    /// End offset of the whole read-ahead (exclusive), perhaps on a later track.
    target: u64,
    /// Reads that wait for data which the head has not reached yet.
    waiting: Vec<u32>,
}

impl Disk {
    /// Starts the heads' next work if they are idle, or are reading ahead while requests or destages wait.
    pub(super) fn start_medium(&mut self, now_ns: u64) {
        let work = !self.foreground.is_empty() || !self.buffer.is_clean();
        match &self.heads {
            Heads::Idle => {}
            Heads::Stream(stream) if work && stream.waiting.is_empty() => self.stop_stream(now_ns),
            Heads::Resting if self.inside > 0 => self.stop_rest(),
            _ => return,
        }
        if self.bands.is_some() {
            self.start_on_bands(now_ns);
            return;
        }
        let destage_turn =
            self.foreground_had_turn && self.must_destage() && !self.buffer.is_clean();
        if !self.foreground.is_empty() && !destage_turn {
            let index = self.choose(now_ns);
            let slot = self.foreground.remove(index);
            self.serve(now_ns, slot);
            return;
        }
        let before = self.flush_before();
        if let Some(extent) = self.buffer.take(now_ns, self.head, before, &self.layout) {
            let access = self.layout.access(now_ns, self.head, &extent.place, extent.len, true);
            self.begin_destage(now_ns, extent, access);
            self.foreground_had_turn = false;
        } else if let Some((segment, target)) = self.wish.take() {
            self.start_stream(now_ns, segment, target, Vec::new());
        }
    }

    /// Starts to destage a range that was taken from the buffer.
    pub(super) fn begin_destage(&mut self, now_ns: u64, extent: Extent, access: Access) {
        self.medium_until = now_ns + access.total_ns();
        self.note(Step::Taken(extent.range()));
        self.heads = Heads::Destage { extent, access };
    }

    /// Returns the index in `foreground` of the request that the heads serve next. On a shingled disk, the oldest write
    /// is the only write that may be chosen.
    pub(super) fn choose(&mut self, now_ns: u64) -> usize {
        let oldest = self.requests[self.foreground[0] as usize].since_ns;
        if now_ns - oldest >= self.age_max_ns && !self.overdue_had_turn {
            self.overdue_had_turn = true;
            return 0;
        }
        self.overdue_had_turn = false;
        let in_order = self.bands.is_some();
        let mut has_write = false;
        let mut best = (u128::MAX, 0);
        for (index, &slot) in self.foreground.iter().take(self.window).enumerate() {
            let request = &self.requests[slot as usize];
            let write = request.op.kind != OpKind::Read;
            if in_order && write && std::mem::replace(&mut has_write, true) {
                continue;
            }
            let cost = self.layout.positioning_ns(now_ns, self.head, &request.place, write);
            let left_ns = self.age_max_ns.saturating_sub(now_ns - request.since_ns);
            let weighted = u128::from(cost) * u128::from(left_ns.max(self.age_max_ns / 4));
            if weighted < best.0 {
                best = (weighted, index);
            }
        }
        best.1
    }

    /// Starts the heads' access for a request.
    fn serve(&mut self, now_ns: u64, slot: u32) {
        let request = &self.requests[slot as usize];
        let write = request.op.kind != OpKind::Read;
        let access = self.layout.access(now_ns, self.head, &request.place, request.len(), write);
        self.begin_access(now_ns, slot, access);
        self.foreground_had_turn = true;
    }

    /// Starts a planned access for a request.
    pub(super) fn begin_access(&mut self, now_ns: u64, slot: u32, access: Access) {
        let request = &self.requests[slot as usize];
        let end = now_ns + access.total_ns();
        if request.op.kind == OpKind::Read {
            // The link follows the heads: it begins early enough to send the last piece
            // right after it was read, but not before the first piece is available.
            let piece = self.link_ns(request.len().min(LINK_PIECE_BYTES));
            let begin = (end + piece).saturating_sub(self.link_ns(request.len()));
            self.link_ready = (begin.max(end - access.transfer_ns).max(now_ns), slot);
        }
        self.medium_until = end;
        self.heads = Heads::Serve { slot, access };
    }

    /// Processes the end of the heads' current work: a request, a destage, or a run of read-ahead.
    pub(super) fn medium_done(&mut self, now_ns: u64, done: &mut Vec<u32>) {
        self.medium_until = NEVER;
        match std::mem::replace(&mut self.heads, Heads::Idle) {
            Heads::Idle => {}
            Heads::Serve { slot, access } => {
                self.count(&access);
                self.served(now_ns, slot, &access, done);
            }
            Heads::Destage { access, .. } => {
                self.count(&access);
                self.part_landed();
                self.usage.destages += 1;
                self.buffer.landed();
                self.note(Step::Landed);
                self.finish_flushes(now_ns, done);
                self.admit_writes(now_ns);
            }
            Heads::Stream(stream) => self.stream_run_done(now_ns, stream),
            Heads::Clean { byte, access } => {
                self.count(&access);
                self.cleaned(byte, &access);
            }
            Heads::Resting => self.rested(),
        }
    }

    fn count(&mut self, access: &Access) {
        self.head = access.end;
        self.usage.seeking_ns += access.seek_ns;
        self.usage.rotating_ns += access.rotation_ns;
        self.usage.transferring_ns += access.transfer_ns;
    }

    fn served(&mut self, now_ns: u64, slot: u32, access: &Access, done: &mut Vec<u32>) {
        let request = &mut self.requests[slot as usize];
        request.phases.seek_ns += access.seek_ns;
        request.phases.rotation_ns += access.rotation_ns;
        request.phases.transfer_ns += access.transfer_ns;
        if self.is_unfinished(slot) {
            return;
        }
        let request = &mut self.requests[slot as usize];
        request.since_ns = now_ns;
        let (start, end, len) = (request.op.offset_bytes, request.end(), request.len());
        if request.op.kind == OpKind::Read {
            self.usage.medium_reads += 1;
            self.flash.read(start, len);
            self.wish = self
                .segments
                .keep(start, end)
                .map(|segment| (segment, end.saturating_add(self.spec.read_ahead_bytes)));
        } else {
            let (id, bytes, seq) = (request.id, request.buffer_bytes(), request.seq);
            self.note(Step::Written { id, seq });
            self.usage.medium_writes += 1;
            self.buffer.release(bytes);
            // Earlier acknowledged data of this range is superseded durably.
            let (absorbed, _) = self.buffer.absorb(start, end, seq, &self.layout);
            self.usage.absorbed_bytes += absorbed;
            self.complete(now_ns, slot, done);
            self.finish_flushes(now_ns, done);
            self.admit_writes(now_ns);
        }
    }

    /// Serves a read from a segment that contains its data, or queues the read for read-ahead in progress that will
    /// reach the data. Returns false if neither is possible.
    pub(super) fn read_from_segment(&mut self, now_ns: u64, slot: u32) -> bool {
        let request = &self.requests[slot as usize];
        let (start, end) = (request.op.offset_bytes, request.end());
        let ahead = end.saturating_add(self.spec.read_ahead_bytes).min(self.end_of_uncached(end));
        self.note_progress(now_ns);
        if let Some(found) = self.segments.find(start, end) {
            match &mut self.heads {
                Heads::Stream(stream) if stream.segment == found => {
                    stream.target = stream.target.max(ahead);
                }
                // Resuming read-ahead pays only when half of the data ahead is used up, since each
                // time costs a rotational wait.
                _ if self.segments.get(found).end - end < self.spec.read_ahead_bytes / 2 => {
                    self.wish = Some((found, ahead));
                }
                _ => {}
            }
            self.usage.segment_hits += 1;
            self.link.push_back(slot);
            return true;
        }
        let lone = self.foreground.is_empty() && end <= self.end_of_uncached(start);
        if let Heads::Stream(stream) = &mut self.heads {
            let segment = self.segments.get(stream.segment);
            if lone && (segment.start..=stream.target).contains(&start) && end > segment.end {
                stream.target = stream.target.max(ahead);
                stream.waiting.push(slot);
                self.plan_run();
                return true;
            }
        }
        false
    }

    /// Starts to read ahead from the end of a segment to `target`. `waiting`: reads that wait for data of this range.
    pub(super) fn start_stream(
        &mut self,
        now_ns: u64,
        segment: usize,
        target: u64,
        waiting: Vec<u32>,
    ) {
        let from_byte = self.segments.get(segment).end;
        let target = target.min(self.spec.capacity_bytes).min(self.end_of_uncached(from_byte));
        if from_byte >= target {
            return;
        }
        let place = self.layout.place(from_byte);
        let access = self.layout.access(now_ns, self.head, &place, 0, false);
        self.head = place.track;
        self.heads = Heads::Stream(Stream {
            segment,
            begun_ns: now_ns,
            from_ns: now_ns + access.seek_ns + access.rotation_ns,
            from_byte,
            place,
            stop: from_byte,
            target,
            waiting,
        });
        self.plan_run();
    }

    /// Sets the end of the current read-ahead run: the end of the track, of the read-ahead, or of the
    /// nearest waiting read, whichever comes first.
    fn plan_run(&mut self) {
        let Heads::Stream(stream) = &mut self.heads else { return };
        let mut stop = stream.from_byte + Layout::rest_of_track(&stream.place);
        stop = stop.min(stream.target.min(self.spec.capacity_bytes));
        for &slot in &stream.waiting {
            stop = stop.min(self.requests[slot as usize].end());
        }
        stream.stop = stop;
        self.medium_until =
            stream.from_ns + self.layout.run_ns(&stream.place, stop - stream.from_byte);
    }

    /// Extends the segment by the data that the head has read so far in the current run.
    fn note_progress(&mut self, now_ns: u64) {
        if let Heads::Stream(stream) = &self.heads {
            let time = now_ns.saturating_sub(stream.from_ns);
            let reached = stream.from_byte + self.layout.bytes_in(&stream.place, time);
            let (segment, end) = (stream.segment, reached.min(stream.stop));
            if end > self.segments.get(segment).end {
                self.segments.extend(segment, end);
            }
        }
    }

    /// Processes the end of a run of read-ahead: sends the reads that waited for its data, then starts
    /// the next run or stops.
    fn stream_run_done(&mut self, now_ns: u64, stream: Stream) {
        self.usage.reading_ahead_ns += now_ns - stream.begun_ns;
        let reached = stream.stop;
        self.segments.extend(stream.segment, reached);
        let mut waiting = stream.waiting;
        waiting.retain(|&slot| {
            let request = &mut self.requests[slot as usize];
            if request.end() > reached {
                return true;
            }
            request.phases.transfer_ns += now_ns - request.since_ns;
            request.since_ns = now_ns;
            self.usage.segment_hits += 1;
            self.link.push_back(slot);
            false
        });
        let work = !self.foreground.is_empty() || !self.buffer.is_clean();
        if waiting.is_empty() && work {
            return;
        }
        self.start_stream(now_ns, stream.segment, stream.target, waiting);
    }

    /// Stops read-ahead. No read may be waiting for the data.
    fn stop_stream(&mut self, now_ns: u64) {
        self.note_progress(now_ns);
        if let Heads::Stream(stream) = std::mem::replace(&mut self.heads, Heads::Idle) {
            self.usage.reading_ahead_ns += now_ns - stream.begun_ns;
            self.medium_until = NEVER;
        }
    }

    /// Stops read-ahead of a range that a write overlaps. Reads that waited for the data are queued for
    /// the heads.
    pub(super) fn drop_stream_over(&mut self, now_ns: u64, start: u64, end: u64) {
        let Heads::Stream(stream) = &mut self.heads else { return };
        let from = self.segments.get(stream.segment).start;
        if start >= stream.target || from >= end {
            return;
        }
        let waiting = std::mem::take(&mut stream.waiting);
        self.stop_stream(now_ns);
        self.wish = None;
        for slot in waiting {
            self.line_up(slot);
        }
    }

    /// Returns the range that the heads are writing now; `None` if they are not writing.
    pub(super) fn write_under_heads(&self) -> Option<WriteRange> {
        match &self.heads {
            Heads::Destage { extent, .. } => Some(extent.range()),
            Heads::Serve { slot, .. } => {
                let request = &self.requests[*slot as usize];
                (request.op.kind != OpKind::Read).then(|| WriteRange {
                    id: request.id,
                    offset_bytes: request.op.offset_bytes,
                    len_bytes: request.len(),
                })
            }
            _ => None,
        }
    }
}
