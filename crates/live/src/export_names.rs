//! Names under which clients find the volumes.

/// Names of the volumes' exports: the names of the volumes, with a number from 1 if several are equal.
pub fn export_names<'a>(volumes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let volumes: Vec<&str> = volumes.collect();
    let alike = |of: &[&str], name: &str| of.iter().filter(|n| **n == name).count();
    let named = |(at, &name): (usize, &&str)| match alike(&volumes, name) {
        1 => name.to_owned(),
        _ => format!("{name}-{}", alike(&volumes[..=at], name)),
    };
    volumes.iter().enumerate().map(named).collect()
}
