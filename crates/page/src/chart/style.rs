//! Style sheet of charts: colours as CSS custom properties, in light and dark variants, and the rules that use them.
//!
//! Series have the colours of Okabe and Ito, which colour-blind readers can distinguish, with yellow, orange and sky
//! blue darkened on a light background; dashes distinguish the series as well. The ramp of heat maps is viridis: higher
//! values are darker on a light background and lighter on a dark one. `--hN` is colour N of the ramp, and `--iN` a
//! colour for text on it.

use std::sync::LazyLock;

const LIGHT: &str = include_str!("light.css");
const DARK: &str = include_str!("dark.css");
const RULES: &str = include_str!("rules.css");

/// CSS for a page with charts. Uses the reader's preference for light or dark, unless the root element has
/// `data-theme="dark"` or `data-theme="light"`. Print is light.
pub fn style() -> &'static str {
    concat!(
        ":root{\n",
        include_str!("light.css"),
        "}\n@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){\n",
        include_str!("dark.css"),
        "}}\n@media screen{:root[data-theme=dark]{\n",
        include_str!("dark.css"),
        "}}\n",
        include_str!("rules.css"),
    )
}

/// CSS of a stand-alone picture. Colours are inlined for SVG renderers without CSS custom properties.
pub(super) fn alone() -> &'static str {
    static STYLE: LazyLock<String> = LazyLock::new(|| {
        let mut out = RULES.to_owned();
        for (name, color) in properties(LIGHT) {
            out = out.replace(&format!("var({name})"), color);
        }
        out.push_str("@media screen and (prefers-color-scheme:dark){\n");
        for rule in RULES.lines().filter(|rule| rule.contains("var(")) {
            let (selector, declarations) = rule.split_once('{').unwrap_or((rule, ""));
            let colored: Vec<&str> = declarations
                .trim_end_matches('}')
                .split(';')
                .filter(|declaration| declaration.contains("var("))
                .collect();
            let mut line = format!("{selector}{{{}}}\n", colored.join(";"));
            for (name, color) in properties(DARK) {
                line = line.replace(&format!("var({name})"), color);
            }
            out.push_str(&line);
        }
        out.push_str("}\n");
        out
    });
    &STYLE
}

/// Names and values of the CSS custom properties in a style sheet.
fn properties(css: &str) -> impl Iterator<Item = (&str, &str)> {
    css.split([';', '\n']).filter_map(|declaration| declaration.split_once(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of a colour, as defined by WCAG 2.
    fn luminance(color: &str) -> f64 {
        let part = |at: usize| {
            let c = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(css: &str, a: &str, b: &str) -> f64 {
        let of = |name| luminance(properties(css).find(|(n, _)| *n == name).unwrap().1);
        let (a, b) = (of(a), of(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_is_legible_on_every_ground_and_no_color_is_missing() {
        for css in [LIGHT, DARK] {
            for level in 0..8 {
                let ratio = contrast(css, &format!("--i{level}"), &format!("--h{level}"));
                assert!(ratio >= 4.5, "level {level}: {ratio}");
            }
            for ink in ["ink", "dim", "good", "note", "warning", "bad"] {
                let ratio = contrast(css, &format!("--chart-{ink}"), "--chart-ground");
                assert!(ratio >= 4.5, "{ink}: {ratio}");
            }
            for color in 0..8 {
                let ratio = contrast(css, &format!("--c{color}"), "--chart-ground");
                assert!(ratio >= 2.6, "c{color}: {ratio}");
            }
        }
        assert!(!alone().contains("var("), "{}", alone());
        assert_eq!(properties(LIGHT).count(), properties(DARK).count());
    }
}
