//! Faults at the interface of a volume: chosen errors, and silent faults, on plain memory, at native speed and at the
//! model's, in memory and in a file.

use crate::place::{Place, RunOutput};
use crate::serve::{MIB, Served};
use iodyno_nbd::client::Blocking;
use iodyno_nbd::{CmdFlags, Kind};
use std::io;
use std::time::{Duration, Instant};

/// Arguments of `serve` for each way to serve a volume of 8 MiB.
const SERVED: [&str; 4] = [
    "ram:8MiB",
    "exflash-400g --size 8MiB --speed native",
    "exflash-400g --size 8MiB --no-floor",
    "hdd-15k-300g --size 8MiB --no-floor --backing data",
];

/// Runs `test` on each way to serve.
fn on_each(test: impl Fn(&Served<'_>, &mut Blocking)) {
    for words in SERVED {
        let place = Place::new();
        let served = Served::start(&place, words);
        let mut client = served.client();
        test(&served, &mut client);
        drop(client);
        served.stop();
    }
}

fn write(client: &mut Blocking, at: u64, bytes: &[u8]) -> io::Result<()> {
    client.write(at, bytes, CmdFlags::default())
}

fn flush(client: &mut Blocking) -> io::Result<()> {
    client.command(Kind::Flush, CmdFlags::default(), 0, 0)
}

fn read(client: &mut Blocking, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    client.read(at, &mut bytes).unwrap();
    bytes
}

/// The faults at the interface in the status, including those that are over: description, requests in scope, and
/// affected requests.
fn in_effect(served: &Served<'_>) -> Vec<(String, u64, u64)> {
    let status = served.status();
    let of = status["volumes"].as_array().map_or(&status, |volumes| &volumes[0]);
    let faults = of["interface_faults"].as_array().unwrap();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    faults.iter().map(|f| (text(&f["fault"]), number(&f["seen"]), number(&f["applied"]))).collect()
}

#[track_caller]
fn fails_with(result: io::Result<()>, errno: i32) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(errno));
}

#[test]
fn lost_writes_are_acknowledged_and_gone() {
    on_each(|served, client| {
        write(client, 0, &[1; 4096]).unwrap();
        assert!(served.fault("lost at 0..+8KiB after 1 next 1").contains("not stored"));
        write(client, MIB, &[2; 4096]).unwrap();
        write(client, 4096, &[3; 4096]).unwrap();
        assert_eq!(in_effect(served)[0].1, 1);
        write(client, 0, &[4; 8192]).unwrap();
        flush(client).unwrap();
        // The second write in the range is lost as a whole.
        assert_eq!((read(client, 0), read(client, 4096)), (vec![1; 4096], vec![3; 4096]));
        assert_eq!(read(client, MIB), [2; 4096]);
        let scope =
            "writes in the 8 KiB at 0 B are acknowledged and not stored, after 1, the next 1";
        assert_eq!(in_effect(served), [(scope.to_owned(), 2, 1)]);
        write(client, 0, &[5; 4096]).unwrap();
        assert_eq!(read(client, 0), [5; 4096]);
    });
}

#[test]
fn torn_and_misdirected_writes_are_acknowledged() {
    on_each(|served, client| {
        write(client, 0, &[1; 4096]).unwrap();
        served.fault("torn 512B next 1");
        write(client, 0, &[2; 4096]).unwrap();
        let torn = read(client, 0);
        assert!(torn[..512] == [2; 512] && torn[512..] == [1; 3584], "{}", torn[511]);
        served.fault("torn unit next 1");
        write(client, 8192, &[4; 8192]).unwrap();
        assert_eq!((read(client, 8192), read(client, 12288)), (vec![4; 4096], vec![0; 4096]));
        served.fault("misdirected 1MiB next 1");
        write(client, 0, &[3; 4096]).unwrap();
        flush(client).unwrap();
        assert_eq!((read(client, 0), read(client, MIB)), (torn, vec![3; 4096]));
    });
}

#[test]
fn a_flipped_bit_is_not_stored() {
    on_each(|served, client| {
        write(client, 0, &[6; 8192]).unwrap();
        served.fault("flip at 0 next 2");
        assert_eq!(read(client, 4096), [6; 4096]);
        for _ in 0..2 {
            let flipped = read(client, 0);
            assert_eq!((flipped[0], &flipped[1..]), (7, &[6; 4095][..]));
        }
        assert_eq!(read(client, 0), [6; 4096]);
    });
}

#[test]
fn requests_fail_with_the_error_that_is_asked_for() {
    on_each(|served, client| {
        write(client, 0, &[1; 4096]).unwrap();
        served.fault("error EIO flushes after 2 next 1");
        flush(client).unwrap();
        flush(client).unwrap();
        fails_with(flush(client), libc::EIO);
        flush(client).unwrap();
        served.fault("error ENOSPC writes");
        fails_with(write(client, 0, &[2; 4096]), libc::ENOSPC);
        assert_eq!(read(client, 0), [1; 4096]);
        let faults = in_effect(served);
        assert_eq!(faults, [("writes fail with ENOSPC, until `clear`".to_owned(), 1, 1)]);
        served.fault("clear");
        write(client, 0, &[2; 4096]).unwrap();
        // Over before the next request.
        served.fault("error EIO for 1ns");
        assert_eq!(read(client, 0), [2; 4096]);
    });
}

