//! Parses a drawn picture: its elements, the positions of its paths, its panels.

use iodyno_page::chart::{Look, scales_in, svg};
use iodyno_page::{Figure, Shape};
use roxmltree::{Document, Node};

pub(crate) const LOOKS: [Look; 3] = [Look::Embedded, Look::Small, Look::Alone];

pub(crate) fn parse(svg: &str) -> Document<'_> {
    Document::parse(svg).unwrap_or_else(|e| panic!("not well-formed: {e}\n{svg}"))
}

pub(crate) fn with_class<'a, 'i>(within: &Node<'a, 'i>, class: &str) -> Vec<Node<'a, 'i>> {
    let has = |node: &Node| {
        node.attribute("class").is_some_and(|c| c.split(' ').any(|part| part == class))
    };
    within.descendants().filter(has).collect()
}

/// All positions on a path with the commands `M m l h v z`, by subpath.
pub(crate) fn parts(d: &str) -> Vec<Vec<(f64, f64)>> {
    let mut numbers: Vec<String> = Vec::new();
    let mut commands: Vec<(char, Vec<f64>)> = Vec::new();
    let flush = |numbers: &mut Vec<String>, commands: &mut Vec<(char, Vec<f64>)>| {
        if let Some(last) = commands.last_mut() {
            last.1.extend(numbers.drain(..).map(|n| n.parse::<f64>().expect("a number")));
        }
    };
    for c in d.chars() {
        match c {
            'M' | 'm' | 'l' | 'h' | 'v' | 'z' | 'H' => {
                flush(&mut numbers, &mut commands);
                commands.push((c, Vec::new()));
            }
            '-' => numbers.push(c.to_string()),
            ' ' => numbers.push(String::new()),
            '0'..='9' | '.' => match numbers.last_mut() {
                Some(number) => number.push(c),
                None => numbers.push(c.to_string()),
            },
            other => panic!("{other:?} in a path: {d}"),
        }
        // A number directly after a letter begins afresh.
        if c.is_ascii_alphabetic() {
            numbers.clear();
        }
    }
    flush(&mut numbers, &mut commands);
    let mut out: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut at = (0.0, 0.0);
    for (command, n) in commands {
        let n: Vec<f64> = n;
        match command {
            'M' | 'm' => {
                let from = if command == 'M' { (0.0, 0.0) } else { at };
                at = (from.0 + n[0], from.1 + n[1]);
                out.push(vec![at]);
            }
            'z' => at = out.last().map_or(at, |part| part[0]),
            _ => {
                let step = if command == 'l' { 2 } else { 1 };
                for pair in n.chunks(step) {
                    at = match command {
                        'l' => (at.0 + pair[0], at.1 + pair[1]),
                        'h' => (at.0 + pair[0], at.1),
                        'H' => (pair[0], at.1),
                        _ => (at.0, at.1 + pair[0]),
                    };
                    out.last_mut().expect("a part").push(at);
                }
            }
        }
    }
    out
}

pub(crate) fn boxes(figure: &Figure, look: Look) -> Vec<[f64; 4]> {
    let scales = scales_in(figure, look);
    let panels = scales["panels"].as_array().unwrap();
    let side = |panel: &serde_json::Value, name: &str| panel["box"][name].as_f64().unwrap();
    panels
        .iter()
        .filter(|p| p["box"].is_object())
        .map(|p| {
            let (x, y) = (side(p, "x"), side(p, "y"));
            [x, y, x + side(p, "width"), y + side(p, "height")]
        })
        .collect()
}

/// Checks that every path inside the clipped groups lies in its panel's box.
pub(crate) fn assert_inside(figure: &Figure, look: Look) {
    let picture = svg(figure, look);
    let document = parse(&picture);
    for (panel, b) in with_class(&document.root(), "marks").iter().zip(boxes(figure, look)) {
        for path in panel.descendants().filter(|n| n.has_tag_name("path")) {
            for (x, y) in parts(path.attribute("d").unwrap()).into_iter().flatten() {
                assert!(
                    x >= b[0] - 0.15 && x <= b[2] + 0.15 && y >= b[1] - 0.15 && y <= b[3] + 0.15,
                    "{}: {x} {y} beyond {b:?}",
                    figure.id
                );
            }
        }
    }
}

/// A figure of a shape and nothing else.
pub(crate) fn bare(shape: Shape) -> Figure {
    Figure {
        id: "figure".to_owned(),
        title: "Title".to_owned(),
        summary: "Summary.".to_owned(),
        conditions: "conditions".to_owned(),
        shape,
        notes: Vec::new(),
    }
}
