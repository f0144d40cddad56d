//! State that the streams of all workers of one target share: the range, the tables of addresses,
//! and the cursors that they advance together.

use std::sync::Arc;

use iodyno_units::OpKind;
use iodyno_units::rng::{self, Generator, RngCore as _};

use super::counted::Counted;
use super::file_layout::FileLayout;
use super::geometry::{Geometry, GeometryError, Range};
use super::pattern::{Cursor, Divisor, Extent, Pass, Pattern, scatter, stream_name};
use super::permute::Permutation;
use super::weighted::Weighted;
use super::zipf::Zipf;
use crate::spec::{self, Scope, Spec};
use crate::worker_index::WorkerIndex;

/// State that the workers of one target share. It is created once per target, and each worker's
/// [`Stream`](crate::Stream) is created from it.
#[derive(Debug)]
pub struct Shared {
    pub(super) seed: u64,
    pub(super) workers: u32,
    pub(super) range: Range,
    /// Layout of the file set; None if the workload has no files.
    pub(super) files: Option<Arc<FileLayout>>,
    span_bytes: u64,
    pub(super) spec: Spec,
    pub(super) mix: Weighted,
    pub(super) counted: Counted,
    pub(super) kinds: Vec<KindPlan>,
    pub(super) tables: Vec<TablePlan>,
}

/// Settings of one kind of operation in the mix, from which any worker's stream is created.
#[derive(Debug)]
pub(super) struct KindPlan {
    pub(super) kind: OpKind,
    pub(super) sizes: Weighted,
    pub(super) lens_bytes: Box<[u32]>,
    /// Index of the kind's address table; None for a flush.
    pub(super) table: Option<usize>,
}

/// Settings of an address table, from which each worker's patterns are created.
#[derive(Debug)]
pub(super) struct TablePlan {
    pub(super) scope: Scope,
    pub(super) choice: Weighted,
    pub(super) patterns: Vec<PatternPlan>,
    pub(super) extent: Extent,
    /// Whether each worker has a range of its own.
    is_own: bool,
}

/// Index of a worker, and the seed of its random streams.
#[derive(Clone, Copy)]
struct Worker {
    seed: u64,
    index: WorkerIndex,
}

/// Settings of a pattern with zones. Sizes are in units of the workload's alignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZonesPlan {
    zone_units: u64,
    /// Part of each zone that is written.
    written_units: u64,
    /// Number of zones that each worker keeps open.
    open: u64,
    /// Whether a zone is trimmed when it is opened.
    trims: bool,
    /// Whether one trim covers the zone, whatever its size.
    one_trim: bool,
}

/// Settings of an address pattern, from which each worker's own state is created.
#[derive(Debug)]
pub(super) enum PatternPlan {
    Uniform,
    OncePerPass,
    Shared(Arc<Cursor>),
    /// Consecutive blocks. True: a block that does not fit before the end of the range gets another random size.
    Sequential(bool),
    Runs(u64),
    Zipf(Arc<Zipf>, Arc<Permutation>),
    HotSpots(Weighted, Box<[(u64, u64)]>, Option<Arc<Permutation>>),
    Recent(usize, u32),
    /// Start address, and distance between consecutive addresses, in units of the workload's alignment.
    Strided(u64, u64),
    Pareto(f64, Arc<Permutation>),
    Normal(u64, Arc<Permutation>),
    Skips(u64, u64),
    Streams(u64),
    Zones(ZonesPlan),
    Jumps(u64),
}