#[test]
fn stale_reads_return_what_was_replaced() {
    on_each(|served, client| {
        write(client, 0, &[1; 8192]).unwrap();
        served.fault("stale at 0..+1MiB next 2");
        write(client, 0, &[2; 4096]).unwrap();
        write(client, 512, &[3; 512]).unwrap();
        client.command(Kind::WriteZeroes, CmdFlags::default(), 6144, 4096).unwrap();
        flush(client).unwrap();
        assert_eq!(read(client, 3072), [1; 4096], "a read of old and unchanged data");
        assert_eq!(read(client, 4096)[2048..], [1; 2048]);
        let new = read(client, 0);
        assert!(new[..512] == [2; 512] && new[512..1024] == [3; 512], "the stored data is new");
        assert_eq!(in_effect(served)[0].2, 2);
        // Reads of unchanged data pass.
        served.fault("stale next 1");
        assert_eq!(read(client, 0), new);
        client.command(Kind::WriteZeroes, CmdFlags::default(), 0, 65536).unwrap();
        assert_eq!((read(client, 0), in_effect(served)[0].2), (new, 1));
        assert_ne!(read(client, 0)[..512], [2; 512]);
    });
}

/// The time that `request` takes.
fn time_of<T>(request: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    request();
    began.elapsed()
}

#[test]
fn replies_are_held_back() {
    const LATE: Duration = Duration::from_millis(200);
    on_each(|served, client| {
        let far = |client: &mut Blocking| time_of(|| write(client, MIB, &[1; 4096]).unwrap());
        served.fault("delay 200ms writes at 1MiB after 1 flushes next 1");
        assert!(far(client) < LATE);
        flush(client).unwrap();
        assert!(time_of(|| read(client, MIB)) < LATE);
        assert!(far(client) >= LATE);
        assert!(far(client) < LATE);
        // The hang begins with the first request in its scope, and is over at once for all.
        served.fault("hang 200ms flushes");
        std::thread::sleep(LATE);
        assert!(far(client) < LATE);
        assert!(time_of(|| flush(client).unwrap()) >= LATE);
        assert!(time_of(|| flush(client).unwrap()) < LATE);
        let (said, seen, applied) = in_effect(served).remove(0);
        assert!(said.starts_with("flushes get no reply until 200 ms after"), "{said}");
        assert_eq!((seen, applied), (1, 1));
        // Without a time, until it is cleared. The write itself is done.
        served.fault("hang writes next 1");
        std::thread::scope(|scope| {
            let hung = scope.spawn(|| time_of(|| write(client, 0, &[9; 4096]).unwrap()));
            let other = &mut served.client();
            while in_effect(served).last().unwrap().2 == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(LATE);
            assert_eq!(read(other, 0), [9; 4096]);
            assert!(!hung.is_finished());
            served.fault("clear");
            assert!(hung.join().unwrap() >= LATE);
        });
    });
}

/// Storage without a model takes `delay` and `hang` of a device as faults of its interface.
#[test]
fn storage_without_a_model_is_slow_and_hangs() {
    const LATE: Duration = Duration::from_millis(200);
    let place = Place::new();
    for words in &SERVED[..2] {
        let served = Served::start(&place, words);
        let client = &mut served.client();
        served.fault("delay 200ms flushes");
        assert!(time_of(|| flush(client).unwrap()) >= LATE);
        assert!(time_of(|| read(client, 0)) < LATE);
        served.fault("delay 0ms flushes");
        assert!(time_of(|| flush(client).unwrap()) < LATE);
        served.fault("hang");
        assert!(served.fault("delay 1s").contains("operations end 1.00 s later"));
        std::thread::scope(|scope| {
            let hung = scope.spawn(|| read(client, 0));
            std::thread::sleep(LATE);
            assert!(!hung.is_finished());
            served.fault("clear");
            hung.join().unwrap();
        });
        // A server that holds a reply back ends all the same.
        served.fault("hang");
        std::thread::scope(|scope| {
            let hung = scope.spawn(|| client.read(0, &mut [0; 512]).is_err());
            while in_effect(&served)[0].2 == 0 {
                std::thread::yield_now();
            }
            served.stop();
            assert!(hung.join().unwrap());
        });
    }
}

#[test]
fn a_reply_says_what_is_not_possible() {
    let place = Place::new();
    let refuses = |served: &Served<'_>, words: &str, says: &str| {
        let output: RunOutput = served.try_fault(words);
        output.fails(2, &[says]);
    };
    let served = Served::start(&place, "ram:8MiB");
    refuses(&served, "slow x10", "plain memory supports only faults at its interface");
    refuses(&served, "lost at 8MiB", "beyond the end");
    refuses(&served, "lost 1", "volume");
    served.stop();
    let served = Served::start(&place, "raid5(ssd-sas12-mlc-800g*4) --no-floor");
    refuses(&served, "lost", "`lost`, `torn` and `stale` require a single device");
    let client = &mut served.client();
    served.fault("misdirected 1MiB next 1");
    write(client, 0, &[3; 4096]).unwrap();
    assert_eq!((read(client, 0), read(client, MIB)), (vec![0; 4096], vec![3; 4096]));
    served.fault("flip next 1");
    assert_eq!(read(client, MIB)[0], 2);
    served.fault("error EIO reads next 1");
    fails_with(client.read(0, &mut [0; 512]), libc::EIO);
    served.stop();
}
