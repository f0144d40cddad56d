//! Instances (virtual machines) whose limits all attached volumes share.

use super::load::{Conditions, Striped};
use super::prices::CloudPrices;
use iodyno_emulate::spec::Limit;
use iodyno_run::{Files, RunError, described_system};

/// An instance (virtual machine), with the limits that it sets on its volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Name or path of the instance's system file.
    pub system: String,
    /// Rate limits that all attached volumes share.
    pub limits: Vec<Limit>,
    /// Maximum number of attached volumes; `None`: no maximum.
    pub volumes_max: Option<u32>,
    /// Monthly price in the price file's currency; 0 for an instance that the user already has.
    pub price: f64,
}

impl Instance {
    /// The cheapest of several instances that meets the conditions and can attach `volumes` volumes.
    pub(super) fn cheapest<'a>(
        all: &'a [Self],
        of: Conditions<'_>,
        volumes: u32,
    ) -> Option<&'a Self> {
        let can_attach = |instance: &Self| instance.volumes_max.is_none_or(|most| volumes <= most);
        let meets = |instance: &&Self| {
            of.hold(&instance.limits, Striped::shared(volumes)) && can_attach(instance)
        };
        all.iter().filter(meets).min_by(|a, b| a.price.total_cmp(&b.price))
    }
}

/// Returns the instances to choose from: the one that the user already has, or those in the price file. `None` if
/// there is neither.
///
/// # Errors
///
/// An unknown system, or one without limits.
pub(super) fn instances(
    cloud: &str,
    prices: &CloudPrices,
    owned: Option<&str>,
) -> Result<Option<Vec<Instance>>, RunError> {
    let mut files = Files::default();
    let mut read = |system: &str, price: f64, volumes_max: Option<u32>| {
        let limits = described_system(system, &mut files)?.0.limits;
        if limits.is_empty() {
            return Err(RunError::Impossible(format!(
                "`{system}` has no limits for its volumes: add `[iops_limit]` and `[throughput_limit]` to its file"
            )));
        }
        Ok(Instance { system: system.to_owned(), limits, volumes_max, price })
    };
    let all = match owned {
        Some(system) => {
            let row = prices.instances_of(cloud).find(|row| row.system == system);
            vec![read(system, 0.0, row.and_then(|row| row.volumes_max))?]
        }
        None => prices
            .instances_of(cloud)
            .map(|row| read(&row.system, row.price, row.volumes_max))
            .collect::<Result<_, _>>()?,
    };
    Ok(Some(all).filter(|all| !all.is_empty()))
}
