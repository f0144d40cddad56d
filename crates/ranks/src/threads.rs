//! Ranks as threads of one process, connected by channels, for tests.

use crate::serve::Transport;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Transport between ranks that are threads of one process.
#[derive(Debug)]
pub struct InThreads {
    rank: u32,
    to: Vec<Sender<(u32, Vec<u8>)>>,
    from: Receiver<(u32, Vec<u8>)>,
}

/// Creates connected transports for `size` ranks, in rank order.
pub fn in_threads(size: u32) -> Vec<InThreads> {
    let (to, from): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
    let of = |(rank, from)| InThreads { rank, to: to.clone(), from };
    (0..size).zip(from).map(of).collect()
}

impl Transport for InThreads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.to.len() as u32
    }

    fn send(&mut self, to: u32, message: Vec<u8>) {
        // A rank that has ended receives nothing.
        let _ = self.to[to as usize].send((self.rank, message));
    }

    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        self.from.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{Server, kind::CLOCKS_BEGIN};
    use crate::{Host, Ranks, Timing, serve};
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    fn serving(transport: &mut InThreads, server: Server) {
        serve(transport, server);
    }

    /// Runs `work` on each rank, with `serves` as its server thread, and returns the results.
    fn on_ranks<T: Send>(
        size: u32,
        timing: Timing,
        serves: impl Fn(&mut InThreads, Server) + Sync,
        work: impl Fn(&Ranks, &AtomicBool) -> T + Sync,
    ) -> Vec<T> {
        std::thread::scope(|scope| {
            let (work, serves) = (&work, &serves);
            let threads: Vec<_> = in_threads(size)
                .into_iter()
                .map(|mut transport| {
                    scope.spawn(move || {
                        let stop = Arc::new(AtomicBool::new(false));
                        let rank = transport.rank();
                        let (mut ranks, server) =
                            Ranks::connected(rank, size, timing, Arc::clone(&stop));
                        let runs = scope.spawn(move || {
                            let name = format!("host{}", rank / 2);
                            let host = Host { kernel: name.clone(), name, cpus: 1 };
                            let _ = ranks.meet_as(&host);
                            let done = work(&ranks, &stop);
                            ranks.leave();
                            done
                        });
                        serves(&mut transport, server);
                        runs.join().unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn values_go_to_the_first_and_back_in_the_order_of_ranks() {
        for size in [1, 2, 7, 64] {
            let all = on_ranks(size, Timing::default(), serving, |ranks, _| {
                let mut seen = Vec::new();
                for turn in 0..5 {
                    seen.push(ranks.all(&(ranks.rank() * 10 + turn)).unwrap());
                }
                assert_eq!(ranks.gather(&1).unwrap().is_some(), ranks.is_first());
                assert_eq!(
                    ranks.hosts()[ranks.rank() as usize].name,
                    format!("host{}", ranks.rank() / 2)
                );
                seen
            });
            let expected: Vec<Vec<u32>> =
                (0..5).map(|turn| (0..size).map(|r| r * 10 + turn).collect()).collect();
            assert!(all.iter().all(|seen| *seen == expected), "{size}");
        }
    }

    /// The agreed start is in the future at all ranks. Their clock is the same, so an offset of 0 must be within
    /// the bound.
    #[test]
    fn the_start_is_agreed_on_before_it_comes() {
        let starts = on_ranks(4, Timing::default(), serving, |ranks, _| {
            assert_eq!(ranks.agree_on_start(ranks.rank() != 2).unwrap(), None, "one is not ready");
            ranks.agree_on_start(true).unwrap().unwrap()
        });
        for start in &starts {
            assert!(start.clock.offset_ns.unsigned_abs() <= start.clock.bound_ns, "{starts:?}");
            let apart_ns = start.monotonic_ns.abs_diff(starts[0].monotonic_ns);
            assert_eq!(apart_ns, start.clock.offset_ns.unsigned_abs(), "{starts:?}");
        }
    }

    /// Each job runs once, at some rank. All ranks receive all results, in reduced form except at rank 0.
    #[test]
    fn jobs_are_shared_out_once_each() {
        let jobs: Vec<u64> = (0..200).collect();
        for size in [1, 2, 5] {
            let all = on_ranks(size, Timing::default(), serving, |ranks, _| {
                let mut seen = Vec::new();
                for _ in 0..3 {
                    let square = |job: &u64| Ok::<_, u64>((job * job, ranks.rank()));
                    let done =
                        ranks.share_out(2, &jobs, square, |(square, _)| (*square, 99), &mut |_| {});
                    seen.push(done.unwrap());
                }
                let fails = |job: &u64| if *job == 20 { Err(*job) } else { Ok(*job) };
                let done = ranks.share_out(1, &jobs, fails, |job| *job, &mut |_| {}).unwrap();
                assert_eq!(done[20], Some(Err(20)));
                seen
            });
            for (rank, seen) in all.iter().enumerate() {
                for batch in seen {
                    for (job, done) in jobs.iter().zip(batch) {
                        let (square, at) = done.unwrap().unwrap();
                        assert_eq!(square, job * job);
                        assert_eq!(at == 99, rank > 0);
                    }
                }
            }
        }
    }

    /// Rank 0 receives every rank's progress while it waits, and the total number of jobs begun.
    #[test]
    fn the_first_hears_how_far_all_are() {
        let jobs: Vec<u32> = (0..8).collect();
        let first_is_at_work = AtomicBool::new(false);
        let heard = on_ranks(3, Timing::default(), serving, |ranks, _| {
            ranks.say(&(ranks.rank() + 10));
            let begun = std::sync::Mutex::new(Vec::new());
            let (go, gone) = std::sync::mpsc::channel();
            let gone = std::sync::Mutex::new(gone);
            let mut tell = |jobs: usize| {
                begun.lock().unwrap().push(jobs);
                // Rank 0's first job lasts until all jobs have begun and all ranks are heard.
                if jobs == 8 && ranks.said::<u32>().iter().all(Option::is_some) {
                    let _ = go.send(());
                }
            };
            let work = |job: &u32| {
                if ranks.is_first() {
                    first_is_at_work.store(true, Ordering::Relaxed);
                    let _ = gone.lock().unwrap().recv();
                }
                // The others leave rank 0 one job.
                while !first_is_at_work.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok::<u32, u32>(*job)
            };
            ranks.share_out(1, &jobs, work, |job| *job, &mut tell).unwrap();
            (ranks.said::<u32>(), begun.into_inner().unwrap())
        });
        let (said, begun) = &heard[0];
        assert_eq!(*said, [Some(10), Some(11), Some(12)]);
        assert!(begun.is_sorted() && begun.last() == Some(&8), "{begun:?}");
        assert!(heard[1].1.is_empty(), "only the first reports");
    }

    #[test]
    fn a_silent_rank_ends_every_wait() {
        let timing = Timing { patience: Duration::from_millis(1500) };
        let lost = on_ranks(
            3,
            timing,
            |transport, server| {
                if transport.rank() == 1 { drop(server) } else { serving(transport, server) }
            },
            |ranks, stop| {
                if ranks.rank() == 1 {
                    return None;
                }
                let lost = ranks.all(&0).unwrap_err();
                assert!(stop.load(Ordering::Relaxed), "the run is stopped");
                Some(lost.rank)
            },
        );
        // Rank 2 talks only to rank 0, which ends.
        assert_eq!(lost, [Some(1), None, Some(0)]);
    }

    /// A transport whose rank receives nothing for a time after it was told that its clock is measured, as on a host
    /// that is busy.
    struct Stalling {
        inner: InThreads,
        until: Option<Instant>,
        held: VecDeque<(u32, Vec<u8>)>,
    }

    const STALL: Duration = Duration::from_millis(2500);

    impl Transport for Stalling {
        fn rank(&self) -> u32 {
            self.inner.rank()
        }

        fn size(&self) -> u32 {
            self.inner.size()
        }

        fn send(&mut self, to: u32, message: Vec<u8>) {
            self.inner.send(to, message);
        }

        fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
            while let Some((from, message)) = self.inner.receive() {
                let measured = message.first() == Some(&CLOCKS_BEGIN);
                if measured && self.until.is_none() {
                    self.until = Some(Instant::now() + STALL);
                }
                self.held.push_back((from, message));
            }
            if self.until.is_some_and(|until| Instant::now() < until) {
                return None;
            }
            self.held.pop_front()
        }
    }

    #[test]
    fn a_rank_whose_clock_is_measured_may_be_silent_for_the_patience() {
        let starts = on_ranks(
            3,
            Timing::default(),
            |transport, server| {
                if transport.rank() != 1 {
                    return serving(transport, server);
                }
                let from = std::mem::replace(&mut transport.from, channel().1);
                let inner = InThreads { rank: 1, to: transport.to.clone(), from };
                let held = VecDeque::new();
                serve(&mut Stalling { inner, until: None, held }, server);
            },
            |ranks, _| ranks.agree_on_start(true).unwrap().unwrap(),
        );
        // Late answers to the messages of the silent time are no round trips.
        for start in &starts {
            assert!(start.clock.offset_ns.unsigned_abs() <= start.clock.bound_ns, "{starts:?}");
        }
    }
}
