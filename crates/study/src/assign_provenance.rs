//! Gives each row of a study its [`Provenance`]: the study file names the printed figures that went into the
//! model; everything else follows.

use crate::metric::Recipe;
use crate::provenance::Provenance;
use crate::raw::{RawBasis, RawIs};
use crate::testbed::Owned;
use crate::wanted::Wanted;
use iodyno_catalog::{File, Problem};
use iodyno_units::nearest;

/// Gives each row its basis: what the file says, the same for rows that are got in the same way,
/// derived where all ingredients are known, predicted for the rest.
pub(crate) fn assign(
    file: &File,
    entries: &[RawBasis],
    parameters: &[Owned],
    rows: &mut [Wanted],
) -> Result<(), Problem> {
    let mut known: Vec<(Recipe, Provenance, Vec<String>)> = Vec::new();
    let mut said = vec![false; rows.len()];
    for entry in entries {
        let by = checked_by(file, entry, parameters)?;
        let basis = match entry.is.get_ref() {
            RawIs::Input => Provenance::Input,
            RawIs::Fitted => Provenance::Fitted,
            RawIs::Derived => Provenance::Derived,
        };
        let mut matched = false;
        for (row, said) in rows.iter_mut().zip(&mut said) {
            if row.printed.is_some() && matches(entry, row) {
                (row.basis, row.by) = (basis, by.clone());
                known.push((row.recipe.clone(), basis, by.clone()));
                (matched, *said) = (true, true);
            }
        }
        if !matched {
            let message = "no printed figure is meant by this entry";
            let help = "its keys are those of a line in the file of figures".to_owned();
            return Err(Problem::at(file, entry.is.span(), message, Some(help)));
        }
    }
    for (row, _) in rows.iter_mut().zip(said).filter(|(row, said)| !said && row.at.is_some()) {
        let of = |recipe: &Recipe| known.iter().find(|(known, ..)| known == recipe);
        if let Some((_, basis, by)) = of(&row.recipe) {
            (row.basis, row.by) = (*basis, by.clone());
            continue;
        }
        let ingredients = row.recipe.ingredients();
        // A figure against itself is 1 whatever the model does.
        let is_one = matches!(&row.recipe, Recipe::Ratio(a, b) if a == b);
        let all_known = !ingredients.is_empty() && ingredients.iter().all(|i| of(i).is_some());
        if is_one || all_known {
            row.basis = Provenance::Derived;
        }
    }
    Ok(())
}

/// Whether an entry means a row: all keys that it has agree.
fn matches(entry: &RawBasis, row: &Wanted) -> bool {
    let key = &row.key;
    let text = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|a| a == has);
    let number = |asked: Option<u64>, has: Option<u32>| {
        asked.is_none_or(|asked| has.map(u64::from) == Some(asked))
    };
    text(&entry.figure, &key.figure)
        && text(&entry.system, &key.system)
        && text(&entry.workload, &key.workload)
        && text(&entry.metric, &key.metric)
        && number(entry.block.map(|size| size.0), key.block_bytes)
        && number(entry.depth.map(u64::from), key.queue_depth)
        && number(entry.threads.map(u64::from), key.threads)
        && number(entry.devices.map(u64::from), key.devices)
}

/// The parameters that an entry names; each is one of a device or server of the study.
fn checked_by(file: &File, entry: &RawBasis, parameters: &[Owned]) -> Result<Vec<String>, Problem> {
    if *entry.is.get_ref() == RawIs::Fitted && entry.by.is_empty() {
        let message = "a fitted figure says by which parameters: `by` is missing";
        return Err(Problem::at(file, entry.is.span(), message, None));
    }
    for name in &entry.by {
        let mut all = parameters.iter().map(|owned| owned.parameter.key);
        if !all.clone().any(|key| key == name.get_ref()) {
            let guess = nearest(name.get_ref(), &mut all).map(|n| format!("did you mean `{n}`?"));
            let message =
                format!("no device or server of the study has a parameter `{}`", name.get_ref());
            return Err(Problem::at(file, name.span(), message, guess));
        }
    }
    Ok(entry.by.iter().map(|name| name.get_ref().clone()).collect())
}
