//! Every key of a file sets its own field, in the field's unit: files with distinct values are
//! compared with the whole specification written out.

use std::fmt::Write as _;

use iodyno_emulate::describe;
use iodyno_emulate::spec::{
    Attach, Buffer, CloudVolume, Controller, Counted, Credits, Device, DurableOrder, Endurance,
    Flash, Folding, Host, IoThread, Kind, Limit, LimitOf, Memory, MemoryKind, MemoryMode, Nand,
    PowerCut, Slc, Slots, Stall, Translation, Variation, VictimRule,
};

/// Text of a device or system file: `head`, then the lines. Each line is a table or a `KEY VALUE` pair.
fn raw(head: &str, lines: &str) -> String {
    let mut text = format!("schema = 1\nsummary = \"any\"\n{head}\n");
    for line in lines.lines().map(str::trim) {
        let _ = match line.split_once(' ') {
            Some((key, is)) => writeln!(text, "{key} = {{ is = {is}, from = \"assumed: any\" }}"),
            None => writeln!(text, "{line}"),
        };
    }
    text
}

fn device(family: &str, lines: &str) -> Device {
    let head = format!("kind = \"device\"\nhost = \"any\"\nfamily = \"{family}\"");
    describe::device("any", &raw(&head, lines)).unwrap().device
}

const INSIDE: &str = r#"[controller]
    read_command "11us"
    read_latency "12us"
    write_command "10us"
    copy "33us"
    turn "34us"
    read_contexts 13
    lanes 2
    page_split "14%"
    [nand]
    channels 6
    dies_per_channel 5
    planes 4
    page "8KiB"
    pages_per_block 256
    raw "480GiB"
    read "15us"
    program_fast "16us"
    program_slow "17us"
    erase "18us"
    channel_rate "19 MB/s"
    programs_max 20
    suspend "21us"
    reads_first true
    parity_stripe 22
    [variation]
    page_types 4
    spread "33us"
    retried 0.34
    retry "35us"
    suspend "37us"
    suspend_share "41%"
    [slc]
    size "23GiB"
    program "24us"
    read "36us"
    [folding]
    bits 3
    program "38us"
    share 0.39
    pause "40us"
    [buffer]
    size "25MiB"
    accept "26us"
    protected true
    [translation]
    reserved 0.01
    map_writes_per_page 0.27
    unit "16KiB"
    victim "cost-benefit"
    freed_per_write 1.28
    [power_cut]
    atomic "64KiB"
    order "acknowledged"
    [stall]
    every "28GiB"
    lasts "29us"
    [endurance]
    drive_writes_per_day 30
    years 31
    cycles 32"#;

fn flash(attach: Attach) -> Kind {
    Kind::Flash(Box::new(Flash {
        capacity_bytes: 409_600_000_000,
        attach,
        controller: Controller {
            read_command_ns: 11_000,
            read_latency_ns: 12_000,
            write_command_ns: 10_000,
            copy_ns: 33_000,
            turn_ns: 34_000,
            read_contexts: 13,
            lanes: 2,
            page_split: 0.14,
        },
        nand: Nand {
            channels: 6,
            dies_per_channel: 5,
            planes: 4,
            page_bytes: 8192,
            pages_per_block: 256,
            raw_bytes: 480 << 30,
            read_ns: 15_000,
            program_fast_ns: 16_000,
            program_slow_ns: 17_000,
            erase_ns: 18_000,
            channel_bytes_per_s: 19e6,
            programs_max: 20,
            suspend_ns: Some(21_000),
            reads_first: true,
            variation: Some(Variation {
                page_types: 4,
                spread_ns: 33_000,
                retried_share: 0.34,
                retry_ns: 35_000,
                suspend_ns: 37_000,
                suspend_share: 0.41,
            }),
            slc: Some(Slc { bytes: 23 << 30, program_ns: 24_000, read_ns: Some(36_000) }),
            folding: Some(Folding { bits: 3, program_ns: 38_000, share: 0.39, pause_ns: 40_000 }),
            parity_stripe: 22,
        },
        buffer: Buffer { bytes: 25 << 20, accept_ns: 26_000, protected: true },
        translation: Translation {
            reserved_share: 0.01,
            map_writes_per_page: 0.27,
            unit_bytes: 16 << 10,
            victim: VictimRule::CostBenefit,
            freed_per_write: 1.28,
            stall: Some(Stall { every_bytes: 28 << 30, for_ns: 29_000 }),
        },
        zones: None,
        placement: None,
        power_cut: Some(PowerCut { atomic_bytes: 64 << 10, order: DurableOrder::Acknowledged }),
        endurance: Endurance { drive_writes_per_day: 30.0, years: 31.0, cycles: 32 },
        scale: 1,
    }))
}

