//! Small synthetic traces in each format, with the operations that they contain.

#![allow(dead_code)]

use iodyno_catalog::Problem;
use iodyno_exchange::trace::{Selection, TraceFile, read};
use iodyno_units::{Op, OpKind};

pub(crate) type Row = (u64, OpKind, u64, u32, Option<u64>);

pub(crate) fn reading(text: &str, chosen: &Selection) -> Result<TraceFile, Problem> {
    read(text.as_bytes(), "it", chosen, 1 << 20)
}

pub(crate) fn file(text: &str) -> TraceFile {
    reading(text, &Selection::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Reads a trace with the time before its first operation.
pub(crate) fn from_the_start(text: &str) -> TraceFile {
    let chosen = Selection { from_ns: Some(0), ..Selection::default() };
    reading(text, &chosen).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn rows(file: &TraceFile) -> Vec<Row> {
    let row = |o: iodyno_workload::trace::TraceOp| {
        let Op { offset_bytes, len_bytes, kind, .. } = o.op;
        (o.at_ns, kind, offset_bytes, len_bytes, o.response_ns)
    };
    file.trace.ops().map(row).collect()
}

pub(crate) fn refusal(text: &str) -> String {
    reading(text, &Selection::default()).unwrap_err().to_string()
}

pub(crate) const V2: &str = "fio version 2 iolog\n/d/a add\n/d/b add\n/d/a open\n/d/b open\n/d/a write 0 4096\n/d/a wait 5 0\n/d/b read 8192 512\n/d/a sync 0 0\n/d/a wait 7 0\n/d/b trim 0 1048576\n/d/a close\n/d/b close\n";
pub(crate) const V3: &str = "fio version 3 iolog\n26 x add\n187 x open\n191 x read 0 4096\n2802 x write 45056 8192\n3109 x sync 57344 0\n3110 x datasync 0 0\n3200 x trim 4096 4096\n3300 x warp 1 2\n3400 x wait 1 2\n5235 x close\n";
pub(crate) const BLK: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   N [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]
  8,0    3        5     0.000006000   697  Q  RM 800 + 16 [a b]
  8,0    3       17     0.000025012   697  D   W 223490 + 8 [kjournald]
  8,0    1        6     0.000100000     0  C   W 223490 + 8 [0]
  8,0    3       18     1.500000000   697  Q FWFS 64 + 8 [x]
  8,0    3       19     1.600000000   697  Q FWS [x]
  8,0    3       20     1.600000001   697  Q   D 0 + 2048 [x]
  8,0    3       21     1.600000002   697  Q   N 36 (12 00 00 00 24 00 ..) [x]
  8,0    3       22     1.700000000     0  m   N cfq697 Not idling
CPU3 (8,0):
 Reads Queued:           1,        8KiB\t Writes Queued:           2,        8KiB
Total (8,0):
 Throughput (R/W): 1KiB/s / 1KiB/s
";
pub(crate) const MSR: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n128166372016382155,usr,0,Write,1317441536,8192,1963\n128166372016382155,usr,1,Read,512,512,20\n128166372026382245,usr,0,Write,2436440064,4096,1835\n";
pub(crate) const OWN: &str = "iodyno trace 1\nt 0 scratch:\nt 1 nbd://host/a b\no 100 0 0 0 w 4096 4096 1\no 100 1 3 0 r 0 512 0\nc 250 1 3 0\no 300 0 0 1 f 0 0 0\no 400 0 0 2 z 0 65536 0\nc 900 0 0 0\nend 4\n";
pub(crate) const SERVED: &str = "iodyno record 3\n{\"device\":\"model:x\"}\no 1200 0 0 w 4096 4096 0\nf 5000 power-cut\no 6000 0 1 r 0 4096 0\nend 90000 0123456789abcdef\n";
pub(crate) const FTRACE: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
             fio-1234    [003] ..... 675.000000: block_getrq: 8,0 W 2048 + 8 [fio]
             fio-1234    [003] ..... 675.000010: block_rq_issue: 8,0 W 4096 () 2048 + 8 none,0,0 [fio]
      kworker/3:1-77      [003] ..... 675.000020: block_rq_issue: 8,0 R 8192 () 64 + 16 [kworker/3:1 x]
          <idle>-0       [001] d.h.. 675.000110: block_rq_complete: 8,0 W () 2048 + 8 none,0,0 [0]
 CPU:1 [LOST 12 EVENTS]
          <idle>-0       [001] d.h.. 675.000120: block_rq_complete: 8,0 R () 64 + 16 none,0,0 [-5]
             fio-1234    [003] ..... 675.500000: block_rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [fio]
             fio-1234    [003] ..... 675.500010: block_rq_issue: 8,0 D 1048576 () 4096 + 2048 none,0,0 [fio]
             fio-1234    [003] ..... 675.500020: block_rq_issue: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 none,0,0 [fio]
";
pub(crate) const PERF: &str = "\
# ========
# captured on    : Thu Nov 26 20:00:00 2026
# ========
#
my fio  1234 [003]   675.000012345:   block:block_bio_queue: 253,0 WS 2048 + 8 [my fio]
my fio  1234 [003]   675.000013000:   block:block_bio_queue: 253,0 WS 2056 + 8 [my fio]
my fio  1234 [003]   675.000014000:    block:block_rq_issue: 253,0 WS 8192 () 2048 + 16 none,0,0 [my fio]
                ffffffff81 blk_mq_start_request ([kernel.kallsyms])
swapper     0 [001]   675.000112345: block:block_rq_complete: 253,0 WS () 2048 + 16 none,0,0 [0]
swapper     0 [001]   675.000112400: block:block_bio_complete: 253,0 WS 2048 + 8 [0]
my fio  1234 [003]   675.000200000:   block:block_bio_queue: 253,0 R 8 + 8 [my fio]
swapper     0 [001]   675.000300000: block:block_bio_complete: 253,0 R 8 + 8 [0]
";
pub(crate) const BIOSNOOP: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.000000    supervise      1950   xvda1   W 13092560   4096       0.74
0.000178    jbd2 xvda 8    1950   xvda1   R 13092432   8192       0.50
1.022346    supervise      1950   nvme0n1 W 8          4096       1.02
";
pub(crate) const BIOSNOOP_QUEUED: &str = "\
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
0.000000    fio            1950    sda     WS   2048       4096      0.010   0.100
0.002000    fio            1950    sda     FF   0          0        -1.000   0.200
";
pub(crate) const SYSTOR: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n1456135200.013118000,0.000806000,R,4,899056122368,131072\n1456135200.014000000,,,4,512,512\n1456135201.013118500,0.5,W,1,4096,8192\n";
pub(crate) const ALIBABA: &str = "0,R,126703661056,4096,1577808000000046\n1,W,19496058880,77824,1577808000000426\n0,R,126703644672,4096,1577808000000626\n";
pub(crate) const TENCENT: &str =
    "1538323199,42932745,8,0,1063\n1538323200,100,16,1,1064\n1538323200,42932753,8,1,1063\n";
pub(crate) const CLOUDPHYSICS: &str =
    "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633898,28,4096,8\n1,5633900,12,36,0\n";
pub(crate) const SPC: &str =
    "0,20941264,8192,W,0.551706\n1,3072,4096,r,1.5,x,y z\n0,20941280,512,W,1.554041\n";

/// Samples of all text formats.
pub(crate) const TEXTS: [&str; 15] = [
    V2,
    V3,
    BLK,
    MSR,
    OWN,
    SERVED,
    FTRACE,
    PERF,
    BIOSNOOP,
    BIOSNOOP_QUEUED,
    SYSTOR,
    ALIBABA,
    TENCENT,
    CLOUDPHYSICS,
    SPC,
];

/// Binary records of CloudPhysics: microseconds, code, sector, bytes and response time in microseconds.
pub(crate) fn vscsi(version: u16, records: &[(u64, u16, u64, u32, u64)]) -> Vec<u8> {
    let mut all = Vec::new();
    for &(us, code, sector, bytes, response_us) in records {
        let version_word = (version << 8).to_le_bytes();
        if version == 2 {
            all.extend(code.to_le_bytes());
            all.extend(version_word);
            all.extend(0x8000_00f4_u32.to_le_bytes());
            all.extend(bytes.to_le_bytes());
            all.extend(1_u32.to_le_bytes());
        } else {
            all.extend(0x8000_00f4_u32.to_le_bytes());
            all.extend(bytes.to_le_bytes());
            all.extend(1_u32.to_le_bytes());
            all.extend(code.to_le_bytes());
            all.extend(version_word);
        }
        all.extend(sector.to_le_bytes());
        all.extend(us.to_le_bytes());
        if version == 2 {
            all.extend(response_us.to_le_bytes());
        }
    }
    all
}

pub(crate) const VSCSI: [(u64, u16, u64, u32, u64); 3] = [
    (5_633_898_611_490, 0x2a, 42_932_745, 512, 90),
    (5_633_898_611_500, 0x28, 8, 4096, 70),
    (5_633_898_612_000, 0x35, 0, 0, 5),
];

/// The bytes of all samples.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let texts = TEXTS.iter().map(|text| text.as_bytes().to_vec());
    texts.chain([vscsi(1, &VSCSI), vscsi(2, &VSCSI)]).collect()
}
