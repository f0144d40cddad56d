//! The server thread of a rank, which alone calls the transport. It forwards messages, sends heartbeats, detects
//! silent ranks, and measures clock offsets. It sleeps between rounds, and longer while its rank measures.

use crate::board::Board;
use crate::clock::{ClockOffset, ROUND_TRIPS, RoundTrip, monotonic_ns};
use crate::lost::{Lost, Timing};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Transfers messages between ranks. Messages between any two ranks arrive in order. Used by only one thread.
pub trait Transport {
    /// Number of this rank, from 0.
    fn rank(&self) -> u32;
    /// Number of ranks in the run.
    fn size(&self) -> u32;
    /// Sends a message to rank `to`, without waiting for it to be received.
    fn send(&mut self, to: u32, message: Vec<u8>);
    /// Returns the next message that has arrived, with its sender; `None` if there is none. Never waits.
    fn receive(&mut self) -> Option<(u32, Vec<u8>)>;
}

/// Time between two heartbeats of a rank to its peers.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// Pause of the server thread when it has nothing to do: initial and maximum. Each further pause is twice as
/// long.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(4));
/// Pause of the server thread when it has nothing to do while the rank is measuring.
const QUIET_PAUSE: Duration = Duration::from_millis(20);
/// Maximum pause of the server thread while jobs are distributed: a rank that waits for a job computes
/// nothing.
const SHARING_PAUSE: Duration = Duration::from_micros(400);
/// Time after handing out a job during which rank 0 still counts as distributing jobs.
const SHARES_FOR: Duration = Duration::from_secs(2);
/// Time limit for one measurement of a rank's clock, during which the rank answers without pauses. Repeated until
/// the rank counts as lost.
const CLOCKS_MAX: Duration = Duration::from_millis(400);

/// Values of a message's first byte, which states its kind.
pub(crate) mod kind {
    pub(super) const BEAT: u8 = 0;
    pub(super) const DATA: u8 = 1;
    pub(crate) const CLOCKS_BEGIN: u8 = 2;
    pub(super) const PING: u8 = 3;
    pub(super) const PONG: u8 = 4;
    pub(super) const CLOCKS_END: u8 = 5;
    pub(super) const LEAVING: u8 = 6;
    pub(super) const CLAIM: u8 = 7;
    pub(super) const CLAIMED: u8 = 8;
}

/// Commands from a rank's main thread to its server thread.
#[derive(Debug)]
pub(crate) enum Command {
    Send(u32, Vec<u8>),
    /// At rank 0: measure the offset of every rank's clock.
    MeasureClocks,
    /// The rank begins (true) or ends (false) a measurement.
    Quiet(bool),
    /// Request a job of the batch with this number from rank 0.
    Claim(u64),
    /// The run is over: stop communicating.
    Leave,
}

/// Events from a rank's server thread to its main thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message from another rank has arrived.
    Received(u32, Vec<u8>),
    /// Clock offsets of all ranks, starting with rank 0's.
    Clocks(Vec<ClockOffset>),
    Lost(Lost),
    /// The rank with this number has ended.
    Left(u32),
    /// Answer to [`Command::Claim`]: index of the job assigned to this rank, or an index after the last job if none is
    /// left.
    Claimed(u64),
}

/// Channels and state of a rank's server thread, created by [`Ranks::connected`](crate::Ranks::connected).
#[derive(Debug)]
pub struct Server {
    pub(crate) commands: Receiver<Command>,
    pub(crate) events: Sender<Event>,
    pub(crate) timing: Timing,
    pub(crate) board: Board,
    /// Flag that stops the run; set when a rank is lost.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Runs the server thread of a rank until the rank's run is over. Returns the lost rank, if any.
pub fn serve(transport: &mut dyn Transport, server: Server) -> Option<Lost> {
    Serving::new(transport, server).run()
}

struct Serving<'a> {
    transport: &'a mut dyn Transport,
    server: Server,
    /// Time of the last message from each rank; `None` if the rank has ended.
    heard: Vec<Option<Instant>>,
    beaten: Option<Instant>,
    quiet: bool,
    lost: Option<Lost>,
    /// Messages that arrived while clocks were measured, to be handled later.
    put_off: VecDeque<(u32, Vec<u8>)>,
    /// Number of the current batch of jobs, and index of its next job. Used only at rank 0.
    batch: (u64, u64),
    /// Time at which the last job was handed out. Used only at rank 0.
    handed_out: Option<Instant>,
    /// True while this rank waits for a job.
    claims: bool,
    pause: Duration,
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(body.len() + 1);
    message.push(kind);
    message.extend_from_slice(body);
    message
}

