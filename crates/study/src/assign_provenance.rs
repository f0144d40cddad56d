//! Assigns each row of a study its [`Provenance`]. The study file lists the published values from which model
//! parameters were chosen; the provenance of all other values follows from this list.

use crate::metric::Recipe;
use crate::provenance::Provenance;
use crate::published::Figure;
use crate::testbed::Owned;
use crate::wanted::Wanted;
use iodyno_catalog::{Entry, File, Problem, Record};
use iodyno_units::nearest;

/// Assigns each row its provenance: the one that the study file states for the row or for another row with the same
/// recipe; `Derived` if the provenance of all ingredients of the recipe is stated; otherwise `Predicted`.
pub(crate) fn assign(
    file: &File,
    raw: &Record,
    parameters: &[Owned],
    printed: &[Figure],
    rows: &mut [Wanted],
) -> Result<(), Problem> {
    let mut known: Vec<(Recipe, Provenance, Vec<String>)> = Vec::new();
    let mut said = vec![false; rows.len()];
    for entry in raw.records("basis") {
        let by = checked_by(file, entry, parameters)?;
        let basis = match entry.word("is") {
            Some("input") => Provenance::Input,
            Some("fitted") => Provenance::Fitted,
            _ => Provenance::Derived,
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
            let message = "no printed figure matches this entry";
            let help =
                "the entry's keys must match those of a line in the file of figures".to_owned();
            return Err(Problem::at(file, entry.place("is"), message, Some(help)));
        }
    }
    // The largest number of devices that can be attached is not a property of an adapter.
    for (row, said) in rows.iter_mut().zip(&mut said).filter(|(_, said)| !**said) {
        let Some(figure) = row.printed.map(|i| &printed[i]) else { continue };
        if let Recipe::Saturation(_, all) = row.recipe
            && figure.value >= f64::from(all.devices)
        {
            (row.basis, *said) = (Provenance::Input, true);
        }
    }
    for (row, _) in
        rows.iter_mut().zip(said).filter(|(row, said)| !said && row.basis == Provenance::Predicted)
    {
        let of = |recipe: &Recipe| known.iter().find(|(known, ..)| known == recipe);
        if let Some((_, basis, by)) = of(&row.recipe) {
            (row.basis, row.by) = (*basis, by.clone());
            continue;
        }
        let ingredients = row.recipe.ingredients();
        // The ratio of a figure to itself is 1, whatever the model computes.
        let is_one = matches!(&row.recipe, Recipe::Ratio(a, b) if a == b);
        let all_known = !ingredients.is_empty() && ingredients.iter().all(|i| of(i).is_some());
        if is_one || all_known {
            row.basis = Provenance::Derived;
        }
    }
    Ok(())
}

/// Whether an entry of the study file applies to a row: all keys in the entry must equal the row's.
fn matches(entry: &Record, row: &Wanted) -> bool {
    let key = &row.key;
    let text = |path: &str, has: &str| entry.text(path).is_none_or(|asked| asked == has);
    let number = |path: &str, has: Option<u32>| {
        entry.whole(path).is_none_or(|asked| has.map(u64::from) == Some(asked))
    };
    text("figure", &key.figure)
        && text("system", &key.system)
        && text("workload", &key.workload)
        && text("metric", &key.metric)
        && number("block", key.block_bytes)
        && number("depth", key.queue_depth)
        && number("threads", key.threads)
        && number("devices", key.devices)
}

/// Settings of a study file that may have been chosen to fit a published value: the length of a run and the size of
/// its data.
const SETTINGS: [&str; 2] = ["panels.over_time", "workloads.within"];

/// Reads the names of the parameters that were fitted to published values. Each name must be that of a parameter of a
/// device or server of the study, or be in [`SETTINGS`].
fn checked_by(file: &File, entry: &Record, parameters: &[Owned]) -> Result<Vec<String>, Problem> {
    let by = entry.items("by");
    if entry.word("is") == Some("fitted") && by.is_empty() {
        let message = "a fitted figure must name its parameters: `by` is missing";
        return Err(Problem::at(file, entry.place("is"), message, None));
    }
    let known = |item: &Entry| {
        let name = item.text().unwrap_or_default();
        let mut all = parameters.iter().map(|owned| owned.parameter.key).chain(SETTINGS);
        if all.clone().any(|key| key == name) {
            return Ok(name.to_owned());
        }
        let guess = nearest(name, &mut all).map(|n| format!("did you mean `{n}`?"));
        let message = format!("no device or server of the study has a parameter `{name}`");
        Err(Problem::at(file, item.span.clone(), message, guess))
    };
    by.iter().map(known).collect()
}
