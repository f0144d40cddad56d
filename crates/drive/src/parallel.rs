//! Threads for cells in virtual time: each cell has its own emulated machine, so several cells run in parallel, one
//! per processor.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of threads that can run in parallel on this machine.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs all jobs, in order, on up to `threads` threads, and `own` on this thread at the same time. Returns
/// results in the order of the jobs; `None` for a job that was not started because another had failed.
pub fn at_once<J: Sync, T: Send + Sync, E: Send + Sync, R>(
    threads: usize,
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, E> + Sync,
    own: impl FnOnce() -> R,
) -> (R, Vec<Option<Result<T, E>>>) {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Result<T, E>>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let own = thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    if results[at].get_or_init(|| work(job)).is_err() {
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                }
            });
        }
        own()
    });
    (own, results.into_iter().map(OnceLock::into_inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With any number of threads, results are in the order of the jobs, and no job starts after a failure.
    #[test]
    fn results_are_in_order_and_end_with_a_failure() {
        let jobs: Vec<u32> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let (own, all) = at_once(threads, &jobs, |job| Ok::<_, ()>(job * job), || "own");
            assert_eq!(own, "own");
            assert!(all.iter().zip(&jobs).all(|(square, job)| *square == Some(Ok(job * job))));
        }
        let fails = |job: &u32| if *job == 3 { Err(*job) } else { Ok(*job) };
        let ((), all) = at_once(1, &jobs, fails, || ());
        assert_eq!(all[..5], [Some(Ok(0)), Some(Ok(1)), Some(Ok(2)), Some(Err(3)), None]);
        assert!(all[4..].iter().all(Option::is_none));
    }
}