fn number(body: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(body.get(..8)?.try_into().ok()?))
}

impl<'a> Serving<'a> {
    fn new(transport: &'a mut dyn Transport, server: Server) -> Self {
        let heard = vec![Some(Instant::now()); transport.size() as usize];
        Self {
            transport,
            server,
            heard,
            beaten: None,
            quiet: false,
            lost: None,
            put_off: VecDeque::new(),
            batch: (0, 0),
            handed_out: None,
            claims: false,
            pause: PAUSE.0,
        }
    }

    fn run(mut self) -> Option<Lost> {
        loop {
            let mut has_worked = false;
            loop {
                match self.server.commands.try_recv() {
                    Ok(command) => {
                        has_worked = true;
                        if !self.carry_out(command) {
                            return self.lost;
                        }
                    }
                    Err(TryRecvError::Disconnected) => {
                        self.leave();
                        return self.lost;
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
            // After the commands: those that came during the measurement of clocks tell who is alive.
            while let Some((from, message)) = self.next() {
                has_worked = true;
                self.take(from, &message);
            }
            self.beat();
            self.look_for_lost();
            if has_worked {
                self.pause = PAUSE.0;
            } else {
                let pause = if self.quiet { QUIET_PAUSE } else { self.pause };
                self.pause = (self.pause * 2).min(self.longest_pause());
                // A command from the run's thread ends the pause.
                if let Ok(command) = self.server.commands.recv_timeout(pause)
                    && !self.carry_out(command)
                {
                    return self.lost;
                }
            }
        }
    }

    fn longest_pause(&self) -> Duration {
        let shares = self.handed_out.is_some_and(|at| at.elapsed() < SHARES_FOR);
        if self.claims || shares { SHARING_PAUSE } else { PAUSE.1 }
    }

    /// Executes a command of the main thread. Returns false if the run is over.
    fn carry_out(&mut self, command: Command) -> bool {
        match command {
            Command::Send(to, bytes) => self.transport.send(to, framed(kind::DATA, &bytes)),
            Command::MeasureClocks => self.measure_clocks(),
            Command::Quiet(quiet) => self.quiet = quiet,
            Command::Claim(batch) if self.rank() == 0 => {
                let index = self.hand_out(batch);
                let _ = self.server.events.send(Event::Claimed(index));
            }
            Command::Claim(batch) => {
                self.claims = true;
                self.transport.send(0, framed(kind::CLAIM, &batch.to_le_bytes()));
            }
            Command::Leave => {
                self.leave();
                return false;
            }
        }
        self.pause = PAUSE.0;
        true
    }

    fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        self.put_off.pop_front().or_else(|| self.transport.receive())
    }

    fn rank(&self) -> u32 {
        self.transport.rank()
    }

    /// Ranks that this rank communicates with and monitors: all others for rank 0, only rank 0 for the others.
    fn peers(&self) -> std::ops::Range<u32> {
        if self.rank() == 0 { 1..self.transport.size() } else { 0..1 }
    }

    fn take(&mut self, from: u32, message: &[u8]) {
        if let Some(heard) = &mut self.heard[from as usize] {
            *heard = Instant::now();
        }
        let Some((&kind, body)) = message.split_first() else { return };
        match kind {
            // An empty heartbeat carries no report.
            kind::BEAT if !body.is_empty() => self.server.board.write(from, body.to_vec()),
            kind::DATA => {
                // A send error means that the run is over.
                let _ = self.server.events.send(Event::Received(from, body.to_vec()));
            }
            kind::CLOCKS_BEGIN => self.answer_round_trips(),
            kind::CLAIM => {
                let index = number(body).map_or(u64::MAX, |batch| self.hand_out(batch));
                self.transport.send(from, framed(kind::CLAIMED, &index.to_le_bytes()));
            }
            kind::CLAIMED => {
                self.claims = false;
                let index = number(body).unwrap_or(u64::MAX);
                let _ = self.server.events.send(Event::Claimed(index));
            }
            kind::LEAVING => {
                self.heard[from as usize] = None;
                // Without rank 0 no result can be kept.
                if from == 0 {
                    self.server.stop.store(true, Ordering::Relaxed);
                }
                let _ = self.server.events.send(Event::Left(from));
            }
            _ => {}
        }
    }

    /// Hands out the next job of a batch. Returns its index, which may exceed the last job's. A batch that is
    /// over yields `u64::MAX`.
    fn hand_out(&mut self, batch: u64) -> u64 {
        if batch < self.batch.0 {
            return u64::MAX;
        }
        if batch > self.batch.0 {
            self.batch = (batch, 0);
        }
        self.batch.1 += 1;
        self.handed_out = Some(Instant::now());
        self.server.board.set_handed_out(self.batch.1);
        self.batch.1 - 1
    }

    fn beat(&mut self) {
        if self.beaten.is_some_and(|at| at.elapsed() < BEAT_EVERY) {
            return;
        }
        self.beaten = Some(Instant::now());
        let said = if self.rank() == 0 { Vec::new() } else { self.server.board.read(self.rank()) };
        for peer in self.peers() {
            self.transport.send(peer, framed(kind::BEAT, &said));
        }
    }

    fn look_for_lost(&mut self) {
        if self.lost.is_some() {
            return;
        }
        let patience = self.server.timing.patience;
        let silent = self.peers().find(|&peer| {
            self.heard[peer as usize].is_some_and(|heard| heard.elapsed() > patience)
        });
        if let Some(rank) = silent {
            self.give_up(Lost { rank, silent: patience });
        }
    }

    fn give_up(&mut self, lost: Lost) {
        self.lost = Some(lost);
        self.server.stop.store(true, Ordering::Relaxed);
        let _ = self.server.events.send(Event::Lost(lost));
    }

    /// Measures the clock offset of one rank after another. Does not pause between messages, since a pause would
    /// count as delay.
    fn measure_clocks(&mut self) {
        let mut offsets = vec![ClockOffset::default()];
        for rank in 1..self.transport.size() {
            let (begun, silent) = (Instant::now(), self.server.timing.patience);
            let offset = loop {
                self.beat();
                if let Some(offset) = ClockOffset::from_round_trips(&self.round_trips(rank)) {
                    break offset;
                }
                if begun.elapsed() > silent {
                    self.give_up(Lost { rank, silent });
                    return;
                }
            };
            offsets.push(offset);
        }
        let _ = self.server.events.send(Event::Clocks(offsets));
    }

    fn round_trips(&mut self, rank: u32) -> Vec<RoundTrip> {
        self.transport.send(rank, framed(kind::CLOCKS_BEGIN, &[]));
        let until = Instant::now() + CLOCKS_MAX;
        let mut trips = Vec::new();
        while trips.len() < ROUND_TRIPS as usize && Instant::now() < until {
            let sent_ns = monotonic_ns();
            self.transport.send(rank, framed(kind::PING, &sent_ns.to_le_bytes()));
            let Some(answered_ns) = self.wait_for_answer(rank, sent_ns, until) else { break };
            trips.push(RoundTrip { sent_ns, answered_ns, received_ns: monotonic_ns() });
        }
        self.transport.send(rank, framed(kind::CLOCKS_END, &[]));
        trips
    }

    /// Waits for a rank's answer to the message sent at `sent_ns`. Returns the time of the answer by the rank's clock,
    /// ns; `None` if there is no answer by `until`. Drops answers to earlier messages, which would make a round trip
    /// seem too short.
    fn wait_for_answer(&mut self, rank: u32, sent_ns: u64, until: Instant) -> Option<u64> {
        loop {
            match self.transport.receive() {
                Some((from, message)) if from == rank && message.first() == Some(&kind::PONG) => {
                    if number(message.get(1..)?) == Some(sent_ns) {
                        return number(message.get(9..)?);
                    }
                }
                Some(other) => self.put_off.push_back(other),
                None if Instant::now() > until => return None,
                // Otherwise ranks that share a processor could not answer.
                None => std::thread::yield_now(),
            }
        }
    }

    fn answer_round_trips(&mut self) {
        let until = Instant::now() + CLOCKS_MAX;
        while Instant::now() < until {
            match self.transport.receive() {
                Some((0, message)) if message.first() == Some(&kind::PING) => {
                    let answer = [&message[1..], &monotonic_ns().to_le_bytes()].concat();
                    self.transport.send(0, framed(kind::PONG, &answer));
                }
                Some((0, message)) if message.first() == Some(&kind::CLOCKS_END) => return,
                Some(other) => self.put_off.push_back(other),
                None => std::thread::yield_now(),
            }
        }
    }

    /// Announces to other ranks that this rank ends, so that they do not count it as lost.
    fn leave(&mut self) {
        for peer in self.peers() {
            self.transport.send(peer, framed(kind::LEAVING, &[]));
        }
    }
}