#[test]
fn a_flash_dimm() {
    let lines = r#"capacity "409.6GB"
        [memory_channel]
        devices_per_thread 3
        command "4us"
        read_copy "5 MB/s"
        write_copy "6 MB/s"
        poll "7us"
        poll_crowded "8us""#;
    // There the driver thread takes the commands.
    let inside = INSIDE
        .replace("read_command \"11us\"", "read_command \"0us\"")
        .replace("write_command \"10us\"", "write_command \"0us\"")
        .replace("copy \"33us\"", "copy \"0us\"")
        .replace("turn \"34us\"", "turn \"0us\"");
    let mut expected = flash(Attach::MemoryChannel {
        devices_per_thread: 3,
        command_ns: 4_000,
        read_copy_bytes_per_s: 5e6,
        write_copy_bytes_per_s: 6e6,
        poll_ns: 7_000,
        poll_crowded_ns: 8_000,
    });
    if let Kind::Flash(flash) = &mut expected {
        flash.controller.read_command_ns = 0;
        flash.controller.write_command_ns = 0;
        flash.controller.copy_ns = 0;
        flash.controller.turn_ns = 0;
    }
    assert_eq!(device("flash", &format!("{lines}\n{inside}")).kind, expected);
}

#[test]
fn a_flash_drive_behind_a_link() {
    let lines = r#"capacity "409600MB"
        [link]
        read "3 MB/s"
        write "4 MB/s"
        full_duplex true
        command "8us"
        latency "5us"
        queue_max 6
        host "7us"
        host_rate "9 MB/s""#;
    let expected = flash(Attach::Link {
        read_bytes_per_s: 3e6,
        write_bytes_per_s: 4e6,
        full_duplex: true,
        command_ns: 8_000,
        latency_ns: 5_000,
        queue_max: 6,
        host_ns: 7_000,
        host_bytes_per_s: 9e6,
    });
    assert_eq!(device("flash", &format!("{lines}\n{INSIDE}")).kind, expected);
}

#[test]
fn memory() {
    let lines = r#"capacity "2GiB"
        [memory]
        io "3us"
        read "4 MB/s"
        write "5 MB/s"
        read_passes 6.5
        write_passes 7
        flush "8us"
        varying "9%"
        queue true
        protected true"#;
    let expected = Memory {
        capacity_bytes: 2 << 30,
        io_ns: 3_000,
        read_bytes_per_s: 4e6,
        write_bytes_per_s: 5e6,
        read_passes: 6.5,
        write_passes: 7.0,
        flush_ns: 8_000,
        varying_share: 0.09,
        queues: true,
        protected: true,
    };
    assert_eq!(device("memory", lines).kind, Kind::Memory(Box::new(expected)));
}

