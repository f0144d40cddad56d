//! The devices and systems of the catalog: each is read, and what the files name is there.

use iodyno_catalog::{Kind, Problem, find, list, parse};
use iodyno_emulate::describe::{self, DescribedDevice, DescribedSystem};

fn device(name: &str) -> DescribedDevice {
    let file = find(Kind::Device, name).unwrap_or_else(|problem| panic!("{problem}"));
    let raw = parse(&file).unwrap_or_else(|problem| panic!("{problem}"));
    describe::device(&file.name, &raw).unwrap_or_else(|errors| {
        let drawn = errors.iter().map(|e| {
            Problem::at(&file, e.span.clone(), e.message.as_str(), e.help.clone()).to_string()
        });
        panic!("{}", drawn.collect::<Vec<_>>().join("\n"))
    })
}

#[test]
fn a() {
    for (name, _) in list(Kind::Device) {
        println!("{:#?}", device(name));
    }
}
