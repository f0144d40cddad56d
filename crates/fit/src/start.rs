//! Closed forms for start values, from the cells with extreme loads. A parameter that may limit a rate starts 3 %
//! above the largest measured rate, so that the refinement sees its effect.

use crate::Measured;
use crate::parameter::Parameter;
use iodyno_emulate::spec::Device;
use iodyno_measure::Cell;
use iodyno_units::OpKind;

/// Extremes of rate, throughput and latency over all measured cells.
#[derive(Debug, Default)]
struct Extremes {
    /// Largest read and write rates, operations a second.
    iops: [f64; 2],
    /// Largest rate of all operations together, operations a second.
    all_iops: f64,
    /// Largest read and write throughput, bytes a second.
    bytes_per_s: [f64; 2],
    /// Largest throughput of all operations together, bytes a second.
    all_bytes_per_s: f64,
    /// Smallest mean latencies of reads, writes and flushes, ns; `None` for a kind that was not measured.
    latency_ns: [Option<f64>; 3],
}

impl Extremes {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut all = Self::default();
        for cell in cells {
            let total = cell.total();
            let (mut iops, mut bytes) = (0.0, 0.0);
            for (kind, class) in total.iter() {
                let index = match kind {
                    OpKind::Read => 0,
                    OpKind::Write => 1,
                    OpKind::Flush => 2,
                    _ => continue,
                };
                let mean = class.response_time().mean_ns();
                let least = &mut all.latency_ns[index];
                *least = mean.into_iter().chain(*least).reduce(f64::min);
                if index == 2 {
                    continue;
                }
                let of_kind =
                    (cell.per_second(class.ops() as f64), cell.per_second(class.bytes as f64));
                all.iops[index] = all.iops[index].max(of_kind.0);
                all.bytes_per_s[index] = all.bytes_per_s[index].max(of_kind.1);
                iops += of_kind.0;
                bytes += of_kind.1;
            }
            all.all_iops = all.all_iops.max(iops);
            all.all_bytes_per_s = all.all_bytes_per_s.max(bytes);
        }
        all
    }
}

/// Start values of the parameters, from the measured cells; where these say nothing, the value in `device`.
pub(crate) fn values(parameters: &[Parameter], device: &Device, cells: &[Measured]) -> Vec<f64> {
    let extremes = Extremes::of(cells.iter().map(|measured| &measured.cell));
    let above = |rate: f64| (rate > 0.0).then_some(rate * 1.03);
    let start = |parameter: &Parameter| {
        let known = match parameter.key {
            "volume.read" => extremes.latency_ns[0],
            "volume.write" => extremes.latency_ns[1],
            "volume.flush" => extremes.latency_ns[2],
            "volume.network" => above(extremes.all_bytes_per_s).map(|rate| rate * 2.0),
            "io_thread.command" => above(extremes.all_iops).map(|rate| 1e9 / rate),
            "throughput_limit.rate" => above(extremes.all_bytes_per_s),
            "iops_limit.rate" => above(extremes.all_iops),
            "link.read" | "memory.read" | "platters.outer" | "io_thread.read_copy" => {
                above(extremes.bytes_per_s[0])
            }
            "link.write" | "memory.write" | "io_thread.write_copy" => {
                above(extremes.bytes_per_s[1])
            }
            "controller.read_command" => above(extremes.iops[0]).map(|rate| 1e9 / rate),
            "controller.write_command" => above(extremes.iops[1]).map(|rate| 1e9 / rate),
            _ => None,
        };
        let value = known.or_else(|| parameter.of(device)).unwrap_or(parameter.bounds.0);
        value.clamp(parameter.bounds.0, parameter.bounds.1)
    };
    parameters.iter().map(start).collect()
}