impl Shared {
    /// Prepares the streams of a target's workers. All streams created from this value share its
    /// sequential cursors, which only the workers of this process advance.
    ///
    /// # Errors
    /// The workload does not fit the target.
    pub fn new(spec: &Spec, seed: u64, geometry: &Geometry) -> Result<Arc<Self>, GeometryError> {
        let mut range = Range::new(spec, geometry)?;
        let (mut files, mut span_bytes) = (None, range.units << range.shift);
        if let Some(set) = spec.file_set {
            let largest =
                spec.kinds().flat_map(|(kind, _)| spec.blocks(kind)).map(|b| b.bytes).max();
            let (align, largest) = (spec.align_bytes().into(), largest.unwrap_or(0).into());
            let layout = FileLayout::new(&set, seed, span_bytes, align, largest)?;
            span_bytes = layout.span_bytes(span_bytes);
            range.units = layout.bytes() >> range.shift;
            files = Some(Arc::new(layout));
        }
        let mut kinds = Vec::new();
        let mut tables: Vec<TablePlan> = Vec::new();
        for (kind, _) in spec.kinds() {
            let blocks = spec.blocks(kind);
            let table = match spec.address_scope(kind) {
                None => None,
                Some(scope) => {
                    let known = tables.iter().position(|table| table.scope == scope);
                    if known.is_none() {
                        tables.push(TablePlan::new(spec, scope, seed, range, geometry)?);
                    }
                    Some(known.unwrap_or(tables.len() - 1))
                }
            };
            kinds.push(KindPlan {
                kind,
                sizes: if blocks.is_empty() {
                    Weighted::new([1.0])
                } else {
                    Weighted::new(blocks.iter().map(|block| block.share))
                },
                lens_bytes: blocks.iter().map(|block| block.bytes).collect(),
                table,
            });
        }
        Ok(Arc::new(Self {
            seed,
            workers: geometry.workers,
            range,
            files,
            span_bytes,
            spec: spec.clone(),
            mix: Weighted::new(spec.kinds().map(|(_, share)| share)),
            counted: Counted::new(spec),
            kinds,
            tables,
        }))
    }

    /// Returns `index` together with the number of the target's workers.
    pub(super) fn worker(&self, index: u32) -> WorkerIndex {
        WorkerIndex { index, of: self.workers }
    }

    /// Offset of a worker's range in the target, bytes.
    pub(super) fn start_bytes(&self, worker: u32) -> u64 {
        let step_bytes = self.spec.worker_step_bytes().unwrap_or(0);
        self.range.start_bytes + u64::from(worker) * step_bytes
    }

    /// Offset and size of the active range on this target, bytes, in multiples of the alignment. With
    /// a file set, the range ends at the last extent.
    pub fn active_bytes(&self) -> (u64, u64) {
        (self.range.start_bytes, self.span_bytes)
    }
}

impl TablePlan {
    fn new(
        spec: &Spec,
        scope: Scope,
        seed: u64,
        range: Range,
        geometry: &Geometry,
    ) -> Result<Self, GeometryError> {
        let users = spec.kinds().filter(|(kind, _)| spec.address_scope(*kind) == Some(scope));
        let largest = users.flat_map(|(kind, _)| spec.blocks(kind)).map(|b| b.bytes).max();
        let block_units = u64::from(largest.unwrap_or(512) >> range.shift);
        let extent = Extent { units: range.units, block_units };
        let addresses = &spec.tables[scope as usize].addresses;
        let patterns = addresses
            .iter()
            .map(|address| {
                let is_own = spec.worker_step_bytes().is_some();
                PatternPlan::new(&address.pattern, seed, range, extent, geometry, is_own)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            scope,
            choice: Weighted::new(addresses.iter().map(|address| address.share)),
            patterns,
            extent,
            is_own: spec.worker_step_bytes().is_some(),
        })
    }

    /// Creates the patterns of one worker, each with its own random stream.
    pub(super) fn patterns(&self, seed: u64, index: WorkerIndex) -> Box<[Pattern]> {
        let patterns = self.patterns.iter().enumerate();
        let of = Worker { seed, index };
        patterns.map(|(i, plan)| self.pattern(plan, i, of)).collect()
    }

