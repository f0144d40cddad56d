//! Groups rows of a study into the lines of a chart. The rows of a line have the same metric and belong to the same
//! table or figure of the paper; they differ only along one axis.

use crate::metric::Metric;
use crate::study::Study;
use crate::wanted::Wanted;
use iodyno_units::human;

/// Axis along which the points of a line lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Number of devices under load.
    Devices,
    /// Outstanding operations per thread.
    Depth,
    /// Think time, µs.
    Think,
    /// Number of threads per device.
    Threads,
    /// Size of one operation, bytes.
    Block,
    /// Used fraction of the volume, percent.
    Fill,
    /// No axis: a single point.
    None,
}

impl Axis {
    /// Name of the axis in documents; None for a single point.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Devices => Some("devices"),
            Self::Depth => Some("queue_depth"),
            Self::Think => Some("think_time_us"),
            Self::Threads => Some("threads"),
            Self::Block => Some("block_bytes"),
            Self::Fill => Some("fill_percent"),
            Self::None => None,
        }
    }
}

/// One line of a chart, as a list of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Index in `Study::panels` of the table or figure to which the line belongs.
    pub panel: usize,
    pub metric: Metric,
    /// Axis along which the points lie.
    pub axis: Axis,
    /// Properties that all points of the line have in common, as text.
    pub label: String,
    /// Position of each point on the axis.
    pub x: Vec<f64>,
    /// Indices in `Study::rows`, one per point.
    pub rows: Vec<usize>,
}

/// All lines of the study's charts, sorted by table or figure, and then by metric.
pub fn series(study: &Study) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (panel, of_panel) in study.panels.iter().enumerate() {
        for &metric in &of_panel.metrics {
            let rows: Vec<(usize, &Wanted)> = study
                .rows
                .iter()
                .enumerate()
                .filter(|(_, row)| row.panel == Some(panel) && row.metric == Some(metric))
                .collect();
            let axis = axis(&rows, metric);
            let first = all.len();
            for (index, row) in rows {
                let label = label(study, row, axis);
                let x = position(row, axis);
                match all[first..].iter_mut().find(|series| series.label == label) {
                    Some(series) => {
                        series.x.push(x);
                        series.rows.push(index);
                    }
                    None => all.push(Series {
                        panel,
                        metric,
                        axis,
                        label,
                        x: vec![x],
                        rows: vec![index],
                    }),
                }
            }
        }
    }
    all
}

/// Chooses the axis for a metric: the first of fill, devices, depth, think time, threads and block size that
/// has several values.
fn axis(rows: &[(usize, &Wanted)], metric: Metric) -> Axis {
    // A value that comes from the system or the workload is not an axis of the panel.
    let in_key = |row: &Wanted, axis: Axis| match axis {
        Axis::Devices => row.key.devices.is_some(),
        Axis::Depth => row.key.queue_depth.is_some(),
        Axis::Block => row.key.block_bytes.is_some(),
        Axis::Threads => !metric.over_threads(),
        _ => true,
    };
    let varies = |axis: Axis| {
        let on_axis: Vec<&Wanted> =
            rows.iter().map(|(_, row)| *row).filter(|row| in_key(row, axis)).collect();
        // Numbers of devices that only differ because the systems differ do not form a line.
        let is_like =
            |a: &Wanted, b: &Wanted| axis != Axis::Devices || a.key.system == b.key.system;
        let first = |row: &Wanted| on_axis.iter().find(|other| is_like(other, row)).copied();
        on_axis.iter().any(|row| first(row).map(|f| position(f, axis)) != Some(position(row, axis)))
    };
    if varies(Axis::Fill) {
        Axis::Fill
    } else if varies(Axis::Devices) {
        Axis::Devices
    } else if !metric.over_depths() && varies(Axis::Depth) {
        Axis::Depth
    } else if varies(Axis::Think) {
        Axis::Think
    } else if varies(Axis::Threads) {
        Axis::Threads
    } else if varies(Axis::Block) {
        Axis::Block
    } else {
        Axis::None
    }
}

fn position(row: &Wanted, axis: Axis) -> f64 {
    let Some(at) = row.at else { return 0.0 };
    match axis {
        Axis::Devices => f64::from(at.devices),
        Axis::Depth => f64::from(at.depth),
        Axis::Think => at.think_ns as f64 / 1e3,
        Axis::Threads => f64::from(at.threads),
        Axis::Block => f64::from(at.block_bytes),
        Axis::Fill => at.fill.fraction() * 100.0,
        Axis::None => 0.0,
    }
}

/// Describes the common properties of the rows of a line.
fn label(study: &Study, row: &Wanted, axis: Axis) -> String {
    let Some(at) = row.at else { return row.key.workload.clone() };
    let mut words = Vec::new();
    if study.systems.len() > 1 {
        words.push(row.key.system.clone());
    }
    let workload = match axis {
        Axis::Think | Axis::Fill => &study.workloads[at.workload].name,
        _ => &row.key.workload,
    };
    words.push(workload.clone());
    if axis != Axis::Block {
        words.push(human::size(u64::from(at.block_bytes)));
    }
    let threads = row.key.threads.filter(|_| axis != Axis::Threads);
    let depth = row.key.queue_depth.filter(|_| axis != Axis::Depth);
    let demand = [("T", threads), ("Q", depth)];
    let demand = demand.map(|(letter, n)| n.map_or(String::new(), |n| format!("{letter}{n}")));
    words.push(demand.concat());
    words.retain(|word| !word.is_empty());
    if axis != Axis::Devices && at.devices > 1 {
        words.push(format!("{} devices", at.devices));
    }
    words.join(" ")
}