#[test]
fn a_cloud_volume_and_limits() {
    let lines = r#"capacity "2GiB"
        [iops_limit]
        rate 3
        window "4us"
        burst 5
        credits 60
        start 150
        account "7KiB"
        merge true
        [throughput_limit]
        rate "8 MB/s"
        window "9us"
        burst "10 MB/s"
        credits "11kB"
        start "5500B"
        account "12KiB"
        merge false
        [volume]
        read "13us"
        write "14us"
        flush "15us"
        varying "16%"
        network "17 MB/s"
        queue_max 18
        [io_thread]
        command "19us"
        write_command "22us"
        read_copy "20 MB/s"
        write_copy "21 MB/s""#;
    let io_thread = IoThread {
        command_ns: 19_000,
        write_command_ns: Some(22_000),
        read_bytes_per_s: 20e6,
        write_bytes_per_s: 21e6,
    };
    let expected = CloudVolume {
        capacity_bytes: 2 << 30,
        read_ns: 13_000,
        write_ns: 14_000,
        flush_ns: 15_000,
        varying_share: 0.16,
        bytes_per_s: 17e6,
        queue_max: 18,
        io_thread: Some(io_thread),
    };
    let found = device("volume", lines);
    assert_eq!(found.kind, Kind::Volume(Box::new(expected)));
    assert!(found.hot_swap);
    let iops = Limit {
        of: LimitOf::All,
        counts: Counted::Operations,
        rate: 3,
        window_ns: 4_000,
        account_bytes: Some(7 << 10),
        merges: true,
        credits: Some(Credits { most: 60, start: 150, burst: 5 }),
    };
    let bytes = Limit {
        of: LimitOf::All,
        counts: Counted::Bytes,
        rate: 8_000_000,
        window_ns: 9_000,
        account_bytes: Some(12 << 10),
        merges: false,
        credits: Some(Credits { most: 11_000, start: 5_500, burst: 10_000_000 }),
    };
    assert_eq!(found.limits, [iops.clone(), bytes]);
    // Keys left out, on a device of another family.
    let lines = r#"capacity "2GiB"
        [iops_limit]
        rate 3
        window "4us"
        [memory]
        io "3us"
        read "4 MB/s"
        write "5 MB/s"
        read_passes 6.5
        write_passes 7
        flush "8us"
        protected true"#;
    let plain = Limit { account_bytes: None, merges: false, credits: None, ..iops };
    assert_eq!(device("memory", lines).limits, [plain]);
}

#[test]
fn a_server() {
    let kinds = [
        ("rdimm", MemoryKind::Rdimm),
        ("lrdimm", MemoryKind::Lrdimm),
        ("udimm", MemoryKind::Udimm),
        ("rdimm", MemoryKind::Rdimm),
    ];
    let modes = [
        ("independent", MemoryMode::Independent),
        ("lockstep", MemoryMode::Lockstep),
        ("sparing", MemoryMode::Sparing),
        ("mirroring", MemoryMode::Mirroring),
    ];
    for ((kind, memory_kind), (mode, memory_mode)) in kinds.into_iter().zip(modes) {
        let lines = format!(
            r#"[host]
            sockets 2
            cores_per_socket 3
            generator "4us"
            wake "5us"
            memory "600 MB/s"
            memory_channel "700 MB/s"
            memory_balanced false
            unbalanced "8%"
            remote_copy_factor 9
            workers_near true
            driver_write "13us"
            [slots]
            flash_dimms_per_socket 10
            channels_per_socket 11
            rdimms_per_channel 12
            memory_kind "{kind}"
            memory_mode "{mode}""#
        );
        let expected = Host {
            sockets: 2,
            cores_per_socket: 3,
            generator_ns: 4_000,
            wake_ns: 5_000,
            memory_bytes_per_s: 6e8,
            memory_channel_bytes_per_s: 7e8,
            memory_balanced: false,
            unbalanced_share: 0.08,
            remote_copy_factor: 9.0,
            workers_near: true,
            driver_write_ns: 13_000,
            slots: Slots {
                flash_dimms_per_socket: 10,
                channels_per_socket: 11,
                rdimms_per_channel: 12,
                memory_kind,
                memory_mode,
            },
        };
        let described =
            describe::system("any", &raw("kind = \"system\"", &lines), &mut |_| Err(String::new()))
                .unwrap();
        assert_eq!(described.host, expected);
    }
}
