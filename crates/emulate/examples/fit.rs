use iodyno_emulate::spec::*;
use iodyno_emulate::{Machine, System};
use iodyno_units::rng::RngCore;
use iodyno_units::{Op, OpKind, rng};
pub fn exflash() -> Flash {
    let f = |k: &str, d: f64| std::env::var(k).ok().map_or(d, |v| v.parse().unwrap());
    Flash {
        capacity_bytes: 400_000_000_000 / 4096 * 4096,
        attach: Attach::MemoryChannel {
            devices_per_thread: 1,
            command_ns: f("CMD", 800.0) as u64,
            read_copy_bytes_per_s: f("RCOPY", 1.08e9),
            write_copy_bytes_per_s: f("WCOPY", 2.6e9),
            poll_ns: 0,
            poll_crowded_ns: f("POLL", 25000.0) as u64,
        },
        controller: Controller {
            read_command_ns: 0,
            read_latency_ns: f("RLAT", 0.0) as u64,
            write_command_ns: 0,
            read_contexts: f("CTX", 16.0) as u32,
            lanes: 2,
            page_split: f("SPLIT", 0.57),
        },
        nand: Nand {
            channels: 16,
            dies_per_channel: f("DPC", 4.0) as u32,
            planes: f("PLANES", 2.0) as u32,
            page_bytes: 8192,
            pages_per_block: 256,
            raw_bytes: 512 << 30,
            read_ns: f("TR", 81000.0) as u64,
            program_fast_ns: f("PF", 600_000.0) as u64,
            program_slow_ns: f("PS", 2_000_000.0) as u64,
            erase_ns: 4_000_000,
            channel_bytes_per_s: f("CH", 130e6),
            programs_max: f("PM", 32.0) as u32,
            suspend_ns: None,
            reads_first: f("RF", 0.0) > 0.0,
            slc: None,
            parity_stripe: 16,
        },
        buffer: Buffer {
            bytes: f("BUF", 2097152.0) as u64,
            accept_ns: f("ACC", 3000.0) as u64,
            protected: true,
        },
        translation: Translation {
            reserved_share: f("RES", 0.03),
            map_writes_per_page: 0.0,
            stall: None,
        },
        endurance: Endurance { drive_writes_per_day: 10.0, years: 5.0, cycles: 3000 },
    }
}
pub fn host() -> Host {
    Host {
        sockets: 4,
        cores_per_socket: 15,
        generator_ns: std::env::var("GEN").map_or(3870, |v| v.parse::<f64>().unwrap() as u64),
        wake_ns: std::env::var("WAKE").map_or(0, |v| v.parse::<f64>().unwrap() as u64),
        memory_bytes_per_s: 85e9,
        memory_channel_bytes_per_s: 10.67e9,
        memory_balanced: true,
        unbalanced_share: 0.75,
        remote_copy_factor: 1.5,
        workers_near: true,
        slots: Slots {
            flash_dimms_per_socket: 8,
            channels_per_socket: 8,
            rdimms_per_channel: 1,
            memory_kind: MemoryKind::Rdimm,
            memory_mode: MemoryMode::Independent,
        },
    }
}
/// read share, block, depth, devices, sequential, think, simulated s -> iops, mean read lat, mean write lat, mean lat, wa
pub fn run(
    read: f64,
    block: u32,
    depth: u32,
    devices: u32,
    seq: bool,
    think: u64,
    secs: f64,
) -> (f64, f64, f64, f64, f64) {
    let how = if seq { Written::Sequential } else { Written::Random { block_bytes: block } };
    let volumes = (0..devices)
        .map(|i| Volume {
            device: Device { name: "x".into(), kind: Kind::Flash(Box::new(exflash())) },
            state: Precondition { how, fill: 1.0 },
            socket: i % 4,
        })
        .collect();
    let t0 = std::time::Instant::now();
    let mut m = Machine::new(&System { name: "x".into(), host: host(), volumes }, 1).unwrap();
    let ready = t0.elapsed();
    let workers: Vec<u32> = (0..devices).map(|v| m.add_worker(v)).collect();
    let mut r: Vec<_> = (0..devices).map(|i| rng::stream(1, "x", i as u64)).collect();
    let mut pos = vec![0_u64; devices as usize];
    let units = 400_000_000_000 / u64::from(block);
    let mut stamp = vec![(0_u64, OpKind::Read); (devices * depth) as usize];
    let mut issue = |m: &mut Machine, at: u64, tok: u64, stamp: &mut Vec<(u64, OpKind)>| {
        let d = (tok / u64::from(depth)) as usize;
        let kind = if read >= 1.0
            || (read > 0.0 && ((r[d].next_u64() >> 11) as f64) < read * (1_u64 << 53) as f64)
        {
            OpKind::Read
        } else {
            OpKind::Write
        };
        let off = if seq {
            pos[d] = (pos[d] + 1) % units;
            pos[d]
        } else {
            rng::below(&mut r[d], units)
        } * u64::from(block);
        let op = Op { offset_bytes: off, len_bytes: block, kind, fua: false };
        stamp[tok as usize] = (m.submit(at, workers[d], d as u32, &op, tok), kind);
    };
    for t in 0..u64::from(devices * depth) {
        issue(&mut m, 0, t, &mut stamp);
    }
    let (warm, end) = ((0.1e9) as u64, ((0.1 + secs) * 1e9) as u64);
    let (mut n, mut lat, mut cnt) = (0_u64, [0_u64; 2], [0_u64; 2]);
    let t0 = std::time::Instant::now();
    let mut total = 0_u64;
    let mut base = m.flash_counts(0).unwrap();
    let mut warmed = false;
    let mut thinking: std::collections::VecDeque<(u64, u64)> = Default::default();
    loop {
        let until = thinking.front().map_or(end, |t| t.0.min(end));
        match m.next_completion(until) {
            Some(c) => {
                total += 1;
                let (s, k) = stamp[c.token as usize];
                if c.at_ns >= warm {
                    if !warmed {
                        warmed = true;
                        base = m.flash_counts(0).unwrap();
                    }
                    n += 1;
                    lat[k.index()] += c.at_ns - s;
                    cnt[k.index()] += 1;
                }
                if think > 0 {
                    thinking.push_back((c.at_ns + think, c.token));
                } else {
                    issue(&mut m, c.at_ns, c.token, &mut stamp);
                }
            }
            None if until >= end => break,
            None => {
                while thinking.front().is_some_and(|t| t.0 <= until) {
                    let t = thinking.pop_front().unwrap();
                    issue(&mut m, t.0, t.1, &mut stamp);
                }
            }
        }
    }
    let el = t0.elapsed().as_secs_f64();
    let c = m.flash_counts(0).unwrap();
    let wa = (c.copied_pages - base.copied_pages) as f64
        / (c.host_pages - base.host_pages).max(1) as f64
        + 1.0;
    if std::env::var("V").is_ok() {
        eprintln!(
            "  ready {:.3}s; {:.2} M I/O/s sim, {:.2} events/IO, {:.1} ns/event",
            ready.as_secs_f64(),
            total as f64 / el / 1e6,
            m.events() as f64 / total as f64,
            el * 1e9 / m.events() as f64
        );
    }
    (
        n as f64 / secs,
        lat[0] as f64 / cnt[0].max(1) as f64 / 1e3,
        lat[1] as f64 / cnt[1].max(1) as f64 / 1e3,
        (lat[0] + lat[1]) as f64 / n.max(1) as f64 / 1e3,
        wa,
    )
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.len() > 5 {
        let g = |i: usize| a[i].parse::<f64>().unwrap();
        let o = run(
            g(1),
            g(2) as u32,
            g(3) as u32,
            g(4) as u32,
            a[5] == "seq",
            if a.len() > 6 { g(6) as u64 } else { 0 },
            if a.len() > 7 { g(7) } else { 0.5 },
        );
        println!("{o:?}");
        return;
    }
    let show = |name: &str, want: f64, got: f64| {
        println!("{name:34} {want:10.2} {got:10.2} {:+6.1} %", (got / want - 1.0) * 100.0)
    };
    show("randread 4K max", 142000., run(1., 4096, 128, 1, false, 0, 0.4).0);
    show("randread 8K max (hint 71K)", 71000., run(1., 8192, 128, 1, false, 0, 0.4).0);
    show("randread 16K max", 42000., run(1., 16384, 128, 1, false, 0, 0.4).0);
    for qd in [2, 4, 8, 16, 32, 64] {
        println!("   QD{qd}: {:.0}", run(1., 4096, qd, 1, false, 0, 0.3).0);
    }
    let w = run(0., 4096, 32, 1, false, 0, 1.0);
    show("randwrite 4K max", 44000., w.0);
    println!("   WA {:.3}", w.4);
    show("randwrite 16K max", 11000., run(0., 16384, 32, 1, false, 0, 1.0).0);
    let mut best = (0.0, 0);
    for qd in [8, 16, 32, 64, 128] {
        let o = run(0.67, 4096, qd, 1, false, 0, 0.6);
        println!("   oltp QD{qd}: {:.0} r {:.0} w {:.0}", o.0, o.1, o.2);
        if o.0 > best.0 {
            best = (o.0, qd);
        }
    }
    show("oltp 4K max", 72000., best.0);
    for (b, h) in [(8192, 36000.), (16384, 19200.)] {
        show("oltp 8K/16K max (0.88 x ts)", h, run(0.67, b, 128, 1, false, 0, 0.6).0);
    }
    show("seqread 64K MB/s", 909., run(1., 65536, 16, 1, true, 0, 0.4).0 * 65536. / 1e6);
    show("seqread 1M MB/s", 909., run(1., 1 << 20, 16, 1, true, 0, 0.4).0 * 1048576. / 1e6);
    show("seqwrite 64K MB/s", 405., run(0., 65536, 16, 1, true, 0, 0.6).0 * 65536. / 1e6);
    show("seqwrite 1M MB/s", 406., run(0., 1 << 20, 16, 1, true, 0, 0.6).0 * 1048576. / 1e6);
    show("lat randread QD1", 119.01, run(1., 4096, 1, 1, false, 0, 0.5).3);
    show("lat randwrite QD1", 18.84, run(0., 4096, 1, 1, false, 0, 1.0).3);
    let o = run(0.67, 4096, 1, 1, false, 0, 2.0);
    show("lat oltp QD1", 101.18, o.3);
    println!("   r {:.1} w {:.1}", o.1, o.2);
    let o0 = run(0., 4096, 1, 1, false, 0, 1.0);
    let o = run(0., 4096, 1, 1, false, 16000, 1.0);
    show("think 16us lat", 5.35, o.3);
    show("think ratio iops", 0.93, o.0 / o0.0);
    show("randread 4K x32", 4331000., run(1., 4096, 32, 32, false, 0, 0.1).0);
    show("lat randread QD1 x32", 132.24, run(1., 4096, 1, 32, false, 0, 0.1).3);
    show("oltp 4K x16", 1154000., run(0.67, 4096, 64, 16, false, 0, 0.2).0);
}