    fn pattern(&self, plan: &PatternPlan, position: usize, of: Worker) -> Pattern {
        let Extent { units, block_units } = self.extent;
        let places = self.extent.places();
        // Random streams depend on the worker's number, even with a range of its own.
        let rng = || {
            let name = stream_name("address", self.scope.key(), position);
            rng::stream(of.seed, &name, of.index.index.into())
        };
        match plan {
            PatternPlan::Uniform => Pattern::Uniform { rng: rng(), units },
            PatternPlan::Zipf(zipf, scatter) => {
                Pattern::Zipf { rng: rng(), zipf: Arc::clone(zipf), scatter: Arc::clone(scatter) }
            }
            PatternPlan::HotSpots(choice, spots, scatter) => Pattern::HotSpots {
                rng: rng(),
                choice: choice.clone(),
                spots: spots.clone(),
                scatter: scatter.clone(),
            },
            PatternPlan::Recent(ring, window) => {
                Pattern::Recent { rng: rng(), ring: *ring, window: *window, units }
            }
            PatternPlan::Pareto(power, scatter) => {
                Pattern::Pareto { rng: rng(), places, power: *power, scatter: Arc::clone(scatter) }
            }
            PatternPlan::Normal(deviation, scatter) => Pattern::Normal {
                rng: rng(),
                places,
                deviation: *deviation,
                scatter: Arc::clone(scatter),
            },
            PatternPlan::Runs(run) => Pattern::Runs {
                rng: rng(),
                next: 0,
                left: 0,
                run: *run,
                starts: self.extent.blocks() - run + 1,
                block_units,
            },
            PatternPlan::Jumps(below) => {
                Pattern::Jumps { rng: rng(), next: 0, below: *below, units, block_units }
            }
            PatternPlan::Zones(plan) => self.zones(*plan, of, rng()),
            walk => self.walk(walk, position, of),
        }
    }

    /// Index of the worker among the workers that use the same range.
    fn sharing(&self, of: Worker) -> WorkerIndex {
        if self.is_own { WorkerIndex::ALONE } else { of.index }
    }

    fn zones(
        &self,
        ZonesPlan { zone_units, written_units, open, trims, one_trim }: ZonesPlan,
        of: Worker,
        mut rng: Generator,
    ) -> Pattern {
        let sharing = self.sharing(of);
        let (first, apart) = (u64::from(sharing.index), u64::from(sharing.of));
        let zones = (self.extent.units / zone_units).saturating_sub(first).div_ceil(apart);
        // Distinct random zones: the first ones in a random order of all.
        let order = Permutation::new(zones, rng.next_u64());
        let open = (0..open).map(|n| (order.apply(n), 0)).collect();
        Pattern::Zones {
            rng,
            zones,
            first,
            apart,
            zone_units,
            written_units,
            open,
            trims,
            one_trim,
            opened: None,
        }
    }

    /// Creates a pattern without random draws. Workers begin at different offsets in the range.
    fn walk(&self, plan: &PatternPlan, position: usize, of: Worker) -> Pattern {
        let Extent { units, block_units } = self.extent;
        let sharing = self.sharing(of);
        let (nth, of_all) = (u128::from(sharing.index), u128::from(sharing.of));
        match plan {
            PatternPlan::OncePerPass => {
                let name = stream_name("pass", self.scope.key(), position);
                let number = if self.is_own { of.index.index.into() } else { 0 };
                let key = rng::key(of.seed, &name, number);
                Pattern::OncePerPass(Pass::new(key, self.extent, sharing))
            }
            PatternPlan::Shared(cursor) => Pattern::Shared {
                cursor: Arc::clone(cursor),
                blocks: Divisor::new(self.extent.blocks()),
                block_units,
            },
            PatternPlan::Strided(start, stride) => {
                let places = self.extent.places();
                let modulo = |x: u128| (x % u128::from(places)) as u64;
                let stride = u128::from(*stride);
                Pattern::Strided {
                    next: modulo(u128::from(*start) + stride * nth),
                    step: modulo(stride * of_all),
                    places,
                }
            }
            PatternPlan::Skips(run, skip) => {
                let stride = u128::from(run * block_units + skip);
                let runs = u128::from(units).div_ceil(stride);
                let next = (runs * nth / of_all * stride) as u64;
                Pattern::Skips { next, left: *run, run: *run, skip: *skip, units }
            }
            PatternPlan::Streams(streams) => {
                let part = self.extent.blocks() / streams * block_units;
                // Workers that share the range begin at different places in each stream.
                let first = (u128::from(part / block_units) * nth / of_all) as u64 * block_units;
                Pattern::Streams { next: vec![first; *streams as usize].into(), turn: 0, part }
            }
            plan => {
                let to_end = matches!(plan, PatternPlan::Sequential(true));
                let first = (u128::from(self.extent.blocks()) * nth / of_all) as u64;
                Pattern::Sequential { next: first * block_units, units, to_end }
            }
        }
    }
}

impl PatternPlan {
    fn new(
        pattern: &spec::Pattern,
        seed: u64,
        range: Range,
        extent: Extent,
        geometry: &Geometry,
        is_own: bool,
    ) -> Result<Self, GeometryError> {
        let (blocks, places) = (extent.blocks(), extent.places());
        Ok(match pattern {
            spec::Pattern::Uniform { once_per_pass: false } => Self::Uniform,
            spec::Pattern::Uniform { once_per_pass: true } => {
                let workers = geometry.workers;
                if blocks < u64::from(workers) {
                    return Err(GeometryError::FewerBlocksThanWorkers { blocks, workers });
                }
                Self::OncePerPass
            }
            spec::Pattern::Sequential { shared: true, .. } => Self::Shared(Arc::default()),
            spec::Pattern::Sequential { shared: false, run: None } => Self::Sequential(false),
            spec::Pattern::ToEnd => Self::Sequential(true),
            spec::Pattern::Sequential { shared: false, run: Some(run) } => {
                Self::Runs(blocks.min(*run))
            }
            spec::Pattern::Zipf { theta } => {
                Self::Zipf(Arc::new(Zipf::new(places, *theta)), scatter(seed, places))
            }
            spec::Pattern::HotSpots { spots, scatter: scatters } => {
                let mut bounds = Vec::with_capacity(spots.len());
                let (mut parts, mut first) = (0_u64, 0);
                for (i, spot) in spots.iter().enumerate() {
                    parts += u64::from(spot.range.parts_per_billion());
                    let end = (u128::from(places) * u128::from(parts) / 1_000_000_000) as u64;
                    if end == first && spot.share > 0.0 {
                        return Err(GeometryError::EmptySpot { number: i + 1, range: spot.range });
                    }
                    bounds.push((first, end - first));
                    first = end;
                }
                let choice = Weighted::new(spots.iter().map(|spot| spot.share));
                Self::HotSpots(choice, bounds.into(), scatters.then(|| scatter(seed, places)))
            }
            spec::Pattern::RecentlyRead { window } => Self::Recent(0, *window),
            spec::Pattern::RecentlyWritten { window } => Self::Recent(1, *window),
            spec::Pattern::Strided { stride_bytes, start_bytes, backward } => {
                let (start, stride) = (start_bytes >> range.shift, stride_bytes >> range.shift);
                if *backward {
                    // Going backward by a stride is going forward by the rest of the places.
                    Self::Strided(places - 1 - start % places, places - stride % places)
                } else {
                    Self::Strided(start, stride)
                }
            }
            spec::Pattern::Pareto { h } => {
                Self::Pareto(libm::log(*h) / libm::log(1.0 - h), scatter(seed, places))
            }
            spec::Pattern::Normal { deviation } => {
                let width = (deviation.fraction() * places as f64).ceil() as u64;
                Self::Normal(width.min(places / 2), scatter(seed, places))
            }
            spec::Pattern::Skips { run, skip_bytes } => {
                Self::Skips(*run, skip_bytes >> range.shift)
            }
            spec::Pattern::Zones { zone_bytes, open, trim, capacity_bytes } => {
                let zone_units = zone_bytes >> range.shift;
                let workers = if is_own { 1 } else { u64::from(geometry.workers) };
                let zones = extent.units / zone_units.max(1);
                let written_units = capacity_bytes.map_or(zone_units, |bytes| bytes >> range.shift);
                if written_units < extent.block_units {
                    let bytes = |units: u64| units << range.shift;
                    let (zone_bytes, block_bytes) =
                        (bytes(written_units), bytes(extent.block_units));
                    return Err(GeometryError::SmallZones { zone_bytes, block_bytes });
                }
                if zones < workers {
                    return Err(GeometryError::FewZones { zones, workers });
                }
                let open = (u64::from(*open) / workers).max(1).min(zones / workers);
                let one_trim = capacity_bytes.is_some();
                Self::Zones(ZonesPlan { zone_units, written_units, open, trims: *trim, one_trim })
            }
            spec::Pattern::Streams { streams } => {
                let streams = u64::from(*streams);
                if blocks < streams {
                    return Err(GeometryError::FewerBlocksThanStreams { blocks, streams });
                }
                Self::Streams(streams)
            }
            // The conversion saturates at a share of 1, which misses one draw of 2⁶⁴.
            spec::Pattern::Jumps { share } => {
                Self::Jumps((share.fraction() * 18_446_744_073_709_551_616.0) as u64)
            }
        })
    }
}
